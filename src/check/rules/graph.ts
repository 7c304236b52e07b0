/**
 * Rules of the phase `graph`, about routes, dependencies and middleware. Their errors prevent the application
 * from starting.
 *
 * At start-up, passesAtStart() runs only rules that may report an error. `svc check` runs every rule
 * (rules.ts).
 */
import { findOutlived, findRebound, findUnknownNames, findUnused } from './code.ts';
import { aboutRoute, layersOf, ownRoutes, shapeOf } from '../check.ts';
import { segmentsOf } from '../../http/middleware/exemptions.ts';
import { IdempotencyMiddleware } from '../../http/middleware/idempotency.ts';
import { CONVERTERS, variantsOf } from '../../http/path.ts';
import { fileOfPlace } from '../../base/findings.ts';
import { findSecrets } from './secrets.ts';
import type { ApplicationView, CoreRule, ReportFinding } from '../check.ts';
import type { RouteDetail } from '../../routing/compile.ts';
import type { Place } from '../../base/findings.ts';
import type { MiddlewareKind, SecurityRequirement } from '../../http/contracts.ts';
import type { ParsedTemplate } from '../../http/path.ts';

/** Rules about routes and middleware, sorted by id. */
export const GRAPH_RULES: readonly CoreRule[] = [
  {
    id: 'SVC101',
    severity: 'error',
    phase: 'graph',
    why: 'Only one of two routes with the same method and path can get requests. Paths that differ only in parameter names count as the same path',
    remedy: 'Remove one of the two routes, or change its path or method',
    wrong: "app.get('/users/{id}', a); app.get('/users/{name}', b);",
    right: "app.get('/users/{id:int}', a); app.get('/users/{name}', b);",
  },
  {
    id: 'SVC102',
    severity: 'error',
    phase: 'graph',
    why: 'Other routes receive every request for the route, so its handler and its guard never run',
    remedy: 'Remove the route, or make its path more specific than the routes that take its requests',
    wrong: "app.get('/f/{x}', a); … app.get('/f/{all:path}', b);",
    right: "app.get('/files/{all:path}', b);",
    run: findUnreachable,
  },
  {
    id: 'SVC103',
    severity: 'warning',
    phase: 'graph',
    cwe: [863],
    why: 'Many clients and proxies ignore case and final slashes in paths. A guard of a route does not protect the route with the other spelling',
    remedy: 'Keep one spelling of the path, and redirect the other spelling to it',
    wrong: "app.get('/notes', a); app.get('/notes/', b);",
    right: "app.get('/notes', a);",
    run: findTwins,
  },
  {
    id: 'SVC105',
    severity: 'info',
    phase: 'graph',
    sources: ['RFC 9110 §9.3.2'],
    why: 'The server itself responds to HEAD (like GET, without a body) and OPTIONS. A handler for HEAD or OPTIONS can contradict these responses',
    remedy:
      'Remove the handler of HEAD or OPTIONS, or make its response match the response to GET or to the CORS preflight',
    wrong: "app.route('/a', ['HEAD'], other);",
    right: "app.get('/a', a);  // answers HEAD, too",
    run: findContradictions,
  },
  {
    id: 'SVC106',
    severity: 'error',
    phase: 'graph',
    why: 'The prefix of a router and the path of a route form one path, where no parameter may occur twice. No router may include itself',
    remedy: 'Rename one of the two parameters, or remove the call that includes the router in itself',
    wrong: "new Router({ prefix: '/u/{id}' }).get('/{id}', a)",
    right: "new Router({ prefix: '/u/{id}' }).get('/{note}', a)",
  },
  {
    id: 'SVC107',
    severity: 'error',
    phase: 'graph',
    why: 'A route cannot serve requests while one of its schemas, dependencies or folders is invalid',
    remedy: 'Fix the schema, the dependency or the folder that the message names',
    wrong: "app.get('/a', { response: {} as never }, a);",
    right: "app.get('/a', { response: User }, a);",
  },
  {
    id: 'SVC114',
    severity: 'error',
    phase: 'graph',
    why: 'A plugin starts after the plugins that it requires, so these must be registered, and no two plugins may require each other',
    remedy:
      'Register the missing plugin, remove one of the requirements that form a circle, or correct the options of the plugin',
    wrong: "requires: ['db'] without app.register(new DatabasePlugin(…))",
    right: 'app.register(new DatabasePlugin(…)); app.register(new Shop());',
  },
  {
    id: 'SVC121',
    severity: 'error',
    phase: 'graph',
    why: 'Some middleware works only before or after certain other middleware, and only with options that do not contradict each other',
    remedy: 'Move the middleware, or change its options, as the message says',
    wrong: 'app.use(new CSRFMiddleware()); app.use(new SessionMiddleware());',
    right: 'app.use(new SessionMiddleware()); app.use(new CSRFMiddleware());',
    run: findMissingLayers,
  },
  {
    id: 'SVC123',
    severity: 'info',
    phase: 'graph',
    why: 'If an exception class has two handlers, the second handler receives every error, and the first handler never runs',
    remedy: 'Register one exception handler for each class',
    wrong: 'app.exceptionHandler(NotFound, a).exceptionHandler(NotFound, b);',
    right: 'app.exceptionHandler(NotFound, b);',
  },
];

/**
 * Runs the rules that report only warnings. If a route allows a warning until a date (option `allow`), the
 * warning becomes an error after that date, and may prevent a start.
 */
function findWhatIsAllowed(view: ApplicationView, report: ReportFinding): void {
  for (const find of [findTwins, findContradictions, findRebound]) find(view, report);
  if (ownRoutes(view).some(hasReadableCode))
    for (const find of [findUnknownNames, findUnused, findOutlived]) find(view, report);
}

/**
 * Whether the rules of code.ts can find anything in a route: it has dependencies, or its handler calls
 * urlFor().
 */
function hasReadableCode({ declared: { deps, routerDeps, handler } }: RouteDetail): boolean {
  return (
    Object.keys(deps).length > 0 ||
    routerDeps.length > 0 ||
    Function.prototype.toString.call(handler).includes('urlFor')
  );
}

/**
 * Returns the more specific templates that together match every path of a route. Returns an empty list if
 * some path still reaches the route.
 *
 * Several templates can cover only a route that ends with a `path` parameter, such as `/files/{name:path}`.
 * All of them begin with `/files/`. letterOf() shortens each further segment to a letter, so that
 * `{a}/{rest:path}` becomes `OP`.
 */
export function coveredBy<T>(
  path: ParsedTemplate,
  others: readonly T[],
  templateOf: (other: T) => ParsedTemplate,
): T[] {
  const own = segmentsOf(path);
  if (own.at(-1) !== ':path') return [];
  const prefix = own.slice(0, -1);
  const rests = others.flatMap((other) =>
    variantsOf(templateOf(other)).flatMap((variant) => {
      const segments = segmentsOf(variant);
      if (segments.length < own.length || prefix.some((segment, index) => segments[index] !== segment))
        return [];
      const word = segments.slice(prefix.length).map(letterOf).join('');
      // skips an equal template (`P`), which SVC101 reports, and a template that matches too few paths (`X`)
      return word === 'P' || word.includes('X') ? [] : [{ other, word }];
    }),
  );
  const words = rests.map((rest) => rest.word);
  return leavesGap(words, '') ? [] : rests.map((rest) => rest.other);
}

/**
 * Returns a letter for a path segment: E (empty), O (a `str` parameter), P (a `path` parameter) or X (any
 * other segment).
 */
function letterOf(segment: string): string {
  return LETTERS.get(segment) ?? 'X';
}

const LETTERS: ReadonlyMap<string, string> = new Map([
  ['=', 'E'],
  [`:${CONVERTERS.str.name}`, 'O'],
  [`:${CONVERTERS.path.name}`, 'P'],
]);

/**
 * Whether some path that begins with `word` matches none of the templates in `rests`. `word` and `rests`
 * consist of the letters that letterOf() returns for path segments.
 */
function leavesGap(rests: readonly string[], word: string): boolean {
  if (word !== '' && word !== 'E' && !rests.includes(word)) return true;
  const isOpen = rests.includes(`${word}P`);
  return ['O', 'E'].some((letter) => {
    const longer = word + letter;
    const following = rests.filter((rest) => rest.startsWith(longer));
    if (!isOpen) return leavesGap(following, longer);
    // a `path` parameter needs at least one character: `/{a}/{rest:path}` does not match `/a/`
    return letter === 'E' && longer !== 'E' && !following.includes(longer);
  });
}

/** SVC102: routes that never run because more specific routes match all their paths. */
function findUnreachable(view: ApplicationView, report: ReportFinding): void {
  for (const detail of view.details.filter(takesRest)) {
    const { route, declared } = detail;
    const rivals = view.details.filter(
      (other) =>
        other.route.method === route.method || (route.method === 'HEAD' && other.route.method === 'GET'),
    );
    const takers = coveredBy(declared.template, rivals, (rival) => rival.declared.template);
    if (takers.length === 0) continue;
    const names = [...new Set(takers.map((taker) => taker.route.template))].join(', ');
    const tell = aboutRoute(detail, report);
    tell(`no request can reach the route, because more specific routes match all of its paths: ${names}`);
  }
}

/** SVC103: routes whose paths differ only in case or in a final slash. */
function findTwins(view: ApplicationView, report: ReportFinding): void {
  const first = new Map<string, RouteDetail>();
  for (const detail of view.details.toSorted(
    (left, right) => Number(right.isOperation) - Number(left.isOperation),
  )) {
    const { route, declared } = detail;
    const segments = segmentsOf(declared.template);
    if (segments.length > 1 && segments.at(-1) === '=') segments.pop();
    const key = `${route.method} ${segments.join('/').toLowerCase()}`;
    const twin = first.get(key);
    if (twin === undefined) first.set(key, detail);
    else if (
      shapeOf(twin) !== shapeOf(detail) &&
      (declared.mount === undefined || declared.mount !== twin.declared.mount)
    ) {
      // routes of one static mount are not reported: they differ in the final slash on purpose
      const other = `${twin.route.template}${at(twin.route.place)}`;
      const hasSameLetters = shapeOf(twin).toLowerCase() === shapeOf(detail).toLowerCase();
      const tell = aboutRoute(detail, report);
      tell(
        hasSameLetters
          ? `the path differs from ${other} only in upper and lower case`
          : `the path differs from ${other} only in a slash at the end`,
      );
    }
  }
}

function at(place: Place): string {
  return place.line === 0 ? '' : ` at ${fileOfPlace(place)}:${place.line}`;
}

/** SVC105: HEAD and OPTIONS handlers that contradict GET or the CORS middleware. */
function findContradictions(view: ApplicationView, report: ReportFinding): void {
  if (!view.details.some(({ route }) => route.method === 'HEAD' || route.method === 'OPTIONS')) return;
  const gets = new Map(
    view.details.filter(({ route }) => route.method === 'GET').map((detail) => [shapeOf(detail), detail]),
  );
  for (const detail of ownRoutes(view)) {
    const { route, declared } = detail;
    if (!declared.methods.includes(route.method)) continue;
    const tell = aboutRoute(detail, report);
    const get = gets.get(shapeOf(detail));
    if (route.method === 'HEAD' && get === undefined) tell('the path has a HEAD route, but no GET route');
    else if (route.method === 'HEAD' && get!.declared !== declared)
      tell(
        `HEAD has another handler than GET of the same path${at(get!.route.place)}, so the two responses can differ`,
      );
    if (route.method === 'OPTIONS' && layersOf(view, declared).some((layer) => layer.kind === 'cors'))
      tell(
        'CORS preflight requests never reach the OPTIONS handler, because the CORS middleware responds to them',
      );
  }
}

/** SVC121: routes that need a middleware that is not registered. */
function findMissingLayers(view: ApplicationView, report: ReportFinding): void {
  const isIdempotent = view.middleware.some((layer) => layer instanceof IdempotencyMiddleware);
  for (const detail of view.details) {
    if (!asksForLayers(detail) && !isIdempotent) continue;
    const { route, declared } = detail;
    const tell = aboutRoute(detail, report);
    const lacks = (kind: MiddlewareKind): boolean =>
      !layersOf(view, declared).some((layer) => layer.kind === kind);
    if (typeof route.rateLimit === 'object' && lacks('rate-limit'))
      tell('rateLimit has no effect, because no RateLimitMiddleware is registered', {
        remedy: 'Add app.use(new RateLimitMiddleware())',
      });
    if (declared.use.some((layer) => layer.kind === 'request-id'))
      tell(
        'a RequestIDMiddleware of a route has no effect, because each request gets its id before its route is known',
        { remedy: 'Register the middleware for the application: app.use(new RequestIDMiddleware())' },
      );
    if (
      layersOf(view, declared).some(
        (layer) => layer instanceof IdempotencyMiddleware && !layer.knowsPrincipal && layer.covers(route),
      ) &&
      route.security.length === 0 &&
      lacks('session')
    )
      tell(
        'no guard or option identifies the client, so clients with the same IP address or cookies share idempotency keys',
        {
          severity: 'warning',
          remedy:
            'Identify the client: new IdempotencyMiddleware({ principal: (req) => … }), or require a credential',
        },
      );
    if (route.security.some(isOwnSession) && lacks('session'))
      tell(
        'the route requires a session, but no session middleware is registered, so every request fails with status 500',
        { remedy: 'Register the session middleware: app.use(new SessionMiddleware())' },
      );
  }
}

/**
 * Whether a guard reads the session through `req.session`. A guard with its own `credential` reads another
 * cookie.
 */
function isOwnSession({ scheme, credential }: SecurityRequirement): boolean {
  return scheme === 'session' && credential === undefined;
}

/**
 * Whether the rules of the phase `graph` and the rule about secrets find nothing that could prevent a start.
 * False if a rule throws.
 *
 * With thousands of routes, the rules that report warnings take longer than compilation. They run only if a
 * route has the option `allow`, because a warning becomes an error when its allowance ends.
 */
export function passesAtStart(view: ApplicationView): boolean {
  let passes = true;
  const report: ReportFinding = () => {
    passes = false;
  };
  try {
    findUnreachable(view, report);
    findMissingLayers(view, report);
    if (view.details.some(({ declared: { spec } }) => spec.allow !== undefined))
      findWhatIsAllowed(view, report);
    if (mayNeedSecrets(view) && view.secrets.length > 0) findSecrets(view, report);
  } catch {
    return false;
  }
  return passes;
}

/** Whether the last parameter of a route takes the rest of the path, as in `/files/{name:path}`. */
function takesRest({ declared: { template } }: RouteDetail): boolean {
  return template.parameters.at(-1)?.converter === CONVERTERS.path;
}

/** Whether SVC121 can apply to a route: only if the route has a rate limit, a guard or its own middleware. */
function asksForLayers({ route, declared }: RouteDetail): boolean {
  return typeof route.rateLimit === 'object' || route.security.length > 0 || declared.use.length > 0;
}

/** Whether the application has plugins, middleware or dependencies, which may need secrets. */
function mayNeedSecrets({ plugins, middleware, details }: ApplicationView): boolean {
  return (
    plugins.length > 0 ||
    middleware.length > 0 ||
    details.some(
      ({ declared: { use, routerDeps, deps } }) =>
        use.length > 0 || routerDeps.length > 0 || Object.keys(deps).length > 0,
    )
  );
}
