import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import test from 'node:test';
import {
  Field,
  HttpResponse,
  JSONResponse,
  NotFound,
  Router,
  Schema,
  StreamingResponse,
  Svc,
  SvcError,
  TextResponse,
  ValidationError,
  any,
  datetime,
  int,
  list,
  literal,
  nullable,
  record,
  reply,
  str,
  union,
  Conflict,
  Depends,
  file,
  provide,
} from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { served } from '../support/served.ts';
import type { HttpRequest, SvcOptions } from '../../src/index.ts';
import type { TestRequest } from '../../src/testing/index.ts';

/** Returns an application, its log, and a client that gets unhandled errors as a 500. */
function setUp(
  declare: (app: Svc) => void,
  settings: SvcOptions = {},
): { app: Svc; client: TestClient; events: Record<string, unknown>[] } & AsyncDisposable {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, ...settings });
  declare(app);
  const client = new TestClient(app, { raiseErrors: false });
  return { app, client, events, [Symbol.asyncDispose]: () => client.close() };
}

interface Problem {
  readonly status: number;
  readonly detail: string;
  readonly errors: readonly {
    readonly loc: readonly (string | number)[];
    readonly code: string;
    readonly message: string;
  }[];
}

async function issueOf(response: Response): Promise<Problem> {
  assert.equal(response.headers.get('content-type'), 'application/problem+json');
  return (await response.json()) as Problem;
}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}
class User extends Schema {
  name = Field(str, { minLength: 2 });
  age = Field(int, { ge: 0 });
  home = Field(Address);
  tags = Field(list(str), { default: () => [] });
  get domain(): string {
    return `${this.name}.example`;
  }
}
const ADA = { name: 'Ada', age: 36, home: { city: 'London' } };

// ── bodies ──

test('route option "body": the handler runs in the context of an AsyncLocalStorage that a middleware has entered', async () => {
  const entered = new AsyncLocalStorage<string>();
  const enter = (req: HttpRequest, next: () => unknown): unknown => entered.run(req.path, next);
  const handler = (): object => ({ store: entered.getStore() ?? null });
  await using around = setUp((app) => {
    app.use(enter as never);
    app.post('/all', { body: User }, handler);
  });
  await using own = setUp((app) => app.post('/own', { body: User, use: [enter as never] }, handler));
  await using none = setUp((app) => app.post('/none', { body: User }, handler));
  for (const [it, path, store] of [
    [around, '/all', '/all'],
    [own, '/own', '/own'],
    [none, '/none', null],
  ] as const) {
    const server = await it.app.run({ port: 0, handleSignals: false });
    const response = await fetch(server.url + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(ADA),
    });
    assert.deepEqual(await response.json(), { store });
    await server.close();
  }
});

test('route option "body": if the schema is a class, the handler gets an instance with the methods of this class', async () => {
  await using it = setUp((app) =>
    app.post('/', { body: User }, ({ body }) => ({
      isUser: body instanceof User,
      domain: body.domain,
      home: body.home instanceof Address,
      tags: body.tags,
    })),
  );
  assert.deepEqual(await (await it.client.post('/', { json: { ...ADA, unknown: 1 } })).json(), {
    isUser: true,
    domain: 'Ada.example',
    home: true,
    tags: [],
  });
});

class Cat extends Schema {
  kind = Field(literal('cat'));
  lives = Field(int);
}
class Dog extends Schema {
  kind = Field(literal('dog'));
}
const BODIES: readonly (readonly [
  what: string,
  type: Parameters<typeof Field>[0],
  good: readonly unknown[],
  bad: readonly (readonly [unknown, (string | number)[]])[],
])[] = [
  [
    'a list of a class',
    list(Address),
    [[], [{ city: 'x' }]],
    [
      [{}, ['body']],
      [
        [{ city: 'x' }, {}],
        ['body', 1, 'city'],
      ],
    ],
  ],
  ['a nullable class', nullable(Address), [null, { city: 'x' }], [[[], ['body']]]],
  [
    'an int',
    int,
    [0, -7],
    [
      ['7', ['body']],
      [1.5, ['body']],
      [null, ['body']],
    ],
  ],
  ['a record', record(int), [{}, { a: 1 }], [[{ a: 'x' }, ['body', 'a']]]],
  [
    'a union',
    union('kind', Cat, Dog),
    [{ kind: 'cat', lives: 9 }, { kind: 'dog' }],
    [
      [{ kind: 'cow' }, ['body', 'kind']],
      [{ kind: 'cat' }, ['body', 'lives']],
    ],
  ],
  ['anything', any, [1, null, { a: [1] }], []],
];
for (const [what, type, good, bad] of BODIES) {
  test(`route option "body": a schema for ${what} accepts valid values, and a refused value is reported with the path of the problem`, async () => {
    await using it = setUp((app) =>
      app.post('/', { body: type as typeof any, tuple: false }, ({ body }) => new JSONResponse(body)),
    );
    for (const value of good)
      assert.deepEqual(await (await it.client.post('/', { json: value })).json(), value);
    for (const [value, loc] of bad) {
      const response = await it.client.post('/', { json: value });
      assert.equal(response.status, 400);
      assert.deepEqual((await issueOf(response)).errors[0]!.loc, loc);
    }
  });
}

const JSON_TYPE = { 'content-type': 'application/json' };
const REFUSED: Readonly<Record<string, { request: TestRequest; status: number }>> = {
  'no body at all': { request: {}, status: 400 },
  'an empty body': { request: { body: '', headers: JSON_TYPE }, status: 400 },
  'a body that is not JSON': { request: { body: '{', headers: JSON_TYPE }, status: 400 },
  'a body that is not UTF-8': {
    request: { body: new Uint8Array([34, 255, 34]), headers: JSON_TYPE },
    status: 400,
  },
  'the media type text/plain': {
    request: { body: '{}', headers: { 'content-type': 'text/plain' } },
    status: 415,
  },
  'a form': { request: { form: { name: 'Ada' } }, status: 415 },
  'a body above maxBodyBytes': { request: { json: { ...ADA, name: 'x'.repeat(200) } }, status: 413 },
};
for (const [what, { request, status }] of Object.entries(REFUSED)) {
  test(`route option "body": if a request has ${what}, the answer is ${status} and the handler does not run`, async () => {
    let ran = 0;
    await using it = setUp((app) => app.post('/', { body: User, maxBodyBytes: 100 }, () => ran++));
    assert.equal((await issueOf(await it.client.post('/', request))).status, status);
    assert.equal(ran, 0);
  });
}

test('route option "body": a body of type application/*+json is parsed as JSON', async () => {
  await using it = setUp((app) => app.post('/', { body: int }, ({ body }) => ({ body })));
  for (const type of ['application/merge-patch+json', 'application/json; charset=utf-8', 'APPLICATION/JSON'])
    assert.equal((await it.client.post('/', { body: '7', headers: { 'content-type': type } })).status, 200);
});

test('route option "body": next() of a middleware returns a promise while the body has not arrived', async () => {
  const seen: boolean[] = [];
  await using it = setUp((app) =>
    app
      .use((_req, next) => {
        const answer = next();
        seen.push(answer instanceof Promise);
        return answer;
      })
      .post('/', { body: int }, ({ body }) => ({ body })),
  );
  assert.equal((await it.client.post('/', { json: 7 })).status, 200);
  assert.deepEqual(seen, [true]);
});

const UNTYPED: TestRequest = { body: new Uint8Array([55]) };

test('JSON without Content-Type is answered with 415, by a declared body and by json(), unless strictContentType of the route or the application is false', async () => {
  const declare = (app: Svc): void => {
    const handler = ({ body }: { readonly body: number }): unknown => ({ body });
    app.post('/usual', { body: int }, handler);
    app.post('/strict', { body: int, strictContentType: true }, handler);
    app.post('/lenient', { body: int, strictContentType: false }, handler);
    app.post('/json', async ({ req }) => ({ body: await req.json() }));
    app.post('/lenient-json', { strictContentType: false }, async ({ req }) => ({ body: await req.json() }));
  };
  for (const [options, usual] of [
    [{}, 415],
    [{ strictContentType: true }, 415],
    [{ strictContentType: false }, 200],
  ] as const) {
    await using it = setUp(declare, options);
    const statuses = await Promise.all(
      ['/usual', '/strict', '/lenient', '/json', '/lenient-json'].map(
        async (path) => (await it.client.post(path, UNTYPED)).status,
      ),
    );
    assert.deepEqual(statuses, [usual, 415, 200, usual, 200]);
    const typed = { body: '7', headers: { 'content-type': 'text/plain' } };
    assert.equal((await it.client.post('/lenient', typed)).status, 415, 'another type stays another type');
    assert.equal((await it.client.post('/usual', {})).status, 400, 'no content is not JSON');
    assert.equal((await it.client.post('/usual', { json: 7 })).status, 200);
  }
});

test('over a socket, a body without Content-Type is answered with 415, with Content-Length as well as with chunked encoding', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  app.post('/plain', { body: int }, ({ body }) => ({ body }));
  app.post('/inside', { body: int, use: [(_req, next) => next()] }, ({ body }) => ({ body }));
  app.post('/depends', { body: int, one: Depends(() => 1) }, ({ body }) => ({ body }));
  await using server = await served(app);
  for (const path of ['/plain', '/inside', '/depends']) {
    for (const [content, status] of [
      ['Content-Length: 1\r\n\r\n7', 415],
      ['Transfer-Encoding: chunked\r\n\r\n1\r\n7\r\n0\r\n\r\n', 415],
      ['Content-Type: \r\nContent-Length: 1\r\n\r\n7', 415],
      ['Content-Length: 0\r\n\r\n', 400],
      ['\r\n', 400],
      ['Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
      ['content-type: application/json\r\nContent-Length: 1\r\n\r\n7', 200],
    ] as const)
      assert.equal((await server.ask('POST', path, content)).status, status, content);
  }
});

test('the option "maxBodyBytes" of a route limits every way to read its body, and replaces the limit of the application', async () => {
  await using it = setUp(
    (app) => {
      app.post('/small', { maxBodyBytes: 10 }, async ({ req }) => (await req.body()).length);
      app.post('/stream', { maxBodyBytes: 10 }, async ({ req }) => {
        let length = 0;
        for await (const chunk of req.stream()) length += chunk.length;
        return length;
      });
      app.post('/form', { maxBodyBytes: 10, form: { a: Field('') } }, ({ form }) => form.a);
      app.post('/large', { maxBodyBytes: 1_000, body: str }, ({ body }) => body.length);
      app.post('/usual', async ({ req }) => (await req.body()).length);
    },
    { maxBodyBytes: 50 },
  );
  const sizes = async (
    path: string,
    request: (size: number) => TestRequest,
    ...lengths: number[]
  ): Promise<number[]> =>
    Promise.all(lengths.map(async (length) => (await it.client.post(path, request(length))).status));
  const body = (length: number): TestRequest => ({ body: 'x'.repeat(length) });
  assert.deepEqual(await sizes('/small', body, 10, 11), [200, 413]);
  assert.deepEqual(await sizes('/stream', body, 10, 11), [200, 413]);
  assert.deepEqual(
    await sizes('/form', (length) => ({ form: { a: 'x'.repeat(length - 2) } }), 10, 11),
    [200, 413],
  );
  const json = (length: number): TestRequest => ({ json: 'x'.repeat(length - 2) });
  assert.deepEqual(await sizes('/large', json, 50, 51, 1_000, 1_001), [200, 200, 200, 413]);
  assert.deepEqual(await sizes('/usual', body, 50, 51), [200, 413]);
});

test('compileAll() reports a route that has both options "body" and "form"', () => {
  const app = new Svc().post('/both', { body: User, form: { a: Field('') } }, () => 1);
  assert.throws(
    () => app.compileAll(),
    (error) => {
      assert.ok(error instanceof SvcError);
      assert.deepEqual(
        error
          .findings!.filter(({ severity }) => severity === 'error')
          .map(({ rule, subject }) => [rule, subject]),
        [['SVC107', 'POST /both']],
      );
      return true;
    },
  );
});

test('compileAll() reports invalid schemas in the options of all routes, each at its route', () => {
  const app = new Svc()
    .get('/a', { query: { n: Field(int, { ge: 'x' as never }) } }, () => 1)
    .post('/b', { body: 5 as never }, () => 1)
    .get('/c', { response: { 200: 7 as never } }, () => 1 as never);
  assert.throws(
    () => app.compileAll(),
    (error) => {
      assert.deepEqual(
        (error as SvcError)
          .findings!.filter(({ severity }) => severity === 'error')
          .map(({ rule, subject }) => [rule, subject]),
        [
          ['SVC107', 'GET /a'],
          ['SVC107', 'POST /b'],
          ['SVC107', 'GET /c'],
        ],
      );
      return true;
    },
  );
});

test('compileAll() reports an invalid field inside a response schema or a WebSocket message schema at its route', () => {
  const [flat, nested, message] = [0, 1, 2].map(
    () =>
      class extends Schema {
        text = Field(str, { maxlength: 1 } as object);
      },
  );
  class Outer extends Schema {
    inner = Field(list(nested!));
  }
  const app = new Svc({ env: 'development' })
    .get('/a', { response: flat! }, () => ({ text: 'x' }))
    .get('/b', { response: { 200: Outer } }, () => ({ inner: [] }));
  app.websocket('/c', { message: message! }).onMessage(() => undefined);
  const { findings } = app.check();
  assert.deepEqual(
    findings.filter(({ severity }) => severity === 'error').map(({ rule, subject }) => [rule, subject]),
    [
      ['SVC107', 'GET /a'],
      ['SVC107', 'GET /b'],
      ['SVC107', 'WEBSOCKET /c'],
    ],
  );
  for (const { message: found } of findings.filter(({ rule }) => rule === 'SVC107'))
    assert.match(found, /"maxLength"/);
});

test('compileAll() reports a route option "response" whose keys are not status codes, for example names of fields', () => {
  for (const key of ['id', '99', '600', '2xx', '1e2']) {
    const { findings } = new Svc({ env: 'development' })
      .get('/', { response: { 200: str, [key]: Field(int) } as never }, () => '' as never)
      .check();
    assert.deepEqual(
      findings.filter(({ severity }) => severity === 'error').map(({ rule }) => rule),
      ['SVC107'],
      key,
    );
    assert.match(
      findings.find(({ rule }) => rule === 'SVC107')!.message,
      new RegExp(`"response" has the key "${key}"`),
    );
  }
});

// ── forms and text ──

test('route option "form": fields are converted, repeated fields become lists, and a schema class gives an instance', async () => {
  class Login extends Schema {
    name = Field(str);
    age = Field(int);
    tags = Field(list(str), { default: () => [] });
    keep = Field(false);
  }
  await using it = setUp((app) =>
    app.post('/', { form: Login }, ({ form }) => ({ ...form, isLogin: form instanceof Login })),
  );
  assert.deepEqual(
    await (
      await it.client.post('/', {
        form: { name: 'Ada', age: '36', tags: ['a', 'b'], keep: 'true', more: 'x' },
      })
    ).json(),
    { name: 'Ada', age: 36, tags: ['a', 'b'], keep: true, isLogin: true },
  );
  const response = await it.client.post('/', { form: { age: '3.5' } });
  assert.deepEqual(
    (await issueOf(response)).errors.map((issue) => issue.loc),
    [
      ['form', 'name'],
      ['form', 'age'],
    ],
  );
  assert.equal((await it.client.post('/', { json: {} })).status, 415);
});

test('on a route with a form, exception handlers and responses have the issues of the body in the form', async () => {
  class Login extends Schema {
    name = Field(str);
  }
  class Taken extends Conflict {}
  const issues = [
    { loc: ['body', 'name'], code: 'taken', message: 'is taken' },
    { loc: ['query', 'page'], code: 'c', message: 'm' },
  ];
  const errors = [new Conflict('no', { issues }), new Taken('no', { issues })];
  await using it = setUp((app) => {
    app.exceptionHandler(Taken, (error) => [{ errors: error.issues }, 409]);
    app.exceptionHandler(RangeError, () => {
      throw errors[0]!;
    });
    const fail = (index: number) => () => {
      throw errors[index] ?? new RangeError();
    };
    for (const index of [0, 1, 2]) {
      app.post(`/form/${index}`, { form: Login }, fail(index));
      app.post(`/body/${index}`, { body: Login }, fail(index));
    }
  });
  const data = { name: 'Ada' };
  for (const index of [0, 1, 2])
    for (const [place, request] of [
      ['body', { json: data }],
      ['form', { form: data }],
      ['body', { json: data }], // this error is thrown again
    ] as const) {
      const response = await it.client.post(`/${place}/${index}`, request);
      assert.deepEqual(
        ((await response.json()) as Problem).errors.map(({ loc }) => loc),
        [
          [place, 'name'],
          ['query', 'page'],
        ],
      );
    }
});

test('the values of the route options "query", "headers" and "cookies" are converted, get defaults, and contain declared fields only', async () => {
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        query: { page: Field(1), on: Field(false), ids: Field(list(int), { default: () => [] }) },
        headers: { userAgent: Field(''), ifMatch: Field(list(str), { default: () => [] }) },
        cookies: { theme: Field('light'), n: Field(int, { optional: true }) },
      },
      ({ query, headers, cookies }) => ({ query, headers, cookies }),
    ),
  );
  assert.deepEqual(
    await (
      await it.client.get('/?page=2&on=true&ids=1&ids=2&other=x', {
        headers: { 'user-agent': 'me', 'if-match': '"a", "b, c"', cookie: 'theme=dark; n=3; other=1' },
      })
    ).json(),
    {
      query: { page: 2, on: true, ids: [1, 2] },
      headers: { userAgent: 'me', ifMatch: ['"a"', '"b, c"'] },
      cookies: { theme: 'dark', n: 3 },
    },
  );
  assert.deepEqual(await (await it.client.get('/', { headers: { 'user-agent': '' } })).json(), {
    query: { page: 1, on: false, ids: [] },
    headers: { userAgent: '', ifMatch: [] },
    cookies: { theme: 'light' },
  });
});

test('a request with several invalid inputs is answered with the place of each problem, and without the submitted values', async () => {
  await using it = setUp((app) =>
    app.post(
      '/{id:int}',
      {
        body: User,
        query: { page: Field(int), size: Field(10, { le: 100 }) },
        headers: { xTrace: Field(str, { minLength: 3 }) },
        cookies: { sid: Field(str) },
      },
      () => 1,
    ),
  );
  const response = await it.client.post('/7?page=secret&size=101', {
    json: { name: 'A', age: -1, home: {}, tags: ['a', 5] },
    headers: { 'x-trace': 'ab' },
  });
  assert.equal(response.status, 400);
  const { detail, errors } = await issueOf(response.clone());
  assert.deepEqual(
    errors.map((issue) => issue.loc.join('.')),
    [
      'query.page',
      'query.size',
      'header.x-trace',
      'cookie.sid',
      'body.name',
      'body.age',
      'body.home.city',
      'body.tags.1',
    ],
  );
  assert.equal(detail, 'The input has 8 problems');
  assert.doesNotMatch(await response.text(), /secret/);
});

for (const [what, isThrown] of [
  ['of an input', false],
  ['of an input, and a ValidationError that the handler of the route throws', true],
] as const) {
  test(`an exception handler for ValidationError gets all problems ${what}`, async () => {
    await using it = setUp((app) => {
      app.exceptionHandler(ValidationError, (error) =>
        reply(
          error.issues.map((issue) => issue.loc.join('.')),
          422,
        ),
      );
      app.post('/', { body: User, query: { page: Field(1) } }, () => (isThrown ? User.parse({}) : 1));
    });
    const response = await it.client.post('/?page=x', { json: { ...ADA, age: 'x' } });
    assert.deepEqual([response.status, await response.json()], [422, ['query.page', 'body.age']]);
    if (isThrown) assert.equal((await it.client.post('/', { json: ADA })).status, 422);
  });
}

test('if a route declares no inputs, its handler gets params, req, signal and state, and nothing else', async () => {
  await using it = setUp((app) =>
    app.get('/{a}/{b:int}', (context) => ({
      params: context.params,
      path: context.req.path,
      aborted: context.signal.aborted,
      hasState: typeof context.state.has,
      keys: Object.keys(context),
    })),
  );
  assert.deepEqual(await (await it.client.get('/x/7')).json(), {
    params: { a: 'x', b: 7 },
    path: '/x/7',
    aborted: false,
    hasState: 'function',
    keys: ['req'],
  });
});

test('concurrent requests do not share the objects of their inputs', async () => {
  await using it = setUp((app) => app.get('/', { query: { n: Field(0) } }, ({ query }) => ({ n: query.n })));
  assert.deepEqual(
    await Promise.all(
      [1, 2, 3].map(async (n) => ((await (await it.client.get(`/?n=${n}`)).json()) as { n: number }).n),
    ),
    [1, 2, 3],
  );
});

// ── responses ──

class Account extends Schema {
  id = Field(int);
  name = Field(str);
  role = Field(literal('admin', 'user'), { default: 'user' });
  nick = Field(str, { optional: true });
  since = Field(datetime, { optional: true });
  password = Field(str, { secret: true, optional: true });
  get label(): string {
    return `#${this.id}`;
  }
}

test('the route option "response" drops undeclared members, fills in defaults, omits methods and getters, and writes dates as text', async () => {
  await using it = setUp((app) => {
    app.get(
      '/plain',
      { response: Account },
      () => ({ id: 1, name: 'Ada', extra: 'x', run: () => 1, since: new Date(0) }) as never,
    ); // the type requires members that have a default
    app.get(
      '/instance',
      { response: Account },
      () => new Account({ id: 2, name: 'Bob', password: undefined }),
    );
    app.get('/async', { response: Account }, async () => ({ id: 3, name: 'Cid', role: 'admin' as const }));
  });
  const plain = await it.client.get('/plain');
  assert.equal(plain.headers.get('content-type'), 'application/json');
  assert.deepEqual(await plain.json(), {
    id: 1,
    name: 'Ada',
    role: 'user',
    since: '1970-01-01T00:00:00.000Z',
  });
  assert.deepEqual(await (await it.client.get('/instance')).json(), { id: 2, name: 'Bob', role: 'user' });
  assert.deepEqual(await (await it.client.get('/async')).json(), { id: 3, name: 'Cid', role: 'admin' });
});

const MISFITS: Readonly<Record<string, { value: unknown; path: RegExp }>> = {
  'a secret member': {
    value: { id: 1, name: 'x', password: 'hunter2hunter2' },
    path: /password is declared as secret/,
  },
  'a member of a wrong type': { value: { id: 'hunter2hunter2', name: 'x' }, path: /id must be/ },
  'a missing member': { value: { id: 1 }, path: /name is required/ },
  'text instead of an object': { value: 'hunter2hunter2', path: /the value must be an object/ },
  undefined: { value: undefined, path: /the value must be an object/ },
  null: { value: null, path: /the value must be an object/ },
  'a list': { value: [{ id: 1, name: 'x' }], path: /the value must be an object/ },
};
for (const [what, { value, path }] of Object.entries(MISFITS)) {
  test(`if a reply does not fit the route option "response" (${what}), the answer is 500 without details, and the log names the problem`, async () => {
    await using it = setUp((app) => app.get('/me', { response: Account }, () => value as never));
    const response = await it.client.get('/me');
    assert.equal(response.status, 500);
    const text = await response.text();
    assert.doesNotMatch(text, /hunter2|password|must|required/);
    const [line, ...more] = it.events.filter((event) => event['event'] === 'unhandled_error');
    assert.equal(more.length, 0);
    assert.match(JSON.stringify(line), path);
    assert.match(JSON.stringify(line), /E_RESPONSE_MISMATCH.*GET \/me|GET \/me.*E_RESPONSE_MISMATCH/);
    assert.doesNotMatch(JSON.stringify(line), /hunter2/);
  });
}

test('the route option "response" applies to reply(), [body, status] and [body, status, headers], each with its own status', async () => {
  await using it = setUp((app) => {
    app.get('/reply', { response: Account }, () =>
      reply({ id: 1, name: 'a', role: 'user' as const, extra: 1 }, 201, { 'X-A': 'b' }),
    );
    app.get('/plain-reply', { response: Account, status: 202 }, () =>
      reply({ id: 1, name: 'a', role: 'user' as const }),
    );
    app.get('/pair', { response: Account }, () => [{ id: 1, name: 'a', role: 'user', extra: 1 }, 201]);
    app.get('/triple', { response: Account }, () => [
      { id: 1, name: 'a', role: 'user' },
      203,
      { 'X-A': 'c', 'Content-Type': 'application/vnd.a+json' },
    ]);
    app.get('/bad', { response: Account }, () => [{ id: 'x' } as never, 201]);
  });
  const seen = async (path: string): Promise<unknown> => {
    const response = await it.client.get(path);
    return [
      response.status,
      response.headers.get('x-a'),
      response.headers.get('content-type'),
      response.status < 300 ? await response.json() : undefined,
    ];
  };
  const account = { id: 1, name: 'a', role: 'user' };
  assert.deepEqual(await seen('/reply'), [201, 'b', 'application/json', account]);
  assert.deepEqual(await seen('/plain-reply'), [202, null, 'application/json', account]);
  assert.deepEqual(await seen('/pair'), [201, null, 'application/json', account]);
  assert.deepEqual(await seen('/triple'), [203, 'c', 'application/vnd.a+json', account]);
  assert.deepEqual(await seen('/bad'), [500, null, 'application/problem+json', undefined]);
});

test('if the route option "response" is a list, a returned array is never read as [body, status]', async () => {
  await using it = setUp((app) => {
    app.get('/list', { response: list(any) }, () => ['x', 201] as never);
    app.get('/nullable', { response: nullable(list(any)) }, () => ['x', 201] as never);
    app.get('/tuple', { response: any, tuple: false }, () => ['x', 201] as never);
    app.get('/read', { response: any }, () => ['x', 201] as never);
  });
  for (const path of ['/list', '/nullable', '/tuple']) {
    const response = await it.client.get(path);
    assert.deepEqual([response.status, await response.json()], [200, ['x', 201]], path);
  }
  const read = await it.client.get('/read');
  assert.deepEqual([read.status, await read.json()], [201, 'x']);
});

test('if the route option "response" is keyed by status, each status has its own schema, and an undeclared status below 400 becomes a 500', async () => {
  class Missing extends Schema {
    error = Field(str);
  }
  await using it = setUp((app) => {
    const spec = { response: { 201: Account, 202: Missing, 404: Missing } } as const;
    app.get('/usual', spec, () => ({ id: 1, name: 'a' }) as never);
    app.get('/second', spec, () => reply({ error: 'later', extra: 1 }, 202) as never);
    app.get('/missing', spec, () => reply({ error: 'no', extra: 1 }, 404));
    app.get('/misfit', spec, () => reply({ id: 1 }, 404) as never);
    app.get('/undeclared', spec, () => reply({ id: 1, name: 'a' }, 203) as never);
    app.get('/redirect', spec, () => reply({ id: 1 }, 302) as never);
    app.get('/error', spec, () => reply({ anything: true }, 409));
    app.get('/named', { ...spec, status: 202 }, () => ({ error: 'x' }) as never);
    app.get('/errors-only', { response: { 404: Missing } }, () => ({ a: 1 }) as never);
  });
  const seen = async (path: string): Promise<[number, unknown]> => {
    const response = await it.client.get(path);
    return [response.status, response.status === 500 ? undefined : await response.json()];
  };
  assert.deepEqual(await seen('/usual'), [201, { id: 1, name: 'a', role: 'user' }]);
  assert.deepEqual(await seen('/second'), [202, { error: 'later' }]);
  assert.deepEqual(await seen('/missing'), [404, { error: 'no' }]);
  assert.deepEqual(await seen('/misfit'), [500, undefined]);
  assert.deepEqual(await seen('/undeclared'), [500, undefined]);
  assert.deepEqual(await seen('/redirect'), [500, undefined]);
  assert.deepEqual(await seen('/error'), [409, { anything: true }]);
  assert.deepEqual(await seen('/named'), [202, { error: 'x' }]);
  assert.deepEqual(await seen('/errors-only'), [500, undefined]);
  assert.match(JSON.stringify(it.events), /GET \/undeclared.*declares no type for the status 203/);
});

test('if a handler returns a response object, alone or in reply() with a status, the route option "response" does not apply', async () => {
  await using it = setUp((app) => {
    app.get('/own', { response: Account }, () => new TextResponse('own', { status: 203 }));
    app.get('/web', { response: Account }, () => new Response('web', { status: 203 }));
    app.get(
      '/with',
      { response: Account },
      () => reply(new HttpResponse('with'), 203, { 'X-A': 'b' }) as never,
    );
    app.get('/stream', { response: Account }, () => new StreamingResponse(['a', 'b']));
    app.get('/thrown', { response: Account }, () => {
      throw new NotFound('gone');
    });
  });
  for (const path of ['/own', '/web', '/with']) {
    const response = await it.client.get(path);
    assert.deepEqual([response.status, await response.text()], [203, path.slice(1)]);
  }
  assert.equal(await (await it.client.get('/stream')).text(), 'ab');
  assert.equal((await it.client.get('/thrown')).status, 404);
});

test('route option "response": statuses 204 and 304 have no body; null is sent as JSON if the schema allows it', async () => {
  await using it = setUp((app) => {
    app.delete('/status', { response: Account, status: 204 }, () => undefined as never);
    app.delete('/pair', { response: Account }, () => [null, 204]);
    app.delete('/reply', { response: Account }, () => reply(null, 204));
    app.delete('/reply-304', { response: Account }, () => reply(null, 304, { ETag: '"a"' }) as never);
    app.get('/null', { response: nullable(Account) }, () => null);
    app.get('/undefined', { response: nullable(Account) }, () => undefined as never);
    app.get('/text', { response: str }, () => 'a "word"');
    app.get('/items', { response: list(Address) }, () => [{ city: 'x', more: 1 }]);
  });
  for (const path of ['/status', '/pair', '/reply']) {
    const response = await it.client.delete(path);
    assert.deepEqual([response.status, await response.text()], [204, ''], path);
  }
  const notModified = await it.client.delete('/reply-304');
  assert.deepEqual([notModified.status, notModified.headers.get('etag')], [304, '"a"']);
  for (const path of ['/null', '/undefined']) {
    const response = await it.client.get(path);
    assert.deepEqual(
      [response.status, await response.text(), response.headers.get('content-type')],
      [200, 'null', 'application/json'],
    );
  }
  assert.equal(await (await it.client.get('/text')).json(), 'a "word"');
  assert.deepEqual(await (await it.client.get('/items')).json(), [{ city: 'x' }]);
});

test('if a reply does not fit its response schema, the log lists the first ten problems', async () => {
  await using it = setUp((app) =>
    app.get('/', { response: list(int) }, () => Array.from({ length: 30 }, () => 'x') as never),
  );
  assert.equal((await it.client.get('/')).status, 500);
  const line = JSON.stringify(it.events.find((event) => event['event'] === 'unhandled_error'));
  assert.match(line, /9 must be/);
  assert.doesNotMatch(line, /10 must be/);
});

// ── properties of a compiled route ──

test('a compiled route lists the security requirements of its option "security"', () => {
  const app = new Svc();
  const one = { scheme: 'bearer', scopes: ['a'], roles: [] } as const;
  const two = { scheme: 'apiKey', scopes: [], roles: [] } as const;
  app
    .get('/one', { security: one }, () => 1)
    .get('/two', { security: [one, two] }, () => 1)
    .get('/none', () => 1);
  const security = (template: string): unknown =>
    app.routes.find((route) => route.template === template)!.security;
  assert.deepEqual([security('/one'), security('/two'), security('/none')], [[one], [one, two], []]);
});

test('middleware of a route runs inside the middleware of the application, and around the dependencies and the validation of inputs', async () => {
  const steps: string[] = [];
  await using it = setUp((app) => {
    app.use(async (_req, next) => {
      steps.push('app');
      return next();
    });
    const router = new Router();
    router.get(
      '/',
      {
        query: { n: Field(1) },
        use: [
          async (_req, next) => {
            const response = await next();
            steps.push(`route ${response.status}`);
            return response;
          },
        ],
      },
      () => {
        steps.push('handler');
        return 'x';
      },
    );
    app.includeRouter(router);
  });
  await it.client.get('/');
  await it.client.get('/?n=x');
  assert.deepEqual(steps, ['app', 'handler', 'route 200', 'app', 'route 400']);
});

test('compileAll() reports a pattern with unbounded backtracking in the body or query of a route as the warning SVC304 at this route', () => {
  class Inner extends Schema {
    code = Field(str, { pattern: /^(a+)+$/ });
  }
  class Outer extends Schema {
    inner = Field(list(Inner), { maxLength: 9 });
  }
  const app = new Svc({ env: 'test' });
  app.post('/body', { body: Outer }, () => 1);
  app.get('/query', { query: { q: Field(str, { pattern: /^(a+)+$/ }) } }, () => 1);
  app.get('/fine', { query: { q: Field(str, { pattern: /^a+$/ }) } }, () => 1);
  const found = app.check().findings.filter(({ rule }) => rule === 'SVC304');
  assert.deepEqual(
    found.map(({ subject, severity }) => [subject, severity]),
    [
      ['POST /body', 'warning'],
      ['GET /query', 'warning'],
    ],
  );
  assert.match(found[0]!.message, /"code" in Inner/);
});

test('compileAll() reports SVC107 for a text input of a type that text cannot represent, and for a file in a query', () => {
  class Inner extends Schema {
    a = Field(int);
  }
  for (const spec of [
    { query: { inner: Field(Inner) } },
    { query: { upload: Field(file) } },
    { form: { inner: Field(Inner) } },
    { page: Depends(provide({ headers: { x: Field(record(str)) } }, () => 1)) },
  ]) {
    const app = new Svc({ env: 'test' });
    app.post('/', spec as object, () => 1);
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ severity }) => severity === 'error')
        .map(({ rule }) => rule),
      ['SVC107'],
      JSON.stringify(Object.keys(spec)),
    );
  }
});

test('compileAll() reports SVC107 for a JSON body with a required file, but not for a JSON body with an optional file', () => {
  class Photo extends Schema {
    image = Field(file);
  }
  class Album extends Schema {
    photos = Field(list(Photo));
  }
  class Post extends Schema {
    text = Field(str);
    photo = Field(file, { optional: true });
  }
  const errorsOf = (body: unknown): string[] => {
    const app = new Svc({ env: 'test' });
    app.post('/', { body } as object, () => 1);
    return app
      .check()
      .findings.filter(({ severity }) => severity === 'error')
      .map(({ rule }) => rule)
      .filter((rule) => rule !== 'SVC201');
  };
  for (const body of [Photo, Album, list(Photo), nullable(Photo), file, list(file)])
    assert.deepEqual(errorsOf(body), ['SVC107']);
  assert.deepEqual(errorsOf(Post), []);
});

test('if a handler returns an array [list, status], the list is the body, unless tuple is false or the response schema is a list', async () => {
  await using it = setUp((app) => {
    app.get('/usual', () => [[1, 2], 201]);
    app.get('/by-status', { response: { 201: list(int) } }, () => [[1, 2], 201]);
    app.get('/lists', { tuple: false }, () => [[1, 2], 201]);
    app.get('/declared', { response: list(any) }, () => [[1, 2], 201]);
  });
  for (const [path, status, text] of [
    ['/usual', 201, '[1,2]'],
    ['/by-status', 201, '[1,2]'],
    ['/lists', 200, '[[1,2],201]'],
    ['/declared', 200, '[[1,2],201]'],
  ] as const) {
    const response = await it.client.get(path);
    assert.deepEqual([response.status, await response.text()], [status, text], path);
  }
});

test('the option "maxBodyBytes" of a route allows JSON, text and bytes above 10 MB and above the limit of the application', async () => {
  const size = 10_500_000;
  await using it = setUp(
    (app) => {
      const spec = { maxBodyBytes: size };
      app.post('/json', spec, async ({ req }) => String(await req.json()).length);
      app.post('/declared', { ...spec, body: str }, ({ body }) => body.length);
      app.post('/text', spec, async ({ req }) => (await req.text()).length);
      app.post('/bytes', spec, async ({ req }) => (await req.body()).length);
      app.post('/less', spec, async ({ req }) => (await req.text({ maxBytes: 1_000_000 })).length);
    },
    { maxBodyBytes: 100 },
  );
  const text = `"${'x'.repeat(size - 2)}"`;
  const post = async (path: string, body: string): Promise<number> =>
    (await it.client.post(path, { body, headers: JSON_TYPE })).status;
  for (const path of ['/json', '/declared', '/text', '/bytes']) {
    assert.equal(await post(path, text), 200, path);
    assert.equal(await post(path, `${text} `), 413, path);
  }
  assert.equal(await post('/less', text), 413);
});
