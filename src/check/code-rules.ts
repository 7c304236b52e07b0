/**
 * Rules that read the code of handlers, dependencies and middleware: calls that stop the whole process while they work,
 * clean-up that may never run, dependencies that nobody uses.
 */
import { isBlockingName } from './source/blocking.ts';
import { codeOf, givesNothing, takenBy, withoutOnce } from './source/functions.ts';
import { ownRoutes, subjectOf } from './check.ts';
import { functionOf, viewOfDependency } from '../routing/di.ts';
import { closest } from '../base/options.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Dependency } from '../routing/di.ts';

type AnyFunction = (...args: never[]) => unknown;

/** Calls that may be of those below: `readFileSync(`, `crypto.pbkdf2Sync(`. */
const BLOCKING = /\b([a-z]\w*Sync)\s*\(/g;

/** SVC501 */
export function findBlocking(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view))
    reportBlocking(detail.declared.handler, subjectOf(detail), 'its handler', detail.route.place, report);
  for (const { dependency, detail } of dependenciesOf(view)) {
    if (dependency.scope === 'app') continue; // once
    reportBlocking(
      functionOf(dependency),
      subjectOf(detail),
      `its dependency ${viewOfDependency(dependency).label}`,
      detail.route.place,
      report,
    );
  }
  const layers = new Map(view.middleware.map((layer) => [layer, view.placeOfMiddleware(layer)]));
  for (const { declared, route } of ownRoutes(view))
    for (const layer of declared.use) layers.set(layer, route.place);
  for (const [layer, place] of layers)
    reportBlocking(
      layer.handle as AnyFunction,
      `middleware ${layer.kind ?? layer.constructor.name}`,
      'it',
      place,
      report,
    );
}

function reportBlocking(
  fn: AnyFunction,
  subject: string,
  who: string,
  place: Parameters<ReportFinding>[2],
  report: ReportFinding,
): void {
  const code = withoutOnce(codeOf(fn));
  const calls = new Set(
    [...code.matchAll(BLOCKING)]
      .map(([, name]) => name!)
      .filter((name) => isBlockingName(name) && !isDefinedIn(code, name)),
  );
  if (calls.size > 0)
    report(
      subject,
      `${who} calls ${[...calls].join(', ')}, and every other request waits until that ends`,
      place,
    );
}

/** Whether code has a function of its own that is called so. */
function isDefinedIn(code: string, name: string): boolean {
  return new RegExp(
    `\\b(?:const|let|var|function)\\s+${name}\\b|(?<![\\w$.])${name}\\s*\\([^()]*\\)\\s*\\{`,
  ).test(code);
}

/** Every dependency once, with the first route that has it. */
function dependenciesOf(
  view: ApplicationView,
): readonly { readonly dependency: Dependency<unknown>; readonly detail: RouteDetail }[] {
  const found = new Map<unknown, { dependency: Dependency<unknown>; detail: RouteDetail }>();
  const visit = (dependency: Dependency<unknown>, detail: RouteDetail): void => {
    if (found.has(dependency.source)) return;
    found.set(dependency.source, { dependency, detail });
    for (const inner of needsOf(dependency)) visit(inner, detail);
  };
  for (const detail of ownRoutes(view))
    for (const [, dependency] of [...detail.declared.routerDeps, ...Object.entries(detail.declared.deps)])
      visit(dependency, detail);
  return [...found.values()];
}

/** What it needs; nothing where its spec cannot be read, which is a finding of its own (SVC107). */
function needsOf(dependency: Dependency<unknown>): readonly Dependency<unknown>[] {
  try {
    return viewOfDependency(dependency).needs;
  } catch {
    return [];
  }
}

/** A statement that calls what has an end to be waited for. */
const FORGOTTEN = /^(Promise\.\w+|(?:[\w$#?]+\.)+(?:close|end|disconnect|rollback|commit|quit|flush))\u0001$/;

/** SVC502 */
export function findLostCleanUp(view: ApplicationView, report: ReportFinding): void {
  for (const { dependency, detail } of dependenciesOf(view)) {
    const code = codeOf(functionOf(dependency));
    if (!/^(?:async\s+)?(?:function\s*\*|\*)/.test(code)) continue;
    const subject = subjectOf(detail);
    const { label } = viewOfDependency(dependency);
    const after = code.slice(code.lastIndexOf('yield'));
    const cleansUp = /[;\n][^}]*[\w$]+\s*[(.]/.test(after);
    const seesFailures = /\bfinally\b/.test(code) || /\bcatch\b/.test(after); // with catch: commit, or roll back
    if (cleansUp && !seesFailures)
      report(
        subject,
        `the clean-up of its dependency ${label} behind yield does not run when the request fails: there is no finally`,
        detail.route.place,
      );
    const forgotten = code.startsWith('async') ? forgottenIn(code) : undefined;
    if (forgotten !== undefined)
      report(
        subject,
        `its dependency ${label} does not await ${forgotten}() in its clean-up: an error there is lost`,
        detail.route.place,
      );
  }
}

/** What the last part of an asynchronous generator calls and does not wait for. */
function forgottenIn(code: string): string | undefined {
  const end = /\bfinally\s*\{/.exec(code);
  if (end === null) return undefined;
  let block = code.slice(end.index + end[0].length);
  for (let before = ''; before !== block;) [before, block] = [block, block.replace(/\([^()]*\)/g, '\u0001')]; // arguments are not statements
  for (const statement of block.split(/[;\n}]/)) {
    const found = FORGOTTEN.exec(statement.trim())?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
}

/** SVC113: a dependency of a route that its handler does not take. Those that guard it are resolved for what they refuse, those that give nothing for what they do. */
export function findUnused(view: ApplicationView, report: ReportFinding): void {
  for (const declared of new Set(ownRoutes(view).map((detail) => detail.declared))) {
    if (declared.socket !== undefined) continue; // its handlers are added later
    const taken = takenBy(declared.handler);
    if (taken === undefined || taken.includes('...')) continue;
    for (const [name, dependency] of Object.entries(declared.deps)) {
      if (
        guards(dependency) ||
        new RegExp(`(?:^|[^\\w$])${name.replaceAll('$', '\\$')}(?![\\w$])`).test(taken) ||
        givesNothing(functionOf(dependency))
      )
        continue;
      report(
        `${declared.methods.join(', ')} ${declared.template.template}`,
        `its dependency "${name}" is resolved for every request, and the handler does not use it`,
        declared.declared.place,
        {
          why: 'A dependency that no code uses still runs for every request, and costs time there',
          remedy: 'Remove the dependency, or take it in the handler',
        },
      );
    }
  }
}

/** Whether it, or anything that it needs, asks who is there; or does its work by throwing. */
function guards(dependency: Dependency<unknown>, seen: Set<unknown> = new Set()): boolean {
  if (seen.has(dependency.source)) return false;
  seen.add(dependency.source);
  return (
    viewOfDependency(dependency).security.length > 0 ||
    /\bthrow\b/.test(codeOf(functionOf(dependency))) ||
    needsOf(dependency).some((inner) => guards(inner, seen))
  );
}

/** Where a value is kept beyond the answer. */
const OUTLIVES =
  /\bnew\s+(?:Streaming|EventStream|NDJSON|Ndjson)\w*\s*\(|\.\s*add\s*\(\s*(?:async\s*)?(?:(?:\([^)]*\)|\w+)\s*=>|function\b)/g;

/** SVC104: names that handlers ask for as they are written down, and no route has. Comments are read, too: they show the name as well. */
export function findUnknownNames(view: ApplicationView, report: ReportFinding): void {
  const names = new Set(view.routes.flatMap(({ name }) => name ?? []));
  for (const detail of ownRoutes(view)) {
    const { handler } = detail.declared;
    if (!/\burlFor\s*\(\s*(?:''|"")/.test(codeOf(handler))) continue; // tsx writes the latter
    for (const [, , name] of Function.prototype.toString
      .call(handler)
      .matchAll(/\burlFor\s*\(\s*(['"])([^'"\\]+)\1/g)) {
      if (names.has(name!)) continue;
      const near = closest(name!, names);
      report(
        subjectOf(detail),
        `it asks for the path of "${name}", and no route has that name` +
          (near === undefined ? '' : `: did you mean "${near}"?`),
        detail.route.place,
        { severity: 'warning', remedy: 'Write the name as the route has it' },
      );
    }
  }
}

/** SVC112: what is cleaned up before the first byte, in a stream or a task that runs after it. */
export function findOutlived(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view)) {
    const names = [...detail.declared.routerDeps, ...Object.entries(detail.declared.deps)]
      .filter(([, { scope }]) => scope === 'handler')
      .map(([name]) => name);
    if (names.length === 0) continue;
    const code = codeOf(detail.declared.handler);
    for (const { index } of code.matchAll(OUTLIVES)) {
      const rest = insideOf(code, index);
      const name = names.find((candidate) => {
        const asked = candidate.replaceAll('$', '\\$');
        const local =
          new RegExp(`^[^=]*[{,]\\s*${asked}\\s*:\\s*([\\w$]+)`).exec(code)?.[1]?.replaceAll('$', '\\$') ??
          asked; // what the handler calls it
        return new RegExp(`(?<![\\w$.])${local}(?![\\w$])`).test(rest);
      });
      if (name === undefined) continue;
      report(
        subjectOf(detail),
        `"${name}" is cleaned up before the first byte is sent (scope handler), and a stream or a background task still uses it then`,
        detail.route.place,
        {
          severity: 'warning',
          remedy: 'Read what is needed before the handler ends, or give the dependency the scope request',
        },
      );
      break;
    }
  }
}

/** From a place in code to the end of the parentheses that open behind it. */
function insideOf(code: string, from: number): string {
  let depth = 0;
  for (let index = code.indexOf('(', from); index !== -1 && index < code.length; index++) {
    if (code[index] === '(') depth++;
    if (code[index] === ')' && --depth === 0) return code.slice(from, index);
  }
  return code.slice(from);
}
