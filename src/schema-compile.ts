/**
 * Nodes → closures that validate input, compiled once; no source text is ever generated.
 *
 *   json   strict: the kinds that JSON.parse makes; "3" is no int
 *   text   query, headers, cookies, path, forms: strings converted, repeated ones for lists
 *
 * Closures are megamorphic calls of some 12 ns a field (test/bench/validate.ts), so there is one per field and nothing
 * between: no options objects, no try/catch, no paths.
 */
import type { FileLike, Literal } from './schema-types.ts';
import type { FieldPlan, ObjectPlan, TypeNode } from './schema-nodes.ts';
import { anyCheck, boolCheck, bytesCheck, countCheck, datetimeCheck, FAIL, floatCheck, formatCheck, integerCheck, isPlainObject, isWellFormed, keyProblem, literalCheck,
  literalMessage, MAX_DEPTH, Run, stringCheck, tooDeep } from './schema-run.ts';
import type { Check, Result } from './schema-run.ts';

/** Values of a text source by name: a plain record, or anything with `getAll()` and `keys()`, and `files()` for forms. */
export type TextInput = Readonly<Record<string, string | FileLike | readonly (string | FileLike)[] | undefined>> | TextMap;
/** A text source whose names may be repeated. */
export interface TextMap {
  getAll(name: string): readonly string[];
  keys(): Iterable<string>;
  files?(name: string): readonly FileLike[];
}

/** Runs a check over one whole input. `at` is the first item of every path, such as `body`. */
export function runCheck<T>(check: Check, input: unknown, at: string | undefined, isForm = false, isWellFormed = false): Result<T> {
  const run = new Run(isForm, isWellFormed);
  const value = check(input, run);
  return value === FAIL ? { ok: false, issues: run.issues(at) } : { ok: true, value: value as T }; // the check's own type
}

const JSON_CHECKS = new WeakMap<ObjectPlan, Check>();
const TEXT_CHECKS = new WeakMap<ObjectPlan, Check>();
/** Plans whose check is being compiled: schemas may contain themselves. */
const COMPILING = new Set<ObjectPlan>();

/** The compiled check of an object in JSON. */
export function objectCheck(plan: ObjectPlan): Check {
  return compiled(JSON_CHECKS, plan, compileObject);
}

/** The compiled check of a text source. */
export function textCheck(plan: ObjectPlan): Check {
  return compiled(TEXT_CHECKS, plan, compileText);
}

function compiled(cache: WeakMap<ObjectPlan, Check>, plan: ObjectPlan, compile: (plan: ObjectPlan) => Check): Check {
  let check = cache.get(plan);
  if (check !== undefined) return check;
  COMPILING.add(plan);
  try {
    check = compile(plan);
  } finally {
    COMPILING.delete(plan);
  }
  cache.set(plan, check);
  return check;
}

/** The compiled check of any type in JSON. */
export function jsonCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'str': return stringCheck(node.constraints);
    case 'int': return integerCheck(node.constraints);
    case 'float': return floatCheck(node.constraints);
    case 'bool': return boolCheck();
    case 'any': return anyCheck;
    case 'date': case 'uuid': return formatCheck(node.kind);
    case 'datetime': return datetimeCheck();
    case 'bytes': return bytesCheck(node.constraints);
    case 'file': return (_, run) => run.fail('type', 'must be a file, sent as multipart/form-data');
    case 'literal': return literalCheck(node.values);
    case 'list': return listCheck(jsonCheck(node.item), node);
    case 'record': return recordCheck(jsonCheck(node.item), node);
    case 'nullable': return nullableCheck(jsonCheck(node.inner));
    case 'lazy': return deferred(() => jsonCheck(node.resolve()));
    case 'object': return nestedCheck(node.plan());
    case 'union': return unionCheck(node);
  }
}

/** A check that is compiled when first needed: types may contain themselves. */
export function deferred(compile: () => Check): Check {
  let check: Check | undefined;
  return (value, run) => (check ??= compile())(value, run);
}

/** `null`, or what `inner` takes. */
export function nullableCheck(inner: Check): Check {
  return (value, run) => (value === null ? null : inner(value, run));
}

/** A list; the number of items is checked first, so that a list too long is not walked. */
export function listCheck(item: Check, node: TypeNode): Check {
  const count = countCheck(node.constraints, 'item');
  return (value, run) => {
    if (!Array.isArray(value)) return run.fail('type', 'must be a list');
    if (count(value.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count, isGood = true;
    const items: unknown[] = [...value]; // copies faster than new Array(n) is made, and leaves no holes
    for (let i = 0; i < items.length; i++) {
      const out = item(items[i], run);
      if (out === FAIL) {
        mark = run.place(mark, i);
        isGood = false;
        if (run.isFull) break;
      } else items[i] = out;
    }
    run.depth--;
    return isGood ? items : FAIL;
  };
}

/** A record: a new plain object; `__proto__` is refused as a name. */
export function recordCheck(item: Check, node: TypeNode): Check {
  const count = countCheck(node.constraints, 'member');
  return (value, run) => {
    if (!isPlainObject(value)) return run.fail('type', 'must be an object');
    const keys = Object.keys(value);
    if (count(keys.length, run) === FAIL) return FAIL;
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    let mark = run.count, isGood = true;
    const members: Record<string, unknown> = {};
    for (const key of keys) {
      const out = keyProblem(key, run) ?? item(value[key], run);
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
        if (run.isFull) break;
      } else members[key] = out;
    }
    run.depth--;
    return isGood ? members : FAIL;
  };
}

/** A schema within another: its own check, which is looked up later only where it is being compiled already. */
function nestedCheck(plan: ObjectPlan): Check {
  return COMPILING.has(plan) ? deferred(() => objectCheck(plan)) : objectCheck(plan);
}

function unionCheck(node: Extract<TypeNode, { kind: 'union' }>): Check {
  return deferred(() => {
    const variants = node.variants();
    const byTag = new Map<unknown, Check>(variants.flatMap((variant) => variant.values.map((value) => [value, objectCheck(variant.plan)] as const)));
    const tagWire = variants[0]!.tagWire;
    const message = literalMessage([...byTag.keys()] as Literal[]);
    return (value, run) => {
      if (!isPlainObject(value)) return variants.some(({ plan }) => value instanceof plan.schema!) ? value : run.fail('type', 'must be an object');
      const tag = Object.hasOwn(value, tagWire) ? value[tagWire] : undefined;
      const check = byTag.get(tag);
      if (check !== undefined) return check(value, run);
      const mark = run.count;
      run.fail(tag === undefined ? 'required' : 'enum', tag === undefined ? 'is required' : message);
      run.place(mark, tagWire);
      return FAIL;
    };
  });
}

/** What stands in for a member that the input does not have. */
export function absence(field: FieldPlan): (run: Run) => unknown {
  const fallback = field.default;
  if (typeof fallback === 'function') return () => (fallback as () => unknown)();
  if (field.hasDefault) return () => fallback;
  return field.isRequired ? (run) => run.fail('required', 'is required') : () => undefined;
}

function compileObject(plan: ObjectPlan): Check {
  const { schema } = plan;
  const members = new Members(plan.fields);
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  return (value, run) => {
    // An instance has been validated: it is taken as it is.
    if (!isPlainObject(value)) return schema !== undefined && value instanceof schema ? value : run.fail('type', 'must be an object');
    if (run.depth >= MAX_DEPTH) return tooDeep(run);
    run.depth++;
    const before = run.count;
    const values = members.read(value, run);
    const isGood = run.count === before && !run.isFull;
    const extras = unknown?.(value, run);
    run.depth--;
    return isGood && extras !== FAIL ? plan.build(values, value, extras) : FAIL;
  };
}

/** The compiled fields of an object. */
class Members {
  readonly #members: readonly Member[];
  readonly #indexes: ReadonlyMap<string, number>;
  readonly #isGuarded: boolean;

  constructor(fields: readonly FieldPlan[]) {
    this.#members = fields.map((field) => new Member(field));
    this.#indexes = new Map(fields.map((field, i) => [field.wireName, i] as const));
    this.#isGuarded = fields.some((field) => field.wireName in Object.prototype); // a member called "constructor" is everywhere
  }

  /**
   * The values in order of declaration; problems are noted in `run`. Each member is read once, with `for … in` as long as
   * the input keeps that order: three times as fast as looking it up by name, which is megamorphic here
   * (test/bench/validate.ts). A field that the input passes over is looked up, so that any order is right.
   */
  read(input: Input, run: Run): unknown[] {
    const members = this.#members;
    const count = members.length;
    const values: unknown[] = new Array(count);
    let at = 0;
    for (const key in input) {
      if (at === count) break;
      if (key !== members[at]!.wire) {
        const index = this.#indexes.get(key);
        if (index === undefined || index < at) continue;
        while (at < index) values[at] = this.#lookedUp(at++, input, run);
      }
      const member = members[at]!;
      const raw = input[key];
      values[at++] = member.isPlainly(raw, run) ? raw : member.checked(raw, run);
    }
    while (at < count) values[at] = this.#lookedUp(at++, input, run);
    return values;
  }

  #lookedUp(i: number, input: Input, run: Run): unknown {
    const member = this.#members[i]!;
    return member.checked(this.#isGuarded && !Object.hasOwn(input, member.wire) ? undefined : input[member.wire], run);
  }
}

/** Kinds of value that {@link Member.isPlainly} knows. */
const PLAIN = { none: 0, text: 1, integer: 2, number: 3, flag: 4 } as const;

/** One compiled field. Members are read some hundred million times: their properties are public, in one shape. */
class Member {
  readonly wire: string;
  readonly plain: number;
  readonly low: number;
  readonly high: number;
  readonly check: Check;
  readonly absent: (run: Run) => unknown;

  constructor(field: FieldPlan) {
    const { kind, constraints } = field.node;
    this.wire = field.wireName;
    this.plain = plainKind(field);
    // n UTF-16 units are at least n / 2 code points, and at most n
    this.low = kind === 'str' ? 2 * (constraints.minLength ?? 0) - 1 : (constraints.ge ?? -Number.MAX_VALUE);
    this.high = (kind === 'str' ? constraints.maxLength : constraints.le) ?? Number.MAX_VALUE;
    this.absent = absence(field);
    // A read-only member of the input is passed over, as OpenAPI lets a server do.
    this.check = field.isReadOnly ? (_, run) => this.absent(run) : jsonCheck(field.node);
  }

  /**
   * Whether it is one of the plainest values, without calling the check: a call of some 10 ns through a closure that could
   * be any of twenty (test/bench/validate.ts). Decides nothing: what this does not accept, the check accepts or refuses.
   */
  isPlainly(value: unknown, run: Run): boolean {
    switch (this.plain) {
      case PLAIN.text: return typeof value === 'string' && value.length >= this.low && value.length <= this.high && (run.isWellFormed || isWellFormed(value));
      case PLAIN.integer: return typeof value === 'number' && value >= this.low && value <= this.high && Number.isSafeInteger(value);
      case PLAIN.number: return typeof value === 'number' && value >= this.low && value <= this.high; // neither NaN nor Infinity
      case PLAIN.flag: return value === true || value === false;
      default: return false;
    }
  }

  checked(raw: unknown, run: Run): unknown {
    const mark = run.count;
    const out = raw === undefined ? this.absent(run) : this.check(raw, run);
    if (out === FAIL) run.place(mark, this.wire);
    return out;
  }
}

function plainKind({ node: { kind, constraints }, isReadOnly }: FieldPlan): number {
  const { pattern, format, gt, lt, multipleOf } = constraints;
  if (isReadOnly || pattern !== undefined || format !== undefined || gt !== undefined || lt !== undefined || multipleOf !== undefined) return PLAIN.none;
  return kind === 'str' ? PLAIN.text : kind === 'int' ? PLAIN.integer : kind === 'float' ? PLAIN.number : kind === 'bool' ? PLAIN.flag : PLAIN.none;
}

type Input = Readonly<Record<string, unknown>>;
type UnknownMembers = (input: Input, run: Run) => Input | typeof FAIL | undefined;

/** Members that no field takes: refused, or kept when they are JSON and hide nothing of the class. */
function unknownMembers(plan: ObjectPlan): UnknownMembers {
  const known = new Set(plan.fields.map((field) => field.wireName));
  return (input, run) => {
    let extras: Record<string, unknown> | undefined;
    let mark = run.count, isGood = true;
    for (const key of Object.keys(input)) {
      if (known.has(key)) continue;
      if (run.isFull) return FAIL;
      const out = plan.extra === 'forbid' ? run.fail('extra', 'is not a known member')
        : plan.isReserved(key) ? run.fail('key', 'is not an allowed name')
        : (keyProblem(key, run) ?? anyCheck(input[key], run));
      if (out === FAIL) {
        mark = run.place(mark, key);
        isGood = false;
      } else (extras ??= {})[key] = out;
    }
    return isGood ? extras : FAIL;
  };
}

// ── text ──

const INTEGER = /^-?(?:0|[1-9]\d{0,15})$/;
const DECIMAL = /^-?(?:0|[1-9]\d{0,308})(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?$/;

function compileText(plan: ObjectPlan): Check {
  const { fields } = plan;
  const checks = fields.map((field) => textFieldCheck(field.node));
  const absent = fields.map(absence);
  const unknown = plan.extra === 'ignore' ? undefined : unknownMembers(plan);
  return (input, run) => {
    const source = input as TextInput; // runCheck's caller says so
    const isMap = isTextMap(source);
    let mark = run.count, isGood = true;
    const values: unknown[] = [];
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i]!;
      const raw = field.isReadOnly ? undefined : isMap ? fromMap(source, field.wireName) : Object.hasOwn(source, field.wireName) ? source[field.wireName] : undefined;
      const out = raw === undefined || (!field.isRequired && isBlank(raw, field.node)) ? absent[i]!(run) : checks[i]!(raw, run);
      if (out === FAIL) {
        mark = run.place(mark, field.wireName);
        isGood = false;
      }
      values.push(out);
    }
    const extras = unknown?.(isMap ? recordOf(source) : source, run);
    return isGood && extras !== FAIL ? plan.build(values, input, extras) : FAIL;
  };
}

function isTextMap(source: TextInput): source is TextMap {
  return typeof (source as Partial<TextMap>).getAll === 'function';
}

function fromMap(source: TextMap, name: string): string | FileLike | readonly (string | FileLike)[] | undefined {
  const texts = source.getAll(name), files = source.files?.(name);
  const all = files === undefined || files.length === 0 ? texts : [...texts, ...files];
  return all.length > 1 ? all : all[0];
}

function recordOf(source: TextMap): Input {
  const found: [string, unknown][] = [];
  for (const name of new Set(source.keys())) {
    const raw = fromMap(source, name);
    found.push([name, typeof raw === 'object' && !Array.isArray(raw) ? undefined : raw]);
  }
  return Object.fromEntries(found); // defines own members, whatever their names
}

/** An empty text says nothing about a member that is not a string. */
function isBlank(raw: unknown, node: TypeNode): boolean {
  return raw === '' && !takesEmpty(node);
}

function takesEmpty(node: TypeNode): boolean {
  switch (node.kind) {
    case 'str': case 'any': return true;
    case 'literal': return node.values.includes('');
    case 'list': return takesEmpty(node.item);
    case 'nullable': return takesEmpty(node.inner);
    case 'lazy': return takesEmpty(node.resolve());
    default: return false;
  }
}

/** A field's check of one text, or of all its texts where it is a list. */
function textFieldCheck(node: TypeNode): Check {
  if (node.kind === 'lazy') return deferred(() => textFieldCheck(node.resolve()));
  if (node.kind === 'any') return (raw, run) => anyCheck(raw, run);
  if (node.kind === 'list') {
    const check = listCheck(textItemCheck(node.item), node);
    return (raw, run) => check(Array.isArray(raw) ? raw : [raw], run);
  }
  const isEmptyNull = node.kind === 'nullable' && !takesEmpty(node);
  const check = node.kind === 'nullable' && node.inner.kind === 'list' ? textFieldCheck(node.inner) : onceOnly(textItemCheck(node));
  return isEmptyNull ? (raw, run) => (raw === '' ? null : check(raw, run)) : check;
}

function onceOnly(check: Check): Check {
  return (raw, run) => {
    if (!Array.isArray(raw)) return check(raw, run);
    return raw.length === 1 ? check(raw[0], run) : run.fail('repeated', 'must be given once');
  };
}

/** A check of one text: read as what the node is, then checked like that. */
function textItemCheck(node: TypeNode): Check {
  switch (node.kind) {
    case 'int': return converted(node, (text) => (INTEGER.test(text) ? Number(text) : undefined), 'must be an integer');
    case 'float': return converted(node, (text) => (DECIMAL.test(text) ? Number(text) : undefined), 'must be a finite number');
    case 'bool': return (raw, run) => boolOf(raw, run.isForm) ?? run.fail('type', 'must be true or false');
    case 'literal': return textLiteralCheck(node.values);
    case 'nullable': return textItemCheck(node.inner);
    case 'lazy': return deferred(() => textItemCheck(node.resolve()));
    case 'file': return fileCheck(node);
    case 'list': case 'record': case 'object': case 'union': return (_, run) => run.fail('type', 'cannot be sent as text');
    default: return jsonCheck(node);
  }
}

function converted(node: TypeNode, read: (text: string) => number | undefined, message: string): Check {
  const check = jsonCheck(node);
  return (raw, run) => {
    const value = typeof raw === 'string' ? read(raw) : undefined;
    return value === undefined ? run.fail('type', message) : check(value, run);
  };
}

function boolOf(raw: unknown, isForm: boolean): boolean | undefined {
  if (raw === 'true' || raw === '1' || (isForm && raw === 'on')) return true;
  return raw === 'false' || raw === '0' ? false : undefined;
}

function textLiteralCheck(values: readonly Literal[]): Check {
  const byText = new Map<unknown, Literal>();
  for (const value of values) if (!byText.has(String(value))) byText.set(String(value), value);
  const message = literalMessage(values);
  return (raw, run) => {
    const value = byText.get(raw);
    return value === undefined ? run.fail('enum', message) : value;
  };
}

function fileCheck(node: TypeNode): Check {
  const count = countCheck(node.constraints, 'byte');
  return (raw, run) => {
    if (!run.isForm || typeof raw !== 'object' || raw === null) return run.fail('type', 'must be a file, sent as multipart/form-data');
    return count((raw as FileLike).size, run) ?? raw; // objects in a form source are files
  };
}

/** Why a text source cannot hold a type, in words, or undefined: for whoever compiles routes. */
export function textProblem(node: TypeNode, isForm: boolean): string | undefined {
  switch (node.kind) {
    case 'object': case 'record': case 'union': return 'an object cannot be sent as text';
    case 'file': return isForm ? undefined : 'a file can only be sent in a form';
    case 'list': return itemKind(node.item) === 'list' ? 'a list of lists cannot be sent as text' : textProblem(node.item, isForm);
    case 'nullable': return textProblem(node.inner, isForm);
    case 'lazy': return textProblem(node.resolve(), isForm);
    default: return undefined;
  }
}

function itemKind(node: TypeNode): TypeNode['kind'] {
  return node.kind === 'nullable' ? itemKind(node.inner) : node.kind === 'lazy' ? itemKind(node.resolve()) : node.kind;
}
