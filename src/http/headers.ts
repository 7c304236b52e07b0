/**
 * Header fields (RFC 9110 §5): an object for the fields of a request, a list for the fields of a response,
 * and the syntax of values.
 *
 * The fields of a response are one array of alternating names and values, because node:http accepts it
 * unchanged.
 */
import { SvcError } from '../base/errors.ts';
import { inspectAsJson, safeField } from '../observability/redact.ts';

/**
 * Header fields of a request by lower-case name. The values of a repeated field are joined by commas
 * (`Cookie`: by semicolons). If a field must not repeat, its first value is used. The object has no
 * prototype.
 */
export interface HeaderView {
  readonly [name: string]: string | undefined;
}

/** Whether `text` is a token (RFC 9110 §5.6.2): the syntax of field names, methods and many values. */
export function isToken(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Whether a value is the name of a request method, in capitals. */
export function isMethod(value: unknown): boolean {
  return typeof value === 'string' && isToken(value) && value === value.toUpperCase();
}

export function isMethods(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isMethod);
}

/**
 * Whether `text` can be sent as a field value: no control characters except tab, and no character above
 * U+00FF.
 */
export function isFieldValue(text: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}

export function isAsciiValue(text: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(text);
}

/**
 * Fields that must not repeat. Only their first value is used, as in Node. `Authorization` is not in the
 * list: its repeated values are joined, which makes the credentials invalid.
 */
const SINGLE = new Set([
  'age',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-range',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'range',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

/**
 * Constructor for objects without prototype. V8 accesses their properties faster than properties of
 * `Object.create(null)`.
 */
function Bare(this: object): void {
  /* empty */
}
Bare.prototype = Object.freeze(Object.create(null) as object);

export function bare<T extends object>(): T {
  // the cast is needed: TypeScript has no type for a function that is a constructor
  return new (Bare as unknown as new () => T)();
}

/**
 * Returns the fields of `rawHeaders` (name, value, name, value, ...) as an object. A field `__proto__`
 * becomes an ordinary property.
 */
export function viewOf(rawHeaders: readonly string[]): HeaderView {
  const view = bare<Record<string, string>>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    const value = rawHeaders[index + 1]!;
    const earlier = view[name];
    if (earlier === undefined) view[name] = value;
    else if (!SINGLE.has(name))
      view[name] = name === 'cookie' ? `${earlier}; ${value}` : `${earlier}, ${value}`;
  }
  return view;
}

/** Bit that is set in lower-case ASCII letters and not in upper-case ones. */
const LOWER = 0x20;

/** Whether two texts are equal except for case. `lower` must be in lower case. */
export function isNamed(text: string, lower: string): boolean {
  return (
    text === lower ||
    (text.length === lower.length &&
      (text.charCodeAt(0) | LOWER) === (lower.charCodeAt(0) | LOWER) &&
      text.toLowerCase() === lower)
  );
}

/** Returns the first field with this lower-case name. Faster than viewOf() if only one field is needed. */
export function findField(rawHeaders: readonly string[], name: string): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (isNamed(rawHeaders[index]!, name)) return rawHeaders[index + 1];
  return undefined;
}

/** Header fields of a response. Names match in any case. Values are checked when they are set. */
export class HeaderList {
  /** Alternating names and values, as node:http accepts them. @internal */
  readonly flat: string[];
  /** Whether all values consist of ASCII characters. @internal */
  isAscii: boolean;

  /** @internal */
  constructor(flat: string[] = [], isAscii = true) {
    this.flat = flat;
    this.isAscii = isAscii;
  }

  /**
   * Returns the value of a field; undefined if it is absent. Repeated values are joined by commas.
   * `Set-Cookie` cannot be joined, so the result is its first value; see {@link getSetCookie}.
   */
  get(name: string): string | undefined {
    const wanted = name.toLowerCase();
    let value: string | undefined;
    for (let index = 0; index < this.flat.length; index += 2) {
      if (!isNamed(this.flat[index]!, wanted)) continue;
      if (value === undefined) value = this.flat[index + 1]!;
      else if (wanted !== 'set-cookie') value += `, ${this.flat[index + 1]!}`;
    }
    return value;
  }

  /** Whether a field is present. The name matches in any case. */
  has(name: string): boolean {
    return findField(this.flat, name.toLowerCase()) !== undefined;
  }

  /** Returns all values of `Set-Cookie` in order. */
  getSetCookie(): string[] {
    return [...this].filter(([name]) => name.toLowerCase() === 'set-cookie').map(([, value]) => value);
  }

  /**
   * Sets a field to one value, which replaces all earlier values.
   * @throws SvcError `E_HEADER` when the name or value is malformed, `E_HEADER_OWNED` when only the server may set
   *   this field
   */
  set(name: string, value: string): void {
    this.#check(name, value);
    this.delete(name);
    this.flat.push(name, value);
  }

  /**
   * Adds a value to a field, and keeps its present values.
   * @throws SvcError `E_HEADER` when the name or value is malformed, `E_HEADER_OWNED` when only the server may set
   *   this field
   */
  append(name: string, value: string): void {
    this.#check(name, value);
    this.flat.push(name, value);
  }

  /** Removes all values of a field. The name matches in any case. */
  delete(name: string): void {
    const wanted = name.toLowerCase();
    for (let index = this.flat.length - 2; index >= 0; index -= 2) {
      if (isNamed(this.flat[index]!, wanted)) this.flat.splice(index, 2);
    }
  }

  /**
   * Adds names of request fields to `Vary`. Each name is listed once. A `*` replaces all names (RFC 9110
   * §12.5.5).
   */
  vary(...names: string[]): void {
    const listed = itemsOf(this.get('vary') ?? '');
    if (listed.includes('*') || names.length === 0) return;
    const merged: string[] = [];
    for (const name of [...listed, ...names]) {
      const lower = name.toLowerCase();
      const index = merged.findIndex((other) => isNamed(other, lower));
      merged[index === -1 ? merged.length : index] = name;
    }
    this.set('Vary', merged.includes('*') ? '*' : merged.join(', '));
  }

  /** Iterates over the fields as pairs of name and value, in order. */
  *[Symbol.iterator](): Generator<[name: string, value: string]> {
    for (let index = 0; index < this.flat.length; index += 2)
      yield [this.flat[index]!, this.flat[index + 1]!];
  }

  /** Returns the fields for a log, without cookies and other secrets. */
  toJSON(): Record<string, string | string[]> {
    const shown: Record<string, string | string[]> = {};
    for (const [name, value] of this) {
      const safe = safeField(name, value);
      const earlier = shown[name];
      shown[name] = earlier === undefined ? safe : [earlier, safe].flat();
    }
    return shown;
  }

  static {
    inspectAsJson(HeaderList);
  }

  #check(name: string, value: string): void {
    if (typeof name !== 'string' || !isToken(name))
      throw new SvcError('E_HEADER', [
        String(name),
        'the name must be a token: letters, digits and signs such as "-", without spaces (RFC 9110 §5.6.2)',
      ]);
    if (typeof value !== 'string') throw new SvcError('E_HEADER', [name, 'the value must be a string']);
    if (!isAsciiValue(value)) {
      if (!isFieldValue(value))
        throw new SvcError('E_HEADER', [
          name,
          'the value contains a control character, or a character above U+00FF',
        ]);
      this.isAscii = false;
    }
    const lower = name.toLowerCase();
    if (lower === 'content-length' || lower === 'transfer-encoding' || lower === 'connection')
      throw new SvcError('E_HEADER_OWNED', [name]);
  }
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
/** The current format of HTTP dates (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. */
const FIXDATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/;
/** Obsolete format of HTTP dates: `Sunday, 06-Nov-94 08:49:37 GMT`. */
const RFC850 =
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) GMT$/;
/** Obsolete format of HTTP dates, from the C function asctime(): `Sun Nov  6 08:49:37 1994`. */
const ASCTIME = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/**
 * Parses an HTTP date into seconds since 1970. Returns undefined for an invalid date. A two-digit year is at
 * most 50 years after `nowMs`.
 */
export function parseHttpDate(text: string, nowMs: number): number | undefined {
  const fixed = FIXDATE.exec(text);
  if (fixed !== null) return seconds(Number(fixed[3]), fixed[2]!, fixed[1]!, fixed.slice(4, 7));
  const old = RFC850.exec(text);
  if (old !== null)
    return seconds(
      yearOf(Number(old[3]), new Date(nowMs).getUTCFullYear()),
      old[2]!,
      old[1]!,
      old.slice(4, 7),
    );
  const c = ASCTIME.exec(text);
  return c === null ? undefined : seconds(Number(c[6]), c[1]!, c[2]!, c.slice(3, 6));
}

/** Returns the year with these last two digits that is at most 50 years in the future. */
function yearOf(digits: number, thisYear: number): number {
  const year = thisYear - (thisYear % 100) + digits;
  return year > thisYear + 50 ? year - 100 : year <= thisYear - 50 ? year + 100 : year;
}

function seconds(
  year: number,
  monthName: string,
  dayText: string,
  time: readonly string[],
): number | undefined {
  const month = MONTHS.indexOf(monthName);
  const day = Number(dayText);
  const [hour, minute, second] = time.map(Number) as [number, number, number];
  const date = new Date(0);
  // not Date.UTC(), because it maps years below 100 to the 20th century
  date.setUTCFullYear(year, month, day);
  // a second of 60 is a leap second
  if (month === -1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 60) return undefined;
  return date.getTime() / 1_000 + hour * 3_600 + minute * 60 + second;
}

/** Formats a time as an HTTP date, with a resolution of one second. */
export function httpDate(ms: number): string {
  return new Date(ms).toUTCString();
}

/** `inline` lets a browser show the content; `attachment` makes it offer to save the content. */
export type DispositionType = 'attachment' | 'inline';

/** Maximum length of a file name in bytes on common file systems. */
const MAX_NAME_LENGTH = 255;

/**
 * Builds a `Content-Disposition` value, such as `attachment; filename="report.pdf"`. If `filename` is a path,
 * only its last segment is used. The name is cut to 255 characters.
 *
 * A name with quotes, backslashes, `%` or non-ASCII characters is sent twice (RFC 6266 §4.3): encoded as
 * `filename*`, and for old clients as `filename`, in which `_` replaces these characters.
 */
export function contentDisposition(filename: string, type: DispositionType = 'attachment'): string {
  const name = /[^/\\]*$/.exec(filename)![0].slice(0, MAX_NAME_LENGTH).toWellFormed();
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/gu, '_');
  if (plain === name) return `${type}; filename="${plain}"`;
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `${type}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** A field value with parameters, such as `text/html; charset="utf-8"` (RFC 9110 §5.6.6, §8.3.1). */
interface Parameterised {
  /** The value before the first parameter, in lower case. */
  readonly value: string;
  /** Parameters by lower-case name. Quoted values are stored without their quotes. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Parses a field value with parameters. Malformed parameters are ignored. */
export function parseParameters(field: string): Parameterised {
  const semicolon = field.indexOf(';');
  if (semicolon === -1) return { value: field.trim().toLowerCase(), parameters: new Map() };
  const parameters = new Map<string, string>();
  const pattern =
    /;[ \t]*(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)|"((?:[^"\\]|\\.)*)"))?[ \t]*/y;
  pattern.lastIndex = semicolon;
  for (let match = pattern.exec(field); match !== null; match = pattern.exec(field)) {
    const name = match[1]?.toLowerCase();
    if (name !== undefined && !parameters.has(name))
      parameters.set(name, match[2] ?? match[3]!.replace(/\\(.)/g, '$1'));
  }
  return { value: field.slice(0, semicolon).trim().toLowerCase(), parameters };
}

/**
 * Returns the non-empty items of a comma-separated list (RFC 9110 §5.6.1.2) that has no quoted strings, such as
 * `Vary` and `X-Forwarded-For`. For other lists: {@link elementsOf}.
 */
export function itemsOf(list: string): string[] {
  return nonEmpty(list.split(','));
}

/** Elements of a list. The end of the list also ends a quoted string, so each character is read once. */
const ELEMENT = /(?:"(?:[^"\\]|\\[^])*(?:"|\\?$)|[^,"])+/g;

/** Like {@link itemsOf}, but a comma in a quoted string (RFC 9110 §5.6.4) separates no items: `"a,b", c`. */
export function elementsOf(list: string): string[] {
  return list.includes('"') ? nonEmpty(list.match(ELEMENT) ?? []) : itemsOf(list);
}

function nonEmpty(items: readonly string[]): string[] {
  return items.map((item) => item.trim()).filter((item) => item !== '');
}

/**
 * Returns a part of a field without surrounding spaces and tabs, in time proportional to its length. Other
 * white space stays (RFC 6265 §5.2). If U+00A0 were removed, the cookie `\u00A0__Host-a` of another host would
 * look like the protected `__Host-a`.
 */
export function stripped(field: string, start: number = 0, end: number = field.length): string {
  let from = start,
    to = end;
  while (from < to && isBlank(field.charCodeAt(from))) from++;
  while (to > from && isBlank(field.charCodeAt(to - 1))) to--;
  return field.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}
