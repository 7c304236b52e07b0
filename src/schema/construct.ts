/**
 * Finds out which member of a class each call of `Field()` initializes. It needs no decorators, because it
 * watches the object under construction.
 *
 * A call of `Field()` runs in one of three situations:
 *   - A class is constructed once to learn its fields. A Proxy sees to which member each call is assigned.
 *   - An instance is constructed from validated values. The n-th call returns the n-th value.
 *   - The call stands in a plain object of fields, such as `query: { page: Field(1) }`. It returns a marker,
 *     which fieldsOf() reads.
 *
 * A frame is the state of the construction of one instance. Frames nest, because an initializer may construct
 * other instances. The last call of `Field()` of `new User(data)` closes the frame, because no code of
 * `Schema` runs after the initializers. If an initializer throws, the next call of any `Field()` or a
 * microtask closes the frame.
 */
import { SvcError } from '../base/errors.ts';
import { setOwn } from '../base/options.ts';
import { FieldMarker, fieldFault } from './declarations.ts';
import { FieldType } from './types.ts';
import type { FieldSource, SchemaClass } from './types.ts';
import type { Declaration } from './declarations.ts';

/** A call of `Field()`, recorded while its class was constructed to learn the fields. */
interface Call extends Declaration {
  readonly name: string;
  /** True when the member already existed: a base class or a constructor had set it. */
  readonly isRedefined: boolean;
  /** Name of the public member that was defined last before this call of Field(), if any. */
  readonly after: string | undefined;
}

/** Result of constructing a class once to learn its fields. */
export interface Learnt {
  readonly calls: readonly Call[];
  /** Names of all members that an instance has after construction, including those without `Field()`. */
  readonly ownNames: ReadonlySet<string>;
}

/** A schema class, and everything that the construction of an instance needs. */
export interface Constructed {
  readonly name: string;
  readonly schema: SchemaClass;
  readonly learnt: Learnt;
}

let current: Frame | undefined;
let probing: Probe | undefined;
let isSweepDue = false;

/** State of a construction that makes an instance from validated values. */
interface Frame {
  readonly of: Constructed;
  readonly values: readonly unknown[];
  readonly data: unknown;
  readonly extras: object | undefined;
  readonly outer: Frame | undefined;
  /** The instance if `new` started the construction; undefined if parse() did. */
  readonly instance: object | undefined;
  isTaken: boolean;
  /** Number of calls of `Field()` so far in this construction. */
  cursor: number;
}

function nextValue(frame: Frame, source: FieldSource): unknown {
  const { values, instance } = frame;
  const index = frame.cursor++;
  const call = frame.of.learnt.calls[index];
  if (call === undefined || (source !== call.source && !isSameKind(source, call.source)))
    return refuse(frame, call);
  if (instance !== undefined) {
    if (Object.hasOwn(instance, call.name) !== call.isRedefined) return refuse(frame, call);
    if (frame.cursor === values.length) current = frame.outer;
  }
  return values[index];
}

/**
 * Returns whether an initializer of the instance has thrown an exception. The instance then lacks a member
 * that precedes the next field.
 */
function isBroken({ of, cursor }: Frame, instance: object): boolean {
  const after = of.learnt.calls[cursor]?.after;
  return after !== undefined && !Object.hasOwn(instance, after);
}

function refuse({ of, values, cursor, instance, outer }: Frame, call: Call | undefined): never {
  if (instance !== undefined) current = outer;
  const problem =
    call === undefined
      ? `the number of calls of Field() exceeds ${values.length}, the number in the first construction of the class`
      : `call number ${cursor} of Field() declared the field "${call.name}" in the first construction of the class, but not in this construction`;
  throw new SvcError('E_SCHEMA_FIELD_CALLS', [of.name, problem]);
}

/**
 * Whether two arguments of `Field()` are of one kind. Types such as `list(str)` are new objects in each call,
 * so only their kinds can be compared.
 */
function isSameKind(source: FieldSource, expected: FieldSource): boolean {
  if (source instanceof FieldType)
    return expected instanceof FieldType && source.shape.kind === expected.shape.kind;
  return typeof source === typeof expected && typeof source !== 'function';
}

function sweepLater(): void {
  if (isSweepDue) return;
  isSweepDue = true;
  queueMicrotask(() => {
    isSweepDue = false;
    current = undefined;
  });
}

/**
 * Handles a call of `Field()`: returns a validated value during a construction, else a marker for the
 * declaration.
 */
export function called(source: FieldSource, options: object | undefined): unknown {
  while (current?.instance !== undefined && isBroken(current, current.instance)) current = current.outer;
  if (current !== undefined) return nextValue(current, source);
  return probing === undefined ? new FieldMarker(source, options) : probing.call(source, options);
}

/**
 * Constructs an instance from validated values. `data` is the original input, which the constructor receives.
 */
export function construct(
  of: Constructed,
  values: readonly unknown[],
  data: unknown,
  extras: object | undefined,
): object {
  const frame: Frame = {
    of,
    values,
    data,
    extras,
    outer: current,
    instance: undefined,
    isTaken: false,
    cursor: 0,
  };
  current = frame;
  try {
    const instance = new of.schema(data as never); // the constructor of a schema class accepts any data
    if (frame.isTaken && frame.cursor !== values.length) {
      throw new SvcError('E_SCHEMA_FIELD_CALLS', [
        of.name,
        `the number of calls of Field() is ${frame.cursor}, but was ${values.length} in the first construction of the class`,
      ]);
    }
    return instance;
  } finally {
    current = frame.outer;
  }
}

/**
 * Runs first in the constructor of `Schema`. Returns `taken` if validated values are ready for the instance.
 * Returns a Proxy of the instance while the fields of its class are being learnt; otherwise undefined.
 */
export function enter(instance: object, schema: SchemaClass, data: unknown): 'taken' | object | undefined {
  if (
    current !== undefined &&
    !current.isTaken &&
    current.instance === undefined &&
    current.data === data &&
    current.of.schema === schema
  ) {
    current.isTaken = true;
    if (current.extras !== undefined) keepExtras(instance, current.extras);
    return 'taken';
  }
  return probing !== undefined && current === undefined ? probing.enter(instance, schema) : undefined;
}

function keepExtras(instance: object, extras: object): void {
  for (const [name, value] of Object.entries(extras)) setOwn(instance, name, value);
}

/** Starts the construction of an instance by `new`: the next calls of `Field()` return `values`. */
export function enterDirectly(
  of: Constructed,
  instance: object,
  values: readonly unknown[],
  extras: object | undefined,
): void {
  if (extras !== undefined) keepExtras(instance, extras);
  sweepLater();
  if (values.length > 0)
    current = {
      of,
      values,
      data: undefined,
      extras: undefined,
      outer: current,
      instance,
      isTaken: false,
      cursor: 0,
    };
}

/**
 * Runs code of the application, such as default functions, so that its calls of `Field()` do not belong to
 * the construction in progress.
 */
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
 * Learns the fields of a class by constructing it. Initializers that use other fields get stand-ins for the
 * values of these fields. The first attempt uses a stand-in that supports every operation. If an initializer
 * throws, a second attempt uses samples of the right types.
 */
export function learn(schema: SchemaClass, sample: (declaration: Declaration) => unknown): Learnt {
  return apart(() => {
    let firstError: unknown;
    for (const standIn of [() => ABSORBING, sample]) {
      const probe = new Probe(schema, standIn);
      probing = probe;
      try {
        new schema(ABSORBING as never); // ABSORBING stands for the input, and supports every operation
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

/**
 * Stand-in for an unknown value. It can be called, has every member, iterates over nothing, and converts to
 * '' or 0.
 */
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
  readonly #calls: {
    readonly marker: FieldMarker;
    readonly after: string | undefined;
    name: string | undefined;
    isRedefined: boolean;
  }[] = [];
  readonly #ownNames = new Set<string>();
  #lastName: string | undefined;
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
    this.#calls.push({ marker, after: this.#lastName, name: undefined, isRedefined: false });
    return marker;
  }

  /**
   * Records a member that the constructor defines. A member whose value is the marker of a `Field()` call
   * becomes a field.
   */
  #defined(target: object, key: string | symbol, descriptor: PropertyDescriptor): PropertyDescriptor {
    if (typeof key === 'string') this.#ownNames.add((this.#lastName = key));
    const call = this.#calls.find((candidate) => candidate.marker === descriptor.value);
    if (call === undefined) {
      if (descriptor.value instanceof FieldType)
        throw fieldFault(
          String(key),
          this.#schema.name,
          'its value is a type, which must be passed to Field()',
        );
      return descriptor;
    }
    if (typeof key === 'symbol')
      throw new SvcError('E_SCHEMA_PROBE', [this.#schema.name, 'the name of a field must not be a symbol']);
    if (call.name !== undefined) {
      throw new SvcError('E_SCHEMA_PROBE', [
        this.#schema.name,
        `the fields "${call.name}" and "${key}" share one call of Field(), but each field needs a separate call`,
      ]);
    }
    call.name = key;
    call.isRedefined = Object.hasOwn(target, key);
    return { ...descriptor, value: this.#standIn(call.marker) };
  }

  result(): Learnt {
    const calls = this.#calls.map(({ marker: { source, options }, name, isRedefined, after }, i): Call => {
      if (name === undefined)
        throw new SvcError('E_SCHEMA_PROBE', [
          this.#schema.name,
          `each call of Field() must be assigned to a public member, but call number ${i + 1} is not; items of a list take options without Field(): list(str, { … })`,
        ]);
      return { name, isRedefined, after, source, options };
    });
    return { calls, ownNames: this.#ownNames };
  }
}
