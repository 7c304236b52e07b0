/**
 * A fetch handler below a path: a function of another framework, `(request: Request) => Response`. Requests
 * pass through the middleware, and are then converted to a web-standard `Request`.
 */
import { BadRequest, HTTPException, SvcError } from '../base/errors.ts';
import { ignore } from '../base/promises.ts';
import { shown } from '../base/options.ts';
import { canonicalPath } from './path.ts';
import { HOP_BY_HOP } from './reply.ts';
import type { Awaitable, HttpRequest } from './contracts.ts';

/** Handler of `mount()`, for example `app.fetch` of Hono. */
export type FetchHandler = (request: Request) => Awaitable<Response>;

/** Methods of requests that a mounted handler gets. HEAD is included: the server handles it like GET. */
export const MOUNTED_METHODS: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** A fetch handler that is mounted below a path. */
export class FetchMount {
  /** Path below which the handler is mounted; empty for `/`. */
  readonly prefix: string;
  readonly #handler: FetchHandler;
  readonly #strips: boolean;

  constructor(prefix: string, handler: FetchHandler, stripsPrefix: boolean) {
    this.prefix = prefix;
    this.#handler = handler;
    this.#strips = stripsPrefix;
  }

  /**
   * Calls the handler. If the body could not be read, for example because it is too large, this error comes
   * before the response.
   */
  async answer(req: HttpRequest): Promise<Response> {
    const body = req.method === 'GET' || req.method === 'HEAD' ? undefined : new RequestBodyStream(req);
    const request = new Request(this.#urlOf(req), {
      method: req.method,
      headers: headersOf(req),
      body: body?.stream ?? null,
      duplex: 'half',
      signal: req.signal,
      redirect: 'manual',
    });
    const response: unknown = await this.#handler(request);
    if (!(response instanceof Response))
      throw new SvcError('E_REPLY', [
        `the handler mounted at ${this.prefix || '/'} returned ${shown(response)}, but must return a Response`,
      ]);
    if (!(body?.failure instanceof HTTPException)) return response;
    await response.body?.cancel().catch(ignore);
    throw body.failure;
  }

  /** The path is compared afterwards, because the URL parser resolves segments such as `%2e%2e`. */
  #urlOf(req: HttpRequest): URL {
    const [, path = '/', search = ''] = /^(?:https?:\/\/[^/?]*)?([^?]*)(\?.*)?$/is.exec(req.target)!;
    const own = this.#strips ? path.split('/').slice(this.prefix.split('/').length).join('/') : path.slice(1);
    const url = URL.parse(`${req.scheme}://${req.host || 'localhost'}/${own}${search}`);
    if (url === null) throw new BadRequest('The host of the request is not valid in a URL');
    if (canonicalPath(url.pathname) !== canonicalPath(`/${own}`))
      throw new BadRequest('The path must not contain segments such as ".."');
    return url;
  }
}

function headersOf(req: HttpRequest): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers))
    if (!HOP_BY_HOP.has(name) && value !== undefined) headers.set(name, value);
  if (req.host !== '') headers.set('host', req.host);
  return headers;
}

/** The body of a request as a web stream, which is read as fast as the handler reads. */
class RequestBodyStream {
  readonly stream: ReadableStream<Uint8Array>;
  /** Error that has ended the body, if any. */
  failure: unknown;

  constructor(req: HttpRequest) {
    let chunks: AsyncIterator<Uint8Array> | undefined;
    this.stream = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            chunks ??= req.stream()[Symbol.asyncIterator]();
            const step = await chunks.next();
            if (step.done === true) controller.close();
            else controller.enqueue(step.value);
          } catch (error) {
            this.failure = error;
            controller.error(error);
          }
        },
        cancel: async () => {
          await chunks?.return?.();
        },
      },
      { highWaterMark: 0 },
    );
  }
}
