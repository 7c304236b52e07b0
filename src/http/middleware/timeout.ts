/**
 * Time limits of requests: a client is not kept waiting for a handler that does not answer.
 *
 *   handler answers in time      its answer
 *   time is over                 503 with Retry-After; req.signal aborts with RequestTimeout; what the handler answers later is
 *                                discarded, its generators are told (RequestTimeout is thrown into them), its background tasks dropped
 *
 * 503 and not 504, which is a gateway's word about a server behind it (RFC 9110 §15.6). The time ends with the answer's
 * head: a stream that has begun is not cut.
 */
import { sharedCounter } from '../../observability/metrics.ts';
import { RequestTimeout } from '../../base/errors.ts';
import { number, readOptions } from '../../base/options.ts';
import { Deadlines } from '../deadlines.ts';
import { OneApplication } from '../pipeline.ts';
import { HttpResponse } from '../response.ts';
import { discard, isChunks } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import type { Finding } from '../../base/findings.ts';
import type { Counter } from '../../observability/metrics.ts';
import type {
  Awaitable,
  CompiledRoute,
  CompiledView,
  HttpRequest,
  Middleware,
  Next,
  Services,
} from '../contracts.ts';

/** How long a request may take. `undefined` means not given. */
export interface TimeoutOptions {
  /** From when this layer is reached to the head of the answer, 0.001 ... 86_400. Default 30. A route's `timeoutMs` comes before it. */
  readonly seconds?: number | undefined;
}

const DEFAULT_SECONDS = 30;
const MAX_SECONDS = 86_400;
/** Who has waited for long is not asked to wait for longer. */
const MAX_RETRY_SECONDS = 60;

/** One length of time, for the requests of one application. @internal */
export class TimeLimit implements Middleware {
  readonly kind = 'timeout';
  readonly #ms: number;
  readonly #deadlines: Deadlines;
  readonly #services: Services;
  readonly #counter: Counter;

  constructor(ms: number, services: Services) {
    this.#ms = ms;
    this.#services = services;
    this.#deadlines = new Deadlines(ms, services.clock);
    this.#counter = sharedCounter(
      services.metrics,
      'svc_request_timeouts_total',
      'Requests that were not answered in their time, by route template',
      ['route'],
    );
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const answer = next();
    if (answer instanceof HttpResponse) return answer; // nothing to wait for, and nothing to set
    return new Promise((resolve, reject) => {
      const wait = this.#deadlines.add(() => reject(this.#expire(req, answer)));
      void answer.then((response) => {
        if (wait.end()) resolve(response);
      }); // next() never fails
    });
  }

  /** Two of a kind: one that ends what the handler does, and one to be answered, so that the first need not be told again when it comes back. */
  #expire(req: HttpRequest, answer: Promise<HttpResponse>): RequestTimeout {
    this.#counter.add(1, req.route?.template ?? '');
    const made = (): RequestTimeout =>
      new RequestTimeout(`The request took longer than ${this.#ms} ms`, {
        code: 'timeout',
        headers: { 'Retry-After': String(Math.min(MAX_RETRY_SECONDS, Math.ceil(this.#ms / 1_000))) },
      });
    const late = answer.then((response) => this.#drop(req, response));
    if (req instanceof TransportRequest) req.expire(made(), late);
    return made();
  }

  /** Nobody will read it: what it is made from is ended. */
  async #drop(req: HttpRequest, response: HttpResponse): Promise<HttpResponse> {
    try {
      if (isChunks(response.body)) await discard(response.body);
    } catch (error) {
      this.#services.log.error('response_failed', error, {
        method: req.method,
        route: req.route?.template,
        request_id: req.id,
      });
    }
    return response;
  }
}

/** Answers 503 where a handler has not answered in time. */
export class TimeoutMiddleware implements Middleware {
  readonly kind = 'timeout';
  readonly #application = new OneApplication();
  readonly #ms: number;
  readonly #limits = new Map<number, TimeLimit>();
  /** Of routes that have a time of their own; null: as long as they like. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, TimeLimit | null>();
  /** There once the application is compiled. */
  #usual!: TimeLimit;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(options: TimeoutOptions = {}) {
    const { seconds } = readOptions('TimeoutMiddleware', options, {
      seconds: number(DEFAULT_SECONDS, 0.001, MAX_SECONDS),
    });
    this.#ms = seconds * 1_000;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const { route } = req;
    const limit = route?.timeoutMs === undefined ? this.#usual : (this.#ofRoutes.get(route) ?? null);
    return limit === null ? next() : limit.handle(req, next);
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const { services, routes } = view;
    const stranger = this.#application.claim('middleware timeout', view);
    if (stranger !== undefined) return yield stranger;
    this.#usual = this.#limitOf(this.#ms, services);
    for (const route of routes) {
      if (route.timeoutMs !== undefined)
        this.#ofRoutes.set(
          route,
          route.timeoutMs === false ? null : this.#limitOf(route.timeoutMs, services),
        );
    }
  }

  #limitOf(ms: number, services: Services): TimeLimit {
    let limit = this.#limits.get(ms);
    if (limit === undefined) this.#limits.set(ms, (limit = new TimeLimit(ms, services)));
    return limit;
  }
}
