/** Middleware that configures request ids. The ids themselves are made in http/request-id.ts. */
import { bool, given, isFunction, readOptions, text, outOfRange } from '../../base/options.ts';
import { isToken } from '../headers.ts';
import { RequestIdentity } from '../request-id.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, Next, Services } from '../contracts.ts';
import type { RequestIDOptions } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';

/** Header fields that cannot contain the request id, because they have another meaning in HTTP. */
const TAKEN: ReadonlySet<string> = new Set([
  'authorization',
  'connection',
  'content-disposition',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'date',
  'etag',
  'expect',
  'host',
  'keep-alive',
  'location',
  'retry-after',
  'set-cookie',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'vary',
]);

/**
 * Configures request ids. Applies to every request and response, even if the server refuses a request before
 * any middleware runs. The position of this middleware among others does not matter.
 */
export class RequestIDMiddleware implements Middleware {
  readonly kind = 'request-id';
  /** Creates and checks the ids, as configured by the options of the middleware. @internal */
  readonly identity: RequestIdentity;
  #services: Services | undefined;

  /**
   * @throws SvcError `E_OPTION_RANGE` for a `header` that has another meaning in HTTP; `E_OPTION_UNKNOWN`,
   *   `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: RequestIDOptions = {}) {
    const read = readOptions('RequestIDMiddleware', options, {
      header: text('X-Request-Id'),
      acceptIncoming: bool(true),
      generate: given<() => string>('a function', isFunction),
    });
    if (!isToken(read.header) || TAKEN.has(read.header.toLowerCase())) {
      throw outOfRange(
        'RequestIDMiddleware',
        'header',
        'must be a header field without another meaning in HTTP, such as "X-Request-Id"',
        JSON.stringify(read.header),
      );
    }
    this.identity = new RequestIdentity(read);
  }

  /** Passes the request on unchanged: the server has set its id already. */
  handle(_req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    return next();
  }

  *compile({ middleware, services }: CompiledView): Iterable<Omit<Finding, 'place'>> {
    if (this.#services === undefined)
      this.identity.onInvalid = (error) => services.log.error('request_id_invalid', error);
    this.#services = services;
    if (middleware.find((layer) => layer.kind === 'request-id') === this) return;
    yield {
      rule: 'SVC121',
      severity: 'error',
      subject: 'middleware request-id',
      message: 'RequestIDMiddleware is registered more than once',
      remedy: 'Register RequestIDMiddleware only once',
    };
  }
}
