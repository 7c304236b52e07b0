/**
 * Whether JSON fits a schema, and nothing more: what `Schema.accepts()` asks. No instance is made, no issue is kept, and the first
 * problem ends it.
 *
 * Objects, lists and the plainest values are gone through by a few functions that call each other; where compile.ts calls
 * a closure for each part, which could be any of twenty. That is what most inputs are made of (test/bench/validate.ts). What
 * is left, such as dates and patterns, is asked of the checks that parse() has. That both decide alike, for bounds, depth and tags
 * as well, is held by test/schema/accepts.test.ts.
 */
import { jsonCheck, Plain, unknownMembers } from './compile.ts';
import { isPlainObject, isPlainPrototype, keyProblem, MAX_DEPTH, Run } from './validation-run.ts';
import { FAIL } from './types.ts';
import type { Input, UnknownMembers } from './compile.ts';
import type { FieldPlan, ObjectPlan, TypeNode } from './nodes.ts';

/** Whether a value on level `depth` fits. */
type Judge = (value: unknown, depth: number) => boolean;

/** What fits one type. Looked at some hundred million times: its properties are public, in one shape. */
class Fit {
  readonly plain: Plain;
  /** Set for an object. */
  readonly shape: Shape | null;
  /** Set for a list: what its items must be. */
  readonly item: Fit | null;
  /** How many items a list has. */
  readonly least: number;
  readonly most: number;
  /** Set for everything else: what it says of a value that is not plain. */
  readonly judge: Judge | null;

  constructor(node: TypeNode, making?: Making) {
    this.plain = new Plain(node);
    this.shape = node.kind === 'object' ? shapeOf(node.plan(), making) : null;
    this.item = node.kind === 'list' ? new Fit(node.item, making) : null;
    this.least = node.constraints.minLength ?? 0;
    this.most = node.constraints.maxLength ?? Infinity;
    this.judge = node.kind === 'object' || node.kind === 'list' ? null : judgeOf(node, making);
  }
}

/** One field of an object. */
class Slot {
  readonly key: string;
  readonly plain: Plain;
  readonly fit: Fit;
  readonly isRequired: boolean;
  /** A read-only one: whatever the input has for it is passed over. */
  readonly isIgnored: boolean;

  constructor(key: string, fit: Fit, isRequired: boolean, isIgnored: boolean) {
    this.key = key;
    this.plain = isIgnored ? Plain.nothing : fit.plain;
    this.fit = fit;
    this.isRequired = isRequired;
    this.isIgnored = isIgnored;
  }
}

/** The fields of an object, in order of declaration. */
export class Shape {
  readonly plan: ObjectPlan;
  readonly slots: Slot[] = [];
  readonly indexes: Map<string, number> = new Map();
  /** Whether one is called like a member of every object, such as `constructor`: only its own counts. */
  isGuarded = false;
  /** What becomes of members that no field takes; null where they are ignored. */
  readonly unknown: UnknownMembers | null;

  constructor(plan: ObjectPlan) {
    this.plan = plan;
    this.unknown = plan.extra === 'ignore' ? null : unknownMembers(plan);
  }

  add({ wireName, node, isRequired, isReadOnly }: FieldPlan, making: Making): void {
    this.isGuarded ||= wireName in Object.prototype;
    this.indexes.set(wireName, this.slots.length);
    this.slots.push(new Slot(wireName, new Fit(node, making), isRequired, isReadOnly));
  }
}

/** Shapes that are being made together: schemas may contain themselves. */
type Making = Map<ObjectPlan, Shape>;

const SHAPES = new WeakMap<ObjectPlan, Shape>();

/** The shape of an object, made once. Only whole ones are kept: initialisers of fields run meanwhile, and may fail, or ask for one themselves. */
export function shapeOf(plan: ObjectPlan, making?: Making): Shape {
  const known = SHAPES.get(plan) ?? making?.get(plan);
  if (known !== undefined) return known;
  const all: Making = making ?? new Map();
  const shape = new Shape(plan);
  all.set(plan, shape);
  for (const field of plan.fields) shape.add(field, all);
  if (making === undefined) for (const [made, its] of all) SHAPES.set(made, its);
  return shape;
}

/** Whether an object fits. On level 0 an instance of the class does not: its members do, perhaps. Below, it has been validated. */
export function fitsObject(shape: Shape, value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null || !isPlainPrototype(Object.getPrototypeOf(value))) {
    return depth > 0 && value instanceof shape.plan.schema!; // those within others have a class
  }
  return depth < MAX_DEPTH && hasFitting(shape, value as Input, depth + 1);
}

/**
 * Whether the members fit. They are read as `Members.read()` of compile.ts does, which says why. What is rare is elsewhere:
 * V8 puts what is called here into this function as long as it stays small, which makes a quarter of the time.
 */
function hasFitting(shape: Shape, object: Input, depth: number): boolean {
  const { slots } = shape;
  const count = slots.length;
  let at = 0;
  let isMore = false;
  for (const key in object) {
    if (at === count) {
      isMore = true;
      break;
    }
    if (key !== slots[at]!.key) {
      const index = reach(shape, object, key, at, depth);
      if (index === UNFIT) return false;
      if (index === at) {
        isMore = true;
        continue;
      }
      at = index;
    }
    const slot = slots[at++]!;
    const raw = object[key];
    if (!slot.plain.accepts(raw, false) && !fitsSlot(slot, raw, depth)) return false;
  }
  if (at < count && !haveFitting(shape, object, at, count, depth)) return false;
  return !isMore || shape.unknown === null || shape.unknown(object, runAt(depth)) !== FAIL;
}

const UNFIT = -1;

/** The place of the field `key` behind `at`, when those between fit; `at` when it is none, or has been read already. */
function reach(shape: Shape, object: Input, key: string, at: number, depth: number): number {
  const index = shape.indexes.get(key);
  if (index === undefined || index < at) return at;
  return haveFitting(shape, object, at, index, depth) ? index : UNFIT;
}

/** The same of the fields `from` ... `to - 1`, which the object has elsewhere or not at all. */
function haveFitting(
  { slots, isGuarded }: Shape,
  object: Input,
  from: number,
  to: number,
  depth: number,
): boolean {
  for (let at = from; at < to; at++) {
    const slot = slots[at]!;
    const raw = isGuarded && !Object.hasOwn(object, slot.key) ? undefined : object[slot.key];
    if (!fitsSlot(slot, raw, depth)) return false;
  }
  return true;
}

function fitsSlot(slot: Slot, raw: unknown, depth: number): boolean {
  if (raw === undefined) return !slot.isRequired;
  return slot.isIgnored || fits(slot.fit, raw, depth);
}

function fits(fit: Fit, value: unknown, depth: number): boolean {
  if (fit.shape !== null) return fitsObject(fit.shape, value, depth);
  if (fit.item !== null) return fitsList(fit, fit.item, value, depth);
  return fit.plain.accepts(value, false) || fit.judge!(value, depth); // there for all but these
}

function fitsList({ least, most }: Fit, item: Fit, value: unknown, depth: number): boolean {
  if (!Array.isArray(value) || value.length < least || value.length > most || depth >= MAX_DEPTH)
    return false;
  for (let i = 0; i < value.length; i++) if (!fits(item, value[i], depth + 1)) return false;
  return true;
}

/** What decides on values that are not plain. */
function judgeOf(node: TypeNode, making: Making | undefined): Judge {
  switch (node.kind) {
    case 'nullable':
      return orNull(new Fit(node.inner, making));
    case 'lazy':
      return deferred(() => new Fit(node.resolve()));
    case 'record':
      return recordJudge(new Fit(node.item, making), node);
    case 'union':
      return unionJudge(node);
    default: {
      const check = jsonCheck(node);
      return (value, depth) => check(value, runAt(depth)) !== FAIL;
    }
  }
}

function orNull(inner: Fit): Judge {
  return (value, depth) => value === null || fits(inner, value, depth);
}

function deferred(make: () => Fit): Judge {
  let fit: Fit | undefined;
  return (value, depth) => fits((fit ??= make()), value, depth);
}

function recordJudge(item: Fit, { constraints: { minLength = 0, maxLength = Infinity } }: TypeNode): Judge {
  return (value, depth) => {
    if (!isPlainObject(value)) return false;
    const keys = Object.keys(value);
    if (keys.length < minLength || keys.length > maxLength || depth >= MAX_DEPTH) return false;
    const run = runAt(depth);
    return keys.every((key) => keyProblem(key, run) === undefined && fits(item, value[key], depth + 1));
  };
}

function unionJudge(node: Extract<TypeNode, { kind: 'union' }>): Judge {
  let byTag: Map<unknown, Shape> | undefined; // its classes may be declared further down
  return (value, depth) => {
    const variants = node.variants();
    if (!isPlainObject(value)) return variants.some(({ plan }) => value instanceof plan.schema!);
    byTag ??= new Map(
      variants.flatMap(({ plan, values }) => values.map((tag) => [tag, shapeOf(plan)] as const)),
    );
    const { tagWire } = variants[0]!;
    const shape = byTag.get(Object.hasOwn(value, tagWire) ? value[tagWire] : undefined);
    return shape !== undefined && fitsObject(shape, value, depth);
  };
}

/** A run for one check, whose issues nobody reads. */
function runAt(depth: number): Run {
  const run = new Run(false, false);
  run.depth = depth;
  return run;
}
