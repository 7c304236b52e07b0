/** Derived schemas, unions without a tag, tuples, unique lists, and rules across fields. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { JsonSchemas } from '../../src/schema/json-schema.ts';
import {
  any,
  compileSerializer,
  compileType,
  datetime,
  Field,
  fieldsOf,
  float,
  int,
  intersection,
  lazy,
  list,
  literal,
  nullable,
  planOf,
  record,
  Schema,
  str,
  tuple,
  union,
  ValidationError,
} from '../../src/schema/schema.ts';
import type { FieldType, PlainOptions, RuleProblem, TypeSource } from '../../src/schema/schema.ts';

class User extends Schema {
  static extra = 'forbid';
  id = Field(int, { readOnly: true });
  name = Field(str, { minLength: 2, alias: 'full_name' });
  nick = Field('anon', { maxLength: 5 });
  tags = Field(list(str), { default: () => [] });
  get shout(): string {
    return this.name.toUpperCase();
  }
}

function issuesOf(source: TypeSource, value: unknown): string[] {
  const result = compileType(source).parseJson(value);
  return result.ok ? [] : result.issues.map(({ loc, code }) => [...loc, code].join(' '));
}
function valueOf(source: TypeSource, value: unknown): unknown {
  const result = compileType(source).parseJson(value);
  assert.ok(result.ok, JSON.stringify(result));
  return result.value;
}
function published(source: TypeSource): object {
  return new JsonSchemas().type(compileType(source).node, 'input');
}

test('partial() makes all fields optional and removes their defaults', () => {
  class UserPatch extends User.partial() {}
  const patch = UserPatch.parse({ nick: 'ada' });
  assert.ok(patch instanceof UserPatch);
  assert.deepEqual({ ...patch }, { id: undefined, name: undefined, nick: 'ada', tags: undefined });
  assert.equal(UserPatch.accepts({}), true);
  assert.equal(UserPatch.accepts({ more: 1 }), false, 'static extra is kept');
  assert.deepEqual(issuesOf(UserPatch, { nick: 'too long', full_name: 'A' }), [
    'full_name min_length',
    'nick max_length',
  ]);
  assert.equal('shout' in patch, false);
  assert.equal(planOf(UserPatch).name, 'UserPatch');
  assert.equal(planOf(User.partial()).name, 'UserPartial');
  const schemas = new JsonSchemas();
  schemas.object(planOf(UserPatch), 'input');
  assert.deepEqual(schemas.components()['UserPatch'], {
    type: 'object',
    properties: {
      full_name: { type: 'string', minLength: 2 },
      nick: { type: 'string', maxLength: 5 },
      tags: { type: 'array', items: { type: 'string' } },
    },
    propertyNames: { enum: ['id', 'full_name', 'nick', 'tags'] },
  });
});

test('pick() and omit() make classes with some of the fields', () => {
  class Login extends User.pick('name') {}
  class Public extends User.omit('name', 'tags') {}
  assert.deepEqual({ ...Login.parse({ full_name: 'Ada' }) }, { name: 'Ada' });
  assert.deepEqual({ ...new Public({}) }, { id: undefined, nick: 'anon' });
  assert.deepEqual(
    planOf(Public).fields.map(({ name }) => name),
    ['id', 'nick'],
  );
  for (const make of [() => User.pick('nmae' as never), () => User.omit('shout' as never)])
    assert.throws(make, { code: 'E_SCHEMA_FIELD' });
});

test('extend() makes a subclass with additional fields, which inherits the methods and getters of the base class', () => {
  class Admin extends User.extend({ level: Field(int, { ge: 1 }), nick: Field(str) }) {
    get isRoot(): boolean {
      return this.level > 9;
    }
  }
  const admin = Admin.parse({ full_name: 'Ada', nick: 'a', level: 10 });
  assert.ok(admin instanceof User && admin.isRoot);
  assert.equal((admin as unknown as User).shout, 'ADA');
  assert.deepEqual(issuesOf(Admin, { full_name: 'Ada', level: 0 }), ['nick required', 'level ge']);
  assert.throws(() => User.extend({ a: 1 }), { code: 'E_SCHEMA_FIELD' });
});

test('intersection() makes a class with the fields of several schemas, and refuses two fields of one name', () => {
  class Sized extends Schema {
    size = Field(float);
  }
  class Both extends intersection(Sized, User) {}
  assert.deepEqual(issuesOf(Both, { full_name: 'Ada', size: 'x', more: 1 }), ['size type', 'more extra']);
  const both = Both.parse({ full_name: 'Ada', size: 1 });
  assert.deepEqual([both.size, both.name, both.nick], [1, 'Ada', 'anon']);
  assert.equal(planOf(intersection(Sized, User)).name, 'SizedAndUser');
  assert.throws(() => intersection(User, User.pick('nick')), { code: 'E_SCHEMA_FIELD' });
});

test('a class made by partial(), pick() or extend() can be derived again, and can be the type of a field', () => {
  class Nick extends User.pick('nick', 'name').partial() {}
  const holder = fieldsOf({ nick: Field(list(Nick)) });
  assert.equal(holder.parseJson({ nick: [{}, { nick: 'a' }] }).ok, true);
  assert.deepEqual(Nick.safeParse({ nick: 1 }).ok, false);
});

test('tuple() accepts a list of exactly its length, and checks each item by the type at its position', () => {
  const pair = tuple(float, nullable(str));
  assert.deepEqual(valueOf(pair, [1.5, null]), [1.5, null]);
  assert.deepEqual(issuesOf(pair, ['x', 1]), ['0 type', '1 type']);
  assert.deepEqual(issuesOf(pair, [1]), ['min_length']);
  assert.deepEqual(issuesOf(pair, [1, 'a', 2]), ['max_length']);
  assert.deepEqual(issuesOf(pair, {}), ['type']);
  assert.deepEqual(
    (valueOf(tuple(datetime), ['2026-01-31T09:30:00Z']) as Date[])[0],
    new Date('2026-01-31T09:30:00Z'),
  );
  assert.deepEqual(published(tuple(float, str)), {
    type: 'array',
    prefixItems: [{ type: 'number' }, { type: 'string' }],
    items: {},
    minItems: 2,
    maxItems: 2,
  });
  const written = compileSerializer(tuple(datetime, int)).toJson([new Date(0), 1n]);
  assert.deepEqual(written, { ok: true, value: '["1970-01-01T00:00:00.000Z",1]' });
  assert.throws(() => compileType((tuple as () => TypeSource)()), { code: 'E_SCHEMA_FIELD' });
});

test('union() without a tag uses the first type that accepts the value', () => {
  class Circle extends Schema {
    radius = Field(float, { gt: 0 });
  }
  class Square extends Schema {
    side = Field(float);
  }
  const shape = union(Circle, Square);
  assert.ok(valueOf(shape, { radius: 1 }) instanceof Circle);
  assert.ok(valueOf(shape, { side: 1 }) instanceof Square);
  assert.deepEqual(issuesOf(shape, {}), ['union']);
  assert.deepEqual(issuesOf(union(int, Circle), { radius: 0 }), ['radius gt']);
  assert.deepEqual(issuesOf(union(int, str), true), ['union']);
  assert.deepEqual(issuesOf(record(union(int, str)), { a: 1, b: null }), ['b union']);
  assert.deepEqual(published(union(int, str)), {
    anyOf: [
      { type: 'integer', minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
      { type: 'string' },
    ],
  });
  const serializer = compileSerializer(shape);
  assert.deepEqual(serializer.toJson(Square.parse({ side: 2 })), { ok: true, value: '{"side":2}' });
  assert.deepEqual(serializer.toJson({ side: 2 }), { ok: true, value: '{"side":2}' });
  assert.throws(() => compileType((union as (one: TypeSource) => TypeSource)(int)), {
    code: 'E_SCHEMA_FIELD',
  });
});

test('union() without a tag reads a text input with the first type that accepts the text', () => {
  const plan = fieldsOf({ id: Field(union(int, literal('all'))) });
  for (const [text, id] of [
    ['5', 5],
    ['all', 'all'],
  ] as const)
    assert.deepEqual(plan.parseText({ id: text }), { ok: true, value: { id } });
  assert.equal(plan.parseText({ id: 'x' }).ok, false);
});

test('a union() that contains itself tries only a limited number of alternatives', () => {
  const tree: FieldType<unknown, PlainOptions> = lazy(() => union(Left, Right));
  class Left extends Schema {
    child: unknown = Field(nullable(tree));
    left = Field(int);
  }
  class Right extends Schema {
    child: unknown = Field(nullable(tree));
    right = Field(int);
  }
  let value: unknown = null;
  for (let i = 0; i < 40; i++) value = { child: value };
  assert.ok(issuesOf(union(Left, Right), value).length > 0);
});

test('a list with unique: true refuses two items that are equal as JSON', () => {
  const plan = fieldsOf({ x: Field(list(any), { unique: true }) });
  const issues = (x: unknown): unknown => {
    const result = plan.parseJson({ x });
    return result.ok ? [] : result.issues.map(({ loc, code }) => [...loc, code].join(' '));
  };
  assert.deepEqual(issues([1, '1', true, null, [1], { a: 1 }, { a: 2 }, [[1]]]), []);
  assert.deepEqual(issues([1, 1.0]), ['x 1 unique']);
  assert.deepEqual(issues([{ a: 1, b: [2] }, 'x', { b: [2], a: 1 }, 'x']), ['x 2 unique', 'x 3 unique']);
  assert.deepEqual(new JsonSchemas().field(plan.fields[0]!, 'input'), {
    type: 'array',
    items: {},
    uniqueItems: true,
  });
  const texts = fieldsOf({ id: Field(list(float), { unique: true, separator: ',' }) });
  assert.equal(texts.parseText({ id: '1,1.0' }).ok, false);
  assert.equal(texts.parseText({ id: '1,2' }).ok, true);
});

class Stay extends Schema {
  from = Field(int);
  until = Field(int, { alias: 'to' });
  guests = Field(list(str), { default: () => [] });
  static *check(self: Stay): Iterable<RuleProblem | string> {
    if (self.from >= self.until) yield { loc: ['until'], code: 'order', message: 'must be after "from"' };
    if (self.guests.length > self.until) yield 'has too many guests';
    for (const [index, guest] of self.guests.entries())
      if (guest === '') yield { loc: ['guests', index], message: 'must have a name' };
  }
}

test('the static method check() of a schema can report several issues, each with its path from the root', () => {
  const bad = { from: 2, to: 1, guests: ['', 'a'] };
  const loc = (value: unknown, at?: string): unknown => {
    const result = planOf(Stay).parseJson(value, at);
    return result.ok ? [] : result.issues.map((issue) => [...issue.loc, issue.code]);
  };
  assert.deepEqual(loc(bad, 'body'), [
    ['body', 'to', 'order'],
    ['body', 'rule'],
    ['body', 'guests', 0, 'rule'],
  ]);
  assert.deepEqual(issuesOf(list(Stay), [{ from: 1, to: 2 }, bad])[0], '1 to order');
  assert.deepEqual(loc({ from: 'x' }), [
    ['from', 'type'],
    ['to', 'required'],
  ]);
  assert.deepEqual(planOf(Stay).parseText({ from: '2', to: '1' }, 'query').ok, false);
});

test('the static method check() of a schema runs in parse(), accepts() and the constructor, also for nested and derived schemas', () => {
  class Trip extends Schema {
    stays = Field(list(Stay));
  }
  const [good, bad] = [
    { from: 1, to: 2 },
    { from: 2, to: 1 },
  ];
  assert.equal(Stay.accepts(good), true);
  assert.equal(Stay.accepts(bad), false);
  assert.equal(Trip.accepts({ stays: [good, bad] }), false);
  assert.equal(Trip.accepts({ stays: [good] }), true);
  assert.equal(new Stay(good).until, 2);
  for (const make of [() => new Stay(bad), () => Stay.parse(bad), () => new Trip({ stays: [bad] })])
    assert.throws(make, ValidationError);
  assert.deepEqual(new Stay(good), Stay.parse(good));
  class Long extends Stay {
    nights = Field(int);
  }
  assert.equal(Long.accepts({ ...bad, nights: 1 }), false, 'inherited');
});

test('Schema.parse() throws E_SCHEMA_FIELD if the static member check of the schema is async or not a function', () => {
  class Wrong extends Schema {
    static check = 1;
    a = Field(int);
  }
  class Late extends Schema {
    a = Field(int);
    static async check(): Promise<void> {
      await Promise.resolve();
    }
  }
  for (const schema of [Wrong, Late]) assert.throws(() => schema.parse({ a: 1 }), { code: 'E_SCHEMA_FIELD' });
});
