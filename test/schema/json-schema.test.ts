import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { inspect } from 'node:util';
import { FORMATS, MOMENT_PATTERN } from '../../src/schema/formats.ts';
import { JsonSchemas } from '../../src/schema/json-schema.ts';
import type { JsonSchema } from '../../src/schema/json-schema.ts';
import {
  any,
  bool,
  bytes,
  compileType,
  date,
  datetime,
  Field,
  fieldsOf,
  file,
  float,
  int,
  lazy,
  list,
  literal,
  nullable,
  planOf,
  record,
  Schema,
  str,
  union,
  uuid,
} from '../../src/schema/schema.ts';
import type { FieldType, FormatName, PlainOptions, TypeSource } from '../../src/schema/schema.ts';
import { describe, invent, isWrapped, Random, realise } from '../support/schema-reference.ts';
import { scratch } from '../support/scratch.ts';
import { withMessage } from '../support/told.ts';

/** Returns the published schema of a single field. */
function published(field: unknown, direction: 'input' | 'output' = 'input'): JsonSchema {
  return new JsonSchemas().field(fieldsOf({ x: field }).fields[0]!, direction);
}
function publishedType(source: TypeSource): JsonSchema {
  return new JsonSchemas().type(compileType(source).node, 'input');
}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}

test('the class JsonSchemas writes a JSON Schema for every kind of type', () => {
  const cases: [TypeSource, JsonSchema][] = [
    [str, { type: 'string' }],
    [int, { type: 'integer', minimum: -(2 ** 53 - 1), maximum: 2 ** 53 - 1 }],
    [float, { type: 'number' }],
    [bool, { type: 'boolean' }],
    [any, {}],
    [date, { type: 'string', format: 'date', pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' }],
    [uuid, { type: 'string', format: 'uuid', pattern: FORMATS.uuid.pattern.source }],
    [datetime, { type: 'string', format: 'date-time', maxLength: 64, pattern: MOMENT_PATTERN }],
    [file, { type: 'string', contentMediaType: 'application/octet-stream' }],
    [literal('a'), { type: 'string', const: 'a' }],
    [literal(1, 2), { type: 'number', enum: [1, 2] }],
    [
      literal('a', 1, true, null),
      { type: ['string', 'number', 'boolean', 'null'], enum: ['a', 1, true, null] },
    ],
    [list(bool), { type: 'array', items: { type: 'boolean' } }],
    [record(bool), { type: 'object', additionalProperties: { type: 'boolean' } }],
    [nullable(bool), { type: ['boolean', 'null'] }],
    [nullable(literal('a')), { anyOf: [{ type: 'string', const: 'a' }, { type: 'null' }] }],
    [nullable(nullable(bool)), { anyOf: [{ type: ['boolean', 'null'] }, { type: 'null' }] }],
    [nullable(any), {}],
    [lazy(() => bool), { type: 'boolean' }],
    [
      list(str, { maxLength: 3, title: 'Tag', description: 'One tag', example: 'x' }),
      {
        type: 'array',
        items: { type: 'string', maxLength: 3, title: 'Tag', description: 'One tag', examples: ['x'] },
      },
    ],
  ];
  for (const [source, schema] of cases) assert.deepEqual(publishedType(source), schema);
});

test('the class JsonSchemas writes the constraints of fields', () => {
  const cases: [unknown, JsonSchema][] = [
    [Field(str, { minLength: 1, maxLength: 2 }), { type: 'string', minLength: 1, maxLength: 2 }],
    [Field(int, { ge: 1, le: 5, multipleOf: 2 }), { type: 'integer', minimum: 1, maximum: 5, multipleOf: 2 }],
    [Field(int, { gt: 1, lt: 5 }), { type: 'integer', exclusiveMinimum: 1, exclusiveMaximum: 5 }],
    [Field(float, { ge: 1, gt: 1, le: 4, lt: 5 }), { type: 'number', maximum: 4, exclusiveMinimum: 1 }],
    [Field(float, { gt: 0 }), { type: 'number', exclusiveMinimum: 0 }],
    [Field(float, { ge: 0, le: 1 }), { type: 'number', minimum: 0, maximum: 1 }],
    [
      Field(list(bool), { minLength: 1, maxLength: 2 }),
      { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 2 },
    ],
    [
      Field(record(bool), { minLength: 1, maxLength: 2 }),
      {
        type: 'object',
        additionalProperties: { type: 'boolean' },
        minProperties: 1,
        maxProperties: 2,
      },
    ],
    [Field(nullable(str), { maxLength: 3 }), { type: ['string', 'null'], maxLength: 3 }],
    [
      Field('x', { title: 'T', description: 'D', example: 'E' }),
      { type: 'string', title: 'T', description: 'D', examples: ['E'], default: 'x' },
    ],
    [
      Field(datetime, { example: new Date(0) }),
      {
        type: 'string',
        format: 'date-time',
        maxLength: 64,
        pattern: MOMENT_PATTERN,
        examples: ['1970-01-01T00:00:00.000Z'],
      },
    ],
    [Field(int, { ge: 1, example: 0 }), { type: 'integer', minimum: 1, maximum: 2 ** 53 - 1 }],
    [
      Field(list(int), { default: () => [] }),
      { type: 'array', items: { type: 'integer', minimum: -(2 ** 53 - 1), maximum: 2 ** 53 - 1 } },
    ],
  ];
  for (const [field, schema] of cases) assert.deepEqual(published(field), schema);
  const { pattern, ...rest } = published(Field(bytes, { minLength: 1, maxLength: 6 }));
  assert.deepEqual(rest, { type: 'string', contentEncoding: 'base64', minLength: 4, maxLength: 8 });
  assert.match('QUI=', new RegExp(String(pattern), 'u'));
});

test('the class JsonSchemas writes a pattern only if it has the same meaning in JSON Schema', () => {
  for (const [pattern, source] of [
    ['^a$', '^a$'],
    [/^a.$/, '^a.$'],
    [/^\p{L}$/u, '^\\p{L}$'],
    [/a/g, 'a'],
  ] as const)
    assert.equal(published(Field(str, { pattern }))['pattern'], source);
  for (const pattern of [/a/i, /^a/m, /a./s, /[a--b]/v, /\-/])
    assert.equal(published(Field(str, { pattern }))['pattern'], undefined, String(pattern));
  assert.deepEqual(published(Field(str, { pattern: /^(a+)+$/ })), {
    type: 'string',
    pattern: '^(a+)+$',
    maxLength: 16,
  });
});

test('the class JsonSchemas writes the maximum size of a file as maxLength, and its content type if only one is allowed', () => {
  for (const [types, named] of [
    [['image/png'], 'image/png'],
    [['image/*'], 'application/octet-stream'],
    [['image/png', 'image/gif'], 'application/octet-stream'],
  ] as const) {
    assert.deepEqual(published(Field(file, { contentTypes: types, maxLength: 10 })), {
      type: 'string',
      contentMediaType: named,
      maxLength: 10,
    });
  }
});

test('the class JsonSchemas writes an e-mail address with its format and with the pattern that the validator uses', () => {
  const schema = published(Field(str, { email: true, maxLength: 300 }));
  assert.deepEqual(
    { ...schema, pattern: '' },
    { type: 'string', format: 'email', maxLength: 254, pattern: '' },
  );
  assert.match('a@b.co', new RegExp(String(schema['pattern']), 'u'));
  const both = published(Field(str, { email: true, pattern: 'example' }));
  assert.equal((both['allOf'] as unknown[]).length, 2);
  assert.equal(both['pattern'], undefined);
});

test('if a class has defaults, secret members or readOnly members, the class JsonSchemas writes different schemas for input and output', () => {
  class Account extends Schema {
    id = Field(int, { readOnly: true, description: 'Given by us' });
    name = Field(str);
    role = Field('user');
    password = Field(str, { secret: true, minLength: 8, example: 'shown to nobody' });
    zip = Field(str, { optional: true, alias: 'zip_code' });
  }
  const schemas = new JsonSchemas();
  const input = schemas.object(planOf(Account), 'input'),
    output = schemas.object(planOf(Account), 'output');
  assert.deepEqual(schemas.components(), {
    Account: {
      type: 'object',
      required: ['name', 'password'],
      properties: {
        name: { type: 'string' },
        role: { type: 'string', default: 'user' },
        password: { type: 'string', minLength: 8, writeOnly: true },
        zip_code: { type: 'string' },
      },
    },
    AccountOutput: {
      type: 'object',
      required: ['id', 'name', 'role'],
      properties: {
        id: {
          type: 'integer',
          minimum: -(2 ** 53 - 1),
          maximum: 2 ** 53 - 1,
          readOnly: true,
          description: 'Given by us',
        },
        name: { type: 'string' },
        role: { type: 'string', default: 'user' },
        zip_code: { type: 'string' },
      },
    },
  });
  assert.deepEqual(
    [input, output],
    [{ $ref: '#/components/schemas/Account' }, { $ref: '#/components/schemas/AccountOutput' }],
  );
  const only = new JsonSchemas();
  only.object(planOf(Account), 'output');
  assert.deepEqual(Object.keys(only.components()), ['Account']);
});

test('the class JsonSchemas writes one definition for a class whose input and output are equal, and numbers the definitions of classes with the same name', () => {
  const make = (): typeof Schema =>
    class User extends Schema {
      home = Field(Address, { description: 'Where', optional: true });
    };
  const [first, second] = [make(), make()];
  const schemas = new JsonSchemas({ prefix: '#/$defs/' });
  const refs = [
    schemas.object(planOf(first), 'input'),
    schemas.object(planOf(first), 'output'),
    schemas.object(planOf(second), 'input'),
  ];
  const components = schemas.components();
  assert.deepEqual(Object.keys(components), ['User', 'Address', 'User2']);
  assert.deepEqual(refs, [{ $ref: '#/$defs/User' }, { $ref: '#/$defs/User' }, { $ref: '#/$defs/User2' }]);
  assert.deepEqual(components['User'], {
    type: 'object',
    properties: { home: { $ref: '#/$defs/Address', description: 'Where' } },
  });
  assert.equal(schemas.components(), components);
  assert.throws(() => schemas.object(planOf(Address), 'input'), /no schema can be added/);
});

test('the class JsonSchemas writes definition names that are valid in a $ref', () => {
  const { Ünï } = {
    Ünï: class extends Schema {
      a = Field(int);
    },
  };
  const schemas = new JsonSchemas();
  schemas.object(planOf(Ünï), 'input');
  assert.deepEqual(Object.keys(schemas.components()), ['_n_']);
});

test('the class JsonSchemas sets additionalProperties to false only if unknown members are refused, and writes fields without a class inline', () => {
  class Closed extends Schema {
    static extra = 'forbid';
    a = Field(str);
  }
  class Open extends Schema {
    static extra = 'allow';
  }
  const schemas = new JsonSchemas();
  schemas.object(planOf(Closed), 'input');
  schemas.object(planOf(Open), 'input');
  assert.deepEqual(schemas.components(), {
    Closed: {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false,
    },
    Open: {
      type: 'object',
      properties: {},
      propertyNames: { not: { enum: ['toJSON'] } },
    },
  });
  assert.deepEqual(new JsonSchemas().object(fieldsOf({ a: Field(bool) }), 'input'), {
    type: 'object',
    properties: { a: { type: 'boolean' } },
    required: ['a'],
  });
});

test('the class JsonSchemas writes the schema of a class that contains itself', () => {
  class Tree extends Schema {
    children: Tree[] = Field(list(lazy(() => Tree)), { default: () => [] });
    parent: Tree | null = Field(nullable(Tree));
  }
  const schemas = new JsonSchemas();
  schemas.object(planOf(Tree), 'input');
  const ref = { $ref: '#/components/schemas/Tree' };
  assert.deepEqual(schemas.components(), {
    Tree: {
      type: 'object',
      properties: { children: { type: 'array', items: ref }, parent: { anyOf: [ref, { type: 'null' }] } },
      required: ['parent'],
    },
  });
  const json: FieldType<unknown, PlainOptions> = lazy(() => record(nullable(json)));
  const types = new JsonSchemas();
  assert.deepEqual(types.type(compileType(list(json)).node, 'input'), {
    type: 'array',
    items: types.components() && { $ref: '#/components/schemas/Type' },
  });
  assert.deepEqual(types.components(), {
    Type: {
      type: 'object',
      additionalProperties: { anyOf: [{ $ref: '#/components/schemas/Type' }, { type: 'null' }] },
    },
  });
});

test('the class JsonSchemas writes tagged unions, and adds a discriminator for OpenAPI', () => {
  class Cat extends Schema {
    kind = Field(literal('cat'), { alias: 'type' });
  }
  class Dog extends Schema {
    kind = Field(literal('dog', 'puppy'), { alias: 'type', default: 'dog' });
  }
  const refs = [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/DogVariant' }];
  for (const isOpenApi of [false, true]) {
    const schemas = new JsonSchemas({ isOpenApi });
    const schema = schemas.type(compileType(union('kind', Cat, Dog)).node, 'input');
    const components = schemas.components();
    assert.deepEqual(components['Cat'], {
      type: 'object',
      properties: { type: { type: 'string', const: 'cat' } },
      required: ['type'],
    });
    assert.deepEqual(components['DogVariant'], {
      type: 'object',
      properties: { type: { type: 'string', enum: ['dog', 'puppy'] } },
      required: ['type'],
    });
    const discriminator = {
      propertyName: 'type',
      mapping: { cat: refs[0]!.$ref, dog: refs[1]!.$ref, puppy: refs[1]!.$ref },
    };
    assert.deepEqual(schema, {
      type: 'object',
      required: ['type'],
      oneOf: refs,
      ...(isOpenApi ? { discriminator } : {}),
    });
  }
});

// ── reference: ajv, another implementation of JSON Schema, must give equal verdicts ──

type Judge = (value: unknown) => boolean;
function referee(folder: string): (schema: JsonSchema) => Judge {
  const require = createRequire(join(folder, 'package.json'));
  const { default: Ajv } = require('ajv/dist/2020') as {
    default: new (options: object) => { compile(schema: object): Judge };
  };
  const ajv = new Ajv({ strict: false, ownProperties: true }); // one ajv for all schemas, because each instance first compiles the meta-schema
  (require('ajv-formats') as { default: (ajv: object) => void }).default(ajv);
  return (schema) => ajv.compile(schema);
}

const AJV = { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' };

for (const seed of [2_020_12, 43, 7_919]) {
  test(`ajv accepts a value by the JSON Schema of a type exactly when the validator accepts it: seed ${seed}`, (t) => {
    const folder = scratch(t, 'ajv', AJV);
    if (folder === undefined) return;
    compareWith(referee(folder), Object.assign(new Random(seed), { makesReadOnly: true }));
  });
}

function compareWith(compile: (schema: JsonSchema) => Judge, random: Random): void {
  let fitting = 0,
    compared = 0;
  for (let i = 0; i < 300; i++) {
    const type = describe(random, 3, true),
      compiled = compileType(realise(type));
    const schemas = new JsonSchemas({ prefix: '#/$defs/' });
    const root = schemas.type(compiled.node, 'input');
    const $defs = schemas.components(); // the text of references is set from here on
    const document = { ...root, $defs };
    const judge = compile(document);
    for (let j = 0; j < 40; j++) {
      const invented = invent(random, type, true),
        value = isWrapped(type) ? { value: invented } : invented;
      const text = JSON.stringify(value);
      if (text === undefined) continue;
      const input: unknown = JSON.parse(text);
      const isGood = compiled.parseJson(input).ok;
      withMessage(
        () => assert.equal(judge(input), isGood),
        () =>
          `${text}\n${inspect(document, { depth: 12 })}\n${inspect(compiled.parseJson(input), { depth: 6 })}`,
      );
      compared++;
      if (isGood) fitting++;
    }
  }
  assert.ok(compared > 10_000 && fitting > compared / 10, `${fitting} of ${compared} fit`);
}

test('ajv accepts texts of each format, and bytes of any length, exactly when the validator accepts them', (t) => {
  const folder = scratch(t, 'ajv', AJV);
  if (folder === undefined) return;
  const compile = referee(folder);
  const random = new Random(43);
  for (const [name, examples] of Object.entries(FORMAT_EXAMPLES)) {
    const format = name as FormatName;
    const kind = { date, uuid, 'date-time': datetime }[name];
    for (const field of [Field(str, { format }), ...(kind === undefined ? [] : [Field(kind)])]) {
      const plan = fieldsOf({ x: field });
      const judge = compile(published(field));
      let fitting = 0;
      for (let i = 0; i < 3_000; i++) {
        const text = i < examples.length ? examples[i]! : mutated(random, random.pick(examples));
        if (name === 'uri' && /^[^:]*:(?:#|\?|\/\/[#?]|$)/.test(text)) continue; // RFC 3986 §3.3 allows an empty path, but ajv does not
        const isGood = plan.parseJson({ x: text }).ok;
        assert.equal(judge(text), isGood, `${name}: ${JSON.stringify(text)}`);
        if (isGood) fitting++;
      }
      assert.ok(fitting > 30, name);
    }
  }
  for (let least = 0; least < 10; least++) {
    for (let most = least; most < 10; most++) {
      const field = Field(bytes, { minLength: least, maxLength: most });
      const [plan, judge] = [fieldsOf({ x: field }), compile(published(field))];
      for (let length = 0; length < 12; length++) {
        const text = Buffer.alloc(length, length).toString('base64');
        assert.equal(plan.parseJson({ x: text }).ok, length >= least && length <= most);
        assert.equal(judge(text), length >= least && length <= most, `${length} of ${least} … ${most}`);
      }
    }
  }
});

const FORMAT_EXAMPLES: Readonly<Record<FormatName, readonly string[]>> = {
  email: ['a@b.co', 'ada.l@ex-ample.com'],
  uuid: ['123e4567-e89b-12d3-a456-426614174000', 'urn:uuid:123e4567-e89b-12d3-a456-426614174000'],
  date: ['2024-02-29', '0000-01-01', '2023-02-29'],
  'date-time': [
    '2026-01-31T09:30:00.123Z',
    '2026-01-31 09:30:00+05:30',
    '2026-12-31T23:59:60Z',
    '2026-12-31T20:29:60-03:30',
    '2026-01-31T09:30:00+0530',
    '2026-01-31T09:30:00+05',
  ],
  time: ['09:30:00Z', '23:59:60Z', '09:30:00.5+05:30', '09:30:00+05'],
  uri: [
    'http://a.b/c?d#e',
    'http://[::1]:80/x',
    'urn:isbn:1',
    'http://u:p@[v1.a:b]/',
    'x://[1:2]',
    'http://a[::1]/',
    'a://b@c@d/',
    'file:///etc',
  ],
  hostname: ['a.b.c', 'example.com.', 'xn--a', 'a_b', '-a.b'],
  ipv4: ['1.2.3.4', '01.2.3.4', '256.1.1.1'],
  ipv6: ['::1', '1:2:3:4:5:6:7:8', '::ffff:1.2.3.4', '1::', 'fe80::1%eth0', '1::2::3', '1:2:3:4:5:6:7::'],
};
const CHARACTERS = [...'0123456789abfgxyzTZtz+-:./@[]%#?_ \tvV٣é=&!,;()~*$\'"<>\\^`{|}\n'];

/** Returns a text that differs from another in one to three characters. */
function mutated(random: Random, text: string): string {
  const characters = [...text];
  for (let i = random.below(3); i >= 0; i--)
    characters.splice(
      random.below(characters.length + 1),
      random.below(2),
      ...(random.chance(0.7) ? [random.pick(CHARACTERS)] : []),
    );
  return characters.join('');
}

test('the JSON Schema of datetime refuses dates that a conversion to UTC could move out of the years 0000 to 9999', (t) => {
  const folder = scratch(t, 'ajv', AJV);
  if (folder === undefined) return;
  const judge = referee(folder)(published(Field(datetime)));
  for (const [text, isGood] of [
    ['0000-01-01T00:00:00Z', true],
    ['0000-01-01T23:00:00+01:00', false],
    ['0000-01-01T00:00:00-01:00', true],
    ['9999-12-31T23:59:59.999Z', true],
    ['9999-12-31T23:59:59+01:00', true],
    ['9999-12-31T23:59:59-00:00', true],
    ['9999-12-31T01:00:00-01:00', false],
    ['9999-12-31T23:59:60Z', false],
    ['2027-01-01T04:59:60+05:00', true],
    ['2026-01-31 09:30:00Z', false],
  ] as const) {
    assert.equal(judge(text), isGood, text);
    assert.equal(compileType(datetime).parseJson(text).ok, isGood, text);
  }
});

test('the class JsonSchemas omits read-only members from input schemas, because the validator ignores them in input', (t) => {
  class Ticket extends Schema {
    static extra = 'forbid';
    id = Field(int, { readOnly: true });
    title = Field(str);
  }
  const schemas = new JsonSchemas();
  schemas.object(planOf(Ticket), 'input');
  assert.deepEqual(schemas.components(), {
    Ticket: {
      type: 'object',
      properties: { title: { type: 'string' } },
      required: ['title'],
      propertyNames: { enum: ['id', 'title'] },
    },
  });
  const folder = scratch(t, 'ajv', AJV);
  if (folder === undefined) return;
  const judge = referee(folder)(schemas.components()['Ticket']!);
  for (const input of [{ title: 'a' }, { title: 'a', id: 'x' }, { title: 'a', more: 1 }, { id: 1 }])
    assert.equal(judge(input), Ticket.accepts(input), JSON.stringify(input));
});
