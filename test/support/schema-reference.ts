/**
 * Reference implementation of validation: walks a description, compiles nothing, and shares no code with src.
 * The compiled validators must agree with it: same verdict, same paths and codes in the same order, same
 * value.
 *
 * Also generates descriptions, values near them, and the schemas that they describe, from a seed.
 */
import {
  any,
  bool,
  bytes,
  date,
  datetime,
  Field,
  float,
  int,
  list,
  literal,
  nullable,
  record,
  Schema,
  str,
  tuple,
  union,
  uuid,
} from '../../src/schema/schema.ts';
import type { FieldType, FormatName, Literal, SchemaClass, TypeSource } from '../../src/schema/schema.ts';

/** A type as data. */
export type Described =
  | { kind: 'str'; minLength?: number; maxLength?: number; pattern?: string; format?: FormatName }
  | { kind: 'int' | 'float'; ge?: number; le?: number; gt?: number; lt?: number; multipleOf?: number }
  | { kind: 'bool' | 'any' | 'date' | 'uuid' | 'datetime' }
  | { kind: 'bytes'; minLength?: number; maxLength?: number }
  | { kind: 'literal'; values: [Literal, ...Literal[]] }
  | { kind: 'list' | 'record'; item: Described; minLength?: number; maxLength?: number; unique?: boolean }
  | { kind: 'tuple' | 'choice'; members: Described[] }
  | { kind: 'nullable'; inner: Described }
  | { kind: 'object'; fields: DescribedField[]; extra: 'ignore' | 'forbid' | 'allow' }
  | {
      kind: 'union';
      tag: string;
      variants: { value: string; object: Extract<Described, { kind: 'object' }> }[];
    };
export interface DescribedField {
  name: string;
  wire: string;
  type: Described;
  presence: 'required' | 'optional' | 'default' | 'readOnly';
  fallback?: unknown;
}
export interface Found {
  path: (string | number)[];
  code: string;
}

const FAILED = Symbol('failed');
const FORMATS: Record<string, (text: string) => boolean> = {
  email: (text) =>
    text.length <= 254 &&
    /^[\w!#$%&'*+/=?^`{|}~.-]+@[A-Za-z0-9.-]+$/.test(text) &&
    text
      .split('@')[0]!
      .split('.')
      .every((atom) => atom !== '') &&
    text.split('@')[1]!.split('.').length > 1 &&
    text
      .split('@')[1]!
      .split('.')
      .every((label) => /^[A-Za-z0-9]/.test(label) && /[A-Za-z0-9]$/.test(label)),
  uuid: (text) =>
    /^[0-9a-f]+$/i.test(text.replaceAll('-', '')) &&
    text
      .split('-')
      .map((part) => part.length)
      .join() === '8,4,4,4,12',
  date: (text) =>
    /^\d{4}-\d{2}-\d{2}$/.test(text) &&
    new Date(`${text}T00:00:00Z`).getTime() === new Date(`${text}T00:00:00Z`).getTime() &&
    new Date(`${text}T00:00:00Z`).toISOString().slice(0, 10) === text,
  'date-time': (text) => moment(text) !== undefined,
  ipv4: (text) =>
    text.split('.').length === 4 &&
    text
      .split('.')
      .every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256 && String(Number(part)) === part),
};

function moment(text: string): number | undefined {
  const [, day, hour, minute, second, fraction, sign, offsetHour, offsetMinute] =
    /^(.{10})[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/.exec(text) ?? [];
  if (day === undefined || text.length > 64 || !FORMATS['date']!(day)) return undefined;
  if (
    Number(hour) > 23 ||
    Number(minute) > 59 ||
    Number(second) > 60 ||
    Number(offsetHour ?? 0) > 23 ||
    Number(offsetMinute ?? 0) > 59
  )
    return undefined;
  const ms =
    Date.parse(`${day}T00:00:00Z`) +
    Number(hour) * 3_600_000 +
    Number(minute) * 60_000 +
    Number(second) * 1_000 +
    Math.floor(Number(`0.${fraction ?? '0'}`) * 1_000 + 1e-9) -
    (sign === '-' ? -1 : 1) * (Number(offsetHour ?? 0) * 3_600_000 + Number(offsetMinute ?? 0) * 60_000);
  if (second === '60' && new Date(ms - 1_000).toISOString().slice(11, 19) !== '23:59:59') return undefined;
  return ms;
}

/** Returns the problems of a value, and the value after validation, with instances as plain objects. */
export function judge(type: Described, value: unknown): { found: Found[]; value: unknown } {
  const found: Found[] = [];
  const out = walk(type, value, [], found, 0);
  return { found, value: out };
}

function walk(
  type: Described,
  value: unknown,
  path: (string | number)[],
  found: Found[],
  depth: number,
): unknown {
  const fail = (code: string): typeof FAILED => {
    found.push({ path, code });
    return FAILED;
  };
  switch (type.kind) {
    case 'str': {
      if (typeof value !== 'string') return fail('type');
      const length = [...value].length;
      if (length < (type.minLength ?? 0)) return fail('min_length');
      if (length > (type.maxLength ?? Infinity)) return fail('max_length');
      if (/\p{Surrogate}/u.test(value) && type.format === undefined) return fail('unicode');
      if (type.format !== undefined && !FORMATS[type.format]!(value))
        return fail(type.format === 'email' ? 'email' : 'format');
      return type.pattern !== undefined && !new RegExp(type.pattern, 'u').test(value)
        ? fail('pattern')
        : value;
    }
    case 'int':
    case 'float': {
      if (typeof value !== 'number' || !Number.isFinite(value)) return fail('type');
      if (type.kind === 'int' && !Number.isInteger(value)) return fail('type');
      if (type.kind === 'int' && Math.abs(value) >= 2 ** 53) return fail('unsafe_integer');
      if (value < (type.ge ?? -Infinity)) return fail('ge');
      if (value > (type.le ?? Infinity)) return fail('le');
      if (type.gt !== undefined && !(value > type.gt)) return fail('gt');
      if (type.lt !== undefined && !(value < type.lt)) return fail('lt');
      // exact: factors are powers of two or integers
      return type.multipleOf !== undefined && value % type.multipleOf !== 0 ? fail('multiple_of') : value;
    }
    case 'bool':
      return typeof value === 'boolean' ? value : fail('type');
    case 'date':
    case 'uuid':
      return typeof value !== 'string' ? fail('type') : FORMATS[type.kind]!(value) ? value : fail('format');
    case 'datetime': {
      if (typeof value !== 'string') return fail('type');
      const ms = moment(value);
      const isWritable =
        ms !== undefined &&
        ms >= Date.parse('0000-01-01T00:00:00Z') &&
        ms <= Date.parse('9999-12-31T23:59:59.999Z'); // JSON Schema cannot express this limit
      return isWritable ? new Date(ms) : fail('format');
    }
    case 'bytes': {
      if (typeof value !== 'string') return fail('type');
      if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value))
        return fail('format');
      const decoded = new Uint8Array([...atob(value)].map((char) => char.charCodeAt(0)));
      return decoded.length < (type.minLength ?? 0)
        ? fail('min_length')
        : decoded.length > (type.maxLength ?? Infinity)
          ? fail('max_length')
          : decoded;
    }
    case 'literal':
      return type.values.some((candidate) => candidate === value) ? value : fail('enum');
    case 'nullable':
      return value === null ? null : walk(type.inner, value, path, found, depth);
    case 'any':
      return walkAny(value, path, found, depth);
    case 'list': {
      if (!Array.isArray(value)) return fail('type');
      if (value.length < (type.minLength ?? 0)) return fail('min_length');
      if (value.length > (type.maxLength ?? Infinity)) return fail('max_length');
      if (depth >= 64) return fail('depth');
      const items = value.map((item, i) => walk(type.item, item, [...path, i], found, depth + 1));
      if (items.includes(FAILED)) return FAILED;
      if (type.unique !== true) return items;
      const before = found.length;
      value.forEach((item, i) => {
        if (value.slice(0, i).some((other) => isSame(other, item)))
          found.push({ path: [...path, i], code: 'unique' });
      });
      return found.length > before ? FAILED : items;
    }
    case 'tuple': {
      if (!Array.isArray(value)) return fail('type');
      if (value.length !== type.members.length)
        return fail(value.length < type.members.length ? 'min_length' : 'max_length');
      if (depth >= 64) return fail('depth');
      const items = type.members.map((member, i) => walk(member, value[i], [...path, i], found, depth + 1));
      return items.includes(FAILED) ? FAILED : items;
    }
    case 'choice': {
      const near: Found[][] = [];
      for (const member of type.members) {
        const own: Found[] = [];
        const out = walk(member, value, path, own, depth);
        if (out !== FAILED) return out;
        const [first] = own;
        if (own.length > 1 || first!.code !== 'type' || first!.path.length > path.length) near.push(own);
      }
      if (near.length !== 1) return fail('union');
      found.push(...near[0]!);
      return FAILED;
    }
    case 'record': {
      if (!isPlain(value)) return fail('type');
      const keys = Object.keys(value);
      if (keys.length < (type.minLength ?? 0)) return fail('min_length');
      if (keys.length > (type.maxLength ?? Infinity)) return fail('max_length');
      if (depth >= 64) return fail('depth');
      const members = keys.map(
        (key) => [key, walk(type.item, value[key], [...path, key], found, depth + 1)] as const,
      );
      return members.some(([, member]) => member === FAILED) ? FAILED : Object.fromEntries(members);
    }
    case 'object':
      return walkObject(type, value, path, found, depth);
    case 'union': {
      if (!isPlain(value)) return fail('type');
      const tag = Object.hasOwn(value, type.tag) ? value[type.tag] : undefined;
      const variant = type.variants.find((candidate) => candidate.value === tag);
      if (variant !== undefined) return walkObject(variant.object, value, path, found, depth);
      found.push({ path: [...path, type.tag], code: tag === undefined ? 'required' : 'enum' });
      return FAILED;
    }
  }
}

function walkObject(
  type: Extract<Described, { kind: 'object' }>,
  value: unknown,
  path: (string | number)[],
  found: Found[],
  depth: number,
): unknown {
  if (!isPlain(value) || depth >= 64) {
    found.push({ path, code: isPlain(value) ? 'depth' : 'type' });
    return FAILED;
  }
  const out: Record<string, unknown> = {};
  const before = found.length;
  for (const field of type.fields) {
    const raw =
      field.presence !== 'readOnly' && Object.hasOwn(value, field.wire) ? value[field.wire] : undefined;
    if (raw !== undefined) out[field.name] = walk(field.type, raw, [...path, field.wire], found, depth + 1);
    else if (field.presence === 'required') found.push({ path: [...path, field.wire], code: 'required' });
    else out[field.name] = field.presence === 'default' ? field.fallback : undefined;
  }
  for (const key of Object.keys(value)) {
    if (type.extra === 'ignore' || type.fields.some((field) => field.wire === key)) continue;
    if (type.extra === 'forbid') found.push({ path: [...path, key], code: 'extra' });
    else if (key === 'toJSON' || type.fields.some((field) => field.name === key))
      found.push({ path: [...path, key], code: 'key' });
    else {
      const kept = walkAny(value[key], [...path, key], found, depth + 1);
      Object.defineProperty(out, key, { value: kept, enumerable: true, configurable: true, writable: true });
    }
  }
  return found.length > before ? FAILED : out;
}

function walkAny(value: unknown, path: (string | number)[], found: Found[], depth: number): unknown {
  const before = found.length;
  if (typeof value === 'string' && /\p{Surrogate}/u.test(value)) found.push({ path, code: 'unicode' });
  else if (typeof value === 'number' && !Number.isFinite(value)) found.push({ path, code: 'type' });
  else if (typeof value === 'object' && value !== null) {
    if (!Array.isArray(value) && !isPlain(value)) found.push({ path, code: 'type' });
    else if (depth >= 64) found.push({ path, code: 'depth' });
    else {
      for (const key of Object.keys(value)) {
        const part = [...path, Array.isArray(value) ? Number(key) : key];
        walkAny((value as Record<string, unknown>)[key], part, found, depth + 1);
      }
    }
  }
  return found.length > before ? FAILED : value;
}

/** Whether two values are equal in JSON. */
function isSame(left: unknown, right: unknown): boolean {
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null)
    return left === right;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const [one, other] = [left as Record<string, unknown>, right as Record<string, unknown>];
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  );
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    [Object.prototype, null].includes(Object.getPrototypeOf(value))
  );
}

// ── generation ──

/** A deterministic source of numbers: mulberry32. */
export class Random {
  #state: number;
  /** Whether generated schemas contain read-only members: input ignores them, and responses need them. */
  makesReadOnly = false;
  constructor(seed: number) {
    this.#state = seed;
  }
  /** Returns a random number from 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }
  below(most: number): number {
    return Math.floor(this.next() * most);
  }
  chance(share: number): boolean {
    return this.next() < share;
  }
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}

const NAMES = ['a', 'b', 'name', 'constructor', 'toString', 'value', 'x_y', 'ключ', 'very long name'];
const TEXTS = [
  '',
  'a',
  'ab',
  'abc',
  'Ada',
  '12',
  'é',
  '😀',
  '😀😀',
  'a😀b',
  'ada@example.com',
  'a.b@c',
  'x@y.zz',
  '@',
  '2024-02-29',
  '2023-02-29',
  '2026-12-31',
  '2026-12-31T23:59:60Z',
  '2026-01-31T09:30:00.123Z',
  '2026-01-31t09:30:00+05:30',
  '2026-01-31T09:30:00',
  '0000-01-01T00:00:00+01:00',
  '123e4567-e89b-12d3-a456-426614174000',
  '123e4567e89b12d3a456426614174000',
  'QUJD',
  'QUI=',
  'QUI',
  'QU-_',
  '127.0.0.1',
  '256.1.1.1',
  '01.1.1.1',
  'true',
  'null',
  'x'.repeat(40),
  '😀'.repeat(30),
];
const BROKEN = ['\ud800', 'a\udc00', '\ud83d'];
const NUMBERS = [
  0,
  -0,
  1,
  2,
  3,
  -1,
  7,
  0.5,
  1.5,
  2.25,
  -3.75,
  100,
  1e6,
  1e21,
  2 ** 53 - 1,
  2 ** 53,
  -(2 ** 53),
  1e308,
];
// without larger numbers, because ajv 8 divides them by parseInt() in multipleOf
const MODEST_NUMBERS = NUMBERS.filter((value) => Math.abs(value) < 1e21);
const ODD_NUMBERS = [NaN, Infinity, -Infinity];
const FORMAT_NAMES: FormatName[] = ['email', 'uuid', 'date', 'date-time', 'ipv4'];

const SCALARS: ReadonlySet<string> = new Set(['str', 'int', 'float', 'bool', 'literal', 'date', 'uuid']);

/**
 * Returns a random description, at most `levels` deep. `isForReferee` leaves out what JSON Schema cannot
 * express, or ajv understands otherwise.
 */
export function describe(random: Random, levels: number, isForReferee = false): Described {
  const simple = [
    'str',
    'str',
    'int',
    'float',
    'bool',
    'literal',
    'date',
    'datetime',
    'bytes',
    'uuid',
    'any',
  ] as const;
  const kind =
    levels <= 0 || random.chance(0.4)
      ? random.pick(simple)
      : random.pick([
          'list',
          'record',
          'nullable',
          'object',
          'object',
          'object',
          'union',
          'tuple',
          'choice',
        ] as const);
  const bounds = (): { minLength?: number; maxLength?: number } => {
    const least = random.below(3);
    return {
      ...(random.chance(0.3) ? { minLength: least } : {}),
      ...(random.chance(0.4) ? { maxLength: least + random.below(5) } : {}),
    };
  };
  switch (kind) {
    case 'str': {
      const rule = random.below(5);
      return {
        kind,
        ...bounds(),
        ...(rule === 0
          ? { pattern: random.pick(['^a', 'b$', '^.{1,2}$', '^[a-z]+$', '😀']) }
          : rule === 1
            ? { format: random.pick(FORMAT_NAMES) }
            : {}),
      };
    }
    case 'int':
    case 'float': {
      const least = random.below(5) - 2;
      return {
        kind,
        ...(random.chance(0.3) ? { ge: least } : {}),
        ...(random.chance(0.3) ? { le: least + random.below(200) } : {}),
        ...(random.chance(0.1) ? { gt: least } : {}),
        ...(random.chance(0.1) ? { lt: least + 3 } : {}),
        ...(random.chance(0.2) ? { multipleOf: random.pick([1, 2, 3, 0.5, 0.25]) } : {}),
      };
    }
    case 'literal':
      return {
        kind,
        values: random.pick([
          ['a'],
          ['a', 'b', 'c'],
          [1, 2],
          ['x', 1, true, null],
          ['1', '2', '3', '4', '5', '6', '7', '8', '9', 'a'],
        ] as [Literal, ...Literal[]][]),
      };
    case 'bytes':
      return { kind, ...bounds() };
    case 'list': {
      const item = describe(random, levels - 1, isForReferee);
      const isComparable = !isForReferee || SCALARS.has(item.kind); // ajv 8 compares objects by their own toString()
      return { kind, item, ...bounds(), ...(isComparable && random.chance(0.2) ? { unique: true } : {}) };
    }
    case 'record':
      return { kind, item: describe(random, levels - 1, isForReferee), ...bounds() };
    case 'tuple':
    case 'choice':
      return {
        kind,
        members: Array.from({ length: random.below(2) + (kind === 'tuple' ? 1 : 2) }, () => {
          const member = describe(random, levels - 1, isForReferee);
          return isWrapped(member) ? ({ kind: 'int' } as const) : member; // constraints belong to fields
        }),
      };
    case 'nullable':
      return { kind, inner: describe(random, levels - 1, isForReferee) };
    case 'object':
      return describeObject(random, levels - 1, isForReferee);
    case 'union':
      return {
        kind,
        tag: 'kind',
        variants: ['cat', 'dog', 'emu'].slice(0, 1 + random.below(3)).map((value) => {
          const object = describeObject(random, levels - 2, isForReferee);
          object.fields.unshift({
            name: 'kind',
            wire: 'kind',
            type: { kind: 'literal', values: [value] },
            presence: 'required',
          });
          return { value, object };
        }),
      };
    default:
      return { kind };
  }
}

function describeObject(
  random: Random,
  levels: number,
  isForReferee: boolean,
): Extract<Described, { kind: 'object' }> {
  const names = NAMES.filter(() => random.chance(0.35));
  const extra = random.pick(['ignore', 'ignore', 'forbid', 'allow'] as const);
  return {
    kind: 'object',
    extra,
    fields: names.map((name): DescribedField => {
      const wire = random.chance(0.15) ? `${name}_alias` : name;
      const type = describe(random, levels, isForReferee);
      if (type.kind === 'bool' && random.chance(0.5))
        return { name, wire, type, presence: 'default', fallback: random.chance(0.5) };
      if (random.makesReadOnly && random.chance(0.08)) return { name, wire, type, presence: 'readOnly' };
      return { name, wire, type, presence: random.chance(0.3) ? 'optional' : 'required' };
    }),
  };
}

/** Returns a random value that often fits a description, and often almost fits. */
export function invent(random: Random, type: Described, isForReferee = false): unknown {
  if (random.chance(0.06)) return anything(random, 2, isForReferee);
  switch (type.kind) {
    case 'str':
      if (isForReferee) return random.pick(TEXTS);
      return random.chance(0.03) ? random.pick(BROKEN) : random.pick(TEXTS);
    case 'int':
    case 'float':
      return !isForReferee && random.chance(0.03)
        ? random.pick(ODD_NUMBERS)
        : random.pick(isForReferee ? MODEST_NUMBERS : NUMBERS);
    case 'bool':
      return random.chance(0.5);
    case 'literal':
      return random.chance(0.9) ? random.pick(type.values) : random.pick(TEXTS);
    case 'date':
      return random.pick(['2024-02-29', '2026-12-31', '2026-12-31', '2023-02-29', '2026-13-01', '2026-1-1']);
    case 'uuid':
      return random.pick([
        '123e4567-e89b-12d3-a456-426614174000',
        '123E4567-E89B-12D3-A456-426614174000',
        '123e4567-e89b-12d3-a456-42661417400',
      ]);
    case 'datetime':
      return random.pick([
        '2026-01-31T09:30:00.123Z',
        '2026-01-31t09:30:00+05:30',
        '2026-12-31T23:59:60Z',
        '2026-12-31T23:00:60Z',
        '2027-01-01T04:59:60+05:00',
        '2026-01-31T24:00:00Z',
        '2026-01-31T09:30:00',
      ]);
    case 'bytes':
      return random.pick(['', 'QUJD', 'QUI=', 'QQ==', 'QUI', 'QU-_', 'QUJDQUJD', 'Q=JD']);
    case 'any':
      return anything(random, 3, isForReferee);
    case 'list':
      return Array.from({ length: random.below(5) }, () => invent(random, type.item, isForReferee));
    case 'record':
      return Object.fromEntries(
        NAMES.filter(() => random.chance(0.3)).map((name) => [name, invent(random, type.item, isForReferee)]),
      );
    case 'tuple':
      return random.chance(0.9)
        ? type.members.map((member) => invent(random, member, isForReferee))
        : [invent(random, type.members[0]!, isForReferee)];
    case 'choice':
      return invent(random, random.pick(type.members), isForReferee);
    case 'nullable':
      return random.chance(0.3) ? null : invent(random, type.inner, isForReferee);
    case 'union':
      return invent(random, random.pick(type.variants).object, isForReferee);
    case 'object': {
      const members = type.fields
        .filter((field) => random.chance(field.presence === 'required' ? 0.96 : 0.5))
        .map((field) => [field.wire, invent(random, field.type, isForReferee)] as const);
      const surplus = random.chance(0.15)
        ? [
            [
              random.pick(['zzz', 'b', '__proto__', 'constructor']),
              anything(random, 1, isForReferee),
            ] as const,
          ]
        : [];
      const all = [...surplus, ...members];
      // the members of a value come in any order, but problems are in the order of the schema
      if (random.chance(0.3)) all.sort(() => random.next() - 0.5);
      return Object.fromEntries(all);
    }
  }
}

function anything(random: Random, levels: number, isForReferee: boolean): unknown {
  const kind = random.below(levels > 0 ? 7 : 5);
  if (kind === 0) return random.pick(isForReferee ? TEXTS.filter((text) => !text.startsWith('0000')) : TEXTS);
  if (kind === 1) return random.pick(isForReferee ? MODEST_NUMBERS : [...NUMBERS, ...ODD_NUMBERS]);
  if (kind === 2) return random.chance(0.5);
  if (kind === 3) return null;
  if (kind === 4) return isForReferee ? '' : random.pick([...BROKEN, 'fine']);
  if (kind === 5)
    return Array.from({ length: random.below(3) }, () => anything(random, levels - 1, isForReferee));
  return Object.fromEntries([
    ['k', anything(random, levels - 1, isForReferee)],
    ...(random.chance(0.1) ? [['__proto__', 1] as const] : []),
  ]);
}

/**
 * Returns the type of a description. Classes declare their fields in a constructor, as compiled classes do.
 */
export function realise(type: Described): TypeSource {
  const { token, options } = constrained(type);
  if (options === undefined) return token;
  class Holder extends Schema {
    value = Field(token, options as object);
  } // constraints belong to fields, so {@link realise} wraps such a type
  return Holder;
}

/** Whether {@link realise} wraps the type in an object with the member `value`. */
export function isWrapped(type: Described): boolean {
  return constrained(type).options !== undefined;
}

function constrained(type: Described): { token: TypeSource; options: object | undefined } {
  switch (type.kind) {
    case 'str':
      return withOptions(str, type);
    case 'int':
      return withOptions(int, type);
    case 'float':
      return withOptions(float, type);
    case 'bytes':
      return withOptions(bytes, type);
    case 'bool':
      return { token: bool, options: undefined };
    case 'any':
      return { token: any, options: undefined };
    case 'date':
      return { token: date, options: undefined };
    case 'uuid':
      return { token: uuid, options: undefined };
    case 'datetime':
      return { token: datetime, options: undefined };
    case 'literal':
      return { token: literal(...type.values), options: undefined };
    case 'list':
    case 'record': {
      const item = constrained(type.item);
      const make = (type.kind === 'list' ? list : record) as (
        item: TypeSource,
        options?: object,
      ) => FieldType<unknown, object>; // the options fit the type, because both come from one description
      return withOptions(make(item.token, item.options), {
        minLength: type.minLength,
        maxLength: type.maxLength,
        unique: type.unique,
      });
    }
    case 'tuple':
      return {
        token: tuple(
          ...(type.members.map((member) => constrained(member).token) as [TypeSource]),
        ) as FieldType<unknown, object>,
        options: undefined,
      };
    case 'choice':
      return {
        token: union(
          ...(type.members.map((member) => constrained(member).token) as [TypeSource, TypeSource]),
        ),
        options: undefined,
      };
    case 'nullable': {
      const inner = constrained(type.inner);
      return { token: nullable(inner.token), options: inner.options };
    }
    case 'object':
      return { token: classOf(type), options: undefined };
    case 'union':
      return {
        token: union(
          type.tag,
          ...(type.variants.map(({ object }) => classOf(object)) as unknown as [
            SchemaClass<{ kind: string }>,
          ]),
        ) as FieldType<unknown, object>,
        options: undefined,
      };
  }
}

function withOptions(
  token: TypeSource,
  { kind: _, ...options }: { kind?: string; [option: string]: unknown },
): { token: TypeSource; options: object | undefined } {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return { token, options: Object.keys(given).length === 0 ? undefined : given };
}

function classOf(type: Extract<Described, { kind: 'object' }>): SchemaClass {
  const declared = type.fields.map((field) => {
    const { token, options } = constrained(field.type);
    const presence =
      field.presence === 'optional'
        ? { optional: true }
        : field.presence === 'default'
          ? { default: field.fallback }
          : field.presence === 'readOnly'
            ? { readOnly: true }
            : {};
    return {
      name: field.name,
      token,
      options: { ...options, ...presence, ...(field.wire === field.name ? {} : { alias: field.wire }) },
    };
  });
  return class Generated extends Schema {
    static extra = type.extra;
    constructor(data: unknown) {
      super(data);
      const members = this as Record<string, unknown>;
      for (const { name, token, options } of declared)
        Object.defineProperty(members, name, {
          value: Field(token, options as object),
          writable: true,
          enumerable: true,
          configurable: true,
        });
    }
  };
}
