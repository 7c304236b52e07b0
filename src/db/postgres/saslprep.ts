/**
 * SASLprep (RFC 4013): the form in which passwords are hashed, so that what looks the same is the same.
 *
 * PostgreSQL judges characters before it normalizes them, where the RFC says after; a verifier was made by its rules, so they
 * are ours. What it refuses it hashes as it is: then so do we.
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
/** Made when the first password needs them. */
let tables: Tables | undefined;

/** The prepared text, or undefined when it has none: prohibited characters, mixed directions, nothing left. */
export function saslPrep(text: string): string | undefined {
  if (ASCII.test(text)) return text;
  if (!text.isWellFormed()) return undefined;
  const { spaces, nothing, prohibited, unassigned } = (tables ??= readTables());
  const mapped: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!; // a character has one
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

/** What a password is hashed as. */
export function preparedPassword(password: string): string {
  return saslPrep(password) ?? password;
}

/** RFC 3454 §6: with letters that are written from the right there are none that are not, and they are the first and last. */
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
      return [first!, last!] as const; // split() gives one at least
    });
}
