/**
 * JSON objects in tokens: decodes base64url, then UTF-8, then one JSON object. Each step accepts only one
 * spelling (RFC 7515 §2, §5.2).
 *
 * Stricter than JSON.parse(). Refuses duplicate names at any depth and with any escaping, because parsers
 * differ in which one they use (RFC 8259 §4). Also refuses the name `__proto__`, and nesting beyond 32
 * levels.
 */
import { isUtf8 } from 'node:buffer';
import { isRecord } from '../base/options.ts';

/** An object with unknown members. */
export type JsonObject = Record<string, unknown>;

const MAX_DEPTH = 32;

/** Returns a text as a segment of a token. */
export function segmentOf(text: string): string {
  return Buffer.from(text).toString('base64url');
}

/**
 * Returns the bytes of a segment, or undefined unless it is canonical base64url. Decoders ignore foreign
 * characters and unused bits, so the bytes are encoded again and compared (RFC 4648 §3.5).
 */
export function bytesOf(segment: string): Buffer | undefined {
  const bytes = Buffer.from(segment, 'base64url');
  return bytes.toString('base64url') === segment ? bytes : undefined;
}

/** Returns the object in a segment of a token, or undefined. */
export function objectOf(segment: string): JsonObject | undefined {
  const bytes = bytesOf(segment);
  return bytes === undefined ? undefined : objectIn(bytes);
}

/** Returns the object in well-formed UTF-8, or undefined. */
export function objectIn(bytes: Buffer): JsonObject | undefined {
  return isUtf8(bytes) ? parseObject(bytes.toString()) : undefined;
}

/** Returns the object that a JSON text contains, or undefined. */
export function parseObject(text: string): JsonObject | undefined {
  const value = parseValue(text);
  return isRecord(value) ? value : undefined;
}

/** Returns the value of a JSON text, or undefined. */
export function parseValue(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text); // V8's parser does not recurse: deep nesting cannot overflow the stack
  } catch {
    return undefined;
  }
  return isAmbiguous(text) ? undefined : value;
}

const QUOTE = 0x22;
const COLON = 0x3a;
const SPACE = 0x20;
const BACKSLASH = 0x5c;

/** Whether a valid JSON text has a duplicate member, a member `__proto__`, or too deep nesting. */
function isAmbiguous(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // the names in each open object; undefined for an array
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (character === '{' || character === '[') {
      if (open.push(character === '{' ? new Set() : undefined) > MAX_DEPTH) return true;
    } else if (character === '}' || character === ']') open.pop();
    else if (character === '"') {
      const end = endOfString(text, index);
      if (isName(text, end)) {
        const name = JSON.parse(text.slice(index, end)) as string;
        const names = open.at(-1)!; // only a string in an object can be a name
        if (name === '__proto__' || names.has(name)) return true;
        names.add(name);
      }
      index = end - 1;
    }
  }
  return false;
}

/** Returns the index after the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let index = start + 1;
  for (; text.charCodeAt(index) !== QUOTE; index++) if (text.charCodeAt(index) === BACKSLASH) index++;
  return index + 1;
}

/** Whether a colon follows, after optional white space. */
function isName(text: string, end: number): boolean {
  let index = end;
  while (text.charCodeAt(index) <= SPACE) index++;
  return text.charCodeAt(index) === COLON;
}
