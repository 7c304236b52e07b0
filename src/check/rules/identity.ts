/**
 * Rules about clients that name themselves (SVC210, SVC646), rooms of WebSockets that other handlers protect (SVC640), ids
 * of persons that a column takes for one (SVC665), and sessions that outlive a password (SVC674).
 */
import { literal } from '../reader/constants.ts';
import { branchIf, conditionAround, functionAround, leaveIn, methodOf } from '../reader/nodes.ts';
import { ownersOf } from '../statements/owners.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { isEmpty, isGuarded, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { isPublicRoute } from '../values/functions.ts';
import { SUBJECT } from '../values/ours.ts';
import { isOfPrincipal } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { isStored, literalOf } from '../values/text.ts';
import { ABSENT, clientIn, hasMark, idsIn, madeIn, withoutMembers } from '../values/value.ts';
import { mayVerify } from './ownership.ts';
import { isOfToken, isPassword, isToken, writtenBy } from './races.ts';
import { ROLE } from '../names.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Token } from '../statements/outline.ts';
import type { Owners } from '../statements/owners.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { KeptCall, Run, Trace } from '../statements/trace.ts';
import type { RouteCall } from '../values/functions.ts';
import type { ClientPart } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about the identity of clients. */
export const IDENTITY_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC210', watch: watchForwarded },
  { id: 'SVC640', judge: findForeignRooms },
  {
    id: 'SVC646',
    severity: 'warning',
    cwe: [290, 345],
    sources: ['OWASP API2:2023 Broken Authentication'],
    why: 'Every client can send any header field, so every client can be any user',
    remedy:
      'Authenticate the client: me: Depends(BearerAuth()). If a proxy sets the field, let the proxy send a signed token, and verify it',
    wrong: 'provide({ headers: User, security }, ({ headers }) => ({ id: headers.xUserId }))',
    right: 'provide({ claims: Depends(BearerAuth()) }, ({ claims }) => ({ id: claims.sub }))',
    judge: findNamedClients,
  },
  { id: 'SVC646', onRun: findFreeTokens },
  {
    id: 'SVC665',
    severity: 'warning',
    cwe: [178],
    sources: ['CWE-178 Improper Handling of Case Sensitivity'],
    why: 'MySQL and MariaDB take "abC" and "ABc" for one text, but a login provider may give both to different persons: the second one gets the account of the first',
    remedy:
      'Give the column a binary collation, in a migration: subject varchar(255) character set utf8mb4 collate utf8mb4_bin not null',
    wrong: 'create table account (subject varchar(255) not null unique)',
    right: 'create table account (subject varchar(255) collate utf8mb4_bin not null unique)',
    judge: findFoldedSubjects,
  },
  {
    id: 'SVC674',
    severity: 'warning',
    cwe: [613],
    sources: ['OWASP ASVS 5.0: 7.4.3'],
    why: 'An owner changes the password because someone else may have a session, and this session goes on',
    remedy:
      'Delete the other sessions in one transaction with the change: delete from session where account = ?',
    wrong: "db.execute('update account set hash = ? where id = ?', [hash, me.id])",
    right: "… await tx.execute('delete from session where account = ?', [me.id]);",
    judge: findLastingSessions,
  },
];

/** SVC665: the id of a person at a provider in a column that compares texts without case. */
function findFoldedSubjects(trace: Trace, report: ReportAt): void {
  const ofIssuer = new Set(
    trace.runs.filter(({ guards }) => guards.has('svc.IssuerAuth')).flatMap((run) => trace.sentBy(run)),
  );
  const told = new Set<string>();
  for (const sending of trace.sent) {
    if (!trace.isCaseless(sending)) continue;
    const { call, module, equal, written } = sending;
    const keys = trace.tableOf(sending)?.keys.flat() ?? [];
    for (const { table, column, kind, value } of [
      ...equal,
      ...written.filter((each) => keys.includes(each.column)),
    ]) {
      const isSubject = hasMark(value, SUBJECT) || (kind === 'principal' && ofIssuer.has(sending));
      const key = `${table}.${column}`;
      if (!isSubject || told.has(key) || trace.tables.get(table)?.caseless.includes(column) !== true)
        continue;
      told.add(key);
      report(
        { module, node: call },
        `the column "${column}" of the table "${table}" has the ids of persons at a login provider, and compares them without case: two persons may be one`,
      );
    }
  }
}

/** Header fields with the address of a client: RFC 7239, and those of proxies. */
const ADDRESS_FIELD =
  /^headers\.(?:forwarded|x-?forwarded-?for|x-?real-?ip|x-?client-?ip|true-?client-?ip|cf-?connecting-?ip)$/i;

/** SVC210: a header field with the address of a client decides. */
function watchForwarded(report: ReportAt): Watch {
  const judge = (module: SourceModule, node: Node, ...values: readonly (Value | undefined)[]): void => {
    const what = values
      .map((value) => clientIn(value)?.origin.what ?? '')
      .find((each) => ADDRESS_FIELD.test(each));
    if (what !== undefined)
      report(
        { module, node },
        `${what} decides, but every client can send it: a client can name any address`,
        {
          severity: 'warning',
          remedy: 'Compare req.ip, and name the proxies: new Svc({ trustProxy: ["10.0.0.1"] })',
        },
      );
  };
  return {
    onCompare({ node, module, sides }) {
      if (!sides.some(isEmpty)) judge(module, node, ...sides);
    },
    onCall({ call, module, meaning, receiver, value }) {
      if (meaning === 'svc.RateLimiter.take') return judge(module, call, value(call.args[1]));
      const method = methodOf(call);
      const first = value(call.args[0]);
      // a comma or colon only takes the field apart
      if (
        /^(?:startsWith|endsWith|includes|has|test|check)$/.test(method) &&
        !/^[\s,;:]$/.test(constantIn(first) ?? '')
      )
        judge(module, call, receiver, first);
    },
  };
}

/** Inputs that a client writes, besides the content of its request. */
const NAMING: ReadonlySet<string> = new Set(['headers', 'cookies', 'query']);

function findNamedClients(trace: Trace, report: ReportAt, sources: Sources): void {
  const seen = new Set<Fn>();
  for (const run of trace.runs) for (const each of run.dependencies) judge(each);
  findOwners(trace, report);
  findTenants(trace, report);
  findChosenRoles(trace, report, seen);

  /** Judges a dependency that declares `security`: does it return anything but inputs of the client? */
  function judge({ depends, gives }: Value, depth = 0): void {
    if (depends === undefined || depth > 6) return;
    for (const member of depends.spec?.members?.values() ?? []) judge(member, depth + 1);
    const fn = depends.fn?.fn;
    if (fn === undefined || seen.has(fn) || depends.spec?.members?.has('security') !== true) return;
    seen.add(fn);
    const named = namedIn(gives) ?? comparedWithConstants(fn, gives, trace);
    if (named === undefined) tellWords(fn, trace, report);
    else if (!verifies(fn, trace))
      report(
        { module: sources.handlers.homeOf(fn), node: fn },
        `${named.origin.what} alone says who the client is, and nothing verifies it`,
      );
  }
}

/** Tokens for an account that the client names: of any client, or of each authenticated one. */
function findFreeTokens(run: Run, trace: Trace, report: ReportAt): void {
  const sent = trace.sentBy(run);
  const calls = trace.calls.by(run);
  const isLogin = calls.some(({ meaning }) => meaning === 'svc.checkPassword');
  const isRestricted = isGuarded(run) ? ownersOf(trace).isRestricted(run) : mayVerify(run, trace);
  if (run.route === undefined || isLogin || isRestricted || sent.some((each) => isOfToken(each, trace)))
    return;
  for (const { call, module, meaning, args } of calls) {
    const [subject, , options] = args;
    // a token with a purpose of its own, or for a device, is no login
    const isNamed = ['type', 'audience'].some((key) => options?.members?.has(key) === true);
    if (meaning !== 'svc.createToken' || isNamed) continue;
    const rows = rowsIn(subject);
    const read = sent.find((each) => rows.includes(each.call) && each.isByInput && !each.isTied);
    if (read !== undefined)
      report(
        { module, node: call },
        `${isGuarded(run) ? 'each authenticated client' : 'every client'} gets a token of any account that it names, because nothing proves that the account is its own`,
        {
          remedy:
            'Check the password or a code of the account first, or require a role: requireRoles("support")',
        },
      );
  }
}

/** Returns the input of which a value consists; undefined if a part of the value comes from elsewhere. */
function namedIn(value: Value | undefined): ClientPart | undefined {
  if (value === undefined) return undefined;
  const values = value.members === undefined ? [value] : [...value.members.values()];
  const parts = values.map((each) => partOf(each));
  return parts.length > 0 && parts.every((part) => part !== undefined) ? parts[0] : undefined;
}

function partOf({ texts }: Value): ClientPart | undefined {
  const part = clientIn({ texts });
  const isOnly = texts.every((text) => text.every(({ kind }) => kind !== 'own'));
  return part !== undefined && isOnly && NAMING.has(part.origin.input) ? part : undefined;
}

/** Calls that verify nothing of their arguments. */
const INDIFFERENT = /^(?:String|Number)$|^svc\.(?:Logger|BackgroundTasks)|^svc\/db\./;

/** Whether a function compares an input, or hands it to code that may verify it. */
function verifies(fn: Fn, trace: Trace): boolean {
  const only = { functions: new Set([fn]) };
  if (trace.sentBy(only).length > 0) return true;
  const isCompared = trace.compared
    .by(only)
    // a word of the sources is no secret
    .some(
      ({ sides }) =>
        !sides.some((side) => isEmpty(side) || constantIn(side) !== undefined) &&
        sides.some((side) => clientIn(side) !== undefined),
    );
  if (isCompared) return true;
  return trace.calls
    .by(only)
    .some(({ call, meaning, inputs }) => !call.isNew && !INDIFFERENT.test(meaning) && inputs.size > 0);
}

/** Returns the input that a guard compares with a word of the sources, if the guard returns nothing but constants. */
function comparedWithConstants(fn: Fn, gives: Value | undefined, trace: Trace): ClientPart | undefined {
  const given = gives?.members === undefined ? [gives] : [...gives.members.values()];
  if (!given.every((value) => value === undefined || value === ABSENT || constantIn(value) !== undefined))
    return undefined;
  const sides = trace.compared
    .by({ functions: new Set([fn]) })
    .filter((each) => each.sides.some((side) => (constantIn(side) ?? '') !== ''))
    .flatMap((each) => each.sides);
  return sides.flatMap((side) => partOf(side) ?? []).at(0);
}

/** Inputs that decide as the role of the client, although a guard has authenticated it. Guards themselves are judged before. */
function findChosenRoles(trace: Trace, report: ReportAt, judged: ReadonlySet<Fn>): void {
  for (const run of trace.runs) {
    if (!isGuarded(run) || trace.requiresRights(run) || trace.testsRights(run)) continue;
    for (const { node, module, sides } of [...trace.compared.by(run), ...trace.tested.by(run)]) {
      const input = sides.flatMap((side) => inputsOf(side)).find(namesRole);
      const isOfProgram = sides.some((side) => side === ABSENT || constantIn(side) !== undefined);
      if (input === undefined || !isOfProgram || !allows(node)) continue;
      const around = functionAround(node);
      if (around !== undefined && judged.has(around)) continue;
      report({ module, node }, `${input} decides what the client may do, and every client can send it`, {
        remedy:
          'Read the role from the verified token, or from the row of the client: Depends(requireRoles("admin"))',
      });
    }
  }
}

/** Whether an input of the request itself, and no member of a token, is named like a role. */
function namesRole(input: string): boolean {
  const [, name = '', ...more] = input.split('.');
  return more.length === 0 && ROLE.test(plain(name).replaceAll('-', ''));
}

/** Whether the branch where a condition is true goes on. A branch that refuses a role protects it. */
function allows(condition: Node): boolean {
  const isTrue = condition.type !== 'binary' || !condition.operator.startsWith('!');
  const { whole } = conditionAround(condition, /./);
  const { parent } = whole;
  if (/^(?:choice|leave|function)$/.test(parent?.type ?? '')) return true;
  const branch = branchIf(condition, isTrue, /./);
  return parent?.type === 'if' && (branch === undefined || leaveIn(branch, /^throw$/) === undefined);
}

/** Reports the tests of a guard in which an input that equals a word of the sources gives a principal of the sources. */
function tellWords(fn: Fn, trace: Trace, report: ReportAt): void {
  for (const { node, module, sides } of trace.compared.by({ functions: new Set([fn]) })) {
    const part = sides.flatMap((side) => partOf(side) ?? []).at(0);
    const isWord = sides.some((side) => (constantIn(side) ?? '') !== '');
    const isEqual = node.type === 'binary' && /^={2,3}$/.test(node.operator);
    const { parent } = node;
    const isTest = (parent?.type === 'if' || parent?.type === 'choice') && parent.test === node;
    if (part === undefined || !isWord || !isEqual || !isTest || !givesConstant(parent.yes, module)) continue;
    report(
      { module, node },
      `every client that sends ${part.origin.what} with a word of the sources passes the guard as a principal that the sources name`,
      {
        remedy:
          'Compare a secret in constant time: timingSafeEqual(sha256(given), sha256(process.env.SERVICE_KEY))',
      },
    );
  }
}

/** Whether a branch is, or returns, a value that the sources write. */
function givesConstant(node: Node | undefined, module: SourceModule): boolean {
  if (node?.type === 'block') return givesConstant(node.body.at(-1), module);
  if (node?.type === 'leave') return node.how === 'return' && givesConstant(node.value, module);
  const written = literal(node, module);
  if (written?.type === 'object')
    return written.entries.every((entry) => entry.type === 'entry' && givesConstant(entry.value, module));
  return written?.type === 'text' || (written?.type === 'value' && written.raw !== 'null');
}

/** Header fields that hold the owner of rows: a statement selects rows by the column to which another one writes it. */
function findOwners(trace: Trace, report: ReportAt): void {
  const open = trace.runs.filter((run) => !isGuarded(run));
  // visitors without an account may name themselves
  if (open.some(({ route }) => isPublicRoute(route))) return;
  const sent = open.flatMap((run) => trace.sentBy(run));
  const written = sent
    .filter(({ outline }) => outline.verb === 'insert')
    .flatMap((each) => headersIn(each, 'written', trace));
  for (const sending of sent)
    for (const { key, part, token } of headersIn(sending, 'equal', trace)) {
      if (!written.some((each) => each.key === key)) continue;
      report(
        sending.nodeAt(token),
        `${part.origin.what} alone says whose rows the statement selects, and every client can send it`,
      );
    }
}

/**
 * Header fields that widen an authenticated client: a dependency puts one beside the principal, nothing compares it, and
 * it alone selects the rows.
 */
function findTenants(trace: Trace, report: ReportAt): void {
  const seen = new Set<Token>();
  for (const run of trace.runs) {
    const widened = run.dependencies.filter(({ gives }) => isWidened(gives));
    if (widened.length === 0 || trace.requiresRights(run)) continue;
    for (const sending of trace.sentBy(run))
      for (const { part, token } of headersIn(sending, 'equal', trace)) {
        const isGiven = widened.some(({ gives }) => idsIn(gives).includes(part.id));
        if (!isGiven || sending.isTied || isJudged(part, run, trace) || seen.has(token)) continue;
        seen.add(token);
        report(
          sending.nodeAt(token),
          `${part.origin.what} alone says whose rows the statement selects, and nothing compares it with the authenticated client`,
          {
            remedy:
              'Take it from the verified token, or compare both: if (headers.xTenant !== me.tenant) throw new Forbidden()',
          },
        );
      }
  }
}

/** Whether an object holds the principal beside an input of the client. */
function isWidened(value: Value | undefined): boolean {
  const members = [...(value?.members?.values() ?? [])];
  return (
    members.some((member) => madeIn(member).some(isOfPrincipal)) &&
    members.some((member) => partOf(member) !== undefined)
  );
}

/** Whether code compares an input, hands it to other code, or sends it beside the principal. */
function isJudged({ id }: ClientPart, run: Run, trace: Trace): boolean {
  const has = (value: Value | undefined): boolean => idsIn(value).includes(id);
  return (
    trace.compared.by(run).some(({ sides }) => !sides.some(isEmpty) && sides.some(has)) ||
    trace.calls.by(run).some(({ meaning, inputs }) => !INDIFFERENT.test(meaning) && inputs.has(id)) ||
    trace
      .sentBy(run)
      .some((sending) => sending.isTied && (sending.bindings ?? []).some(({ value }) => has(value)))
  );
}

function headersIn(
  sending: Sending,
  use: 'written' | 'equal',
  { tables }: Trace,
): readonly (Pick<Binding, 'token'> & { readonly key: string; readonly part: ClientPart })[] {
  return sending[use].flatMap(({ table, column, value, token }) => {
    const part = clientIn(withoutMembers(value));
    const known = tables.get(table);
    // a key of its own names the request, such as an idempotency key
    const isOwner = known !== undefined && !holdsKey(known, [column]);
    if (part === undefined || isStored(part) || !/^(?:headers|cookies)$/.test(part.origin.input) || !isOwner)
      return [];
    return [{ key: `${table}.${column} ${part.origin.what}`, part, token }];
  });
}

const JOINS = 'svc.Socket.join';
const BROADCASTS = /^svc\.(?:Socket|rooms|RoomSender)\.broadcast/;

/**
 * SVC640: a room that the client names, although other handlers ask whether what the room stands for belongs to the client.
 */
function findForeignRooms(trace: Trace, report: ReportAt): void {
  const owners = ownersOf(trace);
  const joins = trace.runs.flatMap((run) =>
    trace.calls.by(run).flatMap((call) => (call.meaning === JOINS ? [{ run, call }] : [])),
  );
  if (joins.length === 0) return;
  const protectedNames = namesIn(trace, owners);
  for (const { run, call } of joins) {
    if (owners.isRestricted(run) || isPublicRoute(run.route)) continue;
    const tied = owners.tiedInputs(run, call.call);
    const [room] = call.args;
    const input = inputsOf(room).find((each) => !tied.has(each));
    if (input === undefined || inputsOf(room).some((each) => tied.has(each))) continue;
    const name = [...namesOf(input, run.route), ...roomsIn(call)].find((each) => protectedNames.has(each));
    if (name === undefined) continue;
    report(
      call,
      `the client joins a room by ${input} alone, but other handlers ask whether "${name}" belongs to the client`,
      {
        severity: 'warning',
        remedy:
          'Ask first: const found = await db.fetchOne("select 1 from member where room = ? and account = ?", [room, me.sub]); if (!found) throw new Forbidden()',
      },
    );
  }
}

/**
 * Returns the names of what handlers compare beside the principal: inputs, columns, tables, and rooms to which they send.
 * Names that only writing handlers compare are left out if every client may read by them.
 */
function namesIn(trace: Trace, owners: Owners): ReadonlySet<string> {
  const isWriting = (run: Run): boolean =>
    trace.sentBy(run).some(({ isWrite }) => isWrite) ||
    trace.calls.by(run).some(({ meaning }) => BROADCASTS.test(meaning));
  const [writing, reading] = [trace.runs.filter(isWriting), trace.runs.filter((run) => !isWriting(run))];
  const open = new Set(
    reading
      .filter((run) => !owners.isRestricted(run) && owners.tiedInputs(run).size === 0)
      .flatMap((run) => trace.sentBy(run).flatMap(({ equal }) => equal.map((each) => ({ ...each, run }))))
      .filter(({ kind }) => kind === 'input')
      .flatMap(({ column, value, run }) => [
        singular(column),
        ...inputsOf(value).flatMap((input) => namesOf(input, run.route)),
      ]),
  );
  const names = new Set([
    ...namesOfRuns(reading, trace, owners, new Set()),
    ...namesOfRuns(writing, trace, owners, open),
  ]);
  names.delete('');
  return names;
}

function namesOfRuns(
  runs: readonly Run[],
  trace: Trace,
  owners: Owners,
  open: ReadonlySet<string>,
): readonly string[] {
  const isSentBy = ({ handler }: Sending): boolean =>
    runs.some(({ functions }) => handler !== undefined && functions.has(handler));
  const compared = owners.all
    .filter(({ sending }) => isSentBy(sending))
    .flatMap(({ sending, table }) => {
      const { equal, target } = sending;
      return [
        ...equal.filter(({ kind }) => kind === 'input').flatMap(({ column }) => [column, table]),
        // a list of the rows that belong to the client, such as the channels of which it is a member
        ...(target === undefined || owners.shared.has(target) ? [] : [target]),
      ];
    });
  const tied = runs.flatMap((run) =>
    [...owners.tiedInputs(run)]
      .filter((input) => !namesOf(input, run.route).some((name) => open.has(name)))
      .flatMap((input) => [
        ...namesOf(input, run.route),
        ...trace.calls
          .by(run)
          .filter((call) => BROADCASTS.test(call.meaning) && inputsOf(call.args[0]).includes(input))
          .flatMap(roomsIn),
      ]),
  );
  return [...compared.map(singular).filter((name) => !open.has(name)), ...tied];
}

/** Returns the names of an input: its own, and the part of the path before it. */
function namesOf(input: string, route: RouteCall | undefined): readonly string[] {
  const name = input.split('.').at(-1)!; // split() always returns at least one part
  const [path] = route?.call.args ?? [];
  const before =
    path?.type === 'text' ? new RegExp(`([\\w-]+)/\\{${name}\\b`).exec(path.value)?.[1] : undefined;
  return [name, before ?? ''].map(singular).filter((each) => each !== '');
}

/** Returns the beginnings of the names of a room that a literal tells: `order:`. */
function roomsIn({ args: [room] }: KeptCall): readonly string[] {
  return (room?.texts ?? []).map((text) => literalOf(text.slice(0, 1))).filter((each) => each !== '');
}

/** Returns a name without `_`, without a final `id` and without the `s` of several. */
function singular(name: string): string {
  return plain(name).replace(/(?:ids?|s)$/, '');
}

/** SVC674: a password or a switch of an account, changed by a handler that leaves the sessions of the account alone. */
function findLastingSessions(trace: Trace, report: ReportAt): void {
  const sessions = sessionsIn(trace);
  if (sessions.length === 0) return;
  const names = new Set(sessions.map(({ target }) => target));
  const guards = trace.runs.flatMap((run) => guardedBy(run, trace));
  const logins = trace.runs
    .map((run) => trace.sentBy(run))
    .filter((sent) => sent.some((each) => sessions.includes(each)))
    .flat();
  for (const run of trace.runs) {
    const sent = trace.sentBy(run);
    if (sent.some((each) => each.isWrite && names.has(each.target))) continue;
    for (const change of sent.filter(({ outline }) => outline.verb === 'update')) {
      const table = change.target ?? '';
      const columns = writtenBy(change).map(({ column }) => column);
      // a guard that reads the account sees the change
      const isSeen = guards.some(
        (each) => each.tables.includes(table) && columns.some((column) => each.outline.names(column)),
      );
      const isOfSessions = sessions.some((each) =>
        trace.tableOf(each)?.references.some((to) => to.table === table),
      );
      if (isSeen || !isOfSessions) continue;
      const isOff = columns.some((column) => isSwitch(column, table, change, logins));
      if (!isOff && !change.written.some(isPassword)) continue;
      report(
        change.nodeAt(),
        `the ${isOff ? 'account is switched off' : 'password is changed'}, but its sessions in the table "${sessions[0]!.target}" stay valid`, // there is one: see above
      );
    }
  }
}

/** Returns the statements of the dependencies of a handler. */
function guardedBy({ handler, functions }: Run, trace: Trace): readonly Sending[] {
  return trace.sentBy({ functions: new Set([...functions].filter((fn) => fn !== handler)) });
}

/** Returns the statements that insert a session: a row with a random token by which a dependency finds its client. */
function sessionsIn(trace: Trace): readonly Sending[] {
  const found = new Set(
    trace.runs
      .flatMap((run) => guardedBy(run, trace))
      .filter((each) => each.outline.verb === 'select' && isOfToken(each, trace))
      .flatMap(({ tables }) => tables),
  );
  return trace.sent.filter(
    ({ outline, target, written }) =>
      outline.verb === 'insert' && found.has(target ?? '') && written.some(({ value }) => isToken(value)),
  );
}

/** Whether an update gives a constant to a column that a login compares with another one: `active = 1`. */
function isSwitch(
  column: string,
  table: string,
  { outline: { tokens } }: Sending,
  logins: readonly Sending[],
): boolean {
  const valueIn = (all: readonly Token[]): string | undefined => {
    const at = all.findIndex(({ name }, index) => name === column && all[index + 1]?.text === '=');
    return at === -1 ? undefined : all[at + 2]?.text;
  };
  const set = valueIn(tokens);
  return logins.some(({ outline, tables }) => {
    const asked = outline.verb === 'select' && tables.includes(table) ? valueIn(outline.tokens) : undefined;
    return asked !== undefined && asked !== '?' && set !== '?' && asked !== set;
  });
}
