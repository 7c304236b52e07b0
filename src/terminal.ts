/**
 * Whether a descriptor is a terminal. A file of its own, for a server has none as a rule, and nothing else loads node:tty: 2 million
 * instructions, a fiftieth of what the package costs until the first answer.
 */
import { isatty } from 'node:tty';

/** Whether somebody sits at it; false once the terminal is gone. */
export function isTerminal(descriptor: number): boolean {
  return isatty(descriptor);
}
