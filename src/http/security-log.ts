/**
 * The logger `svc_security` writes events of refused requests, for intrusion detection. The number of its
 * lines is limited, however many requests are refused.
 *
 * For each event and client (IPv6: /64 network) at most one line is written a minute. The next line has the
 * number of lines that were omitted. 10,000 clients are remembered; all further clients share one line a
 * minute for each event.
 */
import { clientOf } from './request/proxy.ts';
import type { Logger } from '../observability/log.ts';
import type { HttpRequest, Services } from './contracts.ts';

interface ReportRecord {
  /** Until this time no further line is written. */
  untilMs: number;
  /** Number of lines omitted since the last one. */
  suppressed: number;
}

const MINUTE_MS = 60_000;
const MOST_CLIENTS = 10_000;
/** Prefix length of the network that counts as one IPv6 client (RFC 6177 §2). */
const IPV6_BITS = 64;

const logs = new WeakMap<Services, SecurityLog>();

/** Security log of an application. */
export class SecurityLog {
  readonly #log: Logger;
  readonly #services: Services;
  /** Records by event and client, in the order of `untilMs`. */
  readonly #records = new Map<string, ReportRecord>();
  /** Records of clients beyond the limit, by event name. */
  readonly #others = new Map<string, ReportRecord>();

  private constructor(services: Services) {
    this.#log = services.log.child('svc_security');
    this.#services = services;
  }

  /** Returns the security log of an application: all callers share one. */
  static of(services: Services): SecurityLog {
    let log = logs.get(services);
    if (log === undefined) logs.set(services, (log = new SecurityLog(services)));
    return log;
  }

  /**
   * Writes a line about a refused request, unless the client's last line for this event is less than a minute
   * old. `fields` must not contain credentials.
   */
  refused(event: string, req: HttpRequest, fields: Readonly<Record<string, unknown>> = {}): void {
    const nowMs = this.#services.clock.monotonicMs();
    const record = this.#recordOf(event, clientOf(req.ip, IPV6_BITS), nowMs);
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

  /** Writes a line that does not concern one request. */
  warn(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.#log.warn(event, fields);
  }

  #recordOf(event: string, client: string, nowMs: number): ReportRecord {
    const key = `${event} ${client}`;
    const found = this.#records.get(key);
    // a record whose minute is not over keeps its place in the order
    if (found !== undefined && nowMs < found.untilMs) return found;
    if (found === undefined && this.#records.size === MOST_CLIENTS) {
      // the cast is safe: the map is full, so it has a first entry
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

/** Initial state of a client for which no line was written. */
function fresh(): ReportRecord {
  return { untilMs: -Infinity, suppressed: 0 };
}
