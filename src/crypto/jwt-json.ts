/**
 * Reads the JSON objects in tokens: decodes base64url, then UTF-8, then one JSON object. It accepts exactly
 * one encoding of each text (RFC 7515 §2, RFC 7515 §5.2).
 *
 * The reader is stricter than JSON.parse(). It refuses a name that occurs twice, at any depth, because
 * parsers differ in which value they use (RFC 8259 §4). It also refuses the name `__proto__`, and more than
 * 32 levels of nesting.
 */
import { isUtf8 } from 'node:buffer';

/** An object with unknown members. */
export type JsonObject = Record<string, unknown>;

const MAX_DEPTH = 32;
/**
 * Size of the shared buffer, enough for tokens up to the default maximum length. With this buffer, encoding
 * or decoding a segment allocates only the resulting text.
 */
const ROOM_CHARACTERS = 8_192;
const room = Buffer.allocUnsafeSlow(ROOM_CHARACTERS);
const REPLACEMENT = '\ufffd';

/** Encodes a text in base64url, as a segment of a token. */
export function segmentOf(text: string): string {
  // this text may not fit into `room`, because a UTF-16 unit has up to three bytes in UTF-8
  if (text.length > ROOM_CHARACTERS / 3) return Buffer.from(text).toString('base64url');
  return room.toString('base64url', 0, room.write(text));
}

/** Returns the JSON object in a base64url segment. Undefined if the segment contains none. */
export function objectOf(segment: string): JsonObject | undefined {
  const text = textOf(segment);
  return text === undefined ? undefined : parseObject(text);
}

/**
 * Returns the text of a segment. Undefined unless it is well-formed UTF-8 in canonical base64url. Decoders
 * ignore invalid characters and unused bits, so the text is encoded again and compared with the segment.
 */
function textOf(segment: string): string | undefined {
  const bytes = segment.length <= ROOM_CHARACTERS ? room : Buffer.allocUnsafe(segment.length);
  const length = bytes.write(segment, 'base64url');
  if (bytes.toString('base64url', 0, length) !== segment) return undefined;
  const text = bytes.toString('utf8', 0, length);
  // malformed bytes become U+FFFD, so only a text that contains U+FFFD needs the slow test
  return text.includes(REPLACEMENT) && !isUtf8(bytes.subarray(0, length)) ? undefined : text;
}

/** Parses a JSON text strictly. Returns undefined if it is not an object. */
export function parseObject(text: string): JsonObject | undefined {
  const value = parseValue(text);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

/** Parses a JSON text strictly. Returns undefined for invalid JSON, and for JSON that this reader refuses. */
export function parseValue(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text); // JSON.parse() is not recursive, so deep nesting cannot overflow the stack
  } catch {
    return undefined;
  }
  const members = countInside(value, 0);
  return members === REFUSED || (members !== mostNames(text) && hasRepeatedName(text)) ? undefined : value;
}

const REFUSED = -1;

/**
 * Returns the number of members in an object and in all objects inside it. Returns REFUSED if an object has a
 * member with a forbidden name, or is nested too deeply.
 */
function countMembers(object: JsonObject, depth: number): number {
  if (depth > MAX_DEPTH) return REFUSED;
  const names = Object.keys(object);
  let members = names.length;
  for (const name of names) {
    if (name === '__proto__') return REFUSED;
    const found = countInside(object[name], depth);
    if (found === REFUSED) return REFUSED;
    members += found;
  }
  return members;
}

/**
 * Returns the number of members in all objects inside a value. `depth` is the nesting level of the value.
 * Returns REFUSED in the same cases as countMembers().
 */
function countInside(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (!Array.isArray(value)) return countMembers(value as JsonObject, depth + 1);
  if (depth === MAX_DEPTH) return REFUSED;
  let members = 0;
  for (const inner of value as unknown[]) {
    const found = countInside(inner, depth + 1);
    if (found === REFUSED) return REFUSED;
    members += found;
  }
  return members;
}

const QUOTE = 0x22;
const SPACE = 0x20;
const BACKSLASH = 0x5c;

/**
 * Returns an upper limit for the number of member names in a JSON text: the number of colons after a quote or
 * white space. If it equals the number of parsed members, no name occurs twice, and the slower check of each
 * name is skipped.
 */
function mostNames(text: string): number {
  let count = 0;
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    const before = text.charCodeAt(at - 1);
    if (before === QUOTE || before <= SPACE) count++;
  }
  return count;
}

/** Returns whether an object in a valid JSON text has the same name twice. */
function hasRepeatedName(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // the names in each open object; undefined for an open array
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
          // the set exists, because a string before a colon is the name of a member of an open object
          const names = open.at(-1)!;
          const { size } = names;
          if (names.add(JSON.parse(text.slice(index, end)) as string).size === size) return true;
        }
        index = end - 1;
      }
    }
  }
  return false;
}

function endOfString(text: string, start: number): number {
  let index = start + 1;
  for (; text.charCodeAt(index) !== QUOTE; index++) if (text.charCodeAt(index) === BACKSLASH) index++;
  return index + 1;
}

/**
 * Returns whether the JSON string that ends at `end` is the name of a member: a colon follows it, perhaps
 * after white space.
 */
function isName(text: string, end: number): boolean {
  let index = end;
  while (text.charCodeAt(index) <= SPACE) index++;
  return text[index] === ':';
}
