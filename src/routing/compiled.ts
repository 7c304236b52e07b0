/**
 * A route after compilation: everything that can be decided before the first request has been. One without inputs and dependencies is
 * its handler alone; others have steps (steps.ts), and each of their requests is a call (call.ts).
 */
import { planSteps, replyPlanOf } from './steps.ts';
import { RequestContext, callsOf } from './call.ts';
import { paramsReader } from '../http/path.ts';
import { CoreEdge } from '../http/pipeline.ts';
import { DEFAULT_PLAN } from '../http/reply.ts';
import { observeHandler } from '../http/request/event.ts';
import type { TextInputPlan } from './di-text.ts';
import type { Place } from '../base/findings.ts';
import type { FlatRoute } from './route.ts';
import type { RouteSpec } from './spec.ts';
import type { RouteDeps, RoutePlan, Steps } from './steps.ts';
import type { CompiledType, SchemaPlan } from '../schema/schema.ts';
import type { BodyOptions, CompiledRoute, RouteRateLimit, SecurityRequirement } from '../http/contracts.ts';
import type { Core } from '../http/pipeline.ts';
import type { ReplyPlan } from '../http/reply.ts';
import type { Endpoint } from '../http/request/request.ts';

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
export function compileRoute(route: FlatRoute, method: string, deps: RouteDeps): RoutedEndpoint {
  const subject = `${method} ${route.template.template}`;
  if (asksForNothing(route))
    return { endpoint: plainEndpoint(route, method, subject, NO_SECURITY, deps), inputs: NO_INPUTS };
  const steps = planSteps(route, subject, deps);
  if (steps.isPlain)
    return { endpoint: plainEndpoint(route, method, subject, steps.security, deps), inputs: NO_INPUTS };
  const plan = planRoute(route, subject, steps, deps);
  const planned = [...steps.early, ...steps.late].sort((left, right) => left.slot - right.slot);
  return {
    endpoint: endpointOf(route, method, plan.security, callsOf(plan, edgeOf(plan.reply, deps))),
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
    route: new RouteRecord(route, method, security),
    readParams: paramsReader(route.template.parameters),
    maxBodyBytes: route.spec.maxBodyBytes ?? Infinity,
    tally: undefined,
    run,
  } satisfies Endpoint & { run: Core };
}

/** Of routes that ask for nothing: there may be thousands, and they share what they have in common. */
const NO_SECURITY: readonly SecurityRequirement[] = Object.freeze([]);
const NO_INPUTS: RouteInputs = Object.freeze({ texts: Object.freeze([]), body: undefined, form: undefined });
const NO_OPTIONS: BodyOptions = Object.freeze({});
const NO_META: Readonly<Record<string, unknown>> = Object.freeze({});

function plainEndpoint(
  route: FlatRoute,
  method: string,
  subject: string,
  security: readonly SecurityRequirement[],
  deps: RouteDeps,
): Endpoint {
  const edge = edgeOf(replyPlan(route.spec, subject), deps);
  return endpointOf(route, method, withOwn(security, route.spec), plainCore(handlerOf(route), edge));
}

function planRoute(route: FlatRoute, subject: string, steps: Steps, deps: RouteDeps): RoutePlan {
  const { spec, use } = route;
  return {
    ...steps,
    deps,
    handler: handlerOf(route),
    bodyOptions: spec.maxBodyBytes === undefined ? NO_OPTIONS : { maxBytes: spec.maxBodyBytes },
    isSurrounded: deps.middleware.length > 0 || use.length > 0 || steps.early.length > 0,
    reply: replyPlan(spec, subject),
    security: withOwn(steps.security, spec),
  };
}

/** What a route says itself comes behind what its dependencies say: one or a list of them. */
function withOwn(
  security: readonly SecurityRequirement[],
  { security: own }: RouteSpec,
): readonly SecurityRequirement[] {
  return own === undefined ? security : [...security, ...([own].flat() as SecurityRequirement[])];
}

function handlerOf({ handler }: FlatRoute): RoutePlan['handler'] {
  return handler as RoutePlan['handler']; // the context has what the route's types promise
}

function edgeOf(reply: ReplyPlan, deps: RouteDeps): CoreEdge {
  return reply === DEFAULT_PLAN ? deps.usualEdge : new CoreEdge(reply, deps.errors);
}

function asksForNothing({
  spec: { body, form, query, headers, cookies },
  routerDeps,
  deps,
}: FlatRoute): boolean {
  return (
    body === undefined &&
    form === undefined &&
    query === undefined &&
    headers === undefined &&
    cookies === undefined &&
    routerDeps.length === 0 &&
    Object.keys(deps).length === 0
  );
}

/** How the replies of a route become text. */
function replyPlan(spec: RouteSpec, subject: string): ReplyPlan {
  const { response, status, tuple } = spec;
  if (response !== undefined) return replyPlanOf(response, spec, subject);
  return status === undefined && tuple !== false
    ? DEFAULT_PLAN
    : { status, readsTuples: tuple !== false, encode: undefined };
}

/** A route that is its handler alone: in one function, with what {@link guarded} does, for there may be thousands. */
function plainCore(handler: RoutePlan['handler'], edge: CoreEdge): Core {
  return (req) => {
    try {
      if (req.expiry !== undefined) throw req.expiry; // while a layer waited for something
      const context = new RequestContext(req);
      return edge.answer(
        req.event === undefined ? handler(context) : observeHandler(req.event, handler, context),
        req,
      );
    } catch (error) {
      return edge.fail(error, req);
    }
  };
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
    this.meta = route.spec.meta === undefined ? NO_META : Object.freeze({ ...route.spec.meta });
    this.rateLimit = route.spec.rateLimit;
    this.timeoutMs = route.spec.timeoutMs;
    this.requestTimeoutMs = route.spec.requestTimeoutMs;
    this.#route = route;
  }

  get place(): Place {
    return this.#route.declared.place;
  }
}
