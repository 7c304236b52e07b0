/**
 * Redaction for logs: converts any value to JSON text without secrets and without line ends, so that a value
 * cannot look like a separate log line. Never throws, and takes limited time.
 *
 * Secrets are recognized in three ways:
 *   - by the name of a member, such as `password`, `cookie` or `client_secret`
 *   - by the type of a value, such as bytes and crypto keys
 *   - by the form of a text, even inside a longer text: `Bearer ...`, JWTs, signed session values,
 *     `Cookie: ...`, passwords in URLs, query parameters such as `access_token`
 *
 * Limits of logged values: 6 levels of nesting, 100 members of an object, 1,000 values and 32 KiB of text in
 * a line, 4 KiB for a string, 8 KiB for a stack.
 */
import { inspect, types } from 'node:util';
import type { InspectOptions } from 'node:util';

const MAX_VALUES = 1_000;
const MAX_LINE_CHARACTERS = 32_768;

/** Returns the members of an object as log fields, in order. Members that are `undefined` are omitted. */
export function safeEntries(fields: object): JsonEntry[] {
  const budget: Budget = { values: MAX_VALUES, characters: MAX_LINE_CHARACTERS, ancestors: [] };
  try {
    return members(fields, 0, budget);
  } catch {
    return [['fields', '"[unreadable]"']]; // the `ownKeys` trap of a Proxy object has thrown
  }
}

/**
 * Returns a thrown value as JSON for a log. An error becomes an object with `name`, `code`, `message`,
 * `remedy`, `stack`, `cause` and `errors`; any other value is written like the value of a field.
 */
export function safeError(error: unknown): string {
  return anyJson(error, 0, { values: MAX_VALUES, characters: MAX_LINE_CHARACTERS, ancestors: [] });
}

export function safeField(name: string, value: string): string {
  return isSecret(name, value) ? '[redacted]' : mask(value);
}

/** Makes inspect(), and thereby console.log(), show only the result of toJSON() for instances of a class. */
export function inspectAsJson(of: { readonly prototype: { toJSON(): unknown } }, name?: string): void {
  const value = function (this: { toJSON(): unknown }, _depth: number, options: InspectOptions): string {
    return `${name ?? this.constructor.name} ${inspect(this.toJSON(), options)}`;
  };
  Object.defineProperty(of.prototype, inspect.custom, { value, writable: true, configurable: true });
}

export function mask(text: string): string {
  return text
    .replace(COOKIES, '$1 [redacted]')
    .replace(REFRESH_TOKEN, '[refresh token]')
    .replace(SIGNED_VALUE, '[signed value]')
    .replace(JWT, '$1[jwt]')
    .replace(CREDENTIALS, '$1 [redacted]')
    .replace(URL_PASSWORD, '$1:[redacted]@')
    .replace(URL_PARAMETER, '$1[redacted]');
}

/** Form of a JWT. The lookbehind and the lookahead limit the time for a text of repeated `-eyJ`. */
const JWT = /(?<![\w-])(?=[\w-]+\.)([\w-]*?)\beyJ[\w-]{8,}(?:\.[\w-]*){1,4}/g;
const CREDENTIALS = /\b(Bearer|Basic)[ \t]+[\w.~+/=-]{4,}/gi;
/** Form of a `Cookie` or `Set-Cookie` header field, with all its values. */
const COOKIES = /\b((?:set-)?cookie:)[^\r\n"]+/gi;
const REFRESH_TOKEN = /\bsvcrt_[\w.-]{4,}/g;
/** Form of signed and encrypted values that crypto/protected-values.ts creates. */
const SIGNED_VALUE = /\b[es]1\.[\w-]{1,64}\.\d{1,12}\.\d{1,12}\.[\w.-]+/g;
/**
 * Form of a URL with a password. The length of the scheme is limited. Without this limit, a text of dots and
 * dashes would take quadratic time.
 */
const URL_PASSWORD = /\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s/?#:@]*):[^\s/?#]*@/gi;
const URL_PARAMETER =
  /([?&#](?:access_token|refresh_token|id_token|token|code|state|nonce|client_secret|code_verifier|password|secret|api_?key|signature|assertion|SAMLResponse)=)[^&#\s"]+/gi;

const MAX_DEPTH = 6;
const MAX_STACK_CHARACTERS = 8_192;

function objectJson(value: object, depth: number, budget: Budget): string {
  try {
    if (typeof value === 'function')
      return quote(`[function ${(value as AnyFunction).name.slice(0, MAX_KEY_CHARACTERS)}]`);
    return shownJson(value, depth, budget);
  } catch {
    return '"[unreadable]"'; // a getter, a Proxy object or toJSON() has thrown
  }
}

type AnyFunction = (...args: never[]) => unknown;

function anyJson(value: unknown, depth: number, budget: Budget): string {
  return scalarJson(value, budget) ?? objectJson(value as object, depth, budget);
}

function shownJson(value: object, depth: number, budget: Budget): string {
  if (budget.ancestors.includes(value)) return '"[circular]"';
  if (depth >= MAX_DEPTH) return Array.isArray(value) ? '"[array]"' : '"[object]"';
  budget.ancestors.push(value);
  try {
    if (Array.isArray(value)) return listJson(value, value.length, depth, budget);
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) return recordJson(value, depth, budget);
    return opaque(value) ?? instanceJson(value as Instance, depth, budget);
  } finally {
    budget.ancestors.pop();
  }
}

/**
 * Returns a placeholder for bytes, keys and promises, whose content is not logged. Returns undefined for
 * other objects.
 */
function opaque(value: object): string | undefined {
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return `"[${value.byteLength} bytes]"`;
  if (types.isKeyObject(value) || types.isCryptoKey(value)) return '"[key]"';
  if (types.isPromise(value)) return '"[promise]"';
  return undefined;
}

type Instance = object & { readonly toJSON?: unknown };

function instanceJson(value: Instance, depth: number, budget: Budget): string {
  if (Error.isError(value) || value instanceof Error) return errorJson(value, depth, budget);
  if (types.isDate(value))
    return Number.isNaN(value.getTime()) ? '"[invalid date]"' : quote(value.toISOString());
  if (types.isRegExp(value)) return spend(String(value), MAX_STRING_CHARACTERS, budget);
  if (value instanceof URL) return spend(value.href, MAX_STRING_CHARACTERS, budget);
  if (types.isSet(value)) return listJson([...firstOf(value)], value.size, depth, budget);
  if (types.isMap(value) || isPairs(value)) return mapJson(value, depth, budget);
  if (typeof value.toJSON === 'function') {
    const plain: unknown = value.toJSON();
    if (plain !== value) return anyJson(plain, depth + 1, budget);
  }
  return recordJson(value, depth, budget);
}

/**
 * Returns whether a value is a Headers, URLSearchParams or FormData object. It compares `Symbol.toStringTag`
 * instead of the class, because using the class Headers would load all of fetch.
 */
function isPairs(value: object): value is Iterable<readonly [unknown, unknown]> {
  const tag = (value as { readonly [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'Headers' || tag === 'URLSearchParams' || tag === 'FormData';
}

function* firstOf<T>(values: Iterable<T>): Generator<T> {
  let left = MAX_MEMBERS + 1;
  for (const value of values) {
    if (left-- === 0) return;
    yield value;
  }
}

function errorJson(error: Error, depth: number, budget: Budget): string {
  const parts: string[] = [];
  for (const name of ['name', 'code', 'message', 'remedy', 'stack', 'cause', 'errors'] as const) {
    const value = read(error, name);
    if (value === undefined || (value === THREW && name !== 'message')) continue;
    const limit = name === 'stack' ? MAX_STACK_CHARACTERS : MAX_STRING_CHARACTERS;
    parts.push(
      `"${name}":${value === THREW ? '"[threw]"' : typeof value === 'string' ? spend(value, limit, budget) : anyJson(value, depth + 1, budget)}`,
    );
  }
  return `{${parts.join(',')}}`;
}

function listJson(list: readonly unknown[], length: number, depth: number, budget: Budget): string {
  const parts: string[] = [];
  for (let index = 0; index < list.length && index < MAX_MEMBERS && budget.values > 0; index++) {
    const before: unknown = list[index - 1];
    // in `rawHeaders` of node:http, each field name is followed by its value
    const isSecret =
      typeof before === 'string' &&
      before.length < MAX_KEY_CHARACTERS &&
      SECRET_HEADERS.has(before.toLowerCase());
    parts.push(isSecret ? REDACTED : anyJson(list[index], depth + 1, budget));
  }
  if (parts.length < length) parts.push(`"[${length - parts.length} more]"`);
  return `[${parts.join(',')}]`;
}

function mapJson(pairs: Iterable<readonly [unknown, unknown]>, depth: number, budget: Budget): string {
  const record: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of firstOf(pairs))
    record[typeof key === 'object' ? '[object]' : String(key)] = value;
  return recordJson(record, depth, budget);
}

function recordJson(record: object, depth: number, budget: Budget): string {
  return `{${members(record, depth, budget)
    .map(([key, json]) => `${quote(key)}:${json}`)
    .join(',')}}`;
}

/** One field of a log line: its name, and its value as JSON. */
export type JsonEntry = readonly [key: string, json: string];

const MAX_MEMBERS = 100;
const MAX_STRING_CHARACTERS = 4_096;
const MAX_KEY_CHARACTERS = 128;
const MAX_BIGINT = 2n ** 256n;
const REDACTED = '"[redacted]"';

/** Number of values and characters that a log line may still contain. */
interface Budget {
  values: number;
  characters: number;
  /** Objects that are being written, the outermost first. They are needed to detect cycles. */
  readonly ancestors: object[];
}

/** Returns a string as a JSON string without secrets, at most 4 KiB long. */
export function safeText(text: string): string {
  if (text.length <= MAX_STRING_CHARACTERS && !SPECIAL.test(text)) return `"${text}"`;
  return quote(cut(mask(text.slice(0, 2 * MAX_STRING_CHARACTERS)), text.length, MAX_STRING_CHARACTERS));
}

/** Escapes control, line and direction characters, for example as `\u001b`. */
export function visible(text: string): string {
  return UNPRINTABLE.test(text) ? text.replace(UNPRINTABLES, escaped) : text;
}

/** Returns a value as JSON. Returns undefined for objects and functions, which objectJson() writes. */
function scalarJson(value: unknown, budget: Budget): string | undefined {
  if (--budget.values < 0) return '"[cut]"';
  switch (typeof value) {
    case 'string':
      return spend(value, MAX_STRING_CHARACTERS, budget);
    case 'number':
      return Number.isFinite(value) ? String(value) : `"${value}"`;
    case 'boolean':
      return String(value);
    case 'bigint':
      return value > MAX_BIGINT || value < -MAX_BIGINT ? '"[bigint]"' : `"${value}"`;
    case 'symbol':
      return spend(String(value), MAX_STRING_CHARACTERS, budget);
    case 'undefined':
      return 'null';
  }
  return value === null ? 'null' : undefined;
}

/** Returns the members of an object as log fields. Leaves out members that are `undefined`. */
function members(record: object, depth: number, budget: Budget): JsonEntry[] {
  const keys = Object.keys(record);
  const entries: JsonEntry[] = [];
  for (let index = 0; index < keys.length; index++) {
    if (index === MAX_MEMBERS || budget.values <= 0) {
      entries.push(['[more]', String(keys.length - index)]);
      break;
    }
    const key = keys[index]!;
    const value = read(record, key);
    if (value === undefined) continue;
    const name = key.length > MAX_KEY_CHARACTERS ? `${key.slice(0, MAX_KEY_CHARACTERS)}…` : key;
    budget.characters -= name.length;
    entries.push([
      name,
      value === THREW ? '"[threw]"' : isSecret(key, value) ? REDACTED : anyJson(value, depth + 1, budget),
    ]);
  }
  return entries;
}

/** Marks a member whose getter has thrown. */
const THREW: unique symbol = Symbol('threw');

/** Returns the value of a member; {@link THREW} if its getter throws. */
function read(record: object, key: string): unknown {
  try {
    return (record as Readonly<Record<string, unknown>>)[key];
  } catch {
    return THREW;
  }
}

// -- secrets that are recognized by their name --

type Secrecy = 'open' | 'secret' | 'plural' | 'random';

/** Names of header fields whose values are not logged. */
const SECRET_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'x-api-key',
]);
/**
 * Names of secrets, in lower case and without `-` and `_`. So `client_secret`, `clientSecret` and
 * `X-Client-Secret` all match.
 */
const SECRET_NAME =
  /^(?:auth|jwt|otp|pin|sid|pwd|bearer|pepper|sig|signature|xamzsignature|xgoogsignature|awsaccesskeyid|sessionid|credentials?|connectionstring|creditcard|cardnumber|cvv|cvc)$|(?:authorization|cookie|password|passwordhash|passwd|passphrase|secret|secretprevious|token|apikey|privatekey|secretkey|signingkey|codeverifier|assertion|samlresponse)$/;
/**
 * Plural names. Their values are secret, except numbers: `tokens: ['...']` is secret, but `maxTokens: 5` is
 * not.
 */
const SECRET_PLURAL = /(?:cookies|passwords|secrets|tokens|apikeys|privatekeys|secretkeys)$/;
/**
 * Names of values that are secret only if they look random. In OAuth, `code`, `state` and `nonce` are random.
 * Elsewhere they are words or numbers, such as ECONNREFUSED, invalid_grant, 23505 or half-open.
 */
const RANDOM_NAME = /^(?:code|state|nonce)$/;
const WORD = /^(?:[A-Z]+(?:_[A-Z0-9]+)*|[A-Z]{1,4}\d{1,4}|[0-9A-Z]{5}|\d{1,4}|[a-z]+(?:[_ -][a-z0-9]+)*)$/;
const MAX_WORD_CHARACTERS = 40;
const MOST_REMEMBERED = 1_000;
/** Cached results of secrecyOf(). The initial entries save time at the start of a program. */
const SECRECY = new Map<string, Secrecy>([
  ['url', 'open'],
  ['env', 'open'],
]);

/**
 * Returns whether a member with this name and value must not be logged. A boolean may be logged, because
 * `hasPassword: true` does not reveal the password.
 */
export function isSecret(key: string, value: unknown): boolean {
  const secrecy = secrecyOf(key);
  if (secrecy === 'open' || value === null || typeof value === 'boolean') return false;
  if (secrecy === 'plural') return typeof value !== 'number';
  if (secrecy === 'random')
    return typeof value === 'string' && (value.length > MAX_WORD_CHARACTERS || !WORD.test(value));
  return true;
}

function secrecyOf(key: string): Secrecy {
  let secrecy = SECRECY.get(key);
  if (secrecy === undefined) {
    const name = key
      .slice(-MAX_KEY_CHARACTERS)
      .toLowerCase()
      .replace(/[^a-z0-9]/g, '');
    secrecy = SECRET_NAME.test(name)
      ? 'secret'
      : SECRET_PLURAL.test(name)
        ? 'plural'
        : RANDOM_NAME.test(name)
          ? 'random'
          : 'open';
    // limited, because JSON from clients may contain any number of names
    if (SECRECY.size < MOST_REMEMBERED) SECRECY.set(key, secrecy);
  }
  return secrecy;
}

// -- secrets that are recognized by their form --

/**
 * Matches every text that needs masking or escaping. Most texts do not match, so one test is enough for them.
 * Character classes replace the flag `i`, which would triple the time.
 */
const SPECIAL =
  /[\x00-\x1f"\\\x7f-\uffff?&#]|eyJ|:\/\/[^\s/?#]*@|[bB][eE][aA][rR][eE][rR]|[bB][aA][sS][iI][cC]|[cC][oO][oO][kK][iI][eE]:|svcrt_|[es]1\.[\w-]/;

/**
 * Returns a string as JSON, shortened to a limit. Secrets are masked before the text is cut, because a part
 * of a secret might not be recognized. Masking takes time, so only a limited amount of text is masked for
 * each line.
 */
function spend(text: string, limit: number, budget: Budget): string {
  const most = Math.min(limit, Math.max(0, budget.characters));
  if (text.length <= most && !SPECIAL.test(text)) {
    budget.characters -= text.length;
    return `"${text}"`;
  }
  if (most === 0) return quote(cut(text, text.length, 0));
  const searched = text.slice(0, most + limit);
  const masked = cut(mask(searched), text.length, most);
  budget.characters -= Math.max(masked.length, searched.length >> 1);
  return quote(masked);
}

function cut(masked: string, length: number, most: number): string {
  return masked.length <= most ? masked : `${masked.slice(0, most)}… (${length} characters)`;
}

// -- escaped characters --

const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]/;
const UNPRINTABLES = new RegExp(UNPRINTABLE, 'g');

/**
 * Returns a string as JSON. JSON.stringify escapes C0 control characters and lone surrogates. Other
 * characters that move the cursor or end a line are escaped here.
 */
function quote(text: string): string {
  return visible(JSON.stringify(text));
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
