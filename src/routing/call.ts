/**
 * Handles requests to one compiled route. For a route without inputs and dependencies, only the handler is
 * called. For any other route, a {@link RouteCall} performs these steps for each request:
 *   1. resolve dependencies of routers, and dependencies with security requirements
 *   2. validate path, query, header fields and cookies, then the body or form: 400 with all invalid inputs. The
 *      other statuses of a body come from http/request/body.ts, which lists them
 *   3. resolve all other dependencies
 *   4. call the handler, and convert its result into a response
 *   5. run the clean-ups of scope `handler`
 *
 * Each step returns a value, or a promise if it has to wait. An error is thrown, or rejects the promise;
 * `CoreEdge` (http/pipeline.ts) converts it into a response.
 */
import { Resolution, calledInside } from './di-plan.ts';
import { ValidationError } from '../schema/schema.ts';
import { currentContext, ignore, isThenable, whenReady } from '../base/promises.ts';
import { problem } from '../http/response.ts';
import { discard, isChunks } from '../http/chunks.ts';
import { CoreEdge, guarded } from '../http/pipeline.ts';
import { DEFAULT_PLAN, toResponse } from '../http/reply.ts';
import { inSpan } from '../observability/tracer.ts';
import { replyPlanOf } from './declared-responses.ts';
import { planSteps } from './steps.ts';
import { paramsReader } from '../http/path.ts';
import type { Failure, PlannedDependency } from './di-plan.ts';
import type { SpanStart } from '../observability/tracer.ts';
import type { CompiledBody, Result, SchemaPlan } from '../schema/schema.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Core } from '../http/pipeline.ts';
import type { ReplyPlan } from '../http/reply.ts';
import type { TextInputPlan } from './di.ts';
import type { Issue } from '../base/errors.ts';
import type { RouteDeps, RoutePlan } from './steps.ts';
import type {
  Awaitable,
  CompiledRoute,
  Context,
  HttpRequest,
  SecurityRequirement,
  StateMap,
} from '../http/contracts.ts';
import type { Endpoint, Outcome, TransportRequest } from '../http/request/request.ts';
import type { FlatRoute } from './route.ts';
import type { RouteSpec } from './spec.ts';

/** Handles one request to a route. */
class RouteCall {
  readonly #plan: RoutePlan;
  readonly #req: TransportRequest;
  readonly #context: RequestContext;
  readonly #resolution: Resolution;
  #failure: Failure | undefined;

  constructor(plan: RoutePlan, req: TransportRequest) {
    this.#plan = plan;
    this.#req = req;
    this.#context = new RequestContext(req);
    this.#resolution =
      plan.size === 0
        ? (nothingResolved ??= new Resolution({} as Context, 0))
        : new Resolution(this.#context, plan.size, plan.deps.services.tracer);
  }

  /**
   * Handles the request. Returns a response or the return value of the handler, or a promise of either. `edge`
   * makes the response to an error, because throwing it once more takes a tenth of a refused request
   * ("401 × 200" of test/bench/http.ts).
   */
  start(edge: CoreEdge): unknown {
    // without dependencies there is nothing to clean up after an error
    if (this.#plan.size === 0) return this.#read(undefined);
    try {
      const answer = this.#resolveEarly();
      return isThenable(answer)
        ? answer.then(undefined, (error: unknown) => this.#responseTo(error, edge))
        : answer;
    } catch (error) {
      return this.#responseTo(error, edge);
    }
  }

  #responseTo(error: unknown, edge: CoreEdge): Awaitable<HttpResponse> {
    return whenReady(this.#failureAfter(error), (failure) => edge.fail(failure.error, this.#req));
  }

  /**
   * Resolves the dependencies of routers, and dependencies with security requirements, before the body is
   * read. An invalid input is reported only after that. So a request without a login gets 401, even if it
   * also has an invalid input.
   */
  #resolveEarly(): unknown {
    const { early } = this.#plan;
    if (early.length === 0) return this.#read(undefined);
    const issues = this.#readOf(early, undefined, undefined);
    const waiting = this.#resolution.resolve(issues === undefined ? early : this.#sound(early));
    return waiting === undefined ? this.#read(issues) : waiting.then(() => this.#read(issues));
  }

  /** Returns `stored` in place of the handler's response, if the guards of the route admit the request. */
  async admit(stored: HttpResponse): Promise<HttpResponse> {
    const { early } = this.#plan;
    try {
      const issues = this.#readOf(early, undefined, undefined);
      await this.#resolution.resolve(issues === undefined ? early : this.#sound(early));
      // a guard whose header is missing was not asked, so it has not admitted the request
      if (issues !== undefined) return this.#leave(this.#refuse(issues));
    } catch (error) {
      throw (await this.#failureAfter(error)).error;
    }
    return this.#leave(stored);
  }

  /**
   * Returns the dependencies that can be resolved: their inputs, and the dependencies that they need, are
   * valid.
   */
  #sound(dependencies: readonly PlannedDependency[]): PlannedDependency[] {
    const unsound = new Set<number>();
    return dependencies.filter(({ slot, inputs, needs }) => {
      const isSound =
        (inputs.length === 0 || this.#resolution.inputs[slot] !== undefined) &&
        !needs.some((need) => unsound.has(need));
      if (!isSound) unsound.add(slot);
      return isSound;
    });
  }

  /** Reads all inputs including the body. All invalid inputs are reported in one response. */
  #read(earlier: Issue[] | undefined): unknown {
    const { inputs, late, body, form, keeper } = this.#plan;
    const issues = this.#readOf(late, inputs, earlier);
    if (body !== undefined)
      return this.#req.readJson((value, text) => {
        // without an escape, no string has a lone surrogate, and the schema need not look for one
        const isPlainJson = !text.includes('\\u');
        const result = body.parseBody(value, 'body', isPlainJson);
        // a schema of another library may return a promise
        if (result instanceof Promise) return result.then((ready) => this.#validated('body', ready, issues));
        return this.#validated('body', result, issues);
      });
    if (form !== undefined)
      return whenReady(this.#req.readForm(keeper), (fields) =>
        this.#validated('form', form.parseText(fields, 'form', true), issues),
      );
    return issues === undefined ? this.#resolveLate() : this.#refuse(issues);
  }

  #readOf(
    dependencies: readonly PlannedDependency[],
    own: readonly TextInputPlan[] | undefined,
    issues: Issue[] | undefined,
  ): Issue[] | undefined {
    // the cast allows this method to add the values of inputs to the context
    const context = this.#context as unknown as Record<string, unknown>;
    if (own !== undefined) {
      for (const input of own) {
        const result = input.read(this.#req);
        if (result.ok) context[input.key] = result.value;
        else (issues ??= []).push(...result.issues);
      }
    }
    for (const dependency of dependencies) {
      if (dependency.inputs.length === 0) continue;
      let values: Record<string, unknown> | undefined = {};
      for (const input of dependency.inputs) {
        const result = input.read(this.#req);
        if (!result.ok) {
          (issues ??= []).push(...result.issues);
          values = undefined;
        } else if (values !== undefined) values[input.key] = result.value;
      }
      this.#resolution.inputs[dependency.slot] = values;
    }
    return issues;
  }

  #validated(key: 'body' | 'form', result: Result<unknown>, issues: Issue[] | undefined): unknown {
    if (!result.ok) return this.#refuse(issues === undefined ? result.issues : [...issues, ...result.issues]);
    if (issues !== undefined) return this.#refuse(issues);
    (this.#context as unknown as Record<string, unknown>)[key] = result.value;
    return this.#plan.late.length === 0 ? this.#handle() : this.#resolveLate();
  }

  #resolveLate(): unknown {
    const waiting = this.#plan.late.length === 0 ? undefined : this.#resolution.resolve(this.#plan.late);
    return waiting === undefined ? this.#handle() : waiting.then(() => this.#handle());
  }

  #handle(): unknown {
    // `expiry` is set if the time limit was exceeded before the handler was called
    if (this.#req.expiry !== undefined) throw this.#req.expiry;
    const context = this.#context as unknown as Record<string, unknown>;
    const { around, names } = this.#plan;
    if (names.length > 0) for (const [name, slot] of names) context[name] = this.#resolution.values[slot];
    const handler =
      around.length === 0 ? this.#plan.handler : calledInside(around, this.#resolution, this.#plan.handler);
    const value = handler(context);
    if (this.#plan.size === 0 || (!this.#resolution.hasCleanups && this.#resolution.tasks === undefined))
      return value; // the caller (CoreEdge) converts the value to a response
    return whenReady(value, (ready) => this.#finish(ready));
  }

  /**
   * Converts the return value into a response before the clean-ups of scope `handler` run. So a transaction
   * is rolled back if the return value is invalid.
   */
  #finish(value: unknown): Awaitable<HttpResponse> {
    const response = toResponse(value, this.#plan.reply).settle(this.#req);
    return whenReady(response, (ready) => this.#leave(ready));
  }

  #leave(response: HttpResponse): Awaitable<HttpResponse> {
    // the time limit was exceeded, so the client has already received an error response
    if (this.#req.expiry !== undefined) return this.#abandon(response, this.#req.expiry);
    if (!this.#resolution.needsCleanup('handler')) {
      this.#leaveLater();
      return response;
    }
    return this.#resolution.cleanUp('handler', undefined, ignore).then((failure) => {
      if (failure !== undefined) return this.#abandon(response, failure.error);
      this.#leaveLater();
      return response;
    });
  }

  /** Discards the body of a response that will not be sent, so that its stream or iterator is closed. */
  async #abandon(response: HttpResponse, error: unknown): Promise<never> {
    if (isChunks(response.body))
      await discard(response.body).catch((failure: unknown) =>
        this.#plan.deps.log.error('response_failed', failure, this.#req.logFields()),
      );
    throw error;
  }

  /**
   * Throws `error` into the generators of the resolved dependencies, and returns it. A generator of scope
   * `handler` may throw another error, which is returned instead.
   */
  #failureAfter(error: unknown): Awaitable<Failure> {
    const failure = (this.#failure = { error });
    const { errors } = this.#plan.deps;
    for (const other of this.#resolution.otherFailures)
      errors.failedBeside(other.error, this.#req, other.dependency.label);
    if (!this.#resolution.needsCleanup('handler')) {
      this.#leaveLater();
      return failure;
    }
    return this.#resolution.cleanUp('handler', failure, ignore).then((last) => {
      this.#failure = last;
      this.#leaveLater();
      return last!; // cleanUp() returns a failure whenever it gets one
    });
  }

  /**
   * Registers work for the time after the response: first the clean-ups of scope `request`, then the
   * background tasks. If the handler has failed, the tasks are dropped.
   */
  #leaveLater(): void {
    const resolution = this.#resolution;
    const { tasks } = resolution;
    if (tasks !== undefined && this.#failure !== undefined) this.#plan.deps.tasks.drop(tasks);
    if (!resolution.hasCleanups && tasks === undefined) return;
    const leave = async (outcome: Outcome): Promise<void> => {
      const { errors, log } = this.#plan.deps;
      const fields = this.#req.logFields();
      const onFailed = (error: unknown): void => errors.failedAfter(error, this.#req.id);
      const failure = this.#failure ?? (outcome === undefined ? undefined : { error: outcome });
      await resolution.cleanUp('request', failure, (error, label) => {
        log.error('cleanup_failed', error, { ...fields, dependency: label });
        onFailed(error);
      });
      if (tasks !== undefined) await this.#plan.deps.tasks.run(tasks, fields, onFailed);
    };
    const run = currentContext();
    this.#req.afterwards((outcome) => run(leave, outcome));
  }

  /**
   * Returns a 400 response with all issues. Throws an error instead if exception handlers, clean-ups or
   * background tasks must be informed.
   */
  #refuse(issues: readonly Issue[]): HttpResponse {
    const { hasCleanups, tasks } = this.#resolution;
    if (this.#plan.deps.errors.hasHandlers || hasCleanups || tasks !== undefined)
      throw new ValidationError(issues);
    return problem(400, this.#req.id, {
      detail: `The input has ${issues.length} problem${issues.length === 1 ? '' : 's'}`,
      issues,
    });
  }
}

/** Empty results of dependencies, shared by all routes without dependencies. */
let nothingResolved: Resolution | undefined;

/** Context of a handler or dependency. Its members are read from the request when they are used. */
class RequestContext implements Context {
  readonly req: HttpRequest;
  #params: Readonly<Record<string, unknown>> | undefined;

  constructor(req: TransportRequest) {
    this.req = req;
  }

  get params(): Readonly<Record<string, unknown>> {
    return this.#params ?? this.req.pathParams;
  }
  set params(values: Readonly<Record<string, unknown>>) {
    this.#params = values;
  }
  get signal(): AbortSignal {
    return this.req.signal;
  }
  get state(): StateMap {
    return this.req.state;
  }
}

/** Inputs of a route, except path parameters without a schema, for the OpenAPI document and for MCP. */
export interface RouteInputs {
  /** Path parameters of the route; query, header fields and cookies of the route and of all its dependencies. */
  readonly texts: readonly TextInputPlan[];
  readonly body: CompiledBody | undefined;
  readonly form: SchemaPlan | undefined;
}

/** A compiled route for the routing table, with its inputs. */
export interface RoutedEndpoint {
  readonly endpoint: Endpoint;
  readonly inputs: RouteInputs;
}

/** Compiles a route for one of its methods. Mistakes in its dependencies become findings of `svc check`. */
export function compileRoute(route: FlatRoute, method: string, deps: RouteDeps): RoutedEndpoint {
  const subject = `${method} ${route.template.template}`;
  const steps = planSteps(route, subject, deps);
  if (steps === undefined) {
    const edge = edgeOf(replyPlan(route.spec, subject), deps);
    const run = plainCore(handlerOf(route, deps), edge);
    return { endpoint: endpointOf(route, method, withOwn(NO_SECURITY, route.spec), run), inputs: NO_INPUTS };
  }
  const plan: RoutePlan = {
    ...steps,
    deps,
    handler: handlerOf(route, deps),
    reply: replyPlan(route.spec, subject),
    security: withOwn(steps.security, route.spec),
  };
  const planned = [...steps.early, ...steps.late].sort((left, right) => left.slot - right.slot);
  const edge = edgeOf(plan.reply, deps);
  const admit: Endpoint['admit'] = (req, stored) =>
    new RouteCall(plan, req).admit(stored).catch((error: unknown) => edge.fail(error, req));
  const run = guarded((req) => new RouteCall(plan, req).start(edge), edge);
  const endpoint = endpointOf(route, method, plan.security, run);
  return {
    endpoint: plan.early.length === 0 ? endpoint : { ...endpoint, admit },
    inputs: {
      texts: [...planned.flatMap((dependency) => dependency.inputs), ...steps.inputs],
      body: steps.body,
      form: steps.form,
    },
  };
}

function endpointOf(
  route: FlatRoute,
  method: string,
  security: readonly SecurityRequirement[],
  run: Core,
): Endpoint {
  return {
    route: recordOf(route, method, security),
    readParams: paramsReader(route.template.parameters),
    bodyRules: route.spec,
    tally: undefined,
    run,
    admit: undefined,
  } satisfies Endpoint & { run: Core };
}

/** Empty values that routes share, because an application may have thousands of routes. */
const NO_SECURITY: readonly SecurityRequirement[] = Object.freeze([]);
const NO_INPUTS: RouteInputs = Object.freeze({ texts: Object.freeze([]), body: undefined, form: undefined });
const NO_META: Readonly<Record<string, unknown>> = Object.freeze({});

function withOwn(
  security: readonly SecurityRequirement[],
  { security: own }: RouteSpec,
): readonly SecurityRequirement[] {
  return own === undefined ? security : [...security, ...([own].flat() as SecurityRequirement[])];
}

/**
 * Returns the handler of a route. With a tracer, each call has a span, except for WebSockets, whose handlers
 * have spans of their own.
 */
function handlerOf({ handler: given, socket }: FlatRoute, { services }: RouteDeps): RoutePlan['handler'] {
  const handler = given as RoutePlan['handler'];
  const { tracer } = services;
  if (tracer === undefined || socket !== undefined) return handler;
  const { name } = given;
  const start: SpanStart = { kind: 'internal', attributes: { 'code.function.name': name || undefined } };
  return (context) => inSpan(tracer, `handler ${name}`.trimEnd(), start, () => handler(context));
}

function edgeOf(reply: ReplyPlan, deps: RouteDeps): CoreEdge {
  return reply === DEFAULT_PLAN ? deps.usualEdge : new CoreEdge(reply, deps.errors);
}

function replyPlan(spec: RouteSpec, subject: string): ReplyPlan {
  const { response, status, tuple } = spec;
  if (response !== undefined) return replyPlanOf(response, spec, subject);
  return status === undefined && tuple !== false
    ? DEFAULT_PLAN
    : { status, readsTuples: tuple !== false, encode: undefined };
}

/**
 * Returns the function that handles requests to a route without inputs and dependencies. It does not use
 * {@link guarded}, because that would create a second function for each of possibly thousands of routes.
 */
function plainCore(handler: RoutePlan['handler'], edge: CoreEdge): Core {
  return (req) => {
    try {
      // `expiry` is set if the time limit was exceeded while middleware waited
      if (req.expiry !== undefined) throw req.expiry;
      return edge.answer(handler(new RequestContext(req)), req);
    } catch (error) {
      return edge.fail(error, req);
    }
  };
}

/** Returns the description of a route for middleware and for the rules of `svc check`. */
function recordOf(
  { spec, template, declared }: FlatRoute,
  method: string,
  security: readonly SecurityRequirement[],
): CompiledRoute {
  const { name, meta, rateLimit, timeoutMs, requestTimeoutMs } = spec;
  return {
    method,
    template: template.template,
    name,
    security,
    meta: meta === undefined ? NO_META : Object.freeze({ ...meta }),
    rateLimit,
    timeoutMs,
    requestTimeoutMs,
    get place() {
      return declared.place;
    },
  };
}
