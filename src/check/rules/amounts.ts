/**
 * Rules about amounts: those that a client makes negative, that are floating-point numbers (SVC647), and prices that a client
 * sends although a row has them (SVC641).
 */
import { clientIn, idsIn, madeIn } from '../values/value.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { rowsIn } from '../statements/trace.ts';
import { decidesByRights } from './ownership.ts';
import { addedBy, addedTo, takenFrom } from './races.ts';
import { AMOUNT } from './repeated.ts';
import type { ReportAt, SourcePart, SourceRule } from '../sources.ts';
import type { Binding } from '../statements/sending.ts';
import type { Run, Trace } from '../statements/trace.ts';
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
