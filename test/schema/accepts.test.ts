import assert from 'node:assert/strict';
import test from 'node:test';
import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';
import {
  any,
  Field,
  int,
  lazy,
  list,
  literal,
  nullable,
  record,
  Schema,
  str,
  union,
} from '../../src/schema/schema.ts';
import type { SchemaClass } from '../../src/schema/schema.ts';
import { describe, invent, isWrapped, Random, realise } from '../support/schema-reference.ts';

type Judged = SchemaClass & {
  accepts(data: unknown): boolean;
  safeParse(data: unknown): { readonly ok: boolean };
};

function agrees(schema: Judged, input: unknown, what: () => string): boolean {
  const said = schema.accepts(input);
  if (said !== schema.safeParse(input).ok) assert.fail(`accepts() says ${said}: ${what()}`);
  return said;
}

class Line extends Schema {
  sku = Field(str, { minLength: 1, maxLength: 4 });
  quantity = Field(int, { ge: 1 });
  note = Field(str, { optional: true });
}
class Closed extends Schema {
  static extra = 'forbid';
  a = Field(str);
  b = Field(int, { default: 1 });
}
class Open extends Schema {
  static extra = 'allow';
  a = Field(str);
  get taken(): string {
    return this.a;
  }
}
class Leaf extends Schema {
  kind = Field(literal('leaf'));
  value = Field(any);
}
class Branch extends Schema {
  kind = Field(literal('branch'));
  left = Field(nullable(lazy(() => Tree)));
  rest = Field(list(lazy(() => Branch)), { default: () => [] });
}
const Tree = union('kind', Leaf, Branch);
class Whole extends Schema {
  hidden = Field(str, { optional: true, alias: 'constructor' });
  id = Field(int, { readOnly: true });
  lines = Field(list(Line), { maxLength: 20_000 });
  named = Field(record(Line), { optional: true });
  closed = Field(Closed, { optional: true });
  open = Field(Open, { optional: true });
  tree = Field(Tree, { optional: true });
  score = Field(Number, { optional: true, alias: 'the score' });
}

/** Objects that JSON.parse() does not make, and some that it does. */
function odd(random: Random, value: object): unknown {
  const members = Object.entries(value);
  switch (random.below(12)) {
    case 0:
      return Object.assign(Object.create(null) as object, value);
    case 1:
      return Object.assign(new (class Own {})(), value);
    case 2:
      return Object.create(value);
    case 3:
      return Object.assign(Object.create({}) as object, value);
    case 4:
      return new Proxy(value, {});
    case 5:
      return Object.assign(runInNewContext('({})') as object, value);
    case 6:
      return Object.fromEntries(members.reverse());
    case 7:
      return Object.defineProperties(
        {},
        Object.fromEntries(
          members.map(([name, member]) => [
            name,
            { get: () => member as unknown, enumerable: random.chance(0.7) },
          ]),
        ),
      );
    case 8:
      return Object.fromEntries(
        members.map(([name, member], index) => [name, index === 0 ? undefined : member]),
      );
    case 9:
      return Object.defineProperty({ ...value }, '__proto__', {
        value: { a: 'x', sku: 'y' },
        enumerable: true,
        configurable: true,
        writable: true,
      }); // as JSON.parse() makes it
    case 10:
      return { zzz: NaN, toString: 'x', taken: 1, ...value, hasOwnProperty: 1 };
    default:
      return Object.fromEntries(Object.entries({ ...value, at: 1 }).sort(() => random.next() - 0.5));
  }
}

function spoilt(random: Random, value: unknown): unknown {
  if (random.chance(0.05))
    return random.pick<unknown>([
      undefined,
      null,
      NaN,
      -0,
      '',
      '\ud800',
      7n,
      new Date(0),
      new Map(),
      [],
      {},
      [,],
      () => 1,
      Symbol('x'),
      2 ** 53,
      Infinity,
    ]);
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => spoilt(random, item));
    if (random.chance(0.1)) delete items[0]; // a hole
    if (random.chance(0.05)) items.length += 1;
    return random.chance(0.1) ? Object.assign(items, { more: 1 }) : items;
  }
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  const within = Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, spoilt(random, member)]),
  );
  return random.chance(0.15) ? odd(random, within) : within;
}

test('Schema.accepts() agrees with safeParse() on generated schemas and inputs of every odd kind', () => {
  const random = new Random(20_261_125);
  const count = { true: 0, false: 0 };
  for (let round = 0; round < 200; round++) {
    const type = describe(random, 4),
      source = realise(type);
    class Holder extends Schema {
      value = Field(source);
    }
    for (let i = 0; i < 50; i++) {
      const value = invent(random, type);
      const input = spoilt(random, { value: isWrapped(type) ? { value } : value });
      count[`${agrees(Holder, input, () => `${JSON.stringify(type)}\n${inspect(input, { depth: 9 })}`)}`]++;
    }
  }
  assert.ok(count.true > 1_000 && count.false > 1_000, inspect(count));
});

test('Schema.accepts() agrees with safeParse() on schemas within schemas, and on instances among the input', () => {
  const random = new Random(7);
  const count = { true: 0, false: 0 };
  const line = (): unknown =>
    random.pick<unknown>([
      { sku: 'a', quantity: 1 },
      { quantity: 2, sku: 'b', note: 'n' },
      { sku: 'c', note: undefined, quantity: 3, more: 4 },
      new Line({ sku: 'd', quantity: 4 }),
      { sku: 'e', quantity: 1 },
    ]);
  const leaf = (): unknown => ({ kind: 'leaf', value: [{ a: 1 }] });
  for (let i = 0; i < 8_000; i++) {
    const whole = {
      lines: Array.from({ length: random.below(4) }, line),
      id: random.pick<unknown>([1, 'x', undefined, {}]),
      ...(random.chance(0.2) ? { constructor: 'c' } : {}),
      ...(random.chance(0.2) ? { named: { x: line(), y: line() } } : {}),
      ...(random.chance(0.2)
        ? {
            closed: random.pick<unknown>([
              { a: 'x' },
              { b: 2, a: 'y' },
              { a: 'x', c: 1 },
              new Closed({ a: 'i' }),
            ]),
          }
        : {}),
      ...(random.chance(0.2)
        ? {
            open: random.pick<unknown>([
              { a: 'x', z: [1] },
              { a: 'y', taken: 1 },
              { a: 'z', q: NaN },
            ]),
          }
        : {}),
      ...(random.chance(0.2)
        ? {
            tree: random.pick<unknown>([
              leaf(),
              { kind: 'branch', left: leaf(), rest: [{ kind: 'branch', left: null }] },
              { left: null, kind: 'branch' },
              { kind: 'none' },
              new Leaf({ kind: 'leaf', value: 1 }),
            ]),
          }
        : {}),
      ...(random.chance(0.2) ? { 'the score': random.pick<unknown>([1.5, NaN, -0]) } : {}),
    };
    const input = random.chance(0.5) ? whole : spoilt(random, whole);
    count[`${agrees(Whole, input, () => inspect(input, { depth: 9 }))}`]++;
  }
  assert.ok(count.true > 2_000 && count.false > 2_000, inspect(count));
  const instance = new Whole({ lines: [{ sku: 'a', quantity: 1 }], 'the score': 1 });
  assert.ok(agrees(Whole, instance, () => 'an instance'));
  instance.lines[0] = { sku: 'too long', quantity: 1 } as Line;
  assert.ok(!agrees(Whole, instance, () => 'an instance that was changed'));
});

test('Schema.accepts() agrees with safeParse() on levels up to and beyond the limit, and on long lists', () => {
  const nest = (levels: number): unknown =>
    Array.from({ length: levels }).reduce<unknown>((inner) => ({ kind: 'branch', left: inner }), {
      kind: 'leaf',
      value: null,
    });
  const chain = (levels: number): unknown =>
    Array.from({ length: levels }).reduce<unknown>(
      (inner) => ({ kind: 'branch', left: null, rest: [inner] }),
      { kind: 'branch', left: null },
    );
  const parts = (levels: number): unknown =>
    Array.from({ length: levels }).reduce<unknown>((inner) => [inner], 1);
  const seen = new Set<string>();
  for (let levels = 25; levels < 70; levels++) {
    seen.add(`nest ${agrees(Branch, nest(levels), () => `${levels} objects`)}`);
    seen.add(`chain ${agrees(Branch, chain(levels), () => `${levels} objects and lists`)}`);
    seen.add(`parts ${agrees(Leaf, { kind: 'leaf', value: parts(levels) }, () => `${levels} lists`)}`);
  }
  assert.equal(seen.size, 6);
  const lines = Array.from({ length: 20_000 }, () => ({ sku: 'a', quantity: 1 }));
  assert.ok(agrees(Whole, { lines }, () => 'the longest list'));
  assert.ok(!agrees(Whole, { lines: [...lines, lines[0]] }, () => 'one too long'));
  assert.ok(!agrees(Whole, { lines: lines.with(-1, { sku: 'a', quantity: 0 }) }, () => 'the last of many'));
});

test('Schema.accepts() agrees with safeParse() while Object.prototype has members of somebody', () => {
  const members = Object.prototype as { note?: unknown; sku?: unknown };
  for (const schema of [Line, Closed]) agrees(schema, {}, () => 'nothing'); // both sides look at their classes before: which names are common to all objects is asked then
  try {
    for (const value of ['n', 7]) {
      Object.assign(members, { note: value, sku: value });
      for (const input of [
        { sku: 'a', quantity: 1 },
        { quantity: 1 },
        { quantity: 1, sku: 'a', note: 'x' },
        {},
      ])
        agrees(Line, input, () => inspect([value, input]));
      for (const input of [{ a: 'x' }, { a: 'x', b: 1 }])
        agrees(Closed, input, () => inspect([value, input]));
    }
  } finally {
    delete members.note;
    delete members.sku;
  }
});

test('Schema.accepts() reads each member once, and stops at the first that does not fit', () => {
  const reads: string[] = [];
  const reader = (members: Record<string, unknown>): object =>
    Object.defineProperties(
      {},
      Object.fromEntries(
        Object.entries(members).map(([name, value]) => [
          name,
          { enumerable: true, get: () => (reads.push(name), value) },
        ]),
      ),
    );
  assert.ok(Line.accepts(reader({ note: 'n', quantity: 1, sku: 'a' })));
  assert.deepEqual(reads.splice(0).sort(), ['note', 'quantity', 'sku']);
  assert.ok(Whole.accepts(reader({ named: {}, lines: [], closed: { a: 'x' } })));
  assert.deepEqual(reads.splice(0).sort(), ['closed', 'lines', 'named']);
  assert.ok(!Line.accepts(reader({ sku: 'a', quantity: 0, note: 'n' })));
  assert.deepEqual(reads, ['sku', 'quantity']);
});

test('Schema.accepts() says what is wrong with a class within, each time it is asked', () => {
  class Wrong extends Schema {
    text = Field(str, { minLength: 3, maxLength: 2 });
  }
  class Inner extends Schema {
    outer = Field(nullable(lazy(() => Outer)));
    wrong = Field(lazy(() => Wrong));
  }
  class Outer extends Schema {
    inner = Field(Inner);
    wrong = Field(Wrong);
  }
  for (let time = 0; time < 2; time++)
    assert.throws(() => Outer.accepts({ inner: {} }), { code: 'E_SCHEMA_FIELD' });
  for (let time = 0; time < 2; time++)
    assert.throws(() => Inner.accepts({ outer: null, wrong: {} }), { code: 'E_SCHEMA_FIELD' });
});

test('Schema.accepts() says so, too, when an initialiser has asked for a class that was being looked at', () => {
  class Wrong extends Schema {
    text = Field(str, { minLength: 3, maxLength: 2 });
  }
  class Inner extends Schema {
    x = Field(int);
    y = Field(int, { default: () => Number(Outer.accepts({})) });
    z = Number(Asked.accepts({}));
  }
  class Asked extends Schema {
    inner = Field(nullable(lazy(() => Inner)));
    wrong = Field(Wrong, { optional: true });
  }
  class Outer extends Schema {
    inner = Field(Inner);
    asked = Field(Asked);
    wrong = Field(Wrong);
  }
  for (let time = 0; time < 3; time++)
    assert.throws(
      () => Outer.accepts({ inner: { x: 1 } }),
      (error: { code?: unknown }) => /^E_SCHEMA_(?:FIELD|PROBE)$/.test(String(error.code)),
    );
});

test('Schema.accepts() agrees with safeParse() at the limit of levels in lists, records and open objects', () => {
  class Bag extends Schema {
    static extra = 'allow';
    bags = Field(list(lazy(() => Bag)), { optional: true });
    named = Field(record(lazy(() => Bag)), { optional: true });
    plain = Field(record(list(int)), { optional: true });
  }
  const wraps: readonly ((inner: unknown) => unknown)[] = [
    (inner) => ({ bags: [inner] }),
    (inner) => ({ named: { a: inner } }),
  ];
  const ends: readonly unknown[] = [
    {},
    { plain: {} },
    { plain: { a: [] } },
    { plain: { a: [1] } },
    { bags: [] },
    { named: {} },
    { more: 1 },
    { more: [1] },
    { more: { a: [1] } },
    { more: { a: { b: 1 } } },
  ];
  const seen = { true: 0, false: 0 };
  for (const wrap of wraps)
    for (const end of ends)
      for (let levels = 27; levels < 36; levels++) {
        const input = Array.from({ length: levels }).reduce<unknown>(wrap, end);
        seen[`${agrees(Bag, input, () => `${levels} levels around ${inspect(end)}`)}`]++;
      }
  assert.ok(seen.true > 50 && seen.false > 50, inspect(seen));
});

test('Schema.accepts() agrees with safeParse() on tags that are inherited, and on functions that are instances', () => {
  class Made extends Schema {
    kind = Field(literal('constructor'));
  }
  class Plainly extends Schema {
    kind = Field(literal('x'));
  }
  class Holder extends Schema {
    it = Field(union('kind', Made, Plainly));
    line = Field(Line, { optional: true });
  }
  const inherited = Object.prototype as { kind?: unknown };
  try {
    inherited.kind = 'x';
    for (const it of [{}, { kind: 'constructor' }, { kind: 'x' }, { kind: undefined }])
      agrees(Holder, { it }, () => inspect(it));
  } finally {
    delete inherited.kind;
  }
  const line = Object.setPrototypeOf(() => 1, Line.prototype) as unknown;
  assert.ok(agrees(Holder, { it: { kind: 'x' }, line }, () => 'a function of the class'));
});
