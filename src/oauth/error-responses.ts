/**
 * Responses of the routes under `/oauth/*`. Caches do not store them. The body of an error response is the
 * JSON object `{ error, error_description, request_id }` (RFC 6749 §5.2).
 */
import { HTTPException, statusTitle } from '../base/errors.ts';
import { HttpResponse, JSONResponse, PROBLEM_TYPE } from '../http/response.ts';
import { OAUTH_ERRORS, OAuthError } from './errors.ts';
import { leaveForm } from './failure-page.ts';
import type { Awaitable, Context, HttpRequest, Middleware, Next } from '../http/contracts.ts';
import type { Failure, FailurePages } from './failure-page.ts';

const JSON_TYPE = 'application/json';

/** Sets headers so that caches do not store the response, and browsers send no `Referer`. */
function unstored<T extends HttpResponse>(response: T): T {
  response.headers.set('Cache-Control', 'no-store');
  response.headers.set('Pragma', 'no-cache');
  response.headers.set('Referrer-Policy', 'no-referrer');
  return response;
}

/**
 * The error of each failed request. It cannot be read from the response body, because a middleware may have
 * compressed the body.
 */
const refused = new WeakMap<HttpRequest, Failure>();

/**
 * Returns whether an error is an OAuthError, or an HTTP error with a status below 500. answering() turns such
 * errors into OAuth error responses.
 */
export function isRefusal(error: unknown): error is HTTPException {
  return error instanceof OAuthError || (error instanceof HTTPException && error.status < 500);
}

/**
 * Wraps a handler. Errors that isRefusal() accepts become OAuth error responses, even if the application has
 * an exception handler for them. Redirects of forms to other addresses become pages.
 */
export function answering<C extends Context>(
  run: (req: HttpRequest, context: C) => Awaitable<HttpResponse>,
): (context: C) => Promise<HttpResponse> {
  return async (context) => {
    const { req } = context;
    try {
      const response = unstored(await run(req, context));
      leaveForm(response, req);
      return response;
    } catch (error) {
      if (isRefusal(error)) return refusal(error, req);
      throw error; // the middleware OAuthErrorResponses rewrites the response to this error
    }
  };
}

export function refusal(error: HTTPException, req: HttpRequest): HttpResponse {
  const code = error instanceof OAuthError ? error.code : codeOf(error.status);
  const failure = failureOf(code, error.detail ?? statusTitle(error.status), req);
  refused.set(req, { ...failure, text: error.detail });
  return unstored(new JSONResponse(failure, { status: error.status, headers: error.headers }));
}

function failureOf(code: string, description: string, req: HttpRequest): Failure {
  // RFC 6749 §5.2 allows only printable ASCII without quotes and backslashes
  return {
    error: code,
    error_description: description.replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, '?'),
    request_id: req.id,
  };
}

function codeOf(status: number): string {
  if (status === 401) return 'login_required';
  if (status === 429) return 'rate_limited';
  if (status === 503 || status === 504) return 'temporarily_unavailable';
  return status < 500 ? 'invalid_request' : 'server_error';
}

/**
 * Middleware that turns each error response under `/oauth/` into an OAuth error, for example a response 404
 * of the framework. It must surround all middleware and exception handlers that may create an error response.
 */
export class OAuthErrorResponses implements Middleware {
  readonly #prefix: string;
  readonly #pages: FailurePages | undefined;

  /** `pages` shows errors to browsers as HTML. Without it, every client gets JSON. */
  constructor(prefix: string, pages?: FailurePages) {
    this.#prefix = `${prefix}/`;
    this.#pages = pages;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const answer = next();
    if (!req.path.startsWith(this.#prefix)) return answer;
    return answer instanceof HttpResponse
      ? this.#answer(answer, req)
      : answer.then((response) => this.#answer(response, req));
  }

  #answer(response: HttpResponse, req: HttpRequest): HttpResponse {
    if (response.status < 400) return response;
    const known = response.headers.get('Content-Type') === JSON_TYPE ? refused.get(req) : undefined;
    const failure = known ?? reform(response, req);
    if (this.#pages?.areFor(req) === true) this.#pages.show(bare(response), req, failure);
    return response;
  }
}

function reform(response: HttpResponse, req: HttpRequest): Failure {
  // the framework wrote this JSON, so it is valid
  const { detail, code } =
    response.headers.get('Content-Type') === PROBLEM_TYPE && typeof response.body === 'string'
      ? (JSON.parse(response.body) as { readonly detail?: string; readonly code?: string })
      : {};
  const known = code !== undefined && Object.hasOwn(OAUTH_ERRORS, code) ? code : codeOf(response.status);
  const failure = failureOf(known, detail ?? statusTitle(response.status), req);
  unstored(bare(response)).body = JSON.stringify(failure);
  response.headers.set('Content-Type', JSON_TYPE);
  return failure;
}

/** Removes headers that describe the body, because the body is replaced. */
function bare(response: HttpResponse): HttpResponse {
  for (const name of ['Content-Encoding', 'Content-Length', 'Content-Language', 'ETag', 'Last-Modified'])
    response.headers.delete(name);
  response.contentLength = -1;
  return response;
}
