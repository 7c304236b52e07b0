/**
 * Repeats failed measurements of time in soaks: a busy machine is late once, slow code is late again.
 */

/**
 * Returns the failures of a measurement. If there are any, the measurement is repeated once, and the second
 * result counts. Both are printed.
 */
export async function confirmed(measure: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const first = await measure();
  if (first.length === 0) return first;
  console.log(`too late, so it is measured once more: ${first.join('; ')}`);
  return measure();
}
