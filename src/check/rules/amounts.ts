/**
 * Rules about amounts: prices that a client sends although a row has them (SVC641), amounts that count at each delivery of a
 * message (SVC644), and amounts that may be negative or floating-point numbers (SVC647).
 */
import { methodOf } from '../reader/nodes.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { isGuarded, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { clientIn, idsIn, madeIn } from '../values/value.ts';
import { decidesByRights } from './ownership.ts';
import { addedBy, addedTo, columnsOf, takenFrom } from './races.ts';
import { AMOUNT } from '../names.ts';
import type { Call } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources } from '../sources.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { KeptCall, Run, Trace } from '../statements/trace.ts';
import type { Value } from '../values/value.ts';

/** Rules about amounts, sorted by id. */
export const AMOUNT_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC641', onRun: findOwnPrices },
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
  {
    id: 'SVC647',
    severity: 'warning',
    cwe: [1284, 839],
    why: 'A client that sends a negative amount receives what it should pay. Sums of floating-point numbers are not exact, so parts of cents appear and disappear',
    remedy: 'Declare the minimum, and count in whole cents: Field(int, { ge: 1, le: 1_000_000 })',
    wrong: 'cents: Field(int) … update wallet set cents = cents - ?',
    right: 'cents: Field(int, { ge: 1, le: 1_000_000 }) … update wallet set cents = cents - ?',
    onRun: findAmounts,
  },
];

/** A table in which a `select` searches by an input. `parent` is the object of the input: `body.item.` for `body.item.id`. */
interface Search {
  readonly call: Call;
  readonly table: string;
  readonly parent: string;
}

function searchesOf({ call, outline, equal }: Sending): readonly Search[] {
  if (outline.verb !== 'select') return [];
  return equal.flatMap(({ table, value }) =>
    inputsOf(value).map((input) => ({ call, table, parent: parentOf(input) })),
  );
}

/** Returns the name of the object of which an input is a member, with its dot. */
function parentOf(input: string): string {
  return input.slice(0, input.lastIndexOf('.') + 1);
}

/**
 * SVC641: a number of a client from which an amount is computed, although the row that the client names beside it has a
 * column of this name.
 */
function findOwnPrices(run: Run, trace: Trace, report: ReportAt): void {
  if (decidesByRights(run, trace)) return;
  const sent = trace.sentBy(run);
  const searches = sent.flatMap(searchesOf);
  for (const sending of sent)
    for (const { table, column, value, token } of sending.written) {
      const inputs = inputsOf(value);
      if (inputs.length < 2 || isCompared(value, run, trace)) continue;
      const others = searches.filter((each) => each.table !== table && !rowsIn(value).includes(each.call));
      const price = inputs.find((input) => {
        const parent = parentOf(input);
        const name = plain(input.slice(parent.length));
        const hasColumn = (search: Search): boolean =>
          trace.tables.get(search.table)?.columns.some((each) => plain(each) === name) === true;
        return name !== plain(column) && others.some((each) => each.parent === parent && hasColumn(each));
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

/** SVC647: amounts that statements take from a column, add to it or insert, and that a client chooses too freely. */
function findAmounts(run: Run, trace: Trace, report: ReportAt): void {
  for (const sending of trace.sentBy(run)) {
    for (const binding of sending.bindings ?? []) judgeProducts(binding, run, trace, report);
    const isAmount = AMOUNT.test(addedBy(sending) ?? '');
    for (const { value, token } of addedTo(sending))
      if (isAmount && isFloat(value))
        report(
          sending.nodeAt(token),
          'the amount that the statement adds to a column is an input that is a floating-point number, whose sums are not exact',
        );
    for (const { value, token } of takenFrom(sending)) {
      const problem = isFloat(value)
        ? 'is a floating-point number, whose sums are not exact'
        : mayBeNegative(value) && !isCompared(value, run, trace)
          ? 'may be negative, so a client adds to the column instead'
          : undefined;
      if (problem !== undefined)
        report(
          sending.nodeAt(token),
          `the amount that the statement takes from a column is an input that ${problem}`,
        );
    }
  }
}

/** Reports a product for a column of an amount, with a number of the client that may be negative or is no whole number. */
function judgeProducts({ value, column }: Binding, run: Run, trace: Trace, report: ReportAt): void {
  const marks = new Set(madeIn(value).map(({ node }) => node));
  for (const { node, module, sides } of trace.sums.by(run)) {
    const given = sides.find((side) => side.declared?.number !== undefined);
    if (!marks.has(node) || node.type !== 'binary' || given === undefined) continue;
    const isOfRow = sides.some((side) => side !== given && rowsIn(side).length > 0);
    const isAmount = AMOUNT.test(column);
    if (
      node.operator === '*' &&
      (isOfRow || isAmount) &&
      mayBeNegative(given) &&
      !isCompared(given, run, trace)
    )
      report(
        { node, module },
        `the product is an amount, and ${inputsOf(given)[0] ?? 'its factor'} of the client may be negative, so the client pays less than nothing`,
      );
    else if (isOfRow && isAmount && isFloat(given))
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
  const declared = value?.declared;
  if (declared === undefined) return clientIn(value) !== undefined;
  return declared.number?.hasLeast === false;
}

/** Whether a handler compares a value, or a part of it. */
function isCompared(value: Value | undefined, run: Run, trace: Trace): boolean {
  const ids = idsIn(value);
  const marks = madeIn(value).map(({ by }) => by);
  return trace.compared
    .by(run)
    .flatMap(({ sides }) => sides)
    .some(
      (side) =>
        idsIn(side).some((id) => ids.includes(id)) || madeIn(side).some(({ by }) => marks.includes(by)),
    );
}

/** SVC644: a number that each delivery of a signed message changes. */
function findRepeated(trace: Trace, report: ReportAt, sources: Sources): void {
  if (sources.called(/^svc\.IdempotencyMiddleware$/).some(() => true)) return;
  for (const run of trace.runs) {
    const calls = trace.calls.by(run);
    const sent = trace.sentBy(run);
    const isSigned = calls.some(({ meaning }) => meaning === 'crypto.timingSafeEqual');
    if (!isSigned || sent.some((each) => remembers(each, trace)) || calls.some(isLookup)) continue;
    for (const sending of sent)
      for (const effect of effectsOf(sending, run))
        report(
          sending.nodeAt(),
          `each delivery of the message ${effect}, because no statement keeps the id of the message under a unique key`,
        );
  }
}

/** Returns what a statement does again at each delivery of a message: it inserts an amount, or adds to a column. */
function effectsOf(sending: Sending, run: Run): readonly string[] {
  const { outline, target, written } = sending;
  const amounts =
    isGuarded(run) || outline.verb !== 'insert'
      ? []
      : written.filter(({ kind, column }) => kind === 'input' && AMOUNT.test(column));
  const added = addedTo(sending).length === 0 ? undefined : addedBy(sending);
  return [
    ...amounts.slice(0, 1).map(({ column }) => `inserts a row with "${column}" into the table "${target}"`),
    ...(added === undefined ? [] : [`adds to the column "${added}" of the table "${target}"`]),
  ];
}

/** Whether a statement knows a message that came before: it searches by an input, or inserts it under a unique key. */
function remembers(sending: Sending, trace: Trace): boolean {
  const { bindings, outline, written } = sending;
  if (bindings === undefined) return true;
  const searched = bindings.filter(
    ({ use, kind }) => kind === 'input' && (use === 'equal' || use === 'compared'),
  );
  if (addedBy(sending) !== undefined) return searched.length > 1;
  if (outline.verb !== 'insert') return searched.length > 0;
  const table = trace.tableOf(sending);
  return table === undefined || holdsKey(table, columnsOf(written.filter(({ kind }) => kind !== 'constant')));
}

/** Methods with which a set, map or store is asked for a value, or keeps it. */
const LOOKS_UP = /^(?:has|get|add|set|take|once|claim)$/;

/** Whether a call asks a set or a store for a value of the message. */
function isLookup({ call, meaning, isOfBody }: KeptCall): boolean {
  return /^svc\/db\.[Rr]edis/.test(meaning) || (isOfBody && LOOKS_UP.test(methodOf(call)));
}
