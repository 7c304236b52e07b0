/**
 * The request pipeline: combines middleware and the handler into one function, and converts exceptions into
 * responses.
 *
 * `next()` of a middleware calls the next middleware, or at last the handler. If one of these throws, next()
 * returns an error response. So outer middleware can still add header fields to error responses.
 */
import {
  ClientDisconnected,
  HTTPException,
  OVERLOADS,
  SvcError,
  Unavailable,
  errorAfter,
  isCausedBy,
  isDisconnect,
} from '../base/errors.ts';
import { isThenable } from '../base/promises.ts';
import { lacksDescriptors } from '../observability/descriptors.ts';
import { HttpResponse, problem, issueOf } from './response.ts';
import { DEFAULT_PLAN, toResponse } from './reply.ts';
import { shown } from '../base/options.ts';
import type {
  Awaitable,
  CompiledView,
  HttpRequest,
  Middleware,
  MiddlewareFunction,
  Services,
} from './contracts.ts';
import type { ReplyPlan } from './reply.ts';
import type { TransportRequest } from './request/request.ts';
import type { Issue } from '../base/errors.ts';
import type { DescriptorWatch } from '../observability/descriptors.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter } from '../observability/metrics.ts';
import type { Finding } from '../base/findings.ts';

/** Handles a request: a handler, or middleware with all that it surrounds. Never throws, never rejects. */
export type Core = (req: TransportRequest) => Awaitable<HttpResponse>;

/** Converts exceptions into responses, with the exception handlers of routers and of the application. */
export class ErrorRenderer {
  readonly #handlers: readonly ExceptionHandlers[];
  readonly #failures: FailureDeps;

  constructor({ handlers, ...failures }: FailureDeps & { readonly handlers: readonly ExceptionHandlers[] }) {
    this.#handlers = handlers;
    this.#failures = failures;
  }

  /** The handlers of the innermost router must come first; the handlers of this renderer come last. */
  within(handlers: readonly ExceptionHandlers[]): ErrorRenderer {
    return new ErrorRenderer({ ...this.#failures, handlers: [...handlers, ...this.#handlers] });
  }

  /** Exception handlers in the order in which they are tried: inner routers, outer routers, application. */
  get handlers(): readonly ExceptionHandlers[] {
    return this.#handlers;
  }

  /** If false, responses such as a 404 are created without an exception. */
  get hasHandlers(): boolean {
    return this.#handlers.some(({ size }) => size > 0);
  }

  /**
   * Returns the response to an error: the result of its exception handler, or else a problem document (RFC
   * 9457).
   */
  render(error: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    if (req.expiry !== undefined && (isExpiry(error, req) || isDiscardedBody(error)))
      // This response is not sent: the client already got a response when the time limit passed.
      return problem(req.expiry.status, req.id);
    const found = this.#find(error);
    if (found === undefined) return plainAnswer(error, req, this.#failures);
    try {
      placeIssues(error, req);
      const reply = found.handler(error, req);
      return isThenable(reply)
        ? this.#later(reply, req, error, found.plan)
        : this.#responseOf(reply, req, found.plan);
    } catch (failure) {
      return plainAnswer(errorAfter(failure, error), req, this.#failures);
    }
  }

  #find(error: unknown): HandledClass | undefined {
    for (const handlers of this.#handlers) {
      const found = handlers.find(error);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async #later(
    reply: PromiseLike<unknown>,
    req: TransportRequest,
    error: unknown,
    plan: ReplyPlan,
  ): Promise<HttpResponse> {
    try {
      return await this.#responseOf(await reply, req, plan);
    } catch (failure) {
      return plainAnswer(errorAfter(failure, error), req, this.#failures);
    }
  }

  #responseOf(reply: unknown, req: TransportRequest, plan: ReplyPlan): Awaitable<HttpResponse> {
    // undefined is probably a forgotten `return`; an empty response would hide the error
    if (reply === undefined) throw new SvcError('E_REPLY', ['the exception handler returned undefined']);
    return toResponse(reply, plan).settle(req);
  }

  /** Reports an error of a clean-up or background task, which must already be logged. */
  failedAfter(error: unknown, requestId: string): void {
    this.#failures.onFailedAfter?.(error, requestId);
  }

  /** Logs the error of a dependency that failed beside another one, unless it is ordinary traffic. */
  failedBeside(error: unknown, req: TransportRequest, dependency: string): void {
    if (isRefusal(error) || isEndByClient(error, req) || isExpiry(error, req)) return;
    this.#failures.log.error('dependency_failed', error, { ...req.logFields(), dependency });
    this.failedAfter(error, req.id);
  }

  /** Reports an exception on an open WebSocket, whose handshake is already answered. */
  report(error: unknown, req: TransportRequest): void {
    if (isEndByClient(error, req)) return this.#failures.log.debug('client_disconnected', req.logFields());
    reportFailure(error, req, this.#failures);
    this.#failures.onUnhandled?.(error, req.id);
  }
}

/** Issues with the places that the program has given, of errors whose issues were placed in a form. */
const GIVEN_ISSUES = new WeakMap<HTTPException, readonly Issue[]>();

/**
 * Code without the request, such as conflictOn(), places each issue in the body. If the body of the route is a form,
 * the place becomes `form`, as after a failed validation. Another route may throw the same error later.
 */
function placeIssues(error: unknown, { bodyRules }: TransportRequest): void {
  if (!(error instanceof HTTPException) || error.issues === undefined) return;
  const given = GIVEN_ISSUES.get(error) ?? error.issues;
  const issues = bodyRules.form === undefined ? given : given.map(inForm);
  if (issues === error.issues) return;
  GIVEN_ISSUES.set(error, given);
  Reflect.set(error, 'issues', issues); // unlike an assignment, does not throw if the error is frozen
}

function inForm(issue: Issue): Issue {
  const [place, ...path] = issue.loc;
  return place === 'body' ? { ...issue, loc: ['form', ...path] } : issue;
}

/** Returns whether an error is, or was caused by, the end of the request's time limit. */
function isExpiry(error: unknown, { expiry }: TransportRequest): boolean {
  return expiry !== undefined && isCausedBy(error, (cause) => cause === expiry);
}

/**
 * Returns whether an error means that the client of the request has disconnected. A cause may be the
 * disconnect of another request, which shares its work with this one. So a cause counts only if this client
 * has left.
 */
function isEndByClient(error: unknown, req: TransportRequest): boolean {
  return error instanceof ClientDisconnected || (req.isAbandoned && isDisconnect(error));
}

/**
 * Returns whether an error says that the body was discarded. A handler gets this error if it reads the body
 * after its time limit, because the response was already sent.
 */
function isDiscardedBody(error: unknown): boolean {
  return error instanceof SvcError && error.code === 'E_BODY_DISCARDED';
}

/** Converts the result or exception of a handler or middleware. Never throws, never rejects. */
export class CoreEdge {
  readonly #plan: ReplyPlan;
  readonly #errors: ErrorRenderer;

  constructor(plan: ReplyPlan, errors: ErrorRenderer) {
    this.#plan = plan;
    this.#errors = errors;
  }

  answer(value: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    // checked first, because middleware nearly always returns a response
    const isResponse = value instanceof HttpResponse;
    if (
      !isResponse &&
      typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function'
    )
      return this.#later(value as PromiseLike<unknown>, req);
    try {
      const response = (isResponse ? value : toResponse(value, this.#plan)).settle(req);
      return response instanceof HttpResponse ? response : this.#later(response, req);
    } catch (error) {
      return this.#errors.render(error, req);
    }
  }

  fail(error: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    return this.#errors.render(error, req);
  }

  #later(pending: PromiseLike<unknown>, req: TransportRequest): Promise<HttpResponse> {
    // then() with two functions, because an async function with try and catch is slower: by 4 % of the time
    // of a request through five middleware (test/bench/http.ts)
    return Promise.resolve(pending).then(
      (value) => this.answer(value, req),
      (error: unknown) => this.fail(error, req),
    );
  }
}

/** Returns a function that calls `run`, and converts its result or exception into a response. */
export function guarded(run: (req: TransportRequest) => unknown, edge: CoreEdge): Core {
  return (req) => {
    try {
      return edge.answer(run(req), req);
    } catch (error) {
      return edge.fail(error, req);
    }
  };
}

/** The first middleware is the outermost. */
export function compose(layers: readonly Middleware[], core: Core, errors: ErrorRenderer): Core {
  return layers.reduceRight((inner, middleware) => wrap(middleware, inner, errors), core);
}

/** Result of next() while it is running, so that a second call of next() is detected. */
const ON_ITS_WAY = new HttpResponse();

function wrap(middleware: Middleware, inner: Core, errors: ErrorRenderer): Core {
  const edge = new CoreEdge({ ...DEFAULT_PLAN, middleware: nameOf(middleware) }, errors);
  return (req) => {
    // Result of next(); undefined until next() is called. A separate flag for the call would make a
    // middleware 8 % slower ("five middleware functions" of test/bench/http.ts).
    let passed: Awaitable<HttpResponse> | undefined;
    try {
      const value: unknown = middleware.handle(req, () => {
        if (passed !== undefined) throw new SvcError('E_NEXT_TWICE', [nameOf(middleware)]);
        passed = ON_ITS_WAY;
        // undefined if an inner middleware returned a promise with a then() of its own that returns nothing
        const answer: Awaitable<HttpResponse> | undefined = inner(req);
        if (answer !== undefined) passed = answer;
        return answer;
      });
      // the middleware returned the result of next(), which is already a response
      if (passed !== undefined && value === passed) return passed;
      if (isPlainPromise(value))
        return value.then(
          (value: unknown) => edge.answer(value, req),
          (error: unknown) => edge.fail(error, req),
        );
      return edge.answer(value, req);
    } catch (error) {
      return errors.render(error, req);
    }
  };
}

/** Returns whether `Promise.resolve(value)` would be `value` itself, so that the call is unnecessary. */
function isPlainPromise(value: unknown): value is Promise<unknown> {
  return value instanceof Promise && value.constructor === Promise;
}

/** Returns middleware as an object with handle(): a function is wrapped, an object is returned unchanged. */
export function asMiddleware(given: Middleware | MiddlewareFunction): Middleware {
  if (typeof given === 'function') {
    if (/^class\b/.test(Function.prototype.toString.call(given)))
      throw new SvcError('E_MIDDLEWARE', [
        `pass an instance of the class ${given.name}, not the class itself: new ${given.name}()`,
      ]);
    if (given.length > 2)
      throw new SvcError('E_MIDDLEWARE', [
        `the function has ${given.length} parameters, but must have at most two: req and next`,
      ]);
    return new FunctionMiddleware(given);
  }
  if (typeof given === 'object' && given !== null && typeof given.handle === 'function') return given;
  throw new SvcError('E_MIDDLEWARE', [
    typeof given === 'object' && given !== null
      ? 'the object has no method handle(req, next)'
      : `${shown(given)} is neither a function (req, next) nor an object with a method handle(req, next)`,
  ]);
}

class FunctionMiddleware implements Middleware {
  readonly handle: Middleware['handle'];
  readonly name: string;

  constructor(fn: MiddlewareFunction) {
    this.handle = fn as Middleware['handle'];
    this.name = fn.name;
  }
}

function nameOf(middleware: Middleware): string {
  const name = middlewareName(middleware);
  return name === ANONYMOUS ? name : `"${name}"`;
}

const ANONYMOUS = '(anonymous)';

/** Returns the name of a function or class of middleware. @internal */
export function middlewareName(middleware: Middleware): string {
  const name = middleware instanceof FunctionMiddleware ? middleware.name : middleware.constructor.name;
  return name === '' || name === 'Object' ? ANONYMOUS : name;
}

interface FailureDeps {
  readonly log: Logger;
  readonly errors: Counter;
  readonly descriptors: DescriptorWatch;
  /** Whether error responses with status 5xx contain stacks. */
  readonly debug: boolean;
  /**
   * Called with each error that no exception handler has handled, and with the id of the request. A test
   * client rethrows the error.
   */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /**
   * Called with each error of a clean-up or a background task. `requestId` is empty if a task belongs to no
   * request.
   */
  readonly onFailedAfter?: ((error: unknown, requestId: string) => void) | undefined;
}

/**
 * Returns the response to an error without an exception handler. An HTTPException has its own status. An
 * error because of too much load leads to 503, any other error to 500. Errors with a status of 500
 * or more are logged.
 */
function plainAnswer(thrown: unknown, req: TransportRequest, deps: FailureDeps): HttpResponse {
  const error = thrown instanceof HTTPException ? thrown : (overload(thrown) ?? thrown);
  if (isRefusal(error)) return problemFor(error, req, deps);
  if (isEndByClient(error, req)) {
    deps.log.debug('client_disconnected', req.logFields());
    return problem(400, req.id, { detail: 'The connection ended before the whole request was received' });
  }
  const status = error instanceof HTTPException ? error.status : 500;
  reportFailure(thrown, req, deps, status);
  const trace = deps.debug ? stackOf(thrown) : undefined;
  if (!(thrown instanceof HTTPException || lacksDescriptors(thrown))) deps.onUnhandled?.(thrown, req.id);
  if (error instanceof HTTPException) return problemFor(error, req, deps, trace);
  return problem(500, req.id, { trace });
}

/** Returns the 503 for an error because of too much load, also of one of its causes, or undefined for any other error. */
function overload(cause: unknown): HTTPException | undefined {
  const lacksFiles = lacksDescriptors(cause);
  let seconds = lacksFiles ? 5 : undefined;
  if (!lacksFiles)
    isCausedBy(cause, (each) => (seconds = OVERLOADS.get(Object(each) as object)) !== undefined);
  if (seconds === undefined) return undefined;
  const reason = lacksFiles ? 'The server has too many files open' : 'The server is busy';
  const headers = { 'Retry-After': String(seconds) };
  return new HTTPException(503, `${reason}; repeat the request later`, { headers, cause });
}

/** `status` is the status of the response; undefined on an open WebSocket. */
function reportFailure(error: unknown, req: TransportRequest, deps: FailureDeps, status?: number): void {
  deps.errors.add(1);
  const fields = { ...req.logFields(), status };
  if (lacksDescriptors(error)) deps.descriptors.report(error, fields);
  else deps.log.error('unhandled_error', error, fields);
  req.span?.fail(error);
}

function problemFor(
  error: HTTPException,
  req: TransportRequest,
  { log }: FailureDeps,
  trace?: string,
): HttpResponse {
  try {
    placeIssues(error, req);
    return issueOf(error, req.id, trace);
  } catch (failure) {
    // issueOf() throws if the exception has an invalid header field, or a detail that is not a string
    log.error('unhandled_error', errorAfter(failure, error), { ...req.logFields(), status: error.status });
    return problem(error.status, req.id, {
      detail: typeof error.detail === 'string' ? error.detail : undefined,
    });
  }
}

/** Returns whether an error is a response for the client, and no failure of the server. */
function isRefusal(error: unknown): error is HTTPException {
  return error instanceof HTTPException && (error.status < 500 || error instanceof Unavailable);
}

const MAX_CAUSES = 8;

function stackOf(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return `Thrown: ${typeof error}`;
  const stack = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined || depth === MAX_CAUSES
    ? stack
    : `${stack}\nCaused by: ${stackOf(error.cause, depth + 1)}`;
}

/**
 * Remembers to which application a middleware belongs. Middleware that keeps keys, a clock or a log must not
 * serve two applications.
 */
export class OneApplication {
  #services: Services | undefined;

  /** Returns a finding about `subject` if another application already uses this middleware. */
  claim(subject: string, { services }: Pick<CompiledView, 'services'>): Omit<Finding, 'place'> | undefined {
    this.#services ??= services;
    if (this.#services === services) return undefined;
    return {
      rule: 'SVC121',
      severity: 'error',
      subject,
      message:
        'this instance of the middleware already belongs to another application, and cannot use the keys and settings of both applications',
      remedy:
        'Create a new instance of the middleware for each application: app.use(new SessionMiddleware())',
    };
  }
}

/** Class of errors that an exception handler handles; it may be abstract. */
export type ErrorClass<E> = abstract new (...args: never[]) => E;
/**
 * Turns an exception into a response, such as `[body, status]`. If it throws, no other exception handler is
 * called for the new error.
 */
export type ExceptionHandler<E> = (error: E, req: HttpRequest) => Awaitable<unknown>;

const THROWING = new WeakSet<object>();

/** Marks an exception handler that only throws, so that the OpenAPI document promises problem details. */
export function throwing<F extends ExceptionHandler<unknown>>(handler: F): F {
  THROWING.add(handler);
  return handler;
}

export function alwaysThrows(handler: ExceptionHandler<unknown>): boolean {
  return THROWING.has(handler);
}

/** `plan` converts its result; `declared` has its responses for the OpenAPI document. */
interface HandledClass {
  readonly handler: ExceptionHandler<unknown>;
  readonly plan: ReplyPlan;
  readonly declared: unknown;
}

/** Exception handlers by error class. find() also searches superclasses, and caches the result. */
export class ExceptionHandlers {
  readonly #byPrototype = new Map<object, HandledClass>();
  readonly #found = new WeakMap<object, HandledClass | null>();

  get size(): number {
    return this.#byPrototype.size;
  }

  /** Sets the exception handler of an error class. Returns whether the class had none before. */
  add<E>(
    errorClass: ErrorClass<E>,
    handler: ExceptionHandler<E>,
    plan: ReplyPlan = DEFAULT_PLAN,
    declared?: unknown,
  ): boolean {
    const isClass = typeof errorClass === 'function' && typeof errorClass.prototype === 'object';
    if (!isClass || typeof handler !== 'function')
      throw new SvcError('E_EXCEPTION_HANDLER', [
        isClass ? 'the handler is not a function' : `${shown(errorClass)} is not a class`,
      ]);
    const isNew = !this.#byPrototype.has(errorClass.prototype);
    const handled = { handler: handler as ExceptionHandler<unknown>, plan, declared };
    this.#byPrototype.set(errorClass.prototype, handled);
    return isNew;
  }

  /** Prototypes of the error classes that have a handler. */
  prototypes(): Iterable<object> {
    return this.#byPrototype.keys();
  }

  /** Returns the handler for a thrown value; undefined if there is none, or the value is not an object. */
  find(error: unknown): HandledClass | undefined {
    if (this.#byPrototype.size === 0 || typeof error !== 'object' || error === null) return undefined;
    const prototype = Object.getPrototypeOf(error) as object | null;
    return prototype === null ? undefined : this.findOf(prototype);
  }

  findOf(prototype: object): HandledClass | undefined {
    let found = this.#found.get(prototype);
    if (found === undefined) this.#found.set(prototype, (found = this.#walk(prototype)));
    return found ?? undefined;
  }

  #walk(prototype: object): HandledClass | null {
    for (let at: object | null = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
      const handler = this.#byPrototype.get(at);
      if (handler !== undefined) return handler;
      // a handler for Error does not handle an HTTPException, which already determines its response
      if (at === HTTPException.prototype) return null;
    }
    return null;
  }
}
