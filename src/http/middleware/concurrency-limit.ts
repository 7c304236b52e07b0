/**
 * Load shedding: refuses requests that the process cannot handle now, so that accepted ones are answered in time.
 *
 *   event loop late by more than maxEventLoopDelayMs      503: each further request would delay all of them
 *   fewer than `max` run                                  runs
 *   fewer than `queue` wait                               waits for its turn, at most maxQueueMs; removed if its client leaves
 *   else                                                  503 with Retry-After
 *
 * A request runs until its handler has returned, even if its time is over or its client left: that work is still done. A streaming
 * body does not count. A refusal is a value, because it must cost next to nothing.
 */
import { EventLoopDelay } from '../../observability/event-loop.ts';
import { given, int, readOptions } from '../../base/options.ts';
import { Deadlines } from '../deadlines.ts';
import { OneApplication } from '../pipeline.ts';
import { HttpResponse, problem } from '../response.ts';
import { TransportRequest } from '../request/request.ts';
import type { Clock } from '../../base/clock.ts';
import type { Finding } from '../../base/findings.ts';
import type { Logger } from '../../observability/log.ts';
import type { Counter, Metrics } from '../../observability/metrics.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';

/** How much is taken on at once. `undefined` means not given. */
export interface ConcurrencyLimitOptions {
  /** Requests that run at once, 1 ... 1_000_000. Default 100. */
  readonly max?: number | undefined;
  /** Waiting requests, 0 ... 1_000_000, first in, first out. Default 0. */
  readonly queue?: number | undefined;
  /** How long one waits before it is refused, 1 ... 600_000. Default 1_000. */
  readonly maxQueueMs?: number | undefined;
  /** From which mean lateness of the event loop on all are refused, 1 ... 60_000; false: never. Default 200. Measured while the application listens. */
  readonly maxEventLoopDelayMs?: number | false | undefined;
  /** Value of `Retry-After`, 1 ... 3_600. Default 1. */
  readonly retryAfterSeconds?: number | undefined;
}

/** Why a request is refused. */
type Reason = 'concurrency' | 'queue_timeout' | 'event_loop_delay';

/** Layers that read or write a store before it is known whether the request is accepted. */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set(['session', 'csrf', 'idempotency']);
const MINUTE_MS = 60_000;

/** Counters shared by all layers of an application. */
interface Load {
  readonly shed: Counter;
  queued: number;
}

const loads = new WeakMap<Metrics, Load>();

function loadOf(metrics: Metrics): Load {
  let load = loads.get(metrics);
  if (load === undefined) {
    const made = (load = {
      shed: metrics.counter(
        'svc_requests_shed_total',
        'Requests refused because the process had too much to do, by reason',
        ['reason'],
      ),
      queued: 0,
    });
    metrics.gauge('svc_requests_queued', 'Requests that wait for others to end', () => made.queued);
    loads.set(metrics, load);
  }
  return load;
}

/** Refuses requests beyond the capacity of the process. A route with `meta: { loadShedding: false }` always runs and does not count, like `/healthz`, `/readyz` and `/metrics`. */
export class ConcurrencyLimitMiddleware implements Middleware {
  readonly kind = 'concurrency-limit';
  readonly #application = new OneApplication();
  readonly #max: number;
  readonly #queue: number;
  readonly #maxQueueMs: number;
  readonly #maxDelayMs: number;
  readonly #retryAfter: string;
  readonly #waiting = new Set<Waiting>();
  #running = 0;
  /** Refused since the last line in the log, which has one a minute. */
  #unsaid = 0;
  #saidMs = -Infinity;
  /** These are there once the application is compiled. */
  #clock!: Clock;
  #log!: Logger;
  #load!: Load;
  #delay!: EventLoopDelay;
  #deadlines!: Deadlines;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(options: ConcurrencyLimitOptions = {}) {
    const {
      max,
      queue,
      maxQueueMs,
      maxEventLoopDelayMs = 200,
      retryAfterSeconds,
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
    this.#max = max;
    this.#queue = queue;
    this.#maxQueueMs = maxQueueMs;
    this.#maxDelayMs = maxEventLoopDelayMs === false ? Infinity : maxEventLoopDelayMs;
    this.#retryAfter = String(retryAfterSeconds);
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    if (req.route?.meta['loadShedding'] === false) return next();
    if (this.#maxDelayMs !== Infinity && this.#delay.recentMs(this.#clock.monotonicMs()) > this.#maxDelayMs)
      return this.#shed(req, 'event_loop_delay');
    if (this.#running < this.#max) return this.#run(req, next);
    return this.#waiting.size < this.#queue ? this.#wait(req, next) : this.#shed(req, 'concurrency');
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
    this.#deadlines = new Deadlines(this.#maxQueueMs, clock);
    const outer = view.middleware
      .slice(0, view.middleware.indexOf(this))
      .find((layer) => INSIDE.has(layer.kind));
    if (outer === undefined) return;
    yield {
      rule: 'SVC121',
      severity: 'warning',
      subject,
      message: `the middleware "${outer.kind}" around it works for requests that are then refused`,
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
    return answer.then((response) => {
      // next() never fails
      const late = req instanceof TransportRequest ? req.late : undefined;
      if (late === undefined) this.#leave();
      else void late.then(() => this.#leave()); // the client has its 503, and the handler still runs
      return response;
    });
  }

  /** Makes room for the one that has waited longest. */
  #leave(): void {
    this.#running--;
    const [first] = this.#waiting;
    if (first !== undefined) first.start();
  }

  #wait(req: HttpRequest, next: Next): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(waiting);
        this.#load.queued--;
        timer.end();
        req.signal.removeEventListener('abort', leave);
      };
      const waiting: Waiting = {
        start: () => {
          end();
          resolve(this.#run(req, next));
        },
      };
      const leave = (): void => {
        end();
        reject(req.signal.reason as Error); // the client has left, or the time of the request is over
      };
      const timer = this.#deadlines.add(() => {
        end();
        resolve(this.#shed(req, 'queue_timeout'));
      });
      this.#waiting.add(waiting);
      this.#load.queued++;
      if (req.signal.aborted) leave();
      else req.signal.addEventListener('abort', leave, { once: true });
    });
  }

  #shed(req: HttpRequest, reason: Reason): HttpResponse {
    this.#load.shed.add(1, reason);
    this.#say(reason);
    const response = problem(503, req.id, {
      detail: 'The server has too much to do at the moment',
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

/** A request that waits. */
interface Waiting {
  start(): void;
}
