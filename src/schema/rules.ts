/**
 * Rules across fields. `static check(self)` of a schema class gets an instance whose fields are valid. It
 * returns or yields the issues of their combination.
 *
 * Example:
 *   static *check(self: Stay) {
 *     if (self.from >= self.to) yield { loc: ['to'], message: 'must be after "from"' };
 *   }
 */
import { SvcError } from '../base/errors.ts';
import { isThenable } from '../base/promises.ts';
import { fieldFault } from './nodes.ts';
import type { FieldPlan, RuleIssue } from './nodes.ts';
import type { SchemaClass } from './types.ts';

/** An issue that a rule finds. Clients read its text, so it must not contain secret values. */
export interface RuleProblem {
  /** Path of the member from the object, by names of the class. Default: the object itself. */
  readonly loc?: readonly (string | number)[] | undefined;
  /** Machine-readable code. Default `rule`. */
  readonly code?: string | undefined;
  /** Rest of a sentence about the member: `must be after "from"`. */
  readonly message: string;
}
/**
 * Result of `static check(self)`: nothing, one issue, or several. A text is the message of an issue about the
 * whole object.
 */
export type RuleResult = undefined | string | RuleProblem | Iterable<string | RuleProblem>;

/**
 * Returns the rules of a class: its own `static check`, or an inherited one.
 *
 * @throws SvcError `E_SCHEMA_FIELD` when `check` is not a function
 */
export function rulesOf(
  schema: SchemaClass,
  owner: string,
  fields: readonly FieldPlan[],
): ((value: unknown) => readonly RuleIssue[]) | undefined {
  const { check } = schema as { readonly check?: unknown };
  if (check === undefined) return undefined;
  if (typeof check !== 'function') throw wrong(owner, 'is not a function');
  const wires = new Map(fields.map(({ name, wireName }) => [name, wireName] as const));
  return (value) => {
    const result: unknown = check.call(schema, value);
    if (isThenable(result)) throw wrong(owner, 'returns a promise, and rules are synchronous');
    return listOf(result).map((problem): RuleIssue => {
      const {
        loc = [],
        code = 'rule',
        message,
      } = typeof problem === 'string' ? { message: problem } : problem;
      const [first, ...rest] = loc;
      return {
        path: first === undefined ? [] : [wires.get(String(first)) ?? first, ...rest],
        code,
        message: String(message),
      };
    });
  };
}

function listOf(result: unknown): readonly (string | RuleProblem)[] {
  if (result === undefined || result === null || result === true) return [];
  if (typeof result === 'object' && Symbol.iterator in result)
    return [...(result as Iterable<string | RuleProblem>)];
  return [result as string | RuleProblem];
}

function wrong(owner: string, problem: string): SvcError {
  return fieldFault('check', owner, `its static check ${problem}`);
}
