/** Two versions of a document: what breaks clients is told, and nothing else is. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BearerAuth,
  Depends,
  Field,
  Schema,
  Svc,
  bool,
  createLogger,
  date,
  float,
  int,
  lazy,
  list,
  literal,
  nullable,
  record,
  requireRoles,
  requireScopes,
  str,
  tuple,
  union,
} from '../../src/index.ts';
import { compareOpenapi } from '../../src/openapi/compare.ts';
import { compileType } from '../../src/schema/schema.ts';
import { generatedApp } from '../support/openapi-app.ts';
import { Random, describe, invent, isWrapped, realise } from '../support/schema-reference.ts';
import type { Described } from '../support/schema-reference.ts';
import type { OpenApiDocument } from '../../src/index.ts';
import type { TypeSource } from '../../src/schema/schema.ts';

type Declare = (app: Svc) => void;
const none = (): undefined => undefined;
const never = (): never => {
  throw new Error('not called');
};

function documentOf(declare: Declare): OpenApiDocument {
  const app = new Svc({
    logger: createLogger({ sink: () => undefined }),
    env: 'test',
    authSecret: 'kT9-vb2Lq8RzW4hXn6Yd0PmJcE3gUsAf',
  });
  declare(app);
  return JSON.parse(JSON.stringify(app.openapi())) as OpenApiDocument;
}
const changes = (before: Declare, after: Declare): string[] =>
  compareOpenapi(documentOf(before), documentOf(after)).map(
    ({ subject, message }) => `${subject}: ${message}`,
  );
const taking =
  (body: TypeSource): Declare =>
  (app) =>
    app.post('/', { body, status: 204 }, none);
const giving =
  (response: TypeSource): Declare =>
  (app) =>
    app.get('/', { response }, never);
const field = (source: TypeSource, options: object = {}): TypeSource =>
  class Body extends Schema {
    a = Field(source, options as never);
  };

test('A document breaks nothing of itself', () => {
  for (let seed = 0; seed < 5; seed++) {
    const document = generatedApp(seed, 100).openapi();
    assert.deepEqual(compareOpenapi(document, JSON.parse(JSON.stringify(document))), []);
  }
});

test('What is gone breaks clients: paths, methods, statuses, media types', () => {
  assert.deepEqual(
    changes(
      (app) => app.get('/a', none).post('/a', none).get('/b', none),
      (app) => app.get('/a', none),
    ),
    ['POST /a: it is gone', 'GET /b: it is gone'],
  );
  assert.deepEqual(
    changes(
      (app) => app.get('/', { status: 201 }, none),
      (app) => app.get('/', { status: 202 }, none),
    ),
    ['GET /: the answer 201 is gone'],
  );
  assert.deepEqual(
    changes((app) => app.post('/', { form: { a: Field(str) } }, none), taking(field(str))),
    [
      'POST /: the body cannot be application/x-www-form-urlencoded any more',
      'POST /: the body cannot be multipart/form-data any more',
      'POST /: the answer 200 is gone',
    ],
  );
});

test('Names of path parameters mean nothing, their types do', () => {
  assert.deepEqual(
    changes(
      (app) => app.get('/a/{x:int}/{y}', none),
      (app) => app.get('/a/{one:int}/{two}', none),
    ),
    [],
  );
  assert.deepEqual(
    changes(
      (app) => app.get('/a/{x}', none),
      (app) => app.get('/a/{x:int}', none),
    ),
    ['GET /a/{x}: the path parameter 1 cannot be string any more, but integer'],
  );
  assert.deepEqual(
    changes(
      (app) => app.get('/a/{x:int}', none),
      (app) => app.get('/a/{x:float}', none),
    ),
    [],
  );
  for (const path of ['/a/{x:int}', '/a/{x:float}', '/a/{x:uuid}'] as const)
    assert.deepEqual(
      changes(
        (app) => app.get(path, none),
        (app) => app.get('/a/{x}', none),
      ),
      [],
      path,
    );
});

test('Parameters are sent as text: what was a number, a flag or one of some numbers may become text, where that text has room for it', () => {
  const asking =
    (query: object): Declare =>
    (app) =>
      app.get('/', { query }, none);
  for (const earlier of [Field(int), Field(bool), Field(float), Field(literal(1, 2)), Field(literal(7))])
    assert.deepEqual(changes(asking({ earlier }), asking({ earlier: Field(str) })), []);
  assert.deepEqual(changes(asking({ a: Field(list(int)) }), asking({ a: Field(list(str)) })), []);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(str, { maxLength: 20 }) })), []);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(str, { maxLength: 10 }) })), [
    'GET /: the query a has the maxLength 10, it was 17',
  ]);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(date) })), [
    'GET /: the query a must have the format "date"',
  ]);
  assert.deepEqual(changes(asking({ a: Field(literal(1, 2)) }), asking({ a: Field(literal('1', '3')) })), [
    'GET /: the query a cannot be "2" any more',
  ]);
  assert.deepEqual(changes(asking({ a: Field(list(str)) }), asking({ a: Field(list(int)) })), [
    'GET /: the query a[] cannot be string any more, but integer',
  ]);
});

test('Parameters: a new one may be optional, an old one may not become required or narrower', () => {
  const asking =
    (query: object): Declare =>
    (app) =>
      app.get('/', { query }, none);
  assert.deepEqual(changes(asking({}), asking({ a: Field(1) })), []);
  assert.deepEqual(changes(asking({}), asking({ a: Field(str) })), [
    'GET /: the query a is required, and was not there',
  ]);
  assert.deepEqual(changes(asking({ a: Field(1) }), asking({ a: Field(int) })), [
    'GET /: the query a is required, it could be left out',
  ]);
  assert.deepEqual(changes(asking({ a: Field(int, { le: 9 }) }), asking({ a: Field(int, { le: 8 }) })), [
    'GET /: the query a has the maximum 8, it was 9',
  ]);
  assert.deepEqual(changes(asking({ a: Field(list(str)) }), asking({ a: Field(list(date)) })), [
    'GET /: the query a[] must have the format "date"',
  ]);
  assert.deepEqual(
    changes(
      (app) => app.get('/', { headers: { xA: Field(str) } }, none),
      (app) => app.get('/', { headers: { a: Field(str, { alias: 'X-A' }) } }, none),
    ),
    [],
  );
});

test('Bodies: what was taken must be taken still', () => {
  const cases: readonly (readonly [TypeSource, TypeSource, string | undefined])[] = [
    [field(str), field(str, { optional: true }), undefined],
    [field(str, { optional: true }), field(str), "the body's a is required, it could be left out"],
    [field(str, { maxLength: 5 }), field(str, { maxLength: 6 }), undefined],
    [
      field(str, { maxLength: 5 }),
      field(str, { maxLength: 4 }),
      "the body's a has the maxLength 4, it was 5",
    ],
    [field(str), field(str, { minLength: 1 }), "the body's a has the minLength 1"],
    [field(str, { pattern: '^a' }), field(str), undefined],
    [field(str), field(str, { pattern: '^a' }), 'the body\'s a must have the pattern "^a"'],
    [field(float), field(int), "the body's a cannot be number any more, but integer"],
    [field(int), field(float), undefined],
    [field(int, { ge: 0 }), field(int, { gt: 0 }), "the body's a has the exclusiveMinimum 0, it was 0"],
    [field(int, { gt: 0 }), field(int, { ge: 0 }), undefined],
    [field(int, { multipleOf: 4 }), field(int, { multipleOf: 2 }), undefined],
    [field(int, { multipleOf: 2 }), field(int, { multipleOf: 4 }), "the body's a must be a multiple of 4"],
    [field(literal('x', 'y')), field(literal('x', 'y', 'z')), undefined],
    [field(literal('x', 'y')), field(literal('x')), "the body's a cannot be y any more"],
    [field(str), field(literal('x')), "the body's a must be x, it could be anything of its type"],
    [field(literal('x')), field(str), undefined],
    [field(nullable(str)), field(str), "the body's a cannot be null any more, but string"],
    [field(str), field(nullable(str)), undefined],
    [field(list(str)), field(list(str), { minLength: 1 }), "the body's a has the minItems 1"],
    [field(list(nullable(int))), field(list(int)), "the body's a[] cannot be null any more, but integer"],
    [field(record(int)), field(record(str)), "the body's a.* cannot be integer any more, but string"],
    [field(nullable(field(str))), field(field(str)), "the body's a cannot be null any more, but object"],
    [field(field(str)), field(nullable(field(str))), undefined],
    [field(list(str)), field(list(str), { unique: true }), "the body's a must have no two equal items"],
    [field(list(str), { unique: true }), field(list(str)), undefined],
    [field(tuple(int, str)), field(tuple(float, str)), undefined],
    [
      field(tuple(float, str)),
      field(tuple(int, str)),
      "the body's a[0] cannot be number any more, but integer",
    ],
    [field(union(int, str)), field(union(int, str, bool)), undefined],
    [field(union(int, str)), field(int), "the body's a cannot be string any more, but integer"],
  ];
  for (const [before, after, expected] of cases)
    assert.deepEqual(
      changes(taking(before), taking(after)),
      expected === undefined ? [] : [`POST /: ${expected}`],
    );
});

test('Bodies: unknown members, new members, choices and recursion', () => {
  class Open extends Schema {
    a = Field(str);
  }
  class Closed extends Schema {
    static extra = 'forbid';
    a = Field(str);
  }
  class More extends Schema {
    a = Field(str);
    b = Field(str);
  }
  assert.deepEqual(changes(taking(Open), taking(Closed)), [
    'POST /: the body refuses members that it does not know',
  ]);
  assert.deepEqual(changes(taking(Open), taking(More)), [
    "POST /: the body's b is required, and was not there",
  ]);
  class Cat extends Schema {
    kind = Field(literal('cat'));
  }
  class Dog extends Schema {
    kind = Field(literal('dog'));
  }
  assert.deepEqual(changes(taking(union('kind', Cat)), taking(union('kind', Cat, Dog))), []);
  assert.deepEqual(changes(taking(union('kind', Cat, Dog)), taking(union('kind', Cat))), [
    'POST /: the body takes one of its earlier forms no more: Dog',
  ]);
  const tree = (most: number): TypeSource => {
    class Tree extends Schema {
      text = Field(str, { maxLength: most });
      children: Tree[] = Field(list(lazy(() => Tree)));
      other: Tree | null = Field(nullable(lazy(() => Tree)));
    }
    return Tree;
  };
  assert.deepEqual(changes(taking(tree(5)), taking(tree(6))), []);
  assert.deepEqual(changes(taking(tree(5)), taking(tree(4))), [
    "POST /: the body's text has the maxLength 4, it was 5",
  ]);
  assert.deepEqual(changes(giving(tree(4)), giving(tree(5))), []);
});

test('Answers: more members, other bounds are fine; missing ones and other types are not', () => {
  class Small extends Schema {
    a = Field(str, { maxLength: 5 });
  }
  class Large extends Schema {
    a = Field(str, { maxLength: 9 });
    b = Field(int);
  }
  assert.deepEqual(changes(giving(Small), giving(Large)), []);
  assert.deepEqual(changes(giving(Large), giving(Small)), ["GET /: the answer 200's b is gone"]);
  assert.deepEqual(changes(giving(Small), giving(field(str, { optional: true }))), [
    "GET /: the answer 200's a can be absent, it was always there",
  ]);
  assert.deepEqual(changes(giving(Small), giving(field(nullable(str)))), [
    "GET /: the answer 200's a can be what it could not be before",
  ]);
  assert.deepEqual(changes(giving(field(nullable(str))), giving(Small)), []);
  assert.deepEqual(changes(giving(field(float)), giving(field(int))), []);
});

test('Security: whoever had enough must have enough still', () => {
  const guarded =
    (source?: Parameters<typeof Depends>[0]): Declare =>
    (app) =>
      app.get('/', source === undefined ? {} : { me: Depends(source) }, none);
  const cases: readonly (readonly [Declare, Declare, readonly string[]])[] = [
    [guarded(), guarded(BearerAuth()), ['it needs http bearer, which was not needed']],
    [guarded(BearerAuth()), guarded(), []],
    [
      guarded(BearerAuth(undefined, { optional: true })),
      guarded(BearerAuth()),
      ['it needs http bearer, which was not needed'],
    ],
    [guarded(BearerAuth()), guarded(BearerAuth(undefined, { optional: true })), []],
    [guarded(BearerAuth()), guarded(requireScopes('a')), ['it needs the scope a, which was not needed']],
    [
      guarded(requireScopes('a')),
      guarded(requireScopes('a', 'b')),
      ['it needs the scope b, which was not needed'],
    ],
    [guarded(requireScopes('a', 'b')), guarded(requireScopes('a')), []],
    [guarded(requireRoles('a')), guarded(requireRoles('a', 'b')), []],
    [
      guarded(requireRoles('a', 'b')),
      guarded(requireRoles('a')),
      ['it needs the role a, and others were enough'],
    ],
    [
      guarded(BearerAuth()),
      guarded(requireRoles('a', 'b')),
      ['it needs the role a or b, which was not needed'],
    ],
  ];
  for (const [before, after, expected] of cases)
    assert.deepEqual(
      changes(before, after),
      expected.map((message) => `GET /: ${message}`),
    );
});

test('Whatever is no document is passed over', () => {
  for (const odd of [
    null,
    1,
    [],
    {},
    { paths: 1 },
    { paths: { '/': null } },
    { paths: { '/': { get: 1 } } },
    { paths: { '/': { $ref: '#/nowhere' } } },
    {
      paths: {
        '/': { get: { parameters: [{ $ref: 'https://x.example/#/a' }, null], responses: { 200: null } } },
      },
    },
  ]) {
    assert.doesNotThrow(() => compareOpenapi(odd, odd), JSON.stringify(odd));
    assert.doesNotThrow(() => compareOpenapi(odd, generatedApp(1, 5).openapi()), JSON.stringify(odd));
    assert.doesNotThrow(() => compareOpenapi(generatedApp(1, 5).openapi(), odd), JSON.stringify(odd));
  }
});

/** Another type, near this one. */
function changed(random: Random, type: Described): Described {
  if (random.chance(0.1)) return describe(random, 1, true);
  switch (type.kind) {
    case 'list':
    case 'record':
      return random.chance(0.3)
        ? { ...type, maxLength: (type.maxLength ?? 3) + random.below(3) - 1 }
        : { ...type, item: changed(random, type.item) };
    case 'nullable':
      return random.chance(0.2) ? type.inner : { ...type, inner: changed(random, type.inner) };
    case 'object': {
      const fields = type.fields.map((one) =>
        random.chance(0.3)
          ? { ...one, type: changed(random, one.type) }
          : random.chance(0.1) && one.presence === 'optional'
            ? { ...one, presence: 'required' as const }
            : one,
      );
      return {
        ...type,
        fields: random.chance(0.1) ? fields.slice(1) : fields,
        ...(random.chance(0.1) ? { extra: 'forbid' as const } : {}),
      };
    }
    case 'str':
      return {
        ...type,
        ...(random.chance(0.3) ? { maxLength: (type.minLength ?? 0) + random.below(5) } : {}),
      };
    case 'int':
      return random.chance(0.3) ? { ...type, kind: 'float' } : type;
    case 'literal':
      return {
        ...type,
        values: type.values.slice(0, 1 + random.below(type.values.length)) as typeof type.values,
      };
    default:
      return random.chance(0.2) ? { kind: 'nullable', inner: type } : type;
  }
}

test('Where nothing is told, whatever the earlier version took the later one takes', (t) => {
  const random = new Random(306);
  let kept = 0,
    reported = 0,
    values = 0;
  for (let i = 0; i < 1_500; i++) {
    const type = describe(random, 3, true);
    const other = changed(random, type);
    if (isWrapped(type) !== isWrapped(other)) continue;
    let after: ReturnType<typeof compileType>, sources: [TypeSource, TypeSource];
    try {
      sources = [realise(type), realise(other)];
      after = compileType(sources[1]);
      after.parseJson(null);
    } catch {
      continue;
    } // bounds that nothing could satisfy
    const before = compileType(sources[0]);
    if (changes(taking(sources[0]), taking(sources[1])).length > 0) {
      reported++;
      continue;
    }
    kept++;
    for (let j = 0; j < 20; j++) {
      const invented = invent(random, type, true);
      const input = JSON.parse(
        JSON.stringify(isWrapped(type) ? { value: invented } : invented) ?? 'null',
      ) as unknown;
      if (!before.parseJson(input).ok) continue;
      values++;
      const result = after.parseJson(input);
      if (!result.ok)
        assert.fail(`${JSON.stringify(input)}\n${JSON.stringify(type)}\n${JSON.stringify(other)}`);
    }
  }
  t.diagnostic(`${reported} told, ${kept} not, in which ${values} values were taken by both`);
  assert.ok(reported > 100 && kept > 100 && values > 1_000);
});

/** A document of one operation by hand, as other tools write them. */
function written(schema: object, more: object = {}, operation: object = {}): OpenApiDocument {
  const parameters = [{ name: 'a', in: 'query', schema }];
  return {
    openapi: '3.1.0',
    info: { title: 't', version: '1' },
    paths: { '/': { get: { parameters, responses: { 200: { description: 'OK' } }, ...operation } } },
    ...more,
  } as unknown as OpenApiDocument;
}
const reported = (before: OpenApiDocument, after: OpenApiDocument): string[] =>
  compareOpenapi(before, after).map(({ message }) => message);

test('The narrower of two bounds at one end counts, at either keyword', () => {
  const [wide, both] = [
    written({ type: 'integer', minimum: 5, maximum: 10 }),
    (more: object) => written({ type: 'integer', minimum: 5, maximum: 10, ...more }),
  ];
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 3, exclusiveMaximum: 20 })), []);
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 7 })), [
    'the query a has the exclusiveMinimum 7, it was 5',
  ]);
  assert.deepEqual(reported(wide, both({ exclusiveMaximum: 8 })), [
    'the query a has the exclusiveMaximum 8, it was 10',
  ]);
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 5 })), [
    'the query a has the exclusiveMinimum 5, it was 5',
  ]);
  assert.deepEqual(reported(both({ exclusiveMinimum: 7, exclusiveMaximum: 8 }), wide), []);
  assert.deepEqual(
    reported(both({ exclusiveMinimum: 4 }), written({ type: 'integer', minimum: 4, maximum: 10 })),
    [],
  );
});

test('The security of the document is that of each operation that says nothing, and an operation that says something has its own', () => {
  const components = {
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } } },
  };
  const open = written({}, components);
  const whole = written({}, { ...components, security: [{ key: [] }] });
  const exempt = written({}, { ...components, security: [{ key: [] }] }, { security: [] });
  assert.equal(reported(open, whole).length, 1);
  assert.match(reported(open, whole)[0]!, /apiKey/);
  assert.deepEqual(
    [reported(whole, open), reported(whole, whole), reported(open, exempt), reported(exempt, open)],
    [[], [], [], []],
  );
  assert.equal(reported(exempt, whole).length, 1);
});
