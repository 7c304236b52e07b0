/**
 * Rules about amounts, dates and numbers: prices that a client sends although a row has them (SVC641), amounts that count at
 * each delivery of a message (SVC644) or are negative or floating-point numbers (SVC647), and dates, times and numbers that
 * come out wrong (SVC660) or are none (SVC415).
 */
import { literal } from '../reader/constants.ts';
import { functionAround, methodOf, objectOf, partsIn, pathOf } from '../reader/nodes.ts';
import { inputsOf, plain } from '../statements/sending.ts';
import { comparedColumn, isGuarded, rowsIn } from '../statements/trace.ts';
import { holdsKey } from '../statements/written-schema.ts';
import { MILLISECONDS, ROW, SECONDS, isClock } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { endlessMark, isStored } from '../values/text.ts';
import { clientIn, clientsIn, idsIn, madeIn } from '../values/value.ts';
import { decidesByRights } from './ownership.ts';
import { addedBy, addedTo, columnsOf, isOfToken, isPassword, takenFrom, writtenBy } from './races.ts';
import type { Spot } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Binding, Sending } from '../statements/sending.ts';
import type { KeptCall, Run, Trace } from '../statements/trace.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about amounts, dates and numbers, sorted by id. */
export const AMOUNT_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC641', onRun: findOwnPrices },
  { id: 'SVC644', onRun: findReusable },
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
  {
    id: 'SVC660',
    severity: 'warning',
    cwe: [682],
    sources: ['ECMA-262: MakeDay'],
    why: 'The calculation is right for most values only: January 31 plus a month is March 3, 19.99 * 100 is 1998.999…, and a lifetime in milliseconds is a thousand times too long in seconds',
    remedy:
      'Take the last day of the month if it is shorter: Math.min(day, new Date(year, month + 1, 0).getDate())',
    wrong: 'end.setMonth(end.getMonth() + 1)',
    right: 'end.setMonth(end.getMonth() + 1, 1)',
    find: findDates,
    watch: watchNumbers,
  },
  { id: 'SVC660', watch: watchRounded },
  { id: 'SVC415', watch: watchUnread },
];

/**
 * SVC641: a number of a client from which an amount is computed, although the row that the client names beside it has a
 * column of this name.
 */
function findOwnPrices(run: Run, trace: Trace, report: ReportAt): void {
  if (decidesByRights(run, trace)) return;
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

function findAmounts(run: Run, trace: Trace, report: ReportAt): void {
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
      if (problem !== undefined)
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
  for (const { node, module, sides } of trace.sums.by(run)) {
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
  const sides = trace.compared.by(run).flatMap((compared) => compared.sides);
  return sides.some(
    (side) => idsIn(side).some((id) => ids.includes(id)) || madeIn(side).some(({ by }) => marks.includes(by)),
  );
}

/** SVC644: a number that each delivery of a signed message changes. */
function findRepeated(trace: Trace, report: ReportAt, sources: Sources): void {
  if (sources.called(/^svc\.IdempotencyMiddleware$/).some(() => true)) return;
  for (const run of trace.runs) {
    const calls = trace.calls.by(run);
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
function findReusable(run: Run, trace: Trace, report: ReportAt): void {
  // a session is such a row, too, and stays on purpose
  if (isGuarded(run) || trace.calls.by(run).some(({ meaning }) => meaning === 'svc.checkPassword')) return;
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

/** SVC660: months that code adds to a date, whose day stays, and days of one time zone that code writes in another one. */
function findDates(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    if (cutsDay(call) && isLocalDay(objectOf(call)) && sources.isReached(call))
      report(
        { module, call },
        'the day begins in the time zone of the process, and toISOString() writes it in UTC: east of Greenwich, that is the day before',
        {
          remedy:
            'Use the methods of one zone: setUTCHours(0, 0, 0, 0), or format the day by Intl.DateTimeFormat with the time zone of the user',
        },
      );
    const isMoved = addsMonths(call) || makesMonths(call);
    if (isMoved && !knowsDay(call) && sources.isReached(call))
      report(
        { module, call },
        'the day stays the same in another month: where the month is shorter, the date is in the month after it',
      );
  }
}

/** Returns the unit of a time; undefined if it is not known. */
function unitOf(value: Value | undefined): string | undefined {
  const marks = madeIn(value && { texts: value.texts }).map(({ by }) => by);
  if (marks.includes(SECONDS)) return SECONDS;
  return marks.some((by) => by === MILLISECONDS || isClock(by)) ? MILLISECONDS : undefined;
}

/** SVC660: milliseconds and seconds in one sum or column, and decimals that code cuts to whole hundredths. */
function watchNumbers(report: ReportAt): Watch {
  /** The units of times that statements write, by column. */
  const written = new Map<string, Set<string>>();
  const compared: (Spot & { readonly column: string; readonly unit: string })[] = [];
  const tell = (spot: Spot): void =>
    report(spot, 'one side counts seconds and the other one milliseconds', {
      remedy: 'Convert one of them, and write the unit into its name: const ttlSeconds = ttlMs / 1_000',
    });
  return {
    onSum(sum) {
      const { node, module, sides } = sum;
      if (node.type === 'binary' && node.operator === '*') return;
      const units = sides.map(unitOf);
      if (units.every((unit) => unit !== undefined) && units[0] !== units[1]) tell({ module, node });
      for (const [index, unit] of [units[1], units[0]].entries()) {
        const column = comparedColumn(sum, index);
        const isColumn = units[index] === undefined && madeIn(sides[index]).some(({ by }) => by === ROW);
        if (unit !== undefined && column !== undefined && isColumn)
          compared.push({ node, module, column: column.toLowerCase(), unit });
      }
    },
    onStatement({ bindings = [], call, module }) {
      for (const { use, column, value } of bindings) {
        const unit = unitOf(value);
        if (unit === undefined || column === '') continue;
        if (use === 'written') written.set(column, (written.get(column) ?? new Set()).add(unit));
        else compared.push({ node: call, module, column, unit });
      }
    },
    finish() {
      for (const { column, unit, ...spot } of compared) {
        const units = written.get(column);
        if (units?.size === 1 && !units.has(unit)) tell(spot);
      }
    },
    onCall(site) {
      const { call, meaning, module, value } = site;
      const cut = /^(?:Math\.(?:floor|trunc|ceil)|(?:Number\.)?parseInt)$/.test(meaning)
        ? call.args[0]
        : undefined;
      const product = cut && literal(cut, module);
      if (product?.type !== 'binary' || product.operator !== '*' || call.parent?.type === 'binary') return;
      const factor = [product.left, product.right].find(
        (side) => !/^1(?:0_?0(?:_?00|0)?|e[23])$/.test(constantIn(value(side)) ?? ''),
      );
      const isScaled =
        factor !== undefined &&
        [product.left, product.right].some(
          (side) => side !== factor && constantIn(value(side)) !== undefined,
        );
      const given = value(factor);
      const isGiven =
        clientIn(given) !== undefined ||
        madeIn(given).some(({ by }) => by === ROW || by.startsWith('input '));
      const isWhole = given?.declared?.number?.isFloat === false;
      if (isScaled && isGiven && !isWhole && /^(?:name|member|call|unary)$/.test(factor.type))
        report(
          { module, call },
          'a decimal is multiplied as a floating-point number and cut: 19.99 * 100 is 1998.999…, so a hundredth is lost',
          {
            remedy: 'Round the product with Math.round(), or take the digits from the text of a decimal',
          },
        );
    },
  };
}

/** Whether code takes only the day of the text of a date: `date.toISOString().slice(0, 10)`. */
function cutsDay(call: Call): boolean {
  const cut = call.parent?.type === 'member' ? call.parent.parent : undefined;
  return (
    methodOf(call) === 'toISOString' &&
    cut?.type === 'call' &&
    /^(?:slice|substring|split)$/.test(methodOf(cut))
  );
}

/** Whether a date is the beginning of a day in the time zone of the process. */
function isLocalDay(date: Node | undefined): boolean {
  if (date?.type === 'call') return date.isNew && pathOf(date.callee) === 'Date' && date.args.length === 3;
  const fn = date?.type === 'name' ? functionAround(date) : undefined;
  if (date?.type !== 'name' || fn === undefined) return false;
  return partsIn(fn).some(
    (part) =>
      (part.type === 'declarator' &&
        part.target.type === 'name' &&
        part.target.name === date.name &&
        part.value?.type === 'call' &&
        isLocalDay(part.value)) ||
      (methodOf(part) === 'setHours' && pathOf(objectOf(part as Call) ?? part) === date.name),
  );
}

/** Whether a call moves a date by months: `date.setMonth(date.getMonth() + n)`. */
function addsMonths(call: Call): boolean {
  return /^set(?:UTC)?Month$/.test(methodOf(call)) && call.args.length === 1 && isMoved(call.args[0]);
}

/** Whether a call makes a date of a moved month and the day of another date: `new Date(year, month + 1, date.getDate())`. */
function makesMonths({ callee, args: [, month, day], isNew }: Call): boolean {
  const path = pathOf(callee);
  return ((isNew && path === 'Date') || path === 'Date.UTC') && isMoved(month) && isDay(day);
}

/** Whether an expression adds a number to a month, or subtracts one. */
function isMoved(node: Node | undefined): boolean {
  return (
    node?.type === 'binary' &&
    /^[-+]$/.test(node.operator) &&
    [node.left, node.right].some((side) => /^get(?:UTC)?Month$/.test(methodOf(side)))
  );
}

function isDay(node: Node | undefined): boolean {
  return /^get(?:UTC)?Date$/.test(methodOf(node));
}

/** Whether the function around a call sets the day of a date, or compares it. */
function knowsDay(call: Call): boolean {
  return partsIn(functionAround(call) ?? call).some(
    (part) =>
      /^set(?:UTC)?Date$/.test(methodOf(part)) ||
      (part.type === 'binary' &&
        /^(?:[!=]==?|[<>]=?)$/.test(part.operator) &&
        (isDay(part.left) || isDay(part.right))),
  );
}

const READS = /^(?:Number\.)?parse(?:Int|Float)$|^Number$/;

/** SVC660: a text of a client that becomes a number, for a column to which other code writes a `bigint`. */
function watchRounded(report: ReportAt): Watch {
  const read = new Map<string, Spot>();
  const tested = new Set<string>();
  const used: (Pick<Binding, 'table' | 'column'> & { readonly by: string })[] = [];
  const large = new Set<string>();
  return {
    onCall({ call, meaning, module, value }: Site) {
      const [first] = call.args;
      const part = READS.test(meaning) ? clientIn(value(first)) : undefined;
      if (part !== undefined && !isStored(part))
        read.set(`input ${part.origin.what}`, { node: call, module });
      if (meaning === 'Number.isSafeInteger') for (const { by } of madeIn(value(first))) tested.add(by);
    },
    onStatement({ equal, written }) {
      for (const { table, column, value, use } of [...equal, ...written]) {
        const marks = madeIn(value);
        const isLarge = marks.some(({ by }) => by === 'BigInt');
        if (isLarge && use === 'written') large.add(`${table}.${column}`);
        if (!isLarge && clientIn(value) === undefined)
          for (const { by } of marks) used.push({ table, column, by });
      }
    },
    finish() {
      for (const { table, column, by } of used) {
        const at = large.has(`${table}.${column}`) && !tested.has(by) ? read.get(by) : undefined;
        if (at !== undefined)
          report(
            at,
            `the number is rounded above 2 ** 53, but the column "${column}" of the table "${table}" has larger ones, so the statement finds another row`,
            { remedy: 'Read it as it was written: BigInt(params.id)' },
          );
      }
    },
  };
}

/** Functions that keep or show a number, and test nothing. */
const INDIFFERENT = /^(?:svc(?:\/\w+)?\.|console\.|String$|JSON\.|Math\.|Promise\.|Object\.|Number$|parse)/;

/** SVC415: a number that code reads from a text of a client, and binds without a test: a text of letters gives NaN. */
function watchUnread(report: ReportAt, { handlers }: Sources): Watch {
  const tested = new Set<string>();
  /** The first statement that binds a number. */
  const bound = new Map<string, Spot>();
  const note = (values: readonly (Value | undefined)[]): void => {
    for (const value of values) {
      for (const { by } of madeIn(value)) tested.add(by);
      for (const { id, origin } of value === undefined ? [] : clientsIn(value))
        tested.add(endlessMark(id, origin.what));
    }
  };
  return {
    onCompare: ({ sides }) => note(sides),
    onTest: ({ value }) => note([value]),
    onCall({ call, meaning, fn, value }) {
      if (fn === undefined && !INDIFFERENT.test(meaning)) note(call.args.map((arg) => value(arg)));
    },
    onStatement(sending) {
      for (const { value, token } of sending.bindings ?? [])
        for (const { by, node } of value?.texts.length === 1 ? madeIn({ texts: value.texts }) : [])
          // the mark of a text has its route, which a dependency does not know; that of a declared number has the member
          if (by.startsWith('endless ') && node.type === 'call' && handlers.isRoute(node) && !bound.has(by))
            bound.set(by, sending.nodeAt(token));
    },
    finish() {
      for (const [by, spot] of bound)
        if (!tested.has(by))
          report(
            spot,
            `${by.split(' ').at(-1)} may be a text of letters, so the number is NaN: no database binds it, and the client gets status 500`,
            {
              severity: 'warning',
              remedy:
                'Declare the number: {id:int} in the path, or Field(int). Or test it: Number.isInteger(id)',
            },
          );
    },
  };
}
