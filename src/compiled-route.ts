/**
 * A route after compilation: everything that can be decided before the first request has been.
 */
import { guarded } from './http/pipeline.ts';
import type { Place } from './findings.ts';
import type { CompiledRoute, Context, HttpRequest, SecurityRequirement, StateMap } from './http/contracts.ts';
import type { PathParameter } from './http/path.ts';
import type { ErrorRenderer, Layer } from './http/pipeline.ts';
import type { Endpoint, TransportRequest } from './http/request.ts';
import type { FlatRoute } from './route.ts';

/** Compiles one method of a route. */
export function compileRoute(route: FlatRoute, method: string, errors: ErrorRenderer): Endpoint {
  const { handler, spec } = route;
  const call = handler as (context: RequestContext) => unknown; // the context has what the route's types promise
  return {
    route: new RouteRecord(route, method),
    readParams: paramsReader(route.template.parameters),
    run: guarded((req) => call(new RequestContext(req)), { status: spec.status, readsTuples: spec.tuple !== false }, errors),
  } satisfies { route: CompiledRoute; readParams: Endpoint['readParams']; run: Layer };
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
  readonly security: readonly SecurityRequirement[] = [];
  readonly meta: Readonly<Record<string, unknown>>;
  readonly #route: FlatRoute;

  constructor(route: FlatRoute, method: string) {
    this.method = method;
    this.template = route.template.template;
    this.name = route.spec.name;
    this.meta = Object.freeze({ ...route.spec.meta });
    this.#route = route;
  }

  get place(): Place { return this.#route.declared.place; }
}

const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * Captures → parameters. A constructor of its own per route gives each one hidden class; an object literal with a computed
 * key costs four times as much (test/bench/params.ts). Its prototype is Object's: these are plain objects to everybody.
 */
function paramsReader(parameters: readonly PathParameter[]): Endpoint['readParams'] {
  if (parameters.length === 0) return () => NO_PARAMS;
  const names = parameters.map((parameter) => parameter.name);
  const reads = parameters.map((parameter) => parameter.converter.read);
  const [name0, name1] = names as [string, string];
  const [read0, read1] = reads as [PathParameter['converter']['read'], PathParameter['converter']['read']];
  function One(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
  }
  function Two(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
    this[name1] = read1(captures[1]!);
  }
  function More(this: Record<string, unknown>, captures: readonly string[]): void {
    for (let index = 0; index < names.length; index++) this[names[index]!] = reads[index]!(captures[index]!);
  }
  const Params = (names.length === 1 ? One : names.length === 2 ? Two : More) as unknown as new (captures: readonly string[]) => Record<string, unknown>; // functions used as constructors have no type of their own
  Params.prototype = Object.prototype;
  return (captures) => new Params(captures);
}
