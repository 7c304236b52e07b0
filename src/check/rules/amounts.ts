/**
 * Rules about amounts: prices that a client sends although a row has them (SVC641), amounts that count at each delivery of a
 * message (SVC644), and those that are negative or floating-point numbers (SVC647).
 */
import { methodOf } from '../reader/nodes.ts';
import { meaningOfCall } from '../sources.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { isGuarded, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { ROW } from '../values/marks.ts';
import { clientIn, idsIn, madeIn } from '../values/value.ts';
import { decidesByRights } from './ownership.ts';
import { addedBy, addedTo, columnsOf, isOfToken, isPassword, takenFrom, writtenBy } from './races.ts';
import type { ReportAt, SourcePart, SourceRule, Sources } from '../sources.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { KeptCall, Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';

/** Rules about amounts, sorted by id. */
export const AMOUNT_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC641', judge: findOwnPrices },
  {
    id: 'SVC647',
    severity: 'warning',
    cwe: [1284, 839],
    why: 'A client that sends a negative amount receives what it should pay. Sums of floating-point numbers are not exact, so parts of cents appear and disappear',
    remedy: 'Declare the minimum, and count in whole cents: Field(int, { ge: 1, le: 1_000_000 })',
    wrong: 'cents: Field(int) … update wallet set cents = cents - ?',
    right: 'cents: Field(int, { ge: 1, le: 1_000_000 }) … update wallet set cents = cents - ?',
    judge: findAmounts,
  },
  {
    id: 'SVC644',
    severity: 'warning',
    cwe: [837],
    why: 'Services deliver a message again when they get no response in time, and mailboxes and logs keep links. Each use has its effect again',
    remedy:
      'Keep the id of the message in a column with a unique key, in the same transaction: insert … on conflict do nothing, and stop if affectedRows is 0',
    wrong:
      "if (isSigned(req)) await tx.execute('update wallet set credits = credits + ? where id = ?', [event.credits, event.wallet])",
    right: "await tx.execute('insert into seen (event) values (?)', [event.id])  // event is the primary key",
    judge: findRepeated,
  },
];

/**
 * SVC641: a number of a client from which an amount is computed, although the row that the client names beside it has a
 * column of this name.
 */
function findOwnPrices(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs) if (!decidesByRights(run, trace)) judgePrices(run, trace, report);
}

function judgePrices(run: Run, trace: Trace, report: ReportAt): void {
  const sent = trace.sentBy(run);
  const found = sent
    .filter(({ outline }) => outline.verb === 'select')
    .flatMap(({ call, equal }) =>
      equal.flatMap(({ table, value }) =>
        inputsOf(value).map((key) => ({ call, table, beside: parentOf(key) })),
      ),
    );
  for (const sending of sent)
    for (const { table: into, column, value, token } of sending.written) {
      if (value === undefined || isCompared(value, run, trace)) continue;
      const names = inputsOf(value);
      const price = names.find((name) => {
        const own = plain(name.slice(parentOf(name).length));
        return (
          names.length > 1 &&
          own !== plain(column) &&
          found.some(
            ({ call, table, beside }) =>
              table !== into &&
              beside === parentOf(name) &&
              !rowsIn(value).includes(call) &&
              trace.tables.get(table)?.columns.some((each) => plain(each) === own) === true,
          )
        );
      });
      if (price === undefined) continue;
      const computed = madeIn(value).find(
        ({ by, node }) => by === `input ${price}` && node.type === 'binary',
      );
      report(
        computed ?? sending.nodeAt(token),
        `the amount for the column "${column}" is computed from ${price} of the client, although a row of the database has this value`,
        { remedy: 'Read it with the row: select id, unit_cents from product where id = ?' },
      );
    }
}

/** Returns the name of the object of which an input is a member, with its dot. */
function parentOf(input: string): string {
  return input.slice(0, input.lastIndexOf('.') + 1);
}

function findAmounts(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs)
    for (const sending of trace.sentBy(run)) {
      for (const binding of sending.bindings ?? []) judgeComputed(binding, run, trace, report);
      for (const added of addedTo(sending))
        if (isFloat(added.value) && AMOUNT.test(addedBy(sending) ?? ''))
          report(
            sending.nodeAt(added.token),
            'the amount that the statement adds to a column is an input that is a floating-point number, whose sums are not exact',
          );
      for (const taken of takenFrom(sending)) {
        const problem = isFloat(taken.value)
          ? 'is a floating-point number, whose sums are not exact'
          : mayBeNegative(taken.value) && !isCompared(taken.value, run, trace)
            ? 'may be negative, so a client adds to the column instead'
            : undefined;
        if (problem === undefined) continue;
        report(
          sending.nodeAt(taken.token),
          `the amount that the statement takes from a column is an input that ${problem}`,
        );
      }
    }
}

/** Reports a product for a column of an amount, with a number of the client that may be negative or is no whole number. */
function judgeComputed({ value, column }: Binding, run: Run, trace: Trace, report: ReportAt): void {
  const marks = new Set(madeIn(value).map(({ node }) => node));
  for (const { node, module, sides } of trace.sumsOf(run)) {
    if (!marks.has(node) || node.type !== 'binary') continue;
    const given = sides.find((side) => side.declared?.number !== undefined);
    const isOfRow = sides.some((side) => side !== given && rowsIn(side).length > 0);
    const isSigned =
      node.operator === '*' && given?.declared?.number?.hasLeast === false && !isCompared(given, run, trace);
    if (isSigned && (isOfRow || AMOUNT.test(column)))
      report(
        { node, module },
        `the product is an amount, and ${inputsOf(given)[0] ?? 'its factor'} of the client may be negative, so the client pays less than nothing`,
      );
    else if (isFloat(given) && isOfRow && AMOUNT.test(column))
      report(
        { node, module },
        `the amount for the column "${column}" is computed with a floating-point number of the client, whose sums are not exact`,
      );
  }
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

/** SVC644: a number that each delivery of a signed message changes. */
function findRepeated(trace: Trace, report: ReportAt, sources: Sources): void {
  findReusable(trace, report);
  const isOnce = sources
    .all('call')
    .some(({ module, node }) => meaningOfCall(node, module) === 'svc.IdempotencyMiddleware');
  if (isOnce) return;
  for (const run of trace.runs) {
    const calls = trace.callsOf(run);
    if (!calls.some(({ meaning }) => meaning === 'crypto.timingSafeEqual')) continue;
    const sent = trace.sentBy(run);
    if (sent.some((each) => remembers(each, trace)) || calls.some(isLookup)) continue;
    for (const sending of sent) {
      const column = addedBy(sending);
      const amount = isGuarded(run) ? undefined : bookedBy(sending);
      if (amount !== undefined)
        report(
          sending.nodeAt(undefined),
          `each delivery of the message inserts a row with "${amount}" into the table "${sending.target}", because no statement keeps the id of the message under a unique key`,
        );
      if (column === undefined || addedTo(sending).length === 0) continue;
      report(
        sending.nodeAt(undefined),
        `each delivery of the message adds to the column "${column}" of the table "${sending.target}", because no statement keeps the id of the message under a unique key`,
      );
    }
  }
}

/** Columns of amounts, where the name is the only declaration. */
const AMOUNT =
  /(?:^|_)(?:cents|amount|price|cost|total|balance|credits?|points|fee|paid|value|quantity)(?:_|$)/;

/** Returns the column of an amount that a statement inserts by an input. */
function bookedBy({ outline, written }: Sending): string | undefined {
  return outline.verb === 'insert'
    ? written.find(({ kind, column }) => kind === 'input' && AMOUNT.test(column))?.column
    : undefined;
}

/** SVC644: a password that a random token of the client sets, while the token stays. */
function findReusable(trace: Trace, report: ReportAt): void {
  for (const run of trace.runs) {
    // a session is such a row, too, and stays on purpose
    if (isGuarded(run) || trace.callsOf(run).some(({ meaning }) => meaning === 'svc.checkPassword')) continue;
    const sent = trace.sentBy(run);
    for (const write of sent) {
      if (!write.written.some(isPassword)) continue;
      const keys = write.equal.flatMap(({ value }) => value ?? []);
      const read = sent.find(
        (each) =>
          (each === write || keys.some((key) => rowsIn(key, [ROW]).includes(each.call))) &&
          each.outline.verb !== 'delete' &&
          isOfToken(each, trace),
      );
      if (read === undefined || sent.some((each) => removes(each, read))) continue;
      // a token in the row of the account ends in the statement that sets the password
      report(
        (read.target === write.target ? write : read).nodeAt(undefined),
        `the token of the table "${read.target}" sets a password, and stays valid: each holder of the link sets it again`,
        {
          remedy:
            'Delete the row and read it in one statement: delete from reset where token = ? and expires > ? returning account',
        },
      );
    }
  }
}

/** Whether a statement deletes the row of a token, or sets another column than the password in it. */
function removes(write: Sending, read: Sending): boolean {
  if (!write.isWrite || !write.tables.includes(read.target ?? '')) return false;
  return (
    write.outline.verb !== 'update' ||
    writtenBy(write).some(
      ({ column }) => !write.written.some((each) => each.column === column && isPassword(each)),
    )
  );
}

/** Whether a statement knows a message that came before: it searches by an input, or inserts it under a unique key. */
function remembers(sending: Sending, trace: Trace): boolean {
  const { bindings, outline } = sending;
  if (bindings === undefined) return true;
  const isBy = bindings.some(({ use, kind }) => (use === 'equal' || use === 'compared') && kind === 'input');
  if (addedBy(sending) !== undefined)
    return (
      bindings.filter(({ use, kind }) => use !== 'written' && use !== 'other' && kind === 'input').length > 1
    );
  if (outline.verb !== 'insert') return isBy;
  const table = trace.tableOf(sending);
  const written = sending.written.filter(({ kind }) => kind !== 'constant');
  return table === undefined || holdsKey(table, columnsOf(written));
}

/** Whether a call asks a set or a store for a value of the message. */
function isLookup({ call, meaning, isOfBody }: KeptCall): boolean {
  const method = methodOf(call);
  if (/^svc\/db\.(?:redis|Redis)/.test(meaning)) return true;
  return isOfBody && /^(?:has|get|add|set|take|once|claim)$/.test(method);
}
