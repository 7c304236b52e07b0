/**
 * Converts dates and times from each DateStyle of the server to the ISO style (PostgreSQL manual §8.5.2):
 *   - ISO: 1997-12-17 07:37:16-08
 *   - SQL: 12/17/1997 07:37:16 UTC, or 17/12/1997 07:37:16 UTC with the day first
 *   - German: 17.12.1997 07:37:16 UTC
 *   - Postgres: Wed Dec 17 07:37:16 1997 UTC, or 12-17-1997 for a date
 *
 * Text with an abbreviated time zone other than UTC, such as EST, is returned unchanged, because the offset
 * is not known.
 */

const NUMERIC = /^(\d\d)([./-])(\d\d)\2(\d{4,})(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?(?: ?((?!BC)\S+))?( BC)?$/;
const NAMED =
  /^\w{3} (?:([A-Z][a-z]{2}) (\d\d)|(\d\d) ([A-Z][a-z]{2})) (\d\d:\d\d:\d\d(?:\.\d+)?) (\d{4,})(?: ((?!BC)\S+))?( BC)?$/;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const UTC = /^(?:UTC|GMT|Z)$/;
const OFFSET = /^[-+]\d\d(?::?\d\d){0,2}$/;

/**
 * Converts a date or time to the ISO style. `style` is the DateStyle of the session, for example `SQL, DMY`.
 */
export function isoFromStyle(text: string, style: string | undefined): string {
  if (style === undefined || style.startsWith('ISO')) return text;
  const numeric = NUMERIC.exec(text);
  if (numeric !== null) {
    const [, first, separator, second, year, time, zone, bc] = numeric;
    const isDayFirst = separator === '.' || style.endsWith('DMY');
    const [month, day] = isDayFirst ? [second!, first!] : [first!, second!];
    return iso(text, [year!, month, day], time, zone, bc);
  }
  const named = NAMED.exec(text);
  if (named === null) return text; // text such as `infinity` is the same in every DateStyle
  const [, month, day, dayBefore, monthBehind, time, year, zone, bc] = named;
  const number = MONTHS.indexOf(month ?? monthBehind!) + 1;
  return iso(text, [year!, String(number).padStart(2, '0'), day ?? dayBefore!], time, zone, bc);
}

function iso(
  text: string,
  date: readonly [year: string, month: string, day: string],
  time: string | undefined,
  zone: string | undefined,
  bc: string | undefined,
): string {
  const offset = zone === undefined ? '' : UTC.test(zone) ? '+00' : OFFSET.test(zone) ? zone : undefined;
  if (offset === undefined) return text;
  return `${date.join('-')}${time === undefined ? '' : ` ${time}${offset}`}${bc ?? ''}`;
}
