/**
 * CPU time of this process and of its thread.
 */

/**
 * Returns the CPU time of all threads of this process in milliseconds. The difference of two readings is the
 * cost of the work in between. Unlike a clock, it does not count other processes on the machine.
 */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/**
 * Returns the CPU time of the calling thread in milliseconds. Unlike cpuMs(), it leaves out the threads that
 * compile and collect garbage, whose share changes from run to run.
 */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
