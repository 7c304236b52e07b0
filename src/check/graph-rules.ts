/**
 * The rules of the phase `graph`: what of an application can keep it from starting, besides what is found while it is compiled.
 * Starting, graph-rules.ts asks for them where they may find something; checking, rules.ts, which has their texts.
 */
import { findOutlived, findUnknownNames, findUnused } from './code-rules.ts';
import { layersOf, ownRoutes, shapeOf } from './check.ts';
import { viewOfDependency } from '../routing/di.ts';
import { segmentsOf } from '../http/middleware/exemptions.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { CONVERTERS } from '../http/path.ts';
import { fileOfPlace } from '../base/findings.ts';
import { findSecrets } from './secrets.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Dependency } from '../routing/di.ts';
import type { Place } from '../base/findings.ts';
import type { MiddlewareKind, SecurityRequirement } from '../http/contracts.ts';
import type { ParsedTemplate } from '../http/path.ts';

/** What only warns, of an application that allows some of it: it becomes an error where its allowance has ended. */
function findWhatIsAllowed(view: ApplicationView, report: ReportFinding): void {
  for (const find of [findTwins, findContradictions, findRebound]) find(view, report);
  if (ownRoutes(view).some(hasReadableCode))
    for (const find of [findUnknownNames, findUnused, findOutlived]) find(view, report);
}

/** Whether its code may hold what the rules look for that read it: names of routes, or what it does with its dependencies. */
function hasReadableCode({ declared: { deps, routerDeps, handler } }: RouteDetail): boolean {
  return (
    Object.keys(deps).length > 0 ||
    routerDeps.length > 0 ||
    Function.prototype.toString.call(handler).includes('urlFor')
  );
}

// -- SVC102 --

/**
 * Which templates take everything that a route matches: those of the same method that the router prefers.
 *
 * The router prefers segment by segment, and in each position the better kinds leave something over: text that is no
 * number, a number that no literal spells. So only a template with `path` at its end can be covered, by templates that begin
 * exactly as it does, and all that counts of a remaining segment is whether it is empty (E) or not (O): text that no more
 * specific segment takes. What is left of a template is a word of E, O and, at its end, P (any rest but nothing).
 */
export function coveredBy<T>(
  path: ParsedTemplate,
  others: readonly T[],
  templateOf: (other: T) => ParsedTemplate,
): T[] {
  const own = segmentsOf(path);
  if (own.at(-1) !== ':path') return [];
  const prefix = own.slice(0, -1);
  const rests = others.flatMap((other) => {
    const segments = segmentsOf(templateOf(other));
    if (segments.length < own.length || prefix.some((segment, index) => segments[index] !== segment))
      return [];
    const word = segments.slice(prefix.length).map(letterOf).join('');
    return word === 'P' || word.includes('X') ? [] : [{ other, word }]; // "P" is the same template: a duplicate
  });
  return leavesGap(
    rests.map((rest) => rest.word),
    '',
  )
    ? []
    : rests.map((rest) => rest.other);
}

/** X takes some texts only, so that it never covers. */
function letterOf(segment: string): 'E' | 'O' | 'P' | 'X' {
  return segment === '='
    ? 'E'
    : segment === `:${CONVERTERS.str.name}`
      ? 'O'
      : segment === `:${CONVERTERS.path.name}`
        ? 'P'
        : 'X';
}

/** Whether a rest that begins with `word` is matched by none of `rests`, all of which begin with it. A rest is not empty: neither no segment, nor one empty one. */
function leavesGap(rests: readonly string[], word: string): boolean {
  if (word !== '' && word !== 'E' && !rests.includes(word)) return true;
  const isOpen = rests.includes(`${word}P`);
  return ['O', 'E'].some((letter) => {
    const longer = word + letter;
    const following = rests.filter((rest) => rest.startsWith(longer));
    if (!isOpen) return leavesGap(following, longer);
    return letter === 'E' && longer !== 'E' && !following.includes(longer); // P takes every other rest
  });
}

/** A route that more specific ones leave no request for. */
export function findUnreachable(view: ApplicationView, report: ReportFinding): void {
  for (const { route, declared } of view.details) {
    if (declared.template.parameters.at(-1)?.converter !== CONVERTERS.path) continue;
    const rivals = view.details.filter(
      (other) =>
        other.route.method === route.method || (route.method === 'HEAD' && other.route.method === 'GET'),
    );
    const takers = coveredBy(declared.template, rivals, (rival) => rival.declared.template);
    if (takers.length === 0) continue;
    const names = [...new Set(takers.map((taker) => taker.route.template))].join(', ');
    report(
      `${route.method} ${route.template}`,
      `it can never be reached: more specific routes take every path that it matches: ${names}`,
      route.place,
    );
  }
}

// -- SVC103 --

/** Two routes that clients take for one. */
export function findTwins(view: ApplicationView, report: ReportFinding): void {
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
      // a mount redirects itself
      const what =
        shapeOf(twin).toLowerCase() === shapeOf(detail).toLowerCase() ? 'in case' : 'in a slash at the end';
      report(
        `${route.method} ${route.template}`,
        `it differs from ${twin.route.template}${at(twin.route.place)} only ${what}`,
        route.place,
      );
    }
  }
}

function at(place: Place): string {
  return place.line === 0 ? '' : ` at ${fileOfPlace(place)}:${place.line}`;
}

// -- SVC105 --

/** HEAD and OPTIONS by other handlers than those that would answer. */
export function findContradictions(view: ApplicationView, report: ReportFinding): void {
  if (!view.details.some(({ route }) => route.method === 'HEAD' || route.method === 'OPTIONS')) return;
  const gets = new Map(
    view.details.filter(({ route }) => route.method === 'GET').map((detail) => [shapeOf(detail), detail]),
  );
  for (const { route, declared, isOperation } of view.details) {
    if (isOperation || declared.mount !== undefined || !declared.methods.includes(route.method)) continue;
    const subject = `${route.method} ${route.template}`;
    const get = gets.get(shapeOf({ declared }));
    if (route.method === 'HEAD' && get === undefined)
      report(subject, 'there is no GET whose head it could be', route.place);
    else if (route.method === 'HEAD' && get!.declared !== declared)
      report(
        subject,
        `it is another handler than that of GET${at(get!.route.place)}, whose head it should be`,
        route.place,
      );
    if (route.method === 'OPTIONS' && layersOf(view, declared).some((layer) => layer.kind === 'cors'))
      report(subject, 'preflights never reach it: the CORS middleware answers them', route.place);
  }
}

// -- SVC113 --

/** What is replaced by another of its name. */
export function findRebound(view: ApplicationView, report: ReportFinding): void {
  for (const declared of new Set(view.details.map((detail) => detail.declared))) {
    const outer = new Map<string, Dependency<unknown>>();
    for (const [name, dependency] of [...declared.routerDeps, ...Object.entries(declared.deps)]) {
      const earlier = outer.get(name);
      outer.set(name, dependency);
      if (earlier === undefined || earlier.source === dependency.source) continue;
      report(
        `${declared.methods.join(', ')} ${declared.template.template}`,
        `"${name}" is ${viewOfDependency(earlier).label} for its router and ${viewOfDependency(dependency).label} for the route: both run, the handler sees the second`,
        declared.declared.place,
        {
          why: 'The handler sees the dependency of the innermost declaration. The outer one of the same name also runs for every request, and its value is lost',
        },
      );
    }
  }
}

// -- SVC121 --

/** What a route asks for, and no layer around it does. */
export function findMissingLayers(view: ApplicationView, report: ReportFinding): void {
  const isIdempotent = view.middleware.some((layer) => layer instanceof IdempotencyMiddleware);
  for (const { route, declared } of view.details) {
    if (
      typeof route.rateLimit !== 'object' &&
      route.security.length === 0 &&
      declared.use.length === 0 &&
      !isIdempotent
    )
      continue; // it asks for none
    const subject = `${route.method} ${route.template}`;
    const lacks = (kind: MiddlewareKind): boolean =>
      !layersOf(view, declared).some((layer) => layer.kind === kind);
    if (typeof route.rateLimit === 'object' && lacks('rate-limit')) {
      report(subject, 'its rateLimit has no effect: there is no RateLimitMiddleware', route.place, {
        remedy: 'Add app.use(new RateLimitMiddleware())',
      });
    }
    if (declared.use.some((layer) => layer.kind === 'request-id')) {
      report(
        subject,
        'its RequestIDMiddleware does nothing: requests get their ids before their routes are known',
        route.place,
        { remedy: 'Register it for the application: app.use(new RequestIDMiddleware())' },
      );
    }
    if (
      layersOf(view, declared).some(
        (layer) => layer instanceof IdempotencyMiddleware && !layer.knowsPrincipal && layer.covers(route),
      ) &&
      route.security.length === 0 &&
      lacks('session')
    ) {
      report(
        subject,
        'nothing identifies its sender, so clients with the same address or cookies share idempotency keys',
        route.place,
        {
          severity: 'warning',
          remedy:
            'Say who sends it: new IdempotencyMiddleware({ principal: (req) => … }), or let it ask for a credential',
        },
      );
    }
    if (route.security.some(isOwnSession) && lacks('session')) {
      report(
        subject,
        'it asks who is logged in by session, and there is no session middleware: every answer would be a 500',
        route.place,
        { remedy: 'Register it: app.use(new SessionMiddleware())' },
      );
    }
  }
}

/** That of `req.session`; one with a credential of its own reads another cookie. */
function isOwnSession({ scheme, credential }: SecurityRequirement): boolean {
  return scheme === 'session' && credential === undefined;
}

/*
 * Whether an application may start: nothing of it is what a rule of the phase `graph` refuses.
 *
 *   starting   a look at what could break such a rule -> that rule, where there is something -> rules.ts, where it found something
 *
 * So an application that has no flaw starts without the catalogue, and a plain one without the rules themselves.
 */

/**
 * Whether no rule of the phase `graph`, and none about secrets, finds what could keep it from starting. One that throws has: the
 * examination tells. What only warns becomes an error where its allowance has ended, and nowhere else: with thousands of routes,
 * looking for it would take longer than to compile them.
 */
export function passesAtStart(view: ApplicationView): boolean {
  let passes = true;
  const report: ReportFinding = () => {
    passes = false;
  };
  try {
    if (view.details.some(takesRest)) findUnreachable(view, report);
    if (
      view.details.some(asksForLayers) ||
      view.middleware.some((layer) => layer instanceof IdempotencyMiddleware)
    )
      findMissingLayers(view, report);
    if (view.details.some(({ declared: { spec } }) => spec.allow !== undefined))
      findWhatIsAllowed(view, report);
    if (mayNeedSecrets(view) && view.secrets.length > 0) findSecrets(view, report);
  } catch {
    return false;
  }
  return passes;
}

/** Whether more specific routes may leave no request for it (SVC102). */
function takesRest({ declared: { template } }: RouteDetail): boolean {
  return template.parameters.at(-1)?.converter === CONVERTERS.path;
}

/** Whether it asks for what a layer does (SVC121). */
function asksForLayers({ route, declared }: RouteDetail): boolean {
  return typeof route.rateLimit === 'object' || route.security.length > 0 || declared.use.length > 0;
}

/** Whether any part could need a secret. */
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
