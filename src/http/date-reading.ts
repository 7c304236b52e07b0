/**
 * Dates of HTTP as they are read (RFC 9110 §5.6.7), in the three forms that there are; dates.ts writes the first.
 *
 *   Sun, 06 Nov 1994 08:49:37 GMT       IMF-fixdate
 *   Sunday, 06-Nov-94 08:49:37 GMT      RFC 850, obsolete
 *   Sun Nov  6 08:49:37 1994            asctime(), obsolete
 */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const FIXDATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/;
const RFC850 = /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) GMT$/;
const ASCTIME = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/** Seconds since the epoch, or undefined for what is no date. `nowMs` decides on years of two digits: at most 50 ahead. */
export function parseHttpDate(text: string, nowMs: number): number | undefined {
  const fixed = FIXDATE.exec(text);
  if (fixed !== null) return seconds(Number(fixed[3]), fixed[2]!, fixed[1]!, fixed.slice(4, 7));
  const old = RFC850.exec(text);
  if (old !== null) return seconds(yearOf(Number(old[3]), new Date(nowMs).getUTCFullYear()), old[2]!, old[1]!, old.slice(4, 7));
  const c = ASCTIME.exec(text);
  return c === null ? undefined : seconds(Number(c[6]), c[1]!, c[2]!, c.slice(3, 6));
}

/** The year with these last two digits that is at most 50 years ahead. */
function yearOf(digits: number, thisYear: number): number {
  const year = thisYear - thisYear % 100 + digits;
  return year > thisYear + 50 ? year - 100 : year <= thisYear - 50 ? year + 100 : year;
}

function seconds(year: number, monthName: string, dayText: string, time: readonly string[]): number | undefined {
  const month = MONTHS.indexOf(monthName);
  const day = Number(dayText);
  const [hour, minute, second] = time.map(Number) as [number, number, number];
  const date = new Date(0);
  date.setUTCFullYear(year, month, day); // Date.UTC() takes years below 100 for those of the last century
  if (month === -1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 60) return undefined; // 60: a leap second
  return date.getTime() / 1_000 + hour * 3_600 + minute * 60 + second;
}
