/**
 * Reads and writes the segments of JSON Web Tokens: JSON objects in base64url (RFC 7515 §2, RFC 7515 §5.2).
 * Accepts only canonical base64url.
 *
 * The parser is stricter than JSON.parse(). It refuses an object with two members of one name, because other
 * parsers differ in the value they use (RFC 8259 §4). It also refuses the name `__proto__`, and more than 32
 * levels of nesting.
 */
import { jsonOf } from '../base/options.ts';
import { utf8Text } from '../base/bytes.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Header members that change how a token must be read, such as critical extensions (RFC 7515 §4.1.11). None
 * of them is supported, so a token that has one is refused.
 */
export const UNSUPPORTED_HEADERS: readonly string[] = ['crit', 'b64', 'cty', 'zip', 'enc'];
/** Header members with a certificate, or with the address of a key. */
export const CERTIFICATE_HEADERS: readonly string[] = ['jku', 'x5u', 'x5c'];

const MAX_DEPTH = 32;
/** Size of `room`, a buffer that all calls share. A longer text gets a buffer of its own. */
const ROOM_CHARACTERS = 8_192;
const room = Buffer.allocUnsafeSlow(ROOM_CHARACTERS);

/** Encodes a text in base64url, as a segment of a token. */
export function segmentOf(text: string): string {
  // a UTF-16 unit takes up to three bytes in UTF-8, so a longer text may not fit into `room`
  if (text.length > ROOM_CHARACTERS / 3) return Buffer.from(text).toString('base64url');
  return room.toString('base64url', 0, room.write(text));
}

/** Returns the JSON object in a base64url segment, or undefined if the segment contains none. */
export function objectOf(segment: string): JsonObject | undefined {
  const text = textOf(segment);
  return text === undefined ? undefined : parseObject(text);
}

/**
 * Decodes a segment. Returns undefined unless it is well-formed UTF-8 in canonical base64url. Node.js ignores
 * invalid base64url characters, so the bytes are encoded again and compared with the segment.
 */
function textOf(segment: string): string | undefined {
  const bytes = segment.length <= ROOM_CHARACTERS ? room : Buffer.allocUnsafe(segment.length);
  const length = bytes.write(segment, 'base64url');
  if (bytes.toString('base64url', 0, length) !== segment) return undefined;
  return utf8Text(bytes, 0, length);
}

/** Parses a JSON text like {@link parseValue}. Returns undefined also if the value is not an object. */
export function parseObject(text: string): JsonObject | undefined {
  const value = parseValue(text);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

/**
 * Parses a JSON text. Returns undefined for invalid JSON, an object with two members of one name, the name
 * `__proto__`, and more than 32 levels of nesting.
 */
export function parseValue(text: string): unknown {
  const value = jsonOf(text); // JSON.parse() is not recursive, so deep nesting cannot overflow the stack
  if (value === undefined) return undefined;
  const members = countInside(value, 0);
  return Number.isNaN(members) || (members !== mostNames(text) && hasRepeatedName(text)) ? undefined : value;
}

/** Count of a refused value. A sum with it is NaN, too. */
const REFUSED = NaN;

/**
 * Counts the members of an object and of all objects inside it. Returns REFUSED for the name `__proto__`, and
 * for too many levels of nesting.
 */
function countMembers(object: JsonObject, depth: number): number {
  if (depth > MAX_DEPTH) return REFUSED;
  const names = Object.keys(object);
  let members = names.length;
  for (const name of names) {
    if (name === '__proto__') return REFUSED;
    members += countInside(object[name], depth);
  }
  return members;
}

/**
 * Counts the members of all objects inside a value, which is at the nesting level `depth`. Returns REFUSED
 * for the name `__proto__`, and for too many levels of nesting.
 */
function countInside(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (!Array.isArray(value)) return countMembers(value as JsonObject, depth + 1);
  if (depth === MAX_DEPTH) return REFUSED;
  let members = 0;
  for (const inner of value as unknown[]) members += countInside(inner, depth + 1);
  return members;
}

const QUOTE = 0x22;
const SPACE = 0x20;
const BACKSLASH = 0x5c;

/**
 * Returns an upper limit for the number of member names in a JSON text: the number of colons after a quote or
 * white space. If the parsed value has as many members, no name occurs twice, because JSON.parse() keeps only
 * one member of each name.
 */
function mostNames(text: string): number {
  let count = 0;
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    const before = text.charCodeAt(at - 1);
    if (before === QUOTE || before <= SPACE) count++;
  }
  return count;
}

/** Returns whether any object in a valid JSON text has two members of one name. */
function hasRepeatedName(text: string): boolean {
  // the member names of each open object; undefined for each open array
  const open: (Set<string> | undefined)[] = [];
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
          // `names` is defined: in valid JSON, a string before a colon is always inside an object
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

/** Returns whether a colon follows the position `end`, perhaps after white space. */
function isName(text: string, end: number): boolean {
  let index = end;
  while (text.charCodeAt(index) <= SPACE) index++;
  return text[index] === ':';
}
