/**
 * Watches whether the process has free file descriptors: connections and open files need one each.
 *
 * If there is none, the operating system closes new connections without an error in this process. So a timer
 * opens a file every five seconds. Failed requests report here, too. All reports are one counter, and at most
 * one log event a minute.
 */
import { open } from 'node:fs/promises';
import { errorCode } from '../base/errors.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from './log.ts';
import type { Counter, Metrics } from './metrics.ts';

const EXHAUSTED: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE']);
const MAX_CAUSES = 8;
const PROBE_MS = 5_000;
const PAUSE_MS = 60_000;
/** Delay of the check at the start. Reading the limit takes up to 10 ms, so it comes after the first requests. */
const FIRST_MS = 1_000;

/** Whether an error, or one of its causes, says that there was no free file descriptor. */
export function lacksDescriptors(error: unknown): boolean {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++) {
    const code = errorCode(at);
    if (EXHAUSTED.has(code)) return true;
    // import() of Node fails with this code if it cannot open a package.json
    if (code === 'ERR_INVALID_PACKAGE_CONFIG' && /too many open files/i.test(at.message)) return true;
    at = at.cause;
  }
  return false;
}

/** Returns the maximum number of open files of this process (`ulimit -n`); undefined if it is unlimited. */
function openFileLimit(): number | undefined {
  // the cast is needed, because the types of Node do not declare this documented member
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  const before = report.excludeNetwork;
  report.excludeNetwork = true; // without this, the report would look up the names of all peers
  try {
    const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
    const soft = userLimits?.open_files?.soft;
    return typeof soft === 'number' ? soft : undefined;
  } finally {
    report.excludeNetwork = before;
  }
}

/** Functions of the system, which a test replaces. */
interface DescriptorSystem {
  /** Opens and closes a file. */
  probe(): Promise<void>;
  limit(): number | undefined;
}

const SYSTEM: DescriptorSystem = {
  probe: async () => (await open(process.execPath)).close(),
  limit: openFileLimit,
};

export class DescriptorWatch {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #system: DescriptorSystem;
  readonly #count: Counter;
  #reportedMs = -Infinity;
  #suppressed = 0;

  constructor(log: Logger, metrics: Metrics, clock: Clock, system: DescriptorSystem = SYSTEM) {
    this.#log = log;
    this.#clock = clock;
    this.#system = system;
    this.#count = metrics.counter(
      'svc_descriptors_exhausted_total',
      'Failed requests and probes for which the process had no free file descriptor',
    );
  }

  /** Counts an error for which {@link lacksDescriptors} is true, and logs it at most once a minute. */
  report(error: unknown, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#count.add(1);
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#reportedMs < PAUSE_MS) {
      this.#suppressed++;
      return;
    }
    const suppressed = this.#suppressed === 0 ? undefined : this.#suppressed;
    this.#reportedMs = nowMs;
    this.#suppressed = 0;
    this.#log.error('descriptors_exhausted', error, { ...fields, suppressed, remedy: REMEDY });
  }

  /** Checks the limit of the process once, and then regularly opens a file. Disposing the result ends this. */
  watch(maxConnections: number): Disposable {
    const clock = this.#clock;
    const probe = (): void => {
      timer = clock.after(PROBE_MS, probe);
      this.#system.probe().catch((error: unknown) => {
        if (lacksDescriptors(error)) this.report(error);
      });
    };
    let timer = clock.after(FIRST_MS, () => {
      const limit = this.#system.limit();
      if (limit !== undefined && limit < maxConnections)
        this.#log.warn('descriptor_limit_low', { limit, max_connections: maxConnections, remedy: REMEDY });
      probe();
    });
    return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
  }
}

const REMEDY =
  'Raise the limit of open files above maxConnections (ulimit -n, LimitNOFILE= of systemd), or lower maxConnections';
