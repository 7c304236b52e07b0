/**
 * Dates of HTTP as they are written (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. date-reading.ts reads them.
 */

/** A time as HTTP writes it, to the second. */
export function httpDate(ms: number): string {
  return new Date(ms).toUTCString();
}
