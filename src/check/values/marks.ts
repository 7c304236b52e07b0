/** Marks of values that rules of access follow: the principal, and results of the database. */
import { constantIn, isFromEnd } from './tests.ts';
import { KNOWN, computedFrom, hasMark, madeIn } from './value.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import { isChosen } from './text.ts';
import type { Made, Part } from './text.ts';
import type { Given, Value } from './value.ts';

/** Mark of the client that a guard has authenticated, and of its claims. */
export const PRINCIPAL = 'principal';
/** Mark of rows that a statement selects by the principal. */
export const OWN_ROW = 'row of the principal';
/** Mark of the result of a change of rows that a statement selects by the principal. */
export const OWN_CHANGE = 'change of the principal';
/** Mark of a result of the database. */
export const ROW = 'database row';
/** Mark of a row that a declared class describes: its members are known. */
export const CLASS_ROW = 'row of a class';
/** Mark of a number that arithmetic made of a result of the database. */
export const COMPUTED = 'computed row';

/** Marks of numbers that count milliseconds or seconds, because code multiplies or divides by a thousand. */
export const MILLISECONDS = 'milliseconds';
export const SECONDS = 'seconds';

/** Marks of inputs of clients: `input body.name`, and `endless …` for a number without a maximum. */
export const INPUT: RegExp = /^(?:input|endless) /;
/** Marks of results of node:crypto: digests, keys and random values. */
export const CRYPTO: RegExp = /^crypto\./;
export const RANDOM: RegExp = /^crypto\.random/;

/** Mark of a setting that has a text of the sources if no variable sets it. */
export const FALLBACK = 'fallback';

/** Types of the results of guards of this package. */
export const GUARDS: RegExp =
  /^svc\.(?:BearerAuth|IssuerAuth|APIKeyAuth|requireRoles|requireScopes|requireIf|requireSession)$/;

/** Whether a mark says that a value belongs to the client that a guard has authenticated. */
export function isOfPrincipal({ by }: Made): boolean {
  return by === PRINCIPAL || by === OWN_ROW || by === OWN_CHANGE;
}

/** Whether a call returns a value that belongs to the client: an entry of its session. */
export function isPrincipal(meaning: string): boolean {
  return /^svc\.Session\.(?:get|require)$/.test(meaning);
}

/** Whether a mark says that a number is the time, in milliseconds. */
export function isClock(by: string): boolean {
  return /^(?:Date|Date\.now|svc\.Clock\.nowMs)$/.test(by);
}

/** Changes the marks of columns in a value: of members of rows without a declared class. */
function withColumns(value: Value, change: (made: Made) => Made): Value {
  const isColumn = (part: Part): boolean => part.kind === 'own' && part.made?.by === ROW;
  if (!value.texts.some((text) => text.some(isColumn))) return value;
  return {
    ...value,
    texts: value.texts.map((text) =>
      text.map((part) =>
        part.kind === 'own' && part.made?.by === ROW ? { ...part, made: change(part.made) } : part,
      ),
    ),
  };
}

/** Returns a member of a row as the column of this name; without a name, the value is of no row. */
export function columnOfRow(value: Value, column: string | undefined): Value {
  return column === undefined ? value : withColumns(value, (made) => ({ ...made, column }));
}

/** Returns a text that an operation made of a column: its characters may be others. */
export function changedColumn(value: Value): Value {
  return withColumns(value, ({ column: _column, ...made }) => made);
}

/** Returns a value whose columns keep the expression that first brought them into a longer text. */
export function enteredColumn(value: Value, entry: Spot | undefined): Value {
  if (entry === undefined) return value;
  return withColumns(value, (made) =>
    made.column === undefined ? made : { ...made, entry: made.entry ?? entry },
  );
}

const THOUSAND = /^1(?:_?000|e3)$/;
const IN_MILLISECONDS = /^(?:1_?000|1e3|60_?000|3_?600_?000|86_?400_?000)$/;

function isUnit(made: Made | undefined): boolean {
  return made?.by === MILLISECONDS || made?.by === SECONDS;
}

/** Returns the unit of a time that code has multiplied or divided; undefined if it is not known. */
function unitAfter(operator: string, [left, right]: readonly Value[]): string | undefined {
  const marks = madeIn(left);
  if (operator === '/') {
    const isTime =
      marks.some(({ by }) => isClock(by) || by === MILLISECONDS) && !marks.some(({ by }) => by === SECONDS);
    return isTime && THOUSAND.test(constantIn(right) ?? '') ? SECONDS : undefined;
  }
  const isScaled = [left, right].some((side) => IN_MILLISECONDS.test(constantIn(side) ?? ''));
  return isScaled || [...marks, ...madeIn(right)].some(({ by }) => by === MILLISECONDS)
    ? MILLISECONDS
    : undefined;
}

/** Whether `+` adds numbers of which one is the column of a row. */
export function isSumOfRows(sides: readonly Value[]): boolean {
  const parts = sides.flatMap(({ texts }) => texts.flat());
  const isNumeric = parts.every(
    (part) => part.kind === 'own' || (part.kind === 'literal' && /^[\d._]+$/.test(part.text)),
  );
  return isNumeric && parts.some((part) => part.kind === 'own' && part.made?.by === ROW);
}

/** Returns the mark of a number that arithmetic made of a column, or of an input: at the expression. */
function arithmetic(made: Made, at: Spot): Made {
  if (made.by === ROW) return { ...made, by: COMPUTED };
  return INPUT.test(made.by) && made.node.type !== 'binary' ? { by: made.by, ...at } : made;
}

/** Returns the result of arithmetic. A product or quotient has the mark of its unit in place of those of its sides. */
export function calculated(
  operator: string,
  sides: readonly Value[],
  [first, second]: readonly [Node, Node],
  module: SourceModule,
): Value {
  if (isFromEnd(operator, sides)) return sides[0] ?? KNOWN;
  const at = { node: second.parent ?? second, module };
  // a remainder, and the bits of a mask, are no greater than the right side
  const isBounded = /^[%&]$/.test(operator) && sides[1]?.texts.some(isChosen) === false;
  const result = computedFrom(sides, (made) => ({
    ...arithmetic(made, at),
    ...(isBounded && { isBounded }),
  }));
  if (!/^[*/]$/.test(operator)) return result;
  const by = unitAfter(operator, sides);
  const marks = result.texts.flat().filter((part) => part.kind === 'own' && !isUnit(part.made));
  const unit: Part[] = by === undefined ? [] : [{ kind: 'own', made: { by, node: first, module } }];
  return marks.length + unit.length === 0 ? KNOWN : { texts: [[...marks, ...unit]] };
}

/** Returns the origin of a value that belongs to the client whom a guard has authenticated. */
export function givenByPrincipal(value: Value): Given | undefined {
  return hasMark(value, PRINCIPAL)
    ? { what: 'the authenticated client', part: undefined, route: undefined }
    : undefined;
}
