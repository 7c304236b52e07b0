/**
 * Rules on schemas of requests and replies: SVC301, SVC302, SVC303, and bounds of inputs (SVC304).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BearerAuth } from '../../../src/auth/auth.ts';
import { Depends } from '../../../src/routing/di.ts';
import {
  Field,
  Schema,
  bytes,
  date,
  datetime,
  decimal,
  file,
  lazy,
  list,
  literal,
  record,
  str,
  uuid,
} from '../../../src/schema/schema.ts';
import { HTMLResponse } from '../../../src/http/response.ts';
import { reply } from '../../../src/http/reply.ts';
import { found, quiet, subjects } from '../../support/found.ts';
import { described, ITEM, readItem, standard } from '../../support/standard.ts';
import type { GetSpec } from '../../../src/routing/spec.ts';

/** Declares a field of any type. */
type Declare = () => unknown;

class Note extends Schema {
  text = Field(str, { maxLength: 100 });
}
const open = { public: true } as const;
const handler = (): string => 'x';

test('svc check reports handlers that read JSON or a form from the request without a schema, and no other handlers (SVC301)', () => {
  const app = quiet()
    .post('/json', open, async ({ req }) => String(await req.json()))
    .put('/form', open, async ({ req }) => (await req.form()).get('a') ?? '')
    .post('/schema', { ...open, body: Note }, ({ body }) => body.text)
    .post(
      '/fields',
      { ...open, form: { a: Field(str, { maxLength: 9 }) } },
      async ({ form, req }) => form.a + String(await req.json()),
    )
    .post('/raw', open, async ({ req }) => (await req.body()).length.toString())
    .post('/none', open, handler)
    .get('/', async ({ req }) => String(await req.json()))
    .post('/quoted', open, () => 'call req.json() yourself'); // req.form()
  assert.deepEqual(found(app, 'SVC301'), [
    'POST /json: the handler reads the request body, but the route declares no schema for the body',
    'PUT /form: the handler reads the request body, but the route declares no schema for the body',
  ]);
});

test('svc check ignores bodies that do not come from the request, such as the body of a fetch() response (SVC301, SVC212)', () => {
  const app = quiet()
    .post('/pull', open, async () => String(await (await fetch('http://a.example')).json()))
    .post('/own', open, async ({ req: incoming }) => String(await incoming.json()))
    .post('/all', open, async ({ req }) => String((await req.body()).length))
    .post('/theirs', open, (context) => {
      const upstream = { body: () => 'x' };
      return upstream.body() + context.req.path;
    });
  assert.deepEqual([...subjects(app, 'SVC301'), ...subjects(app, 'SVC212')], ['POST /own', 'POST /all']);
});

test('svc check requires no response schema if only a callback inside the handler returns an object (SVC302)', () => {
  const rows = [{ a: 'x' }];
  const app = quiet()
    .get('/text', () =>
      rows
        .map((row) => ({ b: row.a }))
        .map(({ b }) => b)
        .join(),
    )
    .get('/list', () => rows.map(({ a }) => ({ a })));
  assert.deepEqual(subjects(app, 'SVC302'), ['GET /list']);
});

test('svc check requires no response schema if a handler returns a text computed from an object, or only its local method returns an object (SVC302)', () => {
  const rows = [{ a: 'x' }];
  const app = quiet()
    .get('/pick', ({ req }) => ({ de: 'Hallo', en: 'Hello' })[req.path === '/' ? 'de' : 'en'])
    .get('/sum', () => ({ ...rows[0]! }).a + '!')
    .get('/join', () => [{ a: 'x' }].map(({ a }) => a).join())
    .get('/method', () => {
      const one = {
        next() {
          return { a: 1 };
        },
        get last() {
          return { a: 2 };
        },
      };
      return `${one.next().a}${one.last.a}`;
    })
    .get('/class', () => {
      class Own {
        static async *[Symbol.asyncIterator]() {
          return { a: 1 };
        }
      }
      return Own.name;
    })
    .get('/named', () => {
      const all = { return: { a: 1 } };
      return String(all.return.a);
    })
    .get('/if', () => {
      if (rows.length > 9) {
        return { a: 1 };
      }
      return { b: 1 };
    })
    .get('/try', () => {
      try {
        return [{ a: 1 }];
      } catch (error) {
        return String(error);
      }
    })
    .get('/each', () => {
      for (const row of rows) {
        return { a: row.a };
      }
      return '';
    });
  assert.deepEqual(subjects(app, 'SVC302'), ['GET /if', 'GET /try', 'GET /each']);
});

test('svc check accepts response fields named like secrets that are flags, numbers, page tokens or content hashes (SVC302)', () => {
  class Page extends Schema {
    nextPageToken = Field(str, { maxLength: 9 });
    csrf_token = Field(str, { maxLength: 9 });
    commitHash = Field(str, { maxLength: 9 });
    content_hash = Field(str, { maxLength: 9 });
    hasPassword = Field(true);
    max_token = Field(1);
  }
  class Key extends Schema {
    apiToken = Field(str, { maxLength: 9 });
  }
  const app = quiet()
    .get('/page', { response: Page }, () => ({
      nextPageToken: 'a',
      csrf_token: 'a',
      commitHash: 'a',
      content_hash: 'a',
      hasPassword: true,
      max_token: 1,
    }))
    .post('/api-keys', { ...open, response: Key }, () => ({ apiToken: 'a' }))
    .get('/api-keys', { response: Key }, () => ({ apiToken: 'a' }));
  assert.deepEqual(found(app, 'SVC302'), [
    'GET /api-keys: the response schema has the field "apiToken", whose name suggests a secret',
  ]);
});

test('svc check warns of JSON replies without a response schema, but not of replies in other formats (SVC302)', () => {
  const app = quiet()
    .get('/a', () => ({ a: 1 }))
    .get('/b', () => {
      return { b: 1 };
    })
    .get('/c', () => [{ c: 1 }, 200] as const)
    .get('/d', () => reply({ d: 1 }))
    .get('/e', { response: Note }, () => ({ text: 'e' }))
    .get('/f', () => 'f')
    .get('/g', () => {
      if (Math.abs(1) > 2) throw new Error('{');
      return null;
    })
    .get('/h', () => {
      const page = { title: 'h' };
      return new HTMLResponse(page.title);
    })
    .get('/i', () => [null, 204] as const);
  assert.deepEqual(subjects(app, 'SVC302'), ['GET /a', 'GET /b', 'GET /c', 'GET /d']);
  assert.deepEqual(
    [
      ...new Set(
        app
          .check()
          .findings.filter(({ rule }) => rule === 'SVC302')
          .map(({ severity }) => severity),
      ),
    ],
    ['warning'],
  );
});

test('svc check accepts replies with an error status and without a schema (SVC302)', () => {
  const app = quiet()
    .get('/pair', ({ req }) => (req.ip === '' ? [{ error: 'no address' }, 404] : 'found'))
    .get('/reply', ({ req }) => {
      if (req.ip === '') return reply({ errors: [{ of: 'ip' }] }, 400, { 'X-A': 'b' });
      return 'found';
    })
    .get('/made', () => [{ id: 1 }, 201])
    .get('/list', () => [{ id: 1 }, 4040])
    .get('/both', ({ req }) => (req.ip === '' ? [{ error: 'no address' }, 404] : { found: true }));
  assert.deepEqual(
    found(app, 'SVC302')
      .map((reported) => reported.split(':')[0])
      .sort(),
    ['GET /both', 'GET /list', 'GET /made'],
  );
});

test('svc check reports response fields named like secrets at any depth, unless the field is marked "secret" or the route issues secrets (SVC302)', () => {
  class User extends Schema {
    name = Field(str, { maxLength: 9 });
    passwordHash = Field(str, { maxLength: 9 });
  }
  class Safe extends Schema {
    name = Field(str, { maxLength: 9 });
    passwordHash = Field(str, { maxLength: 9, secret: true, optional: true });
  }
  class Page extends Schema {
    users = Field(list(User), { maxLength: 9 });
  }
  class Password extends Schema {
    kennwort = Field(str, { maxLength: 99, secret: true });
  }
  class Tokens extends Schema {
    access_token = Field(str, { maxLength: 99 });
    tokens_used = Field(1);
  }
  const app = quiet()
    .get('/user', { response: User }, () => ({ name: 'a', passwordHash: 'b' }))
    .get('/page', { response: { 200: Page, 404: Note } }, () => ({ users: [] }))
    .get('/safe', { response: Safe }, () => ({ name: 'a' }))
    .post('/login', { ...open, response: Tokens }, () => ({ access_token: 'a', tokens_used: 1 }))
    .post('/anmeldung', { ...open, body: Password, response: Tokens }, () => ({
      access_token: 'a',
      tokens_used: 1,
    }))
    .post('/eingang', { ...open, form: Password, response: Tokens }, () => ({
      access_token: 'a',
      tokens_used: 1,
    }))
    .post('/konto', { ...open, body: Password, response: User }, () => ({ name: 'a', passwordHash: 'b' }))
    .get('/leak', { response: Tokens }, () => ({ access_token: 'a', tokens_used: 1 }));
  assert.deepEqual(found(app, 'SVC302'), [
    'GET /user: the response schema has the field "passwordHash", whose name suggests a secret',
    'GET /page: the response schema has the field "passwordHash", whose name suggests a secret',
    'POST /konto: the response schema has the field "passwordHash", whose name suggests a secret',
    'GET /leak: the response schema has the field "access_token", whose name suggests a secret',
  ]);
});

test('svc check reports a response schema for status 204, and a route that declares no success status (SVC303)', () => {
  const app = quiet()
    .delete('/a', { ...open, status: 204, response: Note }, () => [null, 204])
    .get('/b', { response: { 404: Note, 409: Note } }, () => [{ text: 'b' }, 404])
    .get('/c', { response: { 204: Note, 404: Note } }, () => [null, 204])
    .get('/d', { response: { 200: Note, 404: Note } }, () => ({ text: 'd' }))
    .get('/e', { status: 202, response: Note }, () => ({ text: 'e' }))
    .get('/f', { status: 418 }, handler);
  assert.deepEqual(found(app, 'SVC303'), [
    'DELETE /a: the response of status 204 has a schema, but responses with this status have no body',
    'GET /b: the route declares only error statuses (404, 409), and no status of a successful response',
    'GET /c: the response of status 204 has a schema, but responses with this status have no body',
    'GET /f: the route declares only error statuses (418), and no status of a successful response',
  ]);
});

test('svc check reports examples of routes that their response schema cannot write, which the OpenAPI document leaves out (SVC303)', () => {
  class Event extends Schema {
    text = Field(str, { maxLength: 5 });
    at = Field(datetime, { optional: true });
    parts = Field(list(Note), { optional: true });
  }
  const leaves = 'GET /a: the OpenAPI document leaves out the example "one" of the response';
  const cases: readonly (readonly [spec: GetSpec, message: string | undefined])[] = [
    [{ response: Event, examples: { 200: { one: { text: 'a', at: new Date(0) } } } }, undefined],
    [{ response: Event, status: 201, examples: { 201: { one: { text: 'a', more: 1 } } } }, undefined],
    [{ response: { 200: Event, 404: Note }, examples: { 404: { one: { text: 'a' } } } }, undefined],
    [{ response: list(Event), examples: { 200: { one: [] } } }, undefined],
    [
      { response: Event, examples: { 200: { one: { text: 'a', at: '2026-01-01T00:00:00Z' } } } },
      `${leaves} 200: "at" of the example must be a Date`,
    ],
    [
      { response: Event, examples: { 200: { two: { text: 'a' }, one: { text: 5 } } } },
      `${leaves} 200: "text" of the example must be a string`,
    ],
    [
      { response: Event, examples: { 200: { one: { text: 'too long' } } } },
      `${leaves} 200: "text" of the example must have at most 5 characters`,
    ],
    [
      { response: { 200: list(Event) }, examples: { 200: { one: [{ text: 'a', parts: [{}] }] } } },
      `${leaves} 200: "0.parts.0.text" of the example is required`,
    ],
    [
      { response: { 200: Event, 404: Note }, examples: { 404: { one: null } } },
      `${leaves} 404: the example must be an object`,
    ],
    [
      {
        response: standard(readItem, described(ITEM)),
        examples: { 200: { one: { name: 'a', count: 'x' } } },
      },
      `${leaves} 200: "count" of the example Expected a number`,
    ],
    ...[{ response: Event, status: 201 }, { response: { 404: Event, 201: Note } }, {}].map(
      (spec): readonly [GetSpec, string] => [
        { ...spec, examples: { 200: { one: { text: 'a' } } } },
        'GET /a: the OpenAPI document leaves out the examples of the response 200, because the route declares no schema for this status',
      ],
    ),
  ];
  for (const [spec, message] of cases) {
    const app = quiet().get('/a', spec, () => null as never);
    assert.deepEqual(found(app, 'SVC303'), message === undefined ? [] : [message]);
    const responses = app.openapi().paths['/a']!.get!.responses;
    assert.equal(JSON.stringify(responses).includes('"one":{"value"'), message === undefined);
    const remedy = app.check().findings.find(({ rule }) => rule === 'SVC303')?.remedy ?? '';
    const isUndeclared = message?.includes('declares no schema') === true;
    assert.equal(remedy.startsWith('Declare the status'), isUndeclared);
    assert.equal(remedy.startsWith('Write each example'), message !== undefined && !isUndeclared);
  }
});

test('svc check reports examples of fields and of their items that documents leave out, and accepts values of every type (SVC303)', () => {
  const right: readonly Declare[] = [
    () => Field(datetime, { example: new Date(0) }),
    () => Field(bytes, { example: new Uint8Array(2) }),
    () => Field(date, { example: '2026-01-31' }),
    () => Field(decimal, { example: '1.50' }),
    () => Field(Note, { example: { text: 'a' } as Note }),
    () => Field(list(str, { example: 'a', maxLength: 3 }), { example: ['a'] }),
  ];
  const wrong: readonly (readonly [Declare, string])[] = [
    [() => Field(datetime, { example: '2026-01-01T00:00:00Z' as never }), 'the example must be a Date'],
    [() => Field(bytes, { example: 'AAAA' as never }), 'the example must be a Uint8Array'],
    [() => Field(str, { examples: ['a', 5 as never] }), 'the example must be a string'],
    [() => Field(Note, { example: { text: 5 } as never }), '"text" of the example must be a string'],
    [() => Field(list(str, { example: 'long', maxLength: 3 })), 'the example must have at most 3 characters'],
    [
      () => Field(list(str, { maxLength: 3 }), { example: ['a', 'long'] }),
      '"1" of the example must have at most 3 characters',
    ],
  ];
  for (const [field, message] of [...right.map((each) => [each, undefined] as const), ...wrong]) {
    class Holder extends Schema {
      held = field();
    }
    const app = quiet().get('/a', { response: Holder }, () => null as never);
    assert.deepEqual(
      found(app, 'SVC303'),
      message === undefined
        ? []
        : [`GET /a: the example of "held" in Holder does not match the schema of the field: ${message}`],
    );
    const { schemas } = app.openapi().components;
    const shown = (JSON.stringify(schemas?.['Holder']).match(/"examples":\[/g) ?? []).length;
    if (message === undefined) assert.ok(shown > 0);
  }
});

test('svc check reports texts and lists without a maximum length in request bodies that unauthenticated clients may send (SVC304)', () => {
  class Tag extends Schema {
    name = Field(str);
    next = Field(
      lazy(() => Tag),
      { optional: true },
    );
  }
  class Open extends Schema {
    title = Field(str);
    tags = Field(list(Tag), { maxLength: 3 });
    more = Field(list(str));
    map = Field(record(str), { maxLength: 2 });
  }
  class Closed extends Schema {
    kind = Field(literal('a', 'b'));
    id = Field(uuid);
    mail = Field(str, { email: true });
    code = Field(str, { pattern: /^[a-z]{3}$/ });
    few = Field(list(uuid), { maxLength: 3 });
    n = Field(1);
  }
  const app = quiet()
    .post('/open', { ...open, body: Open }, handler)
    .post('/form', { ...open, form: { text: Field(str), of: Field(file, { maxLength: 9 }) } }, handler)
    .post('/closed', { ...open, body: Closed }, handler)
    .post('/known', { body: Open, me: Depends(BearerAuth()) }, handler)
    .get('/query', { query: { q: Field('') } }, handler);
  assert.deepEqual(found(app, 'SVC304'), [
    'POST /open: every client may send body.title and body.tags[].name and body.more and body.more[] and body.map.* of any length',
    'POST /form: every client may send form.text of any length',
    'GET /query: every client may send query.q of up to "maxHeaderBytes" bytes',
  ]);
});

test('svc check notes replies with a foreign schema, which cannot mark a field as secret (SVC302)', () => {
  const members = { type: 'object', properties: { name: { type: 'string' }, password: { type: 'string' } } };
  const app = quiet()
    .get('/own', { response: Note }, () => ({ text: '' }))
    .get('/foreign', { response: standard(readItem, described(ITEM)) }, () => ({ name: '', count: 1 }))
    .get('/inside', { response: { 200: list(standard(readItem, described(members))) } }, () => []);
  const note = 'the response schema is made by another library, so it cannot mark a field as secret';
  assert.deepEqual(found(app, 'SVC302'), [
    'GET /inside: the response schema has the field "password", whose name suggests a secret',
    `GET /foreign: ${note}`,
    `GET /inside: ${note}`,
  ]);
});

test('svc check notes schemas without JSON Schema, which documents and tools cannot describe (SVC305)', () => {
  const bare = standard(readItem);
  const partial = standard(readItem, {
    input: () => ITEM,
    output: () => {
      throw new Error('no JSON Schema');
    },
  });
  const handle = (): { name: string; count: number } => ({ name: '', count: 1 });
  const app = quiet()
    .post('/bare/{name}', { ...open, params: bare, query: bare, body: bare, response: { 200: bare } }, handle)
    .post('/form', { ...open, form: { item: Field(bare) } }, handle)
    .post('/partial', { ...open, body: partial, response: partial }, handle)
    .post('/whole', { ...open, body: standard(readItem, described(ITEM)) }, handle);
  const rest = 'has no JSON Schema, so documents and tools cannot describe it';
  assert.deepEqual(
    found(app, 'SVC305').filter((text) => text.includes('JSON Schema')),
    [
      `POST /bare/{name}: the schema of the path and of the query and of the body and of the response 200 ${rest}`,
      `POST /form: the schema of the form ${rest}`,
      `POST /partial: the schema of the response ${rest}`,
    ],
  );
});
