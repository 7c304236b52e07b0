import assert from 'node:assert/strict';
import test from 'node:test';
import { inspect } from 'node:util';
import { BadRequest, SvcError } from '../../src/base/errors.ts';
import type { FaultCode } from '../../src/base/faults.ts';
import {
  any,
  bool,
  bytes,
  compileSerializer,
  compileType,
  date,
  datetime,
  Field,
  fieldsOf,
  file,
  float,
  int,
  isSchemaClass,
  lazy,
  list,
  literal,
  nullable,
  patternFinding,
  planOf,
  plansOf,
  record,
  Schema,
  str,
  textIssue,
  union,
  uuid,
  ValidationError,
} from '../../src/schema/schema.ts';
import type { FieldType, Infer, PlainOptions, TextInput, TypeSource } from '../../src/schema/schema.ts';
import { rowReading } from '../../src/schema/rows.ts';
import { Run } from '../../src/schema/validation-run.ts';
import { analysePattern } from '../../src/schema/pattern.ts';
import { describe, invent, isWrapped, judge, Random, realise } from '../support/schema-reference.ts';
import { withMessage } from '../support/told.ts';

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}
class User extends Schema {
  name = Field(str, { minLength: 2, maxLength: 40 });
  email = Field(String, { email: true });
  age = Field(int, { ge: 0, le: 150 });
  nick = Field('anon', { maxLength: 20 });
  role = Field(literal('admin', 'user'), { default: 'user' });
  tags = Field(list(str), { default: () => [] });
  home = Field(Address);
  get domain(): string {
    return this.email.split('@')[1]!;
  }
}
const ADA = { name: 'Ada', email: 'ada@example.com', age: 36, home: { city: 'London' } };

/** Returns the issues of a value of some type, as `path code`. */
function issuesOf(source: TypeSource, value: unknown): string[] {
  const result = compileType(source).parseJson(value);
  return result.ok ? [] : result.issues.map(({ loc, code }) => `${loc.join('.')} ${code}`.trim());
}
/** Returns the issues of a value of one field. */
function issuesOfField(field: unknown, value: unknown): string[] {
  const result = fieldsOf({ x: field }).parseJson({ x: value });
  return result.ok ? [] : result.issues.map(({ code }) => code);
}
function readText(field: unknown, input: TextInput, isForm = false): unknown {
  const result = fieldsOf({ x: field }).parseText(input, undefined, isForm);
  return result.ok
    ? (result.value as { x: unknown }).x
    : result.issues.map(({ loc, code }) => `${loc.join('.')} ${code}`).join();
}
function valueOf<S extends TypeSource>(source: S, value: unknown): Infer<S> {
  const result = compileType(source).parseJson(value);
  assert.ok(result.ok, JSON.stringify(result));
  return result.value;
}
function throwsFault(run: () => unknown, code: FaultCode, message: RegExp): void {
  assert.throws(
    run,
    (error) =>
      (error instanceof SvcError && error.code === code && message.test(error.message)) ||
      assert.fail(String(error)),
  );
}

// ── instances ──

test('the constructor of a schema fills in defaults, makes nested instances, and keeps the getters of the class', () => {
  const user = new User(ADA);
  assert.ok(user instanceof User && user.home instanceof Address);
  assert.deepEqual(
    { ...user, home: { ...user.home } },
    { ...ADA, nick: 'anon', role: 'user', tags: [], home: { city: 'London', zip: undefined } },
  );
  assert.equal(user.domain, 'example.com');
  assert.deepEqual(Object.keys(user), ['name', 'email', 'age', 'nick', 'role', 'tags', 'home']);
});

test('Schema.parse() and safeParse() give the same result as the constructor', () => {
  assert.deepEqual(User.parse(ADA), new User(ADA));
  assert.deepEqual(User.safeParse(ADA), { ok: true, value: new User(ADA) });
  assert.throws(() => User.parse({}), ValidationError);
  assert.equal(User.safeParse({}).ok, false);
});

test('Schema.accepts() returns whether parse() would accept the value, and makes no instance', () => {
  let runs = 0;
  class Made extends Schema {
    id = Field(str, { default: () => String(runs++) });
    at = (runs++, Field(datetime));
    parts = Field(list(Address));
  }
  const input = Object.freeze({
    at: '2026-01-01T00:00:00Z',
    parts: Object.freeze([Object.freeze({ city: 'x' })]),
  });
  Made.parse(input);
  const before = runs;
  assert.equal(Made.accepts(input), true);
  assert.equal(Made.accepts({ ...input, parts: [{ city: 7 }] }), false);
  assert.equal(Made.accepts({ at: 'never' }), false);
  assert.equal(runs, before);
  const instance = Made.parse(input);
  assert.equal(Made.accepts(instance), true);
  assert.equal(Made.accepts({ ...input, parts: instance.parts }), true);
  (instance as { at: unknown }).at = 'spoilt';
  assert.equal(Made.accepts(instance), false);
  for (const other of [undefined, null, 'x', [], 7, new Map()]) assert.equal(Made.accepts(other), false);
});

test('Schema.accepts() stops at the first problem', () => {
  class Item extends Schema {
    name = Field(str);
    parts = Field(list(int));
    note = Field(str, { optional: true });
  }
  const read: string[] = [];
  const input = (name: unknown, parts: unknown) => ({
    get name() {
      read.push('name');
      return name;
    },
    get parts() {
      read.push('parts');
      return parts;
    },
    get note() {
      read.push('note');
      return undefined;
    },
  });
  assert.equal(Item.accepts(input(1, [])), false);
  assert.deepEqual(read.splice(0), ['name']);
  assert.equal(Item.accepts(input('a', [1, 'b'])), false);
  assert.deepEqual(read.splice(0), ['name', 'parts']);
  assert.equal(Item.accepts(input('a', [1])), true);
  assert.deepEqual(read, ['name', 'parts', 'note']);
});

test('Schema.accepts() and safeParse() agree on generated pairs of schema and value', () => {
  const random = new Random(20_261_122);
  const count = { true: 0, false: 0 };
  for (let schema = 0; schema < 300; schema++) {
    const type = describe(random, 3),
      source = realise(type);
    class Holder extends Schema {
      value = Field(source);
    }
    class Closed extends Schema {
      static extra = 'forbid';
      value = Field(source);
    }
    for (let i = 0; i < 40; i++) {
      const value = invent(random, type),
        input = i % 8 === 0 ? { value, more: 1 } : { value };
      for (const schema of [Holder, Closed]) {
        const said = schema.accepts(input);
        assert.equal(
          said,
          schema.safeParse(input).ok,
          `${JSON.stringify(type)}\n${inspect(input, { depth: 9 })}`,
        );
        count[`${said}`]++;
      }
    }
  }
  assert.ok(count.true > 3_000 && count.false > 3_000, inspect(count));
});

test('ValidationError has status 400, lists every problem, and contains no submitted value', () => {
  const data = {
    name: 'A',
    email: 'SECRETVALUE',
    age: 3.5,
    role: 'SECRETVALUE',
    tags: ['ok', 7],
    home: { city: '' },
  };
  assert.throws(
    () => new User(data),
    (error) => {
      assert.ok(error instanceof ValidationError && error instanceof BadRequest);
      assert.equal(error.status, 400);
      assert.equal(error.name, 'ValidationError');
      assert.deepEqual(
        error.issues.map(({ loc, code }) => [loc.join('.'), code]),
        [
          ['name', 'min_length'],
          ['email', 'email'],
          ['age', 'type'],
          ['role', 'enum'],
          ['tags.1', 'type'],
          ['home.city', 'min_length'],
        ],
      );
      assert.doesNotMatch(JSON.stringify(error.issues) + error.message + String(error.stack), /SECRETVALUE/);
      return true;
    },
  );
});

test('Schema.parseJson(value, root) begins the path of every issue with its second argument', () => {
  const result = planOf(User).parseJson({ ...ADA, home: {} }, 'body');
  assert.ok(!result.ok);
  assert.deepEqual(result.issues, [
    { loc: ['body', 'home', 'city'], code: 'required', message: 'is required' },
  ]);
  assert.deepEqual(planOf(User).parseJson([], 'body'), {
    ok: false,
    issues: [{ loc: ['body'], code: 'type', message: 'must be an object' }],
  });
});

test('Schema supports #private members, computed members and constructors that call super(data)', () => {
  class Visit extends Schema {
    first = Field(str);
    last = Field(str);
    #count = this.first.length;
    full = `${this.first} ${this.last}`.toUpperCase();
    initials = [this.first, this.last].map((name) => name.at(0)!.toUpperCase()).join('');
    end = Field(1);
    constructor(data: unknown) {
      super(data);
      this.end += 10;
    }
    count(): number {
      return this.#count;
    }
  }
  for (const visit of [
    new Visit({ first: 'Ada', last: 'Lovelace' }),
    Visit.parse({ first: 'Ada', last: 'Lovelace' }),
  ]) {
    assert.equal(visit.full, 'ADA LOVELACE');
    assert.equal(visit.initials, 'AL');
    assert.equal(visit.count(), 3);
    assert.equal(visit.end, 11);
  }
});

test('the constructor of a schema can change the data before it calls super()', () => {
  class Trimmed extends Schema {
    name = Field(str, { maxLength: 3 });
    constructor(data: { name: string }) {
      super({ ...data, name: data.name.trim() });
    }
  }
  assert.equal(new Trimmed({ name: '  Ada  ' }).name, 'Ada');
  class Renamed extends Schema {
    name = Field(str);
    constructor(data: { name: string }) {
      super({ name: `${data.name}!` });
    }
  }
  assert.equal(Renamed.parse({ name: 'Ada' }).name, 'Ada!');
});

test('if an initialiser of a class throws for placeholder values, Schema inspects the class again with sample values of the field types', () => {
  class Checked extends Schema {
    a = Field(str);
    i = Field(int);
    f = Field(Number);
    b = Field(Boolean);
    d = Field(Date);
    t = Field(datetime);
    day = Field(date);
    u = Field(uuid);
    y = Field(bytes);
    l = Field(list(str));
    n = Field(nullable(int));
    k = Field(literal('x', 'y'));
    s = Field('text');
    p = Field(5);
    q = Field(true);
    e = Field(str, { email: true });
    h = Field(Address, { optional: true });
    x = Field(list(str), { default: () => ['made'] });
    ex = Field(str, { example: 'shown' });
    r = Field(record(str));
    bo = Field(bool);
    st = Field(String);
    sum = ((): string => {
      if (typeof this.a !== 'string' || typeof this.i !== 'number') throw new TypeError('kinds');
      return [
        typeof this.a,
        typeof this.i,
        typeof this.f,
        typeof this.b,
        this.d instanceof Date,
        this.t instanceof Date,
        typeof this.day,
        this.u.length,
        this.y instanceof Uint8Array,
        Array.isArray(this.l),
        typeof this.n,
        this.k,
        this.s,
        this.p,
        this.q,
        this.e.includes('@'),
        typeof this.h,
        this.x[0],
        this.ex,
        typeof this.r,
        typeof this.bo,
        typeof this.st,
      ].join();
    })();
    last = Field(int);
  }
  assert.deepEqual(planOf(Checked).fields.at(-1)!.name, 'last');
});

test('Schema throws E_SCHEMA_PROBE if a computed member throws both for placeholder values and for sample values', () => {
  class Choking extends Schema {
    a = Field(str);
    b = ((): never => {
      throw new RangeError(`no ${typeof this.a}`);
    })();
  }
  throwsFault(
    () => planOf(Choking),
    'E_SCHEMA_PROBE',
    /Choking: an initialiser or constructor threw .*no function/,
  );
  throwsFault(() => new Choking({ a: 'x' }), 'E_SCHEMA_PROBE', /Choking/);
});

test('Schema throws E_SCHEMA_PROBE if the result of Field() is not assigned to exactly one public member', () => {
  class Hidden extends Schema {
    #a = Field(str);
    a(): string {
      return this.#a;
    }
  }
  throwsFault(() => planOf(Hidden), 'E_SCHEMA_PROBE', /public member, but call number 1 is not/);
  class Nested extends Schema {
    a = { b: Field(str) };
  }
  throwsFault(() => planOf(Nested), 'E_SCHEMA_PROBE', /assigned to a public member/);
  class Items extends Schema {
    a = Field(list(Field(str, { maxLength: 20 }) as never));
  }
  throwsFault(
    () => planOf(Items),
    'E_SCHEMA_PROBE',
    /items of a list take options without Field\(\): list\(str, /,
  );
  const key = Symbol('key');
  class Named extends Schema {
    [key] = Field(str);
  }
  throwsFault(() => planOf(Named), 'E_SCHEMA_PROBE', /symbol/);
  const shared: { field?: string } = {};
  class Twice extends Schema {
    a = (shared.field = Field(str));
    b = shared.field;
  }
  throwsFault(() => planOf(Twice), 'E_SCHEMA_PROBE', /"a" and "b" share one call/);
  throwsFault(() => planOf(class Plain {} as never), 'E_SCHEMA_PROBE', /does not extend Schema/);
});

test('Schema throws E_SCHEMA_FIELD_CALLS if the initialisers of a class call Field() differently for different data', () => {
  class Fewer extends Schema {
    a = Field(str);
    b = this.a === 'skip' ? 'none' : Field(int);
  }
  assert.equal(Fewer.parse({ a: 'x', b: 1 }).b, 1);
  throwsFault(() => Fewer.parse({ a: 'skip', b: 1 }), 'E_SCHEMA_FIELD_CALLS', /is 1, but was 2/);
  class Shifted extends Schema {
    a = Field(str);
    b = this.a === 'skip' ? 'none' : Field(str);
    c = Field(str);
  }
  throwsFault(() => Shifted.parse({ a: 'skip', b: 'b', c: 'c' }), 'E_SCHEMA_FIELD_CALLS', /is 2, but was 3/);
  throwsFault(
    () => new Shifted({ a: 'skip', b: 'b', c: 'c' }),
    'E_SCHEMA_FIELD_CALLS',
    /call number 2 of Field\(\) declared the field "b" in the first construction/,
  );
  class More extends Schema {
    a = Field(str);
    b = this.a === 'more' ? Field(str) : 'none';
  }
  assert.equal(More.parse({ a: 'x' }).b, 'none');
  throwsFault(() => More.parse({ a: 'more' }), 'E_SCHEMA_FIELD_CALLS', /exceeds 1/);
  class Other extends Schema {
    a = Field(str);
    b = this.a === 'other' ? Field(str) : Field(int);
  }
  throwsFault(() => Other.parse({ a: 'other', b: 1 }), 'E_SCHEMA_FIELD_CALLS', /declared the field "b"/);
});

test('initialisers of a schema can construct instances of other schemas', () => {
  class Outer extends Schema {
    a = Field(str);
    made = new Address({ city: this.a });
    parsed = Address.parse({ city: 'fixed' });
    b = Field(int);
    tried = Address.safeParse({});
    c = Field(str);
  }
  for (const outer of [new Outer({ a: 'x', b: 1, c: 'z' }), Outer.parse({ a: 'x', b: 1, c: 'z' })]) {
    assert.deepEqual(
      [outer.a, outer.b, outer.c, outer.made.city, outer.parsed.city, outer.tried.ok],
      ['x', 1, 'z', 'x', 'fixed', false],
    );
  }
});

test('if the constructor or an initialiser of a schema throws, later constructions of this and other schemas succeed', () => {
  const boom = (): never => {
    throw new RangeError('boom');
  };
  class Breaking extends Schema {
    a = Field(str);
    b: number = this.a === 'boom' ? boom() : 1;
    c = Field(str);
    d = Field(1);
  }
  for (const make of [
    () => new Breaking({ a: 'boom', c: 'c' }),
    () => Breaking.parse({ a: 'boom', c: 'c' }),
  ]) {
    assert.throws(make, RangeError);
    // in the same turn: not counted as calls of Breaking
    const shape = fieldsOf({ first: Field(str), page: Field(1) });
    assert.deepEqual(shape.parseJson({ first: 'x' }), { ok: true, value: { first: 'x', page: 1 } });
    assert.throws(make, RangeError);
    assert.equal(new Address({ city: 'Paris' }).city, 'Paris');
    assert.throws(make, RangeError);
    assert.equal(new Breaking({ a: 'a', c: 'c' }).c, 'c');
  }
  class Strict extends Schema {
    a = Field(int);
    constructor(data: unknown) {
      super(data);
      if (this.a === 13) throw new BadRequest('unlucky');
    }
  }
  assert.throws(() => Strict.parse({ a: 13 }), BadRequest);
  assert.equal(new Strict({ a: 12 }).a, 12);
});

test('after the initialiser of a #private member of a schema has thrown, other schemas are unaffected from the next microtask on', async () => {
  class Breaking extends Schema {
    a = Field(str);
    #b = ((): number => {
      if (this.a === 'boom') throw new RangeError('boom');
      return 1;
    })();
    c = Field(str);
    b(): number {
      return this.#b;
    }
  }
  assert.throws(() => new Breaking({ a: 'boom', c: 'c' }), RangeError);
  assert.equal(new Breaking({ a: 'a', c: 'c' }).b(), 1);
  assert.equal(Breaking.parse({ a: 'a', c: 'c' }).b(), 1);
  await null;
  assert.deepEqual(fieldsOf({ c: Field(str) }).parseJson({ c: 'x' }), { ok: true, value: { c: 'x' } });
});

test('after an initialiser has skipped the last call of Field() of its schema, other schemas are unaffected from the next microtask on', async () => {
  class Losing extends Schema {
    a = Field(str);
    b = this.a === 'skip' ? 'none' : Field(str);
  }
  new Losing({ a: 'skip', b: 'x' });
  await null;
  assert.deepEqual(fieldsOf({ b: Field(str) }).parseJson({ b: 'y' }), { ok: true, value: { b: 'y' } });
});

test('a derived schema has the fields of its base class first, and a redeclared field keeps its position', () => {
  class Base extends Schema {
    static extra = 'forbid';
    a = Field(str);
    b = Field(int);
    seen = `${this.a}/${this.b}`;
  }
  class Derived extends Base {
    override b = Field(int, { ge: 5 });
    c = Field(str, { optional: true });
  }
  assert.deepEqual(
    planOf(Derived).fields.map((field) => field.name),
    ['a', 'b', 'c'],
  );
  assert.equal(planOf(Derived).extra, 'forbid');
  assert.deepEqual({ ...Derived.parse({ a: 'x', b: 7 }) }, { a: 'x', b: 7, seen: 'x/7', c: undefined });
  assert.deepEqual({ ...new Derived({ a: 'x', b: 7, c: 'c' }) }, { a: 'x', b: 7, seen: 'x/7', c: 'c' });
  assert.deepEqual(issuesOf(Derived, { a: 'x', b: 4, z: 1 }), ['b ge', 'z extra']);
  assert.deepEqual(issuesOf(Base, { a: 'x', b: 4 }), []);
});

test('a Schema without fields accepts any object', () => {
  class Empty extends Schema {}
  assert.deepEqual({ ...new Empty({ a: 1 }) }, {});
  assert.deepEqual(issuesOf(Empty, 1), ['type']);
});

test('Schema keeps an instance that is nested in the data, and copies an instance at the top level', () => {
  const home = new Address({ city: 'Paris' });
  const user = new User({ ...ADA, home });
  assert.equal(user.home, home);
  const copy = new User(user);
  assert.notEqual(copy, user);
  assert.deepEqual(copy, user);
  class Wide extends Schema {
    static extra = 'allow';
    name = Field(str, { alias: 'n_m' });
  }
  assert.deepEqual({ ...Wide.parse(Wide.parse({ n_m: 'x', more: [1] })) }, { name: 'x', more: [1] });
});

test('Schema accepts only plain objects, including objects from another realm or with a null prototype', async () => {
  const { runInNewContext } = await import('node:vm');
  assert.equal(Address.parse(runInNewContext('({ city: "Paris" })')).city, 'Paris');
  assert.equal(Address.parse(Object.assign(Object.create(null), { city: 'Paris' })).city, 'Paris');
  for (const value of [
    null,
    undefined,
    'x',
    1,
    [],
    new Map(),
    new Date(),
    new User(ADA),
    Object.create({ city: 'x' }),
  ])
    assert.deepEqual(issuesOf(Address, value), ['type']);
});

test('Schema refuses declarations with unknown, invalid or contradictory options', () => {
  const declare = (field: () => unknown) => () => fieldsOf({ x: field() });
  throwsFault(
    declare(() => Field(str, { minLenght: 1 } as object)),
    'E_OPTION_UNKNOWN',
    /"minLenght": did you mean "minLength"/,
  );
  throwsFault(
    declare(() => Field(str, { ge: 1 } as object)),
    'E_OPTION_UNKNOWN',
    /unknown option "ge"/,
  );
  throwsFault(
    declare(() => Field(int, { ge: 'x' } as never)),
    'E_OPTION_RANGE',
    /a finite number/,
  );
  throwsFault(
    declare(() => Field(str, { minLength: -1 })),
    'E_OPTION_RANGE',
    /an integer 0/,
  );
  throwsFault(
    declare(() => Field(str, { format: 'phone' } as never)),
    'E_OPTION_RANGE',
    /"email"/,
  );
  throwsFault(
    declare(() => Field(int, { multipleOf: 0 })),
    'E_OPTION_RANGE',
    /above 0/,
  );
  throwsFault(
    declare(() => Field(str, { alias: '' })),
    'E_OPTION_RANGE',
    /not empty/,
  );
  throwsFault(
    declare(() => Field(list(str, { ge: 1 } as object))),
    'E_OPTION_UNKNOWN',
    /the items of "x" of a shape/,
  );
  throwsFault(
    declare(() => Field(str, { minLength: 3, maxLength: 2 })),
    'E_SCHEMA_FIELD',
    /above its upper bound/,
  );
  throwsFault(
    declare(() => str),
    'E_SCHEMA_FIELD',
    /not made by Field/,
  );
  for (const type of [str, list(int)])
    throwsFault(
      () =>
        planOf(
          class Named extends Schema {
            name = type;
          },
        ),
      'E_SCHEMA_FIELD',
      /"name" of Named: its value is a type, which must be passed to Field\(\)/,
    );
  throwsFault(
    declare(() => Field(int, { ge: 3, lt: 2 })),
    'E_SCHEMA_FIELD',
    /above its upper bound/,
  );
  throwsFault(
    declare(() => Field(str, { pattern: '(' })),
    'E_SCHEMA_FIELD',
    /is not a regular expression/,
  );
  throwsFault(
    declare(() => Field(str, { email: true, format: 'uri' })),
    'E_SCHEMA_FIELD',
    /another format/,
  );
  throwsFault(
    declare(() => Field('a', { default: 'b' } as object)),
    'E_SCHEMA_FIELD',
    /the option "default" is another one/,
  );
  throwsFault(
    declare(() => Field(str, { default: 'a', optional: true })),
    'E_SCHEMA_FIELD',
    /optional and has a default/,
  );
  throwsFault(
    declare(() => Field(list(str), { default: [] })),
    'E_SCHEMA_FIELD',
    /default: \(\) =>/,
  );
  throwsFault(
    declare(() => Field('', { minLength: 1 })),
    'E_SCHEMA_DEFAULT',
    /the default of the field must have at least 1 character$/,
  );
  throwsFault(
    declare(() => Field(NaN)),
    'E_SCHEMA_FIELD',
    /a finite number/,
  );
  throwsFault(
    declare(() => Field(str, 3 as never)),
    'E_SCHEMA_FIELD',
    /its options are 3/,
  );
  throwsFault(
    declare(() => Field(Map as never)),
    'E_SCHEMA_FIELD',
    /the function Map is not a type/,
  );
  throwsFault(
    declare(() => Field((() => 1) as never)),
    'E_SCHEMA_FIELD',
    /\(anonymous\)/,
  );
  throwsFault(
    declare(() => Field({} as never)),
    'E_SCHEMA_FIELD',
    /an object is not a type/,
  );
  throwsFault(
    declare(() => Field(undefined as never)),
    'E_SCHEMA_FIELD',
    /undefined is not a type/,
  );
  throwsFault(
    declare(() => Field(list({} as never))),
    'E_SCHEMA_FIELD',
    /not a type/,
  );
  throwsFault(
    declare(() => Field((literal as () => FieldType<string, PlainOptions>)())),
    'E_SCHEMA_FIELD',
    /names no value/,
  );
  throwsFault(
    declare(() => Field(literal(NaN))),
    'E_SCHEMA_FIELD',
    /cannot name NaN/,
  );
  throwsFault(
    declare(() => Field((union as (tag: string) => FieldType<string, PlainOptions>)('kind'))),
    'E_SCHEMA_FIELD',
    /names no schema/,
  );
  throwsFault(
    declare(() =>
      Field((union as (tag: string, member: unknown) => FieldType<string, PlainOptions>)('kind', {})),
    ),
    'E_SCHEMA_FIELD',
    /takes classes/,
  );
  class Circle extends Schema {
    kind = Field(literal('circle'));
  }
  throwsFault(
    declare(() => Field((union as (...members: unknown[]) => FieldType<string, PlainOptions>)(Circle))),
    'E_SCHEMA_FIELD',
    /names less than two types$/,
  );
  throwsFault(
    declare(() => Field(str, { alias: '__proto__' })),
    'E_SCHEMA_FIELD',
    /cannot be a member/,
  );
  throwsFault(
    () => fieldsOf({ x: 1 }, 'query of GET /'),
    'E_SCHEMA_FIELD',
    /"x" of query of GET \/: its value is not made by Field/,
  );
  throwsFault(
    () => fieldsOf({ a: Field(str, { alias: 'b' }), b: Field(str) }),
    'E_SCHEMA_FIELD',
    /has the same name or alias "b"/,
  );
  class Wrong extends Schema {
    static extra = 'forbit';
  }
  throwsFault(() => planOf(Wrong), 'E_OPTION_RANGE', /did you mean "forbid"/);
  class Numeric extends Schema {
    static extra = 1;
  }
  throwsFault(() => planOf(Numeric), 'E_OPTION_RANGE', /found 1$/);
});

test('isSchemaClass() returns true only for schema classes', () => {
  assert.ok(isSchemaClass(User) && isSchemaClass(Schema));
  for (const value of [String, class {}, {}, null, new User(ADA), str])
    assert.equal(isSchemaClass(value), false);
});

test('planOf() returns one object for each class, and this object describes the fields of the class', () => {
  assert.equal(planOf(User), planOf(User));
  const described = planOf(User).fields.map(
    ({ name, wireName, node, isRequired, hasDefault, isList, isSecret, isReadOnly }) => ({
      name,
      wireName,
      kind: node.kind,
      isRequired,
      hasDefault,
      isList,
      isSecret,
      isReadOnly,
    }),
  );
  assert.deepEqual(described[0], {
    name: 'name',
    wireName: 'name',
    kind: 'str',
    isRequired: true,
    hasDefault: false,
    isList: false,
    isSecret: false,
    isReadOnly: false,
  });
  assert.deepEqual(
    described.map(({ kind }) => kind),
    ['str', 'str', 'int', 'str', 'literal', 'list', 'object'],
  );
  assert.deepEqual(
    described.map(({ isRequired }) => isRequired),
    [true, true, true, false, false, false, true],
  );
  assert.deepEqual(planOf(User).fields[0]!.node.constraints, { minLength: 2, maxLength: 40 });
  assert.deepEqual(
    [...plansOf(planOf(User))].map((plan) => plan.name),
    ['User', 'Address'],
  );
  assert.equal(
    planOf(
      class extends Schema {
        a = Field(str);
      },
    ).name,
    'Schema',
  );
});

// ── JSON ──

test('values of JSON input are never converted to another type', () => {
  const good: [TypeSource, unknown[]][] = [
    [str, ['', 'x', '😀']],
    [int, [0, -0, 5, 2 ** 53 - 1, -(2 ** 53 - 1), 1.0]],
    [float, [0, 0.5, -1e300, 1e21]],
    [bool, [true, false]],
    [any, [null, 1, 'x', [1, { a: null }], true]],
    [date, ['2024-02-29', '0000-01-01']],
    [uuid, ['123e4567-e89b-12d3-a456-426614174000']],
    [nullable(int), [null, 1]],
    [literal('a', 1, null), ['a', 1, null]],
    [String, ['x']],
    [Number, [0.5]],
    [Boolean, [true]],
  ];
  for (const [source, values] of good)
    for (const value of values) assert.deepEqual(valueOf(source, value), value);
  const bad: [TypeSource, unknown[], string][] = [
    [str, [1, null, true, [], {}, undefined], 'type'],
    [int, ['3', null, true, 1.5, NaN, Infinity, [], 3n], 'type'],
    [int, [2 ** 53, 2 ** 53 + 1, -(2 ** 53)], 'unsafe_integer'],
    [float, ['1', NaN, -Infinity, null], 'type'],
    [bool, [0, 1, 'true', null], 'type'],
    [any, [NaN, undefined, () => 1, Symbol('x'), new Map(), 1n], 'type'],
    [date, [1, null, new Date()], 'type'],
    [
      date,
      [
        '2023-02-29',
        '2024-13-01',
        '2024-00-10',
        '2024-01-00',
        '2024-1-1',
        '20240101',
        '',
        '1900-02-29',
        '2024-01-01T00:00:00Z',
      ],
      'format',
    ],
    [
      uuid,
      ['', '123e4567e89b12d3a456426614174000', 'urn:uuid:123e4567-e89b-12d3-a456-426614174000'],
      'format',
    ],
    [uuid, [1], 'type'],
    [datetime, [1, null, true], 'type'],
    [bytes, [1, [1], null], 'type'],
    [list(str), [{}, 'x', null, { length: 1 }], 'type'],
    [record(str), [[], 'x', null, new Map()], 'type'],
    [literal('a'), ['b', null, 1, ['a']], 'enum'],
    [file, ['x', {}, null], 'type'],
    [Address, ['x', null, []], 'type'],
  ];
  for (const [source, values, code] of bad)
    for (const value of values)
      assert.deepEqual(issuesOf(source, value), [code], `${inspect(source)} ${inspect(value)}`);
});

test('datetime accepts texts of RFC 3339 that have an offset', () => {
  const moment = (text: string): string => valueOf(datetime, text).toISOString();
  assert.equal(moment('2026-01-31T09:30:00Z'), '2026-01-31T09:30:00.000Z');
  assert.equal(moment('2026-01-31t09:30:00.123456z'), '2026-01-31T09:30:00.123Z');
  assert.equal(moment('2026-01-31T09:30:00.5+05:30'), '2026-01-31T04:00:00.500Z');
  assert.equal(moment('2026-01-01T00:30:00-00:00'), '2026-01-01T00:30:00.000Z');
  assert.equal(moment('2016-12-31T23:59:60Z'), '2017-01-01T00:00:00.000Z');
  assert.equal(moment('2017-01-01T00:59:60+01:00'), '2017-01-01T00:00:00.000Z');
  assert.equal(moment('0001-01-01T00:00:00Z'), '0001-01-01T00:00:00.000Z');
  for (const text of [
    '2026-01-31T09:30:00',
    '2026-01-31 09:30:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T23:60:00Z',
    '2026-01-31T12:00:60Z',
    '2026-01-31T23:59:61Z',
    '2026-02-30T00:00:00Z',
    '2026-01-31T09:30Z',
    '2026-01-31T09:30:00+0530',
    '2026-01-31T09:30:00+24:00',
    '2026-01-31T09:30:00+05:60',
    '2026-01-31',
    '',
    '0000-01-01T00:00:00+01:00',
    '9999-12-31T23:59:59-01:00',
    `2026-01-31T09:30:00.${'1'.repeat(60)}Z`,
  ]) {
    assert.deepEqual(issuesOf(datetime, text), ['format'], text);
  }
  const when = new Date();
  assert.equal(valueOf(datetime, when), when);
  assert.deepEqual(issuesOf(datetime, new Date(NaN)), ['format']);
});

test('a record omits members that are undefined, and does not count them', () => {
  assert.deepEqual(valueOf(record(int), { a: undefined, b: 1 }), { b: 1 });
  assert.deepEqual(issuesOfField(Field(record(any), { minLength: 1 }), { a: undefined }), ['min_length']);
  assert.deepEqual(issuesOfField(Field(record(any), { maxLength: 1 }), { a: undefined, b: 1 }), []);
});

test('the type bytes refuses characters outside the base64 alphabet, although Buffer.from() ignores them', () => {
  const refused = ['水YYa', '\u0141YYa', 'AA\u{1f600}', 'QUJ=QUJD', 'QQ=A', 'A===', 'QU\nD', '====', ' QUJ'];
  for (const text of refused) assert.deepEqual(issuesOf(bytes, text), ['format'], text);
  for (let unit = 0; unit < 0x1_0000; unit++) {
    const isBase64 = /[A-Za-z0-9+/]/.test(String.fromCharCode(unit));
    const text = `${String.fromCharCode(unit)}AAA`;
    if (isBase64 !== compileType(bytes).parseJson(text).ok) assert.fail(`U+${unit.toString(16)}`);
  }
});

test('values of type bytes are decoded from padded base64 into memory that no other value shares', () => {
  assert.deepEqual(valueOf(bytes, 'QUJD'), new Uint8Array([65, 66, 67]));
  assert.deepEqual(valueOf(bytes, ''), new Uint8Array());
  assert.equal(valueOf(bytes, 'QQ==').buffer.byteLength, 1);
  for (const text of ['QUI', 'Q', 'QU-_', 'QUJD\n', ' QUJ', 'Q===', 'QQ=A', '=QQQ', '====', 'QUJ*'])
    assert.deepEqual(issuesOf(bytes, text), ['format'], text);
  assert.deepEqual(issuesOfField(Field(bytes, { minLength: 2 }), 'QQ=='), ['min_length']);
  assert.deepEqual(issuesOfField(Field(bytes, { maxLength: 2 }), 'QUJD'), ['max_length']);
  const given = new Uint8Array([1]);
  assert.equal(valueOf(bytes, given), given);
});

test('the type str counts its length in code points and refuses lone surrogates', () => {
  const two = (): unknown => Field(str, { minLength: 2, maxLength: 3 });
  for (const [text, found] of [
    ['😀', ['min_length']],
    ['😀😀', []],
    ['😀😀😀', []],
    ['😀😀😀😀', ['max_length']],
    ['a', ['min_length']],
    ['abcd', ['max_length']],
    ['e\u0301a', []],
  ] as const)
    assert.deepEqual(issuesOfField(two(), text), found, text);
  for (const text of ['\ud800', 'a\udc00', '\udc00\ud800', 'x'.repeat(40) + '\ud83d'])
    assert.deepEqual(issuesOf(str, text), ['unicode']);
  assert.deepEqual(issuesOf(any, { a: ['\ud800'] }), ['a.0 unicode']);
  assert.deepEqual(
    issuesOf(any, { '\ud800': 1 }).map((issue) => issue.isWellFormed()),
    [true],
  );
  assert.deepEqual(issuesOf(record(int), { '\ud800': 1 }).length, 1);
});

test('numbers outside their declared bounds are refused', () => {
  const cases: [unknown, number, string[]][] = [
    [Field(int, { ge: 1 }), 0, ['ge']],
    [Field(int, { le: 1 }), 2, ['le']],
    [Field(float, { gt: 1 }), 1, ['gt']],
    [Field(float, { lt: 1 }), 1, ['lt']],
    [Field(int, { gt: 0, lt: 2 }), 1, []],
    [Field(float, { ge: 0, le: 1 }), 1.0001, ['le']],
    [Field(float, { ge: 0 }), -0, []],
    [Field(float, { ge: 0.5 }), 0.25, ['ge']],
    [Field(int, { multipleOf: 3 }), 9, []],
    [Field(int, { multipleOf: 3 }), 10, ['multiple_of']],
    [Field(float, { multipleOf: 0.1 }), 0.3, []],
    [Field(float, { multipleOf: 0.1 }), 0.35, ['multiple_of']],
    [Field(float, { multipleOf: 0.01 }), 1.13, []],
    [Field(float, { multipleOf: 1e-7 }), 3e-7, []],
    [Field(float, { multipleOf: 1e300 }), 0.5, ['multiple_of']],
    [Field(float, { multipleOf: 0.5 }), 1e21, []],
  ];
  for (const [field, value, found] of cases)
    assert.deepEqual(issuesOfField(field, value), found, `${inspect(field)} ${value}`);
});

test('each format accepts texts that are valid in JSON Schema and refuses invalid ones', () => {
  const cases: Record<string, [good: string[], bad: string[]]> = {
    email: [
      [
        'a@b.co',
        "o'hara+x@sub.example-site.org",
        `${'a'.repeat(64)}@example.com`,
        `a@${'b'.repeat(63)}.${'c'.repeat(63)}.co`,
      ],
      [
        `${'a'.repeat(65)}@example.com`,
        `${'a.'.repeat(32)}a@example.com`,
        `a@${'b'.repeat(64)}.co`,
        `a@x.${'b'.repeat(30)}-${'c'.repeat(33)}`,
        '',
        'a',
        'a@b',
        '@b.co',
        'a@',
        'a@@b.co',
        'a b@c.de',
        '.a@b.co',
        'a.@b.co',
        'a..b@c.de',
        'a@-b.co',
        'a@b-.co',
        'a@b..co',
        'a@b.co\n',
        `${'a'.repeat(250)}@b.co`,
        'é@b.co',
      ],
    ],
    uuid: [['123E4567-e89b-12d3-a456-426614174000'], ['123e4567-e89b-12d3-a456-42661417400g']],
    date: [['2000-02-29'], ['1900-02-29']],
    'date-time': [['2026-01-31T09:30:00Z', '0000-01-01T00:00:00+01:00'], ['2026-01-31T09:30:00']],
    time: [
      ['09:30:00Z', '23:59:60Z', '00:00:00.1+01:00'],
      ['09:30:00', '24:00:00Z', '9:30:00Z'],
    ],
    uri: [
      ['http://a.b/c?d=e#f', 'urn:isbn:1', 'mailto:a@b.co', 'http://[::1]:80/', 'https://u:p@h:1/%20', 'a:'],
      [
        '',
        '/a',
        'a b:c',
        'http://a b',
        'http://a/%zz',
        'http://é',
        '1a:b',
        'http://[::1',
        'a:[b]',
        'http://a]b/',
      ],
    ],
    hostname: [
      ['a', 'a.b-c.de', 'x'.repeat(63)],
      ['', '-a', 'a-', 'a..b', 'x'.repeat(64), 'a_b', `${'a.'.repeat(127)}a.b`],
    ],
    ipv4: [
      ['0.0.0.0', '255.255.255.255'],
      ['256.1.1.1', '1.1.1', '01.1.1.1', '1.1.1.1.1'],
    ],
    ipv6: [
      ['::', '::1', '1::', '1:2:3:4:5:6:7:8', '::ffff:1.2.3.4', '1:2:3:4:5:6:1.2.3.4', 'fe80::1:2'],
      [
        '',
        ':',
        ':::',
        '1::2::3',
        '1:2:3:4:5:6:7',
        '1:2:3:4:5:6:7:8:9',
        '12345::',
        '::1.2.3',
        '1.2.3.4::',
        'g::',
        '1:2:3:4:5:6:7::8',
      ],
    ],
  };
  for (const [format, [good, bad]] of Object.entries(cases)) {
    const field = Field(str, { format: format as 'email' });
    for (const text of good) assert.deepEqual(issuesOfField(field, text), [], `${format} ${text}`);
    for (const text of bad)
      assert.deepEqual(
        issuesOfField(field, text),
        [format === 'email' ? 'email' : 'format'],
        `${format} ${text}`,
      );
  }
});

test('the pattern of a field may match anywhere in a text, "." matches one code point, and the flag "g" keeps no state between calls', () => {
  const matches = (pattern: string | RegExp, text: string): boolean =>
    issuesOfField(Field(str, { pattern }), text).length === 0;
  assert.ok(matches('b', 'abc') && matches(/^a.c$/, 'a😀c') && matches('^.$', '😀'));
  assert.ok(
    !matches('^b', 'abc') &&
      matches(/B/i, 'abc') &&
      matches(/^b/m, 'a\nb') &&
      matches(/^[\p{L}--[a-z]]$/v, 'Ä'),
  );
  const field = fieldsOf({ x: Field(str, { pattern: /a/gy }) });
  for (let i = 0; i < 4; i++) assert.ok(field.parseJson({ x: 'a' }).ok);
  assert.ok(matches(/\-/, 'a-b')); // invalid with the flag u, so the pattern is left unchanged
});

test('the issue of a literal() with many values lists only the first twenty', () => {
  const many = Array.from({ length: 30 }, (_, i) => `v${i}`) as [string, ...string[]];
  assert.deepEqual(issuesOf(literal(...many), 'v29'), []);
  const result = compileType(literal(...many)).parseJson('nope');
  assert.ok(!result.ok);
  assert.match(result.issues[0]!.message, /^must be one of "v0", .*"v19", …$/);
});

test('list() and record() check their size before they check their content', () => {
  const numbers = (): unknown => Field(list(int), { minLength: 1, maxLength: 2 });
  assert.deepEqual(issuesOfField(numbers(), []), ['min_length']);
  assert.deepEqual(issuesOfField(numbers(), ['x', 'x', 'x']), ['max_length']);
  assert.deepEqual(issuesOfField(numbers(), ['x', 1]), ['type']);
  assert.deepEqual(issuesOfField(Field(record(int), { minLength: 1 }), {}), ['min_length']);
  assert.deepEqual(issuesOfField(Field(record(int), { maxLength: 1 }), { a: 1, b: 2 }), ['max_length']);
  assert.deepEqual(issuesOf(list(str, { maxLength: 1 }), ['a', 'bb']), ['1 max_length']);
  assert.deepEqual(issuesOf(record(nullable(int), { ge: 0 }), { a: -1, b: null, c: 0 }), ['a ge']);
  const given = ['a'];
  assert.notEqual(valueOf(list(str), given), given);
});

test('nullable() applies the options of Field() to the inner type', () => {
  assert.deepEqual(issuesOfField(Field(nullable(str), { maxLength: 1 }), null), []);
  assert.deepEqual(issuesOfField(Field(nullable(str), { maxLength: 1 }), 'ab'), ['max_length']);
  assert.deepEqual(
    issuesOfField(
      Field(
        lazy(() => nullable(int)),
        { ge: 1 },
      ),
      0,
    ),
    ['ge'],
  );
});

test('a missing member is an issue if it is required, and otherwise becomes undefined or its default', () => {
  const plan = fieldsOf({
    a: Field(str),
    b: Field(str, { optional: true }),
    c: Field('d'),
    e: Field(list(int), { default: () => [1] }),
    n: Field(nullable(str), { default: null }),
  });
  assert.deepEqual(plan.parseJson({ a: 'x' }), {
    ok: true,
    value: { a: 'x', b: undefined, c: 'd', e: [1], n: null },
  });
  assert.deepEqual(plan.parseJson({ a: 'x', b: undefined, c: undefined }), {
    ok: true,
    value: { a: 'x', b: undefined, c: 'd', e: [1], n: null },
  });
  const result = plan.parseJson({ b: null, c: null });
  assert.deepEqual(!result.ok && result.issues.map(({ loc, code }) => [loc[0], code]), [
    ['a', 'required'],
    ['b', 'type'],
    ['c', 'type'],
  ]);
  const first = plan.parseJson({ a: 'x' }),
    second = plan.parseJson({ a: 'x' });
  assert.ok(first.ok && second.ok && first.value.e !== second.value.e);
});

test('the alias of a field is its name in input, output and issues', () => {
  class Aliased extends Schema {
    userName = Field(str, { alias: 'user_name' });
  }
  assert.equal(Aliased.parse({ user_name: 'x' }).userName, 'x');
  assert.deepEqual(issuesOf(Aliased, { userName: 'x' }), ['user_name required']);
  assert.equal(JSON.stringify(new Aliased({ user_name: 'x' })), '{"user_name":"x"}');
});

test('readOnly members are ignored in input', () => {
  class Stored extends Schema {
    id = Field(int, { readOnly: true });
    made = Field(int, { readOnly: true, default: 7 });
    name = Field(str);
  }
  assert.deepEqual(
    { ...Stored.parse({ id: 'anything', made: 1, name: 'x' }) },
    { id: undefined, made: 7, name: 'x' },
  );
  assert.deepEqual(planOf(Stored).parseText({ id: '5', name: 'x' }), {
    ok: true,
    value: Stored.parse({ name: 'x' }),
  });
});

test('the static property "extra" decides whether undeclared members are ignored, refused or kept', () => {
  class Ignoring extends Schema {
    a = Field(int);
  }
  class Forbidding extends Ignoring {
    static extra = 'forbid';
  }
  class Allowing extends Ignoring {
    static extra = 'allow';
    own = 1;
    get twice(): number {
      return this.a * 2;
    }
  }
  assert.deepEqual({ ...Ignoring.parse({ a: 1, b: 2 }) }, { a: 1 });
  assert.deepEqual(issuesOf(Forbidding, { a: 1, b: 2, c: 3 }), ['b extra', 'c extra']);
  assert.deepEqual({ ...Allowing.parse({ a: 1, b: { c: [2] } }) }, { b: { c: [2] }, a: 1, own: 1 });
  assert.deepEqual({ ...new Allowing({ a: 1, b: 2 }) }, { b: 2, a: 1, own: 1 });
  assert.deepEqual(issuesOf(Allowing, JSON.parse('{"a":1,"twice":9,"own":2,"toJSON":2,"b":"\\ud800"}')), [
    'twice key',
    'own key',
    'toJSON key',
    'b unicode',
  ]);
});

test('a member __proto__ in the input never changes a prototype', () => {
  const input: unknown = JSON.parse('{"city":"Paris","__proto__":{"polluted":true}}');
  assert.equal((Address.parse(input) as { polluted?: boolean }).polluted, undefined);
  const kept = valueOf(any, JSON.parse('{"a":{"__proto__":{"polluted":true}}}')) as {
    a: { polluted?: boolean };
  };
  assert.deepEqual(Object.keys(kept.a), ['__proto__']);
  assert.equal(kept.a.polluted, undefined);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  const shape = fieldsOf({ a: Field(str, { optional: true }) });
  assert.deepEqual(shape.parseText(JSON.parse('{"__proto__":"x"}')), { ok: true, value: { a: undefined } });
  throwsFault(() => fieldsOf(JSON.parse('{"__proto__":1}')), 'E_SCHEMA_FIELD', /__proto__/);
});

test('record() and extra "allow" keep names such as __proto__ as data, and change no prototype', () => {
  class Open extends Schema {
    static extra = 'allow';
    a = Field(int);
  }
  class Box extends Schema {
    open = Field(Open);
    map = Field(record(record(any)));
  }
  const odd = '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1';
  const text = `{"open":{${odd},"a":1},"map":{"__proto__":{${odd}},"constructor":{"__proto__":null}}}`;
  const parsed = Box.parse(JSON.parse(text));
  const copied = new Box(JSON.parse(text));
  const again = new Box(parsed);
  const stored = rowReading(planOf(Box) as never, ['open', 'map'], { snakeCase: false, jsonText: 'all' });
  const { open, map } = JSON.parse(text) as { open: unknown; map: unknown };
  const row = stored.check({ open: JSON.stringify(open), map: JSON.stringify(map) }, new Run(false, false));
  const wide = rowReading(planOf(Open) as never, ['a', '__proto__', 'toString'], {
    snakeCase: false,
    jsonText: 'none',
  }).check(JSON.parse('{"a":1,"__proto__":{"polluted":true},"toString":"x"}'), new Run(false, false)) as Open;
  for (const box of [parsed, copied, again, row as Box]) {
    assert.deepEqual(JSON.parse(JSON.stringify(box)), JSON.parse(text));
    assert.deepEqual(compileSerializer(Box).toJson(box), { ok: true, value: JSON.stringify(box) });
    assert.equal(Object.getPrototypeOf(box.open), Open.prototype);
    assert.equal(Object.getPrototypeOf(box.map), Object.prototype);
    assert.equal(
      Object.getPrototypeOf(Object.getOwnPropertyDescriptor(box.map, '__proto__')!.value),
      Object.prototype,
    );
    assert.deepEqual(Object.keys(box.open).sort(), ['__proto__', 'a', 'constructor', 'toString']);
    assert.match(inspect(box), /polluted/);
  }
  assert.equal(Object.getPrototypeOf(wide), Open.prototype);
  assert.deepEqual(Object.keys(wide), ['__proto__', 'toString', 'a']);
  assert.deepEqual(planOf(Open).parseText(new URLSearchParams('a=1&__proto__=x&constructor=y')), {
    ok: true,
    value: Open.parse(JSON.parse('{"a":1,"__proto__":"x","constructor":"y"}')),
  });
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  assert.equal((function () {} as { polluted?: boolean }).polluted, undefined);
});

test('a member named like an inherited property, such as constructor, is read only if the input itself has it', () => {
  const plan = fieldsOf({ constructor: Field(str, { optional: true }), toString: Field('none') });
  assert.deepEqual(plan.parseJson({}), { ok: true, value: { constructor: undefined, toString: 'none' } });
  assert.deepEqual(plan.parseText({}), { ok: true, value: { constructor: undefined, toString: 'none' } });
  assert.deepEqual(plan.parseJson({ constructor: 'x' }), {
    ok: true,
    value: { constructor: 'x', toString: 'none' },
  });
});

test('union() selects the schema whose tag equals the tag of the value', () => {
  class Cat extends Schema {
    kind = Field(literal('cat'));
    lives = Field(9);
  }
  class Dog extends Schema {
    kind = Field(literal('dog', 'puppy'));
    name = Field(str);
  }
  const pets = list(union('kind', Cat, Dog));
  const [cat, dog] = valueOf(pets, [{ kind: 'cat' }, { kind: 'puppy', name: 'Rex' }]);
  assert.ok(cat instanceof Cat && cat.lives === 9 && dog instanceof Dog);
  assert.deepEqual(issuesOf(pets, [{}, { kind: 'emu' }, { kind: 'dog' }, 1, null, Object.create(null)]), [
    '0.kind required',
    '1.kind enum',
    '2.name required',
    '3 type',
    '4 type',
    '5.kind required',
  ]);
  assert.equal(valueOf(pets, [cat])[0], cat);
  assert.deepEqual(
    [...plansOf(fieldsOf({ p: Field(pets) }))].map((plan) => plan.name),
    ['a shape', 'Cat', 'Dog'],
  );
});

test('union() refuses schemas that cannot be distinguished by their tags', () => {
  class A extends Schema {
    kind = Field(literal('a'));
  }
  class B extends Schema {
    kind = Field(literal('a'));
  }
  class C extends Schema {
    kind = Field(str);
  }
  class D extends Schema {
    kind = Field(literal('d'), { alias: 'type' });
  }
  const use = (type: unknown) => () => compileType(type as TypeSource).parseJson({});
  throwsFault(use(union('kind', A, B)), 'E_SCHEMA_FIELD', /same value of the tag "kind": "a"/);
  throwsFault(
    use(union('kind', A, C as never)),
    'E_SCHEMA_FIELD',
    /write kind = Field\(literal\(.….\)\) in C/,
  );
  throwsFault(use(union('kind', A, D)), 'E_SCHEMA_FIELD', /different aliases/);
});

test('a schema may contain itself, by lazy() or by name', () => {
  class Tree extends Schema {
    value = Field(int);
    children: Tree[] = Field(list(lazy(() => Tree)), { default: () => [] });
    parent: Tree | undefined = Field(Tree, { optional: true });
  }
  const tree = Tree.parse({
    value: 1,
    children: [{ value: 2, children: [{ value: 3 }] }],
    parent: { value: 0 },
  });
  assert.ok(tree.children[0]!.children[0] instanceof Tree);
  assert.deepEqual(issuesOf(Tree, { value: 1, children: [{ value: 2, children: [{ value: 'x' }] }] }), [
    'children.0.children.0.value type',
  ]);
  assert.equal(plansOf(planOf(Tree)).size, 1);
  type Json = { [name: string]: Json } | number;
  const json: FieldType<Json, PlainOptions> = lazy(() => record(json)) as FieldType<Json, PlainOptions>;
  assert.deepEqual(issuesOf(json, { a: { b: {} } }), []);
  assert.deepEqual(issuesOf(json, { a: { b: 1 } }), ['a.b type']);
});

test('lazy() may refer to a class that is declared later', () => {
  class First extends Schema {
    next: object = Field(lazy(() => Later));
  }
  assert.equal(planOf(First).fields.length, 1);
  class Later extends Schema {
    a = Field(int);
  }
  assert.deepEqual(issuesOf(First, { next: { a: 'x' } }), ['next.a type']);
});

// ── hostile input ──

test('JSON input that is nested 100,000 deep is an issue and causes no stack overflow', () => {
  class Deep extends Schema {
    inner: Deep | undefined = Field(
      lazy(() => Deep),
      { optional: true },
    );
  }
  let chain: object = {},
    lists: unknown[] = [],
    members: object = {};
  for (let i = 0; i < 100_000; i++) [chain, lists, members] = [{ inner: chain }, [lists], { m: members }];
  const type: FieldType<unknown[], object> = lazy(() => list(type)) as FieldType<unknown[], object>;
  const map: FieldType<object, object> = lazy(() => record(map)) as FieldType<object, object>;
  for (const [source, value] of [
    [Deep, chain],
    [type, lists],
    [map, members],
    [any, lists],
    [any, members],
  ] as const) {
    const result = compileType(source as TypeSource).parseJson(value, 'body');
    assert.ok(!result.ok);
    assert.equal(result.issues[0]!.code, 'depth');
    assert.equal(result.issues[0]!.loc.length, 65);
  }
  let allowed: object = {};
  for (let i = 0; i < 63; i++) allowed = { inner: allowed };
  assert.deepEqual(issuesOf(Deep, allowed), []);
  for (const value of [chain, lists]) assert.equal(compileSerializer(any).toJson(value).ok, false);
  assert.equal(compileSerializer(Deep).toJson(chain).ok, false);
});

test('each member of the input is read once, at any depth and in whatever order the members stand', () => {
  class Chain extends Schema {
    a = Field(int);
    next: Chain | undefined = Field(
      lazy(() => Chain),
      { optional: true },
    );
    b = Field(int);
    c = Field(int);
  }
  let reads = 0;
  const counted = (members: Readonly<Record<string, unknown>>): object =>
    Object.defineProperties(
      {},
      Object.fromEntries(
        Object.entries(members).map(([name, value]) => [
          name,
          { enumerable: true, get: () => (reads++, value) },
        ]),
      ),
    );
  let chain = counted({ c: 3, a: 1, b: 2 });
  for (let i = 0; i < 62; i++) chain = counted({ c: 3, next: chain, b: 2, a: 1 });
  assert.deepEqual(issuesOf(Chain, chain), []);
  assert.equal(reads, 3 + 62 * 4);
  assert.deepEqual(issuesOf(Chain, { c: 'x', b: 'x', a: 'x', z: 1 }), ['a type', 'b type', 'c type']);
});

test('if a value has more than 100 problems, the issues list the first 100, and a last issue says that there are more', () => {
  const many = Array.from({ length: 100_000 }, () => 'x');
  for (const source of [list(int), any]) {
    const value = source === any ? many.map(() => NaN) : many;
    const result = compileType(source).parseJson(value, 'body');
    assert.ok(!result.ok);
    assert.equal(result.issues.length, 101);
    assert.deepEqual(result.issues.at(-1), {
      loc: ['body'],
      code: 'more',
      message: 'has more than 100 problems, of which only the first 100 are listed',
    });
    assert.deepEqual(result.issues[99]!.loc, ['body', 99]);
  }
  const members = Object.fromEntries(many.map((_, i) => [`k${i}`, NaN]));
  class Forbidding extends Schema {
    static extra = 'forbid';
  }
  for (const source of [record(int), any, Forbidding]) assert.equal(issuesOf(source, members).length, 101);
  assert.deepEqual(issuesOf(list(int), many.slice(0, 100)).length, 100);
});

test('lists of 100,000 items and texts of 1,000,000 characters are validated', () => {
  assert.equal(
    valueOf(
      list(int),
      Array.from({ length: 100_000 }, (_, i) => i),
    ).length,
    100_000,
  );
  const long = 'x'.repeat(1_000_000);
  assert.deepEqual(issuesOf(str, long), []);
  assert.deepEqual(issuesOfField(Field(str, { maxLength: 999_999 }), long), ['max_length']);
  for (const format of ['email', 'uri', 'uuid', 'date', 'date-time', 'hostname', 'ipv6', 'time'] as const)
    assert.equal(issuesOfField(Field(str, { format }), long).length, 1);
  for (const text of [
    `a@${'a.'.repeat(125)}`,
    `a@${'a-'.repeat(125)}`,
    `${'a.'.repeat(126)}@`,
    `http://${'a'.repeat(8_000)} `,
    `${'a.'.repeat(125)}-`,
  ])
    for (const format of ['email', 'uri', 'hostname'] as const)
      assert.equal(issuesOfField(Field(str, { format }), text).length, 1, text.slice(0, 20));
  assert.equal(valueOf(bytes, 'QUJD'.repeat(250_000)).length, 750_000);
});

test('in the path of an issue, a long member name is shortened, and a malformed member name is made well-formed Unicode', () => {
  class Forbidding extends Schema {
    static extra = 'forbid';
  }
  const result = Forbidding.safeParse({ ['k'.repeat(1_000_000)]: 1, 'a\ud800': 2 });
  assert.ok(!result.ok);
  assert.deepEqual(
    result.issues.map(({ loc }) => String(loc[0]).length),
    [129, 3],
  );
  assert.ok(result.issues.every(({ loc }) => String(loc[0]).isWellFormed()));
});

test('validation never changes its input', () => {
  const freeze = <T>(value: T): T =>
    typeof value === 'object' && value !== null
      ? Object.freeze(Object.values(value).forEach(freeze) ?? value)
      : value;
  class Wide extends Schema {
    static extra = 'allow';
    a = Field(list(Address));
    b = Field(record(any));
  }
  const input = freeze({ a: [{ city: 'x' }], b: { c: [1] }, d: { e: 1 } });
  assert.deepEqual(JSON.parse(JSON.stringify(Wide.parse(input))), { ...input, a: [{ city: 'x' }] });
});

// ── text ──

test('text from a query or form is converted to the type of its field', () => {
  const cases: [unknown, string, unknown][] = [
    [Field(str), '3', '3'],
    [Field(str), '', ''],
    [Field(int), '42', 42],
    [Field(int), '-7', -7],
    [Field(int), '9007199254740991', 2 ** 53 - 1],
    [Field(float), '1.5e3', 1500],
    [Field(float), '-0.25', -0.25],
    [Field(bool), 'true', true],
    [Field(bool), '0', false],
    [Field(bool), '1', true],
    [Field(bool), 'false', false],
    [Field(literal('a', 1, true, null)), '1', 1],
    [Field(literal('a', 1, true, null)), 'true', true],
    [Field(literal('a', 1, true, null)), 'null', null],
    [Field(date), '2024-02-29', '2024-02-29'],
    [Field(datetime), '2026-01-31T09:30:00Z', new Date('2026-01-31T09:30:00Z')],
    [Field(bytes), 'QQ==', new Uint8Array([65])],
    [Field(any), 'x', 'x'],
    [Field(nullable(int)), '5', 5],
    [Field(nullable(int)), '', null],
    [Field(nullable(str)), '', ''],
    [Field(lazy(() => int)), '5', 5],
    [Field(1), '5', 5],
    [Field(false), '1', true],
    [Field(list(int)), '5', [5]],
    [Field(list(nullable(int))), '5', [5]],
    [Field(nullable(list(int))), '5', [5]],
    [Field(list(lazy(() => int))), '5', [5]],
    [Field(lazy(() => list(int))), '5', [5]],
  ];
  for (const [field, text, value] of cases) assert.deepEqual(readText(field, { x: text }), value, text);
  assert.ok(Object.is(readText(Field(int), { x: '-0' }), -0));
});

test('text from a query or form that cannot be converted to the type of its field is an issue', () => {
  const cases: [unknown, string, string][] = [
    [Field(int), '1.0', 'x type'],
    [Field(int), '', 'x type'],
    [Field(int), '01', 'x type'],
    [Field(int), '+1', 'x type'],
    [Field(int), ' 1', 'x type'],
    [Field(int), '1e3', 'x type'],
    [Field(int), '0x10', 'x type'],
    [Field(int), 'NaN', 'x type'],
    [Field(int), '9007199254740992', 'x unsafe_integer'],
    [Field(int), '9'.repeat(100_000), 'x type'],
    [Field(int, { ge: 5 }), '4', 'x ge'],
    [Field(float), 'Infinity', 'x type'],
    [Field(float), '1e999', 'x type'],
    [Field(float), '.5', 'x type'],
    [Field(float), '1,5', 'x type'],
    [Field(bool), 'TRUE', 'x type'],
    [Field(bool), 'yes', 'x type'],
    [Field(bool), 'on', 'x type'],
    [Field(bool), '', 'x type'],
    [Field(literal('a')), 'b', 'x enum'],
    [Field(str, { minLength: 2 }), 'a', 'x min_length'],
    [Field(uuid), '', 'x format'],
    [Field(list(int)), 'x', 'x.0 type'],
    [Field(Address), '{}', 'x type'],
    [Field(record(str)), 'a', 'x type'],
    [Field(list(list(str))), 'a', 'x.0 type'],
    [Field(file), 'a', 'x type'],
    [Field(str), '\ud800', 'x unicode'],
  ];
  for (const [field, text, found] of cases)
    assert.deepEqual(readText(field, { x: text }), found, text.slice(0, 20));
});

test('an empty text from a query or form counts as missing if its field is optional and not a string', () => {
  assert.equal(readText(Field(int, { optional: true }), { x: '' }), undefined);
  assert.equal(readText(Field(5), { x: '' }), 5);
  assert.equal(readText(Field(bool, { default: true }), { x: '' }), true);
  assert.equal(readText(Field(str, { optional: true }), { x: '' }), '');
  assert.equal(readText(Field('d'), { x: '' }), '');
  assert.equal(readText(Field(literal('', 'a'), { optional: true }), { x: '' }), '');
  assert.equal(readText(Field(literal('a'), { optional: true }), { x: '' }), undefined);
  assert.deepEqual(readText(Field(list(str), { default: () => [] }), { x: '' }), ['']);
  assert.deepEqual(readText(Field(list(int), { default: () => [] }), { x: '' }), []);
  assert.equal(
    readText(
      Field(
        lazy(() => int),
        { optional: true },
      ),
      { x: '' },
    ),
    undefined,
  );
  assert.equal(readText(Field(nullable(int), { optional: true }), { x: '' }), undefined);
});

test('a repeated name in a query or form becomes a list, and is refused if the type of its field is not a list', () => {
  assert.deepEqual(readText(Field(list(int)), { x: ['1', '2'] }), [1, 2]);
  assert.equal(readText(Field(int), { x: ['1', '2'] }), 'x repeated');
  assert.equal(readText(Field(int), { x: ['1'] }), 1);
  assert.deepEqual(readText(Field(any), { x: ['1', '2'] }), ['1', '2']);
  assert.equal(readText(Field(list(int)), { x: ['1', 'b'] }), 'x.1 type');
  assert.equal(readText(Field(list(int)), {}), 'x required');
  assert.equal(readText(Field(list(int), { maxLength: 1 }), { x: ['1', '2'] }), 'x max_length');
});

test('text for a list with separator "," is split at commas, and its name may also be repeated in the query or form', () => {
  const ids = Field(list(int), { separator: ',', maxLength: 3 });
  assert.deepEqual(readText(ids, { x: '1,2' }), [1, 2]);
  assert.deepEqual(readText(ids, { x: ['1,2', '3'] }), [1, 2, 3]);
  assert.equal(readText(ids, { x: '1,,2' }), 'x.1 type');
  assert.equal(readText(ids, { x: '1,b' }), 'x.1 type');
  assert.equal(readText(ids, { x: '1,2,3,4' }), 'x max_length');
  assert.deepEqual(readText(ids, { x: '' }), []);
  assert.equal(readText(ids, {}), 'x required');
  assert.deepEqual(readText(Field(list(str), { separator: ',' }), { x: 'a,,b ' }), ['a', '', 'b ']);
  assert.deepEqual(readText(Field(list(str), { separator: ',' }), { x: '' }), []);
  assert.deepEqual(readText(Field(nullable(list(int)), { separator: ',' }), { x: '1,2' }), [1, 2]);
  assert.deepEqual(readText(Field(list(str)), { x: 'a,b' }), ['a,b']);
  for (const field of [
    () => Field(list(str), { separator: ';' } as never),
    () => Field(str, { separator: ',' } as never),
  ])
    assert.throws(() => fieldsOf({ x: field() }), { code: /E_OPTION_(?:RANGE|UNKNOWN)/ });
});

test('queries and forms are read through their method getAll(), and forms may contain files and checked boxes', () => {
  const query = new URLSearchParams('x=1&x=2&y=3');
  const plan = fieldsOf({ x: Field(list(int)), y: Field(int), z: Field(0) });
  assert.deepEqual(plan.parseText(query, 'query'), { ok: true, value: { x: [1, 2], y: 3, z: 0 } });
  const photo = { filename: 'a.png', contentType: 'image/png', size: 5 };
  const form = {
    getAll: (name: string) => (name === 'ok' ? ['on'] : []),
    keys: () => ['ok', 'photo'],
    files: (name: string) => (name === 'photo' ? [photo] : []),
  };
  class Upload extends Schema {
    static extra = 'forbid';
    ok = Field(bool);
    photo = Field(file, { maxLength: 10 });
    others = Field(list(file), { default: () => [] });
  }
  const result = planOf(Upload).parseText(form, 'form', true);
  assert.ok(result.ok && result.value.ok && result.value.photo === photo);
  assert.deepEqual(readText(Field(file), { x: photo }), 'x type');
  assert.deepEqual(readText(Field(file, { maxLength: 4 }), { x: photo }, true), 'x max_length');
  for (const [types, result] of [
    [['image/png'], photo],
    [['text/*', 'IMAGE/*'], photo],
    [['image/jpeg'], 'x content_type'],
    [['text/*'], 'x content_type'],
  ] as const)
    assert.equal(readText(Field(file, { contentTypes: types }), { x: photo }, true), result);
  for (const [contentType, isAccepted] of [
    [' Image/PNG; x=y', true],
    ['image/png;codecs=a,b', true],
    ['image/png;,text/html', false], // browsers show it as text/html
    ['image/png, text/html', false],
  ] as const) {
    const sent = { ...photo, contentType };
    for (const type of ['image/png', 'image/*'])
      assert.equal(
        readText(Field(file, { contentTypes: [type] }), { x: sent }, true),
        isAccepted ? sent : 'x content_type',
      );
  }
  assert.deepEqual(readText(Field(file), { x: 'text' }, true), 'x type');
  assert.deepEqual(readText(Field(int), { x: photo }, true), 'x type');
  assert.deepEqual(readText(Field(list(file)), { x: [photo, photo] }, true), [photo, photo]);
});

test('the declaration of a file field refuses invalid content types', () => {
  for (const contentTypes of [[], ['png'], ['*/*'], ['image/'], ['image/png; q=1'], 'image/png'])
    assert.throws(() => fieldsOf({ x: Field(file, { contentTypes: contentTypes as string[] }) }), {
      code: 'E_OPTION_RANGE',
    });
});

test('the static property "extra" of a schema also applies to queries and forms', () => {
  class Forbidding extends Schema {
    static extra = 'forbid';
    a = Field(int);
  }
  class Allowing extends Schema {
    static extra = 'allow';
    a = Field(int);
  }
  const issues = planOf(Forbidding).parseText(new URLSearchParams('a=1&b=2&__proto__=3'), 'query');
  assert.deepEqual(!issues.ok && issues.issues.map(({ loc, code }) => `${loc.join('.')} ${code}`), [
    'query.b extra',
    'query.__proto__ extra',
  ]);
  assert.deepEqual(planOf(Allowing).parseText(new URLSearchParams('a=1&b=2&b=3')), {
    ok: true,
    value: Allowing.parse({ a: 1, b: ['2', '3'] }),
  });
  assert.deepEqual(planOf(Allowing).parseText({ a: '1', b: '2' }), {
    ok: true,
    value: Allowing.parse({ a: 1, b: '2' }),
  });
});

test('textIssue() returns the reason why a type, such as an object, cannot be read from text', () => {
  const problem = (field: unknown, isForm = false): string | undefined =>
    textIssue(fieldsOf({ x: field }).fields[0]!.node, isForm);
  for (const field of [
    Field(str),
    Field(list(int)),
    Field(nullable(list(uuid))),
    Field(any),
    Field(lazy(() => int)),
  ])
    assert.equal(problem(field), undefined);
  class A extends Schema {
    kind = Field(literal('a'));
  }
  for (const field of [
    Field(Address),
    Field(record(str)),
    Field(union('kind', A)),
    Field(list(Address)),
    Field(lazy(() => Address)),
  ])
    assert.match(problem(field)!, /an object/);
  for (const field of [
    Field(list(list(str))),
    Field(list(nullable(list(str)))),
    Field(list(lazy(() => list(str)))),
  ])
    assert.match(problem(field)!, /lists/);
  assert.match(problem(Field(file))!, /only be sent in a form/);
  assert.equal(problem(Field(list(file)), true), undefined);
});

// ── output ──

test('compileSerializer() writes only declared members, uses their aliases, and fills in defaults', () => {
  class Out extends Schema {
    id = Field(int, { readOnly: true });
    userName = Field(str, { alias: 'user_name' });
    role = Field('user');
    tags = Field(list(str), { default: () => ['new'] });
    zip = Field(str, { optional: true });
    home = Field(Address, { optional: true });
    get shout(): string {
      return this.userName.toUpperCase();
    }
    method(): number {
      return 1;
    }
  }
  const out = compileSerializer(Out);
  const row = {
    id: 1,
    userName: 'ada',
    password: 'x',
    shout: 'ADA',
    method: () => 2,
    home: { city: 'Paris', secret: 1 },
  };
  assert.deepEqual(out.toJson(row), {
    ok: true,
    value: '{"id":1,"user_name":"ada","role":"user","tags":["new"],"home":{"city":"Paris"}}',
  });
  assert.deepEqual(compileSerializer(list(Out)).toValue([{ id: 1, userName: 'b', zip: undefined }]), {
    ok: true,
    value: [{ id: 1, user_name: 'b', role: 'user', tags: ['new'] }],
  });
  assert.deepEqual(out.toJson(Out.parse({ user_name: 'x' }), 'response'), {
    ok: false,
    issues: [{ loc: ['response', 'id'], code: 'required', message: 'is required' }],
  });
});

test('compileSerializer() writes dates, bytes and bigints as JSON', () => {
  const toJson = (source: TypeSource, value: unknown): unknown => {
    const result = compileSerializer(source).toJson(value);
    return result.ok
      ? result.value
      : result.issues.map(({ loc, code }) => `${loc.join('.')} ${code}`.trim()).join();
  };
  const when = new Date('2026-01-31T09:30:00Z');
  assert.equal(toJson(datetime, when), '"2026-01-31T09:30:00.000Z"');
  assert.equal(toJson(bytes, new Uint8Array([65, 66])), '"QUI="');
  assert.equal(toJson(bytes, Buffer.from('AB')), '"QUI="');
  assert.equal(toJson(int, 5n), '5');
  assert.equal(toJson(int, 2n ** 60n), 'type');
  assert.equal(
    toJson(any, {
      a: 2n ** 60n,
      d: when,
      b: new Uint8Array([65]),
      u: undefined,
      f: () => 1,
      n: [null, true, new Address({ city: 'x' })],
    }),
    '{"a":"1152921504606846976","d":"2026-01-31T09:30:00.000Z","b":"QQ==","n":[null,true,{"city":"x"}]}',
  );
  assert.equal(toJson(any, [NaN, new Date(NaN), Symbol('x')]), '0 type,1 type,2 type');
  assert.equal(toJson(any, { a: JSON.parse('{"__proto__":1}') }), '{"a":{"__proto__":1}}');
  assert.equal(toJson(record(any), JSON.parse('{"__proto__":1}')), '{"__proto__":1}');
  assert.equal(toJson(record(int), { a: undefined, b: 1 }), '{"b":1}');
  assert.equal(toJson(record(any), { a: undefined, b: { c: undefined } }), '{"b":{}}');
  assert.equal(toJson(record(datetime), { a: when }), '{"a":"2026-01-31T09:30:00.000Z"}');
  assert.equal(toJson(nullable(bytes), null), 'null');
  assert.equal(toJson(datetime, '2026-01-31T09:30:00Z'), 'type');
  assert.equal(toJson(datetime, new Date(NaN)), 'format');
  assert.equal(toJson(datetime, new Date(8.64e15)), 'format');
  assert.equal(toJson(bytes, 'QQ=='), 'type');
  assert.equal(toJson(file, {}), 'type');
  assert.equal(toJson(str, 5), 'type');
  assert.equal(toJson(Address, null), 'type');
  assert.equal(toJson(Address, [{ city: 'x' }]), 'type');
  assert.equal(
    toJson(
      lazy(() => Address),
      { city: '' },
    ),
    'city min_length',
  );
});

test('compileSerializer() refuses cyclic values, and stops when there are too many problems', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  const result = compileSerializer(any).toJson(cycle);
  assert.equal(!result.ok && result.issues[0]!.code, 'depth');
  const endless = { toJSON: (): unknown => endless };
  assert.equal(compileSerializer(any).toJson(endless).ok, false);
  const many = compileSerializer(any).toJson(Array.from({ length: 1_000 }, () => NaN));
  assert.equal(!many.ok && many.issues.length, 101);
});

test('compileSerializer() writes a union by its tag, and writes undeclared members if the schema allows them', () => {
  class Cat extends Schema {
    kind = Field(literal('cat'), { alias: 'type' });
    lives = Field(9);
  }
  class Dog extends Schema {
    static extra = 'allow';
    kind = Field(literal('dog'), { alias: 'type' });
    get bark(): string {
      return 'wuff';
    }
  }
  const out = compileSerializer(union('kind', Cat, Dog));
  assert.deepEqual(out.toValue({ kind: 'cat', lives: 3, x: 1 }), {
    ok: true,
    value: { type: 'cat', lives: 3 },
  });
  assert.deepEqual(out.toValue(Cat.parse({ type: 'cat' })), { ok: true, value: { type: 'cat', lives: 9 } });
  assert.deepEqual(out.toValue({ kind: 'dog', more: 2n, bark: 'no', type: 'x', f: () => 1 }), {
    ok: true,
    value: { type: 'dog', more: '2' },
  });
  assert.equal(out.toValue({ kind: 'emu' }).ok, false);
  assert.equal(out.toValue(null).ok, false);
  const bad = out.toValue({ kind: 'dog', more: NaN });
  assert.deepEqual(!bad.ok && bad.issues.map(({ loc }) => loc), [['more']]);
});

test('compileSerializer() reads a member named like an inherited property, such as constructor, only if the value itself has it', () => {
  class Odd extends Schema {
    override toString = Field('none') as never;
  }
  assert.deepEqual(compileSerializer(Odd).toValue({}), { ok: true, value: { toString: 'none' } });
});

test('compileSerializer() reads each member once, from any kind of object, in whatever order the members stand', () => {
  class Reply extends Schema {
    id = Field(int);
    name = Field(str);
    tags = Field(list(str));
    note = Field(str, { optional: true });
    when = Field(datetime, { alias: 'at' });
  }
  const serializer = compileSerializer(Reply);
  const members: Record<string, unknown> = { id: 1, name: 'b', tags: ['c'], when: new Date(0) };
  const text = '{"id":1,"name":"b","tags":["c"],"at":"1970-01-01T00:00:00.000Z"}';
  const orders = (names: readonly string[]): string[][] =>
    names.length < 2
      ? [[...names]]
      : names.flatMap((name) =>
          orders(names.filter((other) => other !== name)).map((rest) => [name, ...rest]),
        );
  for (const order of orders([...Object.keys(members), 'stranger'])) {
    const reads: string[] = [];
    const own: Record<string, unknown> = {},
      proto = {},
      bare = Object.create(null) as Record<string, unknown>;
    for (const [index, name] of order.entries()) {
      const value = members[name] ?? 'stranger';
      own[name] = bare[name] = value;
      Object.defineProperty(index % 2 === 0 ? proto : bare, name, {
        configurable: true,
        enumerable: index % 3 !== 0,
        get() {
          reads.push(name);
          return value;
        },
      });
    }
    const inherits = Object.assign(
      Object.create(proto) as Record<string, unknown>,
      Object.fromEntries(
        order.flatMap((name, index) => (index % 2 === 0 ? [] : [[name, members[name] ?? 'stranger']])),
      ),
    );
    for (const value of [own, bare, inherits])
      assert.deepEqual(serializer.toJson(value), { ok: true, value: text }, order.join());
    assert.equal(new Set(reads).size, reads.length, order.join());
    assert.deepEqual(serializer.toJson({ ...own, name: undefined, id: 'x' }), {
      ok: false,
      issues: [
        { loc: ['id'], code: 'type', message: 'must be an integer' },
        { loc: ['name'], code: 'required', message: 'is required' },
      ],
    });
  }
});

test('secret members do not appear in JSON, in inspect() or in issues, and a reply that contains a secret member is refused', () => {
  class Account extends Schema {
    name = Field(str);
    password = Field(str, { secret: true, minLength: 8 });
    pin = Field(int, { secret: true, optional: true });
  }
  class Holder extends Schema {
    account = Field(Account);
    when = Field(datetime, { optional: true });
  }
  const account = new Account({ name: 'ada', password: 'hunter2hunter2' });
  assert.match(inspect(account), /^Account \{ name: 'ada', password: \[secret\], pin: undefined \}$/);
  assert.doesNotMatch(
    inspect({ deep: { deeper: { holder: new Holder({ account }) } } }, { depth: 9 }),
    /hunter2/,
  );
  assert.doesNotMatch(inspect({ a: { b: { c: { account } } } }), /hunter2/);
  assert.match(inspect([account], { depth: 0 }), /\[Account\]/);
  assert.doesNotMatch(inspect(account, { depth: null }), /hunter2/);
  assert.match(inspect(Schema.prototype) + inspect(Account.prototype), /Schema|Object/);
  assert.equal(JSON.stringify(account), '{"name":"ada"}');
  assert.equal(
    JSON.stringify(new Holder({ account, when: new Date(0) })),
    '{"account":{"name":"ada"},"when":"1970-01-01T00:00:00.000Z"}',
  );
  const reply = compileSerializer(Account).toJson(account);
  assert.deepEqual(reply, {
    ok: false,
    issues: [
      {
        loc: ['password'],
        code: 'secret',
        message: 'is declared as secret, and must not be part of a response',
      },
    ],
  });
  assert.deepEqual(compileSerializer(Account).toJson({ name: 'ada' }), { ok: true, value: '{"name":"ada"}' });
  const refused = Account.safeParse({ name: 'ada', password: 'hunter' });
  assert.doesNotMatch(JSON.stringify(refused), /hunter/);
  assert.match(inspect(new Address({ city: 'x' })), /^Address \{ city: 'x', zip: undefined \}$/);
});

// ── patterns ──

test('patternFinding() returns a message for each pattern with exponential or polynomial backtracking', () => {
  const exponential = [
    /(a+)+$/,
    /^(a|a)*$/,
    /^(\w|\d)*$/,
    /^(a*)*$/,
    /^(?:a+b?)+$/,
    /^(.*)*$/,
    /(x+x+)+y/,
    /^([a-z]+)*@/,
    /^(a{1,30}){1,30}$/,
    /^((a|b)+)+$/,
    /^(a|b|ab)*$/,
    /^(a?){20}$/,
    /^([A-Z]|[a-z])*x(\w+\s?)*$/i,
    /^(?:\x61|\u0061)*$/,
    /^(?<n>[\d-]+)+$/,
    /^(\s|\n|\t)+$/,
    /^(a|[a-c\]])*$/,
    /^(?:[^x]|y)*$/,
    /^(\u{61}|a)*$/u,
    /^([[a-z]&&[aeiou]]|a)*$/v,
    /^(\p{L}|a)*$/u,
    /^(\cA|\x01)*$/,
    /^(?:(?=x)a|a)*$/,
    /^(?:b|(?:\b)b)*$/,
    /^(\0|\x00)*$/,
    /^(\W|\S)*$/,
    /^(\D|b)*$/,
    /^(?:[\w-]|-)*$/,
    /^(?:[\b]|\x08)*$/,
    /^(\v|\f|\r|[\v])*$/,
    /^([+--]|,)*$/,
    /^(K|k)*$/i,
    /^\q*(?:q|[q])*$/,
  ];
  for (const pattern of exponential)
    assert.equal(analysePattern(pattern)?.degree, 'exponential', String(pattern));
  const polynomial = [/\s+$/, /^\s+|\s+$/, /^\S+@\S+\.\S+$/, /^.*a.*b$/, /^\w+\s*\w+$/, /\d+x/, /^a*a*$/m];
  for (const pattern of polynomial)
    assert.equal(analysePattern(pattern)?.degree, 'polynomial', String(pattern));
  assert.equal(analysePattern(/(a)\1+/)?.degree, 'unknown');
  assert.equal(analysePattern(/(?<a>a)\k<a>/)?.degree, 'unknown');
  assert.equal(analysePattern(new RegExp(`^${'[ab]?'.repeat(400)}$`))?.degree, 'unknown');
  const harmless = [
    /^(a|ab)*c/,
    /^(a|b)*c/,
    /^\d{3}-\d{4}$/,
    /^[a-z]+(?:-[a-z]+)*$/,
    /\d+/,
    /^(\d{1,3}\.){3}\d{1,3}$/,
    /^[\w.-]+@[\w.-]+$/,
    /^#[0-9a-f]{6}$/i,
    /^\p{L}+$/u,
    /^(?:[A-Za-z0-9+/]{4})*$/,
    /^(?=a+)b/,
    /^([0-9]+\.)*x$/,
    /^[^@]+@[^@]+$/,
    /(?<y>\d{4})-(?<m>\d\d)/,
    /^(?:a|[^a])+$/,
    /^[A-Z][a-z]+( [A-Z][a-z]+)*$/,
    /^$/,
    /^(?:ab|cd){2,}?$/,
    /^a{2}b{3,5}$/,
    /[]/,
    /^[^]*$/,
    /^x{1}{/,
    new RegExp('^\\u{2}$'),
    /^a\/b$/,
    /^.$/s,
  ];
  for (const pattern of harmless) assert.equal(patternFinding(pattern), undefined, String(pattern));
});

test('analysePattern() supports look-arounds and bounded repetitions', () => {
  const exponential = [
    /^(?=(a+)+$)/,
    /(?<=(a+)+)b/,
    /(?<!^(a|a)*)b/,
    /^(?!.*(a+)+$)\w+$/,
    /^(?=(?!(a|a)*$)b)/,
    /^(?=(a?){20}$)/,
    /^(a{1,11}){1,11}$/,
    /^([a-z]{1,10}-?){1,10}$/,
    /^(?:[a-z]{1,8}){1,8}$/,
    /^(a{1,8}c*){1,8}$/,
    /^(?:(?:a|bb){1,4}b?){2,9}$/,
  ];
  for (const pattern of exponential)
    assert.equal(analysePattern(pattern)?.degree, 'exponential', String(pattern));
  for (const pattern of [/(?=\d+)x/, /^(?:(?=.*x)a)*$/, /(?<=\s+)x/, /^(a+){4}$/])
    assert.equal(analysePattern(pattern)?.degree, 'polynomial', String(pattern));
  const harmless = [
    /^\d{1,3}(\.\d{1,3}){3}$/,
    /^[a-z]{1,10}$/,
    /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
    /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?)?$/,
    /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{8,72}$/,
    /^(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$/i,
    /^(?!-)[a-z0-9-]{1,63}(?<!-)$/,
    /^(?:(?!--)[a-z-])+$/,
    /^(?:(?<=a)b|a)*$/,
    /^([a-z]{1,10}-){1,10}$/,
    /^[a-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,5}$/,
    /^(?:\d{1,2}[:.]?){2,3}$/,
  ];
  for (const pattern of harmless) assert.equal(patternFinding(pattern), undefined, String(pattern));
});

test('the more a pattern can backtrack, the shorter are the texts that validation tests against the pattern', () => {
  const tested = (pattern: RegExp): number => analysePattern(pattern)?.maxTestedLength ?? Infinity;
  assert.equal(tested(/\s+$/), 500);
  assert.equal(tested(/(a)\1+/), 16);
  assert.ok(tested(/^(a+){3}$/) < 250 && tested(/^(a+){4}$/) < 100 && tested(/^(a+){4}$/) > 16);
  for (const pattern of [
    /^(a+){2}$/,
    /^(a+){3}$/,
    /^(a+){4}$/,
    /^(a+){6}$/,
    /^(a*?){9}$/,
    /^(a+){11}$/,
    /^a*a*a*a*a*a*$/,
    /(a+)+$/,
    /^(?=(a+)+$)/,
    /^(a{1,11}){1,11}$/,
  ]) {
    const text = `${'a'.repeat(tested(pattern) - 1)}!`;
    assert.equal(pattern.test(text), false, String(pattern));
  }
});

test('patternFinding() reports nothing for the pattern of a built-in format', async () => {
  const { FORMATS } = await import('../../src/schema/formats.ts');
  assert.equal(patternFinding(FORMATS.email.pattern!), undefined);
});

test('planOf() lists the fields whose patterns backtrack unsafely, and validation tests only short texts against these patterns', () => {
  class Risky extends Schema {
    a = Field(str, { pattern: /^(a+)+$/ });
    b = Field(nullable(list(str, { pattern: /\s+$/ })), { optional: true });
    c = Field(str, { pattern: /^a+$/ });
  }
  assert.deepEqual(
    planOf(Risky).hazards.map(({ field }) => field),
    ['a', 'b'],
  );
  assert.deepEqual(issuesOf(Risky, { a: `${'a'.repeat(50)}!`, c: 'a'.repeat(50) }), ['a pattern']);
  assert.deepEqual(issuesOf(Risky, { a: 'aaa', b: [' '.repeat(500), ' '.repeat(501)], c: 'a' }), [
    'b.1 pattern',
  ]);
});

// ── fast against plain ──

/** Returns instances as plain objects, to compare them with the results of the reference. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null || value instanceof Date || value instanceof Uint8Array)
    return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]));
}

test('compiled validators agree with a simple reference validator on 50,000 generated pairs of schema and value', () => {
  const random = new Random(20_260_131);
  let fitting = 0;
  for (let schema = 0; schema < 500; schema++) {
    const type = describe(random, 3);
    const compiled = compileType(realise(type));
    const wrapped = isWrapped(type);
    for (let i = 0; i < 100; i++) {
      const value = invent(random, type);
      const expected = judge(type, value);
      const actual = compiled.parseJson(wrapped ? { value } : value);
      const where = (): string =>
        `${JSON.stringify(type)}\n${inspect(value, { depth: 9 })}\n${inspect(actual, { depth: 9 })}\n${inspect(expected, { depth: 9 })}`;
      if (value === undefined) continue;
      if (expected.found.length === 0) {
        if (!actual.ok) assert.fail(where());
        withMessage(
          () =>
            assert.deepEqual(
              plain(wrapped ? (actual.value as { value: unknown }).value : actual.value),
              expected.value,
            ),
          where,
        );
        fitting++;
      } else {
        if (actual.ok) assert.fail(where());
        const listed = actual.issues
          .filter(({ code }) => code !== 'more')
          .map(({ loc, code }) => ({ path: wrapped ? loc.slice(1) : loc, code }));
        if (inspect(listed) !== inspect(expected.found))
          assert.deepEqual(listed, expected.found.slice(0, 100), where());
      }
    }
  }
  assert.ok(fitting > 10_000 && fitting < 45_000, `a fair share fits: ${fitting}`);
});

test('parseJson() gives the same result for plain JSON with and without its argument isPlainJson, on generated schemas and values', () => {
  const random = new Random(20_260_521);
  for (let schema = 0; schema < 200; schema++) {
    const type = describe(random, 3),
      compiled = compileType(realise(type));
    for (let i = 0; i < 40; i++) {
      const text = JSON.stringify({ value: invent(random, type) }, (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      if (text.includes('\\u')) continue;
      const { value } = JSON.parse(text) as { value?: unknown };
      const input = isWrapped(type) ? { value } : value;
      withMessage(
        () => assert.deepEqual(compiled.parseJson(input, 'body', true), compiled.parseJson(input, 'body')),
        () => `${JSON.stringify(type)} ${text}`,
      );
    }
  }
});

test('input that a validator accepts is accepted again after it was serialised, on generated pairs of schema and value', () => {
  const random = new Random(7);
  for (let schema = 0; schema < 200; schema++) {
    const type = describe(random, 3),
      source = realise(type),
      wrapped = isWrapped(type);
    const compiled = compileType(source),
      out = compileSerializer(source);
    for (let i = 0; i < 20; i++) {
      const value = invent(random, type);
      const first = compiled.parseJson(wrapped ? { value } : value);
      if (!first.ok) continue;
      const written = out.toJson(first.value);
      if (!written.ok)
        assert.fail(`${JSON.stringify(type)} ${inspect(value)} ${inspect(written, { depth: 5 })}`);
      const second = compiled.parseJson(JSON.parse(written.value));
      if (!second.ok) assert.fail(`${JSON.stringify(type)} ${written.value}`);
      assert.deepEqual(
        plain(JSON.parse(JSON.stringify(second.value))),
        plain(JSON.parse(JSON.stringify(first.value))),
      );
    }
  }
});

test('Schema.parse() runs initialisers that contain more than a call of Field(), and its instances equal those of the constructor', () => {
  let runs = 0;
  class Counted extends Schema {
    a = Field(int);
    b = (runs++, Field(str));
  }
  class Plain extends Schema {
    a = Field(int);
    'b' = Field(str);
    get sum() {
      return `${this.a}${this.b}`;
    }
  }
  class Shadowed extends Plain {
    override 'b' = Field(str, { maxLength: 3 });
    c = Field(1);
  }
  class Base extends Schema {
    get kind(): string {
      return 'base';
    }
    set kind(_value: string) {
      throw new Error('a setter must not be called');
    }
  }
  class Shadowing extends Base {
    // @ts-expect-error TypeScript wants an accessor here; JavaScript defines a member
    override kind = Field(str);
  }
  Counted.parse({ a: 1, b: 'x' });
  const before = runs;
  const counted = Counted.parse({ a: 1, b: 'x' });
  assert.equal(runs, before + 1);
  assert.deepEqual({ ...counted }, { a: 1, b: 'x' });
  const plain = Plain.parse({ a: 1, b: 'x' });
  assert.ok(plain instanceof Plain);
  assert.equal(plain.constructor, Plain);
  assert.equal(plain.sum, '1x');
  assert.deepEqual(plain, new Plain({ a: 1, b: 'x' }));
  assert.deepEqual(
    Object.getOwnPropertyDescriptors(plain),
    Object.getOwnPropertyDescriptors(new Plain({ a: 1, b: 'x' })),
  );
  assert.deepEqual({ ...Shadowed.parse({ a: 1, b: 'xyz' }) }, { a: 1, b: 'xyz', c: 1 });
  assert.deepEqual(Object.getOwnPropertyDescriptor(Shadowing.parse({ kind: 'own' }), 'kind')?.value, 'own');
});
