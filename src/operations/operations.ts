/**
 * The endpoints `/healthz` (the process runs), `/readyz` (the application can serve requests) and `/metrics`
 * (Prometheus text).
 *
 * Responses:
 *   /healthz   200 {"status":"ok"}
 *   /readyz    200 or 503 {"status":"ready" | "unready","checks":{name:{"status":"up" | "down","latency_ms":n}}}
 *   /metrics   200 with Prometheus text; in production, 403 for clients with public addresses, unless
 *              `ops.metrics.auth` or `ops.metrics.port` is set
 */
import { Forbidden, Unauthorized } from '../base/errors.ts';
import { DescriptorWatch } from '../observability/descriptors.ts';
import { EventLoopDelay } from '../observability/event-loop.ts';
import { given, isObject, readOptions, text, optionalInt } from '../base/options.ts';
import { within } from '../base/promises.ts';
import { isSameSecret } from '../crypto/keys.ts';
import { ConnectionMeter } from '../http/server/connection-meter.ts';
import { isPrivatePeer } from '../http/request/proxy.ts';
import { HttpResponse, JSON_TYPE } from '../http/response.ts';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Logger } from '../observability/log.ts';
import type { CounterSlot, HistogramSlot, MetricsRegistry } from '../observability/metrics.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { Tally, TransportRequest } from '../http/request/request.ts';

/** Access to `/metrics`, and its port. */
interface MetricsAccess {
  /**
   * A bearer token of at least 16 characters, or a function that returns true to grant access. Default: in
   * production, only clients with loopback and private addresses have access.
   */
  readonly auth?: string | ((req: HttpRequest) => Awaitable<boolean>) | undefined;
  /**
   * Port that serves only `/metrics`. If it is set, the port of the application does not serve `/metrics`.
   */
  readonly port?: number | undefined;
  /** Address on which the separate port for `/metrics` listens. Default `127.0.0.1`. */
  readonly host?: string | undefined;
}

/** Access to `/docs` and `/openapi.json`, if they are served. */
interface DocsAccess {
  /**
   * A bearer token of at least 16 characters, or a function that returns true to grant access. The function
   * may read the session. Default: everyone has access.
   */
  readonly auth?: string | ((req: HttpRequest) => Awaitable<boolean>) | undefined;
}

/** Access to `/metrics` and to the documentation: the type of {@link SvcOptions.ops}. */
export interface OpsOptions {
  readonly metrics?: MetricsAccess | undefined;
  readonly docs?: DocsAccess | undefined;
}

/** Maximum time in milliseconds for one check of `/readyz`. */
const PROBE_TIMEOUT_MS = 2_000;
/** Upper limits of the histogram of request durations, in seconds; +Inf is added. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Methods with a metric series; all others share one, so that clients cannot create any. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

type Probe = (signal: AbortSignal) => Awaitable<void>;

interface OperationsDeps {
  readonly env: () => Env;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  readonly options: OpsOptions;
}

/** Responds to `/healthz`, `/readyz` and `/metrics`, and counts requests. */
export class Operations {
  /** Whether the shutdown has begun, so that `/readyz` responds with 503. */
  isStopping = false;
  readonly connections: ConnectionMeter;
  readonly descriptors: DescriptorWatch;
  readonly access: { readonly port: number | undefined; readonly host: string };
  /** A `#` field, so that console.log() does not show the token. */
  readonly #auth: MetricsAccess['auth'];
  readonly #docsAuth: DocsAccess['auth'];
  readonly #deps: OperationsDeps;
  readonly #probes = new Map<string, Probe>();
  readonly #requests: ReturnType<MetricsRegistry['counter']>;
  readonly #durations: ReturnType<MetricsRegistry['histogram']>;
  readonly #series = new Map<string, Map<string, RouteSeries>>();
  /** Returns the metrics; a worker replaces this function, for all workers. */
  renderMetrics: () => Awaitable<string>;
  inFlight: () => number = () => 0;
  #isDelayRegistered = false;
  #round: Promise<{ readonly isReady: boolean; readonly body: string }> | undefined;

  constructor(deps: OperationsDeps) {
    const { metrics: access, docs } = readOptions('ops', deps.options, {
      metrics: given<MetricsAccess>('an object', isObject),
      docs: given<DocsAccess>('an object', isObject),
    });
    const { auth, port, host } = readOptions('ops.metrics', access ?? {}, {
      auth: AUTH,
      port: optionalInt(0, 65_535),
      host: text('127.0.0.1'),
    });
    this.access = { port, host };
    this.#auth = auth;
    this.#docsAuth = readOptions('ops.docs', docs ?? {}, { auth: AUTH }).auth;
    this.#deps = deps;
    this.renderMetrics = () => deps.metrics.render();
    this.#requests = deps.metrics.counter(
      'svc_requests_total',
      'Responses, by method, route template and status of the response',
      ['method', 'route', 'status'],
    );
    this.#durations = deps.metrics.histogram(
      'svc_request_duration_seconds',
      'Time from the start of a request to its response',
      DURATION_BUCKETS,
      ['method', 'route'],
    );
    this.connections = new ConnectionMeter(deps.metrics);
    this.descriptors = new DescriptorWatch(deps.log, deps.metrics, deps.clock);
    const startedMs = deps.clock.monotonicMs();
    deps.metrics.gauge(
      'svc_uptime_seconds',
      'Seconds since the application object was created',
      () => (deps.clock.monotonicMs() - startedMs) / 1_000,
      'max',
    );
    deps.metrics.gauge('svc_requests_in_flight', 'Requests that have arrived and have no response yet', () =>
      this.inFlight(),
    );
  }

  /** Begins to measure the delay of the event loop. Disposing the result ends the measurement. */
  watchEventLoop(): Disposable {
    const delay = EventLoopDelay.of(this.#deps.metrics);
    if (!this.#isDelayRegistered) {
      this.#isDelayRegistered = true;
      this.#deps.metrics.gauge(
        'svc_event_loop_delay_seconds',
        'The 99th percentile of the delay of timers since the previous scrape',
        () => delay.takePercentile(),
        'max',
      );
    }
    return delay.watch();
  }

  /** The function in `ops.metrics.auth`; undefined if that option is a token or missing. */
  get guard(): ((...args: never[]) => unknown) | undefined {
    return typeof this.#auth === 'function' ? this.#auth : undefined;
  }

  /** Adds a check to `/readyz`. A check with the same name is replaced. */
  probe(name: string, probe: Probe): void {
    this.#probes.set(name, probe);
  }

  /** Counts a response. All paths without a route share one series. */
  count(
    { method, match }: Pick<TransportRequest, 'method' | 'match'>,
    status: number,
    durationMs: number,
  ): void {
    if (match.kind !== 'found') return this.#seriesOf(method, '').count(status, durationMs);
    const { endpoint } = match;
    const { route } = endpoint;
    const tally =
      route.method === method
        ? (endpoint.tally ??= this.#seriesOf(method, route.template))
        : this.#seriesOf(method, route.template);
    tally.count(status, durationMs);
  }

  #seriesOf(method: string, template: string): RouteSeries {
    const label = METHODS.has(method) ? method : 'OTHER';
    let ofMethod = this.#series.get(label);
    if (ofMethod === undefined) this.#series.set(label, (ofMethod = new Map()));
    let series = ofMethod.get(template);
    if (series === undefined)
      ofMethod.set(
        template,
        (series = new RouteSeries(this.#durations.slot(label, template), (status) =>
          this.#requests.slot(label, template, String(status)),
        )),
      );
    return series;
  }

  health(): HttpResponse {
    return new HttpResponse('{"status":"ok"}', { mediaType: JSON_TYPE, headers: NOT_STORED });
  }

  /** Responds to `/readyz`. Simultaneous requests share the results of the checks. */
  async readiness(): Promise<HttpResponse> {
    const round = (this.#round ??= this.#probeAll().finally(() => {
      this.#round = undefined;
    }));
    const { isReady, body } = await round;
    return new HttpResponse(body, { status: isReady ? 200 : 503, mediaType: JSON_TYPE, headers: NOT_STORED });
  }

  /** Responds to `/metrics`. */
  async metrics(req: HttpRequest): Promise<HttpResponse> {
    await this.#mayRead(req);
    return new HttpResponse(await this.renderMetrics(), {
      mediaType: 'text/plain; version=0.0.4; charset=utf-8',
      headers: NOT_STORED,
    });
  }

  /** Checks access to `/docs` and `/openapi.json`, then calls `answer`. */
  document(req: HttpRequest, answer: () => Awaitable<HttpResponse>): Awaitable<HttpResponse> {
    const auth = this.#docsAuth;
    return auth === undefined ? answer() : assertAuthorized(req, auth).then(answer);
  }

  /** Whether `/docs` and `/openapi.json` can be read without a token. */
  get hasPublicDocs(): boolean {
    return this.#docsAuth === undefined;
  }

  async #mayRead(req: HttpRequest): Promise<void> {
    const auth = this.#auth;
    if (auth !== undefined) return assertAuthorized(req, auth);
    if (this.#deps.env() === 'production' && this.access.port === undefined && !isPrivateRequest(req)) {
      throw new Forbidden('Metrics are served only to clients with a loopback or private IP address');
    }
  }

  async #probeAll(): Promise<{ isReady: boolean; body: string }> {
    const results = await Promise.all(
      [...this.#probes].map(async ([name, probe]) => [name, await this.#probeOne(name, probe)] as const),
    );
    const isReady = !this.isStopping && results.every(([, result]) => result.status === 'up');
    return {
      isReady,
      body: JSON.stringify({ status: isReady ? 'ready' : 'unready', checks: Object.fromEntries(results) }),
    };
  }

  async #probeOne(name: string, probe: Probe): Promise<{ status: 'up' | 'down'; latency_ms: number }> {
    const { clock } = this.#deps;
    const startedMs = clock.monotonicMs();
    const abort = new AbortController();
    const latency = (): number => Math.round(clock.monotonicMs() - startedMs);
    try {
      const probing = Promise.try(probe, abort.signal);
      await within(clock, PROBE_TIMEOUT_MS, probing, () => {
        const late = new Error(`The readiness check took longer than ${PROBE_TIMEOUT_MS} ms`);
        abort.abort(late);
        throw late;
      });
      return { status: 'up', latency_ms: latency() };
    } catch (error) {
      this.#deps.log.error('probe_failed', error, { probe: name });
      return { status: 'down', latency_ms: latency() };
    }
  }
}

const AUTH = given<NonNullable<MetricsAccess['auth']>>(
  'a token of 16 characters or more, or a function',
  (value) => typeof value === 'function' || (typeof value === 'string' && value.length >= 16),
);

/**
 * Checks that a request contains the token, or that the function grants it access.
 * @throws Unauthorized when the token is wrong or missing, Forbidden when the function does not return true
 */
async function assertAuthorized(req: HttpRequest, auth: NonNullable<MetricsAccess['auth']>): Promise<void> {
  if (typeof auth !== 'string') {
    if (!(await auth(req))) throw new Forbidden();
    return;
  }
  const token = /^Bearer +(.+)$/i.exec(req.headers['authorization'] ?? '')?.[1];
  if (token === undefined || !isSameSecret(token, auth))
    throw new Unauthorized(undefined, { headers: { 'WWW-Authenticate': 'Bearer' } });
}

const NOT_STORED = { 'Cache-Control': 'no-store' };

/** Counts the responses of one method of one route. */
class RouteSeries implements Tally {
  readonly #duration: HistogramSlot;
  readonly #slotOf: (status: number) => CounterSlot;
  readonly #byStatus = new Map<number, CounterSlot>();
  /** Status of the last response. `#slot` is the counter for this status. */
  #status = 0;
  #slot: CounterSlot | undefined;

  constructor(duration: HistogramSlot, slotOf: (status: number) => CounterSlot) {
    this.#duration = duration;
    this.#slotOf = slotOf;
  }

  count(status: number, durationMs: number): void {
    // `#slot` is defined, because it was set together with `#status`
    (this.#status === status ? this.#slot! : this.#slotFor(status)).add(1);
    this.#duration.observe(durationMs / 1_000);
  }

  #slotFor(status: number): CounterSlot {
    let slot = this.#byStatus.get(status);
    if (slot === undefined) this.#byStatus.set(status, (slot = this.#slotOf(status)));
    this.#status = status;
    return (this.#slot = slot);
  }
}

/** Header fields that proxies add. A request with such a field does not count as private. */
const PROXY_FIELDS = [
  'forwarded',
  'via',
  'x-real-ip',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
];

/** Returns whether a request comes from a private address, without a proxy in front. */
function isPrivateRequest(req: HttpRequest): boolean {
  return isPrivatePeer(req.ip) && PROXY_FIELDS.every((name) => req.headers[name] === undefined);
}
