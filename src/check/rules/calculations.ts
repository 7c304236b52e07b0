/**
 * Rules about calculations that are right for most values only: of dates, times and numbers (SVC660), and of texts that are
 * no numbers (SVC415).
 */
import { literal } from '../reader/constants.ts';
import { functionAround, methodOf, objectOf, partsIn, pathOf } from '../reader/nodes.ts';
import { comparedColumn } from '../statements/trace.ts';
import { MILLISECONDS, ROW, SECONDS, isClock } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { endlessMark, isStored } from '../values/text.ts';
import { clientIn, clientsIn, hasMark, madeIn, withoutMembers } from '../values/value.ts';
import type { Spot } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Binding } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about calculations, sorted by id. */
export const CALCULATION_RULES: readonly (SourceRule | SourcePart)[] = [
  { id: 'SVC415', watch: watchUntested },
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
    find: findMovedMonths,
  },
  { id: 'SVC660', find: findDaysOfTwoZones },
  { id: 'SVC660', watch: watchUnits },
  { id: 'SVC660', onCall: findCutDecimals },
  { id: 'SVC660', watch: watchRounded },
];

/** Methods of Date, by what they do. */
const READS_MONTH = /^get(?:UTC)?Month$/;
const SETS_MONTH = /^set(?:UTC)?Month$/;
const READS_DAY = /^get(?:UTC)?Date$/;
const SETS_DAY = /^set(?:UTC)?Date$/;

/** SVC660: months that code adds to a date, whose day stays. */
function findMovedMonths(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call'))
    if (movesMonth(call) && !knowsDay(call) && sources.isReached(call))
      report(
        { module, call },
        'the day stays the same in another month: where the month is shorter, the date is in the month after it',
      );
}

/** Whether a call moves a date to another month: `date.setMonth(date.getMonth() + n)`, `new Date(year, month + 1, date.getDate())`. */
function movesMonth(call: Call): boolean {
  const [first, second, third] = call.args;
  if (SETS_MONTH.test(methodOf(call))) return call.args.length === 1 && isMovedMonth(first);
  const isDate = pathOf(call.callee) === (call.isNew ? 'Date' : 'Date.UTC');
  return isDate && isMovedMonth(second) && READS_DAY.test(methodOf(third));
}

/** Whether an expression adds a number to a month, or subtracts one. */
function isMovedMonth(node: Node | undefined): boolean {
  return (
    node?.type === 'binary' &&
    /^[-+]$/.test(node.operator) &&
    [node.left, node.right].some((side) => READS_MONTH.test(methodOf(side)))
  );
}

/** Whether the function around a call sets the day of a date, or compares it. */
function knowsDay(call: Call): boolean {
  return partsIn(functionAround(call) ?? call).some(
    (part) =>
      SETS_DAY.test(methodOf(part)) ||
      (part.type === 'binary' &&
        /^(?:[!=]==?|[<>]=?)$/.test(part.operator) &&
        [part.left, part.right].some((side) => READS_DAY.test(methodOf(side)))),
  );
}

/** SVC660: days of one time zone that code writes in another one. */
function findDaysOfTwoZones(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call'))
    if (cutsDay(call) && beginsLocalDay(objectOf(call)) && sources.isReached(call))
      report(
        { module, call },
        'the day begins in the time zone of the process, and toISOString() writes it in UTC: east of Greenwich, that is the day before',
        {
          remedy:
            'Use the methods of one zone: setUTCHours(0, 0, 0, 0), or format the day by Intl.DateTimeFormat with the time zone of the user',
        },
      );
}

/** Whether code takes only the day of the text of a date: `date.toISOString().slice(0, 10)`. */
function cutsDay(call: Call): boolean {
  const cut = call.parent?.type === 'member' ? call.parent.parent : undefined;
  return methodOf(call) === 'toISOString' && /^(?:slice|substring|split)$/.test(methodOf(cut));
}

/** Whether a date is the beginning of a day in the time zone of the process. */
function beginsLocalDay(date: Node | undefined): boolean {
  if (date?.type !== 'name') return isDayOfParts(date);
  const fn = functionAround(date);
  return (
    fn !== undefined &&
    partsIn(fn).some((part) =>
      part.type === 'declarator'
        ? pathOf(part.target) === date.name && isDayOfParts(part.value)
        : part.type === 'call' && methodOf(part) === 'setHours' && pathOf(objectOf(part)) === date.name,
    )
  );
}

/** Whether an expression makes a date of a year, a month and a day: `new Date(2026, 0, 31)`. */
function isDayOfParts(node: Node | undefined): boolean {
  return node?.type === 'call' && node.isNew && pathOf(node.callee) === 'Date' && node.args.length === 3;
}

/** SVC660: milliseconds and seconds in one sum, comparison or column. */
function watchUnits(report: ReportAt): Watch {
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
        const isColumn = units[index] === undefined && hasMark(sides[index], ROW);
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
  };
}

/** Returns the unit of a time; undefined if it is not known. */
function unitOf(value: Value | undefined): string | undefined {
  const marks = madeIn(withoutMembers(value)).map(({ by }) => by);
  if (marks.includes(SECONDS)) return SECONDS;
  return marks.some((by) => by === MILLISECONDS || isClock(by)) ? MILLISECONDS : undefined;
}

/** Functions that cut a number to a whole one. */
const CUTS = /^(?:Math\.(?:floor|trunc|ceil)|(?:Number\.)?parseInt)$/;
/** Factors that make whole numbers of hundredths, thousandths and parts of ten thousand. */
const POWER_OF_TEN = /^1(?:0_?0(?:_?00|0)?|e[23])$/;

/** SVC660: decimals that code multiplies by a constant and cuts to whole numbers: `Math.floor(price * 100)`. */
function findCutDecimals({ call, meaning, module, value }: Site, report: ReportAt): void {
  const product = CUTS.test(meaning) ? literal(call.args[0], module) : undefined;
  if (product?.type !== 'binary' || product.operator !== '*' || call.parent?.type === 'binary') return;
  const sides = [product.left, product.right];
  const factor = sides.find((side) => !POWER_OF_TEN.test(constantIn(value(side)) ?? ''));
  const isScaled = sides.some((side) => side !== factor && constantIn(value(side)) !== undefined);
  const given = value(factor);
  const isGiven = clientIn(given) !== undefined || hasMark(given, ROW) || hasMark(given, /^input /);
  const isWhole = given?.declared?.number?.isFloat === false;
  if (isScaled && isGiven && !isWhole && /^(?:name|member|call|unary)$/.test(factor?.type ?? ''))
    report(
      { module, call },
      'a decimal is multiplied as a floating-point number and cut: 19.99 * 100 is 1998.999…, so a hundredth is lost',
      { remedy: 'Round the product with Math.round(), or take the digits from the text of a decimal' },
    );
}

/** Functions that read a number from a text. */
const READS_NUMBER = /^(?:Number\.)?parse(?:Int|Float)$|^Number$/;

/** SVC660: a text of a client that becomes a number, for a column to which other code writes a `bigint`. */
function watchRounded(report: ReportAt): Watch {
  /** Calls that read a number, by the mark of the input. */
  const read = new Map<string, Spot>();
  const tested = new Set<string>();
  const used: (Pick<Binding, 'table' | 'column'> & { readonly by: string })[] = [];
  /** Columns to which statements write a `bigint`. */
  const large = new Set<string>();
  return {
    onCall({ call, meaning, module, value }: Site) {
      const [first] = call.args;
      const part = READS_NUMBER.test(meaning) ? clientIn(value(first)) : undefined;
      if (part !== undefined && !isStored(part))
        read.set(`input ${part.origin.what}`, { node: call, module });
      if (meaning === 'Number.isSafeInteger') for (const { by } of madeIn(value(first))) tested.add(by);
    },
    onStatement({ equal, written }) {
      for (const { table, column, value, use } of [...equal, ...written]) {
        const isLarge = hasMark(value, 'BigInt');
        if (isLarge && use === 'written') large.add(`${table}.${column}`);
        if (!isLarge && clientIn(value) === undefined)
          for (const { by } of madeIn(value)) used.push({ table, column, by });
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
function watchUntested(report: ReportAt, { handlers }: Sources): Watch {
  const tested = new Set<string>();
  /** The first statement that binds a number. */
  const bound = new Map<string, Spot>();
  const note = (values: readonly (Value | undefined)[]): void => {
    for (const value of values) {
      for (const { by } of madeIn(value)) tested.add(by);
      for (const { id, origin } of clientsIn(value)) tested.add(endlessMark(id, origin.what));
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
        for (const { by, node } of value?.texts.length === 1 ? madeIn(withoutMembers(value)) : [])
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
