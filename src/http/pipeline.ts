/**
 * The pipeline: compiles middleware and the handler into one function, and turns errors into responses at
 * each layer.
 *
 * The `next()` of a middleware calls handle() of the next inner middleware; the innermost `next()` calls the
 * handler. `next()` never fails: an exception becomes a response in the layer that throws it, so outer
 * middleware can still add its fields. Synchronous middleware costs no promise.
 */
import { ClientDisconnected, HTTPException, SvcError, errorAfter } from '../base/errors.ts';
import { isThenable } from '../base/promises.ts';
import { HttpResponse, LateAnswer, problem, issueOf } from './response.ts';
import { DEFAULT_PLAN, toResponse } from './reply.ts';
import { failRequest } from './request/event.ts';
import { shown } from '../base/options.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, Next, Services } from './contracts.ts';
import type { Answer } from './response.ts';
import type { ReplyPlan } from './reply.ts';
import type { TransportRequest } from './request/request.ts';
import type { Logger } from '../observability/log.ts';
import type { Counter } from '../observability/metrics.ts';
import type { Finding } from '../base/findings.ts';

/** Handles a request. Never throws, never rejects. */
type Layer = (req: TransportRequest) => Awaitable<HttpResponse>;

/** The innermost handler, or the whole chain around it. */
export type Core = (req: TransportRequest) => Answer;

/** Middleware as a function. It may return every value that a handler may return. */
export type MiddlewareFunction = (req: HttpRequest, next: Next) => unknown;

/** Turns an exception into a response. */
export class ErrorRenderer {
  /** Exception handlers: those of the routers, the innermost first, then those of the application. */
  readonly #handlers: readonly ExceptionHandlers[];
  readonly #failures: FailureDeps;

  constructor({ handlers, ...failures }: FailureDeps & { readonly handlers: readonly ExceptionHandlers[] }) {
    this.#handlers = handlers;
    this.#failures = failures;
  }

  /**
   * Returns a renderer that tries these handlers first (those of routers, the innermost first), and then the
   * handlers of this renderer.
   */
  within(handlers: readonly ExceptionHandlers[]): ErrorRenderer {
    return new ErrorRenderer({ ...this.#failures, handlers: [...handlers, ...this.#handlers] });
  }

  /** The handlers of routers and of the application, the innermost first. */
  get handlers(): readonly ExceptionHandlers[] {
    return this.#handlers;
  }

  /** Whether there is an exception handler. If not, a 404 need not be thrown as an exception. */
  get hasHandlers(): boolean {
    return this.#handlers.some(({ size }) => size > 0);
  }

  /** The response for an error: the result of an exception handler, else a problem document. */
  render(error: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    if (req.expiry !== undefined && (isOf(error, req.expiry) || isDiscardedBody(error)))
      // the time limit has stopped the handler; this response is not sent, because the client has one already
      return problem(req.expiry.status, req.id);
    const found = this.#find(error);
    if (found === undefined) return plainAnswer(error, req, this.#failures);
    try {
      const reply = found.handler(error, req);
      return isThenable(reply)
        ? this.#later(reply, req, error, found.plan)
        : this.#settled(reply, req, found.plan);
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
      return await this.#settled(await reply, req, plan);
    } catch (failure) {
      return plainAnswer(errorAfter(failure, error), req, this.#failures);
    }
  }

  #settled(reply: unknown, req: TransportRequest, plan: ReplyPlan): Awaitable<HttpResponse> {
    // undefined is probably a forgotten `return`; an empty response would hide the error
    if (reply === undefined) throw new SvcError('E_REPLY', ['the exception handler returned nothing']);
    return toResponse(reply, plan).settle(req);
  }

  /** Calls `onFailedAfter` for an error of a clean-up or background task, which has been logged before. */
  failedAfter(error: unknown, requestId: string): void {
    this.#failures.onFailedAfter?.(error, requestId);
  }

  /** Reports an exception that is thrown on an open WebSocket, when the response has been sent. */
  report(error: unknown, req: TransportRequest): void {
    reportFailure(error, req, this.#failures);
    this.#failures.onUnhandled?.(error, req.id);
  }
}

/**
 * Whether an error is `reason`, or the AbortError that Node throws when a signal was aborted with `reason`.
 */
function isOf(error: unknown, reason: Error): boolean {
  return (
    error === reason || (error instanceof Error && error.name === 'AbortError' && error.cause === reason)
  );
}

/**
 * Whether the error says that the body was discarded. That happens when a handler reads the body after its
 * time limit: the response has been sent by then.
 */
function isDiscardedBody(error: unknown): boolean {
  return error instanceof SvcError && error.code === 'E_BODY_DISCARDED';
}

/** Converts the result or exception of a handler or middleware to a response. Never throws, never rejects. */
export class CoreEdge {
  readonly #plan: ReplyPlan;
  readonly #errors: ErrorRenderer;

  constructor(plan: ReplyPlan, errors: ErrorRenderer) {
    this.#plan = plan;
    this.#errors = errors;
  }

  answer(value: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    // tested first, because middleware nearly always returns a response
    const isResponse = value instanceof HttpResponse;
    if (
      !isResponse &&
      typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function'
    )
      return this.#settle(value as PromiseLike<unknown>, req);
    try {
      const response = (isResponse ? value : toResponse(value, this.#plan)).settle(req);
      return response instanceof HttpResponse ? response : this.#settle(response, req);
    } catch (error) {
      return this.#errors.render(error, req);
    }
  }

  fail(error: unknown, req: TransportRequest): Awaitable<HttpResponse> {
    return this.#errors.render(error, req);
  }

  #settle(pending: PromiseLike<unknown>, req: TransportRequest): Promise<HttpResponse> {
    // then() with two functions is faster than an async function with try and catch: 4 % of a request through
    // five middleware (test/bench/http.ts)
    return Promise.resolve(pending).then(
      (value) => this.answer(value, req),
      (error: unknown) => this.fail(error, req),
    );
  }
}

/** Wraps the innermost function of a pipeline: its results and exceptions become responses. */
export function guarded(run: (req: TransportRequest) => unknown, edge: CoreEdge): Layer {
  return (req) => {
    try {
      return edge.answer(run(req), req);
    } catch (error) {
      return edge.fail(error, req);
    }
  };
}

/** Returns one function that calls the middleware, the first one outermost, and inside them `core`. */
export function compose(layers: readonly Middleware[], core: Core, errors: ErrorRenderer): Core {
  return layers.length === 0
    ? core
    : layers.reduceRight((inner, middleware) => wrap(middleware, inner, errors), promising(core));
}

/** Replaces a LateAnswer by its promise, because middleware may call then() on the result. */
function promising(core: Core): Layer {
  return (req) => {
    const answer = core(req);
    return answer instanceof LateAnswer ? answer.promise : answer;
  };
}

/** Value of `passed` from the call of next() until it returns: a second call is an error. */
const ON_ITS_WAY = new HttpResponse();

function wrap(middleware: Middleware, inner: Layer, errors: ErrorRenderer): Layer {
  const edge = new CoreEdge({ ...DEFAULT_PLAN, middleware: nameOf(middleware) }, errors);
  return (req) => {
    // undefined until next() is called. A second variable for that would add 8 % to the time of a middleware
    // on Node 24, and 2 % on Node 26 (`mw5` of test/bench/http.ts)
    let passed: Awaitable<HttpResponse> | undefined;
    try {
      const value: unknown = middleware.handle(req, () => {
        if (passed !== undefined) throw new SvcError('E_NEXT_TWICE', [nameOf(middleware)]);
        passed = ON_ITS_WAY;
        // the result is undefined if then() of a promise-like object resolves without a value
        const answer: Awaitable<HttpResponse> | undefined = inner(req);
        if (answer !== undefined) passed = answer;
        return answer;
      });
      // the middleware returned the result of next() itself, which needs no conversion
      if (passed !== undefined && value === passed) return passed;
      if (isPlainPromise(value))
        return value.then(
          (settled: unknown) => edge.answer(settled, req),
          (error: unknown) => edge.fail(error, req),
        );
      return edge.answer(value, req);
    } catch (error) {
      return errors.render(error, req);
    }
  };
}

/** Whether `Promise.resolve()` would return the value unchanged. If so, the call is not needed. */
function isPlainPromise(value: unknown): value is Promise<unknown> {
  return value instanceof Promise && value.constructor === Promise;
}

/**
 * Converts middleware given as a function to an object; an object is returned as it is.
 * @throws SvcError `E_MIDDLEWARE`
 */
export function asMiddleware(given: Middleware | MiddlewareFunction): Middleware {
  if (typeof given === 'function') {
    if (/^class\b/.test(Function.prototype.toString.call(given)))
      throw new SvcError('E_MIDDLEWARE', [`the class ${given.name} without "new"`]);
    if (given.length > 2) throw new SvcError('E_MIDDLEWARE', [`a function with ${given.length} parameters`]);
    return new FunctionMiddleware(given);
  }
  if (typeof given === 'object' && given !== null && typeof given.handle === 'function') return given;
  throw new SvcError('E_MIDDLEWARE', [
    given === null
      ? 'null'
      : typeof given === 'object'
        ? 'an object without the method handle()'
        : `a ${typeof given}`,
  ]);
}

class FunctionMiddleware implements Middleware {
  readonly handle: Middleware['handle'];
  readonly name: string;

  constructor(fn: MiddlewareFunction) {
    this.handle = fn as Middleware['handle']; // the cast is safe: wrap() converts the result to a response
    this.name = fn.name;
  }
}

function nameOf(middleware: Middleware): string {
  const name = middleware instanceof FunctionMiddleware ? middleware.name : middleware.constructor.name;
  return name === '' || name === 'Object' ? '(anonymous)' : `"${name}"`;
}

/** The functions that are called with unhandled errors, and whether responses show stacks. */
interface FailureDeps {
  readonly log: Logger;
  readonly errors: Counter;
  /** Whether responses show stacks. */
  readonly debug: boolean;
  /** Called with every unhandled error and the id of its request. A test client throws the error again. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
  /**
   * Called with every error of a clean-up or a background task. The id is empty if the task belongs to no
   * request.
   */
  readonly onFailedAfter?: ((error: unknown, requestId: string) => void) | undefined;
}

/**
 * Default rendering of an error. An HTTPException determines its response; every other error is a 500. Errors
 * from 500 on are logged.
 */
function plainAnswer(error: unknown, req: TransportRequest, deps: FailureDeps): HttpResponse {
  if (error instanceof HTTPException && error.status < 500) return problemFor(error, req, deps);
  if (isDisconnect(error)) {
    deps.log.debug('client_disconnected', req.logFields());
    return problem(400, req.id, { detail: 'The request ended before it was received completely' });
  }
  const status = error instanceof HTTPException ? error.status : 500;
  reportFailure(error, req, deps, status);
  const trace = deps.debug ? stackOf(error) : undefined;
  if (error instanceof HTTPException) return problemFor(error, req, deps, trace);
  deps.onUnhandled?.(error, req.id);
  return problem(500, req.id, { trace });
}

/**
 * Counts and logs an unhandled error. `status`: the status of the response; undefined on an open WebSocket.
 */
function reportFailure(error: unknown, req: TransportRequest, deps: FailureDeps, status?: number): void {
  deps.errors.add(1);
  deps.log.error('unhandled_error', error, { ...req.logFields(), status });
  if (req.event !== undefined) failRequest(req.event, error);
}

function problemFor(
  error: HTTPException,
  req: TransportRequest,
  { log }: FailureDeps,
  trace?: string,
): HttpResponse {
  try {
    return issueOf(error, req.id, trace);
  } catch (failure) {
    // the exception has an invalid header, or a detail that is not a string
    log.error('unhandled_error', errorAfter(failure, error), { ...req.logFields(), status: error.status });
    return problem(error.status, req.id, {
      detail: typeof error.detail === 'string' ? error.detail : undefined,
    });
  }
}

/**
 * Whether an error means that the client has left: ClientDisconnected, or the AbortError that Node throws for
 * a signal that was aborted with it.
 */
function isDisconnect(error: unknown): boolean {
  return (
    error instanceof ClientDisconnected ||
    (error instanceof Error && error.name === 'AbortError' && error.cause instanceof ClientDisconnected)
  );
}

const MAX_CAUSES = 8;

/** The stack of an error, followed by the stacks of its causes. */
function stackOf(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return `Thrown: ${typeof error}`;
  const stack = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined || depth === MAX_CAUSES
    ? stack
    : `${stack}\nCaused by: ${stackOf(error.cause, depth + 1)}`;
}

/*
 * Middleware that stores services of its application (keys, clock, log) can serve only one application. If a
 * second application compiled it, requests of the first one would be handled with the keys of the second.
 */

/** Remembers which application a middleware belongs to. */
export class OneApplication {
  #services: Services | undefined;

  /**
   * Returns the problem that `compile()` must report if another application has compiled this middleware
   * before; otherwise undefined. The first application may compile it again, for checks and test clients.
   * `subject`: for example `middleware session`.
   */
  claim(subject: string, { services }: Pick<CompiledView, 'services'>): Omit<Finding, 'place'> | undefined {
    this.#services ??= services;
    if (this.#services === services) return undefined;
    return {
      rule: 'SVC121',
      severity: 'error',
      subject,
      message:
        'the middleware already belongs to another application, whose keys and settings would be replaced',
      remedy: 'Create an instance for each application: call new in app.use()',
    };
  }
}

/*
 * Exception handlers: a thrown value goes to the handler of the nearest class in its prototype chain.
 */

/** A class of errors, abstract or not. */
export type ErrorClass<E> = abstract new (...args: never[]) => E;
/** Turns an exception into a reply. Exceptions that it throws count as unhandled errors. */
export type ExceptionHandler<E> = (error: E, req: HttpRequest) => Awaitable<unknown>;

/**
 * An exception handler, how its replies are converted, and the responses that it declares for the API
 * document.
 */
interface HandledClass {
  readonly handler: ExceptionHandler<unknown>;
  readonly plan: ReplyPlan;
  readonly declared: unknown;
}

/** Exception handlers by class. The search follows the prototype chain of an error, and caches the result. */
export class ExceptionHandlers {
  /**
   * Handlers by the prototype of their class, so that the search works like `instanceof`, and does not read
   * the property `constructor`.
   */
  readonly #byPrototype = new Map<unknown, HandledClass>();
  readonly #found = new WeakMap<object, HandledClass | null>();

  get size(): number {
    return this.#byPrototype.size;
  }

  /** Sets the handler of a class. Returns whether it had none before. @throws SvcError `E_EXCEPTION_HANDLER` */
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
    // the cast is safe: the handler is called only with instances of its class
    const handled = { handler: handler as ExceptionHandler<unknown>, plan, declared };
    this.#byPrototype.set(errorClass.prototype, handled);
    return isNew;
  }

  /** The handler for a thrown value; undefined if there is none, or the value is not an object. */
  find(error: unknown): HandledClass | undefined {
    if (this.#byPrototype.size === 0 || typeof error !== 'object' || error === null) return undefined;
    const prototype = Object.getPrototypeOf(error) as object | null;
    return prototype === null ? undefined : this.findOf(prototype);
  }

  /** The handler for instances of a class, given by its prototype. */
  findOf(prototype: object): HandledClass | undefined {
    let found = this.#found.get(prototype);
    if (found === undefined) this.#found.set(prototype, (found = this.#walk(prototype)));
    return found ?? undefined;
  }

  #walk(prototype: object): HandledClass | null {
    for (let at: object | null = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
      const handler = this.#byPrototype.get(at);
      if (handler !== undefined) return handler;
      // the default response to an HTTPException is more specific than a handler of Error
      if (at === HTTPException.prototype) return null;
    }
    return null;
  }
}
