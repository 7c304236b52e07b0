/**
 * Combines the findings about the compiled application with the findings about its source files:
 *   - Searches the sources and their JSON files for secrets that code passed to this package (SVC205).
 *   - Finds the line of the option or setting that causes a finding, such as `debug: true`.
 *   - Reports a mistake once, even if both kinds of findings describe it.
 */
import { readFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { weaknessOf } from '../crypto/keys.ts';
import { abouts, fileOfPlace } from '../base/findings.ts';
import { constantOf, numberOf } from './reader/constants.ts';
import { entryOf, methodOf, partsIn, pathOf } from './reader/nodes.ts';
import { callsIn, meaningOfCall } from './sources.ts';
import { isBuiltIn } from './values/calls.ts';
import { specOf } from './values/functions.ts';
import { lineOfRoute } from './values/inputs.ts';
import type { Sources } from './sources.ts';
import type { About, Finding, Place } from '../base/findings.ts';
import type { UsedSecret } from '../base/used-secrets.ts';
import type { RuleText } from './check.ts';
import type { SourceModule } from './reader/modules.ts';
import { WRITTEN_REMEDY } from './rules/written-secrets.ts';
import type { Call, Fn, Node } from './reader/nodes.ts';
import type { SourceReport } from './examine.ts';

type Route = NonNullable<About['route']>;

/** A JSON file whose path occurs in the sources. */
interface DataFile {
  readonly file: string;
  readonly text: string;
}

/**
 * Minimum length, in characters, of a secret that is searched for in the sources. A shorter text could be an
 * ordinary word.
 */
const LEAST_CHARACTERS = 8;

/** Merges the findings of the compiled application and of the source files. Each mistake occurs only once. */
export function joinFindings(
  declared: readonly Finding[],
  report: SourceReport,
  secrets: readonly UsedSecret[],
  secretRule: RuleText,
): Finding[] {
  const { findings: written, project, sources } = report;
  const placed = declared.flatMap((finding) => {
    const about = abouts.get(finding) ?? {};
    const { option } = about;
    if (finding.rule === 'SVC208' && option !== undefined && isOfEnvironment(option.key, finding, sources))
      return [];
    const place = placeOfCause(about, sources);
    return judged(place === undefined ? finding : { ...finding, place }, about, report);
  });
  const found = findSecrets(secrets, project.modules, sources, secretRule);
  // findings in `written` about these lines would be duplicates of findings in `found`
  const elsewhere = new Set(found.map(({ call }) => lineOf(call)));
  const others = written.filter(
    (finding) => abouts.get(finding)?.isWritten !== true || !elsewhere.has(lineOf(finding.place)),
  );
  const isReported = (finding: Finding): boolean =>
    others.some((other) => other.rule === finding.rule && lineOf(other.place) === lineOf(finding.place));
  const ofSettings = new Set(
    placed.filter(({ rule }) => rule === 'SVC205').map(({ place }) => lineOf(place)),
  );
  const fresh = [
    ...placed,
    ...found.map(({ finding }) => finding).filter(({ place }) => !ofSettings.has(lineOf(place))),
  ];
  return [...fresh.filter((finding) => finding.place === undefined || !isReported(finding)), ...others];
}

/**
 * Returns the place of the object or list with the path and the method of a route, if a loop over a table declares the
 * route: there the guard of the route stands.
 */
function placeOfRow({ method, template: path }: Route, sources: Sources): Place | undefined {
  const rows = sources
    .all('text')
    .filter(({ node }) => node.value.length > 1 && path.endsWith(node.value))
    .flatMap(({ module, node }) => {
      const row = node.parent?.type === 'entry' ? node.parent.parent : node.parent;
      const values =
        row?.type === 'list'
          ? row.items
          : row?.type === 'object'
            ? row.entries.map((each) => (each.type === 'entry' ? each.value : undefined))
            : [];
      const isOfMethod = values.some((each) => each?.type === 'text' && each.value.toUpperCase() === method);
      return isOfMethod && row !== undefined ? [module.placeAt(row.start)] : [];
    })
    .toArray();
  return rows.length === 1 ? rows[0] : undefined;
}

/** Whether a response may be a page, or browsers log in: then the security headers protect visitors. */
function canSendPages(sources: Sources): boolean {
  if (sources.project.modules.some(({ file }) => /\.[jt]sx$/.test(file))) return true;
  return sources.all('call').some(({ module, node }) => {
    const meaning = meaningOfCall(node, module);
    if (
      /^svc\.(?:HTMLResponse|FileResponse|StreamingResponse|SessionMiddleware)$|^svc\/oauth\./.test(meaning)
    )
      return true;
    if (/^mount(?:Static)?$/.test(methodOf(node))) return true;
    return /^(?:svc\.HttpResponse|Response)$/.test(meaning) && !namesOtherType(node);
  });
}

/** Whether the options of a response name a media type that is no page. */
function namesOtherType({ args: [, options] }: Call): boolean {
  const headers = entryOf(options, 'headers');
  const type = [
    entryOf(options, 'mediaType'),
    entryOf(headers, 'Content-Type'),
    entryOf(headers, 'content-type'),
  ].find((node) => node !== undefined);
  return type?.type === 'text' && !/html|xml|svg/i.test(type.value);
}

/**
 * Returns a finding as the sources judge it: as a note, if they name each member of a response without a schema, if no row
 * or variable is the secret of a response, or if no response without security headers can be a page; not at all, if
 * the code does what the finding says is missing, reads the variable, writes the response as it is, or makes a token for the client.
 */
function judged(
  finding: Finding,
  { lacks, unread, unused, cleanUp, field }: About,
  report: SourceReport,
): readonly Finding[] {
  const line = lineOf(finding.place);
  if (unread !== undefined && mayRead(unread, report)) return [];
  if (lacks === 'rate limit' && report.limited.has(line)) return [];
  if (lacks === 'operation' && report.media.get(line) === 'page') return [];
  if (unused !== undefined && isNeeded(unused, line, report)) return [];
  if (cleanUp !== undefined && isSynchronous(cleanUp, report)) return [];
  const openness = lacks === 'response schema' ? report.replies.get(line) : undefined;
  const origin = field === undefined ? undefined : report.members.get(`${line} ${field}`);
  if (openness === 'constant' || origin === 'token') return [];
  const isHarmless =
    openness === 'named' ||
    (lacks === 'security headers' && !canSendPages(report.sources)) ||
    origin === 'other';
  return [isHarmless ? { ...finding, severity: 'info' } : finding];
}

/** SVC401: whether code reads a variable after the import, such as a handler: as a setting, or by its own name. */
function mayRead(variable: string, { settings, sources }: SourceReport): boolean {
  return (
    settings?.has(variable) !== false ||
    placeOfVariable(variable, sources) !== undefined ||
    sources.all('text').some(({ node }) => node.value === variable)
  );
}

/** Whether an environment variable decides a setting of the application, which may be another one in production. */
function isOfEnvironment(key: string, { place }: Finding, sources: Sources): boolean {
  return sources
    .called(/^svc\.Svc$/)
    .filter(({ module, node }) => lineOf(module.placeAt(node.start)) === lineOf(place))
    .some(({ module, node }) => {
      const options = node.args[0] && constantOf(node.args[0], module);
      const value = entryOf(options?.node, key);
      return options !== undefined && value !== undefined && readsVariables(value, options.module, sources);
    });
}

/** Whether an expression, or a constant or function that it names, reads an environment variable. */
function readsVariables(node: Node, module: SourceModule, sources: Sources, depth = 0): boolean {
  return partsIn(node).some((part) => {
    if (part.type === 'member' && pathOf(part.object) === 'process.env') return true;
    if (depth > 3 || !/^(?:name|member|call)$/.test(part.type)) return false;
    const called = part.type === 'call' ? sources.handlers.resolve(part.callee, module) : undefined;
    const used = called === undefined ? constantOf(part, module) : undefined;
    const [inner, home] =
      called === undefined ? [used?.node, used?.module] : [called, sources.handlers.homeOf(called)];
    return inner !== undefined && inner !== part && readsVariables(inner, home ?? module, sources, depth + 1);
  });
}

/** Returns the file and line of a place. */
function lineOf(place: Place | undefined): string {
  return place === undefined ? '' : `${fileOfPlace(place)}:${place.line}`;
}

/** SVC113: whether a dependency whose value no handler takes may refuse the request, or has an effect. */
function isNeeded(name: string, line: string, report: SourceReport): boolean {
  const { sources } = report;
  return sources
    .all('call')
    .filter(({ node }) => sources.handlers.isRoute(node))
    .map(({ module, node: call }) => ({ module, call }))
    .filter((route) => lineOfRoute(route) === line)
    .some((route) => mayAct(entryOf(specOf(route), name), route.module, report));
}

/** Whether a dependency, or one that it needs, throws or makes a call with an effect: `Depends(source)`, or a source. */
function mayAct(node: Node | undefined, home: SourceModule, report: SourceReport, depth = 0): boolean {
  if (node === undefined || depth > 4) return false;
  const { handlers } = report.sources;
  const fn = handlers.resolve(node, home);
  if (fn !== undefined) return acts(fn, handlers.homeOf(fn), report);
  const { node: call, module } = constantOf(node, home) ?? { node, module: home };
  if (call.type !== 'call') return false;
  const [first, made] = call.args;
  const meaning = meaningOfCall(call, module);
  if (meaning === 'svc.Depends') return mayAct(first, module, report, depth + 1);
  if (meaning !== 'svc.provide') return false;
  const needs = first?.type === 'object' ? first.entries : [];
  return (
    mayAct(made, module, report, depth + 1) ||
    needs.some((entry) => entry.type === 'entry' && mayAct(entry.value, module, report, depth + 1))
  );
}

function acts(fn: Fn, module: SourceModule, report: SourceReport): boolean {
  const { handlers } = report.sources;
  const throws = (each: Fn): boolean =>
    each.body.some((part) => partsIn(part).some((inner) => inner.type === 'leave' && inner.how === 'throw'));
  return (
    throws(fn) ||
    fn.body.some((part) =>
      callsIn(part, module, report.sources).some(({ call, module: at }) => {
        const called = handlers.resolve(call.callee, at);
        return called === undefined ? !isHarmless(call, at, report) : throws(called);
      }),
    )
  );
}

/** Methods of texts, lists and maps, and of the objects that hold the parts of a request. */
const PLAIN: readonly object[] = [String, Array, Map, Number, Date, URLSearchParams].map(
  ({ prototype }) => prototype as object,
);

/** Whether a call only makes or reads a value: an object, a value of the language, or rows. */
function isHarmless(call: Call, module: SourceModule, { statements }: SourceReport): boolean {
  const sent = statements.calls.find((each) => each.call === call);
  if (sent !== undefined)
    return [...sent.statements.values()].every((each) => /^\s*select\b/i.test(each.text('sqlite')));
  const method = methodOf(call);
  return call.isNew || isBuiltIn(meaningOfCall(call, module)) || PLAIN.some((each) => method in each);
}

/** SVC502: whether the clean-up that is not awaited calls a function of the project that returns no promise. */
function isSynchronous({ of, call }: NonNullable<About['cleanUp']>, { sources }: SourceReport): boolean {
  const called = sources
    .all('function')
    .filter(({ node }) => node.isGenerator && node.name === of)
    .flatMap(({ node, module }) =>
      node.body
        .flatMap((part) => [...partsIn(part)])
        .filter((part) => part.type === 'call' && pathOf(part.callee) === call)
        .map((part) => (part.type === 'call' ? sources.handlers.resolve(part.callee, module) : undefined)),
    )
    .toArray();
  return called.length > 0 && called.every((fn) => fn !== undefined && !fn.isAsync && !givesPromise(fn));
}

/** Whether the declared result of a function, or a returned call, may be a promise. */
function givesPromise(fn: Fn): boolean {
  return fn.isExpression
    ? fn.body.some(({ type }) => type === 'call')
    : fn.body.some((part) =>
        partsIn(part).some(
          (inner) => inner.type === 'leave' && inner.how === 'return' && inner.value?.type === 'call',
        ),
      );
}

// -- causes --

/** Returns the place of the option, variable or row of a table that is the cause of a finding. */
function placeOfCause({ option, variable, route }: About, sources: Sources): Place | undefined {
  if (option !== undefined) return placeOfOption(option, sources);
  if (variable !== undefined) return placeOfVariable(variable, sources);
  return route === undefined ? undefined : placeOfRow(route, sources);
}

/** Returns the place of an option or setting: a member of an object, or a line of a JSON file. */
function placeOfOption({ key, value }: NonNullable<About['option']>, sources: Sources): Place | undefined {
  const entries = sources
    .all('entry')
    .filter(({ node }) => node.key === key && node.parent?.type === 'object' && mayBe(node.value, value))
    .toArray();
  const [first] = entries;
  if (entries.length === 1) return first!.module.placeAt(first!.node.start);
  const [file] = dataFiles(sources.project.modules).flatMap((data) => {
    const at = new RegExp(`"${key}"\\s*:`).exec(data.text)?.index;
    return at === undefined ? [] : [placeIn(data, at)];
  });
  return entries.length === 0 ? file : undefined;
}

/** Returns the place where the sources name an environment variable. */
function placeOfVariable(name: string, sources: Sources): Place | undefined {
  const { module, node } =
    sources.all('entry').find(({ node }) => node.key === name) ??
    sources.all('member').find(({ node }) => node.property === name) ??
    {};
  return node && module?.placeAt(node.start);
}

/** Whether an expression may have this value. True for every expression that is not a literal. */
function mayBe(node: Node | undefined, value: unknown): boolean {
  if (node?.type === 'text') return node.value === value;
  if (typeof value === 'number') return (numberOf(node) ?? value) === value;
  return node?.type !== 'value' || node.raw === String(value);
}

// -- secrets --

interface FoundSecret {
  readonly finding: Finding;
  /** Place of the call that received the secret. */
  readonly call: Place;
}

function findSecrets(
  secrets: readonly UsedSecret[],
  modules: readonly SourceModule[],
  sources: Sources,
  { id, severity }: RuleText,
): FoundSecret[] {
  // if several calls use one secret, the first counts. A Map keeps the last, so the order is reversed.
  const byText = new Map(secrets.toReversed().map((secret) => [secret.text, secret]));
  return [...byText.values()].flatMap(({ text, owner, declared }) => {
    if (text.length < LEAST_CHARACTERS) return [];
    const place = placeOfText(text, modules, sources);
    const isKey = /Auth$|Middleware$/.test(owner) && owner !== 'APIKeyAuth';
    const weakness = isKey ? weaknessOf(text) : undefined;
    if (place === undefined && weakness === undefined) return [];
    const message =
      place === undefined
        ? `the secret of ${owner} is weak: the secret ${weakness!}`
        : `the ${owner === 'the database' ? 'password' : 'secret'} of ${owner} is written in the source code${weakness === undefined ? '' : `, and ${weakness}`}`;
    const at = place ?? declared.place;
    const subject = `module ${basename(fileOfPlace(at))}`;
    const remedy = WRITTEN_REMEDY;
    const finding: Finding = { rule: id as 'SVC205', severity, subject, message, remedy, place: at };
    return [{ call: declared.place, finding }];
  });
}

/** Returns where the sources contain a text, as a literal or as the password in a URL. */
function placeOfText(text: string, modules: readonly SourceModule[], sources: Sources): Place | undefined {
  if (modules.some(({ source }) => source.includes(text))) {
    const has = (value: string): boolean => value === text || value.includes(`:${text}@`);
    for (const { module, node } of sources.all('text'))
      if (has(node.value) && !isForDevelopment(node, module, sources)) return module.placeAt(node.start);
    for (const { module, node } of sources.all('template'))
      if (node.texts.some(has)) return module.placeAt(node.start);
  }
  for (const data of dataFiles(modules)) {
    const at = data.text.indexOf(text);
    if (at !== -1) return placeIn(data, at);
  }
  return undefined;
}

const TELLS_ENVIRONMENT = /\bproduction\b|\bdevelopment\b|isDev|isProd|NODE_ENV|SVC_ENV/i;

/**
 * Whether a text is used only in development. A condition or function around the text mentions the
 * environment, as `if (isDev)` does. Also true for `const key = 'text'` if such a condition is around a use
 * of `key`.
 */
function isForDevelopment(node: Node, module: SourceModule, sources: Sources, depth = 0): boolean {
  const tells = ({ start, end }: Node, { source } = module): boolean =>
    TELLS_ENVIRONMENT.test(source.slice(start, end).replace(source.slice(node.start, node.end), ''));
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if ((at.type === 'if' || at.type === 'choice') && tells(at.test)) return true;
    if (at.type === 'function' && tells(at)) return true;
    if (at.type === 'call') {
      const called = sources.handlers.resolve(at.callee, module);
      if (called !== undefined && tells(called, sources.handlers.homeOf(called))) return true;
    }
    if (at.type === 'declarator' && at.target.type === 'name' && depth === 0) {
      const { name } = at.target;
      const uses = sources.all('name').filter((use) => use.node.name === name);
      if (uses.some((use) => isForDevelopment(use.node, use.module, sources, 1))) return true;
    }
  }
  return false;
}

/**
 * Returns the JSON files whose paths occur in the modules. A path is relative to the module or to the working
 * folder.
 */
function dataFiles(modules: readonly SourceModule[]): readonly DataFile[] {
  const files = new Set(
    modules.flatMap(({ file, source }) =>
      [...source.matchAll(/['"`]([^'"`\n]+\.json)['"`]/g)].flatMap(([, name]) => [
        resolve(dirname(file), name!), // every match of the regular expression above contains a name
        resolve(name!),
      ]),
    ),
  );
  return [...files].flatMap((file) => {
    try {
      return [{ file, text: readFileSync(file, 'utf8') }];
    } catch {
      return []; // the file does not exist or is not readable
    }
  });
}

function placeIn({ file, text }: DataFile, offset: number): Place {
  const before = text.slice(0, offset).split('\n');
  return { file: pathToFileURL(file).href, line: before.length, column: before.at(-1)!.length + 1 };
}
