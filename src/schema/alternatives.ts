/**
 * Checks of types that consist of other types: unions without a tag, tuples, and lists of unique items.
 */
import { toBase64 } from './formats.ts';
import { FAIL } from './types.ts';
import { MAX_DEPTH, tooDeep } from './validation-run.ts';
import type { Check, Run } from './validation-run.ts';

/** Maximum number of alternatives that one validation tries, because nested unions multiply them. */
const MAX_TRIALS = 200_000;

/**
 * Check of a union without a tag: returns the value of the first type that accepts it. If exactly one type
 * has the value's kind, its issues are reported; otherwise one general issue.
 */
export function choiceCheck(members: readonly Check[]): Check {
  return (value, run) => {
    const mark = run.count;
    const wasFull = run.isFull;
    let near: Check | undefined;
    let isNearOnly = true;
    for (const check of members) {
      if (run.trials++ >= MAX_TRIALS) return run.fail('union', 'has too many alternatives within each other');
      const out = check(value, run);
      if (out !== FAIL) return out;
      const isOfType = !run.isOnly(mark, 'type');
      run.rewind(mark, wasFull);
      if (!isOfType) continue;
      isNearOnly = near === undefined;
      near ??= check;
    }
    return near !== undefined && isNearOnly
      ? near(value, run)
      : run.fail('union', 'fits none of the types that it may have');
  };
}

/** Check of a tuple: a list with one item for each check. */
export function tupleCheck(members: readonly Check[]): Check {
  const count = members.length;
  const message = `must be a list of ${count} item${count === 1 ? '' : 's'}`;
  return (value, run) => {
    if (!Array.isArray(value)) return run.fail('type', message);
    if (value.length !== count) return run.fail(value.length < count ? 'min_length' : 'max_length', message);
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count;
    let isGood = true;
    const items: unknown[] = new Array(count);
    for (let i = 0; i < count; i++) {
      items[i] = members[i]!(value[i], run);
      if (items[i] !== FAIL) continue;
      mark = run.place(mark, i);
      isGood = false;
    }
    run.depth--;
    return isGood ? items : FAIL;
  };
}

/**
 * Returns whether no two items are equal as JSON; reports the later one of an equal pair. `items` are
 * converted values: texts may have become numbers.
 */
export function areUnique(values: readonly unknown[], items: readonly unknown[], run: Run): boolean {
  const seen = new Set<string>();
  let mark = run.count;
  const before = mark;
  for (let i = 0; i < values.length && !run.isFull; i++) {
    const key = canonical(typeof items[i] === 'object' ? values[i] : items[i]);
    if (!seen.has(key)) seen.add(key);
    else {
      run.fail('unique', 'is equal to an item before it');
      mark = run.place(mark, i);
    }
  }
  return run.count === before && !run.isFull;
}

/** Returns the JSON text of a value with members in the order of their names. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? 'null');
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value instanceof Uint8Array) return JSON.stringify(toBase64(value));
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function')
    return canonical((value as { toJSON(): unknown }).toJSON());
  const members = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(members)
    .filter((key) => members[key] !== undefined)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(members[key])}`)
    .join()}}`;
}
