/**
 * The table of kinds: one row for each kind of type, and the functions that compile a type for a source by
 * looking up its row. nodes.ts describes the entries of a row. The rows of scalar types are in kinds-scalar.ts,
 * those of classes and tagged unions in kinds-object.ts, the row of foreign schemas in kinds-standard.ts.
 *
 * A new scalar type needs its name in `ScalarKind` and a constant beside `str`, both in types.ts, and a row in
 * kinds-scalar.ts. The compiler reports a name without a row.
 *
 * The checks are closures, made without generating source text. A field is validated by only one closure,
 * because a call of a closure takes about 12 ns (test/bench/parts.mjs --only=validation).
 */
import { bool as boolOption, defined, given, setOwn } from '../base/options.ts';
import { FORGOTTEN_AWAIT, isThenable } from '../base/promises.ts';
import { toBase64 } from './formats.ts';
import { compileObject, OBJECTS, once } from './kinds-object.ts';
import { COUNTS, SCALARS, unsendable } from './kinds-scalar.ts';
import { STANDARD } from './kinds-standard.ts';
import { within } from './nodes.ts';
import { FAIL } from './types.ts';
import {
  countCheck,
  deferred,
  isInputObject,
  MAX_DEPTH,
  nameProblem,
  Plain,
  runCheck,
  tooDeep,
} from './validation-run.ts';
import type { Input } from './kinds-object.ts';
import type {
  Compiler,
  JsonSchema,
  Kind,
  KindName,
  NodeOf,
  ObjectPlan,
  OptionTable,
  Reader,
  Rows,
  Shape,
  Source,
  TypeNode,
} from './nodes.ts';
import type { StandardSchema } from './types.ts';
import type { Check, Result, Run } from './validation-run.ts';

const LISTS: OptionTable = {
  ...COUNTS,
  separator: given<','>('","', (value) => value === ','),
  unique: boolOption(),
};

const KINDS: Rows<KindName> = {
  ...SCALARS,
  ...OBJECTS,
  ...STANDARD,

  list: {
    options: LISTS,
    read: ({ item, options }, of) => ({
      kind: 'list',
      constraints: of.constraints,
      item: of.item(item, options),
    }),
    sample: () => [],
    inner: ({ item }) => [item],
    json: (node, of) => listCheck(of.check(node.item), node, of.plain(node.item)),
    text: () => unsendable,
    texts: (node, of) => {
      const check = listCheck(of.check(node.item), node);
      return node.constraints.separator === undefined
        ? (raw, run) => check(Array.isArray(raw) ? raw : [raw], run)
        : (raw, run) => check([raw].flat().flatMap(separated), run);
    },
    textIssue: ({ item }) =>
      within(item).node.kind === 'list' ? 'a list of lists cannot be sent as text' : undefined,
    jsonText: 'structures',
    document: ({ item, constraints: { minLength, maxLength, unique } }, of) =>
      defined({
        type: 'array',
        items: of.type(item),
        minItems: minLength,
        maxItems: maxLength,
        uniqueItems: unique === true ? true : undefined,
      }),
  },

  record: {
    options: COUNTS,
    read: ({ item, options }, of) => ({
      kind: 'record',
      constraints: of.constraints,
      item: of.item(item, options),
    }),
    sample: () => ({}),
    inner: ({ item }) => [item],
    json: (node, of) => recordCheck(of.check(node.item), node),
    text: () => unsendable,
    takesEmpty: () => false,
    textIssue: () => 'an object cannot be sent as text',
    jsonText: 'structures',
    output: (node, of) => noPromise(recordCheck(of.check(node.item), node)),
    document: ({ item, constraints: { minLength, maxLength } }, of) =>
      defined({
        type: 'object',
        additionalProperties: of.type(item),
        minProperties: minLength,
        maxProperties: maxLength,
      }),
  },

  tuple: {
    read: ({ members }, of) => {
      if (members.length < 1) throw of.fault('tuple() names no type');
      return { kind: 'tuple', constraints: of.constraints, members: members.map((each) => of.node(each)) };
    },
    sample: ({ members }, of) => members.map(of),
    inner: ({ members }) => members,
    json: ({ members }, of) => tupleCheck(members.map(of.check)),
    text: () => unsendable,
    takesEmpty: () => false,
    textIssue: () => 'a tuple cannot be sent as text',
    jsonText: 'structures',
    document: ({ members }, of) => ({
      type: 'array',
      prefixItems: members.map(of.type),
      items: {}, // linters expect `items` in the schema of an array
      minItems: members.length,
      maxItems: members.length,
    }),
  },

  nullable: {
    read: ({ inner }, of) => ({ kind: 'nullable', constraints: {}, inner: of.node(inner, of.constraints) }),
    sample: ({ inner }, of) => of(inner),
    inner: ({ inner }) => [inner],
    json: ({ inner }, of) => nullableCheck(of.check(inner)),
    text: ({ inner }, of) => of.check(inner),
    document: ({ inner }, of) => orNull(of.type(inner)),
  },

  choice: {
    read: ({ members }, of) => {
      if (members.length < 2) throw of.fault('union() names less than two types');
      return { kind: 'choice', constraints: of.constraints, members: members.map((each) => of.node(each)) };
    },
    sample: ({ members: [first] }, of) => of(first!),
    inner: ({ members }) => members,
    json: ({ members }, of) => choiceCheck(members.map(of.check)),
    textIssue: ({ members }) =>
      members.some((member) => ['list', 'file'].includes(within(member).node.kind))
        ? 'a list or file among other types cannot be sent as text'
        : undefined,
    part: (node, of) => of.json(node),
    output: ({ members }, of) => choiceOutput(members, of),
    document: (node, of) => (takesAnything(node) ? {} : anyOf(node.members.map(of.type))),
  },

  lazy: {
    read: (shape, of) => lazyNode(shape, of),
    sample: () => ({}),
    inner: ({ resolve }) => [resolve()],
    json: ({ resolve }, of) => deferred(() => of.check(resolve())),
    document: (node, of) => of.lazy(node),
  },
};

export function kindNamed(name: KindName): Kind<KindName> {
  return KINDS[name];
}

function compilerFor(source: Source): Compiler {
  const of: Compiler = {
    check: (node) => {
      const kind = kindNamed(node.kind);
      return kind[source]?.(node, of) ?? kind.json(node, of);
    },
    json: (node) => COMPILERS.json.check(node),
    plain: (node) => kindNamed(node.kind).plain?.(node) ?? Plain.nothing,
  };
  return of;
}

/** Compilers by source. Each compiles the types inside a type for its own source. */
export const COMPILERS: Readonly<Record<Source, Compiler>> = {
  json: compilerFor('json'),
  text: compilerFor('text'),
  part: compilerFor('part'),
  output: compilerFor('output'),
};

export function checkOf(node: TypeNode, source: Source): Check {
  return COMPILERS[source].check(node);
}

/** Returns the check of a JSON object. The check is compiled once for each object type. */
export function objectCheck(plan: ObjectPlan): Check {
  return compileObject(plan, COMPILERS.json);
}

/** Returns the types directly inside a type, except schema classes. */
export function innerOf(node: TypeNode): readonly TypeNode[] {
  return kindNamed(node.kind).inner?.(node) ?? [];
}

/** Returns the {@link ObjectPlan} of every schema class that occurs in a type, at any depth. */
export function plansWithin(
  node: TypeNode,
  found: Set<ObjectPlan> = new Set<ObjectPlan>(),
  seen: Set<TypeNode> = new Set<TypeNode>(),
): Set<ObjectPlan> {
  if (seen.has(node)) return found;
  seen.add(node);
  for (const plan of kindNamed(node.kind).plans?.(node) ?? []) plansOf(plan, found, seen);
  for (const inner of innerOf(node)) plansWithin(inner, found, seen);
  return found;
}

/** Returns the foreign schemas in a type, at any depth. */
export function foreignWithin(node: TypeNode): ReadonlySet<StandardSchema> {
  const seen = new Set<TypeNode>();
  plansWithin(node, new Set(), seen);
  return new Set([...seen].flatMap((each) => (each.kind === 'standard' ? [each.schema] : [])));
}

/** Adds `plan` to `found`, and the plans of all schema classes in its fields, at any depth. */
export function plansOf(
  plan: ObjectPlan,
  found: Set<ObjectPlan> = new Set<ObjectPlan>(),
  seen: Set<TypeNode> = new Set<TypeNode>(),
): Set<ObjectPlan> {
  if (found.has(plan)) return found;
  found.add(plan);
  for (const field of plan.fields) plansWithin(field.node, found, seen);
  return found;
}

/**
 * Converts a handler's result to JSON. Returns issues if the result does not match its schema; then the
 * response is a 500.
 */
export interface Serializer {
  /** Returns new plain objects and arrays, which JSON.stringify() can write. */
  toValue(value: unknown, at?: string): Result<unknown>;
  toJson(value: unknown, at?: string): Result<string>;
}

export function serializerOf(node: TypeNode): Serializer {
  const check = checkOf(node, 'output');
  return Object.freeze({
    toValue: (value: unknown, at?: string) => runCheck(check, value, at),
    toJson: (value: unknown, at?: string): Result<string> => {
      const result = runCheck(check, value, at);
      return result.ok ? { ok: true, value: JSON.stringify(result.value) } : result;
    },
  });
}

export function nullableCheck(inner: Check): Check {
  return (value, run) => (value === null ? null : inner(value, run));
}

/**
 * Returns the check of a list. The number of items is checked first, so that a list that is too long is never
 * read.
 */
function listCheck(item: Check, node: TypeNode, plain: Plain = Plain.nothing): Check {
  const count = countCheck(node.constraints, 'item');
  const isUnique = node.constraints.unique === true;
  return (value, run) => {
    if (!Array.isArray(value)) return run.fail('type', 'must be a list');
    if (count(value.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count,
      isGood = true;
    // a dry run needs the converted items only to compare them
    const isKept = !run.isDry || isUnique;
    // a spread is faster than new Array(n), and makes an array without holes
    const items: unknown[] = isKept ? [...value] : value;
    const { isPlainJson } = run;
    for (let i = 0; i < items.length; i++) {
      const raw = items[i];
      if (plain.kind !== 0 && plain.accepts(raw, isPlainJson)) continue;
      const out = item(raw, run);
      if (out === FAIL) {
        mark = run.place(mark, i);
        isGood = false;
        if (run.isFull) break;
      } else if (isKept) items[i] = out;
    }
    run.depth--;
    if (isGood && isUnique && !areUnique(value, items, run)) return FAIL;
    return isGood ? items : FAIL;
  };
}

/**
 * Returns the check of a record. It makes a new plain object, in which every name is an own member, and omits
 * undefined members.
 */
function recordCheck(item: Check, node: TypeNode): Check {
  const count = countCheck(node.constraints, 'member');
  return (value, run) => {
    if (!isInputObject(value, run)) return run.fail('type', 'must be an object');
    const keys = run.isPlainJson ? Object.keys(value) : definedKeys(value);
    if (count(keys.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count,
      isGood = true;
    const members: Record<string, unknown> = {};
    for (const key of keys) {
      const out = nameProblem(key, run) ?? item(value[key], run);
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
        if (run.isFull) break;
      } else setOwn(members, key, out);
    }
    run.depth--;
    return isGood ? members : FAIL;
  };
}

function definedKeys(value: Input): string[] {
  const keys = Object.keys(value);
  return keys.every((key) => value[key] !== undefined)
    ? keys
    : keys.filter((key) => value[key] !== undefined);
}

/** Splits a text at its commas. Empty text has no items, and a file is one item. */
function separated(raw: unknown): unknown[] {
  return typeof raw !== 'string' ? [raw] : raw === '' ? [] : raw.split(',');
}

/** Refuses promises before `check` runs. Without this, a promise would be written as an empty object. */
function noPromise(check: Check): Check {
  return (value, run) => (isThenable(value) ? run.fail('type', FORGOTTEN_AWAIT) : check(value, run));
}

/**
 * Returns the function for a union without a tag. It uses the first type that accepts the value. An instance
 * of one of the union's classes is always written as this class.
 */
function choiceOutput(members: readonly TypeNode[], of: Compiler): Check {
  const checks = members.map(of.check);
  const any = choiceCheck(checks);
  return (value, run) => {
    const own = members.findIndex((member) => member.kind === 'object' && value instanceof member.schema);
    return own === -1 ? any(value, run) : checks[own]!(value, run);
  };
}

/**
 * Whether a type accepts every JSON value. A union with such a type accepts everything, so the other types
 * need no schema.
 */
function takesAnything(given: TypeNode, seen: Set<TypeNode> = new Set<TypeNode>()): boolean {
  const { node } = within(given);
  if (node.kind !== 'choice' || seen.has(node)) return node.kind === 'any';
  seen.add(node);
  return node.members.some((member) => takesAnything(member, seen));
}

const LAZY_NODES = new WeakMap<object, NodeOf<'lazy'>>();

/**
 * Returns one node for each `lazy()` type. So a type that contains itself gives a cycle of nodes, not an
 * endless chain.
 */
function lazyNode(shape: Extract<Shape, { kind: 'lazy' }>, of: Reader): NodeOf<'lazy'> {
  const { constraints } = of;
  const isBare = Object.keys(constraints).length === 0;
  const known = isBare ? LAZY_NODES.get(shape) : undefined;
  if (known !== undefined) return known;
  const node: NodeOf<'lazy'> = {
    kind: 'lazy',
    constraints,
    resolve: once(() => of.node(shape.get(), constraints)),
  };
  if (isBare) LAZY_NODES.set(shape, node);
  return node;
}

/** Maximum number of union alternatives that one validation tries. Nested unions multiply them. */
const MAX_TRIALS = 200_000;

/**
 * Returns the check of a union without a tag. The first type that accepts the value is used. If the value has
 * the right kind for exactly one type, the issues of this type are reported; otherwise one general issue is
 * reported.
 */
function choiceCheck(members: readonly Check[]): Check {
  return (value, run) => {
    const mark = run.count;
    const wasFull = run.isFull;
    let near: Check | undefined;
    let isNearOnly = true;
    for (const check of members) {
      if (run.trials++ >= MAX_TRIALS)
        return run.fail(
          'union',
          'cannot be checked, because the union types have too many nested alternatives',
        );
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
      : run.fail('union', 'matches none of the allowed types');
  };
}

function tupleCheck(members: readonly Check[]): Check {
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
 * Returns whether all items differ as JSON. Reports an issue for the later one of two equal items. `items`
 * are the converted values, for example numbers instead of text.
 */
function areUnique(values: readonly unknown[], items: readonly unknown[], run: Run): boolean {
  const seen = new Set<string>();
  let mark = run.count;
  const before = mark;
  for (let i = 0; i < values.length && !run.isFull; i++) {
    const key = canonical(typeof items[i] === 'object' ? values[i] : items[i]);
    if (!seen.has(key)) seen.add(key);
    else {
      run.fail('unique', 'must not equal an earlier item');
      mark = run.place(mark, i);
    }
  }
  return run.count === before && !run.isFull;
}

/** Returns the JSON text of a value, with its members sorted by name. */
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

/**
 * Returns a schema that accepts every value that at least one of `schemas` accepts. Duplicates are removed.
 */
function anyOf(schemas: readonly JsonSchema[]): JsonSchema {
  const distinct = new Map(
    schemas.map((schema) => {
      const text = JSON.stringify(schema);
      // schemas with references are not compared, because the text of their references is still empty
      return [text.includes('"$ref":""') ? schema : text, schema] as const;
    }),
  );
  const [only, ...others] = distinct.values();
  return others.length === 0 ? only! : { anyOf: [only, ...others] };
}

const BEYOND_TYPE = ['const', 'enum', 'oneOf', 'anyOf', 'allOf'];

/**
 * Returns a schema that also accepts null. If the schema has only a type, null is added to the type. Other
 * keywords need `anyOf`, because null would not satisfy them.
 */
function orNull(schema: JsonSchema): JsonSchema {
  if (Object.keys(schema).length === 0) return schema; // a schema without keywords also accepts null
  if (typeof schema['type'] !== 'string' || BEYOND_TYPE.some((keyword) => keyword in schema))
    return { anyOf: [schema, { type: 'null' }] };
  schema['type'] = [schema['type'], 'null'];
  return schema;
}
