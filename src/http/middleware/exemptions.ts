/**
 * Requests that a list of path templates leaves out of a check: those of the routes it names, and of no more specific one.
 *
 *   exempt                  leaves out a request for
 *   /{tenant}/webhook       the route /{any}/webhook, and not /account/webhook, which its author may have written later
 *   /hooks/{rest:path}      every route below /hooks/
 *   /hooks/github           that path, also where the route /hooks/{name} answers it
 *
 * A path that no route answers is left out when a template matches it: there is nothing to protect.
 */
import { CONVERTERS, parseTemplate } from '../path.ts';
import { RoutingTable } from '../router.ts';
import type { CompiledRoute, CompiledView, HttpRequest } from '../contracts.ts';
import type { ParsedTemplate } from '../path.ts';

/** The method under which templates stand in a table: they count for all. */
const ANY = '*';

/** Templates, and what they mean for the routes of an application. */
export class Exemptions {
  readonly #templates: readonly ParsedTemplate[];
  readonly #all: RoutingTable<true>;
  /** Of routes that are left out: always, or where a table matches the path. */
  readonly #ofRoutes = new WeakMap<CompiledRoute, true | RoutingTable<true>>();

  /** @throws SvcError `E_PATH_TEMPLATE` */
  constructor(templates: readonly string[]) {
    this.#templates = templates.map((template) => parseTemplate(template));
    this.#all = tableOf(this.#templates);
  }

  /** Takes the routes of a compiled application. Answers the templates that fit none of them. */
  enter(routes: readonly CompiledRoute[]): string[] {
    const unused = new Set(this.#templates);
    for (const route of unused.size === 0 ? [] : routes) {
      const theirs = segmentsOf(parseTemplate(route.template));
      const narrower: ParsedTemplate[] = [];
      for (const exempt of this.#templates) {
        const fit = fitOf(segmentsOf(exempt), theirs);
        if (fit === 'none') continue;
        unused.delete(exempt);
        if (fit === 'whole') this.#ofRoutes.set(route, true);
        else narrower.push(exempt);
      }
      if (narrower.length > 0 && !this.#ofRoutes.has(route)) this.#ofRoutes.set(route, tableOf(narrower));
    }
    return [...unused].map(({ template }) => template);
  }

  /** Whether every request of a route is left out. */
  hasAll(route: CompiledRoute): boolean {
    return route.meta['csrf'] === false || this.#ofRoutes.get(route) === true;
  }

  /** Whether a request is left out; routes with `meta: { csrf: false }` have a proof of their own. */
  has(req: Pick<HttpRequest, 'route' | 'path'>): boolean {
    if (req.route?.meta['csrf'] === false) return true;
    const table = req.route === undefined ? this.#all : this.#ofRoutes.get(req.route);
    return table === true || table?.match(ANY, req.path).kind === 'found';
  }
}

function tableOf(templates: readonly ParsedTemplate[]): RoutingTable<true> {
  const table = new RoutingTable<true>();
  for (const template of templates) table.add(ANY, template, true);
  table.freeze();
  return table;
}

/** The shape of a template, segment by segment: literal text as `=text`, a parameter as `:converter`. */
export function segmentsOf({ template, parameters }: ParsedTemplate): string[] {
  let next = 0;
  return template
    .slice(1)
    .split('/')
    .map((segment) => (segment.startsWith('{') ? `:${parameters[next++]!.converter.name}` : `=${segment}`));
}

const PATH = `:${CONVERTERS.path.name}`;
const TEXT = `:${CONVERTERS.str.name}`;

/** `whole`: every path of the route is exempt. `part`: those that the exempt template matches. `none`: the route is more specific, or another. */
function fitOf(exempt: readonly string[], route: readonly string[]): 'whole' | 'part' | 'none' {
  let isWhole = true;
  for (const [index, ours] of exempt.entries()) {
    const theirs = route[index];
    if (theirs === undefined) return 'none';
    if (ours === PATH && theirs === '=' && route.length === exempt.length) return 'none'; // what `path` takes is not empty
    if (ours === PATH) return isWhole ? 'whole' : 'part';
    if (theirs === ours) continue;
    if (theirs === PATH) return 'part';
    if (theirs !== TEXT && !(ours.startsWith('=') && theirs.startsWith(':'))) return 'none';
    isWhole = false;
  }
  if (exempt.length !== route.length) return 'none';
  return isWhole ? 'whole' : 'part';
}

/** Whether several processes serve, so that what is in the memory of one is not in that of another. */
export function isServedByMany(view: Pick<CompiledView, 'config'>): boolean {
  const workers = view.config('workers');
  return workers === 'auto' || Number(workers ?? 1) > 1;
}
