/**
 * Writes events about refused requests to the logger `svc_security`, for intrusion detection. The number of
 * lines is limited, however many requests are refused.
 *
 * The security log has at most one line a minute for each client and event. A client is an IPv4 address or an
 * IPv6 /64 network. A line also contains the number of lines that were omitted since the last one. Only
 * 10,000 clients are remembered; all others share one line a minute for each event.
 */
import { onePer } from '../base/options.ts';
import { clientOf } from './request/proxy.ts';
import type { Logger } from '../observability/log.ts';
import type { HttpRequest, Services } from './contracts.ts';

interface ReportRecord {
  /** Time before which no further line is written, in milliseconds of the monotonic clock. */
  untilMs: number;
  /** Number of lines that were omitted since the last line. */
  suppressed: number;
}

const MINUTE_MS = 60_000;
const MOST_CLIENTS = 10_000;

export class SecurityLog {
  readonly #log: Logger;
  readonly #services: Services;
  /** For each event and client, when a line may be written again. Ordered by `untilMs`. */
  readonly #records = new Map<string, ReportRecord>();
  /** For each event, when a line about clients beyond `MOST_CLIENTS` may be written again. */
  readonly #others = new Map<string, ReportRecord>();

  private constructor(services: Services) {
    this.#log = services.log.child('svc_security');
    this.#services = services;
  }

  /** Returns the security log of the application with these services; always the same object. */
  static readonly of: (services: Services) => SecurityLog = onePer((services) => new SecurityLog(services));

  /**
   * Writes a line about a refused request. Omits it if the last line about this event and client is less than
   * a minute old. `fields` must not contain credentials.
   */
  refused(event: string, req: HttpRequest, fields: Readonly<Record<string, unknown>> = {}): void {
    const nowMs = this.#services.clock.monotonicMs();
    const record = this.#recordOf(event, clientOf(req.ip), nowMs);
    if (nowMs < record.untilMs) {
      record.suppressed++;
      return;
    }
    const suppressed = record.suppressed === 0 ? undefined : record.suppressed;
    record.untilMs = nowMs + MINUTE_MS;
    record.suppressed = 0;
    this.#log.warn(event, {
      ...fields,
      request_id: req.id,
      address: req.ip,
      method: req.method,
      route: req.route?.template,
      suppressed,
    });
  }

  /** Writes a line that does not belong to a request, without any limit. */
  warn(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.#log.warn(event, fields);
  }

  #recordOf(event: string, client: string, nowMs: number): ReportRecord {
    const key = `${event} ${client}`;
    const found = this.#records.get(key);
    // `untilMs` does not change, so the record keeps its place in the map, which is ordered by `untilMs`
    if (found !== undefined && nowMs < found.untilMs) return found;
    if (found === undefined && this.#records.size === MOST_CLIENTS) {
      const [[oldest, { untilMs }]] = this.#records as unknown as [[string, ReportRecord]];
      if (nowMs < untilMs) return this.#recordOfOthers(event);
      this.#records.delete(oldest);
    }
    const record = found ?? fresh();
    this.#records.delete(key);
    this.#records.set(key, record);
    return record;
  }

  #recordOfOthers(event: string): ReportRecord {
    let record = this.#others.get(event);
    if (record === undefined) this.#others.set(event, (record = fresh()));
    return record;
  }
}

function fresh(): ReportRecord {
  return { untilMs: -Infinity, suppressed: 0 };
}
