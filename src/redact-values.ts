/**
 * Redaction of names, texts and numbers, which is all that most lines of the log have: what is withheld by its name, what is looked
 * through, and how much room there is. Of texts with a secret in them redact-mask.ts takes it out; objects are redact-objects.ts's.
 */
import { mask } from './redact-mask.ts';

/** A field of a log line: its name, and its value as JSON text. */
export type JsonEntry = readonly [key: string, json: string];

/** Most members of an object. */
export const MAX_MEMBERS = 100;
/** Of a string. */
export const MAX_STRING_CHARACTERS = 4_096;
/** Of a name. */
export const MAX_KEY_CHARACTERS = 128;
const MAX_BIGINT = 2n ** 256n;
/** In place of what is withheld. */
export const REDACTED = '"[redacted]"';

/** What is left for a line. */
export interface Budget {
  values: number;
  characters: number;
  /** The objects being written, outermost first: one that comes again is a cycle. */
  readonly ancestors: object[];
}

/** A string as a JSON literal without secrets, cut to 4 KiB. */
export function safeText(text: string): string {
  if (text.length <= MAX_STRING_CHARACTERS && !SPECIAL.test(text)) return `"${text}"`;
  return quote(cut(mask(text.slice(0, 2 * MAX_STRING_CHARACTERS)), text.length, MAX_STRING_CHARACTERS));
}

/** Control characters, line separators and bidirectional overrides as `\u001b`: what is shown is what is there. */
export function visible(text: string): string {
  return UNPRINTABLE.test(text) ? text.replace(UNPRINTABLES, escaped) : text;
}

/** A value that is no object as JSON text; undefined for the others, which redact-objects.ts writes. */
export function scalarJson(value: unknown, budget: Budget): string | undefined {
  if (--budget.values < 0) return '"[cut]"';
  switch (typeof value) {
    case 'string': return spend(value, MAX_STRING_CHARACTERS, budget);
    case 'number': return Number.isFinite(value) ? String(value) : `"${value}"`;
    case 'boolean': return String(value);
    case 'bigint': return value > MAX_BIGINT || value < -MAX_BIGINT ? '"[bigint]"' : `"${value}"`;
    case 'symbol': return spend(String(value), MAX_STRING_CHARACTERS, budget);
    case 'undefined': return 'null';
  }
  return value === null ? 'null' : undefined;
}

/** The members of an object that are not `undefined`, their values by `json`. */
export function members(record: object, keys: readonly string[], depth: number, budget: Budget, json: (value: unknown, depth: number, budget: Budget) => string): JsonEntry[] {
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
    entries.push([name, value === THREW ? '"[threw]"' : isSecret(key, value) ? REDACTED : json(value, depth + 1, budget)]);
  }
  return entries;
}

/** In place of a member whose getter throws. */
export const THREW: unique symbol = Symbol('threw');

/** A member, or {@link THREW}. */
export function read(record: object, key: string): unknown {
  try {
    return (record as Readonly<Record<string, unknown>>)[key];
  } catch {
    return THREW;
  }
}

// ── by key ──

type Secrecy = 'open' | 'secret' | 'plural' | 'random';

/** Fields whose values are withheld. */
export const SECRET_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-api-key']);
/** Compared in lower case without `-` and `_`, so `client_secret`, `clientSecret` and `X-Client-Secret` are one. */
const SECRET_NAME = /^(?:auth|jwt|otp|pin|sid|pwd|bearer|pepper|signature|sessionid|credentials?|connectionstring)$|(?:authorization|cookie|password|passwd|passphrase|secret|secretprevious|token|apikey|privatekey|secretkey|signingkey|codeverifier)$/;
/** `tokens: ['…']` is a secret, `maxTokens: 5` is a number. */
const SECRET_PLURAL = /(?:cookies|passwords|secrets|tokens|apikeys|privatekeys|secretkeys)$/;
/** OAuth gives `code`, `state` and `nonce` as random text; elsewhere they are words: ECONNREFUSED, invalid_grant, 23505, half-open. */
const RANDOM_NAME = /^(?:code|state|nonce)$/;
const WORD = /^(?:[A-Z]+(?:_[A-Z0-9]+)*|[A-Z]{1,4}\d{1,4}|[0-9A-Z]{5}|\d{1,4}|[a-z]+(?:[_ -][a-z0-9]+)*)$/;
const MAX_WORD_CHARACTERS = 40;
const MOST_REMEMBERED = 1_000;
/** Begun with the fields of every program's first line, for which no expression need be made. */
const SECRECY = new Map<string, Secrecy>([['url', 'open'], ['env', 'open']]);

/** Whether the value under this key is withheld. Flags are not: `hasPassword: true` tells nothing. */
export function isSecret(key: string, value: unknown): boolean {
  const secrecy = secrecyOf(key);
  if (secrecy === 'open' || value === null || typeof value === 'boolean') return false;
  if (secrecy === 'plural') return typeof value !== 'number';
  if (secrecy === 'random') return typeof value === 'string' && (value.length > MAX_WORD_CHARACTERS || !WORD.test(value));
  return true;
}

function secrecyOf(key: string): Secrecy {
  let secrecy = SECRECY.get(key);
  if (secrecy === undefined) {
    const name = key.slice(-MAX_KEY_CHARACTERS).toLowerCase().replace(/[^a-z0-9]/g, '');
    secrecy = SECRET_NAME.test(name) ? 'secret' : SECRET_PLURAL.test(name) ? 'plural' : RANDOM_NAME.test(name) ? 'random' : 'open';
    if (SECRECY.size < MOST_REMEMBERED) SECRECY.set(key, secrecy); // names in programs are few; those of a client's JSON are not
  }
  return secrecy;
}

// ── by form ──

/** One look decides for nearly every string that there is nothing to mask and nothing to escape. An address without `@` has no password. Without the flag `i`, with which it takes three times as long to compile. */
const SPECIAL = /[\x00-\x1f"\\\x7f-\uffff?&#]|eyJ|:\/\/[^\s/?#]*@|[bB][eE][aA][rR][eE][rR]|[bB][aA][sS][iI][cC]|[cC][oO][oO][kK][iI][eE]:|svcrt_|[es]1\.[\w-]/;

/**
 * Masked before it is cut, with room to spare: a cut in the middle of a secret would hide what it is. What was searched
 * costs half its length even when little of it is left, so that a line searches at most twice what it may hold.
 */
export function spend(text: string, limit: number, budget: Budget): string {
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

// ── by character ──

const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]/;
const UNPRINTABLES = new RegExp(UNPRINTABLE, 'g');

/** JSON escapes C0 and lone surrogates; what else moves a cursor or ends a line somewhere is escaped here. */
export function quote(text: string): string {
  return visible(JSON.stringify(text));
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
