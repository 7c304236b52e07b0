/**
 * Errors: SvcError for operators and programmers (its messages are in faults.ts), and exceptions that become
 * HTTP responses.
 *
 * Which kind to use:
 *   SvcError        a mistake in configuration or code: code, message, remedy; never shown to a client
 *   HTTPException   the request must stop here: the client gets its status, detail and headers, nothing else
 *   plain Error     a bug of this package or of the application: 500, and its stack is logged
 */
import { faultOf } from './faults.ts';
import { http } from './node-http.ts';
import type { FaultArguments, FaultCode } from './faults.ts';
import type { Finding } from './findings.ts';

/**
 * A mistake in configuration or code. `code` never changes, `message` describes the mistake, and `remedy` its
 * correction.
 */
export class SvcError<C extends FaultCode = FaultCode> extends Error {
  readonly code: C;
  readonly remedy: string;
  /** All findings of `E_COMPILE`; empty for other codes. */
  readonly findings: readonly Finding[];

  constructor(
    code: C,
    args: FaultArguments<C>,
    options: { readonly cause?: unknown; readonly findings?: readonly Finding[] } = {},
  ) {
    const { describe, remedy } = faultOf(code);
    super(
      (describe as (...args: readonly unknown[]) => string)(...args),
      'cause' in options ? { cause: options.cause } : undefined,
    );
    this.name = 'SvcError';
    this.code = code;
    this.remedy = remedy;
    this.findings = options.findings ?? [];
  }
}

/** Returns the code of an error of Node.js, such as `ENOENT`; undefined for any other value, and for the number of a DOMException. */
export function errorCode(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : undefined;
}

/**
 * Errors whose cause {@link errorAfter} has set. If such an error is thrown again, errorAfter() may set
 * another cause.
 */
const REPLACING = new WeakSet<Error>();
const MAX_CAUSES = 8;

/**
 * Adds `replaced` as the last cause of `error`, which was thrown while `replaced` was handled. So a log shows
 * both errors. Returns `error`, or an AggregateError of both if `error` is not an Error.
 */
export function errorAfter(error: unknown, replaced: unknown): unknown {
  if (!(error instanceof Error)) return new AggregateError([error, replaced]);
  let last = error;
  for (let depth = 0; !REPLACING.has(last) && last.cause instanceof Error && depth < MAX_CAUSES; depth++)
    last = last.cause;
  const isKnown = isCauseOf(replaced, error) || isCauseOf(error, replaced);
  if (isKnown || !Object.isExtensible(last) || (last.cause !== undefined && !REPLACING.has(last)))
    return error;
  REPLACING.add(last);
  Object.defineProperty(last, 'cause', { value: replaced, writable: true, configurable: true });
  return error;
}

/** Whether `error` is `other`, or is in the chain of causes of `other`. */
function isCauseOf(error: unknown, other: unknown): boolean {
  let at = other;
  for (let depth = 0; at !== error && at instanceof Error && depth < MAX_CAUSES; depth++) at = at.cause;
  return at === error;
}

/**
 * Whether `test` accepts `error` or one of its causes. A cause that {@link errorAfter} has added does not count,
 * because `error` is then a failure of its own, which only came later.
 */
export function isCausedBy(error: unknown, test: (cause: unknown) => boolean): boolean {
  let at = error;
  for (let depth = 0; depth < MAX_CAUSES; depth++) {
    if (test(at)) return true;
    if (!(at instanceof Error) || REPLACING.has(at)) return false;
    at = at.cause;
  }
  return false;
}

/** Codes of an unreachable or closed server. Every other code is a mistake in the program or its configuration. */
const SERVER_STATES: ReadonlySet<FaultCode> = new Set([
  'E_DB_CLOSED',
  'E_DB_CONNECT',
  'E_DB_OPEN',
  'E_DB_STALLED',
  'E_REDIS_CLOSED',
  'E_REDIS_OPEN',
]);

/**
 * Throws `error` if a mistake in the program has caused it, such as a statement on the database inside a
 * transaction (`E_DB_NESTED`). Components that continue while their store fails call this first: a mistake is
 * permanent, so continuing would switch the component off, and "store failed" would name the wrong cause.
 * @internal
 */
export function throwMistake(error: unknown): void {
  if (isCausedBy(error, (cause) => cause instanceof SvcError && !SERVER_STATES.has(cause.code))) throw error;
}

/** Options of an {@link HTTPException}. */
export interface HTTPExceptionOptions {
  /** Response headers by name, for example `{ 'Retry-After': '60' }`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A stable machine-readable code, sent as the member `code` of the problem document. */
  readonly code?: string | undefined;
  /** Cause of the exception. It is logged if the status is 5xx, and never sent to the client. */
  readonly cause?: unknown;
}

/**
 * One problem of the request's input: its location (`['body', 'home', 'city']`), the broken rule, and a
 * sentence without the submitted value.
 */
export interface Issue {
  readonly loc: readonly (string | number)[];
  readonly code: string;
  readonly message: string;
}

interface IssueOptions extends HTTPExceptionOptions {
  /** Problems of the input. */
  readonly issues?: readonly Issue[] | undefined;
}

/**
 * Stops the request with a status and a detail that the client may read. The response is a problem document
 * (RFC 9457), and passes through the middleware. `status` is an integer 400 ... 599.
 */
export class HTTPException extends Error {
  readonly status: number;
  readonly detail: string | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly code: string | undefined;
  /** Problems of the input, sent as the member `errors` of the problem document. */
  readonly issues: readonly Issue[] | undefined;

  constructor(status: number, detail?: string, options: IssueOptions = {}) {
    super(detail ?? statusTitle(status), 'cause' in options ? { cause: options.cause } : undefined);
    if (!Number.isInteger(status) || status < 400 || status > 599)
      throw new RangeError(`HTTPException needs a status from 400 to 599, found ${status}`);
    this.name = new.target.name;
    this.status = status;
    this.detail = detail;
    this.headers = options.headers;
    this.code = options.code;
    this.issues = options.issues === undefined ? undefined : checkedIssues(new.target.name, options.issues);
  }
}

/**
 * Returns `issues`, which plain JavaScript may give with another type.
 * @throws TypeError if it is not a list of issues
 * @internal
 */
export function checkedIssues(className: string, issues: unknown): readonly Issue[] {
  if (!Array.isArray(issues))
    throw wrongIssues(className, issues === null ? 'null' : `a value of type ${typeof issues}`);
  const at = issues.findIndex((issue) => !isIssue(issue));
  if (at !== -1) throw wrongIssues(className, `something else as item ${at} of the list`);
  return issues as readonly Issue[];
}

function isIssue(value: unknown): boolean {
  const { loc, code, message } = (value ?? {}) as Partial<Record<keyof Issue, unknown>>;
  return (
    Array.isArray(loc) &&
    loc.every((part) => typeof part === 'string' || typeof part === 'number') &&
    typeof code === 'string' &&
    typeof message === 'string'
  );
}

function wrongIssues(className: string, found: string): TypeError {
  return new TypeError(
    `${className} needs a list of issues such as [{ loc: ['body', 'name'], code: 'taken', message: 'is taken' }], found ${found}`,
  );
}

/**
 * Creates an exception without a stack. The stack of a refused request is not used, and capturing it costs
 * more than the rest of the refusal (`413` of test/bench/http.ts). A flood of such requests would
 * multiply that cost. @internal
 */
export function withoutStack<T extends HTTPException>(make: () => T): T {
  const { stackTraceLimit } = Error;
  // unlike an assignment, Reflect.set() does not throw if intrinsics are frozen
  Reflect.set(Error, 'stackTraceLimit', 0);
  try {
    return make();
  } finally {
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  }
}

/**
 * 503 for ordinary overload, or of a component that reports its own state in the log. So a flood of such responses
 * writes no line `unhandled_error` for each. The metric `svc_requests_total` counts them.
 * @internal
 */
export class Unavailable extends HTTPException {}

/** Returns an {@link Unavailable} with `Retry-After`. @internal */
export function unavailable(detail: string, retryAfterSeconds: number, code?: string): Unavailable {
  const headers = { 'Retry-After': String(retryAfterSeconds) };
  return withoutStack(() => new Unavailable(503, detail, { code, headers }));
}

/** Returns the reason with which the signal of a request aborts when the server ends its response. @internal */
export function serverStops(): Unavailable {
  return unavailable('The server stops', 5);
}

/**
 * Errors, not HTTPExceptions, that mean that the server is overloaded, with the number of seconds after which a client may
 * repeat its request. Without an exception handler, the response is 503 with `Retry-After`.
 * @internal
 */
export const OVERLOADS: WeakMap<object, number> = new WeakMap();

/** 400: the request is malformed, or its input fails validation. */
export class BadRequest extends HTTPException {
  constructor(detail?: string, options?: IssueOptions) {
    super(400, detail, options);
  }
}
/** 401: no valid authentication. RFC 9110 §15.5.2 requires a `WWW-Authenticate` header. */
export class Unauthorized extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(401, detail, options);
  }
}
/** 403: the client is authenticated, but not allowed. */
export class Forbidden extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(403, detail, options);
  }
}
/** 404: the resource does not exist, or this client must not learn that it exists. */
export class NotFound extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(404, detail, options);
  }
}
/**
 * 405: the path does not allow this method. The response has `Allow` (RFC 9110 §15.5.6) with the other methods of the
 * path, unless `headers` sets this field.
 */
export class MethodNotAllowed extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(405, detail, options);
  }
}
/** 413: the request body is larger than the limit of its route. */
export class PayloadTooLarge extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(413, detail, options);
  }
}
/** 500: a failure that the application itself reports. It is logged like an unhandled error. */
export class InternalError extends HTTPException {
  constructor(detail?: string, options?: HTTPExceptionOptions) {
    super(500, detail, options);
  }
}
/** 409: the request conflicts with the state of the resource: a name is taken, or a version is outdated. */
export class Conflict extends HTTPException {
  constructor(detail?: string, options?: IssueOptions) {
    super(409, detail, options);
  }
}
/**
 * 422: the input is well-formed, but breaks a rule of the application. For input that does not match its
 * schema use {@link BadRequest}.
 */
export class UnprocessableContent extends HTTPException {
  constructor(detail?: string, options?: IssueOptions) {
    super(422, detail, options);
  }
}
/** Options of {@link TooManyRequests}. */
export interface TooManyRequestsOptions extends HTTPExceptionOptions {
  /** Seconds after which the client may try again, 0 or more. Sent as `Retry-After`, rounded up. */
  readonly retryAfterSeconds?: number | undefined;
}
/**
 * 429: too many requests. Add the time of the next attempt:
 * `new TooManyRequests('Three exports an hour', { retryAfterSeconds: 1_200 })`.
 */
export class TooManyRequests extends HTTPException {
  /** @throws RangeError for `retryAfterSeconds` below 0 or not finite */
  constructor(detail?: string, { retryAfterSeconds, ...options }: TooManyRequestsOptions = {}) {
    super(429, detail, {
      ...options,
      ...(retryAfterSeconds === undefined
        ? {}
        : { headers: { ...options.headers, 'Retry-After': retryAfter(retryAfterSeconds) } }),
    });
  }
}

function retryAfter(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0)
    throw new RangeError(`TooManyRequests needs retryAfterSeconds of 0 or more, found ${seconds}`);
  return String(Math.ceil(seconds));
}

/**
 * 503: the time limit of the request has passed. It is also the abort reason of `req.signal`, and is thrown
 * into generator dependencies of the request.
 */
export class RequestTimeout extends HTTPException {
  constructor(detail = 'The request took too long', options?: HTTPExceptionOptions) {
    super(503, detail, options);
  }
}
/** 503: a RecordStore already holds its maximum number of records that have not expired. */
export class StoreFull extends HTTPException {
  constructor(detail = 'The server cannot keep any more data at the moment', options?: HTTPExceptionOptions) {
    super(503, detail, options);
  }
}

/** The client closed the connection before its request or the response was complete. No response is sent. */
export class ClientDisconnected extends Error {
  constructor() {
    super('The client closed the connection');
    this.name = 'ClientDisconnected';
  }
}

/** Whether an error is, or was caused by, a client that has disconnected. */
export function isDisconnect(error: unknown): boolean {
  return isCausedBy(error, (cause) => cause instanceof ClientDisconnected);
}

/**
 * Reason phrases by status. Four differ from Node.js: RFC 9110 has renamed 413 and 422, and 418 and 509 are
 * not registered.
 */
const TITLES: Readonly<Record<number, string | undefined>> = {
  ...http.STATUS_CODES,
  413: 'Content Too Large',
  418: undefined,
  422: 'Unprocessable Content',
  509: undefined,
};

/**
 * Returns the registered phrase of an error status (RFC 9110 §15); for an unregistered status, `Client Error`
 * or `Server Error`.
 */
export function statusTitle(status: number): string {
  return TITLES[status] ?? (status < 500 ? 'Client Error' : 'Server Error');
}

/**
 * Value of `WWW-Authenticate` for session authentication. A 401 requires this header (RFC 9110 §11.6.1), but
 * no authentication scheme is registered for sessions.
 */
export const SESSION_SCHEME = 'Session';

/**
 * 401: the session has no user. It is a separate class, so that an exception handler can redirect to the
 * login page.
 */
export class LoginRequired extends Unauthorized {
  constructor() {
    super('Log in first', { code: 'login_required', headers: { 'WWW-Authenticate': SESSION_SCHEME } });
  }
}
