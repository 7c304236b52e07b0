/**
 * Rules about statements that belong together (SVC642, SVC643): rows that are read, compared and written back, and writes
 * that refer to each other.
 */
import { onePer } from '../../base/options.ts';
import { isWithin, methodOf, nodesAround } from '../reader/nodes.ts';
import { COMPUTED, CRYPTO, INPUT, RANDOM, ROW } from '../values/marks.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { comparedColumn, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { constantIn } from '../values/tests.ts';
import { ABSENT, hasMark, madeIn, signatureOf } from '../values/value.ts';
import { LEDGER, namesSecret } from '../names.ts';
import type { ReportAt, SourcePart, SourceRule } from '../sources.ts';
import type { Node } from '../reader/nodes.ts';
import type { Spot } from '../reader/modules.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { Compared, Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';
import type { Token } from '../statements/outline.ts';
import type { KnownTable } from '../statements/written-schema.ts';

/** Rules about statements that belong together, sorted by id. */
export const RACE_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC642', onRun: findDoubled },
  {
    id: 'SVC642',
    severity: 'warning',
    cwe: [362, 367],
    sources: ['CWE-367 Time-of-check Time-of-use'],
    why: 'Two requests at the same time read the same number, both pass the test, and the second write undoes the first',
    remedy:
      'Change the column in one statement with its condition, and test affectedRows: set cents = cents - ? where id = ? and cents >= ?. Or read and write in one transaction, on a server by select … for update',
    wrong:
      "if (row.cents >= price) await db.execute('update card set cents = ? where id = ?', [row.cents - price, id])",
    right:
      "await db.execute('update card set cents = cents - ? where id = ? and cents >= ?', [price, id, price])",
    onRun: findStaleWrites,
  },
  {
    id: 'SVC643',
    severity: 'warning',
    cwe: [662],
    why: 'If the process ends or a statement fails between the two writes, the first one stays alone',
    remedy: 'Send both in one transaction: Depends(transaction), or db.transaction(async (tx) => { … })',
    wrong:
      "const id = await db.scalar('insert into sale … returning id'); await db.execute('insert into sale_line …', [id])",
    right: 'await db.transaction(async (tx) => { … both statements of tx … })',
    onRun: findHalves,
  },
];

/** SVC642: a column that is set by what another statement has read, without a transaction or condition. */
function findStaleWrites(run: Run, trace: Trace, report: ReportAt): void {
  const sent = trace.sentBy(run);
  const lock = sent.findIndex(({ outline, isWrite }) => isWrite || outline.has(/^for$/));
  const reads = sent.filter((each, index) =>
    isStale(each, trace.isLoose(each) && (index < lock || lock === -1)),
  );
  if (reads.length === 0) return;
  findOverfilled(run, trace, reads, report);
  const compared = comparedRows(run, trace);
  for (const write of sent.filter(({ outline }) => outline.verb === 'update'))
    for (const { token, column } of writtenBy(write)) {
      const read = reads.find(
        (each) =>
          each.target === write.target &&
          ((selects(each, column) &&
            (isComputedFrom(write, token, each) || (isRelative(write, column) && compared.has(each.call)))) ||
            (!isChosen(write, token) &&
              isTested(run, trace, each, column) &&
              sent.some((other) => countsTwice(other, write, trace)))),
      );
      if (read === undefined || hasCondition(write, column, read, trace)) continue;
      report(
        write.nodeAt(token),
        `the column "${column}" of the table "${write.target}" is written by what an earlier statement has read, so a request at the same time is lost or passes the same test`,
      );
    }
}

/** SVC642: a row that is inserted because an earlier statement has counted few enough rows. */
function findOverfilled(run: Run, trace: Trace, reads: readonly Sending[], report: ReportAt): void {
  for (const write of trace.sentBy(run)) {
    if (write.outline.verb !== 'insert' || write.outline.has(/^select$/)) continue;
    const counts = reads.filter(
      (each) => each.target === write.target && each.outline.isAggregate && asksFor(each, write),
    );
    const isCounted = (side: Value): boolean => counts.some(({ call }) => rowsIn(side).includes(call));
    const isLimited = trace.compared.by(run).some((each) => isLimit(each, isCounted));
    if (isLimited)
      report(
        write.nodeAt(),
        `two requests at the same time both count few enough rows of the table "${write.target}", and both insert one`,
        {
          remedy:
            'Lock the row that has the limit first: select seats from course where id = ? for update. Or count the free places in a column: set free = free - 1 where id = ? and free > 0',
        },
      );
  }
}

/** Whether a comparison of a number of rows asks for more than whether there is any, which is a question for a unique key. */
function isLimit({ node, sides }: Compared, isOfRows: (side: Value) => boolean): boolean {
  return (
    node.type === 'binary' &&
    /^[<>]/.test(node.operator) &&
    sides.some((side, index) => isOfRows(side) && !/^[01]$/.test(constantIn(sides[1 - index]) ?? ''))
  );
}

/** SVC642: a row that is inserted because an earlier statement found none, without a unique key. */
function findDoubled(run: Run, trace: Trace, report: ReportAt): void {
  const sent = trace.sentBy(run);
  for (const write of sent) {
    const table = trace.tableOf(write);
    if (write.outline.verb !== 'insert' || table === undefined || write.outline.has(/^exists$/)) continue;
    if (write.outline.has(/^(?:conflict|duplicate|ignore)$/)) {
      if (isAlwaysNew(write, table))
        report(
          write.nodeAt(),
          `the statement leaves out no row that is there already, because no unique key of the table "${write.target}" is among its columns`,
          { remedy: 'Declare the columns unique, and again where a migration makes the table anew' },
        );
      continue;
    }
    const read = sent.find(
      (each) =>
        isStale(each) &&
        each.target === write.target &&
        sent.indexOf(each) < sent.indexOf(write) &&
        asksFor(each, write) &&
        !holdsKey(table, columnsOf(each.equal)),
    );
    const isRead = (side: Value): boolean => read !== undefined && rowsIn(side, [ROW]).includes(read.call);
    const compared = trace.compared.by(run).filter(({ sides }) => sides.some(isRead));
    if (compared.length === 0 || compared.some((each) => isLimit(each, isRead))) continue;
    report(
      write.nodeAt(),
      `two requests at the same time both find no row of the table "${write.target}" and both insert one, because no unique key refuses the second`,
      {
        remedy:
          'Declare the columns unique, and insert with on conflict do nothing: affectedRows says whether there was a row',
      },
    );
  }
}

/** Whether an insert writes no column of a unique key, or only a key that the program has just made. */
function isAlwaysNew({ outline, written }: Sending, { keys, columns }: KnownTable): boolean {
  const own = outline.insertion?.columns?.map(({ name }) => name);
  const isMade = (column: string): boolean =>
    written.some((each) => each.column === column && hasMark(each.value, RANDOM));
  return (
    own !== undefined &&
    keys.flat().every((column) => columns.includes(column) && (!own.includes(column) || isMade(column)))
  );
}

/** Whether a statement selects by the values that another one inserts. */
function asksFor(read: Sending, write: Sending): boolean {
  const { equal } = read;
  const isInserted = ({ column, value }: Binding): boolean =>
    write.written.some(
      (each) =>
        each.column === column &&
        each.value !== undefined &&
        value !== undefined &&
        signatureOf(each.value) === signatureOf(value),
    );
  return equal.length > 0 && equal.every(isInserted);
}

/** Whether a statement reads rows that other requests may change before the next statement: in a loose transaction, too. */
function isStale({ outline, isInTransaction }: Sending, isLoose = false): boolean {
  return outline.verb === 'select' && (isLoose || !isInTransaction);
}

/** Returns the calls whose rows code compares by their order: `if (row.cents < price)`. */
function comparedRows(run: Run, trace: Trace): ReadonlySet<unknown> {
  const ordered = trace.compared
    .by(run)
    .filter(({ node }) => node.type === 'binary' && /^[<>]/.test(node.operator));
  return new Set(ordered.flatMap(({ sides }) => sides.flatMap((side) => rowsIn(side))));
}

/** Whether a client chooses the value that a placeholder writes, as in a form that is saved as a whole. */
function isChosen({ bindings = [] }: Sending, token: Token): boolean {
  return bindings.some((each) => each.token === token && each.kind === 'input');
}

/**
 * Whether code compares a column that a call has read with a constant, as in `if (row.usedBy !== null)`, or asks whether
 * there is a row for which the statement compares it: `where used_by is null`.
 */
function isTested(run: Run, trace: Trace, read: Sending, column: string): boolean {
  const { tokens } = read.outline;
  const isAsked = tokens.some(
    ({ name }, index) => name === column && index > 0 && tokens[index + 1]?.word === 'is',
  );
  return trace.compared.by(run).some((compared) =>
    compared.sides.some((side, index) => {
      const other = compared.sides[1 - index];
      const isOfColumn =
        plain(comparedColumn(compared, index) ?? '') === plain(column) && selects(read, column);
      return (
        (isOfColumn || (isAsked && other === ABSENT)) &&
        (other === ABSENT || constantIn(other) !== undefined) &&
        rowsIn(side, [ROW]).includes(read.call)
      );
    }),
  );
}

/** Whether a statement besides a write has an effect each time: it adds to a number, or inserts a row without a known key. */
function countsTwice(other: Sending, { target }: Sending, trace: Trace): boolean {
  if (other.target === target || !other.isWrite) return false;
  if (addedBy(other) !== undefined) return true;
  const table = trace.tableOf(other);
  return other.outline.verb === 'insert' && table !== undefined && !holdsKey(table, columnsOf(other.written));
}

export function columnsOf(bindings: readonly Binding[]): readonly string[] {
  return bindings.map(({ column }) => column);
}

/** Returns the columns that an update sets, with a token in the assigned value. */
export function writtenBy({ outline, target }: Sending): readonly Pick<Binding, 'column' | 'token'>[] {
  const { tokens } = outline;
  return outline.before('where').flatMap((token, index) => {
    const before = tokens[index - 1];
    const isSet = tokens[index + 1]?.text === '=' && (before?.word === 'set' || before?.text === ',');
    const value = tokens[index + 2];
    return isSet && value !== undefined && token.name !== '' && target !== undefined
      ? [{ column: token.name, token: value }]
      : [];
  });
}

function selects({ outline }: Sending, column: string): boolean {
  return outline.hasStar || outline.before('from').some(({ name }) => name === column);
}

/** Whether the value that a placeholder writes was computed from the row of a call. */
function isComputedFrom(write: Sending, token: Token, read: Sending): boolean {
  const binding = write.bindings?.find((each) => each.token === token);
  return madeIn(binding?.value).some(({ by, node }) => by === COMPUTED && node === read.call);
}

/** Whether an update adds to a column, or takes from it: `cents = cents - ?`. */
export function isRelative({ outline: { tokens } }: Sending, column: string): boolean {
  return tokens.some(
    ({ name }, index) =>
      name === column &&
      /^[+-]$/.test(tokens[index + 1]?.text ?? '') &&
      tokens.slice(0, index).some((token, at) => token.name === column && tokens[at + 1]?.text === '='),
  );
}

/** Whether the conditions of an update compare the column again, or a version of the row. */
function hasCondition(write: Sending, column: string, read: Sending, trace: Trace): boolean {
  const { outline, bindings = [] } = write;
  const after = outline.tokens.slice(outline.before('where').length);
  if (after.length === 0 || after.some(({ name }) => name === column)) return true;
  const selecting = [...(trace.tableOf(write)?.keys.flat() ?? []), ...columnsOf(read.equal)];
  return bindings.some(
    ({ use, kind, column: other }) =>
      (use === 'equal' || use === 'compared') && kind !== 'principal' && !selecting.includes(other),
  );
}

/** SVC643: a row and another one that refers to it, or is counted by it, while both are written alone. */
function findHalves(run: Run, trace: Trace, report: ReportAt): void {
  const writes = trace.sentBy(run).filter((each) => each.isWrite && !each.isInTransaction);
  for (const first of writes)
    for (const second of writes) {
      const parting = partingOf(first, second);
      if (parting === undefined) continue;
      const [own, other, place] = parting;
      const isTogether = !isApart(own, other) && !isApart(other, own);
      if (isTogether && moves(first, second))
        report(
          place,
          `the number that one statement takes from the table "${first.target}" is added to another row by a statement of its own, so an error between them loses it`,
        );
      if (isTogether && isNoted(first, second) && !isExcused(first, second))
        report(
          first.target === second.target ? first.way.at(-1)! : place,
          `the change of the table "${first.target}" and the row of the table "${second.target}" that belongs to it are written by statements of their own, so an error between them leaves one without the other`,
        );
      if (second.target === first.target || !isReferring(first, second, trace)) continue;
      report(
        place,
        `the ${first.outline.verb === 'insert' ? 'new row' : 'counter'} of the table "${first.target}" and its rows of the table "${second.target}" are written by statements of their own, so an error between them leaves one without the other`,
      );
    }
}

/** Whether a table has the history of a table, or of a column that a statement writes: `price_history`, but not `search_history`. */
function isHistoryOf(table: string, first: Sending): boolean {
  const [, of] = /^(\w+?)_?history$/.exec(table) ?? [];
  const names = [first.target ?? '', ...writtenBy(first).map(({ column }) => column)];
  return (
    of !== undefined && names.some((name) => plain(name).replace(/s$/, '') === plain(of).replace(/s$/, ''))
  );
}

/**
 * Whether a row belongs to a change of another table: it says what has changed, it is what the client gets for a number that
 * the change takes from a column, or it is the other half of a pair.
 */
function isNoted(first: Sending, second: Sending): boolean {
  const isNew = second.outline.verb === 'insert';
  if (!isNew || first === second || first.call === second.call) return false;
  if (first.target === second.target)
    return (
      first.outline.verb === 'insert' && first.call.start < second.call.start && isNegated(first, second)
    );
  const [changed, table] = [first.target ?? '', second.target ?? ''];
  if (LEDGER.test(changed) || changed.endsWith('history')) return false;
  if (LEDGER.test(table) || isHistoryOf(table, first)) return true;
  // a row with nothing but the client and constants is a statistic, and one that may be there already is none of this change
  const says = second.written.some(({ kind }) => kind !== 'principal' && kind !== 'constant');
  return (
    says && !second.outline.has(/^conflict$/) && writtenBy(first).some(({ column }) => isTaken(first, column))
  );
}

/** Whether code goes on after an error of one of two statements: in a `try` without the other one, or by `catch()`. */
function isExcused(first: Sending, second: Sending): boolean {
  const isAlone = (one: Sending, other: Sending): boolean =>
    one.way.some(({ node }) => nodesAround(node).some((around) => isCaughtAlone(around, node, other.call)));
  return isAlone(first, second) || isAlone(second, first);
}

function isCaughtAlone(around: Node, node: Node, other: Node): boolean {
  if (around.type === 'try') return isWithin(node, around.block) && !isWithin(other, around);
  return around.type === 'call' && methodOf(around) === 'catch';
}

/** Whether two rows have one number of a client, once with a minus. */
function isNegated(first: Sending, second: Sending): boolean {
  const numbers = (sending: Sending, isNegative: boolean): readonly string[] =>
    sending.written
      .filter(({ value }) =>
        madeIn(value).some(({ by, node }) => INPUT.test(by) && (node.type === 'unary') === isNegative),
      )
      .flatMap(({ value }) => inputsOf(value));
  return [true, false].some((isNegative) =>
    numbers(first, isNegative).some((input) => numbers(second, !isNegative).includes(input)),
  );
}

/** Whether an update takes from a column: `stock = stock - ?`. */
function isTaken({ outline: { tokens } }: Sending, column: string): boolean {
  return tokens.some(
    ({ name }, index) =>
      name === column &&
      tokens[index + 1]?.text === '=' &&
      tokens[index + 2]?.name === column &&
      tokens[index + 3]?.text === '-',
  );
}

/** Returns the calls at which the ways to two statements part, with the place to report; undefined for one call. */
function partingOf(first: Sending, second: Sending): readonly [Node, Node, Spot] | undefined {
  const index = first.way.findIndex(({ node }, at) => node !== second.way[at]?.node);
  const [own, other] = [first.way[index], second.way[index]];
  if (own === undefined || other === undefined) return undefined;
  return [own.node, other.node, own.node === first.call ? first.nodeAt() : own];
}

/** Whether a call runs without another one: in a branch before it, or in a `catch` after it. */
function isApart(own: Node, other: Node): boolean {
  return nodesAround(own).some((around) => {
    const { type, parent } = around;
    if (parent === undefined || isWithin(other, around)) return false;
    if (parent.type === 'try') return parent.handler === around;
    const isBranch = (parent.type === 'if' || parent.type === 'choice') && parent.test !== around;
    return own.start < other.start && (type === 'case' || isBranch);
  });
}

/** Whether one statement takes an input from a column, and the other one adds it to another row. */
function moves(first: Sending, second: Sending): boolean {
  const inputsIn = (all: readonly Binding[]): readonly string[] =>
    all.flatMap(({ value }) => inputsOf(value));
  const amounts = inputsIn(takenFrom(first));
  const keys = inputsIn(first.equal);
  return (
    inputsIn(addedTo(second)).some((amount) => amounts.includes(amount)) &&
    (first.target !== second.target ||
      inputsIn(second.bindings ?? []).some((input) => !amounts.includes(input) && !keys.includes(input)))
  );
}

/** Returns the inputs that a statement subtracts from a column: `cents = cents - ?`. */
export function takenFrom(sending: Sending): readonly Binding[] {
  const { tokens } = sending.outline;
  const columns = writtenBy(sending).map(({ column }) => column);
  return (sending.bindings ?? []).filter(({ kind, token }) => {
    const at = tokens.indexOf(token);
    return kind === 'input' && tokens[at - 1]?.text === '-' && columns.includes(tokens[at - 2]?.name ?? '');
  });
}

/** Whether a statement has the key of the row that another one inserts, or whose counter it changes. */
function isReferring(first: Sending, second: Sending, trace: Trace): boolean {
  const references = trace.tableOf(second)?.references ?? [];
  const isNew = first.outline.verb === 'insert';
  const isCounter = writtenBy(first).some(({ column }) => isRelative(first, column));
  if (!isNew && !(isCounter && second.outline.verb === 'insert')) return false;
  return second.written.some(
    ({ column, value }) =>
      references.some((each) => each.column === column && each.table === first.target) &&
      (isNew
        ? madeIn(value).some(
            ({ by, node }) => (by === ROW && node === first.call) || isMadeFor(by, node, first),
          )
        : isKeyOf(value, first)),
  );
}

/** Whether a statement selects its row by the same input. */
function isKeyOf(value: Value | undefined, { equal }: Sending): boolean {
  const own = inputsOf(value);
  return equal.some((each) => inputsOf(each.value).some((id) => own.includes(id)));
}

/** Whether a call made the key of the row that a statement inserts: `randomUUID()`. */
function isMadeFor(by: string, node: unknown, { written }: Sending): boolean {
  return CRYPTO.test(by) && written.some(({ value }) => madeIn(value).some((made) => made.node === node));
}

/** Whether a statement stores a new random secret, as that of a forgotten password does. */
export function issues({ bindings = [] }: Sending): boolean {
  return bindings.some(({ value }) => hasMark(value, CRYPTO));
}

export function isPassword({ value }: Binding): boolean {
  return value?.type === 'svc.hashPassword';
}

/**
 * Whether a statement selects by a secret: a column into which a statement writes a random token or its digest, the digest
 * of an input, or a column that is named like a secret.
 */
export function isOfToken({ equal, target }: Sending, trace: Trace): boolean {
  const written = writtenTokens(trace);
  return equal.some(
    ({ column, value }) => namesSecret(column) || isToken(value) || written.has(`${target}.${column}`),
  );
}

/** Returns the columns into which statements write a random token or its digest: `session.token`. */
const writtenTokens = onePer(({ sent }: Trace): ReadonlySet<string> => {
  const columns = sent.flatMap(({ written, target }) =>
    written.filter(({ value }) => isToken(value)).map(({ column }) => `${target}.${column}`),
  );
  return new Set(columns);
});

export function isToken(value: Value | undefined): boolean {
  return hasMark(value, /^crypto\.(?!hkdf)/);
}

/** Returns the column that a statement adds to: `n = n + ?`, also in the second half of an upsert. */
export function addedBy(sending: Sending): string | undefined {
  const { tokens } = sending.outline;
  const at = addition(tokens);
  return at === -1 ? undefined : tokens[at]?.name;
}

/** Returns the index of the column in `n = n +`; -1 for any other statement. */
function addition(tokens: readonly Token[]): number {
  return tokens.findIndex((token, index) => {
    if (token.name === '' || tokens[index + 1]?.text !== '=') return false;
    const at = tokens[index + 3]?.text === '.' ? index + 4 : index + 2;
    return tokens[at]?.name === token.name && tokens[at + 1]?.text === '+';
  });
}

/** Returns the inputs that a statement adds to a column: `+ ?`, or `+ excluded.n`. */
export function addedTo({ bindings = [], outline: { tokens } }: Sending): readonly Binding[] {
  const plus = tokens.findIndex(({ text }, index) => text === '+' && index > addition(tokens));
  const added = tokens[plus + 1];
  return bindings.filter(
    ({ kind, token, column }) =>
      kind === 'input' &&
      (token === added ||
        (/^(?:excluded|values)$/.test(added?.word ?? '') && column === tokens[plus + 3]?.name)),
  );
}
