/**
 * Rules about client input in SQL, shell commands, code, regular expressions, redirects, file paths, network
 * addresses and HTML (SVC601 … SVC608).
 */
import { calledName, entryOf, functionAround, pathOf } from '../reader/nodes.ts';
import { meaningOfCall, writtenOf } from './sources.ts';
import { OWN } from './values.ts';
import { nameOfCallback } from './words.ts';
import type { Visit } from './flow.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportNode } from './sources.ts';
import type { Given } from './values.ts';

const SQL =
  /\b(?:select\b[^]*\bfrom|insert\s+into|update\b[^]*\bset|delete\s+from|replace\s+into|order\s+by|group\s+by|where|having|limit|union|values\s*\(|create\s+(?:table|index)|drop\s+(?:table|index)|alter\s+table|truncate|exec(?:ute)?\s)\b/i;
/** Names of methods that may run SQL. Some of them, such as `run`, also have other meanings. */
const RUNS_SQL =
  /^(?:fetchAll|fetchOne|fetchArrays|executeMany|script|\$queryRawUnsafe|\$executeRawUnsafe|unsafe|execute|query|raw|exec|prepare|run|all|get|each|scalar|stream|multi|none|one|many|any|oneOrNone|manyOrNone|whereRaw|orderByRaw|havingRaw)$/;
const NEVER_OTHERWISE =
  /^(?:fetchAll|fetchOne|fetchArrays|\$queryRawUnsafe|\$executeRawUnsafe|whereRaw|orderByRaw|havingRaw)$/;

/** Names of project functions that pass their parameter to a database as SQL. */
const FORWARDS = /^(?:query|execute|runQuery|executeQuery|runSql|executeSql)$/;

/**
 * Whether the application sets the beginning of a redirect target, so that the client cannot choose the site.
 */
function isAnchored({ lead }: Given): boolean {
  return (
    lead.startsWith(OWN) ||
    /^(?:\/|\.{1,2}\/)[^/\\]/.test(lead) ||
    /^\.{1,2}\/$/.test(lead) ||
    /^[a-z][a-z\d+.-]*:\/\/[^/]+\//i.test(lead) ||
    /^(?!\w+:)[\w.-]+[/?#]|^[#?]/.test(lead)
  );
}

/** Runs the rules SVC601 to SVC608 on one call. */
export function findInjection(visit: Visit, report: ReportNode): void {
  const meaning = meaningOfCall(visit.call, visit.module);
  const name = calledName(visit.call);
  findSql(visit, name, report);
  findCommands(visit, meaning, report);
  findCode(visit, meaning, report);
  findPatterns(visit, meaning, report);
  findRedirects(visit, meaning, name, report);
  findPaths(visit, meaning, name, report);
  findAddresses(visit, meaning, report);
  findHtml(visit, meaning, name, report);
}

/** SVC601: client input in the text of an SQL statement. */
function findSql({ call, module, given }: Visit, name: string | undefined, report: ReportNode): void {
  const [statement] = call.args;
  if (
    name === undefined ||
    statement === undefined ||
    call.isNew ||
    !(call.callee.type === 'member' ? RUNS_SQL : FORWARDS).test(name)
  )
    return;
  const text =
    statement.type === 'object' ? (entryOf(statement, 'text') ?? entryOf(statement, 'sql')) : statement;
  const value = given(text);
  if (value === undefined || isForwarded(call)) return;
  if (!SQL.test(value.text) && !NEVER_OTHERWISE.test(name)) return;
  report(
    'SVC601',
    module,
    text!,
    `the SQL statement contains ${value.what}, which a client sends, so the client can change the statement`,
  );
}

/**
 * Whether a call runs SQL from a parameter of the function around it, as in `const query = (text) =>
 * pool.query(text)`. The rule reports the calls of `query` instead.
 */
function isForwarded(call: Call): boolean {
  const statement = pathOf(call.args[0]!);
  for (let fn = functionAround(call); fn !== undefined; fn = functionAround(fn))
    if (FORWARDS.test(nameOfCallback(fn) ?? '') && fn.params.some((param) => pathOf(param) === statement))
      return true;
  return false;
}

const SHELL = /^child_process\.(?:exec|execSync)$/;
const PROGRAM = /^child_process\.(?:execFile|execFileSync|spawn|spawnSync|fork)$/;

/** SVC602: client input in commands of the operating system. */
function findCommands({ call, module, given }: Visit, meaning: string, report: ReportNode): void {
  const [command, args, options] = call.args;
  if (command === undefined) return;
  const tell = (node: Node, value: Given): void =>
    report(
      'SVC602',
      module,
      node,
      `the command contains ${value.what}, which a client sends, so the client can run other commands`,
    );
  if (SHELL.test(meaning)) {
    const value = given(command);
    if (value !== undefined) tell(command, value);
  } else if (PROGRAM.test(meaning)) {
    const program = given(command);
    if (program !== undefined) return tell(command, program);
    const shell = entryOf(options ?? args, 'shell');
    const hasShell =
      (shell !== undefined && !(shell.type === 'value' && shell.raw === 'false')) ||
      (command.type === 'text' && /(?:^|\/)(?:sh|bash|zsh|cmd(?:\.exe)?|powershell)$/.test(command.value));
    const value = hasShell ? given(args) : undefined;
    if (value !== undefined) tell(args!, value);
  }
}

const RUNS_CODE =
  /^(?:eval|Function|vm\.(?:runInContext|runInNewContext|runInThisContext|compileFunction|Script)|import|require)$/;

/** SVC603: client input in code that is evaluated. */
function findCode({ call, module, given }: Visit, meaning: string, report: ReportNode): void {
  if (!RUNS_CODE.test(meaning)) return;
  for (const arg of call.args) {
    const value = given(arg);
    // a JSON file is data, which require() does not run
    if (meaning === 'require' && /\.json\s*$/.test(value?.text ?? '')) continue;
    if (value !== undefined)
      return report(
        'SVC603',
        module,
        arg,
        `${meaning}() runs ${value.what} from a client as code, so the client gains all rights of the process`,
      );
  }
}

/** SVC604: client input in regular expressions. */
function findPatterns({ call, module, given }: Visit, meaning: string, report: ReportNode): void {
  const [source] = call.args;
  if (meaning !== 'RegExp' || source === undefined) return;
  const value = given(source);
  if (value !== undefined)
    report(
      'SVC604',
      module,
      source,
      `the regular expression is built from ${value.what}: a client can send a pattern that blocks the process`,
    );
}

/** Parts of a request, such as cookies, that a link on another site cannot set to an address. */
const CANNOT_CHOOSE = /(?:^|\W)referr?er$|^headers?\b|^(?:signedC|c)ookies?\b|^params$/i;

/** SVC605: client input in the target of a redirect. */
function findRedirects(visit: Visit, meaning: string, name: string | undefined, report: ReportNode): void {
  const { module } = visit;
  const target = redirectTarget(visit, meaning, name);
  const value = visit.given(target);
  if (value === undefined || isAnchored(value) || CANNOT_CHOOSE.test(value.what)) return;
  report(
    'SVC605',
    module,
    target!,
    `the redirect leads to the address in ${value.what}, where a client can name any other site`,
  );
}

function redirectTarget(
  { call, module }: Visit,
  meaning: string,
  name: string | undefined,
): Node | undefined {
  if (/(?:^|\.)RedirectResponse$/.test(meaning) || meaning === 'Response.redirect') return call.args[0];
  if (name === 'redirect' && call.callee.type === 'member')
    return call.args.find(({ type }) => type !== 'value');
  const location = locationIn(call, name);
  const isOfCreated =
    location !== undefined &&
    /\bstatus(?:Code)?\s*[(:=]\s*2\d\d\b|^[^(]*\(\s*2\d\d\b/.test(module.source.slice(call.start, call.end));
  // a 2xx reply is not a redirect: its Location names a created resource
  return isOfCreated ? undefined : location;
}

function locationIn({ args }: Visit['call'], name: string | undefined): Node | undefined {
  const [first, second] = args;
  if (
    /^(?:setHeader|header|set)$/.test(name ?? '') &&
    first?.type === 'text' &&
    /^location$/i.test(first.value)
  )
    return second;
  for (const arg of args) {
    const headers = entryOf(arg, 'headers');
    const location =
      entryOf(headers ?? arg, 'Location') ??
      entryOf(/^(?:writeHead|set|headers?)$/.test(name ?? '') ? arg : headers, 'location');
    if (location !== undefined) return location;
  }
  return undefined;
}

const OPENS_FILE =
  /^fs(?:\/promises|\.promises)?\.(?:readFile|createReadStream|createWriteStream|writeFile|appendFile|unlink|rm|rmdir|readdir|open|opendir|copyFile|cp|rename|mkdir|openAsBlob|readlink|symlink|truncate)(?:Sync)?$/;
const TWO_PATHS = /(?:copyFile|cp|rename|symlink)(?:Sync)?$/;

/** Matches a path whose last part is a fixed name. A client can then reach only files of this name. */
const FIXED_NAME = /[/\\][^/\\\s]+$/;

/** SVC606: client input in file paths. */
function findPaths(
  { call, module, given }: Visit,
  meaning: string,
  name: string | undefined,
  report: ReportNode,
): void {
  const [first, second] = call.args;
  const paths = OPENS_FILE.test(meaning)
    ? TWO_PATHS.test(meaning)
      ? [first, second]
      : [first]
    : /(?:^|\.)FileResponse$/.test(meaning) ||
        (/^(?:sendFile|download)$/.test(name ?? '') &&
          isReply(call) &&
          entryOf(second, 'root') === undefined &&
          entryOf(call.args.at(-1), 'root') === undefined) ||
        (name === 'save' && call.callee.type === 'member' && call.args.length === 1)
      ? [first]
      : [];
  for (const path of paths) {
    const value = given(path);
    if (value === undefined || (name === 'save' && !/filename|originalname|\bname$/.test(value.what)))
      continue;
    if (FIXED_NAME.test(value.text)) continue;
    // the form parser, not the client, chose the path of an uploaded file
    if (/\bfiles?\b.*\.(?:path|filepath|tempFilePath)$/.test(value.what)) continue;
    report(
      'SVC606',
      module,
      path!,
      `the file path is built from ${value.what}: a value with ".." leads to any file`,
    );
  }
}

/** Whether the function around a call sets a content type that browsers do not show as HTML. */
function isPlain(call: Call, { source }: Visit['module']): boolean {
  const around = functionAround(call);
  const code = source.slice(around?.start ?? 0, around?.end);
  return /text\/plain|application\/(?:json|xml)|text\/xml|image\/svg/.test(code) && !/text\/html/.test(code);
}

/**
 * Whether a call runs a method of a response object: `res.download(path)`, `res.status(200).sendFile(path)`.
 */
function isReply({ callee }: Call): boolean {
  if (callee.type !== 'member') return false;
  let at = callee.object;
  while (at.type === 'call' && at.callee.type === 'member') at = at.callee.object;
  return /(?:^|\.)(?:res|response|reply|ctx|c)$/.test(pathOf(at) ?? '');
}

const ASKS =
  /^(?:fetch|undici\.(?:fetch|request)|https?\.(?:get|request)|got(?:\.\w+)?|axios(?:\.(?:get|post|put|patch|delete|head|request))?|node-fetch|superagent\.\w+|needle(?:\.\w+)?)$/;

/**
 * Names of addresses that attackers usually cannot choose: settings of an administrator, headers of a proxy,
 * and the `response_url` of Slack, which is signed.
 */
const OF_SETTINGS = /^headers\b|base|endpoint|server|service|registr|instance|api_?ur[il]|response_?url$/i;

/** SVC607: client input in addresses that the server requests. */
function findAddresses({ call, module, given }: Visit, meaning: string, report: ReportNode): void {
  const [address] = call.args;
  if (!ASKS.test(meaning) || address === undefined) return;
  const target =
    address.type === 'object'
      ? (entryOf(address, 'url') ?? entryOf(address, 'host') ?? entryOf(address, 'hostname'))
      : address;
  const value = given(target);
  if (value === undefined || hasHost(value) || hasAgent(call) || OF_SETTINGS.test(value.what)) return;
  report(
    'SVC607',
    module,
    target!,
    `the server sends a request to the address in ${value.what}, and a client can choose an address in the internal network`,
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

/**
 * Whether no client can choose the host of a URL. The URL begins with a slash, an origin, or a value that
 * does not come from the client.
 */
function hasHost({ lead }: Given): boolean {
  return lead.startsWith('/') || lead.startsWith(OWN) || /^[a-z][a-z\d+.-]*:\/\/[^/]+[/?#]/i.test(lead);
}

/**
 * Matches names of request values: `headers` for all headers, or a header that proxies set, such as
 * `headers.x-real-ip`.
 */
const OF_PROXIES = /^headers?(?:$|\.(?:x-real-ip|x-forwarded|forwarded|cf-))/;

/** SVC608: client input in HTML. */
function findHtml(
  { call, module, given }: Visit,
  meaning: string,
  name: string | undefined,
  report: ReportNode,
): void {
  const [body, options] = call.args;
  if (body === undefined) return;
  const isHtml = /(?:^|\.)HTMLResponse$/.test(meaning);
  const mayBeHtml =
    /^(?:svc\.)?(?:HttpResponse|Response)$/.test(meaning) &&
    options !== undefined &&
    /text\/html/.test(module.source.slice(options.start, options.end));
  const isSent = /^(?:send|end|write)$/.test(name ?? '') && isReply(call) && !isPlain(call, module);
  const isShown = name === 'html' && isReply(call);
  if (!isHtml && !mayBeHtml && !isSent && !isShown) return;
  const value = given(body);
  // a link or form on another site can set one value, but neither the headers nor the whole input
  if (value === undefined || value.part !== undefined || OF_PROXIES.test(value.what)) return;
  if (isSent && !/<[a-z!/]/i.test(value.text)) return;
  report(
    'SVC608',
    module,
    body,
    `${value.what} is written into the page without escaping: a client can inject scripts (${writtenOf(module, body)})`,
  );
}
