/**
 * Compares two versions of a document: every change that breaks clients is reported, and no other change.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BearerAuth,
  Depends,
  Field,
  Schema,
  Svc,
  any,
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

type ChangeLevel = ReturnType<typeof compareOpenapi>[number]['level'];
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
const breaking = (before: unknown, after: unknown): ReturnType<typeof compareOpenapi> =>
  compareOpenapi(before, after).filter(({ level }) => level === 'breaking');
const changesOf = (level: ChangeLevel, before: Declare, after: Declare): string[] =>
  compareOpenapi(documentOf(before), documentOf(after))
    .filter((change) => change.level === level)
    .map(({ subject, message }) => `${subject}: ${message}`);
const changes = (before: Declare, after: Declare): string[] => changesOf('breaking', before, after);
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

test('compareOpenapi() reports no breaking change if both OpenAPI documents are equal', () => {
  for (let seed = 0; seed < 5; seed++) {
    const document = generatedApp(seed, 100).openapi();
    assert.deepEqual(compareOpenapi(document, JSON.parse(JSON.stringify(document))), []);
  }
});

test('compareOpenapi() reports removed paths, methods, statuses and media types', () => {
  assert.deepEqual(
    changes(
      (app) => app.get('/a', none).post('/a', none).get('/b', none),
      (app) => app.get('/a', none),
    ),
    ['POST /a: the operation was removed', 'GET /b: the operation was removed'],
  );
  assert.deepEqual(
    changes(
      (app) => app.get('/', { status: 201 }, none),
      (app) => app.get('/', { status: 202 }, none),
    ),
    ['GET /: the response 201 was removed'],
  );
  assert.deepEqual(
    changes((app) => app.post('/', { form: { a: Field(str) } }, none), taking(field(str))),
    [
      'POST /: the body can no longer have the type application/x-www-form-urlencoded',
      'POST /: the body can no longer have the type multipart/form-data',
      'POST /: the response 200 was removed',
    ],
  );
});

test('compareOpenapi() reports changes that clients may notice without failing, and why', () => {
  const asking =
    (query: object): Declare =>
    (app) =>
      app.get('/', { query }, none);
  const cases: readonly (readonly [ChangeLevel, Declare, Declare, string])[] = [
    [
      'risky',
      giving(field(literal('a', 'b'))),
      giving(field(literal('a', 'b', 'c'))),
      "the response 200's a can now be c (these clients may not expect it)",
    ],
    [
      'risky',
      asking({ a: Field(str, { optional: true }) }),
      asking({}),
      'the query a was removed (the server ignores what these clients send, so the result may differ)',
    ],
    [
      'risky',
      asking({ a: Field(1) }),
      asking({ a: Field(2) }),
      'the query a has the default 2; it had the default 1 (requests without it have another meaning)',
    ],
    [
      'risky',
      (app) => app.get('/', { name: 'one' }, none),
      (app) => app.get('/', { name: 'two' }, none),
      'the operationId is now two; it was one (generated clients have a function of another name)',
    ],
    [
      'notice',
      giving(field(str)),
      (app) => app.get('/', { response: { 200: field(str), 409: field(str) } }, never),
      'the response 409 is new (clients treat unknown errors alike)',
    ],
  ];
  for (const [level, before, after, expected] of cases)
    assert.deepEqual(
      compareOpenapi(documentOf(before), documentOf(after)).map((change) => [
        change.level,
        `${change.message} (${change.reason})`,
      ]),
      [[level, expected]],
    );
});

test('compareOpenapi() ignores renamed path parameters, and reports path parameters whose type changes', () => {
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
    ['GET /a/{x}: the path parameter 1 can no longer be string, only integer'],
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

test('compareOpenapi() accepts that a number, boolean or enumeration parameter becomes a string, if the string allows all former values', () => {
  const asking =
    (query: object): Declare =>
    (app) =>
      app.get('/', { query }, none);
  for (const earlier of [Field(int), Field(bool), Field(float), Field(literal(1, 2)), Field(literal(7))])
    assert.deepEqual(changes(asking({ earlier }), asking({ earlier: Field(str) })), []);
  assert.deepEqual(changes(asking({ a: Field(list(int)) }), asking({ a: Field(list(str)) })), []);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(str, { maxLength: 20 }) })), []);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(str, { maxLength: 10 }) })), [
    'GET /: the query a has the maxLength 10; it was 17',
  ]);
  assert.deepEqual(changes(asking({ a: Field(int) }), asking({ a: Field(date) })), [
    'GET /: the query a must have the format "date"',
  ]);
  assert.deepEqual(changes(asking({ a: Field(literal(1, 2)) }), asking({ a: Field(literal('1', '3')) })), [
    'GET /: the query a can no longer be "2"',
  ]);
  assert.deepEqual(changes(asking({ a: Field(list(str)) }), asking({ a: Field(list(int)) })), [
    'GET /: the query a[] can no longer be string, only integer',
  ]);
});

test('compareOpenapi() accepts new optional parameters, and reports parameters that become required or accept fewer values', () => {
  const asking =
    (query: object): Declare =>
    (app) =>
      app.get('/', { query }, none);
  assert.deepEqual(changes(asking({}), asking({ a: Field(1) })), []);
  assert.deepEqual(changes(asking({}), asking({ a: Field(str) })), [
    'GET /: the query a is new and required',
  ]);
  assert.deepEqual(changes(asking({ a: Field(1) }), asking({ a: Field(int) })), [
    'GET /: the query a is now required; it was optional',
  ]);
  assert.deepEqual(changes(asking({ a: Field(int, { le: 9 }) }), asking({ a: Field(int, { le: 8 }) })), [
    'GET /: the query a has the maximum 8; it was 9',
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

test('compareOpenapi() reports a request body if the later document refuses a value that the earlier document accepts', () => {
  const cases: readonly (readonly [TypeSource, TypeSource, string | undefined])[] = [
    [field(str), field(str, { optional: true }), undefined],
    [field(str, { optional: true }), field(str), "the body's a is now required; it was optional"],
    [field(str, { maxLength: 5 }), field(str, { maxLength: 6 }), undefined],
    [
      field(str, { maxLength: 5 }),
      field(str, { maxLength: 4 }),
      "the body's a has the maxLength 4; it was 5",
    ],
    [field(str), field(str, { minLength: 1 }), "the body's a has the minLength 1"],
    [field(str, { pattern: '^a' }), field(str), undefined],
    [field(str), field(str, { pattern: '^a' }), 'the body\'s a must have the pattern "^a"'],
    [field(float), field(int), "the body's a can no longer be number, only integer"],
    [field(int), field(float), undefined],
    [field(int, { ge: 0 }), field(int, { gt: 0 }), "the body's a has the exclusiveMinimum 0; it was 0"],
    [field(int, { gt: 0 }), field(int, { ge: 0 }), undefined],
    [field(int, { multipleOf: 4 }), field(int, { multipleOf: 2 }), undefined],
    [field(int, { multipleOf: 2 }), field(int, { multipleOf: 4 }), "the body's a must be a multiple of 4"],
    [field(literal('x', 'y')), field(literal('x', 'y', 'z')), undefined],
    [field(literal('x', 'y')), field(literal('x')), "the body's a can no longer be y"],
    [field(str), field(literal('x')), "the body's a must now be x; any value of its type was accepted"],
    [field(literal('x')), field(str), undefined],
    [field(nullable(str)), field(str), "the body's a can no longer be null, only string"],
    [field(str), field(nullable(str)), undefined],
    [field(list(str)), field(list(str), { minLength: 1 }), "the body's a has the minItems 1"],
    [field(list(nullable(int))), field(list(int)), "the body's a[] can no longer be null, only integer"],
    [field(record(int)), field(record(str)), "the body's a.* can no longer be integer, only string"],
    [field(nullable(field(str))), field(field(str)), "the body's a can no longer be null, only object"],
    [field(field(str)), field(nullable(field(str))), undefined],
    [field(list(str)), field(list(str), { unique: true }), "the body's a must have no two equal items"],
    [field(list(str), { unique: true }), field(list(str)), undefined],
    [field(tuple(int, str)), field(tuple(float, str)), undefined],
    [
      field(tuple(float, str)),
      field(tuple(int, str)),
      "the body's a[0] can no longer be number, only integer",
    ],
    [field(union(int, str)), field(union(int, str, bool)), undefined],
    [field(union(int, str)), field(int), "the body's a can no longer be string, only integer"],
  ];
  for (const [before, after, expected] of cases)
    assert.deepEqual(
      changes(taking(before), taking(after)),
      expected === undefined ? [] : [`POST /: ${expected}`],
    );
});

test('compareOpenapi() reports request bodies that now refuse unknown members, an alternative or longer texts in recursive schemas', () => {
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
  assert.deepEqual(changes(taking(Open), taking(Closed)), ['POST /: the body refuses unknown members']);
  assert.deepEqual(changes(taking(Open), taking(More)), ["POST /: the body's b is new and required"]);
  class Cat extends Schema {
    kind = Field(literal('cat'));
  }
  class Dog extends Schema {
    kind = Field(literal('dog'));
  }
  assert.deepEqual(changes(taking(union('kind', Cat)), taking(union('kind', Cat, Dog))), []);
  assert.deepEqual(changes(taking(union('kind', Cat, Dog)), taking(union('kind', Cat))), [
    'POST /: the body no longer accepts one of its alternatives: Dog',
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
    "POST /: the body's text has the maxLength 4; it was 5",
  ]);
  assert.deepEqual(changes(giving(tree(4)), giving(tree(5))), []);
});

test('compareOpenapi() accepts added members and changed length limits in responses, and reports removed members and changed types', () => {
  class Small extends Schema {
    a = Field(str, { maxLength: 5 });
  }
  class Large extends Schema {
    a = Field(str, { maxLength: 9 });
    b = Field(int);
  }
  assert.deepEqual(changes(giving(Small), giving(Large)), []);
  assert.deepEqual(changes(giving(Large), giving(Small)), ["GET /: the response 200's b was removed"]);
  assert.deepEqual(changes(giving(Small), giving(field(str, { optional: true }))), [
    "GET /: the response 200's a can now be absent; it was always present",
  ]);
  assert.deepEqual(changes(giving(Small), giving(field(nullable(str)))), [
    "GET /: the response 200's a can now have values that were not possible before",
  ]);
  assert.deepEqual(changes(giving(field(nullable(str))), giving(Small)), []);
  assert.deepEqual(changes(giving(field(float)), giving(field(int))), []);
});

test('compareOpenapi() reports operations for which the previous credentials no longer suffice', () => {
  const guarded =
    (source?: Parameters<typeof Depends>[0]): Declare =>
    (app) =>
      app.get('/', source === undefined ? {} : { me: Depends(source) }, none);
  const cases: readonly (readonly [Declare, Declare, readonly string[]])[] = [
    [guarded(), guarded(BearerAuth()), ['the operation now requires http bearer']],
    [guarded(BearerAuth()), guarded(), []],
    [
      guarded(BearerAuth(undefined, { optional: true })),
      guarded(BearerAuth()),
      ['the operation now requires http bearer'],
    ],
    [guarded(BearerAuth()), guarded(BearerAuth(undefined, { optional: true })), []],
    [guarded(BearerAuth()), guarded(requireScopes('a')), ['the operation now requires the scope a']],
    [
      guarded(requireScopes('a')),
      guarded(requireScopes('a', 'b')),
      ['the operation now requires the scope b'],
    ],
    [guarded(requireScopes('a', 'b')), guarded(requireScopes('a')), []],
    [guarded(requireRoles('a')), guarded(requireRoles('a', 'b')), []],
    [
      guarded(requireRoles('a', 'b')),
      guarded(requireRoles('a')),
      ['the operation now requires the role a: other roles were sufficient before'],
    ],
    [
      guarded(BearerAuth()),
      guarded(requireRoles('a', 'b')),
      ['the operation now requires the role a or b: no role was required before'],
    ],
  ];
  for (const [before, after, expected] of cases)
    assert.deepEqual(
      changes(before, after),
      expected.map((message) => `GET /: ${message}`),
    );
});

/** Returns an application that sends a request, as a webhook and as a callback. */
const sending =
  (sent: object | undefined, url = '{$request.body#/url}'): Declare =>
  (app) =>
    app.post(
      '/orders',
      { body: any, status: 204, callbacks: sent === undefined ? {} : { paid: { url, ...sent } } },
      none,
    );
function sendingChanges(before: object | undefined, after: object | undefined): string[] {
  const documents = [before, after].map((sent) => {
    const app = new Svc({
      logger: createLogger({ sink: () => undefined }),
      env: 'test',
      openapi: { webhooks: sent === undefined ? {} : { paid: sent } },
    });
    return JSON.parse(JSON.stringify(app.openapi())) as OpenApiDocument;
  });
  const hooks = breaking(documents[0], documents[1]).map(({ subject, message }) => {
    assert.equal(subject, 'webhook paid');
    return message;
  });
  const prefix = 'callback paid of POST /orders: ';
  const callbacks = changes(sending(before), sending(after)).map((change) => {
    assert.ok(change.startsWith(prefix), change);
    return change.slice(prefix.length);
  });
  assert.deepEqual(
    hooks.map((message) => message.replace('webhook', 'callback')),
    callbacks,
  );
  return callbacks;
}

test('compareOpenapi() reports removed webhooks and callbacks, and payload changes that existing receivers cannot handle', () => {
  class Paid extends Schema {
    order = Field(int, { le: 9 });
    note = Field(str, { optional: true });
  }
  class Wider extends Schema {
    order = Field(union(int, str));
    note = Field(str, { optional: true });
    more = Field(str, { default: 'x' });
  }
  class Less extends Schema {
    note = Field(str, { optional: true });
  }
  class Bounded extends Schema {
    order = Field(int, { le: 99 });
    note = Field(str);
    more = Field(bool);
  }
  const headers = { xSignature: Field(str), xId: Field(int) };
  const paid = { body: Paid, headers, response: { 200: Paid, 204: any } };
  assert.deepEqual(sendingChanges(paid, paid), []);
  assert.deepEqual(sendingChanges(undefined, paid), []);
  assert.deepEqual(sendingChanges(paid, undefined), ['the callback was removed']);
  assert.deepEqual(sendingChanges(paid, { ...paid, method: 'PUT' }), ['the callback was removed']);
  assert.deepEqual(sendingChanges(paid, { ...paid, body: Bounded }), []);
  assert.deepEqual(sendingChanges(paid, { ...paid, body: Wider }), [
    "the body's order can now have values that were not possible before",
  ]);
  assert.deepEqual(sendingChanges(paid, { ...paid, body: Less }), ["the body's order was removed"]);
  assert.deepEqual(sendingChanges(paid, { headers, response: paid.response }), [
    'the body is no longer sent',
  ]);
  assert.deepEqual(
    sendingChanges(paid, { ...paid, headers: { xSignature: Field(str, { optional: true }) } }),
    ['the header x-signature can now be absent; it was always present', 'the header x-id is no longer sent'],
  );
  assert.deepEqual(sendingChanges(paid, { ...paid, headers: { xSignature: Field(str), xId: Field(str) } }), [
    'the header x-id can now have values that were not possible before',
  ]);
  assert.deepEqual(sendingChanges(paid, { ...paid, response: { 200: Bounded } }), [
    "the response 200's note is now required; it was optional",
    "the response 200's more is new and required",
    'the response 204 is no longer accepted',
  ]);
  assert.deepEqual(
    changes(sending(paid), sending(paid, '{$request.query.url}')),
    ['callback paid of POST /orders: the callback was removed'],
    'the address comes from another place',
  );
  assert.deepEqual(
    changes(sending(paid), (app) => app.get('/', none)),
    ['POST /orders: the operation was removed'],
    'a callback is removed with its operation',
  );
});

test('compareOpenapi() does not throw for values that are not an OpenAPI document', () => {
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

/** Returns the type with one random change. */
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

test('if compareOpenapi() reports nothing, the later schema accepts every value that the earlier schema accepted', (t) => {
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
      continue; // the bounds exclude every value
    }
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

/** Returns a document with one operation, as other tools write it. */
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
  breaking(before, after).map(({ message }) => message);

test('if a schema has both minimum and exclusiveMinimum, or both maximum and exclusiveMaximum, compareOpenapi() uses the stricter bound', () => {
  const [wide, both] = [
    written({ type: 'integer', minimum: 5, maximum: 10 }),
    (more: object) => written({ type: 'integer', minimum: 5, maximum: 10, ...more }),
  ];
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 3, exclusiveMaximum: 20 })), []);
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 7 })), [
    'the query a has the exclusiveMinimum 7; it was 5',
  ]);
  assert.deepEqual(reported(wide, both({ exclusiveMaximum: 8 })), [
    'the query a has the exclusiveMaximum 8; it was 10',
  ]);
  assert.deepEqual(reported(wide, both({ exclusiveMinimum: 5 })), [
    'the query a has the exclusiveMinimum 5; it was 5',
  ]);
  assert.deepEqual(reported(both({ exclusiveMinimum: 7, exclusiveMaximum: 8 }), wide), []);
  // the format of an integer follows from its bounds
  assert.deepEqual(reported(wide, both({ format: 'int64' })), []);
  assert.deepEqual(
    reported(both({ exclusiveMinimum: 4 }), written({ type: 'integer', minimum: 4, maximum: 10 })),
    [],
  );
});

test('compareOpenapi() applies the security of the whole document to operations that declare no security', () => {
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

test('compareOpenapi() reports a webhook whose body becomes optional or gets an additional media type', () => {
  const sent = (types: readonly string[], required: boolean): object => ({
    webhooks: {
      paid: {
        post: { requestBody: { required, content: Object.fromEntries(types.map((type) => [type, {}])) } },
      },
    },
  });
  const [json, both, any] = [['application/json'], ['application/json', 'text/xml'], ['*/*']];
  const found = (before: object, after: object): string[] =>
    breaking(before, after).map(({ message }) => message);
  assert.deepEqual(found(sent(json, true), sent(json, true)), []);
  assert.deepEqual(found(sent(json, false), sent(json, true)), []);
  assert.deepEqual(found(sent(any, true), sent([...any, ...json], true)), []);
  assert.deepEqual(found(sent(json, true), sent(json, false)), [
    'the body can now be absent; it was always present',
  ]);
  assert.deepEqual(found(sent(json, true), sent(both, true)), ['the body can now have the type text/xml']);
});
