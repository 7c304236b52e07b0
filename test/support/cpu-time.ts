/**
 * CPU time of this process.
 */

/**
 * Returns the CPU time of all threads of this process in milliseconds. The difference of two readings is the
 * cost of the work in between. Unlike a clock, it does not count other processes on the machine.
 */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
