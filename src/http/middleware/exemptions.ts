/**
 * Path templates that exempt requests from the CSRF check. A template exempts the routes that it matches, but
 * not more specific routes:
 *   - /{tenant}/webhook exempts the route /{any}/webhook, but not the more specific route /account/webhook
 *   - /hooks/{rest:path} exempts every route below /hooks/
 *   - /hooks/github exempts only this path of the route /hooks/{name}
 *
 * A path without a route is exempt from the CSRF check if a template matches the path. No handler runs then,
 * so nothing needs protection.
 */
import { CONVERTERS, parseTemplate, variantsOf } from '../path.ts';
import { RoutingTable } from '../router.ts';
import type { CompiledRoute, HttpRequest } from '../contracts.ts';
import type { ParsedTemplate } from '../path.ts';

/** Method of all entries in the routing tables, because exemptions do not depend on the method. */
const ANY = '*';

export class Exemptions {
  readonly #templates: readonly ParsedTemplate[];
  readonly #all: RoutingTable<true>;
  /** For each route, `true` if all its requests are exempt, else a table of its exempt paths. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, true | RoutingTable<true>>();

  constructor(templates: readonly string[]) {
    this.#templates = templates.map((template) => parseTemplate(template));
    this.#all = tableOf(this.#templates);
  }

  /** Determines which of these routes the templates exempt. Returns the templates that match no route. */
  enter(routes: readonly CompiledRoute[]): string[] {
    const unused = new Set(this.#templates);
    for (const route of unused.size === 0 ? [] : routes) {
      const theirs = variantsOf(parseTemplate(route.template)).map(segmentsOf);
      const narrower: ParsedTemplate[] = [];
      for (const exempt of this.#templates) {
        const ours = variantsOf(exempt).map(segmentsOf);
        const fit = least(theirs.map((route) => most(ours.map((template) => fitOf(template, route)))));
        if (fit === 'none') continue;
        unused.delete(exempt);
        if (fit === 'whole') this.#ofRoutes.set(route, true);
        else narrower.push(exempt);
      }
      if (narrower.length > 0 && !this.#ofRoutes.has(route)) this.#ofRoutes.set(route, tableOf(narrower));
    }
    return [...unused].map(({ template }) => template);
  }

  /** Whether every request of a route is exempt. */
  hasAll(route: CompiledRoute): boolean {
    return route.meta['csrf'] === false || this.#ofRoutes.get(route) === true;
  }

  /** Whether a request is exempt. Requests of routes with `meta: { csrf: false }` always are. */
  has(req: Pick<HttpRequest, 'route' | 'path'>): boolean {
    if (req.route?.meta['csrf'] === false) return true;
    const table = req.route === undefined ? this.#all : this.#ofRoutes.get(req.route);
    return table === true || table?.match(ANY, req.path).kind === 'found';
  }
}

/** Returns the methods of routes for a message: `GET, DELETE`. Leaves out `HEAD`, which each `GET` route answers, too. */
export function methodsOf(routes: readonly CompiledRoute[]): string {
  const methods = new Set(routes.map(({ method }) => method));
  if (methods.has('GET')) methods.delete('HEAD');
  return [...methods].join(', ');
}

function tableOf(templates: readonly ParsedTemplate[]): RoutingTable<true> {
  const table = new RoutingTable<true>();
  for (const template of templates) table.add(ANY, template, true);
  table.freeze();
  return table;
}

/**
 * Returns the segments of a template. For example, `/users/{id:int}` leads to `=users` for the literal text,
 * and `:int` for the parameter.
 */
export function segmentsOf({ template, parameters }: ParsedTemplate): string[] {
  let next = 0;
  return template
    .slice(1)
    .split('/')
    .map((segment) => (segment.startsWith('{') ? `:${parameters[next++]!.converter.name}` : `=${segment}`));
}

const PATH = `:${CONVERTERS.path.name}`;
const TEXT = `:${CONVERTERS.str.name}`;

type Fit = 'whole' | 'part' | 'none';

/** Returns the best of the fits of several templates to one route. */
function most(fits: readonly Fit[]): Fit {
  return fits.includes('whole') ? 'whole' : fits.includes('part') ? 'part' : 'none';
}

/** Returns the fit of a template to all variants of a route. */
function least(fits: readonly Fit[]): Fit {
  return fits.every((fit) => fit === fits[0]) ? fits[0]! : 'part'; // a route has at least one variant
}

/**
 * Returns which paths of a route a template exempts: all (`whole`), only the paths that the template matches
 * (`part`), or none, because the route is more specific or different.
 */
function fitOf(exempt: readonly string[], route: readonly string[]): Fit {
  let isWhole = true;
  for (const [index, ours] of exempt.entries()) {
    const theirs = route[index];
    if (theirs === undefined) return 'none';
    // the route ends with a slash, and `{p:path}` does not match the empty text after the slash
    if (ours === PATH && theirs === '=' && route.length === exempt.length) return 'none';
    if (ours === PATH) return isWhole ? 'whole' : 'part';
    if (theirs === ours) continue;
    if (theirs === PATH) return 'part';
    if (theirs !== TEXT && !(ours.startsWith('=') && theirs.startsWith(':'))) return 'none';
    isWhole = false;
  }
  if (exempt.length !== route.length) return 'none';
  return isWhole ? 'whole' : 'part';
}
