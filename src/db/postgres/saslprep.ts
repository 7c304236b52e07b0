/**
 * SASLprep (RFC 4013): normalizes passwords before hashing, so that equal-looking passwords are equal.
 *
 * PostgreSQL checks characters before normalization, where the RFC checks after it. Its stored verifiers
 * depend on this, so this code does the same. A password that fails the check is hashed unchanged, as on the
 * server.
 */
import {
  LEFT_TO_RIGHT,
  MAPPED_TO_NOTHING,
  MAPPED_TO_SPACE,
  PROHIBITED,
  RIGHT_TO_LEFT,
  UNASSIGNED,
} from './saslprep-tables.ts';

type Ranges = readonly (readonly [first: number, last: number])[];

interface Tables {
  readonly spaces: Ranges;
  readonly nothing: Ranges;
  readonly prohibited: Ranges;
  readonly unassigned: Ranges;
  readonly rightToLeft: Ranges;
  readonly leftToRight: Ranges;
}

const ASCII = /^[\x20-\x7e]+$/;
/** Built when the first password needs it. */
let tables: Tables | undefined;

/** Returns the prepared text. Returns undefined for prohibited characters, mixed directions and empty results. */
export function saslPrep(text: string): string | undefined {
  if (ASCII.test(text)) return text;
  if (!text.isWellFormed()) return undefined;
  const { spaces, nothing, prohibited, unassigned } = (tables ??= readTables());
  const mapped: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!; // a character always has a code point
    if (isIn(code, spaces)) mapped.push(0x20);
    else if (!isIn(code, nothing)) mapped.push(code);
  }
  if (mapped.length === 0 || mapped.some((code) => isIn(code, prohibited) || isIn(code, unassigned)))
    return undefined;
  return isOneWay(mapped, tables)
    ? mapped
        .map((code) => String.fromCodePoint(code))
        .join('')
        .normalize('NFKC')
    : undefined;
}

/** Returns the form of a password that is hashed. */
export function preparedPassword(password: string): string {
  return saslPrep(password) ?? password;
}

/**
 * Right-to-left text must not contain left-to-right letters, and must begin and end with right-to-left
 * letters (RFC 3454 §6).
 */
function isOneWay(codes: readonly number[], { rightToLeft, leftToRight }: Tables): boolean {
  if (!codes.some((code) => isIn(code, rightToLeft))) return true;
  return (
    !codes.some((code) => isIn(code, leftToRight)) &&
    isIn(codes[0]!, rightToLeft) &&
    isIn(codes.at(-1)!, rightToLeft)
  );
}

function isIn(code: number, ranges: Ranges): boolean {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]![1] < code) low = middle + 1;
    else high = middle;
  }
  return low < ranges.length && ranges[low]![0] <= code;
}

function readTables(): Tables {
  return {
    spaces: readRanges(MAPPED_TO_SPACE),
    nothing: readRanges(MAPPED_TO_NOTHING),
    prohibited: readRanges(PROHIBITED),
    unassigned: readRanges(UNASSIGNED),
    rightToLeft: readRanges(RIGHT_TO_LEFT),
    leftToRight: readRanges(LEFT_TO_RIGHT),
  };
}

function readRanges(table: string): Ranges {
  return table
    .trim()
    .split(/\s+/)
    .map((range) => {
      const [first, last = first] = range.split('-').map((digits) => Number.parseInt(digits, 16));
      return [first!, last!] as const; // split() returns at least one part
    });
}
