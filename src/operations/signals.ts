/**
 * Signals of the process. The first SIGTERM or SIGINT stops the process gracefully; a second signal stops it
 * at once. Only SIGTERM, the signal of supervisors, is followed by the delay of {@link StopTimes}.
 *
 * SIGHUP reloads the TLS files, opens the log file again, or replaces the workers. If there is none of these,
 * or after the terminal was closed, SIGHUP stops the process.
 */
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { FLUSH_MS, exitAfterLog } from '../observability/log.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';

/** Times of a graceful stop in milliseconds. All parts of the stop share `totalMs`. */
export interface StopTimes {
  /**
   * Time after SIGTERM in which the server still accepts connections and requests, while `/readyz` responds
   * with 503. Balancers use this time to choose another server.
   */
  readonly delayMs: number;
  /** Maximum time for running requests, after the delay. */
  readonly drainMs: number;
  /** Time from the signal until the exit, with the time for the last log lines. */
  readonly totalMs: number;
}

/** Returns the part of a stop that is kept for the last log lines: a tenth, at most two seconds. */
export function lastLinesMs(totalMs: number, log: Logger): number {
  return log.flush === undefined ? 0 : Math.min(FLUSH_MS, totalMs / 10);
}

/**
 * Returns the time in milliseconds that handlers of cut requests have to end: a fifth of what the stop leaves for the hooks,
 * at most a second.
 */
export function lastWordsMs({ delayMs, drainMs, totalMs }: StopTimes): number {
  return Math.min(1_000, (totalMs - delayMs - drainMs) / 5);
}

/** Returns the time in milliseconds for which a process still accepts connections after a signal. */
export function delayAfter(signal: NodeJS.Signals | undefined, { delayMs }: StopTimes): number {
  return signal === 'SIGTERM' ? delayMs : 0;
}

/**
 * First step of a stop with a delay: calls `announce`, and waits. Meanwhile the server accepts connections.
 */
export async function announceStop(
  delayMs: number,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  announce: () => void,
): Promise<void> {
  log.info('stop_announced', { delay_ms: delayMs });
  announce();
  await clock.sleep(delayMs);
}

interface SignalActions {
  readonly log: Logger;
  /** Called once: on the first SIGTERM or SIGINT, or on a SIGHUP that stops the process. */
  end(signal: NodeJS.Signals): void;
  /** Called on the second signal, before the process exits. */
  readonly kill?: (() => void) | undefined;
  /** Called on SIGHUP. If undefined, and the logger has no reopen(), SIGHUP stops the process. */
  readonly renew?: (() => void) | undefined;
}

/** Listeners for the signals of the process. Disposing the object removes them. */
interface SignalWatch extends Disposable {
  /** Whether a signal is stopping the process. */
  readonly isEnding: boolean;
}

/** Adds listeners for SIGTERM, SIGINT and SIGHUP. */
export function onSignals({ log, end, kill, renew }: SignalActions): SignalWatch {
  const hadTerminal = isatty(0);
  let isEnding = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isEnding) {
      kill?.();
      process.exit(128 + constants.signals[signal]);
    }
    isEnding = true;
    log.info('signal', { signal });
    end(signal);
  };
  const onHangUp = (signal: NodeJS.Signals): void => {
    const isPointless = renew === undefined && log.reopen === undefined;
    if (isPointless || (hadTerminal && !isatty(0))) return onSignal(signal);
    log.info('signal', { signal });
    void reopen(log);
    renew?.();
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal).on('SIGHUP', onHangUp);
  return {
    get isEnding() {
      return isEnding;
    },
    [Symbol.dispose]: () =>
      void process.off('SIGTERM', onSignal).off('SIGINT', onSignal).off('SIGHUP', onHangUp),
  };
}

/** Opens the log file again. The first line of the new file says so. */
async function reopen(log: Logger): Promise<void> {
  if (log.reopen === undefined) return;
  try {
    await log.reopen();
    log.info('log_reopened');
  } catch (error) {
    log.error('log_reopen_failed', error);
  }
}

interface Ending {
  readonly clock: Clock;
  readonly log: Logger;
  /**
   * Time in milliseconds after which the process exits with status 1, even if hooks or tasks are still
   * running. It contains the time for the last log lines.
   */
  readonly deadlineMs: number;
  close(signal: NodeJS.Signals): Promise<void>;
  /** Called on SIGHUP to reload files. If undefined, SIGHUP stops the process. */
  readonly renew?: (() => void) | undefined;
}

/**
 * Calls `close` on the first SIGTERM or SIGINT, then exits with status 0. SIGHUP calls `renew`; without this
 * function, it stops the process. A second signal exits at once.
 */
export function endOnSignals({ clock, log, deadlineMs, close, renew }: Ending): SignalWatch {
  const end = (signal: NodeJS.Signals): void => {
    const logMs = lastLinesMs(deadlineMs, log);
    clock.after(deadlineMs - logMs, () => {
      log.error(
        'shutdown_deadline_exceeded',
        new Error(
          `The application did not shut down within ${deadlineMs - logMs} ms: check "onShutdown" hooks and background tasks`,
        ),
      );
      void exitAfterLog(1, log, logMs);
    });
    close(signal).then(
      () => exitAfterLog(0, log),
      (error: unknown) => {
        log.error('shutdown_failed', error);
        return exitAfterLog(1, log);
      },
    );
  };
  return onSignals({ log, end, renew });
}
