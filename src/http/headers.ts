/**
 * Header fields (RFC 9110 §5): a view of a request's fields, a list of a response's fields, and the grammar
 * of values.
 *
 * A response's fields are one flat array of names and values, which node:http takes unchanged.
 */
import { SvcError } from '../base/errors.ts';
import { inspectAsJson, safeField } from '../observability/redact.ts';

/**
 * Request fields by lower-case name. Of a repeated field the values are joined, or if it must not repeat, the
 * first one is used. The object has no prototype.
 */
export interface HeaderView {
  readonly [name: string]: string | undefined;
}

/** Whether `text` is a token (RFC 9110 §5.6.2), as names, methods and many values are. */
export function isToken(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Whether `text` can be sent as a field value: no control character except tab, nothing above U+00FF. */
export function isFieldValue(text: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}

/** Whether a field value consists of ASCII characters. */
export function isAsciiValue(text: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(text);
}

/**
 * Fields of which only the first value is used if they repeat, as in Node. `Authorization` is not among them:
 * repeated credentials are joined, so that they match no account.
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
 * Constructor of objects without prototype. Access to their properties is fast; V8 makes it slow for objects
 * of `Object.create(null)`.
 */
function Bare(this: object): void {
  /* the caller adds properties */
}
Bare.prototype = Object.freeze(Object.create(null) as object);

/** A null-prototype object with fast properties. */
export function bare<T extends object>(): T {
  return new (Bare as unknown as new () => T)(); // TypeScript has no type for a function used as a constructor
}

/** View of `rawHeaders` (name, value, name, value, ...). A field named `__proto__` is an ordinary property. */
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

/** The bit that differs between upper and lower case of an ASCII letter. */
const LOWER = 0x20;

/** Whether two texts are equal except for case. The second one must be in lower case. */
export function isNamed(text: string, lower: string): boolean {
  return (
    text === lower ||
    (text.length === lower.length &&
      (text.charCodeAt(0) | LOWER) === (lower.charCodeAt(0) | LOWER) &&
      text.toLowerCase() === lower)
  );
}

/**
 * The value of the first field of that name; `name` in lower case. Faster than making a view of all fields.
 */
export function findField(rawHeaders: readonly string[], name: string): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (isNamed(rawHeaders[index]!, name)) return rawHeaders[index + 1];
  return undefined;
}

/** The fields of a response. Names compare without regard to case; values are checked when set. */
export class HeaderList {
  /** One array of alternating names and values, for the server. @internal */
  readonly flat: string[];
  /** Whether all values consist of ASCII characters. @internal */
  isAscii: boolean;

  /** @internal */
  constructor(flat: string[] = [], isAscii = true) {
    this.flat = flat;
    this.isAscii = isAscii;
  }

  /**
   * The value of a field; repeated values are joined with a comma. `Set-Cookie` cannot be joined: the result
   * is the first; see {@link getSetCookie}.
   */
  get(name: string): string | undefined {
    const wanted = name.toLowerCase();
    let value: string | undefined;
    for (let index = 0; index < this.flat.length; index += 2) {
      if (this.flat[index]!.toLowerCase() !== wanted) continue;
      if (value === undefined) value = this.flat[index + 1]!;
      else if (wanted !== 'set-cookie') value += `, ${this.flat[index + 1]!}`;
    }
    return value;
  }

  /** Whether the field is present. Ignores case. */
  has(name: string): boolean {
    return findField(this.flat, name.toLowerCase()) !== undefined;
  }

  /** All values of `Set-Cookie`, in order. */
  getSetCookie(): string[] {
    return [...this].filter(([name]) => name.toLowerCase() === 'set-cookie').map(([, value]) => value);
  }

  /** Sets the field to this one value. @throws SvcError `E_HEADER` */
  set(name: string, value: string): void {
    this.#check(name, value);
    this.delete(name);
    this.flat.push(name, value);
  }

  /** Adds a field, even if one of that name is there. @throws SvcError `E_HEADER` */
  append(name: string, value: string): void {
    this.#check(name, value);
    this.flat.push(name, value);
  }

  /** Removes all values of a field. Ignores case. */
  delete(name: string): void {
    const wanted = name.toLowerCase();
    for (let index = this.flat.length - 2; index >= 0; index -= 2) {
      if (this.flat[index]!.toLowerCase() === wanted) this.flat.splice(index, 2);
    }
  }

  /** Adds request field names to `Vary`, each once; a `*` stays the only member (RFC 9110 §12.5.5). */
  vary(...names: string[]): void {
    const present =
      this.get('vary')
        ?.split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '') ?? [];
    if (present.includes('*') || names.length === 0) return;
    const merged = new Map([...present, ...names].map((name) => [name.toLowerCase(), name]));
    this.set('Vary', merged.has('*') ? '*' : [...merged.values()].join(', '));
  }

  /** Name and value pairs in order. */
  *[Symbol.iterator](): Generator<[name: string, value: string]> {
    for (let index = 0; index < this.flat.length; index += 2)
      yield [this.flat[index]!, this.flat[index + 1]!];
  }

  /** A copy for logs, without cookies and other secrets. */
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
      throw new SvcError('E_HEADER', [String(name), 'the name is not a token']);
    if (typeof value !== 'string') throw new SvcError('E_HEADER', [name, 'the value is not a string']);
    if (!isAsciiValue(value)) {
      if (!isFieldValue(value))
        throw new SvcError('E_HEADER', [name, 'the value has a control character, or one above U+00FF']);
      this.isAscii = false;
    }
    const lower = name.toLowerCase();
    if (lower === 'content-length' || lower === 'transfer-encoding' || lower === 'connection') {
      throw new SvcError('E_HEADER', [name, 'the server sets this header from the body and the connection']);
    }
  }
}

/*
 * Parses HTTP dates (RFC 9110 §5.6.7) in all three formats; httpDate() writes the first.
 *
 * Formats:
 *   Sun, 06 Nov 1994 08:49:37 GMT       IMF-fixdate
 *   Sunday, 06-Nov-94 08:49:37 GMT      RFC 850, obsolete
 *   Sun Nov  6 08:49:37 1994            asctime(), obsolete
 */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const FIXDATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/;
const RFC850 =
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) GMT$/;
const ASCTIME = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/**
 * Parses a date into seconds since the epoch; undefined if it is invalid. A two-digit year is at most 50
 * years after `nowMs`.
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

/** The year with these last two digits that is at most 50 years ahead. */
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
  // Date.UTC() maps years below 100 to the 20th century
  date.setUTCFullYear(year, month, day);
  // a second of 60 is a leap second
  if (month === -1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 60) return undefined;
  return date.getTime() / 1_000 + hour * 3_600 + minute * 60 + second;
}

/** Formats a time as an HTTP date, to the second. */
export function httpDate(ms: number): string {
  return new Date(ms).toUTCString();
}

/** Whether a browser shows the content (`inline`), or offers to save it. */
export type DispositionType = 'attachment' | 'inline';

/** Maximum length of a file name in bytes on common file systems. */
const MAX_NAME_LENGTH = 255;

/**
 * Builds a `Content-Disposition` value: `attachment; filename="report.pdf"`. Folders in front of the name are
 * removed, with either slash.
 *
 * A name with characters beyond plain ASCII has two forms (RFC 6266 §4.3). `filename` is for old clients; in
 * it, `_` replaces the characters that they cannot read, and quotes, backslashes and `%`. `filename*` is for
 * all other clients. The name is cut to 255 characters.
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

/** A media type or similar value with parameters: `text/html; charset="utf-8"` (RFC 9110 §5.6.6, §8.3.1). */
interface Parameterised {
  /** The value without its parameters, in lower case. */
  readonly value: string;
  /** Parameters by lower-case name; quoted values without their quotes. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Parses a value with parameters. Malformed parameters are ignored: the value before them is still used. */
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
