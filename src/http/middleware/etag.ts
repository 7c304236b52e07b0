/**
 * Conditional GET for answers that handlers make (RFC 9110 §8.8.3, §13.1): a tag made of the content, 304 for clients that have it,
 * and 412 for those that want other content.
 *
 * The handler runs all the same; what is saved is the body on its way. Inside of compression: the tag is weak, so it says
 * the same of every coding.
 */
import { hash } from 'node:crypto';
import { int, readOptions } from '../../base/options.ts';
import { notModified } from '../files/files.ts';
import { judge, preconditionFailed } from '../files/preconditions.ts';
import { isThenable } from '../../base/promises.ts';
import type { Awaitable, HttpRequest, Middleware, Next } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';

/** Which answers get a tag. */
export interface ETagOptions {
  /** The largest body that is read for it, 0 ... 67,108,864. Default 1,048,576: about half a millisecond. */
  readonly maxBytes?: number | undefined;
}

/**
 * Gives 200 answers to GET and HEAD a weak `ETag` of their content, and answers 304 to `If-None-Match` or
 * `If-Modified-Since`, 412 to `If-Match` or `If-Unmodified-Since`. Handlers that change something call {@link checkPreconditions}. For all routes, `app.use(new ETagMiddleware())`, or for one, in its `use`.
 *
 * An `ETag` or `Last-Modified` that the handler has set is kept and compared. Left alone: streams, bodies beyond
 * `maxBytes`, answers that set a cookie, and those with `Cache-Control: no-store`.
 */
export class ETagMiddleware implements Middleware {
  readonly kind = 'etag';
  readonly #maxBytes: number;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(options: ETagOptions = {}) {
    this.#maxBytes = readOptions('ETagMiddleware', options, {
      maxBytes: int(1_048_576, 0, 67_108_864),
    }).maxBytes;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const response = next();
    if (req.method !== 'GET' && req.method !== 'HEAD') return response;
    return isThenable(response)
      ? response.then((settled) => this.#tagged(req, settled))
      : this.#tagged(req, response);
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
    const verdict = judge(req, { etag, lastModified });
    if (verdict === 'failed') throw preconditionFailed();
    return verdict === 'not-modified' ? notModified(response) : response;
  }
}

/** 132 bits: enough that nobody finds two bodies of one tag. */
function tagOf(body: string | Uint8Array): string {
  return `W/"${hash('sha256', body, 'base64url').slice(0, 22)}"`;
}

function isNotStored(cacheControl: string | undefined): boolean {
  return cacheControl !== undefined && /(?:^|[\s,])no-store(?:$|[\s,;])/i.test(cacheControl);
}
