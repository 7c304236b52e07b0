/** Rule about dates that do not exist: the 31st of a month with 30 days (SVC660). */
import { functionAround, pathOf, walk } from '../reader/nodes.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources } from '../sources.ts';

/** Rules about dates. */
export const DATE_RULES: readonly SourceRule[] = [
  {
    id: 'SVC660',
    severity: 'warning',
    phase: 'source',
    cwe: [682],
    sources: ['ECMA-262: MakeDay'],
    why: 'A day that the month does not have becomes a day of the next month: one month after January 31 is March 3',
    remedy:
      'Take the last day of the month if it is shorter: Math.min(day, new Date(year, month + 1, 0).getDate())',
    wrong: 'end.setMonth(end.getMonth() + 1)',
    right: 'end.setMonth(end.getMonth() + 1, 1)',
    find: findMonths,
  },
];

/** SVC660: months that code adds to a date, whose day stays. */
function findMonths(sources: Sources, report: ReportAt): void {
  for (const { module, node: call } of sources.all('call')) {
    const isMoved = addsMonths(call) || makesMonths(call);
    if (isMoved && !knowsDay(call) && sources.reachedFrom(functionAround(call)) !== undefined)
      report(
        module,
        call,
        'the day stays the same in another month: where the month is shorter, the date is in the month after it',
      );
  }
}

/** Whether a call moves a date by months: `date.setMonth(date.getMonth() + n)`. */
function addsMonths({ callee, args: [month, ...more] }: Call): boolean {
  const method = callee.type === 'member' ? callee.property : undefined;
  return /^set(?:UTC)?Month$/.test(method ?? '') && more.length === 0 && isMoved(month);
}

/** Whether a call makes a date of a moved month and the day of another date: `new Date(year, month + 1, date.getDate())`. */
function makesMonths({ callee, args: [, month, day], isNew }: Call): boolean {
  return (
    ((isNew && pathOf(callee) === 'Date') || pathOf(callee) === 'Date.UTC') &&
    isMoved(month) &&
    day !== undefined &&
    isMethod(day, /^get(?:UTC)?Date$/)
  );
}

/** Whether an expression adds a number to a month, or subtracts one. */
function isMoved(node: Node | undefined): boolean {
  return (
    node?.type === 'binary' &&
    /^[-+]$/.test(node.operator) &&
    [node.left, node.right].some((side) => isMethod(side, /^get(?:UTC)?Month$/))
  );
}

function isMethod(node: Node, method: RegExp): boolean {
  return node.type === 'call' && node.callee.type === 'member' && method.test(node.callee.property ?? '');
}

/** Whether the function around a call sets the day of a date, or compares it. */
function knowsDay(call: Call): boolean {
  let found = false;
  walk(functionAround(call) ?? call, (part) => {
    if (isMethod(part, /^set(?:UTC)?Date$/)) found = true;
    const sides =
      part.type === 'binary' && /^(?:[!=]==?|[<>]=?)$/.test(part.operator) ? [part.left, part.right] : [];
    if (sides.some((side) => isMethod(side, /^get(?:UTC)?Date$/))) found = true;
    return !found;
  });
  return found;
}
