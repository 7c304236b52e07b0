/**
 * How `Field()` knows what it is called for, without decorators: who is being constructed right now.
 *
 *   probe      a class is constructed once to learn its fields; its `this` is a Proxy that sees which member each call is assigned to
 *   frame      an instance is constructed from validated values: the n-th call returns the n-th value
 *   neither    a plain shape, `query: { page: Field(1) }`: the call returns a marker, read by fieldsOf()
 *
 * Frames nest, since initialisers may construct other schemas. A frame that parse() opens is closed by its `finally`. One
 * that `new User(data)` opens cannot be: nothing runs after the last initialiser. It closes with the last call, and if an
 * initialiser throws before, it is found stale by the next call, or swept by the microtask that follows.
 */
import { SvcError } from '../base/errors.ts';
import { FieldMarker } from './nodes.ts';
import { FieldType } from './types.ts';
import type { FieldSource, SchemaClass } from './types.ts';
import type { Declaration } from './nodes.ts';

/** One call of `Field()` as the probe saw it. */
export interface Call extends Declaration {
  readonly name: string;
  /** The member existed before: a base class or a constructor made it. */
  readonly isRedefined: boolean;
}

/** What a probe learnt. */
export interface Learnt {
  readonly calls: readonly Call[];
  /** Own members of an instance, computed ones included. */
  readonly ownNames: ReadonlySet<string>;
  /** Code other than `Field()` runs before the last call, so that a construction may break off. */
  readonly canBreak: boolean;
  /** Makes instances without running initialisers, where they would do nothing but call `Field()`; else undefined. */
  readonly direct: Builder | undefined;
}

/** What a construction needs to know of its class. */
export interface Constructed {
  readonly name: string;
  readonly schema: SchemaClass;
  readonly learnt: Learnt;
}

let current: Frame | undefined;
let probing: Probe | undefined;
/** The last class that `new` completed in this turn: a further call from its initialisers is one too many. */
let lastDirect: string | undefined;
let isSweepDue = false;

/** A construction in progress. */
class Frame {
  readonly of: Constructed;
  readonly calls: readonly Call[];
  readonly values: readonly unknown[];
  readonly data: unknown;
  readonly extras: object | undefined;
  readonly outer: Frame | undefined;
  /** Set when the frame was opened by `new`, not by parse(). */
  readonly instance: object | undefined;
  isTaken = false;
  cursor = 0;

  constructor(
    of: Constructed,
    values: readonly unknown[],
    data: unknown,
    extras: object | undefined,
    instance: object | undefined,
  ) {
    this.of = of;
    this.calls = of.learnt.calls;
    this.values = values;
    this.data = data;
    this.extras = extras;
    this.outer = current;
    this.instance = instance;
  }

  /** The value of the next call. */
  next(source: FieldSource): unknown {
    const i = this.cursor++;
    const call = this.calls[i];
    if (call === undefined || !isSameSource(source, call.source)) return this.#refuse(call);
    if (this.instance !== undefined) {
      if (Object.hasOwn(this.instance, call.name) !== call.isRedefined) return this.#refuse(call);
      if (this.cursor === this.values.length) close(this);
    }
    return this.values[i];
  }

  #refuse(call: Call | undefined): never {
    if (this.instance !== undefined) current = this.outer;
    const problem =
      call === undefined
        ? `its initialisers called Field() more than ${this.values.length} times`
        : `call ${this.cursor} of Field() is not the one that declared "${call.name}"`;
    throw new SvcError('E_SCHEMA_FIELD_CALLS', [this.of.name, problem]);
  }
}

/** Fresh tokens such as `list(str)` are new objects every time: their kind is compared. */
function isSameSource(source: FieldSource, expected: FieldSource): boolean {
  if (source === expected) return true;
  if (typeof source === 'object')
    return typeof expected === 'object' && source.shape.kind === expected.shape.kind;
  return typeof source === typeof expected && typeof source !== 'function';
}

function close(frame: Frame): void {
  current = frame.outer;
  lastDirect = frame.of.name;
}

function sweepLater(): void {
  if (isSweepDue) return;
  isSweepDue = true;
  queueMicrotask(() => {
    isSweepDue = false;
    current = undefined;
    lastDirect = undefined;
  });
}

/** One call of `Field()`: its value, or a marker. */
export function called(source: FieldSource, options: object | undefined): unknown {
  while (current !== undefined) {
    if (current.instance === undefined || !current.of.learnt.canBreak || isInitialising(current.of.name))
      return current.next(source);
    current = current.outer; // its construction broke off
  }
  if (probing !== undefined) return probing.call(source, options);
  if (lastDirect !== undefined && isInitialising(lastDirect)) {
    throw new SvcError('E_SCHEMA_FIELD_CALLS', [
      lastDirect,
      'its initialisers called Field() more often than when they were learnt',
    ]);
  }
  return new FieldMarker(source, options);
}

/** Whether the call stack is within the member initialisers, or the constructor, of that class. A matter of some µs: rare paths only. */
function isInitialising(name: string): boolean {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 16;
  const { stack } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return typeof stack !== 'string' || stack.includes(`at new ${name} `); // V8 names both <instance_members_initializer> and this
}

/** Constructs an instance from validated values; `data` is what they were validated from, and what its constructor gets. */
export function construct(
  of: Constructed,
  values: readonly unknown[],
  data: unknown,
  extras: object | undefined,
): object {
  const { direct } = of.learnt;
  if (direct !== undefined && extras === undefined) return new direct(values);
  const frame = new Frame(of, values, data, extras, undefined);
  current = frame;
  try {
    const instance = new of.schema(data as never); // any class of schemas takes what it was given
    if (frame.isTaken && frame.cursor !== values.length) {
      throw new SvcError('E_SCHEMA_FIELD_CALLS', [
        of.name,
        `its initialisers called Field() ${frame.cursor} times instead of ${values.length}`,
      ]);
    }
    return instance;
  } finally {
    current = frame.outer;
  }
}

/** What the constructor of `Schema` does first: `taken` when the values wait in a frame, a Proxy when probed, else undefined. */
export function enter(instance: object, schema: SchemaClass, data: unknown): 'taken' | object | undefined {
  if (
    current !== undefined &&
    !current.isTaken &&
    current.instance === undefined &&
    current.data === data &&
    current.of.schema === schema
  ) {
    current.isTaken = true;
    if (current.extras !== undefined) Object.assign(instance, current.extras);
    return 'taken';
  }
  return probing !== undefined && current === undefined ? probing.enter(instance, schema) : undefined;
}

/** Opens the frame of an instance that `new` makes. */
export function enterDirectly(
  of: Constructed,
  instance: object,
  values: readonly unknown[],
  extras: object | undefined,
): void {
  if (extras !== undefined) Object.assign(instance, extras);
  sweepLater();
  const frame = new Frame(of, values, undefined, undefined, instance);
  if (values.length === 0) lastDirect = of.name;
  else current = frame;
}

/** Runs code of others, such as default functions, so that its calls of `Field()` are nobody's. */
export function apart<T>(run: () => T): T {
  const before = [current, probing] as const;
  current = probing = undefined;
  try {
    return run();
  } finally {
    [current, probing] = before;
  }
}

/**
 * Learns the fields of a class by constructing it. Computed initialisers see stand-ins: first ones that take part in
 * anything, then, if that fails, samples of the right kind.
 *
 * @throws SvcError `E_SCHEMA_PROBE` when both fail, or when a call cannot be connected with a member
 */
export function learn(schema: SchemaClass, sample: (declaration: Declaration) => unknown): Learnt {
  return apart(() => {
    let firstError: unknown;
    for (const standIn of [() => ABSORBING, sample]) {
      const probe = new Probe(schema, standIn);
      probing = probe;
      try {
        new schema(ABSORBING as never); // whatever a constructor expects
        return probe.result();
      } catch (error) {
        if (error instanceof SvcError) throw error;
        firstError ??= error;
      } finally {
        probing = undefined;
      }
    }
    const message = firstError instanceof Error ? firstError.message : String(firstError);
    const problem = `an initialiser or constructor threw when it met a value that stands for its input (${message})`;
    throw new SvcError('E_SCHEMA_PROBE', [schema.name, problem], { cause: firstError });
  });
}

/** Takes part in anything: calls, members, loops (none), text (empty), arithmetic (0). */
const ABSORBING: object = new Proxy(() => undefined, {
  get: (_, key) => {
    if (key === Symbol.toPrimitive) return (hint: string) => (hint === 'number' ? 0 : '');
    if (key === Symbol.iterator) return () => [][Symbol.iterator]();
    return key === 'then' ? undefined : ABSORBING;
  },
  apply: () => ABSORBING,
  set: () => true,
});

class Probe {
  readonly #schema: SchemaClass;
  readonly #standIn: (declaration: Declaration) => unknown;
  readonly #calls: { readonly marker: FieldMarker; name: string | undefined; isRedefined: boolean }[] = [];
  readonly #ownNames = new Set<string>();
  #othersBefore = 0;
  #lastOther = -1;
  #isEntered = false;

  constructor(schema: SchemaClass, standIn: (declaration: Declaration) => unknown) {
    this.#schema = schema;
    this.#standIn = standIn;
  }

  enter(instance: object, schema: SchemaClass): object | undefined {
    if (this.#isEntered || schema !== this.#schema) return undefined;
    this.#isEntered = true;
    return new Proxy(instance, {
      defineProperty: (target, key, descriptor) =>
        Reflect.defineProperty(target, key, this.#defined(target, key, descriptor)),
    });
  }

  call(source: FieldSource, options: object | undefined): FieldMarker {
    const marker = new FieldMarker(source, options);
    this.#calls.push({ marker, name: undefined, isRedefined: false });
    return marker;
  }

  /** A member is being defined: when its value is a marker, the call has found its name. */
  #defined(target: object, key: string | symbol, descriptor: PropertyDescriptor): PropertyDescriptor {
    if (typeof key === 'string') this.#ownNames.add(key);
    const call = this.#calls.find((candidate) => candidate.marker === descriptor.value);
    if (call === undefined) {
      if (descriptor.value instanceof FieldType)
        throw new SvcError('E_SCHEMA_FIELD', [
          `"${String(key)}" of ${this.#schema.name}`,
          'it is a type, and not made by Field()',
        ]);
      this.#lastOther = this.#calls.length;
      this.#othersBefore++;
      return descriptor;
    }
    if (typeof key === 'symbol')
      throw new SvcError('E_SCHEMA_PROBE', [this.#schema.name, 'a field has a symbol as its name']);
    if (call.name !== undefined) {
      throw new SvcError('E_SCHEMA_PROBE', [
        this.#schema.name,
        `one call of Field() is assigned to both "${call.name}" and "${key}"`,
      ]);
    }
    call.name = key;
    call.isRedefined = Object.hasOwn(target, key);
    return { ...descriptor, value: this.#standIn(call.marker) };
  }

  result(): Learnt {
    const calls = this.#calls.map(({ marker: { source, options }, name, isRedefined }, i): Call => {
      if (name === undefined)
        throw new SvcError('E_SCHEMA_PROBE', [
          this.#schema.name,
          `call ${i + 1} of Field() is not assigned to a public member`,
        ]);
      return { name, isRedefined, source, options };
    });
    // Initialisers of #private members are not seen by a Proxy: the source tells.
    const texts = sourcesOf(this.#schema);
    const canBreak =
      (this.#othersBefore > 0 && this.#lastOther < calls.length) || texts.some((text) => text.includes('#'));
    const isDirect =
      this.#othersBefore === 0 &&
      !canBreak &&
      calls.every(({ name, isRedefined }) => !isRedefined && !(name in this.#schema.prototype)) &&
      texts.reduce((sum, text) => sum + plainFieldsIn(text), 0) === calls.length;
    return {
      calls,
      ownNames: this.#ownNames,
      canBreak,
      direct: isDirect
        ? builderOf(
            calls.map(({ name }) => name),
            this.#schema.prototype as object,
          )
        : undefined,
    };
  }
}

/** The source of a schema class and of the classes above it, up to `Schema`. */
function sourcesOf(schema: SchemaClass): string[] {
  const texts: string[] = [];
  for (
    let at: unknown = schema;
    typeof at === 'function' && !Object.hasOwn(at, '~schema');
    at = Object.getPrototypeOf(at)
  )
    texts.push(Function.prototype.toString.call(at));
  return texts;
}

/**
 * How many members are written as `name = Field(...)` and nothing else, or NaN for a class with a constructor: an initialiser
 * that does more, such as `(count++, Field(int))`, does not count, so that the class is constructed as it stands.
 */
function plainFieldsIn(text: string): number {
  return /\bconstructor\s*\(/.test(text)
    ? Number.NaN
    : (text.match(/(?:^|[{;}\s])(?:[\w$]+|'[^']*'|"[^"]*")\s*=\s*(?:[\w$]+\.)?Field\(/g)?.length ?? 0);
}

/*
 * Objects of known members: built by a constructor of their own, so that V8 gives all of them one hidden class.
 */

/** Makes an object from the values of its members, in their order. */
type Builder = new (values: readonly unknown[]) => object;

/**
 * A constructor of objects with these members, in this order, by assignment: a fifth of what running initialisers costs
 * (test/bench/validate.ts). The first eight are written out: a place of its own for each member, rather than one place for
 * all, is five times as fast, because V8 learns by the place which member is set there. No name is one of the prototype's.
 */
export function builderOf(names: readonly string[], prototype: object): Builder {
  const count = names.length;
  const [name0, name1, name2, name3, name4, name5, name6, name7] = names as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ]; // as far as `count` goes
  function Instance(this: Record<string, unknown>, values: readonly unknown[]): void {
    if (count === 0) return;
    this[name0] = values[0];
    if (count === 1) return;
    this[name1] = values[1];
    if (count === 2) return;
    this[name2] = values[2];
    if (count === 3) return;
    this[name3] = values[3];
    if (count === 4) return;
    this[name4] = values[4];
    if (count === 5) return;
    this[name5] = values[5];
    if (count === 6) return;
    this[name6] = values[6];
    if (count === 7) return;
    this[name7] = values[7];
    for (let index = 8; index < count; index++) this[names[index]!] = values[index];
  }
  Instance.prototype = prototype;
  return Instance as unknown as Builder; // a function used as a constructor has no type of its own
}
