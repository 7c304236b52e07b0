/** The time of the processors that this process has taken. */

/**
 * Milliseconds of processors, of all threads of this process: the difference of two readings says what work has cost, also
 * where other processes are on the same machine, which a clock does not.
 */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
