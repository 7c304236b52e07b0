/**
 * The logger `svc_security`: events of refused requests, for intrusion detection. The number of lines is limited, whatever the
 * number of requests.
 *
 *   a client's address (IPv6: its /64) and an event       one line a minute; the next one has the number of omitted lines
 *   clients beyond the 10,000 that are remembered         one line a minute and event for all together
 */
import { LruIndex } from '../cache/lru.ts';
import { clientOf } from './request/proxy.ts';
import type { Logger } from '../observability/log.ts';
import type { HttpRequest, Services } from './contracts.ts';

/** Log state of a client. */
interface ReportRecord {
  /** Until then nothing more is. Never runs backwards. */
  untilMs: number;
  /** Lines left out since. */
  suppressed: number;
}

const MINUTE_MS = 60_000;
const MOST_CLIENTS = 10_000;
/** One client of IPv6 has a whole network (RFC 6177 §2). */
const IPV6_BITS = 64;

const logs = new WeakMap<Services, SecurityLog>();

/** Security log of an application. */
export class SecurityLog {
  readonly #log: Logger;
  readonly #services: Services;
  /** In the order in which their minutes end. */
  readonly #clients = new LruIndex(MOST_CLIENTS);
  /** By slot. */
  readonly #records: ReportRecord[] = [];
  /** Records of clients beyond the limit, by event name. */
  readonly #others = new Map<string, ReportRecord>();

  private constructor(services: Services) {
    this.#log = services.log.child('svc_security');
    this.#services = services;
  }

  /** Returns the log of an application; its parts share the state. */
  static of(services: Services): SecurityLog {
    let log = logs.get(services);
    if (log === undefined) logs.set(services, (log = new SecurityLog(services)));
    return log;
  }

  /** A line about a request that was refused, unless this minute has had one of its client. No credential may be in `fields`. */
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

  /** A line that is about no request alone. */
  warn(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.#log.warn(event, fields);
  }

  #recordOf(event: string, client: string, nowMs: number): ReportRecord {
    const key = `${event} ${client}`;
    const found = this.#clients.find(key);
    if (found !== 0) {
      const record = this.#records[found]!;
      if (nowMs >= record.untilMs) this.#clients.use(found); // its next minute begins
      return record;
    }
    if (this.#clients.isFull && nowMs < this.#records[this.#clients.oldest]!.untilMs)
      return this.#recordOfOthers(event);
    return (this.#records[this.#clients.isFull ? this.#clients.replaceOldest(key) : this.#clients.add(key)] =
      fresh());
  }

  #recordOfOthers(event: string): ReportRecord {
    let record = this.#others.get(event);
    if (record === undefined) this.#others.set(event, (record = fresh()));
    return record;
  }
}

/** Nothing yet. */
function fresh(): ReportRecord {
  return { untilMs: -Infinity, suppressed: 0 };
}
