/** Values of variables and facts about texts on one path through the code. */
import { NO_FACTS, allFacts, sharedFacts } from './text.ts';
import { ABSENT, oneOf } from './value.ts';
import type { Facts } from './text.ts';
import type { Value, Variable } from './value.ts';

/** How a path ends: with `return` or `throw`, or with `break` or `continue`. */
type End = 'exit' | 'break';

/**
 * Values and facts on one path through the code. A branch has a path of its own, on top of the path before
 * it; afterwards {@link join} merges the branches that go on.
 */
export class Path {
  readonly #values = new Map<Variable, Value>();
  readonly #before: Path | undefined;
  /** Values that code assigned to members of inputs, by the ids of the inputs. */
  readonly replaced: Map<string, Value>;
  facts: Facts;
  end: End | undefined;

  constructor(before?: Path, facts: Facts = NO_FACTS) {
    this.#before = before;
    this.facts = before === undefined ? facts : allFacts(before.facts, facts);
    this.replaced = new Map(before?.replaced);
  }

  get(variable: Variable): Value | undefined {
    return this.#values.get(variable) ?? this.#before?.get(variable);
  }

  set(variable: Variable, value: Value): void {
    this.#values.set(variable, value);
    variable.last = value;
  }

  /**
   * Continues after branches of this path: with their values, and with the facts that all of them have. `change`
   * is applied to each value that a branch assigns.
   */
  join(branches: readonly Path[], change?: (value: Value) => Value): void {
    const open = branches.filter(({ end }) => end === undefined);
    if (open.length === 0) this.end = branches.some(({ end }) => end === 'break') ? 'break' : 'exit';
    else this.continueAfter(open, change);
  }

  continueAfter(open: readonly Path[], change: (value: Value) => Value = (value) => value): void {
    const changed = new Set(open.flatMap((branch) => branch.#changedSince(this)));
    for (const variable of changed)
      if (this.get(variable) !== undefined)
        this.set(variable, change(oneOf(open.map((branch) => branch.get(variable) ?? ABSENT))));
    const [first = this, ...more] = open;
    this.facts = more.reduce((facts, branch) => sharedFacts(facts, branch.facts), first.facts);
    for (const branch of open) for (const [id, value] of branch.replaced) this.replaced.set(id, value);
  }

  /** Returns the variables that another branch assigns and this one does not, with the values that they keep here. */
  keptBeside(branch: Path): readonly (readonly [Variable, Value])[] {
    const assigned = this.end === undefined ? [...branch.#values.keys()] : [];
    return assigned.flatMap((variable) => {
      const value = this.#values.has(variable) ? undefined : this.get(variable);
      return value === undefined ? [] : [[variable, value] as const];
    });
  }

  /** Whether a variable of the path before this one got another value. */
  hasChanged(before: Path): boolean {
    return this.#changedSince(before).some((variable) => before.get(variable) !== undefined);
  }

  #changedSince(before: Path): Variable[] {
    const changed = [...this.#values.keys()];
    return this.#before === undefined || this.#before === before
      ? changed
      : [...changed, ...this.#before.#changedSince(before)];
  }
}
