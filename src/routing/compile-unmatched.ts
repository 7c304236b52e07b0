/**
 * Responses to requests without a matching route.
 */
import { BadRequest, MethodNotAllowed, NotFound } from '../base/errors.ts';
import { closest } from '../base/options.ts';
import { whenReady } from '../base/promises.ts';
import { HttpResponse, PROBLEM_TYPE, Prepared, fieldOf, problem } from '../http/response.ts';
import { compose } from '../http/pipeline.ts';
import type { FlatRoute } from './route.ts';
import type { Awaitable, CompiledRoute, Middleware } from '../http/contracts.ts';
import type { Core, ErrorRenderer } from '../http/pipeline.ts';
import type { Endpoint, TransportRequest } from '../http/request/request.ts';
import type { RoutingTable } from '../http/router.ts';

interface UnmatchedDeps {
  readonly errors: ErrorRenderer;
  /** Value of the header field `Allow` with the methods of all routes. */
  readonly allMethods: string;
  suggest(path: string): string | undefined;
  /** Status and header fields of 405 responses. The key is the value of their `Allow` field. */
  readonly refusals: Map<string, Prepared>;
  /** Undefined if no route has CORS middleware: see {@link preflightsOf}. */
  readonly preflight: ((req: TransportRequest) => Core | undefined) | undefined;
}

/** Responds with 404 or 405, to OPTIONS with 204 and `Allow`, and to an invalid path with 400. */
export function unmatched(
  req: TransportRequest,
  { errors, allMethods, suggest, refusals, preflight }: UnmatchedDeps,
): Awaitable<HttpResponse> {
  const { match } = req;
  if (match.kind === 'wrong-method') {
    if (req.method === 'OPTIONS') return preflight?.(req)?.(req) ?? options(match.allow);
    return refuseMethod(match.allow, req, errors, refusals);
  }
  if (match.kind === 'malformed')
    return refuse(BadRequest, 400, 'The path has a malformed percent escape', req, errors);
  if (req.path.charCodeAt(0) === SLASH) return refuse(NotFound, 404, suggest(req.path), req, errors);
  return req.path === '*' && req.method === 'OPTIONS'
    ? options(allMethods)
    : refuse(BadRequest, 400, 'The request target is not a path', req, errors);
}

const SLASH = 47;

function options(allow: string): HttpResponse {
  return new HttpResponse(null, new Prepared(204, ['Allow', allow]));
}

/**
 * Returns a function that responds to CORS preflights (Fetch Standard §3.3.2) for routes with their own CORS
 * middleware. A preflight has the method OPTIONS, so it never reaches such a route. Returns undefined if no
 * route has CORS middleware.
 *
 * Browsers cache the response to a preflight for all methods of a URL (Fetch Standard §4.9). So it may only
 * be cached if all routes with this path have the same CORS middleware.
 */
export function preflightsOf(
  details: readonly { readonly route: CompiledRoute; readonly declared: Pick<FlatRoute, 'use' | 'socket'> }[],
  table: RoutingTable<Endpoint>,
  errors: ErrorRenderer,
): UnmatchedDeps['preflight'] {
  const owners = new Map<CompiledRoute, { readonly layers: readonly Middleware[]; readonly core: Core }>();
  for (const {
    route,
    declared: { use, socket },
  } of details) {
    if (use.length === 0 || socket !== undefined) continue;
    const layers = use.filter((layer) => layer.kind === 'cors');
    if (layers.length > 0)
      owners.set(route, {
        layers,
        core: compose(
          layers,
          ({ match }) => options(match.kind === 'wrong-method' ? match.allow : ''),
          errors,
        ),
      });
  }
  if (owners.size === 0) return undefined;
  const ownerOf = (method: string, path: string): ReturnType<typeof owners.get> => {
    const match = table.match(method, path);
    return match.kind === 'found' ? owners.get(match.endpoint.route) : undefined;
  };
  return (req) => {
    const method = fieldOf(req, 'access-control-request-method');
    const owner = method === undefined ? undefined : ownerOf(method, req.path);
    if (owner === undefined) return undefined;
    const others = req.match.kind === 'wrong-method' ? req.match.allow.split(', ') : [];
    const isShared = others.every(
      (other) => other === 'OPTIONS' || isSame(ownerOf(other, req.path)?.layers, owner.layers),
    );
    return isShared ? owner.core : (asked) => whenReady(owner.core(asked), withoutCaching);
  };
}

function isSame(layers: readonly Middleware[] | undefined, others: readonly Middleware[]): boolean {
  return layers?.length === others.length && others.every((other, index) => layers[index] === other);
}

function withoutCaching(response: HttpResponse): HttpResponse {
  if (response.headers.has('access-control-max-age')) response.headers.set('Access-Control-Max-Age', '0');
  return response;
}

/** Returns the response that refuses a request. If the application has exception handlers, they create it. */
function refuse(
  Exception: typeof NotFound,
  status: number,
  detail: string | undefined,
  req: TransportRequest,
  errors: ErrorRenderer,
): Awaitable<HttpResponse> {
  return errors.hasHandlers ? errors.render(new Exception(detail), req) : problem(status, req.id, { detail });
}

function refuseMethod(
  allow: string,
  req: TransportRequest,
  errors: ErrorRenderer,
  refusals: Map<string, Prepared>,
): Awaitable<HttpResponse> {
  const detail = `This path only allows the methods ${allow}`;
  if (errors.hasHandlers)
    return errors.render(new MethodNotAllowed(detail, { headers: { Allow: allow } }), req);
  let prepared = refusals.get(allow);
  if (prepared === undefined)
    refusals.set(allow, (prepared = new Prepared(405, ['Content-Type', PROBLEM_TYPE, 'Allow', allow])));
  return problem(405, req.id, { detail }, prepared);
}

/**
 * Returns a function that suggests a route with a similar path, for the text of a 404 response. It is not
 * used in production, because the suggestions disclose paths of the application.
 */
export function suggester(routes: readonly CompiledRoute[]): (path: string) => string | undefined {
  const templates = [...new Set(routes.map((route) => route.template))].slice(0, 1_000);
  return (path) => {
    if (path.length > 200) return undefined;
    const near = closest(path, templates);
    return near === undefined ? undefined : `Nothing is here; did you mean ${near}?`;
  };
}
