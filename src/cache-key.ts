/**
 * Arguments → the key of a cached call: two lists have the same text only if they hold the same values.
 *
 *   (7, 'a', { y: 1, x: undefined })   →   7,"a",{"x":u,"y":1}
 *
 * Text, numbers, booleans, null, undefined, bigints, dates, bytes, and arrays and plain objects of these. Members go by
 * name, whatever their order. What has no text of its own, such as a function or an instance of a class, is refused: any
 * text for it would be that of others, too.
 */
import { hash } from 'node:crypto';

/** What keeps an argument from having a key. */
export class NoKey extends Error {}

/** Longer ones are kept as their digest, so that no argument makes a key of megabytes. */
const LONGEST_KEY = 256;
/** An argument that contains itself has no end; nobody else goes so deep. */
const DEEPEST = 32;

/** The key of a list of arguments. @throws NoKey which says what about which argument */
export function keyOfArguments(args: readonly unknown[]): string {
  if (args.length === 1 && typeof args[0] === 'number' && args[0] !== 0) return String(args[0]);
  return bounded(args.map((value, index) => textOf(value, () => `argument ${index + 1}`, 0)).join(','));
}

/** The key itself, or the digest of one that is too long. */
export function bounded(key: string): string {
  return key.length <= LONGEST_KEY ? key : `#${hash('sha256', JSON.stringify(key), 'base64url')}`; // JSON keeps lone surrogates apart, which UTF-8 cannot
}

function textOf(value: unknown, where: () => string, depth: number): string {
  switch (typeof value) {
    case 'string': return JSON.stringify(value);
    case 'number': return Object.is(value, -0) ? '-0' : String(value);
    case 'boolean': return String(value);
    case 'bigint': return `${value}n`;
    case 'undefined': return 'u';
    case 'object': return value === null ? 'null' : textOfObject(value, where, depth);
    default: throw new NoKey(`${where()} is a ${typeof value}`);
  }
}

function textOfObject(value: object, where: () => string, depth: number): string {
  if (depth >= DEEPEST) throw new NoKey(`${where()} contains itself, or is nested deeper than ${DEEPEST} levels`);
  if (Array.isArray(value)) return `[${Array.from(value, (item, index) => textOf(item, () => `${where()}[${index}]`, depth + 1)).join(',')}]`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (value instanceof Date && prototype === Date.prototype) return `d${value.getTime()}`;
  if (value instanceof Uint8Array && (prototype === Uint8Array.prototype || prototype === Buffer.prototype)) return `b"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}"`;
  if (prototype !== null && prototype !== Object.prototype) throw new NoKey(`${where()} is an instance of ${nameOf(prototype)}`);
  if (Object.getOwnPropertySymbols(value).length > 0) throw new NoKey(`${where()} has a member named by a symbol`);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${textOf((value as Record<string, unknown>)[name], () => `${where()}.${name}`, depth + 1)}`);
  return `{${members.join(',')}}`;
}

function nameOf(prototype: unknown): string {
  const { constructor } = prototype as { constructor?: unknown }; // null was no prototype to come here with
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'a class without a name';
}
