/**
 * JSON objects as tokens carry them: base64url -> UTF-8 -> one object, each step in one spelling only (RFC 7515 §2, §5.2).
 *
 * Refused beyond what JSON.parse() refuses: a name that comes twice in one object, at any depth and however it is escaped,
 * for parsers differ in which one they believe (RFC 8259 §4); the name `__proto__`; nesting beyond 32 levels.
 */
import { isUtf8 } from 'node:buffer';

/** Anything, by its own members. */
export type JsonObject = Record<string, unknown>;

const MAX_DEPTH = 32;
/** A text as a segment of a token. */
export function segmentOf(text: string): string {
  return Buffer.from(text).toString('base64url');
}

/** The object in a segment of a token, or undefined. */
export function objectOf(segment: string): JsonObject | undefined {
  const text = textOf(segment);
  return text === undefined ? undefined : parseObject(text);
}

/** Well-formed UTF-8 in canonical base64url: decoders pass over foreign characters and unused bits, so it is written again and compared. */
function textOf(segment: string): string | undefined {
  const bytes = Buffer.from(segment, 'base64url');
  return bytes.toString('base64url') === segment && isUtf8(bytes) ? bytes.toString() : undefined;
}

/** The object that a text is, or undefined. */
export function parseObject(text: string): JsonObject | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text); // V8's parser does not recurse: depth costs memory, never the stack
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return isSound(value, MAX_DEPTH) && !hasRepeatedName(text) ? (value as JsonObject) : undefined; // checked above
}

/** Whether a value has no more than so many levels of objects and lists, and no member `__proto__`. */
function isSound(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0 || Object.hasOwn(value, '__proto__')) return false;
  return Object.values(value).every((inner) => isSound(inner, levels - 1));
}

const QUOTE = 0x22;
const SPACE = 0x20;
const BACKSLASH = 0x5c;

/** Whether an object in a JSON text, known to be one, names a member twice. */
function hasRepeatedName(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // the names of an object, undefined for an array
  for (let index = 0; index < text.length; index++) {
    switch (text[index]) {
      case '{':
        open.push(new Set());
        break;
      case '[':
        open.push(undefined);
        break;
      case '}':
      case ']':
        open.pop();
        break;
      case '"': {
        const end = endOfString(text, index);
        if (isName(text, end)) {
          const names = open.at(-1)!; // a name stands in an object
          const { size } = names;
          if (names.add(JSON.parse(text.slice(index, end)) as string).size === size) return true;
        }
        index = end - 1;
      }
    }
  }
  return false;
}

/** Behind the quote that ends the string which begins at `start`. */
function endOfString(text: string, start: number): number {
  let index = start + 1;
  for (; text.charCodeAt(index) !== QUOTE; index++) if (text.charCodeAt(index) === BACKSLASH) index++;
  return index + 1;
}

/** Whether a colon follows, perhaps behind white space. */
function isName(text: string, end: number): boolean {
  let index = end;
  while (text.charCodeAt(index) <= SPACE) index++;
  return text[index] === ':';
}
