/**
 * Rules about client input in SQL, shell commands, code, regular expressions, redirects, file paths, network
 * addresses, HTML, header fields and lines of files (SVC601 … SVC610). Each asks what the text of an argument may contain.
 */
import { entryOf } from '../reader/nodes.ts';
import { writtenOf } from './sources.ts';
import { isLocal } from '../values/effects.ts';
import { WORD, charsOf, constantOf, hasAny, isStored, literalOf } from '../values/text.ts';
import type { Site } from '../values/interpreter.ts';
import type { ClientPart, Text } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportNode } from './sources.ts';

/** A part of a client in a text, with the text before and after it. */
interface Place {
  readonly part: ClientPart;
  readonly before: Text;
  readonly after: Text;
}

/** Runs the rules SVC601 to SVC610 on one call. */
export function findInjection(site: Site, report: ReportNode): void {
  findSql(site, report);
  findCommands(site, report);
  findCode(site, report);
  findPatterns(site, report);
  findRedirects(site, report);
  findPaths(site, report);
  findAddresses(site, report);
  findHtml(site, report);
  findFields(site, report);
  findLines(site, report);
}

/**
 * Returns the part of a client for which a question is true, in one of the texts that an argument may be. A part
 * that went through a function of unknown effect counts only if there is no other.
 */
function dangerIn(
  site: Site,
  node: Node | undefined,
  asks: (place: Place) => boolean,
): ClientPart | undefined {
  return dangerOf(site.value(node), asks);
}

function dangerOf(
  value: Value | undefined,
  asks: (place: Place) => boolean,
  isOfRows = false,
): ClientPart | undefined {
  const found = (value?.texts ?? []).flatMap((text) =>
    text.flatMap((part, index) =>
      part.kind === 'client' &&
      (isOfRows || !isStored(part)) &&
      asks({ part, before: text.slice(0, index), after: text.slice(index + 1) })
        ? [part]
        : [],
    ),
  );
  const certain = found.filter(({ unknown }) => unknown === undefined);
  return certain.find((part) => !isStored(part)) ?? certain[0] ?? found[0];
}

/**
 * Returns the particulars of a finding: a note if a function of a package may have cleaned the text, and a
 * warning for a column of a row, which the program may have cleaned before it stored it.
 */
function doubt(part: ClientPart): Parameters<ReportNode>[4] {
  const { unknown } = part;
  return unknown === undefined
    ? isStored(part)
      ? { severity: 'warning' }
      : {}
    : {
        severity: 'info',
        remedy: `Make sure that ${unknown}() returns only texts that are safe here: svc check does not know what it does`,
      };
}

/** Methods of databases of this package that run a statement. */
export const OUR_DATABASE: RegExp =
  /^svc\/db\.[^]*\.(?:fetchAll|fetchOne|fetchArrays|execute|executeMany|scalar|script|stream)$/;
const OTHER_DATABASE =
  /^(?:pg|mysql2?(?:\/promise)?|sqlite|sqlite3|better-sqlite3|mariadb|knex|sequelize|@prisma\/client|postgres)\.[^]*\.(?:query|execute|exec|prepare|raw|run|all|get|each|batch|unsafe|\$queryRawUnsafe|\$executeRawUnsafe)$/;
/** Methods of databases, for an object of unknown type. */
const MAY_RUN_SQL =
  /^(?:fetchAll|fetchOne|fetchArrays|execute|executeMany|query|raw|exec|prepare|scalar|script|stream|\$queryRawUnsafe|\$executeRawUnsafe)$/;
/** Methods that only databases have. */
const RUNS_SQL = /^(?:fetchAll|fetchOne|fetchArrays|executeMany|\$queryRawUnsafe|\$executeRawUnsafe)$/;
const STATEMENT =
  /^\s*(?:select|insert\s+into|update|delete\s+from|replace\s+into|with|create|drop|alter|truncate|exec(?:ute)?)\s/i;
/** Characters of names and numbers, which cannot change a statement. */
const NAMES = WORD | charsOf('.-');

/** SVC601: client input in the text of an SQL statement. */
function findSql(site: Site, report: ReportNode): void {
  const { call, meaning } = site;
  const [first] = call.args;
  if (first === undefined || call.isNew) return;
  const isTyped = OUR_DATABASE.test(meaning) || OTHER_DATABASE.test(meaning);
  const method = call.callee.type === 'member' ? (call.callee.property ?? '') : '';
  const isUntyped = MAY_RUN_SQL.test(method) && (meaning === '' || /^svc\.\w+\.[^]+$/.test(meaning));
  if (!isTyped && !isUntyped) return;
  const text = entryOf(first, 'text') ?? entryOf(first, 'sql') ?? first;
  const isStatement =
    isTyped ||
    RUNS_SQL.test(method) ||
    (site.value(text)?.texts.some((each) => STATEMENT.test(literalOf(each))) ?? false);
  const danger = isStatement ? dangerIn(site, text, ({ part }) => (part.may & ~NAMES) !== 0n) : undefined;
  if (danger === undefined) return;
  const { node, module } = site.written(text);
  report(
    'SVC601',
    module,
    node,
    `the SQL statement contains ${danger.origin.what}, which a client sends, so the client can change the statement`,
    doubt(danger),
  );
}

const SHELL = /^child_process\.(?:exec|execSync)$/;
const PROGRAM = /^child_process\.(?:execFile|execFileSync|spawn|spawnSync|fork)$/;
/** Characters that a shell passes on unchanged. */
const PLAIN = WORD | charsOf('-./:@+,=%');

/** SVC602: client input in commands of the operating system. */
function findCommands(site: Site, report: ReportNode): void {
  const { call, meaning } = site;
  const [command, args, options] = call.args;
  if (command === undefined) return;
  const tell = (arg: Node, danger: ClientPart | undefined): boolean => {
    if (danger === undefined) return false;
    const { node, module } = site.written(arg);
    report(
      'SVC602',
      module,
      node,
      `the command contains ${danger.origin.what}, which a client sends, so the client can run other commands`,
      doubt(danger),
    );
    return true;
  };
  const isUnsafe = ({ part, before }: Place): boolean =>
    (part.may & ~PLAIN) !== 0n || (hasAny(part.may, '-') && /(?:^|\s)$/.test(literalOf(before)));
  if (SHELL.test(meaning)) tell(command, dangerIn(site, command, isUnsafe));
  else if (PROGRAM.test(meaning)) {
    if (
      tell(
        command,
        dangerIn(site, command, () => true),
      ) ||
      args === undefined
    )
      return;
    const [program] = site.value(command)?.texts ?? [];
    const hasShell =
      isOn(entryOf(options ?? args, 'shell')) ||
      /(?:^|\/)(?:sh|bash|zsh|cmd(?:\.exe)?|powershell)$/.test(
        program === undefined ? '' : (constantOf(program) ?? ''),
      );
    if (hasShell) tell(args, dangerIn(site, args, isUnsafe));
    else findOptions(site, args, report);
  }
}

/** SVC602: client input as an argument of a program, which may take it for an option. */
function findOptions(site: Site, args: Node, report: ReportNode): void {
  const danger = optionIn(site.value(args));
  if (danger === undefined) return;
  const { node, module } = site.written(args);
  report(
    'SVC602',
    module,
    node,
    `an argument of the program is ${danger.origin.what}, which a client sends: with "-" at its start it is an option`,
    {
      severity: 'warning',
      remedy: 'Put the argument "--" before it, or "./" before the name of a file',
      ...doubt(danger),
    },
  );
}

/** Returns an item of a list of arguments that may begin with `-`. The items after `--` are no options. */
function optionIn(list: Value | undefined): ClientPart | undefined {
  const items = [...(list?.members ?? [])].flatMap(([key, item]) => (/^\d+$/.test(key) ? [item] : []));
  for (const { texts } of [...items, ...(list?.items === undefined ? [] : [list.items])]) {
    if (texts.some((text) => constantOf(text) === '--')) return undefined;
    for (const [lead] of texts)
      if (lead?.kind === 'client' && hasAny(lead.may, '-') && isFreeToBegin(lead, '-')) return lead;
  }
  return undefined;
}

function isFreeToBegin({ begins, notFirst = [] }: ClientPart, char: string): boolean {
  return (begins === undefined || begins.startsWith(char)) && !notFirst.includes(char);
}

function isOn(option: Node | undefined): boolean {
  return option !== undefined && !(option.type === 'value' && option.raw === 'false');
}

const RUNS_CODE =
  /^(?:eval|Function|vm\.(?:runInContext|runInNewContext|runInThisContext|compileFunction|Script)|import|require)$/;

/** SVC603: client input in code that is evaluated. */
function findCode(site: Site, report: ReportNode): void {
  const { call, meaning } = site;
  if (!RUNS_CODE.test(meaning)) return;
  for (const arg of call.args) {
    // a JSON file is data, which require() does not run
    const danger = dangerIn(
      site,
      arg,
      ({ after }) => meaning !== 'require' || !literalOf(after).endsWith('.json'),
    );
    if (danger === undefined) continue;
    const { node, module } = site.written(arg);
    return report(
      'SVC603',
      module,
      node,
      `${meaning}() runs ${danger.origin.what} from a client as code, so the client gains all rights of the process`,
      doubt(danger),
    );
  }
}

/** SVC604: client input in regular expressions. */
function findPatterns(site: Site, report: ReportNode): void {
  const [source] = site.call.args;
  if (site.meaning !== 'RegExp' || source === undefined) return;
  const danger = dangerIn(site, source, ({ part }) => hasAny(part.may, '*+{'));
  if (danger === undefined) return;
  const { node, module } = site.written(source);
  report(
    'SVC604',
    module,
    node,
    `the regular expression is built from ${danger.origin.what}: a client can send a pattern that blocks the process`,
    doubt(danger),
  );
}

/** Inputs that a link on another site cannot set to an address. */
const CANNOT_CHOOSE: ReadonlySet<string> = new Set(['headers', 'cookies', 'params']);

/** SVC605: client input in the target of a redirect. */
function findRedirects(site: Site, report: ReportNode): void {
  const target = redirectTarget(site);
  const danger = dangerIn(
    site,
    target,
    (place) => !CANNOT_CHOOSE.has(place.part.origin.input) && choosesSite(place),
  );
  if (danger === undefined) return;
  const { node, module } = site.written(target!); // dangerIn() found a part in it
  report(
    'SVC605',
    module,
    node,
    `the redirect leads to the address in ${danger.origin.what}, where a client can name any other site`,
    doubt(danger),
  );
}

/** Whether a part of a client decides to which site an address leads. */
function choosesSite({ part, before }: Place): boolean {
  if (before.some(({ kind }) => kind !== 'literal') || part.hasKnownHost === true) return false;
  const lead = literalOf(before);
  if (lead === '') return !isLocal(part) && hasAny(part.may, '/\\:');
  if (/^\/+$/.test(lead)) return hasAny(part.may, '/\\') && part.notFirst?.includes('/') !== true;
  return /^[a-z][a-z\d+.-]*:(?:\/\/[^/?#]*)?$/i.test(lead);
}

function redirectTarget({ call, meaning, value }: Site): Node | undefined {
  if (meaning === 'svc.RedirectResponse' || meaning === 'Response.redirect') return call.args[0];
  const isReply =
    /^svc\.(?:reply|HttpResponse|HTMLResponse|JSONResponse)$/.test(meaning) || meaning === 'Response';
  if (!isReply) return undefined;
  const status = call.args
    .map((arg) => entryOf(arg, 'status') ?? arg)
    .find((node) => node.type === 'value' && /^\d/.test(node.raw));
  // a 2xx reply is not a redirect: its Location names a created resource
  if (status?.type === 'value' && status.raw.startsWith('2')) return undefined;
  for (const arg of call.args) {
    const headers = entryOf(arg, 'headers') ?? arg;
    const location = entryOf(headers, 'Location') ?? entryOf(headers, 'location');
    if (location !== undefined && value(location) !== undefined) return location;
  }
  return undefined;
}

const OPENS_FILE =
  /^fs(?:\/promises|\.promises)?\.(?:readFile|createReadStream|createWriteStream|writeFile|appendFile|unlink|rm|rmdir|readdir|open|opendir|copyFile|cp|rename|mkdir|openAsBlob|readlink|symlink|truncate)(?:Sync)?$/;
const TWO_PATHS = /(?:copyFile|cp|rename|symlink)(?:Sync)?$/;

/** SVC606: client input in file paths. */
function findPaths(site: Site, report: ReportNode): void {
  for (const path of pathsOf(site)) {
    const danger = dangerIn(site, path, leavesFolder);
    if (danger === undefined) continue;
    const { node, module } = site.written(path);
    report(
      'SVC606',
      module,
      node,
      `the file path is built from ${danger.origin.what}: a value with ".." leads to any file`,
      doubt(danger),
    );
  }
}

function pathsOf({ call, meaning, receiver }: Site): Node[] {
  const [first, second] = call.args;
  const isUpload =
    receiver?.source !== undefined && call.callee.type === 'member' && call.callee.property === 'save';
  const isOpened = OPENS_FILE.test(meaning) || meaning === 'svc.FileResponse' || isUpload;
  return [isOpened ? first : undefined, TWO_PATHS.test(meaning) && isOpened ? second : undefined].filter(
    (node) => node !== undefined,
  );
}

/** Whether a part of a client can lead a path out of the folder before it. */
function leavesFolder({ part, before, after }: Place): boolean {
  if (part.isInside === true || !hasAny(part.may, '/')) return false;
  // with a fixed name at its end, a path leads to files of this name only
  if (/[/\\][^/\\\s]+$/.test(literalOf(after))) return false;
  const isRoot = before.length === 0 || /^\/+$/.test(literalOf(before));
  return isRoot || (hasAny(part.may, '.') && part.lacks?.includes('..') !== true);
}

const ASKS =
  /^(?:fetch|undici\.(?:fetch|request)|https?\.(?:get|request)|got(?:\.\w+)?|axios(?:\.(?:get|post|put|patch|delete|head|request))?|node-fetch|superagent\.\w+|needle(?:\.\w+)?)$/;

/** SVC607: client input in addresses that the server requests. */
function findAddresses(site: Site, report: ReportNode): void {
  const { call, meaning } = site;
  const [address] = call.args;
  if (!ASKS.test(meaning) || address === undefined || hasAgent(call)) return;
  const value = site.value(address);
  const isSent = (place: Place): boolean => place.part.origin.input !== 'headers';
  const danger =
    value?.members === undefined
      ? dangerOf(value, (place) => isSent(place) && choosesHost(place))
      : (dangerOf(value.members.get('url'), (place) => isSent(place) && choosesHost(place)) ??
        // the last part of a host says who owns it
        dangerOf(
          value.members.get('hostname') ?? value.members.get('host'),
          (place) => isSent(place) && place.after.length === 0,
        ));
  if (danger === undefined) return;
  report(
    'SVC607',
    site.module,
    entryOf(address, 'url') ?? entryOf(address, 'hostname') ?? entryOf(address, 'host') ?? address,
    `the server sends a request to the address in ${danger.origin.what}, and a client can choose an address in the internal network`,
    doubt(danger),
  );
}

/**
 * Whether a call passes its own HTTP agent, such as `httpsAgent`. That agent may refuse private addresses.
 */
function hasAgent({ args }: Call): boolean {
  return ['agent', 'httpAgent', 'httpsAgent', 'dispatcher'].some((key) =>
    args.some((arg) => entryOf(arg, key) !== undefined),
  );
}

/** Whether a part of a client is, or is in, the host of an address. */
function choosesHost({ part, before }: Place): boolean {
  if (before.some(({ kind }) => kind !== 'literal') || part.hasKnownHost === true) return false;
  const lead = literalOf(before);
  if (lead === '') return !isLocal(part) && hasAny(part.may, '/:');
  return !lead.startsWith('/') && !/^[a-z][a-z\d+.-]*:\/\/[^/]+[/?#]/i.test(lead) && hasAny(part.may, './:@');
}

/** SVC608: client input in HTML. */
function findHtml(site: Site, report: ReportNode): void {
  const { call, meaning } = site;
  const [body, options] = call.args;
  if (body === undefined) return;
  const isPage =
    meaning === 'svc.HTMLResponse' ||
    (/^(?:svc\.HttpResponse|Response)$/.test(meaning) && isHtml(site, options));
  if (!isPage || site.value(body)?.source?.whole !== undefined) return;
  const danger = dangerOf(site.value(body), entersMarkup, true);
  if (danger === undefined) return;
  const { node, module } = danger.entry ?? site.written(body);
  report(
    'SVC608',
    module,
    node,
    `${danger.origin.what} is written into the page without escaping: a client can inject scripts (${writtenOf(module, node)})`,
    doubt(danger),
  );
}

/** Whether the options of a response name the type HTML. */
function isHtml(site: Site, options: Node | undefined): boolean {
  const headers = entryOf(options, 'headers');
  return [
    entryOf(options, 'mediaType'),
    entryOf(headers, 'content-type'),
    entryOf(headers, 'Content-Type'),
  ].some((node) => site.value(node)?.texts.some((text) => literalOf(text).startsWith('text/html')) === true);
}

/** Whether a part of a client can open an element, or leave the quotes of an attribute. */
function entersMarkup({ part, before }: Place): boolean {
  const tag = /<[a-z][^<>]*$/i.exec(literalOf(before))?.[0];
  const quote = tag === undefined ? undefined : /=\s*(["'])[^"']*$/.exec(tag)?.[1];
  return hasAny(part.may, quote ?? '<');
}

const REPLIES = /^(?:svc\.(?:reply|HttpResponse|HTMLResponse|FileResponse|StreamingResponse)|Response)$/;

/** SVC609: client input in header fields that decide what a browser does with a reply. */
function findFields({ call, meaning, value, module }: Site, report: ReportNode): void {
  if (!REPLIES.test(meaning)) return;
  const options = call.args[meaning === 'svc.reply' ? 2 : 1];
  const given = value(options)?.members;
  const headers = meaning === 'svc.reply' ? given : given?.get('headers')?.members;
  for (const [name, field] of [...(headers ?? []), ['content-type', given?.get('mediaType')] as const]) {
    const danger = dangerOf(field, (place) => choosesField(name.toLowerCase(), place));
    if (danger === undefined) continue;
    const at = danger.entry ?? { node: entryOf(options, 'mediaType') ?? options!, module };
    report(
      'SVC609',
      at.module,
      at.node,
      `${danger.origin.what}, which a client sends, chooses a part of the header field ${name}`,
      doubt(danger),
    );
  }
}

/** Whether a part of a client names a media type, or ends the parameter of a field in which it stands. */
function choosesField(name: string, { part, before }: Place): boolean {
  const lead = literalOf(before);
  if (name === 'content-type') return !lead.includes(';');
  if (name === 'set-cookie') return hasAny(part.may, ';');
  const isQuoted = lead.split('"').length % 2 === 0;
  return name === 'content-disposition' && hasAny(part.may, isQuoted ? '"' : ';"');
}

const APPENDS = /^fs(?:\/promises|\.promises)?\.(?:appendFile(?:Sync)?|createWriteStream\.write)$/;

/** SVC610: client input in the lines of a file. */
function findLines(site: Site, report: ReportNode): void {
  if (!APPENDS.test(site.meaning)) return;
  const line = site.call.args[/write$/.test(site.meaning) ? 0 : 1];
  const danger = dangerIn(site, line, endsLine);
  if (danger === undefined) return;
  report(
    'SVC610',
    site.module,
    line!, // dangerIn() found a part in it
    `${danger.origin.what}, which a client sends, is written into a line of a file: a line feed in it begins a line of the client`,
    doubt(danger),
  );
}

/** Whether a part of a client can end the line that a text makes. Header fields and cookies have no line feeds. */
function endsLine({ part, before, after }: Place): boolean {
  const isLine = before.length > 0 && literalOf(after).endsWith('\n');
  return isLine && hasAny(part.may, '\n') && !/^(?:headers|cookies)$/.test(part.origin.input);
}
