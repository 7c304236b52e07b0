/**
 * The access log: one line for each request, written after its response was sent or its client has
 * disconnected.
 *
 * Example of a log line:
 *   {"time":...,"level":"info","logger":"svc_access","event":"request","method":"GET","route":"/notes/{id}","path":"/notes/7",
 *    "status":200,"duration_ms":1.42,"bytes":31,"request_id":...,"ip":"203.0.113.7","user_agent":"curl/8.5.0"}
 *
 * A log line never contains the query, header fields other than `User-Agent`, or a body. If a path parameter
 * has the name of a secret, for example `token`, the line shows the route's template instead of the path.
 * Requests to `/healthz`, `/readyz` and `/metrics` are not logged. `"aborted":true` means that the response
 * was not sent completely.
 */
import { MAX_AGENT_CHARACTERS, hasSecret } from '../request/delivery.ts';
import type { Delivery } from '../request/delivery.ts';
import type { Logger } from '../../observability/log.ts';
import type { TransportRequest } from '../request/request.ts';

export const ACCESS_LOG_NEEDS =
  'true, false, or a number 0 … 1: the fraction of the requests that get a log line';

/**
 * Returns the fraction 0 ... 1 that the setting `accessLog` means, also as text; undefined if it is invalid.
 */
export function readShare(value: unknown): number | undefined {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string')
    return (
      WORDS.get(value.toLowerCase()) ??
      (/^(?:[01]|[01]?\.\d+)$/.test(value) ? readShare(Number(value)) : undefined)
    );
  return typeof value === 'number' && value >= 0 && value <= 1 ? value : undefined;
}

const WORDS: ReadonlyMap<string, number> = new Map([
  ['true', 1],
  ['yes', 1],
  ['on', 1],
  ['false', 0],
  ['no', 0],
  ['off', 0],
]);

/** Paths that are not logged, because load balancers and monitoring request them every few seconds. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);
const SERVER_ERROR = 500;

export class AccessLog {
  readonly #log: Logger;
  readonly #share: number;
  /** Sum of the shares of all requests. When it reaches 1, the request is logged, and 1 is subtracted. */
  #due = 0;

  /**
   * `share`: fraction of logged requests, 0 ... 1. Responses with a status of 500 or above are always logged.
   */
  constructor(log: Logger, share: number) {
    this.#log = log.child('svc_access');
    this.#share = share;
  }

  /** Logs a request whose response was sent completely (`isDelivered`), or whose client has disconnected. */
  write(req: TransportRequest, { status, durationMs, bytes }: Delivery, isDelivered: boolean): void {
    const { route } = req;
    if ((route !== undefined && PROBES.has(route.template)) || !this.#isDue(status)) return;
    this.#log.info('request', {
      method: req.method,
      route: route?.template,
      path: route !== undefined && hasSecret(route) ? route.template : req.path,
      status,
      duration_ms: Math.round(durationMs * 100) / 100,
      bytes,
      request_id: req.id,
      trace_id: req.knownTraceId,
      span_id: req.span?.spanId,
      ip: req.ip,
      user_agent: req.field('user-agent')?.slice(0, MAX_AGENT_CHARACTERS),
      aborted: isDelivered ? undefined : true,
    });
  }

  #isDue(status: number): boolean {
    if (status >= SERVER_ERROR || this.#share === 1) return true;
    this.#due += this.#share;
    if (this.#due < 1) return false;
    this.#due -= 1;
    return true;
  }
}
