/**
 * Conditional GET for responses that handlers make (RFC 9110 §8.8.3, §13.1). Adds an `ETag` of the content.
 * Responds with 304 if the client already has the content, and with 412 if another precondition fails.
 *
 * The handler always runs, so only the transfer of the body is saved. Register ETagMiddleware after
 * CompressionMiddleware, so that it computes the tag from the uncompressed content.
 */
import { hash } from 'node:crypto';
import { int, readOptions } from '../../base/options.ts';
import { notModified } from '../files/files.ts';
import { clientHas } from '../files/preconditions.ts';
import { whenReady } from '../../base/promises.ts';
import type { Awaitable, HttpRequest, Middleware, Next } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';

/** Options of {@link ETagMiddleware}. */
export interface ETagOptions {
  /**
   * Maximum size in bytes of a body that gets an `ETag`, 0 ... 67_108_864. Default 1_048_576, which takes
   * about half a millisecond to hash.
   */
  readonly maxBytes?: number | undefined;
}

/**
 * Adds a weak `ETag` of the content to 200 responses to GET and HEAD. Sends 304 if `If-None-Match` or
 * `If-Modified-Since` shows that the client has the content. Sends 412 if `If-Match` or `If-Unmodified-Since`
 * fails. Handlers that change data call {@link checkPreconditions} instead. Register the middleware by
 * `app.use(new ETagMiddleware())`, or in the option `use` of a route.
 *
 * An `ETag` or `Last-Modified` that the handler sets is kept, and compared with the request. The middleware
 * adds no `ETag` to streams, bodies larger than `maxBytes`, responses that set a cookie, and responses with
 * `Cache-Control: no-store`.
 */
export class ETagMiddleware implements Middleware {
  readonly kind = 'etag';
  readonly #maxBytes: number;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: ETagOptions = {}) {
    this.#maxBytes = readOptions('ETagMiddleware', options, {
      maxBytes: int(1_048_576, 0, 67_108_864),
    }).maxBytes;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const response = next();
    if (req.method !== 'GET' && req.method !== 'HEAD') return response;
    return whenReady(response, (ready) => this.#tagged(req, ready));
  }

  #tagged(req: HttpRequest, response: HttpResponse): HttpResponse {
    const { headers, body } = response;
    if (response.status !== 200 || headers.has('set-cookie') || isNotStored(headers.get('cache-control')))
      return response;
    let etag = headers.get('etag');
    if (etag === undefined) {
      const isBounded =
        (typeof body === 'string' && body.length <= this.#maxBytes) ||
        (body instanceof Uint8Array && body.length <= this.#maxBytes);
      if (isBounded) headers.set('ETag', (etag = tagOf(body)));
    }
    const lastModified = headers.get('last-modified');
    if (etag === undefined && lastModified === undefined) return response;
    return clientHas(req, { etag, lastModified }) ? notModified(response) : response;
  }
}

/** Returns 132 bits of a SHA-256 hash, so that an attacker cannot construct two bodies with the same tag. */
function tagOf(body: string | Uint8Array): string {
  return `W/"${hash('sha256', body, 'base64url').slice(0, 22)}"`;
}

function isNotStored(cacheControl: string | undefined): boolean {
  return cacheControl !== undefined && /(?:^|[\s,])no-store(?:$|[\s,;])/i.test(cacheControl);
}
