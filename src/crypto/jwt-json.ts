/**
 * Reads JSON objects in tokens: base64url, then UTF-8, then one JSON object. Each object has exactly one
 * accepted spelling (RFC 7515 §2, §5.2).
 *
 * The reader is stricter than JSON.parse(). It refuses duplicate names at any depth, because parsers differ
 * in which one they use (RFC 8259 §4). It also refuses the name `__proto__`, and more than 32 levels of
 * nesting.
 */
import { isUtf8 } from 'node:buffer';
import { isRecord } from '../base/options.ts';

/** An object with unknown members. */
export type JsonObject = Record<string, unknown>;

const MAX_DEPTH = 32;

/** Encodes a text in base64url, as a segment of a token. */
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

/** Returns the JSON object in a base64url segment; undefined if the segment has none. */
export function objectOf(segment: string): JsonObject | undefined {
  const bytes = bytesOf(segment);
  return bytes === undefined ? undefined : objectIn(bytes);
}

/** Returns the JSON object in bytes; undefined if they are not UTF-8 or no JSON object. */
export function objectIn(bytes: Buffer): JsonObject | undefined {
  return isUtf8(bytes) ? parseObject(bytes.toString()) : undefined;
}

/** Parses a JSON text strictly. Returns undefined for anything but an object. */
export function parseObject(text: string): JsonObject | undefined {
  const value = parseValue(text);
  return isRecord(value) ? value : undefined;
}

/** Parses a JSON text strictly. Returns undefined for invalid JSON and for refused members. */
export function parseValue(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text); // JSON.parse() is not recursive, so deep nesting cannot overflow the stack
  } catch {
    return undefined;
  }
  return isAmbiguous(text) ? undefined : value;
}

const QUOTE = 0x22;
const COLON = 0x3a;
const SPACE = 0x20;
const BACKSLASH = 0x5c;

/**
 * Returns whether a JSON text has a duplicate name, the name `__proto__`, or more than MAX_DEPTH levels. The
 * text must be valid JSON.
 */
function isAmbiguous(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // names in each object that is not closed yet; undefined for an array
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (character === '{' || character === '[') {
      if (open.push(character === '{' ? new Set() : undefined) > MAX_DEPTH) return true;
    } else if (character === '}' || character === ']') open.pop();
    else if (character === '"') {
      const end = endOfString(text, index);
      if (isName(text, end)) {
        const name = JSON.parse(text.slice(index, end)) as string;
        const names = open.at(-1)!; // a string before a colon is in an object, so there is an entry
        if (name === '__proto__' || names.has(name)) return true;
        names.add(name);
      }
      index = end - 1;
    }
  }
  return false;
}

function endOfString(text: string, start: number): number {
  let index = start + 1;
  for (; text.charCodeAt(index) !== QUOTE; index++) if (text.charCodeAt(index) === BACKSLASH) index++;
  return index + 1;
}

/** Returns whether the string that ends at `end` is a name: a colon follows it, perhaps after white space. */
function isName(text: string, end: number): boolean {
  let index = end;
  while (text.charCodeAt(index) <= SPACE) index++;
  return text.charCodeAt(index) === COLON;
}
