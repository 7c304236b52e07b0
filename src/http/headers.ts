/**
 * Header fields: those of a request as a view, those of a response as a list, and the grammar both share (RFC 9110 §5).
 *
 * A response's fields are one flat array, name and value in turn, which is handed to node:http as it is.
 */
import { SvcError } from '../base/errors.ts';
import { inspectAsJson, safeField } from '../observability/redact.ts';

/** The fields of a request by lower-case name; a field that came several times is joined as its definition says. No prototype. */
export interface HeaderView {
  readonly [name: string]: string | undefined;
}

/** Whether `text` is a token (RFC 9110 §5.6.2): the form of names, methods and many values. */
export function isToken(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Whether `text` can be sent as a field value: no control character but tab, nothing above U+00FF. */
export function isFieldValue(text: string): boolean {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
}

/** The same without the characters of Latin-1, as nearly every value is. */
export function isAsciiValue(text: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(text);
}

/** Fields that are defined once: of several the first counts, as Node has it. But credentials: several are joined, and fit nobody. */
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

/** An object without prototype that keeps fast properties, which `Object.create(null)` does not. */
function Bare(this: object): void {
  /* properties are added by whoever makes it */
}
Bare.prototype = Object.freeze(Object.create(null) as object);

/** A null-prototype object with fast properties. */
export function bare<T extends object>(): T {
  return new (Bare as unknown as new () => T)(); // a function used as a constructor has no type of its own
}

/** The fields of `rawHeaders` (name, value, name, value, ...) as a view. A field named `__proto__` is a property like any other. */
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

/** The bit that tells a letter's cases apart. */
const LOWER = 0x20;

/** Whether two texts differ in case at most; `lower` is in lower case. */
export function isNamed(text: string, lower: string): boolean {
  return (
    text === lower ||
    (text.length === lower.length &&
      (text.charCodeAt(0) | LOWER) === (lower.charCodeAt(0) | LOWER) &&
      text.toLowerCase() === lower)
  );
}

/** The first field of that name; `name` in lower case. Cheaper than a view when one field is wanted. */
export function findField(rawHeaders: readonly string[], name: string): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (isNamed(rawHeaders[index]!, name)) return rawHeaders[index + 1];
  return undefined;
}

/** The fields of a response. Names compare without regard to case; values are checked when set. */
export class HeaderList {
  /** Name and value in turn: what the server writes. @internal */
  readonly flat: string[];
  /** Whether no value that was set goes beyond ASCII. @internal */
  isAscii: boolean;

  /** @internal */
  constructor(flat: string[] = [], isAscii = true) {
    this.flat = flat;
    this.isAscii = isAscii;
  }

  /** The value; several are joined with a comma. `Set-Cookie` cannot be joined: its first one, see {@link getSetCookie}. */
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

  has(name: string): boolean {
    return findField(this.flat, name.toLowerCase()) !== undefined;
  }

  /** Every `Set-Cookie`, in order. */
  getSetCookie(): string[] {
    return [...this].filter(([name]) => name.toLowerCase() === 'set-cookie').map(([, value]) => value);
  }

  /** Sets the field to this one value. @throws SvcError `E_HEADER` */
  set(name: string, value: string): void {
    this.#check(name, value);
    this.delete(name);
    this.flat.push(name, value);
  }

  /** Adds one more field of that name. @throws SvcError `E_HEADER` */
  append(name: string, value: string): void {
    this.#check(name, value);
    this.flat.push(name, value);
  }

  delete(name: string): void {
    const wanted = name.toLowerCase();
    for (let index = this.flat.length - 2; index >= 0; index -= 2) {
      if (this.flat[index]!.toLowerCase() === wanted) this.flat.splice(index, 2);
    }
  }

  /** Adds request field names to `Vary`, each once; `*` stays alone (RFC 9110 §12.5.5). */
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

  /** Without cookies and other secrets: for logs. */
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
      throw new SvcError('E_HEADER', [name, 'the server sets it from the body and the connection']);
    }
  }
}

/*
 * Dates of HTTP as they are read (RFC 9110 §5.6.7), in the three forms that there are; httpDate() writes the first.
 *
 *   Sun, 06 Nov 1994 08:49:37 GMT       IMF-fixdate
 *   Sunday, 06-Nov-94 08:49:37 GMT      RFC 850, obsolete
 *   Sun Nov  6 08:49:37 1994            asctime(), obsolete
 */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const FIXDATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT$/;
const RFC850 =
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d):(\d\d):(\d\d) GMT$/;
const ASCTIME = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/** Seconds since the epoch, or undefined for what is no date. `nowMs` decides on years of two digits: at most 50 ahead. */
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
  date.setUTCFullYear(year, month, day); // Date.UTC() takes years below 100 for those of the last century
  if (month === -1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 60) return undefined; // 60: a leap second
  return date.getTime() / 1_000 + hour * 3_600 + minute * 60 + second;
}

/** A time as HTTP writes it, to the second. */
export function httpDate(ms: number): string {
  return new Date(ms).toUTCString();
}

/** Shown by the browser where it can, or offered for saving. */
export type DispositionType = 'attachment' | 'inline';

/** Names of file systems end there, in bytes. */
const MAX_NAME_LENGTH = 255;

/**
 * The field's value: `attachment; filename="report.pdf"`. Folders before the name are left out, whichever slash they have.
 *
 * A name that is more than plain ASCII has both forms (RFC 6266 §4.3): `filename` for old clients with `_` for what they
 * cannot read, among it quotes, backslashes and `%`, which some decode; `filename*` for all others. Cut to 255 characters.
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
  /** In lower case. */
  readonly value: string;
  /** By lower-case name; quoted values unquoted. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Reads a value with parameters. Anything malformed after the value is left out: the value alone decides in doubt. */
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
