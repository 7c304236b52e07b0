/**
 * JSON out: `JSON.stringify` with what it lacks settled. Bigints are decimal strings, and a value that has no JSON form, or
 * contains itself, is an error that says where. Inside of objects JSON.stringify alone decides: a Map or a Set there is `{}`.
 */
import { SvcError } from '../base/errors.ts';

/** The JSON text of a value. @throws SvcError `E_REPLY` with the place of a cycle, or of what cannot be JSON */
export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    text = slowJson(value);
  }
  if (text === undefined) throw new SvcError('E_REPLY', [`${describe(value)} has no JSON form`]);
  return text;
}

function describe(value: unknown): string {
  return typeof value === 'function'
    ? `the function ${value.name || '(anonymous)'}`
    : `a value of type ${typeof value}`;
}

/** The second attempt, when there are bigints or a cycle. */
function slowJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, (_key, member: unknown) =>
      typeof member === 'bigint' ? member.toString() : member,
    );
  } catch (cause) {
    const problem = cycleIn(value, '$', new Set());
    throw problem === undefined ? cause : new SvcError('E_REPLY', [problem], { cause });
  }
}

/** Where a value contains itself, or is nested deeper than anybody reads. */
function cycleIn(value: unknown, path: string, above: Set<object>): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (above.has(value)) return `a cycle at ${path}`;
  if (above.size >= 512) return `nesting deeper than 512 levels at ${path.slice(0, 80)}…`;
  above.add(value);
  for (const [key, member] of Object.entries(value)) {
    const problem = cycleIn(member, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`, above);
    if (problem !== undefined) return problem;
  }
  above.delete(value);
  return undefined;
}
