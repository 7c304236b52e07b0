/**
 * One request on its way through a route that asks for something.
 *
 *   dependencies of the router, and those that carry security -> path, query, headers, cookies -> body -> other dependencies
 *   -> handler -> reply, through the serialiser of its status -> clean-up of scope `handler` -> answer
 *
 * Each step gives a promise only where it has to wait.
 */
import { Resolution } from './di-resolution.ts';
import { ValidationError } from '../schema/schema.ts';
import { isThenable } from '../base/thenable.ts';
import { LateAnswer } from '../http/late-answer.ts';
import { discard, isChunks } from '../http/chunks.ts';
import { guarded } from '../http/pipeline.ts';
import { problem } from '../http/response.ts';
import { toResponse } from '../http/reply.ts';
import { observeHandler } from '../http/request/event.ts';
import type { PlannedDependency } from './di-resolution.ts';
import type { TextInputPlan } from './di-text.ts';
import type { Issue } from '../base/errors.ts';
import type { RoutePlan } from './steps.ts';
import type { Result } from '../schema/schema.ts';
import type { Awaitable, Context, HttpRequest, StateMap } from '../http/contracts.ts';
import type { Answer } from '../http/late-answer.ts';
import type { Core, CoreEdge } from '../http/pipeline.ts';
import type { TransportRequest } from '../http/request/request.ts';
import type { JsonTaker } from '../http/request/body.ts';
import type { HttpResponse } from '../http/response.ts';

/** The route as the innermost layer. */
export function callsOf(plan: RoutePlan, edge: CoreEdge): Core {
  if (plan.body !== undefined && plan.size === 0) return (req) => new RouteCall(plan, req).answerBody(edge);
  return guarded((req) => new RouteCall(plan, req).start(), edge);
}

/** One request on its way through a route. */
class RouteCall {
  readonly #plan: RoutePlan;
  readonly #req: TransportRequest;
  readonly #context: RequestContext;
  readonly #resolution: Resolution;
  #failure: { readonly error: unknown } | undefined;

  constructor(plan: RoutePlan, req: TransportRequest) {
    this.#plan = plan;
    this.#req = req;
    this.#context = new RequestContext(req);
    this.#resolution =
      plan.size === 0
        ? (nothingResolved ??= new Resolution({} as Context, 0))
        : new Resolution(this.#context, plan.size, req.event);
  }

  /** The answer, or a promise of it where a step has to wait. */
  start(): unknown {
    if (this.#plan.size === 0) return this.#read(undefined); // nothing to clean up after a failure
    try {
      const answer = this.#resolveEarly();
      return isThenable(answer) ? answer.then(undefined, (error: unknown) => this.#fail(error)) : answer;
    } catch (error) {
      return this.#fail(error);
    }
  }

  /** Those whose inputs have problems stand aside: a 401 of another one comes before their 400. */
  #resolveEarly(): unknown {
    const { early } = this.#plan;
    if (early.length === 0) return this.#read(undefined);
    const issues = this.#readOf(early, undefined, undefined);
    const waiting = this.#resolution.resolve(issues === undefined ? early : this.#sound(early));
    return waiting === undefined ? this.#read(issues) : waiting.then(() => this.#read(issues));
  }

  /** Those whose own inputs, and those of what they need, have no problems. */
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

  /** Every problem of the inputs at once, those of the body included. */
  #read(earlier: Issue[] | undefined): unknown {
    const { inputs, late, body, form } = this.#plan;
    const issues = this.#readOf(late, inputs, earlier);
    if (body !== undefined || form !== undefined) return this.#readBody(issues);
    return issues === undefined ? this.#resolveLate() : this.#refuse(issues);
  }

  /** Reads inputs, and adds what is wrong with them to the `issues` there are. */
  #readOf(
    dependencies: readonly PlannedDependency[],
    own: readonly TextInputPlan[] | undefined,
    issues: Issue[] | undefined,
  ): Issue[] | undefined {
    const context = this.#context as unknown as Record<string, unknown>; // its own members are the inputs
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

  /** The answer of a route that has a body and depends on nothing: when its body is whole. Never throws, never rejects. */
  answerBody(edge: CoreEdge): Answer {
    const req = this.#req;
    const { inputs, bodyOptions, isSurrounded } = this.#plan;
    try {
      const issues = this.#readOf([], inputs, undefined);
      if (!isSurrounded && req.event === undefined) {
        const answer = new BodyAnswer(this, issues, edge, req);
        req.takeJson(bodyOptions, answer);
        return answer;
      }
      return this.#received().then(
        ([value, isPlainJson]) => this.answerTo(value, isPlainJson, issues, edge),
        (error: unknown) => edge.fail(error, req),
      );
    } catch (error) {
      return edge.fail(error, req);
    }
  }

  /** The answer to this body. Never throws, never rejects. */
  answerTo(
    value: unknown,
    isPlainJson: boolean,
    issues: Issue[] | undefined,
    edge: CoreEdge,
  ): Awaitable<HttpResponse> {
    try {
      return edge.answer(
        this.#validated('body', this.#plan.body!.parseJson(value, 'body', isPlainJson), issues),
        this.#req,
      ); // asked for where there is one
    } catch (error) {
      return edge.fail(error, this.#req);
    }
  }

  /** The value of a JSON body, for those whom only a promise leads back into the AsyncLocalStorage that they came from. */
  #received(): Promise<readonly [value: unknown, isPlainJson: boolean]> {
    return this.#req.readJson(this.#plan.bodyOptions, (...received) => received);
  }

  #readBody(issues: Issue[] | undefined): Promise<unknown> {
    const { body, form, keeper, bodyOptions } = this.#plan;
    if (body !== undefined)
      return this.#received().then(([value, isPlainJson]) =>
        this.#validated('body', body.parseJson(value, 'body', isPlainJson), issues),
      );
    return this.#req
      .readForm(bodyOptions, keeper)
      .then((fields) => this.#validated('form', form!.parseText(fields, 'form', true), issues));
  }

  #validated(key: 'body' | 'form', result: Result<unknown>, issues: Issue[] | undefined): unknown {
    if (!result.ok) return this.#refuse(issues === undefined ? result.issues : [...issues, ...result.issues]);
    if (issues !== undefined) return this.#refuse(issues);
    (this.#context as unknown as Record<string, unknown>)[key] = result.value;
    return this.#resolveLate();
  }

  #resolveLate(): unknown {
    const waiting = this.#plan.late.length === 0 ? undefined : this.#resolution.resolve(this.#plan.late);
    return waiting === undefined ? this.#handle() : waiting.then(() => this.#handle());
  }

  #handle(): unknown {
    if (this.#req.expiry !== undefined) throw this.#req.expiry; // while something was waited for: nothing is begun that nobody reads
    const context = this.#context as unknown as Record<string, unknown>;
    const { names } = this.#plan;
    if (names.length > 0) for (const [name, slot] of names) context[name] = this.#resolution.values[slot];
    const { event } = this.#req;
    const value =
      event === undefined ? this.#plan.handler(context) : observeHandler(event, this.#plan.handler, context);
    if (!this.#resolution.hasCleanups && this.#resolution.tasks === undefined) return value; // the pipeline reads it
    return isThenable(value) ? value.then((settled) => this.#finish(settled)) : this.#finish(value);
  }

  /** The reply is read before scope `handler` is left, so that neither can be committed without the other. */
  #finish(value: unknown): Awaitable<HttpResponse> {
    const response = toResponse(value, this.#plan.reply).settle(this.#req);
    return isThenable(response) ? response.then((settled) => this.#leave(settled)) : this.#leave(response);
  }

  #leave(response: HttpResponse): Awaitable<HttpResponse> {
    if (this.#req.expiry !== undefined) return abandon(response, this.#req.expiry); // too late: the client has been told that it failed
    if (!this.#resolution.needsCleanup('handler')) {
      this.#leaveLater();
      return response;
    }
    return this.#resolution.cleanUp('handler', undefined, ignore).then((failure) => {
      if (failure !== undefined) return abandon(response, failure.error);
      this.#leaveLater();
      return response;
    });
  }

  /** What ended the request early is thrown into its generators; scope `handler` may turn it into another error. */
  #fail(error: unknown): unknown {
    this.#failure = { error };
    if (!this.#resolution.needsCleanup('handler')) {
      this.#leaveLater();
      throw error;
    }
    return this.#resolution.cleanUp('handler', this.#failure, ignore).then((failure) => {
      this.#failure = failure;
      this.#leaveLater();
      throw failure!.error; // a failure goes in, so one comes out
    });
  }

  /** Leaves scope `request` when the answer has gone, then runs the background tasks of a handler that did not fail. */
  #leaveLater(): void {
    const resolution = this.#resolution;
    const { tasks } = resolution;
    if (tasks !== undefined && this.#failure !== undefined) this.#plan.deps.tasks.drop(tasks);
    if (!resolution.hasCleanups && tasks === undefined) return;
    this.#req.afterwards(async (outcome) => {
      const fields = this.#req.logFields();
      const failure = this.#failure ?? (outcome === undefined ? undefined : { error: outcome });
      await resolution.cleanUp('request', failure, (error, label) =>
        this.#plan.deps.log.error('cleanup_failed', error, { ...fields, dependency: label }),
      );
      if (tasks !== undefined) await this.#plan.deps.tasks.run(tasks, fields);
    });
  }

  /** 400 with every problem; an exception only where somebody has to see one. */
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

/** The answer of a route, when the value of its body is there. */
class BodyAnswer extends LateAnswer implements JsonTaker {
  readonly #call: RouteCall;
  readonly #issues: Issue[] | undefined;
  readonly #edge: CoreEdge;
  readonly #req: TransportRequest;

  constructor(call: RouteCall, issues: Issue[] | undefined, edge: CoreEdge, req: TransportRequest) {
    super();
    this.#call = call;
    this.#issues = issues;
    this.#edge = edge;
    this.#req = req;
  }

  received(value: unknown, isPlainJson: boolean): void {
    this.settle(this.#call.answerTo(value, isPlainJson, this.#issues, this.#edge));
  }

  failed(error: unknown): void {
    this.settle(this.#edge.fail(error, this.#req));
  }
}

/** For all routes without dependencies: nothing is ever kept in it, and nobody asks it for the context. */
let nothingResolved: Resolution | undefined;

function ignore(): void {
  /* the failure comes back as a value */
}

/** Nobody will read the answer: what it is made from is ended. @throws `error` */
async function abandon(response: HttpResponse, error: unknown): Promise<never> {
  if (isChunks(response.body)) await discard(response.body).catch(() => undefined); // `error` is the one to tell
  throw error;
}

/** What a handler, dependency or hook gets: each part is taken from the request when it is read. */
export class RequestContext implements Context {
  readonly req: HttpRequest;

  constructor(req: TransportRequest) {
    this.req = req;
  }

  get params(): Readonly<Record<string, unknown>> {
    return this.req.pathParams;
  }
  get signal(): AbortSignal {
    return this.req.signal;
  }
  get state(): StateMap {
    return this.req.state;
  }
}
