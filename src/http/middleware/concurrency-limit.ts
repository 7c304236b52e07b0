/**
 * Load shedding: refuses requests that exceed the capacity of the process, so that it can respond to the
 * other requests in time.
 *
 * While the mean delay of the event loop exceeds maxEventLoopDelayMs, every request gets 503. At all other
 * times, up to `max` requests run at once, and up to `queue` further requests wait for at most maxQueueMs.
 * All other requests get 503 with Retry-After.
 *
 * A request counts as running until its handler has returned, even if its time limit has passed or its client
 * has disconnected. It no longer counts while its response body is being sent.
 */
import { EventLoopDelay } from '../../observability/event-loop.ts';
import { given, int, onePer, readOptions } from '../../base/options.ts';
import { OneApplication } from '../pipeline.ts';
import { HttpResponse, problem } from '../response.ts';
import { TransportRequest } from '../request/request.ts';
import type { Clock } from '../../base/clock.ts';
import type { Finding } from '../../base/findings.ts';
import type { Logger } from '../../observability/log.ts';
import type { Counter, Metrics } from '../../observability/metrics.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';

/** Options of {@link ConcurrencyLimitMiddleware}. An option that is `undefined` has its default. */
export interface ConcurrencyLimitOptions {
  /** Maximum number of requests that run at once, 1 ... 1_000_000. Default 100. */
  readonly max?: number | undefined;
  /** Maximum number of waiting requests, 0 ... 1_000_000, first in, first out. Default 0. */
  readonly queue?: number | undefined;
  /** Maximum time in milliseconds that a request waits before it is refused, 1 ... 600_000. Default 1_000. */
  readonly maxQueueMs?: number | undefined;
  /**
   * Mean delay of the event loop in milliseconds above which all requests are refused, 1 ... 60_000; false:
   * no limit. Default 200. The delay is measured while the application listens.
   */
  readonly maxEventLoopDelayMs?: number | false | undefined;
  /** Value of `Retry-After` in seconds, 1 ... 3_600. Default 1. */
  readonly retryAfterSeconds?: number | undefined;
}

type Reason = 'concurrency' | 'queue_timeout' | 'event_loop_delay';

/** They may access a store, in vain for a refused request, so they must be registered after this one. */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set(['session', 'csrf', 'idempotency']);
const MINUTE_MS = 60_000;

/** Counters that are shared by all instances of this middleware in an application. */
interface Load {
  readonly shed: Counter;
  queued: number;
}

const loadOf = onePer((metrics: Metrics): Load => {
  const shed = metrics.counter(
    'svc_requests_shed_total',
    'Requests refused because the process was overloaded, by reason',
    ['reason'],
  );
  const load = { shed, queued: 0 };
  metrics.gauge('svc_requests_queued', 'Requests that wait for other requests to end', () => load.queued);
  return load;
});

/**
 * Refuses requests beyond the capacity of the process. Routes with `meta: { loadShedding: false }`, such as
 * `/healthz`, `/readyz` and `/metrics`, are never refused and do not count.
 */
export class ConcurrencyLimitMiddleware implements Middleware {
  readonly kind = 'concurrency-limit';
  readonly #application = new OneApplication();
  readonly #limits: { readonly max: number; readonly queue: number; readonly maxQueueMs: number };
  readonly #maxDelayMs: number;
  readonly #retryAfter: string;
  /** For each waiting request, the function that starts it. The oldest request comes first. */
  readonly #waiting = new Set<() => void>();
  #running = 0;
  /** Number of requests refused since the last log line, which is written at most once a minute. */
  #unsaid = 0;
  #saidMs = -Infinity;
  #clock!: Clock;
  #log!: Logger;
  #load!: Load;
  #delay!: EventLoopDelay;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: ConcurrencyLimitOptions = {}) {
    const {
      maxEventLoopDelayMs = 200,
      retryAfterSeconds,
      ...limits
    } = readOptions('ConcurrencyLimitMiddleware', options, {
      max: int(100, 1, 1_000_000),
      queue: int(0, 0, 1_000_000),
      maxQueueMs: int(1_000, 1, 600_000),
      retryAfterSeconds: int(1, 1, 3_600),
      maxEventLoopDelayMs: given<number | false>(
        'false or an integer 1 … 60000',
        (value) => value === false || int(1, 1, 60_000).accepts(value),
      ),
    });
    this.#limits = limits;
    this.#maxDelayMs = maxEventLoopDelayMs === false ? Infinity : maxEventLoopDelayMs;
    this.#retryAfter = String(retryAfterSeconds);
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    if (req.route?.meta['loadShedding'] === false) return next();
    if (this.#maxDelayMs !== Infinity && this.#delay.recentMs(this.#clock.monotonicMs()) > this.#maxDelayMs)
      return this.#shed(req, 'event_loop_delay');
    if (this.#running < this.#limits.max) return this.#run(req, next);
    return this.#waiting.size < this.#limits.queue ? this.#wait(req, next) : this.#shed(req, 'concurrency');
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const subject = 'middleware concurrency-limit';
    const stranger = this.#application.claim(subject, view);
    if (stranger !== undefined) return yield stranger;
    const { clock, log, metrics } = view.services;
    this.#clock = clock;
    this.#log = log;
    this.#load = loadOf(metrics);
    this.#delay = EventLoopDelay.of(metrics);
    const outer = view.middleware
      .slice(0, view.middleware.indexOf(this))
      .find((layer) => INSIDE.has(layer.kind));
    if (outer === undefined) return;
    yield {
      rule: 'SVC121',
      severity: 'warning',
      subject,
      message: `the middleware "${outer.kind}" runs before ConcurrencyLimitMiddleware, and so works even for requests that ConcurrencyLimitMiddleware refuses`,
      remedy: `Register ConcurrencyLimitMiddleware before ${outer.constructor.name}`,
    };
  }

  #run(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    this.#running++;
    const answer = next();
    if (answer instanceof HttpResponse) {
      this.#leave();
      return answer;
    }
    // no rejection callback is needed, because next() never rejects
    return answer.then((response) => {
      const late = req instanceof TransportRequest ? req.late : undefined;
      if (late === undefined) this.#leave();
      // the time limit has passed, so the client got 503. The handler still runs, so its request still counts
      else void late.then(() => this.#leave());
      return response;
    });
  }

  /** Decrements the number of running requests, and starts the request that has waited longest. */
  #leave(): void {
    this.#running--;
    const [first] = this.#waiting;
    first?.();
  }

  #wait(req: HttpRequest, next: Next): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(start);
        this.#load.queued--;
        timer[Symbol.dispose]();
        req.signal.removeEventListener('abort', leave);
      };
      const start = (): void => {
        end();
        resolve(this.#run(req, next));
      };
      const leave = (): void => {
        end();
        // the client has disconnected, or the time limit of the request has passed
        reject(req.signal.reason as Error);
      };
      const timer = this.#clock.after(this.#limits.maxQueueMs, () => {
        end();
        resolve(this.#shed(req, 'queue_timeout'));
      });
      this.#waiting.add(start);
      this.#load.queued++;
      if (req.signal.aborted) leave();
      else req.signal.addEventListener('abort', leave, { once: true });
    });
  }

  #shed(req: HttpRequest, reason: Reason): HttpResponse {
    this.#load.shed.add(1, reason);
    this.#say(reason);
    const response = problem(503, req.id, {
      detail: 'The server is overloaded at the moment; repeat the request later',
      code: 'overloaded',
    });
    response.headers.flat.push('Retry-After', this.#retryAfter);
    return response;
  }

  #say(reason: Reason): void {
    this.#unsaid++;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#saidMs < MINUTE_MS) return;
    this.#log.warn('load_shed', {
      reason,
      requests: this.#unsaid,
      running: this.#running,
      waiting: this.#waiting.size,
    });
    this.#saidMs = nowMs;
    this.#unsaid = 0;
  }
}
