/**
 * Rules about rows that belong to a client (SVC640, SVC641): statements that leave out the owner, and columns with
 * rights that clients write.
 *
 * A column holds the owner of a row if a statement of the application compares it with the principal.
 */
import { entryOf } from '../reader/nodes.ts';
import { ROW } from '../values/marks.ts';
import { isOfPackage } from '../values/calls.ts';
import { clientIn, madeIn } from '../values/value.ts';
import { isStored, literalOf } from '../values/text.ts';
import { literal } from '../reader/constants.ts';
import { OUR_DATABASE, clientPlaces } from './injection.ts';
import { keyOf, keysOf, ownersOf } from '../statements/owners.ts';
import { inputsOf, isChosen, plain } from '../statements/sending.ts';
import { isGuarded, rowsIn } from '../statements/trace.ts';
import { isOfToken, isRelative, issues, writtenBy } from './races.ts';
import { HOOK, RIGHT, TENANT } from '../names.ts';
import type { ReportAt, SourcePart, SourceRule, Sources } from '../sources.ts';
import type { RouteCall } from '../values/functions.ts';
import type { Site } from '../values/calls.ts';
import type { ClientPart } from '../values/text.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { Token } from '../statements/outline.ts';
import type { Owners, Tie } from '../statements/owners.ts';
import type { Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';

/** Rules about the owners of rows, sorted by id. */
export const OWNERSHIP_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC203', judge: findSofterWays },
  {
    id: 'SVC640',
    severity: 'error',
    cwe: [639, 862],
    sources: ['OWASP API1:2023 Broken Object Level Authorization'],
    why: 'A client that counts up the id in the address reads or changes rows of other clients',
    remedy: remedyOf('id', 'owner'),
    wrong: "db.fetchOne('select text from note where id = ?', [params.id])",
    right: "db.fetchOne('select text from note where id = ? and owner = ?', [params.id, me.sub])",
    judge: findForeignRows,
  },
  {
    id: 'SVC641',
    severity: 'warning',
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
];

/** SVC640: statements that select or change a row by an input, where the owner of the row is not compared. */
function findForeignRows(trace: Trace, report: ReportAt, sources: Sources): void {
  if (hasRowPolicies(sources)) return;
  findUnverified(trace, report, sources);
  findAlternatives(trace, report);
  const owners = ownersOf(trace);
  for (const run of trace.runs) {
    if (!isGuarded(run) || owners.isRestricted(run)) continue;
    const tied = owners.tiedInputs(run);
    for (const sending of trace.sentBy(run)) {
      // a row that is only read to be changed stands for the change
      const change = trace.sentBy(run).find((each) => each.isWrite && isOfRow(each, sending));
      const chosen = { sending, verb: verbOf(change ?? sending), run, tied, owners, trace };
      const found = byKey(chosen) ?? byOwner(chosen) ?? byParent(chosen) ?? byNothing(chosen);
      if (found === undefined) continue;
      const { binding, column } = found;
      report(change?.nodeAt() ?? sending.nodeAt(binding?.token), found.message, {
        ...(found.isCertain ? {} : { severity: 'warning' }),
        ...(binding && column !== undefined ? { remedy: remedyOf(binding.column, column) } : {}),
      });
    }
  }
}

function verbOf({ isWrite, outline }: Sending): string {
  return outline.verb === 'delete' ? 'deletes' : isWrite ? 'changes' : 'reads';
}

function remedyOf(key: string, owner: string): string {
  return `Compare the owner in the statement, too: where ${key} = ? and ${owner} = ?. If every client may have the rows, say so: // svc-allow SVC640: why`;
}

/** SVC203: a change that every client makes, although another handler requires a role for it, or each one to read the rows. */
function findSofterWays(trace: Trace, report: ReportAt): void {
  const owners = ownersOf(trace);
  const changesOf = (run: Run): readonly Sending[] =>
    trace
      .sentBy(run)
      .filter((each) => each.isWrite && each.isByInput && !isCounter(each))
      .filter(({ equal }) => !equal.some(({ kind }) => kind === 'principal'));
  const strict = new Set(
    trace.runs.filter((run) => trace.requiresRights(run)).flatMap((run) => changesOf(run).map(changeOf)),
  );
  const readBy = (isStrict: boolean): ReadonlySet<string> =>
    new Set(
      trace.runs
        .filter((run) => trace.requiresRights(run) === isStrict)
        .flatMap((run) => trace.sentBy(run).filter(({ outline }) => outline.verb === 'select'))
        .flatMap(({ tables }) => tables),
    );
  const secret = readBy(true).difference(readBy(false));
  const isOfSecret = (each: Sending): boolean =>
    secret.has(each.target ?? '') && !each.isTied && !isOfToken(each, trace);
  for (const run of trace.runs) {
    if (run.route === undefined || !isGuarded(run) || owners.isRestricted(run)) continue;
    const tied = owners.tiedInputs(run);
    const change = changesOf(run).find(
      (each) =>
        (strict.has(changeOf(each)) || isOfSecret(each)) &&
        !each.equal.some(({ value }) => inputsOf(value).some((input) => tied.has(input))),
    );
    if (change !== undefined)
      report(
        run.route,
        `every authenticated client makes this change of the table "${change.target}", for which another handler requires a role`,
      );
  }
}

/** Whether a handler, or code before it, decides by rights of its client. */
export function decidesByRights(run: Run, trace: Trace): boolean {
  return trace.requiresRights(run) || trace.testsRights(run) || trace.hasTestingMiddleware;
}

/** Returns what a statement changes, in a text that is equal for equal changes. */
function changeOf(sending: Sending): string {
  const { outline, target, equal } = sending;
  const columns = [...writtenBy(sending), ...equal].map(({ column }) => column);
  return [outline.verb, target, ...columns].join(' ');
}

/** Whether a statement selects the row that another one has read. */
function isOfRow({ equal, target }: Sending, read: Sending): boolean {
  return target === read.target && equal.some(({ value }) => rowsIn(value, [ROW]).includes(read.call));
}

/** SVC640: an `or` without parentheses, so that the comparison with the principal holds for one side only. */
function findAlternatives(trace: Trace, report: ReportAt): void {
  for (const sending of trace.sent) {
    const all = sending.outline.alternatives;
    const has = (tokens: readonly Token[], kind: Binding['kind']): boolean =>
      (sending.bindings ?? []).some((each) => each.kind === kind && tokens.includes(each.token));
    const isMixed = all.some((each) => has(each, 'principal') && joins(each));
    const open = all.find((each) => has(each, 'input') && !has(each, 'principal'));
    if (!isMixed || open === undefined) continue;
    report(
      sending.nodeAt(open[0]),
      'the statement compares the client in one part of "or" only, because "and" binds closer: the other part selects rows of every client',
      {
        severity: 'warning',
        remedy: 'Write parentheses: where owner = ? and (subject like ? or body like ?)',
      },
    );
  }
}

/** Whether an `and` outside of parentheses joins conditions. The `and` of `between` does not. */
function joins(tokens: readonly Token[]): boolean {
  const count = (each: string): number =>
    tokens.filter(({ word, depth }) => word === each && depth === 0).length;
  return count('and') > count('between');
}

/** A statement of a handler, and the inputs that the handler compares beside the principal. */
interface Chosen {
  readonly sending: Sending;
  /** Action of the handler on the row: reads, changes or deletes. */
  readonly verb: string;
  readonly run: Run;
  readonly tied: ReadonlySet<string>;
  readonly owners: Owners;
  readonly trace: Trace;
}

interface Foreign {
  readonly binding?: Binding;
  readonly message: string;
  /** Column that leads to the client. */
  readonly column?: string | undefined;
  readonly isCertain?: boolean;
}

/** Why a row belongs to one client, and the column that leads to the client, if it is known. */
interface Reason {
  readonly text: string;
  readonly column: string | undefined;
}

/** Judges a statement that selects its rows by an input alone. */
function byKey(chosen: Chosen): Foreign | undefined {
  const { sending, verb, tied, owners } = chosen;
  const binding = keyOf(sending, true);
  const isChosen = sending.equal.some(({ value }) => inputsOf(value).some((input) => tied.has(input)));
  if (binding === undefined || isChosen) return undefined;
  const { table } = binding;
  // an aggregate shows no row
  const authors = sending.written.filter(({ kind }) => kind === 'principal').map(({ column }) => column);
  // a client may write its name into a row that every client reads, such as the page of a wiki
  const isOpen = !sending.isWrite || authors.length > 0;
  if ((isOpen && owners.shared.has(table)) || isCounter(sending) || sending.outline.isAggregate)
    return undefined;
  const columns = keysOf(sending, table);
  // a row that is the account itself may be read and mentioned by others
  const owned = owners.tiesOf(table).filter(({ owner }) => !columns.includes(owner));
  // a client that makes itself the owner claims the row
  if (authors.length > 0 && !owned.some(({ owner }) => owner !== '' && !authors.includes(owner)))
    return undefined;
  const alike = owned.find(({ keys }) => keys.length > 0 && columns.every((column) => keys.includes(column)));
  const reason = alike === undefined ? reasonOf(chosen, binding, columns, owned[0]) : comparedBy(alike);
  if (reason === undefined) return undefined;
  return {
    binding,
    message: `every authenticated client ${verb} any row of the table "${table}", because ${inputOf(binding.value)} alone chooses it: ${reason.text}`,
    column: reason.column,
    isCertain: alike !== undefined && authors.length === 0,
  };
}

/** Returns the reason for which the row of a key belongs to one client; undefined if the columns are no key, or there is no reason. */
function reasonOf(
  { sending, tied, owners, trace }: Chosen,
  { table, column }: Binding,
  columns: readonly string[],
  tie: Tie | undefined,
): Reason | undefined {
  const known = trace.tables.get(table);
  // a statement for one row selects by a key, also if the sources do not create its table
  const isKey =
    known === undefined ? sending.isOfOne && !isOfToken(sending, trace) : owners.isKey(table, column);
  const above = known?.references.find((each) => each.column === column)?.table ?? '';
  if (!isKey)
    return owners.tiesOf(above).length > 0 && !owners.accounts.has(above) && !owners.shared.has(above)
      ? { text: `it is the key of the table "${above}", whose rows belong to clients`, column: undefined }
      : undefined;
  if (tie !== undefined) return comparedBy(tie);
  const references = (known?.references ?? []).filter((each) => !columns.includes(each.column));
  const account = references.find((each) => owners.accounts.has(each.table));
  if (account !== undefined) return refersTo(account, 'are the clients');
  const parent = owners.shared.has(table)
    ? undefined
    : references.find((each) => owners.tiesOf(each.table).length > 0);
  if (parent !== undefined) return refersTo(parent, 'belong to clients');
  if (tied.size === 0) return undefined;
  const beside = columnBeside(sending, columns, trace);
  if (beside !== undefined)
    return { text: `another statement also compares the column "${beside}"`, column: beside };
  const scope = owners.scopeOf(table, columns);
  if (scope === undefined) return undefined;
  return {
    text: `another statement selects by the column "${scope}", of which a guard asks whether it is the client's`,
    column: scope,
  };
}

function refersTo(
  { column, table }: { readonly column: string; readonly table: string },
  what: string,
): Reason {
  return { text: `its column "${column}" refers to the table "${table}", whose rows ${what}`, column };
}

/** Returns a column with a row that the handler asks for, which another statement of the table compares beside these columns. */
function columnBeside({ target }: Sending, columns: readonly string[], { sent }: Trace): string | undefined {
  return sent
    .filter((each) => each.target === target && each.outline.verb !== 'insert')
    .map((each) => keysOf(each, target ?? ''))
    .filter((keys) => columns.every((column) => keys.includes(column)))
    .flatMap((keys) => keys.filter((key) => !columns.includes(key)))
    .at(0);
}

function comparedBy({ owner, isInStatement }: Tie): Reason {
  const text = isInStatement
    ? `another statement also compares the column "${owner}" with the client`
    : `code compares ${owner === '' ? 'a column' : `the column "${owner}"`} of another statement with the client`;
  return { text, column: owner === '' ? undefined : owner };
}

/** Judges a statement whose owner is an input, although other statements take it from the principal. */
function byOwner({ sending, verb, run, tied, owners, trace }: Chosen): Foreign | undefined {
  const { outline, isWrite, bindings = [] } = sending;
  if (sending.isTied || isCounter(sending)) return undefined;
  const use = outline.verb === 'insert' ? 'written' : 'equal';
  const isTied = trace.sentBy(run).some((each) => each.isTied);
  const binding = bindings.find(
    (each) =>
      each.use === use &&
      each.kind === 'input' &&
      owners
        .tiesOf(each.table)
        .some(
          (tie) =>
            tie.isInStatement &&
            tie.owner === each.column &&
            (isWrite || tie.sending.outline.verb === 'select'),
        ),
  );
  if (binding === undefined || inputsOf(binding.value).some((input) => tied.has(input))) return undefined;
  const { table, column } = binding;
  const isAccount = owners.isKey(table, column);
  const isShared =
    use === 'written'
      ? isAccount || isTied // a row about another client, such as an invitation
      : !isWrite &&
        // every client may read the row of an account
        (isAccount || owners.shared.has(table) || (!trace.tables.has(table) && sending.isOfOne));
  if (isShared) return undefined;
  return {
    binding,
    message: `${inputOf(binding.value)} says whose rows of the table "${table}" the statement ${use === 'written' ? 'inserts' : verb}, but other statements compare the column "${column}" with the client`,
  };
}

/** Judges a new row that refers to the row of another client. */
function byParent({ sending, tied, owners, trace }: Chosen): Foreign | undefined {
  // a row that names its own author, such as a comment, may stand below the row of another client
  if (sending.outline.verb !== 'insert' || sending.isTied) return undefined;
  for (const binding of sending.bindings ?? []) {
    const parent = trace
      .tableOf(sending)
      ?.references.find(({ column }) => binding.kind === 'input' && column === binding.column)?.table;
    const tie = owners
      .tiesOf(parent ?? '')
      .find(
        ({ owner, sending: { outline } }) => outline.verb === 'select' && !owners.isKey(parent ?? '', owner),
      );
    if (parent === undefined || tie === undefined || owners.shared.has(parent)) continue;
    if (inputsOf(binding.value).some((input) => tied.has(input))) continue;
    return {
      binding,
      message: `the new row of the table "${sending.target}" refers to any row of the table "${parent}", because ${inputOf(binding.value)} alone chooses it: ${comparedBy(tie).text}`,
    };
  }
  return undefined;
}

/** Judges a statement without a condition: a change of the rows of every client, or a list of those of every tenant. */
function byNothing({ sending, owners }: Chosen): Foreign | undefined {
  const { outline, target = '', isWrite } = sending;
  const tie = owners
    .tiesOf(target)
    .find(
      ({ owner, isInStatement }) =>
        isInStatement && !owners.isKey(target, owner) && (isWrite || TENANT.test(owner)),
    );
  const isWhole = /^(?:update|delete|select)$/.test(outline.verb) && !outline.has(/^(?:where|join)$/);
  if (tie === undefined || !isWhole || outline.isAggregate) return undefined;
  return {
    message: `the statement ${isWrite ? 'changes' : 'reads'} the rows of the table "${target}" of every client, although ${comparedBy(tie)}`,
  };
}

/** Calls that verify a message, or ask another service whether it is true. */
const VERIFIES =
  /^crypto\.(?:timingSafeEqual|createHmac|createVerify|verify|subtle)|^(?:webcrypto\.)?subtle\.|^svc\.(?:checkPassword|verifyToken|Session)|^(?:fetch|undici\.\w+)$|^svc\/oauth\./;

/** SVC640: rows that a message of an unknown client changes, which nothing verifies. */
function findUnverified(trace: Trace, report: ReportAt, sources: Sources): void {
  for (const run of trace.runs) {
    if (run.route === undefined || isGuarded(run) || mayVerify(run, trace)) continue;
    const isHook =
      HOOK.test(pathOf(run.route)) && !comparesSecret(run, trace) && !hasVerifyingMiddleware(trace, sources);
    for (const sending of trace.sentBy(run)) {
      if (
        isHook &&
        sending.outline.verb === 'insert' &&
        sending.written.some(({ kind }) => kind === 'input')
      ) {
        report(
          sending.nodeAt(),
          `every client, without a credential, inserts rows into the table "${sending.target}", because nothing verifies the message`,
          { severity: 'warning', remedy: VERIFY },
        );
        continue;
      }
      const key = keyOf(sending);
      const isOfMessage = [key?.value].some((value) => /^(?:body|text)\b/.test(inputOf(value)));
      if (key === undefined || !isOfMessage || sending.outline.verb === 'select' || isCounter(sending))
        continue;
      if (isOfToken(sending, trace) || issues(sending)) continue;
      report(
        sending.nodeAt(key.token),
        `every client, without a credential, changes any row of the table "${key.table}", because ${inputOf(key.value)} alone chooses it and nothing verifies the message`,
        { severity: 'warning', remedy: VERIFY },
      );
    }
  }
}

const VERIFY =
  'Verify the signature of the message first: timingSafeEqual(createHmac("sha256", key).update(raw).digest(), given)';

function pathOf({ call, module }: RouteCall): string {
  const path = call.args[0] && literal(call.args[0], module);
  return path?.type === 'text' ? path.value : '';
}

/** Whether a middleware of the project verifies messages. */
function hasVerifyingMiddleware(trace: Trace, { handlers }: Sources): boolean {
  const known = new Set(trace.runs.flatMap(({ functions }) => [...functions]));
  const layers = [...handlers.all].flatMap(([fn]) => (handlers.isHandler(fn) && !known.has(fn) ? [fn] : []));
  return trace.calls.by({ functions: new Set(layers) }).some(({ meaning }) => VERIFIES.test(meaning));
}

/** Whether a handler compares an input with a secret of the program. */
function comparesSecret(run: Run, trace: Trace): boolean {
  const marks = trace.compared.by(run).flatMap(({ sides }) => sides.flatMap((side) => madeIn(side)));
  return marks.some(({ by }) => /^(?:process\.env\.|setting )/.test(by));
}

/** Whether a handler may verify its client or message: by itself, or through code of the project or of a package. */
export function mayVerify(run: Run, trace: Trace): boolean {
  return (
    trace.hasTestingMiddleware ||
    run.dependencies.some(({ depends }) => depends?.fn !== undefined || depends?.of !== undefined) ||
    trace.calls.by(run).some(({ meaning }) => VERIFIES.test(meaning) || isOfPackage(meaning))
  );
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
  return inputsOf(value)[0] ?? value?.source?.origin.what ?? 'an input';
}

/** Whether the database itself compares the owner, by policies for rows. */
function hasRowPolicies({ migrations, project }: Sources): boolean {
  return [...migrations, ...project.modules.map(({ source }) => source)].some((text) =>
    /\brow\s+level\s+security\b|\bcurrent_setting\s*\(/i.test(text),
  );
}

/** SVC641: columns with rights that a client writes into its own row. */
function findOwnRights(trace: Trace, report: ReportAt, sources: Sources): void {
  const roles = rolesIn(sources);
  for (const run of trace.runs) {
    if (decidesByRights(run, trace)) continue;
    findOwnClaims(run, trace, report);
    for (const sending of trace.sentBy(run)) {
      const { equal, outline } = sending;
      // a row with a key of its own, such as a token, may have fewer rights than its owner
      const isOwn =
        outline.verb === 'update' && equal.length > 0 && equal.every(({ kind }) => kind === 'principal');
      const isSignUp = outline.verb === 'insert' && !isGuarded(run);
      const isMember =
        outline.verb === 'insert' &&
        isGuarded(run) &&
        sending.written.some(({ kind }) => kind === 'principal');
      for (const written of sending.written.filter(({ value }) => isChosen(value))) {
        const isOwnRole = isMember && /role|admin/.test(written.column);
        if (!RIGHT.test(written.column) || !(isOwn || isSignUp || isOwnRole)) continue;
        const choices = choicesOf(written.value);
        const isRole = choices.some((choice) => roles.has(choice));
        // a declared choice of other words is no right
        if (isSignUp && !isRole && clientIn(written.value) === undefined) continue;
        report(
          sending.nodeAt(written.token),
          `a client writes the column "${written.column}" of its own row in the table "${written.table}" by ${inputOf(written.value)}`,
          isRole ? { severity: 'error' } : {},
        );
      }
    }
  }
}

/** SVC641: rights in a token or session that the client names when it logs in. */
function findOwnClaims(run: Run, trace: Trace, report: ReportAt): void {
  for (const { call, module, meaning, args } of trace.calls.by(run)) {
    // an authenticated client that names the subject, such as a factory, makes tokens for others
    if (meaning === 'svc.createToken' && isGuarded(run) && inputsOf(args[0]).length > 0) continue;
    const claims =
      meaning === 'svc.createToken'
        ? args[2]?.members?.get('claims')
        : meaning === 'svc.Session.set'
          ? args[1]
          : undefined;
    for (const [name, value] of claims?.members ?? []) {
      const [input] = RIGHT.test(plain(name)) ? inputsOf(value) : [];
      if (input !== undefined)
        report({ module, call }, `the client writes "${name}" of its own login by ${input}`, {
          remedy: 'Take it from the row of the account',
        });
    }
  }
}

/** SVC641: `sql.set(patch, Object.keys(patch))`, or a text with these names, with a body that may have any members. */
function findChosenColumns({ call, meaning, module, value }: Site, report: ReportAt): void {
  const [first, names] = call.args;
  const part = /^svc\/db\.sql\.(?:set|values)$/.test(meaning)
    ? clientIn(value(names))
    : OUR_DATABASE.test(meaning)
      ? columnsIn(value(first))
      : undefined;
  if (part === undefined || isStored(part)) return;
  report(
    { module, call },
    `the members of ${part.origin.what} name the columns, so a client writes each column of the table`,
    {
      remedy:
        "Name the columns in the program, sql.set(patch, ['name', 'bio']), and let the schema of the body refuse other members",
    },
  );
}

/** Returns the key of an input that is the name of a column which a statement writes. */
function columnsIn(text: Value | undefined): ClientPart | undefined {
  return clientPlaces(text)
    .filter(({ before }) =>
      /\bset\s+(?:(?!\bwhere\b)[^])*$|\binsert\s+into\s+\S+\s*\([^)]*$/i.test(literalOf(before, '?')),
    )
    .find(({ part }) => part.operations?.includes('key'))?.part;
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
  for (const { node: call } of sources.called(/^svc\.require(?:Roles|Scopes)$/))
    for (const arg of call.args) {
      if (arg.type === 'text') roles.add(arg.value);
      const listed = entryOf(arg, 'roles') ?? entryOf(arg, 'scopes');
      for (const item of listed?.type === 'list' ? listed.items : [])
        if (item.type === 'text') roles.add(item.value);
    }
  return roles;
}
