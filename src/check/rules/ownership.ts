/**
 * Rules about rows that belong to a client (SVC640, SVC641): statements that leave out the owner, and columns with
 * rights that clients write.
 *
 * A column holds the owner of a row if a statement of the application compares it with the principal.
 */
import { entryOf } from '../reader/nodes.ts';
import { isOfPackage } from '../values/calls.ts';
import { clientIn, idsIn, madeIn } from '../values/value.ts';
import { isStored } from '../values/text.ts';
import { meaningOfCall } from '../sources.ts';
import { isGuarded } from '../statements/trace.ts';
import { namesSecret } from '../sources.ts';
import { isOfToken, isRelative, writtenBy } from './races.ts';
import type { ReportAt, SourceRule, Sources } from '../sources.ts';
import type { Site } from '../values/calls.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';

/** Rules about the owners of rows, sorted by id. */
export const OWNERSHIP_RULES: readonly SourceRule[] = [
  {
    id: 'SVC640',
    severity: 'error',
    phase: 'source',
    cwe: [639, 862],
    sources: ['OWASP API1:2023 Broken Object Level Authorization'],
    why: 'A client that counts up the id in the address reads or changes rows of other clients',
    remedy:
      'Compare the owner in the statement, too: where id = ? and owner = ?. If every client may have the rows, say so: // svc-allow SVC640: why',
    wrong: "db.fetchOne('select text from note where id = ?', [params.id])",
    right: "db.fetchOne('select text from note where id = ? and owner = ?', [params.id, me.sub])",
    judge: findForeignRows,
  },
  {
    id: 'SVC641',
    severity: 'warning',
    phase: 'source',
    cwe: [915],
    sources: ['OWASP API3:2023 Broken Object Property Level Authorization'],
    why: 'A client that writes its own role, balance or owner gives itself rights',
    remedy:
      'Leave the column out of the body and of the statement: class Patch extends Account.pick("name", "bio").partial() {}. Let a route that requires a role write it',
    wrong: "db.execute('update account set name = ?, role = ? where id = ?', [body.name, body.role, me.sub])",
    right: "db.execute('update account set name = ? where id = ?', [body.name, me.sub])",
    judge: findOwnRights,
    onCall: findChosenColumns,
  },
  {
    id: 'SVC647',
    severity: 'warning',
    phase: 'source',
    cwe: [1284, 839],
    why: 'A client that sends a negative amount receives what it should pay. Sums of floating-point numbers are not exact, so parts of cents appear and disappear',
    remedy: 'Declare the minimum, and count in whole cents: Field(int, { ge: 1, le: 1_000_000 })',
    wrong: 'cents: Field(int) … update wallet set cents = cents - ?',
    right: 'cents: Field(int, { ge: 1, le: 1_000_000 }) … update wallet set cents = cents - ?',
    judge: findAmounts,
  },
];

/** A statement that compares a column with the principal. */
interface Tie {
  readonly sending: Sending;
  readonly owner: string;
  /** Columns of the same table that the statement compares with an input. */
  readonly keys: readonly string[];
}

function isEqual(use: Binding['use']): boolean {
  return use === 'equal';
}

/** Returns the statements that compare a column of a table with the principal, by tables. */
function tiesIn({ sent }: Trace): ReadonlyMap<string, readonly Tie[]> {
  const ties = sent.flatMap((sending) =>
    (sending.bindings ?? [])
      .filter(({ kind, use }) => kind === 'principal' && isEqual(use))
      .map(({ table, column }): readonly [string, Tie] => [
        table,
        { sending, owner: column, keys: keysOf(sending, table) },
      ]),
  );
  return new Map(
    [...Map.groupBy(ties, ([table]) => table)].map(([table, all]) => [table, all.map(([, tie]) => tie)]),
  );
}

function keysOf({ bindings = [] }: Sending, table: string): readonly string[] {
  return bindings
    .filter((each) => each.table === table && each.kind === 'input' && isEqual(each.use))
    .map(({ column }) => column);
}

/** Whether code decides which of the authenticated clients may continue. */
function isRestricted(run: Run, trace: Trace): boolean {
  return requiresRights(run) || trace.testsPrincipal(run) || trace.hasTestingMiddleware;
}

/** Whether a guard of a handler requires a role or a scope. */
export function requiresRights({ guards }: Run): boolean {
  return [...guards].some((type) => /^svc\.require(?:Roles|Scopes|If)$/.test(type));
}

/** SVC640: statements that select or change a row by an input, where the owner of the row is not compared. */
function findForeignRows(trace: Trace, report: ReportAt, sources: Sources): void {
  if (hasRowPolicies(trace, sources)) return;
  findUnverified(trace, report);
  const ties = tiesIn(trace);
  const shared = sharedTables(trace, ties);
  const accounts = accountsIn(trace, ties);
  for (const run of trace.runs) {
    if (!isGuarded(run) || isRestricted(run, trace)) continue;
    const sent = trace.sentBy(run);
    if (
      sent.some(
        ({ bindings = [] }) =>
          bindings.some(({ kind, use }) => kind === 'principal' && isEqual(use)) && keysAnywhere(bindings),
      )
    )
      continue;
    for (const sending of sent) {
      const key = keyOf(sending);
      if (key !== undefined)
        judgeRows(sending, key, ties.get(key.table) ?? [], { trace, report, shared, accounts });
    }
  }
}

function keysAnywhere(bindings: readonly Binding[]): boolean {
  return bindings.some(({ kind, use }) => kind === 'input' && isEqual(use));
}

/** Returns the input by which a statement selects its rows; undefined if other values decide, too. */
function keyOf({ bindings, outline, isTied }: Sending): Binding | undefined {
  if (bindings === undefined || isTied || !/^(?:select|update|delete)$/.test(outline.verb)) return undefined;
  const deciding = bindings.filter(({ use }) => use !== 'written');
  if (deciding.some(({ kind }) => kind === 'other')) return undefined;
  return deciding.find(({ kind, use, table }) => kind === 'input' && isEqual(use) && table !== '');
}

interface Findings {
  readonly trace: Trace;
  readonly report: ReportAt;
  /** Tables whose rows every client reads. */
  readonly shared: ReadonlySet<string>;
  /** Tables whose rows are clients. */
  readonly accounts: ReadonlySet<string>;
}

function judgeRows(
  sending: Sending,
  key: Binding,
  ties: readonly Tie[],
  { trace, report, shared, accounts }: Findings,
): void {
  const { table } = key;
  const known = trace.tables.get(table);
  if (!sending.isWrite && shared.has(table)) return;
  if (isCounter(sending)) return;
  const columns = keysOf(sending, table);
  // a row that is the account itself may be read and mentioned by others
  const owned = ties.filter(({ owner }) => !columns.includes(owner));
  const alike = owned.find(({ keys }) => keys.length > 0 && columns.every((column) => keys.includes(column)));
  // a statement for one row selects by a key, also if the sources do not create its table
  const isKey =
    known === undefined
      ? sending.isOfOne && !namesSecret(key.column) && !isOfToken(sending, trace)
      : known.keys.some(([only, ...more]) => more.length === 0 && only === key.column);
  const tie = alike ?? (isKey ? owned[0] : undefined);
  const reference = isKey ? known?.references.find((each) => accounts.has(each.table)) : undefined;
  const reason =
    tie !== undefined
      ? `another statement also compares the column "${tie.owner}" with the client`
      : reference !== undefined && !columns.includes(reference.column)
        ? `its column "${reference.column}" refers to the table "${reference.table}", whose rows are the clients`
        : undefined;
  if (reason === undefined) return;
  const { node, module } = sending.nodeAt(key.token);
  report(
    module,
    node,
    `every authenticated client ${sending.isWrite ? 'changes' : 'reads'} any row of the table "${table}", because ${inputOf(key.value)} alone chooses it: ${reason}`,
    alike === undefined ? { severity: 'warning' } : {},
  );
}

/** Returns the tables of which a statement compares a single key with the principal. */
function accountsIn({ tables }: Trace, ties: ReadonlyMap<string, readonly Tie[]>): ReadonlySet<string> {
  const isAccount = (table: string, { owner }: Tie): boolean =>
    tables.get(table)?.keys.some((key) => key.length === 1 && key[0] === owner) === true;
  return new Set(
    [...ties].flatMap(([table, all]) => (all.some((tie) => isAccount(table, tie)) ? [table] : [])),
  );
}

/** Calls that verify a message, or ask another service whether it is true. */
const VERIFIES =
  /^crypto\.(?:timingSafeEqual|createHmac|createVerify|verify|subtle)|^(?:webcrypto\.)?subtle\.|^svc\.(?:checkPassword|verifyToken|Session)|^(?:fetch|undici\.\w+)$|^svc\/oauth\./;

/** SVC640: rows that a message of an unknown client changes, which nothing verifies. */
function findUnverified(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs) {
    if (run.route === undefined || isGuarded(run) || run.dependencies.some(isOfProject)) continue;
    if (
      trace.hasTestingMiddleware ||
      trace.callsOf(run).some(({ meaning }) => VERIFIES.test(meaning) || isOfPackage(meaning))
    )
      continue;
    for (const sending of trace.sentBy(run)) {
      const key = keyOf(sending);
      const isOfMessage = [key?.value].some((value) => /^(?:body|text|message)\b/.test(inputOf(value)));
      if (key === undefined || !isOfMessage || sending.outline.verb === 'select' || isCounter(sending))
        continue;
      if (namesSecret(key.column) || isOfToken(sending, trace) || issues(sending)) continue;
      const { node, module } = sending.nodeAt(key.token);
      report(
        module,
        node,
        `every client, without a credential, changes any row of the table "${key.table}", because ${inputOf(key.value)} alone chooses it and nothing verifies the message`,
        {
          severity: 'warning',
          remedy:
            'Verify the signature of the message first: timingSafeEqual(createHmac("sha256", key).update(raw).digest(), given)',
        },
      );
    }
  }
}

function isOfProject({ depends }: Value): boolean {
  return depends?.fn !== undefined || depends?.of !== undefined;
}

/** Whether a statement stores a new random secret, as that of a forgotten password does. */
function issues({ bindings = [] }: Sending): boolean {
  return bindings.some(({ value }) => madeIn(value).some(({ by }) => by.startsWith('crypto.')));
}

/** Whether a statement only counts: `set likes = likes + 1`. */
function isCounter(sending: Sending): boolean {
  const written = writtenBy(sending);
  return (
    sending.outline.verb === 'update' &&
    written.length > 0 &&
    written.every(({ column }) => isRelative(sending, column))
  );
}

function inputOf(value: Value | undefined): string {
  const mark = madeIn(value)
    .find(({ by }) => /^(?:input|endless) /.test(by))
    ?.by.split(' ')
    .at(-1);
  return mark ?? clientIn(value)?.origin.what ?? value?.source?.origin.what ?? 'an input';
}

/** Returns the tables of which a statement reads rows of all clients, in a handler that every client may call. */
function sharedTables(trace: Trace, ties: ReadonlyMap<string, readonly Tie[]>): ReadonlySet<string> {
  const shared = trace.runs
    .filter((run) => !isRestricted(run, trace))
    .flatMap((run) =>
      trace
        .sentBy(run)
        .filter((sending) => sending.outline.verb === 'select' && !sending.isTied)
        .filter((sending) => !isGuarded(run) || !selectsByKey(sending, trace, ties))
        .map(({ target }) => target ?? ''),
    );
  return new Set(shared);
}

/** Whether a statement selects single rows: by a key, or by the columns by which owners select theirs. */
function selectsByKey(
  { bindings = [], target = '' }: Sending,
  { tables }: Trace,
  ties: ReadonlyMap<string, readonly Tie[]>,
): boolean {
  const keys = [
    ...(tables.get(target)?.keys.flat() ?? []),
    ...(ties.get(target) ?? []).flatMap((tie) => tie.keys),
  ];
  return bindings.some(({ use, column }) => isEqual(use) && (keys.length === 0 || keys.includes(column)));
}

/** Whether the database itself compares the owner, by policies for rows. */
function hasRowPolicies({ migrations }: Trace, { project }: Sources): boolean {
  return [...migrations, ...project.modules.map(({ source }) => source)].some((text) =>
    /\brow\s+level\s+security\b|\bcurrent_setting\s*\(/i.test(text),
  );
}

/** Columns that say what a client may do, or what it owns. */
const RIGHTS =
  /^(?:roles?|(?:is_?)?(?:admin|administrator|superuser|staff|moderator)|permissions?|privileges?|scopes?|(?:is_?|email_?)?verified|balance(?:_cents)?|credits?)$/;

/** SVC641: columns with rights that a client writes into its own row. */
function findOwnRights(trace: Trace, report: ReportAt, sources: Sources): void {
  const roles = rolesIn(sources);
  for (const run of trace.runs) {
    if (requiresRights(run) || trace.testsRights(run) || trace.hasTestingMiddleware) continue;
    for (const sending of trace.sentBy(run)) {
      const { bindings = [], outline } = sending;
      const equal = bindings.filter(({ use }) => isEqual(use));
      // a row with a key of its own, such as a token, may have fewer rights than its owner
      const isOwn =
        outline.verb === 'update' && equal.length > 0 && equal.every(({ kind }) => kind === 'principal');
      const isSignUp = outline.verb === 'insert' && !isGuarded(run);
      for (const written of bindings.filter(({ use, kind }) => use === 'written' && kind === 'input')) {
        if (!RIGHTS.test(written.column) || !(isOwn || isSignUp)) continue;
        const choices = choicesOf(written.value);
        const isRole = choices.some((choice) => roles.has(choice));
        // a declared choice of other words is no right
        if (isSignUp && !isRole && clientIn(written.value) === undefined) continue;
        const { node, module } = sending.nodeAt(written.token);
        report(
          module,
          node,
          `a client writes the column "${written.column}" of its own row in the table "${written.table}" by ${inputOf(written.value)}`,
          isRole ? { severity: 'error' } : {},
        );
      }
    }
  }
}

/** SVC641: `sql.set(patch, Object.keys(patch))` with a body that may have any members. */
function findChosenColumns({ call, meaning, module, value }: Site, report: ReportAt): void {
  if (!/^svc\/db\.sql\.(?:set|values)$/.test(meaning)) return;
  const part = clientIn(value(call.args[1]));
  if (part === undefined || isStored(part)) return;
  report(
    module,
    call,
    `the members of ${part.origin.what} name the columns, so a client writes each column of the table`,
    {
      remedy:
        "Name the columns in the program, sql.set(patch, ['name', 'bio']), and let the schema of the body refuse other members",
    },
  );
}

/** Returns the values of an input that has finitely many. */
function choicesOf(value: Value | undefined): readonly string[] {
  const node = value?.declared?.node;
  const inner = node?.kind === 'nullable' ? node.inner : node;
  return inner?.kind === 'literal' ? inner.values.map(String) : [];
}

/** Returns the roles and scopes that guards of the sources require. */
function rolesIn(sources: Sources): ReadonlySet<string> {
  const roles = new Set<string>();
  for (const { module, node: call } of sources.all('call'))
    if (/^svc\.require(?:Roles|Scopes)$/.test(meaningOfCall(call, module)))
      for (const arg of call.args) {
        if (arg.type === 'text') roles.add(arg.value);
        const listed = entryOf(arg, 'roles') ?? entryOf(arg, 'scopes');
        for (const item of listed?.type === 'list' ? listed.items : [])
          if (item.type === 'text') roles.add(item.value);
      }
  return roles;
}

function findAmounts(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs)
    for (const sending of trace.sentBy(run))
      for (const taken of takenFrom(sending)) {
        const problem = isFloat(taken.value)
          ? 'is a floating-point number, whose sums are not exact'
          : mayBeNegative(taken.value) && !isCompared(taken.value, run, trace)
            ? 'may be negative, so a client adds to the column instead'
            : undefined;
        if (problem === undefined) continue;
        const { node, module } = sending.nodeAt(taken.token);
        report(module, node, `the amount that the statement takes from a column is an input that ${problem}`);
      }
}

/** Returns the inputs that a statement subtracts from a column: `cents = cents - ?`. */
function takenFrom(sending: Sending): readonly Binding[] {
  const { tokens } = sending.outline;
  const columns = writtenBy(sending).map(({ column }) => column);
  return (sending.bindings ?? []).filter(({ kind, token }) => {
    const at = tokens.indexOf(token);
    return kind === 'input' && tokens[at - 1]?.text === '-' && columns.includes(tokens[at - 2]?.name ?? '');
  });
}

function isFloat(value: Value | undefined): boolean {
  return value?.declared?.number?.isFloat === true;
}

/** Whether the declared type of an input has no minimum. */
function mayBeNegative(value: Value | undefined): boolean {
  const { declared } = value ?? {};
  return declared?.number === undefined
    ? clientIn(value) !== undefined && declared === undefined
    : !declared.number.hasLeast;
}

function isCompared(value: Value | undefined, run: Run, trace: Trace): boolean {
  const marks = madeIn(value).map(({ by }) => by);
  const ids = value === undefined ? [] : idsIn(value);
  return trace
    .comparedBy(run)
    .some(({ sides }) =>
      sides.some(
        (side) =>
          idsIn(side).some((id) => ids.includes(id)) || madeIn(side).some(({ by }) => marks.includes(by)),
      ),
    );
}
