/**
 * Converts intervals from each IntervalStyle of the server to ISO 8601 (PostgreSQL manual §8.5.5):
 *   - iso_8601: P1Y2M3DT4H5M6.5S
 *   - postgres: 1 year 2 mons 3 days 04:05:06.5
 *   - postgres_verbose: @ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs
 *   - sql_standard: +1-2 +3 +4:05:06.5
 */

/** Names of units, with their index among years, months, days, hours, minutes and seconds. */
const UNITS: readonly (readonly [pattern: RegExp, place: number])[] = [
  [/^y/, 0],
  [/^mon/, 1],
  [/^d/, 2],
  [/^h/, 3],
  [/^min/, 4],
  [/^s/, 5],
];
const LETTERS = 'YMDHMS';
const FIRST_OF_TIME = 3;
const CLOCK = /^([-+]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?$/;
const YEARS_AND_MONTHS = /^([-+]?)(\d+)-(\d+)$/;

/** Returns an interval in ISO 8601. Returns text in an unknown form unchanged. */
export function intervalFromText(text: string): string {
  if (text.startsWith('P')) return text;
  const isVerbose = text.startsWith('@');
  const isAgo = isVerbose && text.endsWith(' ago');
  const words = text
    .slice(isVerbose ? 1 : 0, isAgo ? -' ago'.length : undefined)
    .trim()
    .split(' ');
  const parts = /[a-z]/.test(words.join('')) || isVerbose ? byUnits(words) : byPlaces(words);
  return parts === undefined ? text : written(isAgo ? parts.map(negated) : parts);
}

/** Parses numbers that are followed by their units, and optionally a time such as 04:05:06 at the end. */
function byUnits(words: readonly string[]): string[] | undefined {
  const parts = ['0', '0', '0', '0', '0', '0'];
  for (let index = 0; index < words.length; index++) {
    const word = words[index]!;
    if (CLOCK.test(word)) addClock(parts, word, '');
    else if (word !== '0' || words.length > 1) {
      const unit = words[++index] ?? '';
      const place = UNITS.find(([pattern]) => pattern.test(unit))?.[1];
      if (place === undefined || !/^[-+]?\d+(?:\.\d+)?$/.test(word)) return undefined;
      parts[place] = word;
    }
  }
  return parts;
}

/**
 * Parses the SQL standard's form `years-months days time`, such as `1-2 3 4:05:06`. In `-1-2 3 4:05:06`, the
 * minus applies to all parts, because no other part has a sign.
 */
function byPlaces(words: readonly string[]): string[] | undefined {
  const parts = ['0', '0', '0', '0', '0', '0'];
  const signs = words.filter((word) => /^[-+]/.test(word)).length;
  const common = signs === 1 && words[0]!.startsWith('-') ? '-' : '';
  for (const [index, word] of words.entries()) {
    const sign = index === 0 ? '' : common;
    const both = YEARS_AND_MONTHS.exec(word);
    if (both !== null) [parts[0], parts[1]] = [`${both[1]!}${both[2]!}`, `${both[1]!}${both[3]!}`];
    else if (CLOCK.test(word)) addClock(parts, word, sign);
    else if (/^[-+]?\d+$/.test(word)) parts[2] = `${sign}${word}`;
    else return undefined;
  }
  return parts;
}

function addClock(parts: string[], word: string, common: string): void {
  const [, own, hours, minutes, seconds = '0'] = CLOCK.exec(word)!;
  const sign = own === '' ? common : own!;
  parts.splice(FIRST_OF_TIME, 3, `${sign}${hours!}`, `${sign}${minutes!}`, `${sign}${seconds}`);
}

function negated(part: string): string {
  return part.startsWith('-') ? part.slice(1) : `-${part}`;
}

function written(parts: readonly string[]): string {
  const shown = parts.map((part, place) => {
    const number = part
      .replace(/^\+/, '')
      .replace(/^(-?)0+(?=\d)/, '$1')
      .replace(/(\.\d*?)0+$/, '$1')
      .replace(/\.$/, '');
    return Number(number) === 0 ? '' : `${number}${LETTERS[place]!}`;
  });
  const time = shown.slice(FIRST_OF_TIME).join('');
  const date = shown.slice(0, FIRST_OF_TIME).join('');
  return date === '' && time === '' ? 'PT0S' : `P${date}${time === '' ? '' : `T${time}`}`;
}
