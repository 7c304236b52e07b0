/**
 * Runs the rules on a compiled application. The report also contains the findings of the compilation.
 *
 * Rules run in the order of their phases: `graph`, `security`, `contract`, `environment`. Then findings that
 * a route allows (option `allow`) are suppressed, and the others are sorted. Rules of the phase `live` are
 * asynchronous and run separately.
 *
 * An error of compilation, or of a rule of the phase `graph`, prevents the application from starting. Errors
 * of later phases prevent only a deployment: `svc check` fails, and `svc run` refuses to start in production.
 */
import { readFileSync } from 'node:fs';
import { SvcError } from '../base/errors.ts';
import { nearest, onePer } from '../base/options.ts';
import { thrown } from '../routing/compile.ts';
import { functionOf, viewOfDependency } from '../routing/di.ts';
import { segmentsOf } from '../http/middleware/exemptions.ts';
import { abouts, fileOfPlace } from '../base/findings.ts';
import { systemClock } from '../base/clock.ts';
import { within } from '../base/promises.ts';
import { predicateOf } from '../auth/require.ts';
import { CORSMiddleware } from '../http/middleware/cors.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Config } from '../base/config.ts';
import type { About, Explanation, Finding, Place, Report, Severity } from '../base/findings.ts';
import type { Awaitable, CompiledRoute, Middleware, Rule } from '../http/contracts.ts';
import type { Allowance } from '../routing/spec.ts';
import type { Dependency } from '../routing/di.ts';
import type { FlatRoute } from '../routing/route.ts';

/**
 * Data about a compiled application for the rules of this package. Rules of plugins receive only a
 * `CompiledView`.
 */
export interface ApplicationView extends CompilationView {
  /** Place (file, line and column) of the call `new Svc()`. */
  readonly place: Place;
  /** Returns the place where the application adds a middleware. */
  placeOfMiddleware(middleware: Middleware): Place | undefined;
  /** Returns the place where the application registers a plugin. */
  placeOfPlugin(name: string): Place | undefined;
  /** Whether clients can read the API documents without a credential. */
  readonly hasPublicDocs: boolean;
  /** Function that decides which clients may read /metrics, if one is configured. */
  readonly metricsGuard: ((...args: never[]) => unknown) | undefined;
  readonly settings: Config;
  /** Secret settings that plugins, middleware and dependencies need. */
  readonly secrets: readonly NeededSecret[];
  /** Current time of the application's clock, for expiry dates. */
  readonly nowMs: number;
  /** Version of the running Node.js, such as `24.21.0`. */
  readonly nodeVersion: string;
}

/** A setting that holds a secret, and the part of the application that needs it. */
export interface NeededSecret {
  readonly key: string;
  /** Name of the part of the application that needs the secret, as messages show it: `the plugin oauth`. */
  readonly neededBy: string;
  readonly place: Place | undefined;
}

interface Particulars {
  readonly severity?: Severity | undefined;
  readonly remedy?: string | undefined;
  /** Reason of this finding. Default: the reason of the rule. */
  readonly why?: string | undefined;
  /**
   * Whether the finding, if it is an error, prevents the application from starting. Default: true for a rule
   * of the phase `graph`, false for every other rule.
   */
  readonly refuses?: boolean | undefined;
  readonly about?: About | undefined;
}

/** Function with which a rule reports a finding in the compiled application. */
export type ReportFinding = (
  subject: string,
  message: string,
  place?: Place,
  particulars?: Particulars,
) => void;

/**
 * A rule of this package. If it has no `run`, other code reports its findings: while loading or compiling the
 * application, or while reading its sources.
 */
export interface CoreRule extends Omit<Rule, 'run' | 'phase'>, Explanation {
  readonly phase: Rule['phase'] | 'load' | 'source';
  run?(view: ApplicationView, report: ReportFinding): Awaitable<void>;
  /** Judges one route that the application declares; see {@link ownRoutes}. */
  onRoute?(detail: RouteDetail, tell: Tell, view: ApplicationView): void;
}

/** Function that reports findings about a route, at the place of its declaration. */
export type Tell = (message: string, particulars?: Particulars) => void;

/** The properties of a rule that `svc check` shows in lists and explanations. */
export type RuleText = Pick<CoreRule, 'id' | 'severity' | 'why' | 'remedy' | 'phase'> & Partial<Explanation>;

/** A report, and whether its findings prevent the application from starting. */
export interface Examination {
  readonly report: Report;
  readonly refuses: boolean;
}

interface Entry {
  readonly finding: Finding;
  /** Whether the finding, if it is an error, prevents the application from starting. */
  readonly refuses: boolean;
  /** Whether the option `allow` of a route can suppress the finding. False for errors of compilation. */
  readonly isAllowable: boolean;
}

/** Ids of the rules that only `svc check` loads, because they read sources. */
const READS_SOURCES = /^SVC(?:21[5-7]|4[12]\d|6\d\d)$/;
const PHASES: readonly CoreRule['phase'][] = ['graph', 'security', 'contract', 'environment'];
/** Severities, the most severe first. */
export const SEVERITIES: readonly Severity[] = ['error', 'warning', 'info'];
const DAY_MS = 86_400_000;

/**
 * Runs every rule except those of the phase `live`. The report also contains `found`, the findings of the
 * compilation. If a rule throws, the report has a finding about that rule.
 */
export function examine(
  view: ApplicationView,
  found: readonly Finding[],
  rules: readonly (CoreRule | Rule)[],
): Examination {
  for (const finding of found) {
    const route = routesOf(view).get(finding.subject);
    if (route !== undefined) abouts.set(finding, { route });
  }
  const entries: Entry[] = found.map((finding) => ({
    finding,
    refuses: true,
    isAllowable: finding.severity !== 'error',
  }));
  for (const phase of PHASES) {
    for (const rule of rules) if (rule.phase === phase) runRule(rule, view, entries);
  }
  return reportOf(view, entries);
}

/** Runs the rules of the phase `live`, which may wait for a database or another service. */
export async function examineLive(
  view: ApplicationView,
  rules: readonly (CoreRule | Rule)[],
): Promise<Report> {
  const entries: Entry[] = [];
  for (const rule of rules) {
    if (rule.phase !== 'live') continue;
    try {
      await rule.run?.(view, reporterOf(rule, view, entries));
    } catch (error) {
      entries.push(broken(rule, `the rule threw ${thrown(error)}`));
    }
  }
  return reportOf(view, entries).report;
}

/**
 * Returns the rule if it is valid. With `mayExtend`, a rule may add findings under the id of a built-in rule.
 * @throws SvcError `E_RULE` for an invalid rule or an id in use.
 */
export function checkedRule(
  rule: Rule,
  others: readonly RuleText[],
  { mayExtend = false }: { readonly mayExtend?: boolean } = {},
): Rule {
  const { id, severity, why, remedy, phase, run } = rule;
  const refuse = (problem: string): never => {
    throw new SvcError('E_RULE', [String(id), problem]);
  };
  if (typeof id !== 'string' || !/^(?:SVC\d+|[\w.@-]+\/[\w.-]+)$/.test(id))
    refuse('the id of a check must be "area/name" or SVC followed by a number');
  const isTaken = READS_SOURCES.test(id) || others.some((other) => other.id === id);
  if (isTaken && !(mayExtend && id.startsWith('SVC'))) refuse('another check already has the same id');
  if (!SEVERITIES.includes(severity)) refuse('the severity of a check must be error, warning or info');
  if (phase !== 'live' && !PHASES.includes(phase))
    refuse(`the phase of a check must be one of ${PHASES.join(', ')}, live`);
  if (typeof why !== 'string' || typeof remedy !== 'string' || typeof run !== 'function')
    refuse('a check must have the texts "why" and "remedy", and a method run(view, report)');
  return rule;
}

function runRule(rule: CoreRule | Rule, view: ApplicationView, entries: Entry[]): void {
  try {
    const report = reporterOf(rule, view, entries);
    const pending: unknown = rule.run?.(view, report);
    if ('onRoute' in rule)
      for (const detail of ownRoutes(view)) rule.onRoute?.(detail, aboutRoute(detail, report), view);
    if (!(pending instanceof Promise)) return;
    // prevents an unhandled rejection: the next line reports the promise as an error of the rule
    pending.catch(() => undefined);
    entries.push(broken(rule, 'the rule returned a promise, which only rules of the phase live may do'));
  } catch (error) {
    entries.push(broken(rule, `the rule threw ${thrown(error)}`));
  }
}

function broken(rule: RuleText, message: string): Entry {
  const finding: Finding = {
    rule: rule.id,
    severity: 'error',
    subject: `rule ${rule.id}`,
    message,
    remedy: 'Fix the error in the check, or remove the check until the error is fixed',
  };
  return { finding, refuses: rule.phase === 'graph', isAllowable: false };
}

function reporterOf(rule: RuleText, view: ApplicationView, entries: Entry[]): ReportFinding {
  return (
    subject,
    message,
    place,
    { severity = rule.severity, remedy = rule.remedy, why, refuses = rule.phase === 'graph', about } = {},
  ) => {
    const finding: Finding = {
      rule: rule.id,
      severity,
      subject,
      message,
      ...(why === undefined ? {} : { why }),
      remedy,
      place: place ?? placeOfSubject(view, subject),
    };
    const route = routesOf(view).get(subject);
    if (route !== undefined || about !== undefined)
      abouts.set(finding, { ...about, ...(route !== undefined && { route }) });
    entries.push({ finding, refuses, isAllowable: true });
  };
}

/** Returns routes by names such as `POST /users`. Cached, because there may be thousands of routes and findings. */
const routesOf = onePer(
  ({ routes }: ApplicationView): ReadonlyMap<string, CompiledRoute> =>
    // if two routes have the same name, the first counts. A Map keeps the last, so the order is reversed.
    new Map(routes.toReversed().map((route) => [`${route.method} ${route.template}`, route])),
);

/**
 * Returns where a route or plugin is declared. `subject` is its name in findings, such as `POST /users` or
 * `plugin oauth`.
 */
function placeOfSubject(view: ApplicationView, subject: string): Place | undefined {
  const plugin = /^(?:plugin|database) (.+)$/.exec(subject)?.[1];
  if (plugin !== undefined) return view.placeOfPlugin(plugin);
  return routesOf(view).get(subject)?.place;
}

function reportOf(view: ApplicationView, entries: readonly Entry[]): Examination {
  const suppressed: Finding[] = [];
  const allowing = view.details.filter(({ declared }) => declared.spec.allow !== undefined);
  const kept = entries.flatMap((entry) => {
    const judged = allowing.length === 0 || !entry.isAllowable ? entry : judge(entry, allowing, view.nowMs);
    if (judged !== undefined) return [judged];
    suppressed.push(entry.finding);
    return [];
  });
  const findings = kept.map((entry) => entry.finding);
  return {
    report: makeReport(findings, suppressed),
    refuses: kept.some(({ finding, refuses }) => refuses && finding.severity === 'error'),
  };
}

/** Returns a report whose findings are sorted by severity, place, rule and subject. */
export function makeReport(findings: readonly Finding[], suppressed: readonly Finding[] = []): Report {
  return Object.freeze({
    schemaVersion: 1,
    ok: !findings.some((finding) => finding.severity === 'error'),
    findings: Object.freeze(findings.toSorted(compareFindings)),
    suppressed: Object.freeze(suppressed.toSorted(compareFindings)),
  });
}

function compareFindings(left: Finding, right: Finding): number {
  return (
    SEVERITIES.indexOf(left.severity) - SEVERITIES.indexOf(right.severity) ||
    compareText(left.place?.file ?? '', right.place?.file ?? '') ||
    (left.place?.line ?? 0) - (right.place?.line ?? 0) ||
    (left.place?.column ?? 0) - (right.place?.column ?? 0) ||
    compareText(left.rule, right.rule) ||
    compareText(left.subject, right.subject)
  );
}

/** Compares two texts by UTF-16 code units, so the order does not depend on the locale. */
function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/**
 * Applies the option `allow` of routes to a finding. Returns undefined if a route allows the finding. If the
 * allowance has ended or has no reason, returns the finding as an error.
 */
function judge(entry: Entry, allowing: readonly RouteDetail[], nowMs: number): Entry | undefined {
  const { finding } = entry;
  const problems = allowing
    .filter(({ declared, route }) => isAbout(finding, declared, route.method))
    .flatMap(({ declared }) => declared.spec.allow!)
    .filter((allowance) => allowance?.rule === finding.rule)
    .map((allowance) => issueOf(allowance, nowMs));
  if (problems.includes(undefined)) return undefined;
  const [problem] = problems;
  if (problem === undefined) return entry;
  const refused: Finding = { ...finding, severity: 'error', message: `${finding.message}; ${problem}` };
  abouts.set(refused, abouts.get(finding) ?? {});
  return { ...entry, finding: refused };
}

function isAbout({ subject, place }: Finding, declared: RouteDetail['declared'], method: string): boolean {
  const { template } = declared.template;
  if (subject !== `${method} ${template}` && subject !== `${declared.methods.join(', ')} ${template}`)
    return false;
  const own = declared.declared.place;
  return (
    place === undefined || (place.file === own.file && place.line === own.line && place.column === own.column)
  );
}

/**
 * Returns why an allowance is invalid: it has no reason, or its last day (UTC) has passed. Undefined if it is
 * valid.
 */
export function issueOf({ reason, until }: Allowance, nowMs: number): string | undefined {
  if (typeof reason !== 'string' || reason.trim() === '') return 'the allowance gives no reason';
  if (until === undefined) return undefined;
  const startMs = /^\d{4}-\d\d-\d\d$/.test(until) ? Date.parse(`${until}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(startMs)) return 'the date of the allowance is not of the form 2027-01-31';
  return nowMs < startMs + DAY_MS ? undefined : `the finding was allowed until ${until}: ${reason}`;
}

/** Selection of rules by patterns such as `SVC1*`. An empty `only` selects every rule. */
export interface Selection {
  readonly only: readonly string[];
  readonly skip: readonly string[];
}

/** Returns the report with only the findings of the selected rules. */
export function select(report: Report, selection: Selection): Report {
  const has = ({ rule }: Finding): boolean => isSelected(rule, selection);
  return makeReport(report.findings.filter(has), report.suppressed.filter(has));
}

/** Whether a selection includes the rule with this id. */
export function isSelected(id: string, { only, skip }: Selection): boolean {
  return (
    (only.length === 0 || only.some((pattern) => matches(pattern, id))) &&
    !skip.some((pattern) => matches(pattern, id))
  );
}

/** Whether the id of a rule matches a pattern, in which `*` stands for any text. Ignores case. */
export function matches(pattern: string, id: string): boolean {
  return new RegExp(`^${pattern.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*')}$`, 'i').test(id);
}

/** Returns the rule with an id. If there is none, returns an id that differs by one letter. */
export function findRule(
  id: string,
  rules: readonly RuleText[],
): { readonly rule: RuleText } | { readonly near: string | undefined } {
  const rule = rules.find((candidate) => candidate.id.toLowerCase() === id.toLowerCase());
  if (rule !== undefined) return { rule };
  const ids = rules.map((candidate) => candidate.id);
  // maximum edit distance: ids of rules have few digits, so 2 would find unrelated rules
  return { near: nearest(id, ids, 1) };
}

/** Methods that change nothing (RFC 9110 §9.2.1). */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** Returns the name of a route in findings, such as `POST /users`. */
export function subjectOf({ route }: RouteDetail): string {
  return `${route.method} ${route.template}`;
}

/** Returns a function that reports findings about a route, at the place of its declaration or of a part of it. */
export function aboutRoute(detail: RouteDetail, report: ReportFinding, place?: Place): Tell {
  return (message, particulars) =>
    report(subjectOf(detail), message, place ?? detail.route.place, particulars);
}

/** Whether the HTTP method of a route may change data. False for WebSockets. */
export function isWrite({ route, declared }: RouteDetail): boolean {
  return declared.socket === undefined && !SAFE_METHODS.has(route.method);
}

/** Whether the option `public` declares that every client may call a route. */
export function isPublic({ declared: { spec } }: RouteDetail): boolean {
  return spec.public !== undefined && spec.public !== false;
}

/** Whether every request of the route needs a credential. */
export function isGuarded({ route: { security } }: RouteDetail): boolean {
  return security.some(({ isOptional }) => isOptional !== true);
}

/**
 * Returns the routes that the application declares. Leaves out static directories and the routes of the
 * framework, such as `/metrics`.
 */
export function ownRoutes({ details }: ApplicationView): readonly RouteDetail[] {
  return details.filter(({ isOperation, declared }) => !isOperation && declared.mount === undefined);
}

/**
 * Returns the path template without the names of its parameters. Templates with equal results match the same
 * paths.
 */
export function shapeOf({ declared }: Pick<RouteDetail, 'declared'>): string {
  return segmentsOf(declared.template).join('/');
}

/** Returns the middleware of a route, outermost first. */
export function layersOf({ middleware }: ApplicationView, { use }: FlatRoute): readonly Middleware[] {
  return [...middleware, ...use];
}

/** Returns each dependency once, with the first route that needs it. */
export function dependenciesOf(
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

/**
 * Returns the dependencies that a dependency needs. Empty if they cannot be read: SVC107 reports this
 * mistake.
 */
export function needsOf(dependency: Dependency<unknown>): readonly Dependency<unknown>[] {
  try {
    return viewOfDependency(dependency).needs;
  } catch {
    return [];
  }
}

/*
 * `svc check` calls CORS origin functions and guards with test input before the rules run. These functions
 * may be asynchronous, but rules are not. So the results are stored for the rules.
 */

/** Time limit in milliseconds for one function. The rules ignore a function that takes longer. */
const LIMIT_MS = 1_000;

type Guard = (...args: never[]) => unknown;

const openGuards = new WeakSet<Guard>();

/**
 * Calls the CORS origin functions and guards of an application with test input, and stores the results for
 * the rules. The test origins are made of host names in the source files and in the text that `textOf`
 * returns. Never rejects.
 */
export async function probe(view: ApplicationView, textOf: () => string = () => ''): Promise<void> {
  const origins = [
    ...[...layersWithPlaces(view)].flatMap(([layer, place]) =>
      layer instanceof CORSMiddleware ? [{ allowed: layer.allowed, place }] : [],
    ),
    ...view.details.map(({ declared: { socket }, route: { place } }) => ({
      allowed: socket?.guard.origin.allowed,
      place,
    })),
  ].filter(({ allowed }) => allowed?.isFunction);
  const text = origins.length === 0 ? '' : textOf();
  const pending = origins.map(
    // `allowed` is defined, because the filter above removes items without `allowed`
    ({ allowed, place }) => allowed!.settle(`${sourceAt(place)}\n${text}`, LIMIT_MS),
  );
  const isTrue = (verdict: unknown): boolean => verdict === true;
  if (view.metricsGuard !== undefined)
    pending.push(probeGuard(view.metricsGuard, [[strangeContext()]], isTrue));
  for (const { dependency } of dependenciesOf(view)) {
    if (viewOfDependency(dependency).label === 'APIKeyAuth')
      pending.push(
        probeGuard(functionOf(dependency), [[strangeContext()]], (client) => (client ?? null) !== null),
      );
    const predicate = predicateOf(dependency.source);
    const context = { req: strangeRequest() };
    const calls = CLAIMS.map((claims) => [claims, context]);
    if (predicate !== undefined) pending.push(probeGuard(predicate, calls, isTrue));
  }
  await Promise.allSettled(pending);
}

/** Returns every middleware of the application and its routes, each with the place where it is added. */
export function layersWithPlaces(view: ApplicationView): ReadonlyMap<Middleware, Place | undefined> {
  const layers = new Map(view.middleware.map((layer) => [layer, view.placeOfMiddleware(layer)]));
  for (const { declared, route } of ownRoutes(view))
    for (const layer of declared.use) layers.set(layer, route.place);
  return layers;
}

/** Returns the text of the source file of a place, or an empty text if the file cannot be read. */
export function sourceAt(place: Place | undefined): string {
  if (place === undefined || place.line === 0) return '';
  try {
    return readFileSync(fileOfPlace(place), 'utf8');
  } catch {
    return ''; // code that was generated at run time has no file
  }
}

/** Whether probe() found that a guard accepts a request without a valid credential. */
export function letsStrangersIn(guard: Guard): boolean {
  return openGuards.has(guard);
}

/** Claims of tokens: none, and every claim with the value true. */
const CLAIMS: readonly object[] = [{}, new Proxy({}, { get: () => true })];

/** Calls a guard, or the condition of one, with arguments of a test. Remembers it if it accepts all of them. */
async function probeGuard(
  guard: Guard,
  calls: readonly (readonly unknown[])[],
  accepts: (verdict: unknown) => boolean,
): Promise<void> {
  try {
    for (const args of calls) {
      const verdict = Promise.try(() => guard(...(args as never[])));
      if (!accepts(await within(systemClock, LIMIT_MS, verdict, () => undefined))) return;
    }
    openGuards.add(guard);
  } catch {
    // the guard threw an error, perhaps because the test request lacks a member, so the result is unknown
  }
}

function strangeContext(): object {
  const req = strangeRequest();
  return { ...req, req, audit: { refused: () => undefined } };
}

/**
 * Returns a test request without a valid credential: every header field and cookie has the value `svc-check`.
 */
function strangeRequest(): object {
  const words = new Proxy(
    {},
    { get: (_target, name) => (typeof name === 'string' ? 'svc-check' : undefined) },
  );
  return {
    method: 'GET',
    path: '/metrics',
    url: '/metrics',
    ip: '203.0.113.9',
    host: 'svc-check.invalid',
    scheme: 'https',
    headers: words,
    cookies: words,
    query: new URLSearchParams(),
  };
}
