/**
 * Time limits of requests, so that a client does not wait for a handler that takes too long.
 *
 * After the time limit the client gets 503 with Retry-After, and `req.signal` aborts with a RequestTimeout.
 * If the handler returns a response later, that response is discarded, and its background tasks do not run.
 * Generator functions that provide dependencies get the RequestTimeout thrown at their `yield`.
 *
 * A request that exceeds its time limit gets 503, because 504 is for a gateway whose upstream server is late
 * (RFC 9110 §15.6). The time limit ends when the handler has returned a response, so a stream that is being
 * sent is not interrupted.
 */
import { sharedCounter } from '../../observability/metrics.ts';
import { RequestTimeout } from '../../base/errors.ts';
import { number, readOptions } from '../../base/options.ts';
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

/** Options of {@link TimeoutMiddleware}. An option that is `undefined` has its default. */
export interface TimeoutOptions {
  /**
   * Time in seconds within which the handler and the middleware after this one must return a response, 0.001
   * ... 86_400. Default 30. A route's `timeoutMs` overrides it.
   */
  readonly seconds?: number | undefined;
}

const DEFAULT_SECONDS = 30;
const MAX_SECONDS = 86_400;
const MAX_RETRY_SECONDS = 60;

/** Sends 503 if a handler does not return a response within `ms` milliseconds. @internal */
export class TimeLimit implements Middleware {
  readonly kind = 'timeout';
  readonly #ms: number;
  readonly #services: Services;
  readonly #counter: Counter;

  constructor(ms: number, services: Services) {
    this.#ms = ms;
    this.#services = services;
    this.#counter = sharedCounter(
      services.metrics,
      'svc_request_timeouts_total',
      'Requests that were not answered within their time limit, by route template',
      ['route'],
    );
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const answer = next();
    if (answer instanceof HttpResponse) return answer; // a synchronous response needs no timer
    return new Promise((resolve, reject) => {
      const timer = this.#services.clock.after(this.#ms, () => reject(this.#expire(req, answer)));
      void answer.then((response) => {
        timer[Symbol.dispose]();
        resolve(response);
      });
    });
  }

  /**
   * Aborts `req.signal` with a RequestTimeout, and returns another RequestTimeout for the response. If the
   * handler then throws the reason of the signal, that error is ignored.
   */
  #expire(req: HttpRequest, answer: Promise<HttpResponse>): RequestTimeout {
    this.#counter.add(1, req.route?.template ?? '');
    const made = (): RequestTimeout =>
      new RequestTimeout(`The server did not finish the request within ${this.#ms} ms`, {
        code: 'timeout',
        headers: { 'Retry-After': String(Math.min(MAX_RETRY_SECONDS, Math.ceil(this.#ms / 1_000))) },
      });
    const late = answer.then((response) => this.#drop(req, response));
    if (req instanceof TransportRequest) req.expire(made(), late);
    return made();
  }

  /** Discards a late response. If its body is a stream, closes the stream. */
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

/** Sends 503 if a handler does not return a response in time. */
export class TimeoutMiddleware implements Middleware {
  readonly kind = 'timeout';
  readonly #application = new OneApplication();
  readonly #ms: number;
  /** Time limit of each route with the option `timeoutMs`; null means no time limit. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, TimeLimit | null>();
  #usual!: TimeLimit;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
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
    this.#usual = new TimeLimit(this.#ms, services);
    for (const route of routes) {
      if (route.timeoutMs !== undefined)
        this.#ofRoutes.set(
          route,
          route.timeoutMs === false ? null : new TimeLimit(route.timeoutMs, services),
        );
    }
  }
}
