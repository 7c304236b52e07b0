/**
 * Compiles types (nodes, see nodes.ts) to functions that convert a handler's result to JSON. The result is
 * checked, and reduced to the members of its schema.
 *
 * Rules:
 *   - Only declared members are written, under their aliases. Methods, getters and other members are left
 *     out.
 *   - A `secret` member that is present is an issue: the response is a 500, and the secret is not sent.
 *   - A Date becomes RFC 3339 text, and bytes become base64. A safe integer as bigint becomes a number in an
 *     integer field. In an `any` field, every bigint becomes decimal text.
 *   - An absent member gets its default.
 */
import type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';
import { FORGOTTEN_AWAIT, isThenable } from '../base/promises.ts';
import {
  choiceCheck,
  tupleCheck,
  anyCheck,
  bytesCheck,
  datetimeCheck,
  nameProblem,
  MAX_DEPTH,
  numberCheck,
  tooDeep,
} from './validation-run.ts';
import { toBase64 } from './formats.ts';
import { FAIL } from './types.ts';
import type { Check, Result, Run } from './validation-run.ts';
import {
  absence,
  checksByTag,
  deferred,
  jsonCheck,
  listCheck,
  Member,
  Members,
  nullableCheck,
  oncePerPlan,
  Plain,
  recordCheck,
  runCheck,
} from './compile.ts';
import type { Input } from './compile.ts';

/**
 * Converts a handler's result to JSON. Returns issues if the result does not match its schema; then the
 * response is a 500.
 */
export interface Serializer {
  /** Returns new plain objects and arrays, which JSON.stringify() can write. */
  toValue(value: unknown, at?: string): Result<unknown>;
  /** Returns the value as JSON text. */
  toJson(value: unknown, at?: string): Result<string>;
}

/** Compiles the serializer of a type. */
export function serializerOf(node: TypeNode): Serializer {
  const check = outputCheck(node);
  return Object.freeze({
    toValue: (value: unknown, at?: string) => runCheck(check, value, at),
    toJson: (value: unknown, at?: string): Result<string> => {
      const result = runCheck(check, value, at);
      return result.ok ? { ok: true, value: JSON.stringify(result.value) } : result;
    },
  });
}

/** Returns the function that validates a value of a reply. It returns the JSON form of the value, or FAIL. */
export function outputCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'int':
      return integerOutput(numberCheck(node.constraints, true));
    case 'any':
      return anyOutput;
    case 'datetime':
      return thatIs(
        (value) => value instanceof Date,
        'must be a Date',
        datetimeCheck(),
        (value) => (value as Date).toISOString(),
      );
    case 'bytes':
      return thatIs(
        (value) => value instanceof Uint8Array,
        'must be a Uint8Array',
        bytesCheck(node.constraints),
        (value) => toBase64(value as Uint8Array),
      );
    case 'file':
      return (_, run) => run.fail('type', 'is declared as a file, which cannot be part of a reply');
    case 'list':
      return listCheck(outputCheck(node.item), node, new Plain(node.item));
    case 'record':
      return noPromise(recordCheck(outputCheck(node.item), node));
    case 'nullable':
      return nullableCheck(outputCheck(node.inner));
    case 'choice':
      return choiceOutput(node.members);
    case 'tuple':
      return tupleCheck(node.members.map(outputCheck));
    case 'lazy':
      return deferred(() => outputCheck(node.resolve()));
    case 'object':
      return objectOutput(node.plan());
    case 'union':
      return unionOutput(node);
    default:
      return jsonCheck(node);
  }
}

/**
 * Returns the function for a union without a tag. It uses the first type that accepts the value. An instance
 * of one of the union's classes is always written as this class.
 */
function choiceOutput(members: readonly TypeNode[]): Check {
  const checks = members.map(outputCheck);
  const any = choiceCheck(checks);
  return (value, run) => {
    const own = members.findIndex((member) => member.kind === 'object' && value instanceof member.schema);
    return own === -1 ? any(value, run) : checks[own]!(value, run);
  };
}

/** Refuses promises before `check` runs. Without this, a promise would be written as an empty object. */
function noPromise(check: Check): Check {
  return (value, run) => (isThenable(value) ? run.fail('type', FORGOTTEN_AWAIT) : check(value, run));
}

/** Returns a function that accepts only values for which `isKind` returns true, and converts them to text. */
function thatIs(
  isKind: (value: unknown) => boolean,
  message: string,
  check: Check,
  convert: (value: unknown) => string,
): Check {
  return (value, run) => {
    if (!isKind(value)) return run.fail('type', message);
    const checked = check(value, run);
    return checked === FAIL ? FAIL : convert(checked);
  };
}

/**
 * Returns the function for an integer. Databases return large integers as bigint, which becomes a number if
 * no digit is lost.
 */
function integerOutput(check: Check): Check {
  return (value, run) =>
    check(typeof value === 'bigint' && BigInt.asIntN(54, value) === value ? Number(value) : value, run);
}

/**
 * Converts any value like JSON.stringify(). A bigint becomes text, bytes become base64, and a value that JSON
 * cannot express is an issue.
 */
const anyOutput: Check = (value, run) => {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return anyCheck(value, run);
  if (value instanceof Uint8Array) return toBase64(value);
  if (typeof (value as { toJSON?: unknown }).toJSON !== 'function') return partsOutput(value, run);
  if (value instanceof Date && Number.isNaN(value.getTime())) return run.fail('type', 'must be a valid Date');
  if (run.depth >= MAX_DEPTH) return tooDeep(run);
  run.depth++;
  const out = anyOutput((value as { toJSON(): unknown }).toJSON(), run);
  run.depth--;
  return out;
};

function partsOutput(value: object, run: Run): unknown {
  if (isThenable(value)) return run.fail('type', FORGOTTEN_AWAIT);
  if (run.depth >= MAX_DEPTH) return tooDeep(run);
  run.depth++;
  const before = run.count;
  let mark = before;
  const out: Record<string | number, unknown> | unknown[] = Array.isArray(value) ? [] : {};
  for (const key of Object.keys(value)) {
    if (run.isFull) break;
    const part = (value as Record<string, unknown>)[key];
    if (part === undefined || typeof part === 'function') continue;
    const written = nameProblem(key, run) ?? anyOutput(part, run);
    if (written === FAIL) mark = run.place(mark, Array.isArray(value) ? Number(key) : key);
    else if (key !== '__proto__') (out as Record<string, unknown>)[key] = written;
    // an assignment to `__proto__` would set the prototype instead
    else Object.defineProperty(out, key, { value: written, enumerable: true });
  }
  run.depth--;
  return mark === before && !run.isFull ? out : FAIL;
}

function unionOutput(node: Extract<TypeNode, { kind: 'union' }>): Check {
  const { byTag, message } = checksByTag(node.variants(), objectOutput);
  return (value, run) => {
    if (typeof value !== 'object' || value === null) return run.fail('type', 'must be an object');
    const check = byTag.get((value as Record<string, unknown>)[node.tag]);
    if (check !== undefined) return check(value, run);
    const mark = run.count;
    run.fail('enum', message);
    run.place(mark, node.tag);
    return FAIL;
  };
}

const objectOutput = oncePerPlan(compileOutput);

function compileOutput(plan: ObjectPlan): Check {
  const members = new Members(
    plan.fields.map(
      (field) =>
        new Member(
          field.name,
          field.isSecret ? Plain.nothing : new Plain(field.node),
          () => (field.isSecret ? secretOutput : outputCheck(field.node)),
          outputAbsence(field),
        ),
    ),
  );
  const wires = plan.fields.map((field) => field.wireName);
  return (value, run) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return run.fail('type', 'must be an object');
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    const before = run.count;
    const values = members.isGuarded
      ? members.readOwn(value as Input, run)
      : members.read(value as Input, run);
    let isGood = run.count === before && !run.isFull;
    const out: Record<string, unknown> = {};
    if ((!isGood || values.includes(undefined)) && isThenable(value)) {
      run.depth--;
      return run.fail('type', FORGOTTEN_AWAIT);
    }
    for (let i = 0; i < values.length; i++) if (values[i] !== undefined) out[wires[i]!] = values[i];
    if (plan.extra === 'allow' && !extraOutput(plan, value as Input, out, run)) isGood = false;
    run.depth--;
    return isGood ? out : FAIL;
  };
}

const secretOutput: Check = (_, run) =>
  run.fail('secret', 'is declared as secret, and must not be part of a reply');

/**
 * Returns the function that is called if a member is missing in the result. It returns the default, converted
 * to JSON. A secret member may always be missing.
 */
function outputAbsence(field: FieldPlan): (run: Run) => unknown {
  if (field.isSecret) return () => undefined;
  if (field.isReadOnly && field.isOptional)
    return field.isOptionalInOutput ? () => undefined : (run) => run.fail('required', 'is required');
  if (!field.hasDefault) return absence(field);
  const check = deferred(() => outputCheck(field.node)),
    make = absence(field);
  return (run) => check(make(run), run);
}

/**
 * Adds to `out` the undeclared members that `extra: 'allow'` keeps. Returns false if one of them is not
 * valid.
 */
function extraOutput(
  plan: ObjectPlan,
  value: Readonly<Record<string, unknown>>,
  out: Record<string, unknown>,
  run: Run,
): boolean {
  let mark = run.count,
    isGood = true;
  for (const key of Object.keys(value)) {
    if (plan.reserved.has(key) || typeof value[key] === 'function' || value[key] === undefined) continue;
    const written = nameProblem(key, run) ?? anyOutput(value[key], run);
    if (written === FAIL) {
      mark = run.place(mark, key);
      isGood = false;
    } else if (!Object.hasOwn(out, key)) out[key] = written;
  }
  return isGood;
}
