/**
 * Verdicts that rest on a clock, in soaks: a machine that does other things is late once; what is slow of itself is so again.
 */

/** Failures of a measurement. If there are any it is repeated once, and the second result counts. Both are printed. */
export async function confirmed(measure: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const first = await measure();
  if (first.length === 0) return first;
  console.log(`too late, so it is measured once more: ${first.join('; ')}`);
  return measure();
}
