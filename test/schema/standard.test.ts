/**
 * Schemas of other libraries (Standard Schema version 1), and schema classes as Standard Schemas. The schemas are
 * written by hand; standard.integration.test.ts uses zod, valibot and arktype.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Depends,
  Field,
  Schema,
  Svc,
  SvcError,
  datetime,
  file,
  list,
  nullable,
  provide,
  str,
} from '../../src/index.ts';
import { compileBody, compileSerializer, compileType } from '../../src/schema/schema.ts';
import { JsonSchemas } from '../../src/schema/json-schema.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { described, ITEM, readItem, standard } from '../support/standard.ts';
import type { Issue, StandardResult, StandardSchema } from '../../src/index.ts';

const Item = standard(readItem, described(ITEM));
const AsyncItem = standard(async (value) => Promise.resolve(readItem(value)));
const Later = standard((value) => Promise.resolve(readItem(value)));

/** Returns the issues of an invalid value, as `path code message`. */
function issuesOf(schema: StandardSchema, value: unknown = {}): string[] {
  const result = compileType(schema).parseJson(value, 'body');
  return result.ok
    ? []
    : result.issues.map(({ loc, code, message }) => `${loc.join('.')} ${code} ${message}`);
}

const failing = (...issues: unknown[]): StandardSchema => standard(() => ({ issues: issues as never }));

function isFault(vendor: string, problem: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, 'E_SCHEMA_STANDARD');
    assert.match(error.message, new RegExp(`schema of ${vendor}: `));
    assert.match(error.message, problem);
    return true;
  };
}

test('a foreign schema returns its converted value, and its issues get our form with their paths', () => {
  assert.deepEqual(compileType(Item).parseJson({ name: 'a', count: '3' }), {
    ok: true,
    value: { name: 'a', count: 3 },
  });
  assert.deepEqual(issuesOf(Item, { count: 'x' }), [
    'body.name invalid Expected text',
    'body.count invalid Expected a number',
  ]);
  assert.deepEqual(compileType(standard(() => ({ value: undefined }))).parseJson(1), {
    ok: true,
    value: undefined,
  });
});

test('the issues of a foreign schema may have codes, path items as objects, numbers and symbols, or no path', () => {
  assert.deepEqual(
    issuesOf(
      failing(
        { message: 'a', path: ['list', 0, { key: 'x' }, { key: 2 }, Symbol('s')], code: 'invalid_type' },
        { message: 'b', code: 'no code\n' },
        { message: 'c', path: 'name' },
        {},
        undefined,
        { message: 7, path: [null] },
      ),
    ),
    [
      'body.list.0.x.2.Symbol(s) invalid_type a',
      'body invalid b',
      'body invalid c',
      'body invalid is not valid',
      'body invalid is not valid',
      'body.null invalid is not valid',
    ],
  );
  assert.deepEqual(issuesOf(failing()), ['body invalid is not valid']);
});

test('the number of issues, the length of their messages and the length of their paths are limited', () => {
  const many = issuesOf(failing(...Array.from({ length: 100_000 }, () => ({ message: 'm', path: ['a'] }))));
  assert.equal(many.length, 101);
  assert.match(many.at(-1)!, /^body more has more than 100 problems/);
  const long = compileType(
    failing({ message: '\ud800'.repeat(9_000), path: Array.from({ length: 9_000 }, () => 'k'.repeat(900)) }),
  ).parseJson({});
  assert.ok(!long.ok);
  const [{ loc, message }] = long.issues as readonly [Issue];
  assert.deepEqual([loc.length, String(loc[0]).length, message.length], [64, 129, 501]);
  assert.ok(message.isWellFormed());
});

test('a foreign schema without version 1 or validate() is refused when it is compiled', () => {
  for (const props of [{}, { version: 2, vendor: 'x', validate: readItem }, { version: 1, vendor: 'x' }])
    assert.throws(
      () => compileType({ '~standard': props } as never),
      isFault(props.vendor ?? 'undefined', /lacks version 1 or the function/),
    );
  assert.throws(() => compileType({ parse: readItem } as never), /a schema with the member "~standard"/);
});

test('a result that is neither a value nor issues is a fault, and an exception of validate() passes to the caller', async () => {
  for (const garbage of [
    undefined,
    null,
    5,
    'x',
    {},
    { issues: 'x' },
    { issues: {} },
    { issues: null },
    [],
  ]) {
    const schema = standard((): never => garbage as never);
    assert.throws(() => compileType(schema).parseJson({}), isFault('hand', /neither a value nor issues/));
    const later = standard(() => Promise.resolve(garbage as never));
    await assert.rejects(
      async () => compileBody(later, 'a body').parseBody({}),
      isFault('hand', /neither a value nor issues/),
    );
  }
  const throwing = standard((): never => {
    throw new RangeError('broken');
  });
  assert.throws(() => compileType(throwing).parseJson({}), RangeError);
});

test('only parseBody() awaits a promise; elsewhere the promise is a fault, also if it rejects', async () => {
  assert.deepEqual(await compileBody(Later, 'a body').parseBody({ name: 'a' }), {
    ok: true,
    value: { name: 'a', count: 1 },
  });
  const refused = await compileBody(Later, 'a body').parseBody({}, 'body');
  assert.deepEqual(refused.ok || refused.issues, [
    { loc: ['body', 'name'], code: 'invalid', message: 'Expected text' },
  ]);
  assert.throws(() => compileType(Later).parseJson({}), isFault('hand', /only the option "body" awaits/));
  const rejecting = standard(() => Promise.reject<never>(new Error('later')));
  assert.throws(() => compileType(rejecting).parseJson({}), isFault('hand', /asynchronously/));
  await assert.rejects(async () => compileBody(rejecting, 'a body').parseBody({}), /later/);
});

test('a schema whose validate() is an async function, or that has the mark of valibot, is refused when it is compiled', () => {
  const marked = Object.assign(standard(readItem), { async: true });
  for (const schema of [AsyncItem, marked]) {
    assert.throws(() => compileSerializer(schema), isFault('hand', /asynchronously/));
    assert.throws(() => compileType(list(schema)), isFault('hand', /asynchronously/));
  }
  assert.throws(() => compileType(marked), isFault('hand', /asynchronously/));
  assert.ok(compileBody(AsyncItem, 'a body'));
});

test('a foreign schema can be a part of our types, and a reply writes its converted value like any()', () => {
  class Box extends Schema {
    item = Field(Item);
    rest = Field(list(nullable(Item)));
    more = Field(Item, { optional: true });
  }
  const box = Box.parse({ item: { name: 'a' }, rest: [null, { name: 'b', count: '2' }] });
  assert.deepEqual(
    { ...box },
    { item: { name: 'a', count: 1 }, rest: [null, { name: 'b', count: 2 }], more: undefined },
  );
  const wrong = Box.safeParse({ item: 5, rest: [{ count: 'x', name: '' }] });
  assert.deepEqual(wrong.ok || wrong.issues.map(({ loc }) => loc.join('.')), ['item.name', 'rest.0.count']);
  assert.deepEqual(Box.accepts({ item: { name: 'a' }, rest: [] }), true);
  assert.deepEqual(Box.accepts({ item: {}, rest: [] }), false);
  const moment = standard((value) => ({ value: { at: value as Date, big: 5n } }));
  assert.deepEqual(compileSerializer(moment).toJson(new Date(0)), {
    ok: true,
    value: '{"at":"1970-01-01T00:00:00.000Z","big":"5"}',
  });
  const lost = compileSerializer(Item).toJson({ count: 1 });
  assert.deepEqual(lost.ok || lost.issues, [{ loc: ['name'], code: 'invalid', message: 'Expected text' }]);
});

test('the JSON Schema of a foreign schema becomes part of the document; its definitions move, and data stay', () => {
  const tree = standard(readItem, {
    input: () => ({
      $schema: 'x',
      title: 'Tree',
      type: 'object',
      properties: {
        kids: { type: 'array', items: { $ref: '#' } },
        leaf: { $ref: '#/$defs/Leaf', description: 'last' },
        $defs: { const: { $ref: '#' }, default: [{ $schema: 1 }] },
        gone: { $ref: '#/$defs/none' },
      },
      $defs: { Leaf: { type: 'string', enum: ['$ref'] } },
    }),
    output: () => {
      throw new Error('a Date has no JSON Schema');
    },
  });
  const schemas = new JsonSchemas();
  const { node } = compileType(tree);
  const [input, output] = [schemas.type(node, 'input'), schemas.type(node, 'output')];
  const components = schemas.components();
  const root = {
    title: 'Tree',
    type: 'object',
    properties: {
      kids: { type: 'array', items: { $ref: '#/components/schemas/Tree' } },
      leaf: { $ref: '#/components/schemas/Leaf', description: 'last' },
      $defs: { const: { $ref: '#' }, default: [{ $schema: 1 }] },
      gone: {},
    },
  };
  assert.deepEqual([input, output], [root, {}]);
  assert.deepEqual(components, { Tree: root, Leaf: { type: 'string', enum: ['$ref'] } });
});

/** Returns a client of the application; unhandled errors become a 500 and are in `events`. */
function served(declare: (app: Svc) => void): {
  client: TestClient;
  events: Record<string, unknown>[];
} & AsyncDisposable {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  declare(app);
  const client = new TestClient(app, { raiseErrors: false });
  return { client, events, [Symbol.asyncDispose]: () => client.close() };
}

const echo = standard((value): StandardResult<unknown> => ({ value }));
const lists = standard(
  (value): StandardResult<unknown> => ({ value }),
  described({ type: 'object', properties: { tags: { type: 'array' }, userAgent: { type: 'string' } } }),
);
const problemOf = async (response: Response): Promise<string[]> =>
  ((await response.json()) as { errors: Issue[] }).errors.map(
    ({ loc, message }) => `${loc.join('.')} ${message}`,
  );

test('a foreign schema gets the texts of query, headers, cookies, path and form, and lists for repeated names', async () => {
  await using it = served((app) =>
    app
      .get(
        '/texts/{id:int}/{rest:path}',
        { query: echo, cookies: echo, params: echo },
        ({ query, cookies, params }) => ({
          query,
          cookies,
          params,
        }),
      )
      .get('/lists', { query: lists, headers: lists }, ({ query, headers }) => ({ query, headers }) as never)
      .post('/form', { form: echo }, ({ form }) => ({ form }) as never)
      .get(
        '/dependency',
        { dep: Depends(provide({ query: Item }, ({ query }) => query.count)) },
        ({ dep }) => ({ dep }),
      ),
  );
  const texts = await it.client.get('/texts/7/a/b?a=1&a=&b=x&__proto__=1', { headers: { cookie: 'c=d' } });
  assert.deepEqual(
    JSON.parse(await texts.text(), (key, value: unknown) => (key === '__proto__' ? undefined : value)),
    {
      query: { a: ['1', ''], b: 'x' },
      cookies: { c: 'd' },
      params: { id: '7', rest: 'a/b' },
    },
  );
  const listed = await it.client.get('/lists?tags=a', { headers: { tags: 'x, y', 'user-agent': 'u' } });
  const { query, headers } = (await listed.json()) as Record<string, Record<string, unknown>>;
  assert.deepEqual(query, { tags: ['a'] });
  assert.deepEqual([headers!['tags'], headers!['userAgent'], headers!['user-agent']], [['x', 'y'], 'u', 'u']);
  assert.deepEqual(await (await it.client.post('/form', { form: { a: '1' } })).json(), { form: { a: '1' } });
  assert.deepEqual(await (await it.client.get('/dependency?name=a&count=4')).json(), { dep: 4 });
});

test('issues of foreign schemas in several inputs and in the body come in one response', async () => {
  await using it = served((app) =>
    app.post('/x/{name}', { query: Item, params: Item, body: Later }, ({ body, params, query }) => ({
      sum: body.count + params.count + query.count,
    })),
  );
  const refused = await it.client.post('/x/a?count=x', { json: {} });
  assert.equal(refused.status, 400);
  assert.deepEqual(await problemOf(refused), [
    'query.name Expected text',
    'query.count Expected a number',
    'body.name Expected text',
  ]);
  const accepted = await it.client.post('/x/a?name=b', { json: { name: 'c', count: 5 } });
  assert.deepEqual(await accepted.json(), { sum: 7 });
});

test('a schema that returns a promise for a query or a reply is a 500 with a coded error, and a rejected body, too', async () => {
  await using it = served((app) =>
    app
      .get('/query', { query: Later }, () => 1)
      .get('/reply', { response: Later }, () => ({ name: 'a', count: 1 }))
      .post('/body', { body: standard(() => Promise.reject<never>(new Error('no database'))) }, () => 1),
  );
  assert.equal((await it.client.get('/query?name=a')).status, 500);
  assert.equal((await it.client.get('/reply')).status, 500);
  assert.equal((await it.client.post('/body', { json: {} })).status, 500);
  const text = JSON.stringify(it.events);
  assert.match(text, /E_SCHEMA_STANDARD/);
  assert.match(text, /no database/);
});

test('an asynchronous schema in a query, a form, a reply or a message stops the start, and a body is accepted', () => {
  const app = new Svc()
    .get('/query', { query: AsyncItem }, () => 1)
    .post('/form', { public: true, form: AsyncItem }, () => 1)
    .get('/reply', { response: { 200: AsyncItem } }, () => ({ name: 'a', count: 1 }))

    .post('/body', { public: true, body: AsyncItem }, () => 1)
    .get('/x/{id}', { params: Item }, () => 1);
  app.websocket('/ws', { message: AsyncItem }, () => undefined);
  assert.throws(
    () => app.compileAll(),
    (error) => {
      const findings = (error as SvcError).findings!.filter(({ severity }) => severity === 'error');
      assert.deepEqual(
        findings.map(({ rule, subject }) => [rule, subject]),
        ['GET /query', 'POST /form', 'GET /reply', 'GET /x/{id}', 'WEBSOCKET /ws'].map((subject) => [
          'SVC107',
          subject,
        ]),
      );
      assert.match(findings[3]!.message, /"params" has the field "name", but the path has no parameter/);
      return true;
    },
  );
});

test('a reply is validated by its foreign schema, which removes members, and a wrong reply is a 500', async () => {
  await using it = served((app) =>
    app
      .get('/good', { response: Item }, () => ({ name: 'a', count: 2, password: 'p' }))
      .get('/bad', { response: { 200: Item } }, () => ({ count: 2 }) as never)
      .get('/status', { response: { 201: Item } }, () => ({ name: 'a', count: 2 })),
  );
  assert.deepEqual(await (await it.client.get('/good')).json(), { name: 'a', count: 2 });
  assert.equal((await it.client.get('/bad')).status, 500);
  assert.match(JSON.stringify(it.events), /name Expected text/);
  const created = await it.client.get('/status');
  assert.deepEqual([created.status, await created.json()], [201, { name: 'a', count: 2 }]);
});

test('a form may mix foreign schemas and files, which a foreign schema for the whole form cannot keep', async () => {
  await using it = served((app) =>
    app.post(
      '/form',
      { form: { photo: Field(file), count: Field(standard((value) => ({ value: Number(value) }))) } },
      ({ form }) => ({
        size: form.photo.size,
        count: form.count,
      }),
    ),
  );
  const form = new FormData();
  form.append('photo', new Blob(['abc']), 'a.txt');
  form.append('count', '4');
  assert.deepEqual(await (await it.client.post('/form', { body: form })).json(), { size: 3, count: 4 });
});

class Person extends Schema {
  name = Field(str, { minLength: 2, alias: 'fullName' });
  born = Field(datetime);
  nick = Field('none');
  friend = Field(nullable(Item), { optional: true });
}

test('a schema class is a Standard Schema: it validates, and describes input and output as JSON Schema', async () => {
  const { version, vendor, validate, jsonSchema } = Person['~standard'];
  assert.deepEqual([version, vendor], [1, 'svc']);
  const good = await validate({ fullName: 'Ada', born: '2000-01-01T00:00:00Z' });
  assert.ok(!('issues' in good) && good.value instanceof Person);
  assert.deepEqual(await validate({ fullName: 'A', born: 5 }), {
    issues: [
      { message: 'must have at least 2 characters', path: ['fullName'] },
      {
        message: 'must be a date and time with an offset such as 2026-01-31T09:30:00Z',
        path: ['born'],
      },
    ],
  });
  const { $schema, required, properties } = jsonSchema!.input({ target: 'draft-2020-12' });
  assert.equal($schema, 'https://json-schema.org/draft/2020-12/schema');
  assert.deepEqual(required, ['fullName', 'born']);
  assert.deepEqual(Object.keys(properties as object), ['fullName', 'born', 'nick', 'friend']);
  assert.deepEqual(jsonSchema!.output({ target: 'draft-2020-12' })['required'], ['fullName', 'born', 'nick']);
  assert.throws(
    () => jsonSchema!.input({ target: 'draft-07' }),
    isFault('svc', /draft-2020-12, and not draft-07/),
  );
});

test('standard() gives tools the type of the instances, and a class that contains itself has a definition', async () => {
  class Node extends Schema {
    value = Field(str);
    next: Node | undefined = Field(nullable(Item), { optional: true }) as never;
  }
  const typed: StandardSchema<unknown, Person> = Person.standard();
  const result = await typed['~standard'].validate({ fullName: 'Ada', born: '2000-01-01T00:00:00Z' });
  assert.equal('value' in result && result.value.name, 'Ada');
  assert.equal(Node['~standard'].jsonSchema!.input({ target: 'draft-2020-12' })['type'], 'object');
});
