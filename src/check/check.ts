/**
 * Checks: what compilation found and what rules find, as one report.
 *
 *   found while compiling \
 *   graph -> security -> contract -> environment /-> allowances of routes -> sorted -> Report       live: apart, and asynchronous
 *
 * An error of compilation, or of a rule of the phase `graph`, keeps an application from starting. Errors of later phases
 * keep it from being deployed: `svc check` fails, and `svc run` refuses them in production.
 */
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';
import { thrown } from '../routing/compile.ts';
import { segmentsOf } from '../http/middleware/exemptions.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Config } from '../base/config.ts';
import type { Finding, Place, Report, Severity } from '../base/findings.ts';
import type { Awaitable, Middleware, Rule } from '../http/contracts.ts';
import type { Allowance } from '../routing/spec.ts';
import type { FlatRoute } from '../routing/route.ts';

/** What rules of this package read. Those of others see a `CompiledView` of it. */
export interface ApplicationView extends CompilationView {
  /** Where the application was made. */
  readonly place: Place;
  /** Where a middleware of the application was put to use. */
  placeOfMiddleware(middleware: Middleware): Place | undefined;
  /** Where a plugin of this name was registered. */
  placeOfPlugin(name: string): Place | undefined;
  /** Whether every client may read the documents, where they are served. */
  readonly hasPublicDocs: boolean;
  /** What lets clients read the metrics, where that is a function. */
  readonly metricsGuard: ((...args: never[]) => unknown) | undefined;
  readonly settings: Config;
  /** Settings that a part of the application cannot do without, and must keep secret. */
  readonly secrets: readonly NeededSecret[];
  /** By the application's clock: decides what has expired. */
  readonly nowMs: number;
  /** Of the Node that runs, for example `24.21.0`. */
  readonly nodeVersion: string;
}

/** A secret setting, and who needs it. */
export interface NeededSecret {
  readonly key: string;
  /** In words: `the plugin oauth`. */
  readonly neededBy: string;
  readonly place: Place | undefined;
}

/** What a finding has of its own, where the rule does not speak for it. */
interface Particulars {
  readonly severity?: Severity | undefined;
  readonly remedy?: string | undefined;
  /** The reason, where that of the rule is about another variant of it. */
  readonly why?: string | undefined;
  /** Whether, being an error, it keeps the application from starting. Default: in the phase `graph`. */
  readonly refuses?: boolean | undefined;
}

/** Reports a finding of a rule. */
export type ReportFinding = (
  subject: string,
  message: string,
  place?: Place,
  particulars?: Particulars,
) => void;

/** A rule of this package. Without `run` it is found elsewhere: while loading or compiling, or in the sources. */
export interface CoreRule extends Omit<Rule, 'run' | 'phase'> {
  readonly phase: Rule['phase'] | 'load' | 'source';
  run?(view: ApplicationView, report: ReportFinding): Awaitable<void>;
}

/** A rule without what it does: for lists and explanations. */
export type RuleText = Pick<CoreRule, 'id' | 'severity' | 'why' | 'remedy' | 'phase'>;

/** A report, and whether it keeps the application from starting. */
export interface Examination {
  readonly report: Report;
  readonly refuses: boolean;
}

/** A finding on its way into a report. */
interface Entry {
  readonly finding: Finding;
  /** Whether, being an error, it keeps the application from starting. */
  readonly refuses: boolean;
  /** What keeps an application from compiling cannot be allowed. */
  readonly isAllowable: boolean;
}

const PHASES: readonly CoreRule['phase'][] = ['graph', 'security', 'contract', 'environment'];
const SEVERITIES: readonly Severity[] = ['error', 'warning', 'info'];
const DAY_MS = 86_400_000;

/** Runs every rule but those of the phase `live`, after what has been `found` already. Never throws: a rule that does is a finding. */
export function examine(
  view: ApplicationView,
  found: readonly Finding[],
  rules: readonly (CoreRule | Rule)[],
): Examination {
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
      entries.push(broken(rule, `it threw ${thrown(error)}`));
    }
  }
  return reportOf(view, entries).report;
}

/** Whether a rule may join others. `mayExtend`: it may have the id of one of the catalogue, which then looks at more. @throws SvcError `E_RULE` */
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
    refuse('its id is neither "area/name" nor SVC and a number');
  if (others.some((other) => other.id === id) && !(mayExtend && id.startsWith('SVC')))
    refuse('there is a rule of that id already');
  if (!SEVERITIES.includes(severity)) refuse('its severity is none of error, warning, info');
  if (phase !== 'live' && !PHASES.includes(phase)) refuse(`its phase is none of ${PHASES.join(', ')}, live`);
  if (typeof why !== 'string' || typeof remedy !== 'string' || typeof run !== 'function')
    refuse('it needs why and remedy, which are text, and run(view, report)');
  return rule;
}

function runRule(rule: CoreRule | Rule, view: ApplicationView, entries: Entry[]): void {
  try {
    const pending: unknown = rule.run?.(view, reporterOf(rule, view, entries));
    if (!(pending instanceof Promise)) return;
    pending.catch(() => undefined); // what it comes to is not waited for
    entries.push(broken(rule, 'it answered a promise, which only rules of the phase live may'));
  } catch (error) {
    entries.push(broken(rule, `it threw ${thrown(error)}`));
  }
}

function broken(rule: RuleText, message: string): Entry {
  const finding: Finding = {
    rule: rule.id,
    severity: 'error',
    subject: `rule ${rule.id}`,
    message,
    remedy: 'Mend the rule, or leave it out until it is',
  };
  return { finding, refuses: rule.phase === 'graph', isAllowable: false };
}

function reporterOf(rule: RuleText, view: ApplicationView, entries: Entry[]): ReportFinding {
  return (
    subject,
    message,
    place,
    { severity = rule.severity, remedy = rule.remedy, why, refuses = rule.phase === 'graph' } = {},
  ) => {
    entries.push({
      finding: {
        rule: rule.id,
        severity,
        subject,
        message,
        ...(why === undefined ? {} : { why }),
        remedy,
        place: place ?? placeOfSubject(view, subject),
      },
      refuses,
      isAllowable: true,
    });
  };
}

/** By subject, for each view: there may be thousands of routes, and of findings. */
const placesOf = new WeakMap<ApplicationView, ReadonlyMap<string, Place>>();

/** A subject that names a route, or a plugin, has its place. */
function placeOfSubject(view: ApplicationView, subject: string): Place | undefined {
  const plugin = /^(?:plugin|database) (.+)$/.exec(subject)?.[1];
  if (plugin !== undefined) return view.placeOfPlugin(plugin);
  let places = placesOf.get(view);
  if (places === undefined)
    placesOf.set(
      view,
      (places = new Map(
        view.routes.toReversed().map((route) => [`${route.method} ${route.template}`, route.place]),
      )),
    ); // of two, the first
  return places.get(subject);
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
  return {
    report: makeReport(
      kept.map((entry) => entry.finding),
      suppressed,
    ),
    refuses: kept.some(({ finding, refuses }) => refuses && finding.severity === 'error'),
  };
}

/** Findings in their order: by severity, place, rule and subject. */
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

/** By code units: the same everywhere, whatever the locale. */
function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

// -- allowances --

/** What becomes of a finding: itself, an error where its allowance has ended, or nothing where it is allowed. */
function judge(entry: Entry, allowing: readonly RouteDetail[], nowMs: number): Entry | undefined {
  const { finding } = entry;
  let problem: string | undefined;
  for (const { declared, route } of allowing) {
    if (!isAbout(finding, declared, route.method)) continue;
    for (const allowance of declared.spec.allow!) {
      if (allowance?.rule !== finding.rule) continue;
      const found = issueOf(allowance, nowMs);
      if (found === undefined) return undefined;
      problem ??= found;
    }
  }
  return problem === undefined
    ? entry
    : { ...entry, finding: { ...finding, severity: 'error', message: `${finding.message}; ${problem}` } };
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

/** Why an allowance does not count. It holds to the end of its last day, UTC. */
export function issueOf({ reason, until }: Allowance, nowMs: number): string | undefined {
  if (typeof reason !== 'string' || reason.trim() === '') return 'its allowance gives no reason';
  if (until === undefined) return undefined;
  const startMs = /^\d{4}-\d\d-\d\d$/.test(until) ? Date.parse(`${until}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(startMs)) return 'the date of its allowance is not of the form 2027-01-31';
  return nowMs < startMs + DAY_MS ? undefined : `it was allowed until ${until}: ${reason}`;
}

// -- what is looked at --

/** Which rules count: patterns such as `SVC1*`. Without `only`, all. */
export interface Selection {
  readonly only: readonly string[];
  readonly skip: readonly string[];
}

/** A report of the rules selected. */
export function select(report: Report, { only, skip }: Selection): Report {
  const isSelected = ({ rule }: Finding): boolean =>
    (only.length === 0 || only.some((pattern) => matches(pattern, rule))) &&
    !skip.some((pattern) => matches(pattern, rule));
  return makeReport(report.findings.filter(isSelected), report.suppressed.filter(isSelected));
}

/** Whether a rule's id fits a pattern, in which `*` stands for any text. Capitals and small letters are the same. */
export function matches(pattern: string, id: string): boolean {
  return new RegExp(`^${pattern.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*')}$`, 'i').test(id);
}

/** The rule of an id, or the id that was probably meant. */
export function findRule(
  id: string,
  rules: readonly RuleText[],
): { readonly rule: RuleText } | { readonly near: string | undefined } {
  const rule = rules.find((candidate) => candidate.id.toLowerCase() === id.toLowerCase());
  return rule === undefined
    ? {
        near: closest(
          id,
          rules.map((candidate) => candidate.id),
        ),
      }
    : { rule };
}

/** Methods that change nothing (RFC 9110 §9.2.1). */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** How findings name a route: `POST /users`. */
export function subjectOf({ route }: RouteDetail): string {
  return `${route.method} ${route.template}`;
}

/** Whether requests of it change something. */
export function isWrite({ route, declared }: RouteDetail): boolean {
  return declared.socket === undefined && !SAFE_METHODS.has(route.method);
}

/** Whether the route is declared public. */
export function isPublic({ declared: { spec } }: RouteDetail): boolean {
  return spec.public !== undefined && spec.public !== false;
}

/** Whether every request needs a credential. */
export function isGuarded({ route: { security } }: RouteDetail): boolean {
  return security.some(({ isOptional }) => isOptional !== true);
}

/** Routes of the application itself, but for the parts of static mounts. */
export function ownRoutes({ details }: ApplicationView): readonly RouteDetail[] {
  return details.filter(({ isOperation, declared }) => !isOperation && declared.mount === undefined);
}

/** The template without the names of its parameters: what two routes have in common that match the same. */
export function shapeOf({ declared }: Pick<RouteDetail, 'declared'>): string {
  return segmentsOf(declared.template).join('/');
}

/** Middleware around a route, the outermost first. */
export function layersOf({ middleware }: ApplicationView, { use }: FlatRoute): readonly Middleware[] {
  return [...middleware, ...use];
}
