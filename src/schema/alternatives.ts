/**
 * Checks of types made of types that are tried or counted: unions without a tag, tuples, lists without equal items.
 */
import { toBase64 } from './formats.ts';
import { FAIL } from './types.ts';
import { MAX_DEPTH, tooDeep } from './validation-run.ts';
import type { Check, Run } from './validation-run.ts';

/** Alternatives that one validation tries: unions within unions would multiply them. */
const MAX_TRIALS = 200_000;

/** The first of several types that a value fits. The issues are those of the only one that has the value's type, else one. */
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

/** A list of as many items as there are checks, one for each. */
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

/** Whether no two items are equal in JSON; notes the later of two. `items` are what the values became: texts as numbers. */
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

/** The JSON text of a value with the members of objects in order of their names. */
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
