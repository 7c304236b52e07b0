/**
 * A route after compilation: everything that can be decided before the first request has been.
 *
 *   dependencies of the router, and those that carry security → path, query, headers, cookies → body → other dependencies
 *   → handler → reply, through the serialiser of its status → clean-up of scope `handler` → answer
 *
 * Each step gives a promise only where it has to wait; a route without inputs and dependencies is its handler alone.
 */
import { Resolution, planOfShape, readTextInputs } from './di.ts';
import { SvcError } from './errors.ts';
import { FieldType, ValidationError, compileSerializer, compileType, fileLimit, planOf, plansOf, plansWithin, textProblem } from './schema.ts';
import { guarded, isThenable } from './http/pipeline.ts';
import { problem } from './http/problem.ts';
import { discard, isPieces } from './http/pieces.ts';
import { observeHandler } from './http/request-event.ts';
import { paramsReader } from './http/path-params.ts';
import { toResponse } from './http/reply.ts';
import type { BackgroundRunner } from './background.ts';
import type { DependencyGraph, PlannedDependency, TextInputPlan } from './di.ts';
import type { Issue } from './errors.ts';
import type { Finding, Place } from './findings.ts';
import type { Logger } from './log.ts';
import type { FlatRoute, RouteSpec } from './route.ts';
import type { CompiledType, ObjectPlan, Result, SchemaPlan, Serializer, TypeNode, TypeSource } from './schema.ts';
import type { Awaitable, CompiledRoute, Context, HttpRequest, Middleware, RouteRateLimit, SecurityRequirement, Services, StateMap } from './http/contracts.ts';
import type { FileKeeper } from './http/form.ts';
import type { ErrorRenderer, Layer } from './http/pipeline.ts';
import type { ReplyPlan } from './http/reply.ts';
import type { Endpoint, TransportRequest } from './http/request.ts';
import type { HttpResponse } from './http/response.ts';

/** What routes share when they are compiled. */
export interface RouteParts {
  readonly errors: ErrorRenderer;
  readonly graph: DependencyGraph;
  readonly tasks: BackgroundRunner;
  readonly log: Logger;
  readonly report: (finding: Finding) => void;
  /** The layers around every route. */
  readonly middleware: readonly Middleware[];
  readonly services: Services;
}

/** What a route reads of a request besides its path: for documents, and for whoever makes requests of them. */
export interface RouteInputs {
  /** Query, headers and cookies: its own, and those of everything that it depends on. */
  readonly texts: readonly TextInputPlan[];
  readonly body: CompiledType | undefined;
  readonly form: SchemaPlan | undefined;
}

/** A route that can be entered into the table. */
export interface RoutedEndpoint {
  readonly endpoint: Endpoint;
  readonly inputs: RouteInputs;
}

/** Compiles one method of a route. Mistakes in its dependencies go to the graph's report. @throws SvcError for mistakes in its schemas */
export function compileRoute(route: FlatRoute, method: string, parts: RouteParts): RoutedEndpoint {
  const plan = planRoute(route, method, parts);
  const { early, late, inputs, body, form } = plan;
  const planned = [...early, ...late].sort((left, right) => left.slot - right.slot);
  return { endpoint: endpointOf(route, method, plan), inputs: { texts: [...planned.flatMap((dependency) => dependency.inputs), ...inputs], body, form } };
}

function endpointOf(route: FlatRoute, method: string, plan: RoutePlan): Endpoint {
  return {
    route: new RouteRecord(route, method, plan.security),
    readParams: paramsReader(route.template.parameters),
    maxBodyBytes: route.spec.maxBodyBytes ?? Infinity,
    tally: undefined,
    run: guarded(plan.isPlain ? plainCall(plan) : (req) => new RouteCall(plan, req).start(), plan.reply, plan.parts.errors),
  } satisfies Endpoint & { run: Layer };
}

/** One route's steps, in data. */
interface RoutePlan {
  readonly parts: RouteParts;
  readonly handler: (context: object) => unknown;
  /** No inputs, no dependencies. */
  readonly isPlain: boolean;
  readonly early: readonly PlannedDependency[];
  readonly late: readonly PlannedDependency[];
  readonly size: number;
  readonly inputs: readonly TextInputPlan[];
  readonly body: CompiledType | undefined;
  readonly form: SchemaPlan | undefined;
  /** Which files of a form are kept: those of its fields, as far as they may be large. */
  readonly keeper: FileKeeper | undefined;
  readonly maxBodyBytes: number | undefined;
  /** Whether code of the application runs before the body is read. It may have entered an AsyncLocalStorage. */
  readonly isSurrounded: boolean;
  /** What the handler's context has besides the request: dependencies by name and slot. */
  readonly names: readonly (readonly [name: string, slot: number])[];
  readonly reply: ReplyPlan;
  readonly security: readonly SecurityRequirement[];
}

function planRoute(route: FlatRoute, method: string, parts: RouteParts): RoutePlan {
  const { spec } = route;
  const subject = `${method} ${route.template.template}`;
  if (spec.body !== undefined && spec.form !== undefined) throw new SvcError('E_ROUTE_SPEC', [subject, 'form', 'cannot be there beside "body": a request has one body']);
  const ordering = parts.graph.order(subject, route.declared.place);
  const routerNames = route.routerDeps.map(([name, dependency]) => [name, parts.graph.plan(ordering, dependency)] as const);
  const ofRouter = ordering.planned.length;
  const ownNames = Object.entries(route.deps).map(([name, dependency]) => [name, parts.graph.plan(ordering, dependency)] as const);
  const { planned } = ordering;
  const isEarly = earlySlots(planned, ofRouter);
  const inputs = readTextInputs({ query: spec.query, headers: spec.headers, cookies: spec.cookies });
  const names = [...new Map([...routerNames, ...ownNames])];
  const body = spec.body === undefined ? undefined : compileType(spec.body, `the body of ${subject}`);
  const form = spec.form === undefined ? undefined : planOfShape(spec.form, `the form of ${subject}`);
  const texts = [...inputs, ...planned.flatMap((dependency) => dependency.inputs)];
  for (const { key, plan } of form === undefined ? texts : [...texts, { key: 'form' as const, plan: form }]) mustBeText(subject, key, plan);
  const read = new Set<ObjectPlan>();
  for (const { plan } of texts) plansOf(plan, read);
  if (form !== undefined) plansOf(form, read);
  if (body !== undefined) for (const plan of mustBeJson(subject, body.node)) read.add(plan);
  reportHazards(read, subject, route.declared.place, parts.report);
  return {
    parts, names, inputs, size: planned.length,
    handler: route.handler as (context: object) => unknown, // the context has what the route's types promise
    isPlain: planned.length === 0 && inputs.length === 0 && spec.body === undefined && spec.form === undefined,
    early: planned.filter((dependency) => isEarly.has(dependency.slot)),
    late: planned.filter((dependency) => !isEarly.has(dependency.slot)),
    body, form,
    keeper: form === undefined ? undefined : keeperOf(form),
    maxBodyBytes: spec.maxBodyBytes,
    isSurrounded: parts.middleware.length > 0 || route.use.length > 0 || isEarly.size > 0,
    reply: replyPlan(spec, subject),
    security: [...planned.flatMap((dependency) => dependency.security), ...[spec.security ?? []].flat() as SecurityRequirement[]], // one or a list of them
  };
}

/** Refuses fields that no request could ever fill. @throws SvcError `E_ROUTE_SPEC` */
function mustBeText(subject: string, key: string, plan: SchemaPlan): void {
  for (const field of plan.fields) {
    const problem = textProblem(field.node, key === 'form');
    if (problem === undefined || !field.isRequired) continue;
    throw new SvcError('E_ROUTE_SPEC', [subject, key, `cannot have the field "${field.name}": ${problem}`]);
  }
}

/** The schemas of a body. @throws SvcError `E_ROUTE_SPEC` when it needs a file, which JSON cannot hold */
function mustBeJson(subject: string, body: TypeNode): ReadonlySet<ObjectPlan> {
  const plans = plansWithin(body);
  const needsFile = fileLimit(body) !== undefined || [...plans].some((plan) => plan.fields.some((field) => field.isRequired && fileLimit(field.node) !== undefined));
  if (needsFile) throw new SvcError('E_ROUTE_SPEC', [subject, 'body', 'cannot have a file, which only a form can hold: write "form" in its place']);
  return plans;
}

function keeperOf(form: SchemaPlan): FileKeeper {
  const limits = new Map(form.fields.filter((field) => !field.isReadOnly).map((field) => [field.wireName, fileLimit(field.node)]));
  return (field) => limits.get(field);
}

/** Patterns that can backtrack without bound. What they are tested on is kept short, which the author should know. */
function reportHazards(plans: Iterable<ObjectPlan>, subject: string, place: Place, report: (finding: Finding) => void): void {
  for (const of of plans) {
    const { name, hazards } = of.schema === undefined ? of as SchemaPlan : planOf(of.schema); // a plan without class is a shape's
    for (const { field, message } of hazards) {
      report({
        rule: 'SVC304', severity: 'warning', subject, place, message: `the pattern of "${field}" in ${name} can take very long: ${message}`,
        remedy: 'Write it without repetitions inside repetitions; until then only short texts are tested against it, and longer ones refused',
      });
    }
  }
}

/** The dependencies of routers, those that carry security, and what they need: resolved before anything of the request is read. */
function earlySlots(planned: readonly PlannedDependency[], ofRouter: number): ReadonlySet<number> {
  const early = new Set<number>();
  const add = (slot: number): void => {
    if (early.has(slot)) return;
    early.add(slot);
    planned[slot]!.needs.forEach(add);
  };
  for (const { slot, security } of planned) if (slot < ofRouter || security.length > 0) add(slot);
  return early;
}

/** How the replies of a route become text. */
function replyPlan(spec: RouteSpec, subject: string): ReplyPlan {
  const { response, status, tuple } = spec;
  if (response === undefined) return { status, readsTuples: tuple !== false, encode: undefined };
  const byStatus = new Map<number, Serializer>();
  let usual: Serializer | undefined;
  let isList = false;
  if (isTypeSource(response)) {
    usual = compileSerializer(response, `the response of ${subject}`);
    isList = isListType(response);
  } else {
    for (const [key, source] of Object.entries(response)) byStatus.set(Number(key), compileSerializer(source as TypeSource, `the response ${key} of ${subject}`));
  }
  const serializerFor = (of: number): Serializer | undefined => {
    const found = byStatus.get(of) ?? (of < 300 ? usual : undefined);
    if (found === undefined && of < 400) throw new SvcError('E_RESPONSE_MISMATCH', [subject, `the status ${of} is not declared`]);
    return found;
  };
  return {
    status: status ?? [...byStatus.keys()].filter((key) => key < 300).sort((left, right) => left - right)[0],
    readsTuples: tuple !== false && !isList,
    encode(body, of) {
      const result = serializerFor(of)?.toJson(body === undefined ? null : body);
      if (result === undefined || result.ok) return result?.value;
      throw new SvcError('E_RESPONSE_MISMATCH', [subject, result.issues.slice(0, 10).map((issue) => `${issue.loc.join('.') || 'the value'} ${issue.message}`).join('; ')]);
    },
  };
}

function isTypeSource(response: NonNullable<RouteSpec['response']>): response is TypeSource {
  return typeof response === 'function' || response instanceof FieldType;
}

/** A list, or null in its place. */
function isListType(source: TypeSource): boolean {
  if (!(source instanceof FieldType)) return false;
  const { shape } = source;
  return shape.kind === 'list' || (shape.kind === 'nullable' && isListType(shape.inner)) || (shape.kind === 'lazy' && isListType(shape.get()));
}

/** A route that is its handler alone. */
function plainCall({ handler }: RoutePlan): (req: TransportRequest) => unknown {
  return (req) => {
    if (req.expiry !== undefined) throw req.expiry; // while a layer waited for something
    const context = new RequestContext(req);
    return req.event === undefined ? handler(context) : observeHandler(req.event, handler, context);
  };
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
    this.#resolution = plan.size === 0 ? NOTHING_RESOLVED : new Resolution(this.#context, plan.size, req.event);
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
      const isSound = (inputs.length === 0 || this.#resolution.inputs[slot] !== undefined) && !needs.some((need) => unsound.has(need));
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
  #readOf(dependencies: readonly PlannedDependency[], own: readonly TextInputPlan[] | undefined, issues: Issue[] | undefined): Issue[] | undefined {
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

  #readBody(issues: Issue[] | undefined): Promise<unknown> {
    const { body, form, keeper, maxBodyBytes, isSurrounded } = this.#plan;
    const options = { maxBytes: maxBodyBytes };
    if (body !== undefined) {
      const use = (value: unknown, isPlainJson: boolean): unknown => this.#validated('body', body.parseJson(value, 'body', isPlainJson), issues);
      if (!isSurrounded && this.#req.event === undefined) return this.#req.readJson(options, use);
      return this.#req.readJson(options, (...received) => received).then(([value, isPlainJson]) => use(value, isPlainJson)); // only a promise leads back into an AsyncLocalStorage
    }
    return this.#req.readForm(options, keeper).then((fields) => this.#validated('form', form!.parseText(fields, 'form', true), issues));
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
    for (const [name, slot] of this.#plan.names) context[name] = this.#resolution.values[slot];
    const { event } = this.#req;
    const value = event === undefined ? this.#plan.handler(context) : observeHandler(event, this.#plan.handler, context);
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
    if (!this.#resolution.mustCleanUp('handler')) {
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
    if (!this.#resolution.mustCleanUp('handler')) {
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
    if (tasks !== undefined && this.#failure !== undefined) this.#plan.parts.tasks.drop(tasks);
    if (!resolution.hasCleanups && tasks === undefined) return;
    this.#req.afterwards(async (outcome) => {
      const fields = this.#req.logFields();
      const failure = this.#failure ?? (outcome === undefined ? undefined : { error: outcome });
      await resolution.cleanUp('request', failure, (error, label) => this.#plan.parts.log.error('cleanup_failed', error, { ...fields, dependency: label }));
      if (tasks !== undefined) await this.#plan.parts.tasks.run(tasks, fields);
    });
  }

  /** 400 with every problem; an exception only where somebody has to see one. */
  #refuse(issues: readonly Issue[]): HttpResponse {
    const { hasCleanups, tasks } = this.#resolution;
    if (this.#plan.parts.errors.hasHandlers || hasCleanups || tasks !== undefined) throw new ValidationError(issues);
    return problem(400, this.#req.id, { detail: `The input has ${issues.length} problem${issues.length === 1 ? '' : 's'}`, issues });
  }
}

/** For all routes without dependencies: nothing is ever kept in it. */
const NOTHING_RESOLVED = new Resolution({} as Context, 0); // whom nobody asks for the context

function ignore(): void { /* the failure comes back as a value */ }

/** Nobody will read the answer: what it is made from is ended. @throws `error` */
async function abandon(response: HttpResponse, error: unknown): Promise<never> {
  if (isPieces(response.body)) await discard(response.body).catch(() => undefined); // `error` is the one to tell
  throw error;
}

/** What a handler, dependency or hook gets: each part is taken from the request when it is read. */
export class RequestContext implements Context {
  readonly req: HttpRequest;

  constructor(req: TransportRequest) { this.req = req; }

  get params(): Readonly<Record<string, unknown>> { return this.req.pathParams; }
  get signal(): AbortSignal { return this.req.signal; }
  get state(): StateMap { return this.req.state; }
}

class RouteRecord implements CompiledRoute {
  readonly method: string;
  readonly template: string;
  readonly name: string | undefined;
  readonly security: readonly SecurityRequirement[];
  readonly meta: Readonly<Record<string, unknown>>;
  readonly rateLimit: RouteRateLimit | false | undefined;
  readonly timeoutMs: number | false | undefined;
  readonly requestTimeoutMs: number | undefined;
  readonly #route: FlatRoute;

  constructor(route: FlatRoute, method: string, security: readonly SecurityRequirement[]) {
    this.method = method;
    this.template = route.template.template;
    this.name = route.spec.name;
    this.security = security;
    this.meta = Object.freeze({ ...route.spec.meta });
    this.rateLimit = route.spec.rateLimit;
    this.timeoutMs = route.spec.timeoutMs;
    this.requestTimeoutMs = route.spec.requestTimeoutMs;
    this.#route = route;
  }

  get place(): Place { return this.#route.declared.place; }
}
