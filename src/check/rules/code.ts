/**
 * Rules that read the code of handlers, dependencies and middleware. They find calls that block the process,
 * clean-up that may not run, and dependencies that a handler does not use.
 */
import {
  codeOf,
  givesNothing,
  isBlockingName,
  isDefinedIn,
  takenBy,
  withoutOnce,
} from '../reader/functions.ts';
import { aboutRoute, dependenciesOf, layersWithPlaces, needsOf, ownRoutes } from '../check.ts';
import { functionOf, viewOfDependency } from '../../routing/di.ts';
import { closest } from '../../base/options.ts';
import type { ApplicationView, CoreRule, ReportFinding, Tell } from '../check.ts';
import type { Dependency } from '../../routing/di.ts';

/** Rules about dependencies and the code of handlers, sorted by id. */
export const CODE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC104',
    severity: 'error',
    phase: 'graph',
    why: 'Two routes must not share a name, because urlFor() and API documents find routes by name',
    remedy: 'Give each route a unique name',
    wrong: "app.get('/a', { name: 'home' }, a); app.get('/b', { name: 'home' }, b);",
    right: "app.get('/b', { name: 'other' }, b);",
    run: findUnknownNames,
  },
  {
    id: 'SVC111',
    severity: 'error',
    phase: 'graph',
    why: 'A dependency that needs itself, directly or through other dependencies, can never get a value',
    remedy: 'Break the circle: let one dependency read its value from the request or the application',
    wrong:
      'const a = provide({ get b() { return Depends(b); } }, …); const b = provide({ a: Depends(a) }, …);',
    right: 'const b = provide({}, ({ req }) => …);',
  },
  {
    id: 'SVC112',
    severity: 'error',
    phase: 'graph',
    why: 'A long-lived dependency must not keep the value of a short-lived dependency: that value may be cleaned up, or belong to another request',
    remedy:
      'Give both dependencies the same scope, for example the scope "request": Depends(fn, { scope: "request" })',
    wrong: "Depends(provide({ me: Depends(user) }, …), { scope: 'app' })",
    right: "Depends(provide({ me: Depends(user) }, …), { scope: 'request' })",
    run: findOutlived,
  },
  {
    id: 'SVC113',
    severity: 'warning',
    phase: 'graph',
    why: 'If a router and a route declare dependencies of the same name, both run, but the handler receives only the dependency of the route',
    remedy: 'Rename one of the two dependencies, or remove the one that is not intended',
    wrong: "app.get('/a', { db: Depends(db) }, () => 1);",
    right: "app.get('/a', { db: Depends(db) }, ({ db }) => db.fetchAll(…));",
    run: findIdle,
  },
  {
    id: 'SVC501',
    severity: 'warning',
    phase: 'contract',
    cwe: [400],
    why: 'A synchronous call stops the whole process: every other request waits until the call ends',
    remedy: 'Call the asynchronous form of the function, or run the function in a worker thread',
    wrong: 'readFileSync(path)',
    right: 'await readFile(path)',
    run: findBlocking,
  },
  {
    id: 'SVC502',
    severity: 'warning',
    phase: 'contract',
    cwe: [772],
    why: 'If clean-up code does not run, connections stay open. If clean-up code is not awaited, a failed commit goes unnoticed',
    remedy: 'Put the clean-up code into finally { … }, and await its asynchronous calls',
    wrong: 'async function* db() { … yield x; await x.close(); }',
    right: 'try { yield x; } finally { await x.close(); }',
    run: findLostCleanUp,
  },
];

type AnyFunction = (...args: never[]) => unknown;

/** Reads the code of functions with the parser of sources, once parseHandlers() has loaded it. */
let parser: typeof import('../reader/once.ts') | undefined;

/**
 * Lets SVC501 parse the code of functions, so that it knows more forms of calls that run once or only in
 * development. Without this, the rule reads the text: an application that starts does not load the parser.
 */
export async function parseHandlers(): Promise<void> {
  parser = await import('../reader/once.ts');
}

/** Matches calls whose name ends with Sync, such as `readFileSync(` and `crypto.pbkdf2Sync(`. */
const BLOCKING = /\b([a-z]\w*Sync)\s*\(/g;

/** SVC501: calls that block the process. */
function findBlocking(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view))
    reportBlocking(detail.declared.handler, 'the handler', aboutRoute(detail, report));
  for (const { dependency, detail } of dependenciesOf(view)) {
    // a dependency of scope 'app' is created only once, at the start, so it blocks no request
    if (dependency.scope === 'app') continue;
    const { label } = viewOfDependency(dependency);
    reportBlocking(functionOf(dependency), `the dependency ${label}`, aboutRoute(detail, report));
  }
  for (const [layer, place] of layersWithPlaces(view))
    reportBlocking(layer.handle as AnyFunction, 'the middleware', (message) =>
      report(`middleware ${layer.kind ?? layer.constructor.name}`, message, place),
    );
}

function reportBlocking(fn: AnyFunction, caller: string, tell: Tell): void {
  const calls = parser?.blockingCallsOf(fn) ?? blockingCallsInText(fn);
  if (calls.size > 0)
    tell(
      `${caller} calls ${[...calls].join(', ')}, which blocks the process: all other requests wait until the call ends`,
    );
}

function blockingCallsInText(fn: AnyFunction): ReadonlySet<string> {
  const code = withoutOnce(codeOf(fn));
  return new Set(
    [...code.matchAll(BLOCKING)]
      .map(([, name]) => name!)
      .filter((name) => isBlockingName(name) && !isDefinedIn(code, name)),
  );
}

/**
 * Matches a clean-up call without await, such as `db.close()`. Before the match, forgottenIn() replaces the
 * parentheses and arguments of each call by `\u0001`.
 */
const FORGOTTEN = /^(Promise\.\w+|(?:[\w$#?]+\.)+(?:close|end|disconnect|rollback|commit|quit|flush))\u0001$/;

/** SVC502: clean-up that does not run after an error, and clean-up that is not awaited. */
function findLostCleanUp(view: ApplicationView, report: ReportFinding): void {
  for (const { dependency, detail } of dependenciesOf(view)) {
    const code = codeOf(functionOf(dependency));
    if (!/^(?:async\s+)?(?:function\s*\*|\*)/.test(code)) continue;
    const tell = aboutRoute(detail, report);
    const { label } = viewOfDependency(dependency);
    const after = code.slice(code.lastIndexOf('yield'));
    const cleansUp = /[;\n][^}]*[\w$]+\s*[(.]/.test(after);
    // code in `finally`, or in a `catch` after `yield`, also runs after an error
    const seesFailures = /\bfinally\b/.test(code) || /\bcatch\b/.test(after);
    if (cleansUp && !seesFailures)
      tell(
        `if a request fails, the code after yield in the dependency ${label} does not run, because there is no finally block`,
      );
    const forgotten = code.startsWith('async') ? forgottenIn(code) : undefined;
    if (forgotten !== undefined)
      tell(
        `the dependency ${label} does not await ${forgotten}() in its clean-up, so errors of the call are lost`,
        { about: { cleanUp: { of: label, call: forgotten } } },
      );
  }
}

/**
 * Returns the name of the first clean-up call without await in the `finally` block of an asynchronous
 * generator.
 */
function forgottenIn(code: string): string | undefined {
  const end = /\bfinally\s*\{/.exec(code);
  if (end === null) return undefined;
  let block = code.slice(end.index + end[0].length);
  // replaces the arguments of all calls by `\u0001`, innermost calls first
  for (let before = ''; before !== block;) [before, block] = [block, block.replace(/\([^()]*\)/g, '\u0001')];
  for (const statement of block.split(/[;\n}]/)) {
    const found = FORGOTTEN.exec(statement.trim())?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
}

/** SVC113: dependencies whose value no handler receives. */
function findIdle(view: ApplicationView, report: ReportFinding): void {
  findRebound(view, report);
  findUnused(view, report);
}

/** Dependencies of a router that a route replaces under the same name. */
export function findRebound(view: ApplicationView, report: ReportFinding): void {
  for (const declared of new Set(view.details.map((detail) => detail.declared))) {
    const outer = new Map<string, Dependency<unknown>>();
    for (const [name, dependency] of [...declared.routerDeps, ...Object.entries(declared.deps)]) {
      const earlier = outer.get(name);
      outer.set(name, dependency);
      if (earlier === undefined || earlier.source === dependency.source) continue;
      report(
        `${declared.methods.join(', ')} ${declared.template.template}`,
        `the router declares the dependency "${name}" as ${viewOfDependency(earlier).label}, and the route declares it as ${viewOfDependency(dependency).label}: both run, but the handler receives only the dependency of the route`,
        declared.declared.place,
        {
          why: 'If a router and a route declare dependencies of the same name, both run, but the handler receives only the dependency of the route',
        },
      );
    }
  }
}

/**
 * Dependencies that the handler does not use. Guards, and dependencies that return no value, are
 * exempt.
 */
export function findUnused(view: ApplicationView, report: ReportFinding): void {
  for (const declared of new Set(ownRoutes(view).map((detail) => detail.declared))) {
    // a WebSocket route receives its handlers later, through onMessage()
    if (declared.socket !== undefined) continue;
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
        `the dependency "${name}" runs for every request, but the handler does not use its value`,
        declared.declared.place,
        {
          why: 'A dependency that no code uses still runs for every request, and takes time',
          remedy: 'Remove the dependency, or use it in the handler',
          about: { unused: name },
        },
      );
    }
  }
}

/**
 * Whether a dependency can reject a request. True if it requires a credential, contains `throw`, or needs
 * such a dependency.
 */
function guards(dependency: Dependency<unknown>, seen: Set<unknown> = new Set()): boolean {
  if (seen.has(dependency.source)) return false;
  seen.add(dependency.source);
  return (
    viewOfDependency(dependency).security.length > 0 ||
    /\bthrow\b/.test(codeOf(functionOf(dependency))) ||
    needsOf(dependency).some((inner) => guards(inner, seen))
  );
}

/** Matches the start of code that runs after the handler has ended: a stream or a background task. */
const OUTLIVES =
  /\bnew\s+(?:Streaming|EventStream|NDJSON|Ndjson)\w*\s*\(|\.\s*add\s*\(\s*(?:async\s*)?(?:(?:\([^)]*\)|\w+)\s*=>|function\b)/g;

/** SVC104: calls of urlFor() with a literal name that no route has. */
export function findUnknownNames(view: ApplicationView, report: ReportFinding): void {
  const names = new Set(view.routes.flatMap(({ name }) => name ?? []));
  for (const detail of ownRoutes(view)) {
    const { handler } = detail.declared;
    // skips handlers that do not call urlFor(). codeOf() returns code whose strings are empty: `''`, or `""`
    // if tsx compiled the code.
    if (!/\burlFor\s*\(\s*(?:''|"")/.test(codeOf(handler))) continue;
    for (const [, , name] of Function.prototype.toString
      .call(handler)
      .matchAll(/\burlFor\s*\(\s*(['"])([^'"\\]+)\1/g)) {
      if (names.has(name!)) continue;
      const near = closest(name!, names);
      const tell = aboutRoute(detail, report);
      tell(
        `the handler asks for the URL of the route "${name}", but no route has that name` +
          (near === undefined ? '' : `: did you mean "${near}"?`),
        { severity: 'warning', remedy: 'Use the name of an existing route' },
      );
    }
  }
}

/**
 * SVC112: dependencies of scope `handler` that a stream or a background task still uses after their clean-up.
 */
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
        // the handler may hold the dependency in a variable with another name: `{ db: database }`
        const local =
          new RegExp(`^[^=]*[{,]\\s*${asked}\\s*:\\s*([\\w$]+)`).exec(code)?.[1]?.replaceAll('$', '\\$') ??
          asked;
        return new RegExp(`(?<![\\w$.])${local}(?![\\w$])`).test(rest);
      });
      if (name === undefined) continue;
      const tell = aboutRoute(detail, report);
      tell(
        `a stream or a background task uses the dependency "${name}" after its clean-up: with the scope "handler", clean-up runs before the response is sent`,
        {
          severity: 'warning',
          remedy:
            'Read what the stream or the task needs from the dependency before the handler returns, or give the dependency the scope "request"',
        },
      );
      break;
    }
  }
}

/** Returns the code from the position `from` to the end of the next pair of parentheses. */
function insideOf(code: string, from: number): string {
  let depth = 0;
  for (let index = code.indexOf('(', from); index !== -1 && index < code.length; index++) {
    if (code[index] === '(') depth++;
    if (code[index] === ')' && --depth === 0) return code.slice(from, index);
  }
  return code.slice(from);
}
