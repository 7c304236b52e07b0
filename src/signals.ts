/**
 * Signals of the process: the first SIGTERM or SIGINT ends it in order, the second at once.
 */
import { constants } from 'node:os';
import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';

/** What ends with the process, and how long it may take. */
export interface Ending {
  readonly clock: Clock;
  readonly log: Logger;
  /** After which the process ends with 1 whatever still runs: a hook that hangs, a task that never settles. */
  readonly deadlineMs: number;
  close(): Promise<void>;
}

/** Closes and ends the process with 0 when told to end. Disposing takes the listeners off again. */
export function endOnSignals({ clock, log, deadlineMs, close }: Ending): Disposable {
  let isEnding = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isEnding) process.exit(128 + constants.signals[signal]);
    isEnding = true;
    log.info('signal', { signal });
    clock.after(deadlineMs, () => {
      log.error('shutdown_deadline_exceeded', new Error(`The application did not shut down within ${deadlineMs} ms`));
      process.exit(1);
    });
    close().then(() => process.exit(0), (error: unknown) => {
      log.error('shutdown_failed', error);
      process.exit(1);
    });
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return { [Symbol.dispose]: () => void process.off('SIGTERM', onSignal).off('SIGINT', onSignal) };
}
