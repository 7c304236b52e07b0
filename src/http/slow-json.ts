/**
 * JSON of what JSON.stringify refuses: bigints as decimal strings, and where a value contains itself.
 */
import { SvcError } from '../errors.ts';

/** The second attempt, when there are bigints or a cycle. */
export function slowJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, (_key, member: unknown) => typeof member === 'bigint' ? member.toString() : member);
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
