/**
 * Rules about secrets in logs and replies, accounts found by unverified e-mail addresses (SVC625 … SVC627),
 * and rows that may be missing (SVC615).
 */
import { calledName, entryOf, functionAround, pathOf, walk } from '../reader/nodes.ts';
import { literal, specOf } from './routes.ts';
import { bare, isCommand, mentions, nameOfCallback, wordOf, wordOfTarget } from './sources.ts';
import { KNOWN, idsIn } from '../values/value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { Site } from '../values/interpreter.ts';
import type { Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { RouteCall } from '../values/functions.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs the rules of this file that do not need the data-flow analysis of ../values. */
export function findRevealing(sources: Sources, report: ReportNode): void {
  findLogged(sources, report);
  findRevealed(sources, report);
  findUnverifiedMail(sources, report);
}

const LOGGED =
  /^(?:password|passwd|pwd|passphrase|secret|clientsecret|apikey|accesstoken|refreshtoken|idtoken|authtoken|bearertoken|resettoken|privatekey|token|sessiontoken|otp|authorization|cookie|creditcard|cardnumber|cvv|cvc)$/;

function isLog(call: Call): boolean {
  const path = pathOf(call.callee) ?? '';
  return /^console\.(?:log|info|warn|error|debug|trace)$/.test(path) || isLogger(path);
}

function isLogger(path: string): boolean {
  return /(?:^|\.)#?(?:log|logger)\.(?:info|warn|error|debug|trace|fatal|log)$/.test(path);
}

/** SVC625: secrets in logs. */
function findLogged(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (!isLog(call) || isUnderCondition(call, module)) continue;
    const isConsole = pathOf(call.callee)!.startsWith('console.');
    if (isConsole && isCommand(module)) continue;
    for (const arg of call.args) {
      const name = loggedName(arg, isConsole, module);
      if (name === undefined || isHarmlessMessage(bare(name), call, module)) continue;
      report(
        'SVC625',
        module,
        arg,
        `the secret "${name}" is written to the log, where every reader of the log can use the secret`,
      );
      break;
    }
  }
}

/**
 * Whether a log call with a secret is harmless, because it shows a generated password or a rejected token. A
 * token is also harmless in a call such as debug() or error(), but not in log() or info().
 */
function isHarmlessMessage(word: string, call: Call, { source }: SourceModule): boolean {
  const text = source.slice(call.start, call.end);
  if (/^(?:pass|pwd|\w*secret|privatekey|c(?:redit|ard|v))/.test(word))
    return /generated|default|initial/i.test(text);
  return !/^(?:log|info)$/.test(calledName(call) ?? '') || REFUSES.test(text);
}

/** Words of messages about rejected tokens, and about tokens of a currency. */
const REFUSES =
  /invalid|expire|unknown|mis-?match|malform|wrong|bad |fail|reject|denied|refuse|missing|unable|unauthori|forbidden|revoke|error|incorrect|n[o']t |no (?:such|user|session|match)|amount|symbol|balance/i;

/**
 * Returns the name of a secret in an argument of a log call. The logger of this package masks members that
 * are named like secrets, so such members count only for `console`.
 */
function loggedName(node: Node, isConsole: boolean, module: SourceModule): string | undefined {
  switch (node.type) {
    case 'name':
    case 'member':
      return LOGGED.test(wordOf(node)) && (wordOf(node) !== 'token' || isCredential(node, module))
        ? wordOfTarget(node)
        : undefined;
    case 'template':
      return firstOf(node.values, (value) => loggedName(value, isConsole, module));
    case 'binary':
      return node.operator === '+' || node.operator === '??' || node.operator === '||'
        ? (loggedName(node.left, isConsole, module) ?? loggedName(node.right, isConsole, module))
        : undefined;
    case 'object':
      return firstOf(node.entries, (entry) => {
        if (entry.type === 'spread' || entry.value === undefined) return undefined;
        if (!isConsole && LOGGED.test(bare(entry.key ?? ''))) return undefined;
        return loggedName(entry.value, isConsole, module);
      });
    case 'call':
      return pathOf(node.callee) === 'JSON.stringify' && node.args[0] !== undefined
        ? loggedName(node.args[0], true, module)
        : undefined;
    default:
      return undefined;
  }
}

const TOKEN_MAKER =
  /createToken|\bsign\(|randomBytes|randomUUID|getRandomValues|nanoid|\bauthorization\b|\bcookies?\b|\bbearer\b|\bjwt\b/i;
const REQUEST_PART = /(?:^|\.)(?:body|form|query|params|headers|cookies|session)$/;

/**
 * Whether a value named `token` is a credential, which the program generated or a client sent. Other values
 * of this name are, for example, words of a text or ids of rooms.
 */
function isCredential(node: Node, module: SourceModule): boolean {
  if (node.type === 'member') return REQUEST_PART.test(pathOf(node.object) ?? '');
  const binding = node.type === 'name' ? module.lookup(node.name, node) : undefined;
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return false;
  const { target, value } = binding.node;
  if (value === undefined) return false;
  return target.type === 'object'
    ? REQUEST_PART.test(pathOf(value) ?? '')
    : isCredential(value, module) || TOKEN_MAKER.test(module.source.slice(value.start, value.end));
}

function firstOf<T extends Node, R>(nodes: readonly T[], find: (node: T) => R | undefined): R | undefined {
  for (const node of nodes) {
    const found = find(node);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** SVC625 for log calls that write all headers or cookies of a request, or the whole body of a login. */
export function findLoggedRequests({ call, module, given }: Site, report: ReportNode): void {
  if (!isLog(call) || isUnderCondition(call, module)) return;
  const isConsole = pathOf(call.callee)!.startsWith('console.');
  for (const arg of call.args) {
    const parts =
      arg.type === 'object'
        ? arg.entries.flatMap((entry) =>
            entry.type === 'entry' && entry.value !== undefined ? [entry.value] : [],
          )
        : [arg];
    for (const part of parts) {
      const inner = part.type === 'call' && pathOf(part.callee) === 'JSON.stringify' ? part.args[0] : part;
      const value = given(inner);
      const whole = value?.part;
      const hasSecrets =
        (isConsole && (whole === 'headers' || whole === 'cookies')) ||
        ((whole === 'body' || whole === 'form') && isConsole && takesPassword(value?.route));
      if (hasSecrets)
        return report(
          'SVC625',
          module,
          part,
          `the whole "${whole!}" of the request is written to the log, including passwords and tokens`,
        );
    }
  }
}

/** Functions that receive a password as a person typed it. */
const TAKES_PASSWORD = /^svc\.(?:checkPassword|hashPassword)$/;

/** SVC625: texts of the log that hold an input which the program checks or hashes as a password. */
export class LoggedPasswords {
  readonly #report: ReportNode;
  readonly #passwords = new Set<string>();
  readonly #logged: {
    readonly ids: readonly string[];
    readonly node: Node;
    readonly module: SourceModule;
  }[] = [];

  constructor(report: ReportNode) {
    this.#report = report;
  }

  visit({ call, meaning, module, value }: Site): void {
    const [first] = call.args;
    if (TAKES_PASSWORD.test(meaning)) for (const id of idsIn(value(first) ?? KNOWN)) this.#passwords.add(id);
    if (!isLog(call)) return;
    const isConsole = pathOf(call.callee)!.startsWith('console.');
    for (const node of call.args) {
      const ids = loggedIds(value(node), isConsole);
      if (ids.length > 0) this.#logged.push({ ids, node, module });
    }
  }

  finish(): void {
    for (const { ids, node, module } of this.#logged)
      if (ids.some((id) => [...this.#passwords].some((password) => holds(id, password))))
        this.#report(
          'SVC625',
          module,
          node,
          'the log contains an input that the program checks as a password, so every reader of the log can use the password',
        );
  }
}

/** Returns the ids of inputs in a text of the log. The logger of this package masks members by their names. */
function loggedIds(value: Value | undefined, isConsole: boolean, depth = 0): readonly string[] {
  if (value === undefined || depth > 3) return [];
  const isMasked = value.source !== undefined && !isConsole;
  const inner = [...(value.members ?? [])].flatMap(([key, member]) =>
    !isConsole && LOGGED.test(bare(key)) ? [] : loggedIds(member, isConsole, depth + 1),
  );
  return [...(isMasked && value.source.whole !== undefined ? [] : idsIn({ texts: value.texts })), ...inner];
}

/** Whether a logged input is the password, or the object with the password. */
function holds(id: string, password: string): boolean {
  const whole = id.replace(/ json$/, '');
  return id === password || password.startsWith(`${whole}.`);
}

function takesPassword(route: Parameters<typeof specOf>[0] | undefined): boolean {
  if (route === undefined) return false;
  const spec = specOf(route);
  const input = entryOf(spec, 'form') ?? entryOf(spec, 'body');
  const type = input === undefined ? undefined : (literal(input, route.module) ?? input);
  const text = type === undefined ? '' : route.module.source.slice(type.start, type.end);
  const path = route.call.args[0]?.type === 'text' ? route.call.args[0].value : '';
  return /password|secret|token/i.test(text) || /login|password|token|signup|register/i.test(path);
}

const REVEALED =
  /^(?:password|passwd|pwd|passwordhash|hashedpassword|passwordsalt|clientsecret|privatekey|apisecret|totpsecret|mfasecret)$/;

/** SVC626: secrets, stack traces and environment variables in replies. */
function findRevealed(sources: Sources, report: ReportNode): void {
  for (const { module, node } of sources.all('entry')) {
    if (node.parent?.type !== 'object' || !REVEALED.test(bare(node.key ?? '')) || node.value === undefined)
      continue;
    if (
      node.value.type === 'text' ||
      node.value.type === 'value' ||
      (node.value.type === 'name' && node.value.name === 'undefined')
    )
      continue;
    if (isReturned(node.parent, sources))
      report(
        'SVC626',
        module,
        node,
        `the reply contains "${node.key!}", which clients should not see: every client receives the value`,
      );
  }
}

/** A node with its module. */
interface Spot {
  readonly node: Node;
  readonly module: SourceModule;
}

/** SVC626: environment variables, stack traces and rows with a secret column in values that a handler returns. */
export class RevealedValues {
  readonly #report: ReportNode;
  readonly #tables: ReadonlyMap<string, string>;

  constructor(sources: Sources, report: ReportNode) {
    this.#report = report;
    this.#tables = tablesWithSecrets(sources);
  }

  visit({ call, meaning, module, route, value }: Site): void {
    if (
      /^svc\.(?:reply|JSONResponse|HTMLResponse|TextResponse|HttpResponse)$|^Response(?:\.json)?$/.test(
        meaning,
      )
    )
      this.judge(value(call.args[0]), route, { node: call.args[0] ?? call, module });
  }

  /** Judges a value that a handler returns, or passes to a function that makes a reply. */
  judge(value: Value | undefined, route: RouteCall | undefined, reply?: Spot): void {
    // a response schema removes members that it does not declare
    if (route !== undefined && entryOf(specOf(route), 'response') !== undefined) return;
    this.#judge(value, reply, 0);
  }

  #judge(value: Value | undefined, reply: Spot | undefined, depth: number): void {
    if (value === undefined || depth > 4) return;
    const parts = value.texts.flat().flatMap((part) => (part.kind === 'own' ? (part.made ?? []) : []));
    for (const made of [...parts, ...(value.whole === undefined ? [] : [value.whole])]) {
      const message = isUnderCondition(made.node, made.module) ? undefined : this.#messageOf(made, value);
      if (message === undefined) continue;
      const { module, node } = made.by === 'Error.stack' ? (reply ?? made) : made;
      this.#report('SVC626', module, node, message);
    }
    for (const member of value.members?.values() ?? []) this.#judge(member, reply, depth + 1);
    this.#judge(value.items, reply, depth + 1);
  }

  #messageOf({ by, node, module }: Made, { members }: Value): string | undefined {
    if (by === 'Error.stack')
      return 'the reply shows clients the stack trace of an error, with file paths and package names';
    if (by === 'process.env')
      return 'the reply contains all environment variables, including passwords and tokens';
    const [table, column] = (node.type === 'call' && secretColumnOf(node, module, this.#tables)) || [];
    // a member of the same name replaces the column: { ...user, password: undefined }
    const isSent = table !== undefined && members?.has(column ?? '') !== true;
    return isSent
      ? `the reply contains rows of the table "${table}" with the secret column "${column}": every client receives the values of the column`
      : undefined;
  }
}

/** Whether a value depends on a condition about the environment: `env === 'prod' ? null : error.stack`. */
function isUnderCondition(node: Node, { source }: SourceModule): boolean {
  for (let at = node.parent; at !== undefined && at.type !== 'function'; at = at.parent) {
    const test =
      at.type === 'choice' || at.type === 'if' ? at.test : at.type === 'binary' ? at.left : undefined;
    if (test !== undefined && /prod|dev|debug|env|\btest/i.test(source.slice(test.start, test.end)))
      return true;
  }
  return false;
}

/** Whether a handler returns a value directly and has no response schema that could remove it. */
function isReturned(node: Node, sources: Sources): boolean {
  const fn = functionAround(node);
  if (fn === undefined || !sources.handlers.isHandler(fn)) return false;
  const route = sources.handlers.routeOf(fn);
  if (route !== undefined && entryOf(specOf(route), 'response') !== undefined) return false;
  let at: Node = node;
  for (let up = node.parent; up !== undefined && up !== fn; at = up, up = up.parent) {
    if (up.type === 'leave') return up.how === 'return';
    if (up.type === 'call' && !/^(?:reply|json|JSONResponse|map)$/.test(calledName(up) ?? '')) return false;
    if (up.type === 'statement' || up.type === 'declarator' || up.type === 'if' || up.type === 'binary')
      return false;
  }
  return fn.isExpression && fn.body[0] === at;
}

/** SVC627: accounts that code finds by an unverified e-mail address. */
function findUnverifiedMail(sources: Sources, report: ReportNode): void {
  const named = new Set<Fn>();
  for (const { module, node } of sources.all('entry'))
    if (node.key === 'onUser' && node.value?.type === 'name') {
      const fn = sources.handlers.resolve(node.value, module);
      if (fn !== undefined) named.add(fn);
    }
  for (const { module, node: fn } of sources.all('function')) {
    if (nameOfCallback(fn) !== 'onUser' && !named.has(fn)) continue;
    const code = module.source.slice(fn.start, fn.end);
    if (/verified/i.test(code)) continue;
    walk(fn, (node) => {
      if (node.type !== 'call' || node.isNew || !isLookup(node, module)) return;
      const mail = node.args.find((arg) => mentions(arg, (word) => word === 'email'));
      if (mail !== undefined)
        report(
          'SVC627',
          module,
          node,
          'the account is found by an e-mail address that may be unverified: an attacker who enters this address at the login provider gets the account',
        );
      return;
    });
  }
}

function isLookup(call: Call, module: SourceModule): boolean {
  const name = calledName(call) ?? '';
  const [statement] = call.args;
  const text = statement === undefined ? '' : module.source.slice(statement.start, statement.end);
  return /^(?:find|get|lookup|load|userBy|accountBy|select|by)\w*$/i.test(name) ||
    /^(?:fetchOne|fetchAll|scalar)$/.test(name)
    ? !/\binsert\b/i.test(text)
    : false;
}

const SECRET_COLUMN =
  /(?:^|[\s,."`])(\w*(?:password|passwd)(?:_?hash)?|\w*(?:secret|api_?key|private_?key|_hash|passwordhash))(?=[\s,"`]|$)/i;

/** Returns the table of a query and the secret column that its rows hold; undefined if there is none. */
function secretColumnOf(
  call: Call,
  module: SourceModule,
  secretTables: ReadonlyMap<string, string>,
): readonly [table: string, column: string] | undefined {
  const text = statementOf(call.args[0], module);
  const [, columns, table] = /^\s*select\s+([^]*?)\s+from\s+["`]?(\w+)/i.exec(text) ?? [];
  if (columns === undefined || table === undefined) return undefined;
  const named = SECRET_COLUMN.exec(columns)?.[1];
  const starred = /^(?:\w+\.)?\*$/.test(columns.trim()) ? secretTables.get(table.toLowerCase()) : undefined;
  const column = named ?? starred;
  return column === undefined || /csrf|file_?hash|content_?hash|block_?hash|commit_?hash/i.test(column)
    ? undefined
    : [table, column];
}

/** Returns the SQL text of an expression. The result is empty if the source does not contain the text. */
function statementOf(node: Node | undefined, module: SourceModule): string {
  const value = node === undefined ? undefined : literal(node, module);
  return value?.type === 'text' ? value.value : value?.type === 'template' ? value.texts.join('?') : '';
}

/** Returns the tables that have a secret column, each with the name of that column. */
function tablesWithSecrets(sources: Sources): Map<string, string> {
  const found = new Map<string, string>();
  for (const { source } of sources.project.modules)
    for (const [, table, columns] of source.matchAll(
      /(?:insert\s+into|create\s+table(?:\s+if\s+not\s+exists)?)\s+["`]?(\w+)["`]?\s*\(([^()]*)\)?/gi,
    )) {
      const column = SECRET_COLUMN.exec(columns!)?.[1];
      if (column !== undefined) found.set(table!.toLowerCase(), column);
    }
  return found;
}

const DATABASE = /(?:^|\.)#?_?(?:db|tx|database)$/i;
/** SQL statements that always return a row. */
const ALWAYS_ONE = /\b(?:count|sum|max|min|avg|exists|coalesce)\s*\(|\breturning\b|^\s*select\s+\d/i;

/**
 * SVC615: code that reads a member of a row although the query may find none: `const user = await
 * db.fetchOne(…); return user.name`.
 */
export function findAbsentRows(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'fetchOne') continue;
    if (!DATABASE.test(pathOf(call.callee.object) ?? '')) continue;
    const text = statementOf(call.args[0], module);
    const declarator = call.parent?.type === 'await' ? call.parent.parent : undefined;
    if (text === '' || ALWAYS_ONE.test(text) || declarator?.type !== 'declarator') continue;
    const use = unprovedUse(declarator, module);
    if (use !== undefined)
      report(
        'SVC615',
        module,
        use,
        'fetchOne() returns undefined if no row matches, but the code reads a member of the row, so the client gets status 500',
      );
  }
}

/**
 * Returns the first place that reads a member of a row. Undefined if the function tests whether the row
 * exists.
 */
function unprovedUse(
  declarator: Extract<Node, { type: 'declarator' }>,
  module: SourceModule,
): Node | undefined {
  const { target } = declarator;
  const fn = functionAround(declarator);
  if (target.type === 'object') return target;
  if (target.type !== 'name' || fn === undefined) return undefined;
  let first: Node | undefined;
  let isProved = false;
  walk(fn, (node) => {
    if (node.type !== 'name' || node.name !== target.name || node === target) return;
    const { parent } = node;
    const isRead = parent?.type === 'member' && parent.object === node;
    if (!isRead || module.source.startsWith('?.', node.end))
      isProved = true; // code tests the row, or passes it to a function that may test it
    else first ??= parent;
  });
  return isProved ? undefined : first;
}
