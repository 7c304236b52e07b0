/**
 * Signals of the process: the first SIGTERM or SIGINT ends it in order, the second at once. SIGHUP renews what can be renewed,
 * unless it means that the terminal is gone; without anything to renew it ends the process, as it does by itself.
 */
import { constants } from 'node:os';
import { isTerminal } from '../observability/log-sink.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';

/** What ends with the process, and how long it may take. */
export interface Ending {
  readonly clock: Clock;
  readonly log: Logger;
  /** After which the process ends with 1 whatever still runs: a hook that hangs, a task that never settles. */
  readonly deadlineMs: number;
  close(): Promise<void>;
  /** On SIGHUP. */
  readonly renew?: (() => void) | undefined;
}

/** Listeners for the signals of a process; disposing takes them off again. */
export interface SignalWatch extends Disposable {
  /** Whether the process is about to end. */
  readonly isEnding: boolean;
}

/** Closes and ends the process with 0 when told to end. */
export function endOnSignals({ clock, log, deadlineMs, close, renew }: Ending): SignalWatch {
  const hadTerminal = renew !== undefined && isTerminal(0);
  let isEnding = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isEnding) process.exit(128 + constants.signals[signal]);
    isEnding = true;
    log.info('signal', { signal });
    clock.after(deadlineMs, () => {
      log.error(
        'shutdown_deadline_exceeded',
        new Error(`The application did not shut down within ${deadlineMs} ms`),
      );
      process.exit(1);
    });
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error('shutdown_failed', error);
        process.exit(1);
      },
    );
  };
  const onHangUp = (signal: NodeJS.Signals): void => {
    if (hadTerminal && !isTerminal(0)) return onSignal(signal);
    log.info('signal', { signal });
    renew!(); // or it would not be listened for
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  if (renew !== undefined) process.on('SIGHUP', onHangUp);
  return {
    get isEnding() {
      return isEnding;
    },
    [Symbol.dispose]: () =>
      void process.off('SIGTERM', onSignal).off('SIGINT', onSignal).off('SIGHUP', onHangUp),
  };
}
