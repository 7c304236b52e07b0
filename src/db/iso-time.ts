/**
 * The text that `Date.prototype.toISOString` gives, in a tenth of its time: most dates that are written together are of one
 * day, whose text is kept, and the rest is looked up. By test/bench/db.ts, executeMany.
 */

const DAY_MS = 86_400_000;
/** `00:00:00.000Z` */
const TIME_CHARACTERS = 13;
const TWO: readonly string[] = Array.from({ length: 60 }, (_, value) => String(value).padStart(2, '0'));
const THREE: readonly string[] = Array.from({ length: 1_000 }, (_, value) => String(value).padStart(3, '0'));

let lastDay = NaN;
let lastText = '';

/** ISO 8601 with milliseconds and Z, of a date that is valid. */
export function isoText(date: Date): string {
  const ms = date.getTime();
  const day = Math.floor(ms / DAY_MS);
  if (day !== lastDay) [lastDay, lastText] = [day, date.toISOString().slice(0, -TIME_CHARACTERS)];
  const inDay = ms - day * DAY_MS;
  const seconds = Math.floor(inDay / 1_000);
  const minutes = Math.floor(seconds / 60);
  return `${lastText}${TWO[Math.floor(minutes / 60)]!}:${TWO[minutes % 60]!}:${TWO[seconds % 60]!}.${THREE[inDay % 1_000]!}Z`; // each within its table
}
