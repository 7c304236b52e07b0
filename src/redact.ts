/**
 * Redaction: any value → JSON text that holds no secret and cannot forge a line. Never throws, and its work is bounded.
 *
 *   by key    password, authorization, cookie, … token, … secret                       "[redacted]"
 *   by type   bytes "[16 bytes]", keys "[key]", functions "[function f]", a URL without its password
 *   by form   Bearer …, Basic …, compact JWTs, svcrt_… refresh tokens, our signed values, Cookie: …, ?code=…&access_token=… inside any string
 *
 * Bounds: 6 levels, 100 members each, 1,000 values and 32 KiB of text a line, 4 KiB a string, 8 KiB a stack.
 */
import { inspect } from 'node:util';
import { mask } from './redact-mask.ts';
import { objectJson } from './redact-objects.ts';
import { isSecret, members, scalarJson } from './redact-values.ts';
import type { InspectOptions } from 'node:util';
import type { Budget, JsonEntry } from './redact-values.ts';

const MAX_VALUES = 1_000;
const MAX_LINE_CHARACTERS = 32_768;

/** The fields of an object as they may be logged, in its order; `undefined` is left out. */
export function safeEntries(fields: object): JsonEntry[] {
  const budget: Budget = { values: MAX_VALUES, characters: MAX_LINE_CHARACTERS, ancestors: [] };
  try {
    return members(fields, Object.keys(fields), 0, budget, safeJson);
  } catch {
    return [['fields', '"[unreadable]"']]; // a proxy that refuses to list its keys
  }
}

/** What was thrown, as it may be logged: an error as `{ name, code, message, remedy, stack, cause, errors }`, else the value itself. */
export function safeError(error: unknown): string {
  return safeJson(error, 0, { values: MAX_VALUES, characters: MAX_LINE_CHARACTERS, ancestors: [] });
}

/** The value of a header as it may be shown. */
export function safeField(name: string, value: string): string {
  return isSecret(name, value) ? '[redacted]' : mask(value);
}

/** Lets inspect(), and thereby console.log(), show of a class's instances what toJSON() says, and nothing that they hold. */
export function inspectAsJson(of: { readonly prototype: { toJSON(): unknown } }, name?: string): void {
  const value = function (this: { toJSON(): unknown }, _depth: number, options: InspectOptions): string {
    return `${name ?? this.constructor.name} ${inspect(this.toJSON(), options)}`;
  };
  Object.defineProperty(of.prototype, inspect.custom, { value, writable: true, configurable: true });
}

function safeJson(value: unknown, depth: number, budget: Budget): string {
  return scalarJson(value, budget) ?? objectJson(value as object, depth, budget); // all that is no scalar
}
