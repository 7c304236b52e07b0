/** Applies every search of sources to the modules of a project. */
import { basename } from 'node:path';
import { entryOf, functionAround, methodOf, nameAround } from './reader/nodes.ts';
import { variableOf } from '../base/config.ts';
import { abouts } from '../base/findings.ts';
import { SEVERITIES } from './check.ts';
import { SOURCE_PARTS } from './rules/rules.ts';
import { leadsToHost } from './rules/tokens.ts';
import { isOnlyInDevelopment } from './reader/once.ts';
import { specOf } from './values/functions.ts';
import { Sources, isInPage } from './sources.ts';
import { Trace } from './statements/trace.ts';
import { declaredColumns } from './statements/written-schema.ts';
import { StatementFinder } from './statements/finder.ts';
import { DeclaredInputs, lineOfRoute, typeOfDeclaration, typeOfParameters } from './values/inputs.ts';
import { Interpreter } from './values/interpreter.ts';
import type { Finding, Place } from '../base/findings.ts';
import type { RuleText } from './check.ts';
import type { Project, SourceModule } from './reader/modules.ts';
import type { Node } from './reader/nodes.ts';
import type { Engine } from './statements/trace.ts';
import type { Deployment, ReportAt, SourcePart, Watch } from './sources.ts';
import { MAKERS } from './values/calls.ts';
import { CLASS_ROW, ROW } from './values/marks.ts';
import { constantIn, isPlaceInText } from './values/tests.ts';
import { clientPartsOf, constantOf, isStored } from './values/text.ts';
import type { Part } from './values/text.ts';
import { KNOWN, innerOf, madeIn } from './values/value.ts';
import type { RouteCall } from './values/functions.ts';
import type { TypeOfInput } from './values/inputs.ts';
import type { Value } from './values/value.ts';
import type { Site } from './values/calls.ts';

/** Whether the sources write a response as it is, name each of its members, or neither. The later one counts. */
const OPENNESS = ['constant', 'named', 'open'] as const;
type Openness = (typeof OPENNESS)[number];
/** Whether a route responds with pages, or with anything else. The later one counts. */
const MEDIA = ['page', 'other'] as const;
type Media = (typeof MEDIA)[number];
/** Whether a member of a response is a token that the program makes, comes from a row or variable, or neither. The later one counts. */
const ORIGINS = ['token', 'other', 'kept'] as const;
type MemberOrigin = (typeof ORIGINS)[number];

/** Keeps the value of a key that counts most. */
function keepMost<T>(all: Map<string, T>, ranks: readonly T[], key: string, value: T): void {
  const before = all.get(key);
  if (before === undefined || ranks.indexOf(before) < ranks.indexOf(value)) all.set(key, value);
}

/** Notes about the responses of routes. File and line name a route. */
interface ReplyNotes {
  /** How open the responses of routes are. */
  readonly replies: Map<string, Openness>;
  /** Whether all responses of routes are pages. */
  readonly media: Map<string, Media>;
  /** Routes that respond with an object of which the sources know a member or the rows. */
  readonly objects: Set<string>;
  /** Where members of responses come from, by route and name. */
  readonly members: Map<string, MemberOrigin>;
  /** Routes whose handlers count requests by a limiter of their own. */
  readonly limited: Set<string>;
  /** Environment variables of the settings that code reads; undefined if code reads a setting whose name is not known. */
  settings: Set<string> | undefined;
  /** Whether texts lead to the host that a client names in its request. */
  hasHostLinks: boolean;
}

/** Findings in the sources of a project, its modules, and the index of their nodes. */
export interface SourceReport extends Readonly<ReplyNotes> {
  readonly findings: readonly Finding[];
  readonly project: Project;
  readonly sources: Sources;
  /** Calls that send SQL statements. */
  readonly statements: StatementFinder;
}

/**
 * Returns the findings of a project. Does not throw for files that could not be read or parsed. `migrations` are the
 * texts of statements that make its tables, and `engines` are its databases.
 */
export function examineSources(
  project: Project,
  rules: readonly RuleText[],
  inputs: DeclaredInputs = new DeclaredInputs(),
  migrations: readonly string[] = [],
  engines: ReadonlyMap<string, Engine> = new Map(),
  deployment?: Deployment,
): SourceReport {
  const sources = new Sources(project, migrations, deployment);
  const findings = new Map<string, Finding>();
  const reportOf = (part: SourcePart): ReportAt => reporter(part.id, rules, sources, findings);
  const watches = SOURCE_PARTS.flatMap((part): Watch[] => {
    const { onCall, watch } = part;
    const report = reportOf(part);
    return [
      ...(onCall === undefined ? [] : [{ onCall: (site: Site) => onCall(site, report, sources) }]),
      ...(watch === undefined ? [] : [watch(report, sources)]),
    ];
  });
  const notes: ReplyNotes = {
    replies: new Map(),
    media: new Map(),
    objects: new Set(),
    members: new Map(),
    limited: new Set(),
    settings: new Set(),
    hasHostLinks: false,
  };
  const trace = new Trace(sources.tables, engines);
  watches.push(watchReplies(notes, sources), trace.watch, sources.columns.watch);
  const statements = new StatementFinder((sending) => watches.forEach((each) => each.onStatement?.(sending)));
  const typeOf: TypeOfInput = (route, input) => typeOfInput(inputs, route, input);
  new Interpreter(project, sources.handlers, { ...heard([...watches, statements]), typeOf }).run();
  // the analysis finds out which functions handle requests, so searches come after it
  for (const part of SOURCE_PARTS) part.find?.(sources, reportOf(part));
  for (const part of SOURCE_PARTS) {
    part.judge?.(trace, reportOf(part), sources);
    for (const run of part.onRun === undefined ? [] : trace.runs)
      part.onRun?.(run, trace, reportOf(part), sources);
  }
  for (const each of watches) each.finish?.();
  return { findings: [...findings.values()], project, sources, statements, ...notes };
}

/** Returns the function with which a rule adds its findings, except those in code for browsers or development. */
function reporter(
  rule: SourcePart['id'],
  rules: readonly RuleText[],
  sources: Sources,
  findings: Map<string, Finding>,
): ReportAt {
  const texts = rules.findLast(({ id }) => id === rule)!; // the rules are the whole catalogue
  return (at, message, { severity = texts.severity, remedy = texts.remedy, about } = {}) => {
    const { module } = at;
    const node = 'node' in at ? at.node : at.call;
    const key = `${rule} ${module.file} ${node.start}`;
    const earlier = findings.get(key);
    // the first finding at a place counts, unless a later one is more severe
    if (earlier !== undefined && SEVERITIES.indexOf(earlier.severity) <= SEVERITIES.indexOf(severity)) return;
    if (sources.isOfBrowser(module) || isInPage(node) || isOnlyInDevelopment(node, module)) return;
    const place = module.placeAt(node.start);
    const subject = subjectOf(node, module, sources);
    const finding: Finding = { rule, severity, subject, message, remedy, place };
    if (about !== undefined) abouts.set(finding, about);
    findings.set(key, finding);
  };
}

/** Returns the listeners that note what responses contain. */
function watchReplies(notes: ReplyNotes, sources: Sources): Watch {
  let documents: ReadonlySet<string> | undefined;
  const isDocument = (column: string): boolean =>
    (documents ??= documentsIn(sources.tableTexts)).has(column.toLowerCase());
  const noteReply = (value: Value, route: RouteCall | undefined, status = '200'): void => {
    const place = route === undefined ? '' : lineOfRoute(route);
    const openness = isConstant(value) ? 'constant' : isNamed(value, isDocument) ? 'named' : 'open';
    keepMost(notes.replies, OPENNESS, place, openness);
    if (/^2/.test(status) && isObject(value)) notes.objects.add(place);
    for (const [name, member] of membersOf(value)) {
      const origin = isToken(member) ? 'token' : isKept(member) ? 'kept' : 'other';
      keepMost(notes.members, ORIGINS, `${place} ${name}`, origin);
    }
  };
  return {
    onReply: ({ value, route }) => {
      const medium = value.type === 'svc.HTMLResponse' ? 'page' : 'other';
      notes.hasHostLinks ||= leadsToHost(value);
      if (route !== undefined) keepMost(notes.media, MEDIA, lineOfRoute(route), medium);
      if (value.type !== 'svc.reply') noteReply(value, route);
    },
    onCall: ({ call, meaning, route, value }) => {
      const [body, status] = call.args;
      notes.hasHostLinks ||= call.args.some((arg) => leadsToHost(value(arg)));
      if (meaning === 'svc.reply') noteReply(value(body) ?? KNOWN, route, constantIn(value(status)));
      if (meaning === 'svc.Config.get')
        for (const text of value(body)?.texts ?? []) {
          const key = constantOf(text);
          if (key === undefined) notes.settings = undefined;
          else notes.settings?.add(variableOf(key));
        }
      if (/^svc\.RateLimiter\.\w+$/.test(meaning) && route !== undefined)
        notes.limited.add(lineOfRoute(route));
    },
  };
}

/** Returns the type of an input: of the loaded application, else as the sources declare it. */
function typeOfInput(
  inputs: DeclaredInputs,
  ...[route, input]: Parameters<TypeOfInput>
): ReturnType<TypeOfInput> {
  if (route === undefined) return inputs.typeOf(route, input);
  const written = typeOfDeclaration(entryOf(specOf(route), input), route.module);
  const known = inputs.typeOf(route, input) ?? written;
  if (known !== undefined || input !== 'params') return known;
  // a dependency has no path of its own
  return typeOfParameters(route) ?? inputs.typeOf(undefined, input);
}

/** Whether a value is certainly an object, rows, or a list of objects: not an error response such as `[{ … }, 404]`. */
function isObject(value: Value): boolean {
  const { type, members, items, whole } = value;
  if (type !== undefined && type !== 'svc.Schema' && whole === undefined) return false;
  if (whole !== undefined && whole.by !== 'process.env') return true;
  const names = [...(members?.keys() ?? [])];
  const isList = items !== undefined || names.every((name) => /^\d+$/.test(name));
  if (!isList) return true;
  return !/^[45]\d\d$/.test(constantIn(members?.get('1')) ?? '') && innerOf(value).some(isObject);
}

/** Returns the members of a response, also those of its members. */
function membersOf({ members }: Value, depth = 0): readonly (readonly [string, Value])[] {
  const own = depth > 3 ? [] : [...(members ?? [])];
  return own.flatMap(([name, member]) => [[name, member] as const, ...membersOf(member, depth + 1)]);
}

/** Whether a value is a token or random text that the program makes, on each way to it. */
function isToken({ texts }: Value): boolean {
  const isMade = (part: Part): boolean => part.kind === 'own' && TOKEN_MAKERS.test(part.made?.by ?? '');
  return texts.length > 0 && texts.every((text) => text.length > 0 && text.every(isMade));
}

/** Whether a function writes a value with all of its members: data of a module may change, and gain members. */
function isConstant(value: Value, depth = 0): boolean {
  const { texts, members, items, source, whole, of, type, lasting } = value;
  if (source !== undefined || items !== undefined || whole !== undefined || depth > 4) return false;
  if (members === undefined) {
    const parts = constantIn(value) === undefined ? [] : texts.flat();
    const pieces = parts.flatMap((part) => (part.kind === 'literal' ? (part.from ?? []) : []));
    return depth > 0 && pieces.length > 0 && pieces.every(({ node }) => functionAround(node) !== undefined);
  }
  const isPlain = of === undefined && type === undefined && lasting === undefined;
  return isPlain && [...members.values()].every((each) => isConstant(each, depth + 1));
}

/** Whether a value comes from where secrets are kept: a row, or a variable of the environment. */
function isKept(value: Value): boolean {
  return (
    clientPartsOf(value.texts).some(isStored) ||
    madeIn(value).some(({ by }) => by === ROW || by.startsWith('process.env.'))
  );
}

/** Whether the sources name each member of a value: no row, input or unknown object is a part of it as a whole. */
function isNamed(value: Value, isDocument: (column: string) => boolean, depth = 0): boolean {
  const { texts, members, items, whole, source, type, of, declared } = value;
  // a client may have back what it has sent
  if (source !== undefined) return depth > 0;
  if ((whole !== undefined && whole.by !== CLASS_ROW) || depth > 4) return false;
  // the class of a row names its columns
  if (of !== undefined && (members === undefined || value.isInstance !== true)) return false;
  if (members === undefined && items === undefined)
    return (
      depth > 0 &&
      isSingle(type) &&
      (declared !== undefined || texts.every((text) => !text.some((part) => isOpen(part, isDocument))))
    );
  return innerOf(value).every((each) => isNamed(each, isDocument, depth + 1));
}

/** Whether a value of a type gains no members later: no type is known, or it is a text, a number, the column that scalar() reads, or an entry that the program puts into a session. */
function isSingle(type: string | undefined): boolean {
  return (
    type === undefined ||
    isPlaceInText(type) ||
    MAKERS.test(type) ||
    /^(?:crypto\.|svc\.(?:csrfToken|requireSession|Session(?:\.\w+)?)$|svc\/db\.[^]*\.scalar$)/.test(type)
  );
}

/** Whether a part of a row may be a document. The result of a change has numbers only, and scalar() returns one value. */
function isOpen(part: Part, isDocument: (column: string) => boolean): boolean {
  if (part.kind !== 'own' || part.made?.by !== ROW) return false;
  const { node, column } = part.made;
  if (column !== undefined) return isDocument(column);
  return node.type !== 'call' || !/^(?:execute|scalar)$/.test(methodOf(node));
}

/** Returns the names of columns that statements declare as documents. */
function documentsIn(texts: readonly string[]): ReadonlySet<string> {
  const columns = texts.flatMap(declaredColumns).map(({ part }) => part);
  return new Set(
    columns
      .filter((part) => part.some(({ word }) => /^jsonb?$/.test(word)))
      .flatMap(([first]) => first?.name ?? []),
  );
}

/** Returns listeners that pass on what they receive to all watches. */
function heard(watches: readonly Watch[]): Required<Omit<Watch, 'finish' | 'onStatement'>> {
  return {
    onCall: (site) => watches.forEach((each) => each.onCall?.(site)),
    onReply: (sent) => watches.forEach((each) => each.onReply?.(sent)),
    onHandler: (begun) => watches.forEach((each) => each.onHandler?.(begun)),
    onTest: (tested) => watches.forEach((each) => each.onTest?.(tested)),
    onCompare: (compared) => watches.forEach((each) => each.onCompare?.(compared)),
    onSum: (summed) => watches.forEach((each) => each.onSum?.(summed)),
    onPromise: (misused) => watches.forEach((each) => each.onPromise?.(misused)),
    onIndexed: (written) => watches.forEach((each) => each.onIndexed?.(written)),
    onAssign: (kept) => watches.forEach((each) => each.onAssign?.(kept)),
  };
}

const TOKEN_MAKERS = /^(?:svc\.createToken|jsonwebtoken\.sign|jose\.|crypto\.random)/;
const OPENS = /(?:^|\.)(?:openDatabase|openMigrator|createConnection|createPool|createClient|connect|open)$/;

/**
 * Returns the place of the first call that opens a connection while the module is imported. Searches the
 * source, because the stack trace of a connecting driver does not contain the code of the application.
 */
export function openedAtImport(project: Project): Place | undefined {
  const opened = new Sources(project).called(OPENS).find(({ node }) => functionAround(node) === undefined);
  return opened?.module.placeAt(opened.node.start);
}

/** Returns the subject of a finding: the route, the function or the file that contains the node. */
export function subjectOf(node: Node, module: SourceModule, sources: Sources): string {
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) {
    if (at.type !== 'call' || !sources.handlers.isRoute(at)) continue;
    const [path] = at.args;
    // isRoute() accepts only calls of a member, such as `app.get`
    const method = at.callee.type === 'member' ? at.callee.property! : '';
    if (path?.type === 'text') return `${method.toUpperCase()} ${path.value}`;
  }
  const name = nameAround(node);
  return name === undefined ? `module ${basename(module.file)}` : `function ${name}`;
}
