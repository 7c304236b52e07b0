/**
 * OpenAPI documents: their contents, and that the application behaves accordingly.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import {
  APIKeyAuth,
  BearerAuth,
  CSRFMiddleware,
  Conflict,
  Depends,
  Field,
  HTMLResponse,
  HTTPException,
  IdempotencyMiddleware,
  IssuerAuth,
  LoginRequired,
  NotFound,
  RateLimitMiddleware,
  Router,
  Schema,
  SessionMiddleware,
  Svc,
  SvcError,
  TimeoutMiddleware,
  ValidationError,
  bytes,
  createLogger,
  decimal,
  file,
  int,
  lazy,
  list,
  literal,
  nullable,
  provide,
  record,
  requireRoles,
  requireScopes,
  requireSession,
  sessionKey,
  str,
  union,
} from '../../src/index.ts';
import { ConstraintViolation, conflictOn } from '../../src/db/index.ts';
import { openapiFindings } from '../../src/openapi/openapi.ts';
import { TestClient } from '../../src/testing/index.ts';
import type { OpenApiDocument, SvcOptions } from '../../src/index.ts';

const SECRET = 'kT9-vb2Lq8RzW4hXn6Yd0PmJcE3gUsAf';
const make = (options: SvcOptions = {}): Svc =>
  new Svc({ logger: createLogger({ sink: () => undefined }), env: 'test', authSecret: SECRET, ...options });
const none = (): undefined => undefined;
const never = (): never => {
  throw new Error('not called');
};

type Operation = NonNullable<OpenApiDocument['paths'][string]['get']>;

/** Returns the operation of an application with one route. */
function operation(app: Svc, path: string, method = 'get'): Operation {
  const found = app.openapi().paths[path]?.[method as 'get'];
  assert.ok(found, `${method} ${path} is in the document`);
  return found;
}
/** Returns the parameters of an operation by place and name. */
function parameters({ parameters: list = [] }: Operation): Record<string, unknown> {
  return Object.fromEntries(list.map(({ name, in: place, ...rest }) => [`${place} ${name}`, rest]));
}
const INT = {
  type: 'integer',
  format: 'int64',
  minimum: -Number.MAX_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
};

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}
class User extends Schema {
  name = Field(str);
  nick = Field('anon');
  password = Field(str, { secret: true });
  home = Field(Address);
}

test('the OpenAPI document has the title, the version and the servers of the application', () => {
  assert.deepEqual(make().openapi(), {
    openapi: '3.1.1',
    info: { title: 'svc', version: '1.0.0' },
    servers: [{ url: '/' }],
    tags: [],
    paths: {},
    components: {},
  });
  const app = make({
    title: 'Shop',
    version: '2.0.0',
    openapi: {
      description: 'Sells.',
      summary: 'A shop',
      termsOfService: 'https://shop.example/terms',
      contact: { email: 'ask@shop.example' },
      license: { name: 'MIT', identifier: 'MIT' },
      servers: [{ url: 'https://api.shop.example', description: 'live' }],
      tags: { unused: 'Nobody has it', goods: 'Things for sale' },
    },
  });
  app.get('/other', none).get('/goods', { tags: ['goods'] }, none);
  const { info, servers, tags } = app.openapi();
  assert.deepEqual(info, {
    title: 'Shop',
    version: '2.0.0',
    summary: 'A shop',
    description: 'Sells.',
    termsOfService: 'https://shop.example/terms',
    contact: { email: 'ask@shop.example' },
    license: { name: 'MIT', identifier: 'MIT' },
  });
  assert.deepEqual(servers, [{ url: 'https://api.shop.example', description: 'live' }]);
  assert.deepEqual(tags, [
    { name: 'goods', description: 'Things for sale' },
    { name: 'other', description: 'Operations under /other' },
  ]);
});

test('the option "openapi" of Svc refuses unknown members and invalid values', () => {
  for (const openapi of [{ title: 'x' }, { contact: { mail: 'x' } }, { webhooks: { paid: { url: 'x' } } }])
    assert.throws(() => make({ openapi } as SvcOptions), { code: 'E_OPTION_UNKNOWN' });
  for (const openapi of [
    { servers: [] },
    { servers: [{ url: 'x', variables: {} }] },
    { license: {} },
    { license: { name: 'x', identifier: 'MIT', url: 'https://x.example' } },
    { tags: { a: 1 } },
    { description: 1 },
    { webhooks: [] },
    { webhooks: { paid: 1 } },
    { webhooks: { paid: { method: 'HEAD' } } },
  ]) {
    assert.throws(
      () => make({ openapi } as unknown as SvcOptions),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(openapi),
    );
  }
});

class Paid extends Schema {
  order = Field(int);
  currency = Field('EUR');
}
class Received extends Schema {
  id = Field(str, { readOnly: true });
  mode = Field('now');
}
const SIGNED = { headers: { xSignature: Field(str, { minLength: 64 }) }, body: Paid };

test('OpenAPI document: a webhook uses the output schema for its body and the input schema for its response (OpenAPI 3.1 §4.8.1)', () => {
  const app = make({
    openapi: {
      webhooks: {
        paid: { ...SIGNED, summary: 'An order is paid', response: { 200: Received, 204: Received } },
        'gone!': { method: 'DELETE', deprecated: true, description: 'No more.' },
      },
    },
  });
  const { webhooks, components } = app.openapi();
  assert.deepEqual(webhooks, {
    paid: {
      post: {
        operationId: 'paid',
        summary: 'An order is paid',
        description: 'An order is paid',
        parameters: [
          { name: 'x-signature', in: 'header', required: true, schema: { type: 'string', minLength: 64 } },
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Paid' } } },
        },
        responses: {
          200: {
            description: 'OK',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Received' } } },
          },
          204: { description: 'No Content' },
          '4XX': { description: 'The receiver has refused the webhook or callback' },
        },
        security: [],
      },
    },
    'gone!': {
      delete: {
        operationId: 'gone_',
        summary: 'gone!',
        description: 'No more.',
        deprecated: true,
        responses: {
          '2XX': { description: 'The receiver has accepted the webhook or callback' },
          '4XX': { description: 'The receiver has refused the webhook or callback' },
        },
        security: [],
      },
    },
  });
  assert.deepEqual(components.schemas?.['Paid']?.['required'], ['order', 'currency']);
  assert.equal(components.schemas?.['Received']?.['required'], undefined);
});

test('OpenAPI document: the callbacks of a route are part of its operation, and get unique operation ids (OpenAPI 3.1 §4.8.18)', () => {
  const app = make();
  const callbacks = { paid: { ...SIGNED, url: '{$request.body#/notifyUrl}' } };
  app.post('/orders', { name: 'order', callbacks }, none);
  app.get('/paid', { name: 'orderPaid' }, none);
  const { paths } = app.openapi();
  const item = paths['/orders']!.post!.callbacks!['paid']!['{$request.body#/notifyUrl}']!;
  assert.equal(item.post!.operationId, 'orderPaid2');
  assert.deepEqual(item.post!.requestBody!.content, {
    'application/json': { schema: { $ref: '#/components/schemas/Paid' } },
  });
});

test('invalid webhooks and callbacks cause an error when they are declared, or when the application starts', async () => {
  const badStatus = { response: { 99: Paid } };
  assert.throws(() => make({ openapi: { webhooks: { paid: badStatus } } }), { code: 'E_ROUTE_SPEC' });
  const app = make();
  for (const callbacks of [
    [],
    { paid: 1 },
    { paid: {} },
    { paid: { url: '' } },
    { paid: { url: 'x', method: 'TRACE' } },
  ])
    assert.throws(
      () => app.post('/orders', { callbacks } as object, none),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(callbacks),
    );
  assert.throws(() => app.post('/orders', { callbacks: { paid: { url: 'x', form: {} } } } as object, none), {
    code: 'E_OPTION_UNKNOWN',
  });
  app.post('/orders', { callbacks: { paid: { ...badStatus, url: 'x' } } }, none);
  await assert.rejects(new TestClient(app).get('/orders'), { code: 'E_COMPILE' });
});

test('OpenAPI document: literal text in paths is percent-encoded, and path parameters have the type of their converter', () => {
  const app = make();
  app.get('/café 100%/{a}/{b:int}/{c:float}/{d:uuid}/{e:path}', none);
  assert.deepEqual(Object.keys(app.openapi().paths), ['/caf%C3%A9%20100%25/{a}/{b}/{c}/{d}/{e}']);
  const description = 'The rest of the path, in which slashes need no escape';
  assert.deepEqual(parameters(operation(app, '/caf%C3%A9%20100%25/{a}/{b}/{c}/{d}/{e}')), {
    'path a': { required: true, schema: { type: 'string', minLength: 1 } },
    'path b': { required: true, schema: INT },
    'path c': { required: true, description: 'Without exponent', schema: { type: 'number' } },
    'path d': { required: true, schema: { type: 'string', format: 'uuid' } },
    'path e': { required: true, description, schema: { type: 'string', minLength: 1 } },
  });
});

test('OpenAPI document: a route with an optional path has one operation for its folder, and one for all below', () => {
  const app = make();
  app
    .get('/dav/{rest:path?}', { name: 'dav' }, none)
    .put('/u/{id}/{rest:path?}', none)
    .get('/{all:path?}', none);
  const { paths } = app.openapi();
  assert.deepEqual(
    Object.entries(paths).map(([path, item]) => [path, Object.values(item)[0]!.operationId]),
    [
      ['/dav', 'dav'],
      ['/dav/{rest}', 'davByRest'],
      ['/u/{id}', 'putUById'],
      ['/u/{id}/{rest}', 'putUByIdByRest'],
      ['/', 'getRoot'],
      ['/{all}', 'getByAll'],
    ],
  );
  assert.deepEqual(parameters(operation(app, '/dav')), {});
  assert.deepEqual(parameters(operation(app, '/dav/{rest}')), {
    'path rest': {
      required: true,
      description: 'The rest of the path, in which slashes need no escape',
      schema: { type: 'string', minLength: 1 },
    },
  });
  assert.equal(operation(app, '/u/{id}/{rest}', 'put').summary, 'PUT /u/{id}/{rest}');
});

test('OpenAPI document: path templates that differ only in parameter names become one path with the names of the first template', () => {
  const app = make();
  app.get('/users/{id:int}', none).put('/users/{name}/', none).delete('/users/{name}', none);
  assert.deepEqual(Object.keys(app.openapi().paths), ['/users/{id}', '/users/{name}/']);
  assert.deepEqual(parameters(operation(app, '/users/{id}', 'delete')), {
    'path id': { required: true, schema: { type: 'string', minLength: 1 } },
  });
});

test('OpenAPI document: if two routes have one OpenAPI path, the more specific route is documented and the less specific route is reported', () => {
  for (const templates of [
    ['/u/{name}', '/u/{id:int}'],
    ['/u/{id:int}', '/u/{name}'],
  ] as const) {
    const app = make();
    for (const template of templates) app.get(template, none);
    assert.deepEqual(
      operation(app, `/u/{${templates[0].includes('id') ? 'id' : 'name'}}`).parameters?.[0]?.schema,
      INT,
    );
    assert.deepEqual(
      openapiFindings(app.inspect()).map(({ subject, message }) => [subject, message]),
      [
        [
          'GET /u/{name}',
          'OpenAPI has one path for this route and for GET /u/{id:int}, so the document leaves out this route',
        ],
      ],
    );
  }
});

test('OpenAPI document: health and metrics endpoints, static files, HEAD and OPTIONS, and routes with docs: false are omitted', () => {
  const app = make();
  app
    .route('/x', ['GET', 'HEAD', 'OPTIONS', 'PROPFIND'], none)
    .get('/page', { meta: { docs: false } }, none)
    .mountStatic('/static', new URL('../support', import.meta.url));
  const { paths } = app.openapi();
  assert.deepEqual(
    Object.entries(paths).map(([path, item]) => [path, Object.keys(item)]),
    [['/x', ['get']]],
  );
});

test('OpenAPI document: operation ids are unique, stable and safe in URLs', () => {
  const app = make();
  app
    .get('/', none)
    .get('/api/note-books/{id}', none)
    .get('/api/noteBooks/{id}', none)
    .post('/named', { name: 'make a thing' }, none)
    .put('/clash', { name: 'getApiNoteBooksById' }, none);
  app.route('/both', ['GET', 'POST'], { name: 'both' }, none);
  const ids = (of: Svc): unknown[] =>
    Object.values(of.openapi().paths).flatMap((item) =>
      Object.values(item).map(({ operationId }) => operationId),
    );
  assert.deepEqual(ids(app), [
    'getRoot',
    'getApiNoteBooksById2',
    'getApiNoteBooksById3',
    'make_a_thing',
    'getApiNoteBooksById',
    'getBoth',
    'postBoth',
  ]);
});

test('OpenAPI document: operations have the declared summary, tags and description, or default texts', () => {
  const app = make();
  app.get('/api/v1/notes/{id}', none).get('/', none).get('/{x}', { name: 'list_allNotes' }, none);
  app.includeRouter(
    new Router({ tags: ['a', 'b'] }).get(
      '/told',
      { summary: 'S', description: 'D', tags: ['b', 'c'], deprecated: true, rateLimit: { perMinute: 5 } },
      none,
    ),
  );
  app.use(new RateLimitMiddleware());
  const shown = ({ tags, summary, description, deprecated }: Operation): unknown[] => [
    tags,
    summary,
    description,
    deprecated,
  ];
  assert.deepEqual(shown(operation(app, '/api/v1/notes/{id}')), [
    ['notes'],
    'GET /api/v1/notes/{id}',
    'Needs no credentials.',
    undefined,
  ]);
  assert.deepEqual(shown(operation(app, '/')), [['root'], 'GET /', 'Needs no credentials.', undefined]);
  assert.deepEqual(shown(operation(app, '/{x}')), [
    ['root'],
    'List all notes',
    'Needs no credentials.',
    undefined,
  ]);
  assert.deepEqual(shown(operation(app, '/told')), [
    ['a', 'b', 'c'],
    'S',
    'D\n\nA client may call it 5 times a minute.',
    true,
  ]);
});

test('OpenAPI document: an operation lists the parameters of its route and of every dependency, without duplicates', () => {
  const inner = provide({ query: { page: Field(1, { ge: 1 }), q: Field(str) } }, ({ query }) => query);
  const outer = provide(
    {
      headers: {
        ifMatch: Field(str, { optional: true, description: 'A tag', example: '"x"' }),
        x: Field(list(int), { alias: 'X-Ids', optional: true }),
      },
      cookies: { theme: Field(literal('dark', 'light'), { optional: true }) },
      inner: Depends(inner),
    },
    none,
  );
  const app = make();
  app.includeRouter(
    new Router({ deps: { outer: Depends(outer) } }).get(
      '/',
      { query: { page: Field(1, { le: 9 }), q: Field(str) }, again: Depends(inner) },
      none,
    ),
  );
  assert.deepEqual(parameters(operation(app, '/')), {
    'query page': {
      schema: {
        allOf: [
          { ...INT, minimum: 1, default: 1 },
          { ...INT, maximum: 9, default: 1 },
        ],
      },
    },
    'query q': { required: true, schema: { type: 'string' } },
    'header if-match': { description: 'A tag', schema: { type: 'string' }, example: '"x"' },
    'header x-ids': { schema: { type: 'array', items: INT } },
    'cookie theme': { schema: { type: 'string', enum: ['dark', 'light'] } },
  });
});

test('OpenAPI document: the schemas of parameters allow only values that can be written as text', () => {
  const app = make();
  app.get(
    '/',
    {
      query: {
        needed: Field(list(str)),
        maybe: Field(list(str), { optional: true }),
        none: Field(nullable(int), { default: null }),
        choice: Field(literal('a', 1, null), { optional: true }),
        shown: Field(str, { readOnly: true }),
        object: Field(Address, { optional: true }),
        key: Field(str, { secret: true }),
      },
      headers: { authorization: Field(str, { optional: true }), accept: Field(str, { optional: true }) },
      cookies: { ids: Field(list(int), { optional: true }) },
    },
    none,
  );
  assert.deepEqual(parameters(operation(app, '/')), {
    'query needed': { required: true, schema: { type: 'array', items: { type: 'string' }, minItems: 1 } },
    'query maybe': { schema: { type: 'array', items: { type: 'string' } } },
    'query none': { schema: INT },
    'query choice': { schema: { type: ['string', 'number'], enum: ['a', 1] } },
    'query key': { required: true, schema: { type: 'string' } },
    'cookie ids': { schema: { type: 'array', items: INT, maxItems: 1 } },
  });
});

test('OpenAPI document: lists with separator "," have style "form" and explode: false in queries, cookies and forms (OpenAPI 3.1 §4.8.12.2)', () => {
  const app = make();
  const ids = (): number[] | undefined => Field(list(int), { separator: ',', optional: true });
  app.get('/', { query: { ids: ids() }, cookies: { ids: ids() }, headers: { ids: ids() } }, none);
  app.post('/', { form: { ids: ids(), name: Field(str) } }, none);
  const schema = { type: 'array', items: INT };
  assert.deepEqual(parameters(operation(app, '/')), {
    'query ids': { schema, style: 'form', explode: false },
    'cookie ids': { schema, style: 'form', explode: false },
    'header ids': { schema },
  });
  const { content } = operation(app, '/', 'post').requestBody!;
  assert.deepEqual(content['application/x-www-form-urlencoded']!.encoding, {
    ids: { style: 'form', explode: false },
  });
  assert.equal(content['multipart/form-data']!.encoding, undefined);
});

test('OpenAPI document: a form body has both form media types, but only multipart/form-data if a file is required', () => {
  const app = make();
  app
    .post('/json', { body: list(User) }, none)
    .post('/plain', { form: { a: Field(str), tags: Field(list(str), { optional: true }) } }, none);
  app.post(
    '/some',
    { form: { a: Field(int), pic: Field(file, { optional: true }), raw: Field(bytes) } },
    none,
  );
  class Upload extends Schema {
    static extra = 'forbid';
    pics = Field(list(file), { minLength: 1 });
    icon = Field(file, { contentTypes: ['image/png', 'image/gif'] });
  }
  app.post('/files', { form: Upload }, none);
  assert.deepEqual(operation(app, '/json', 'post').requestBody, {
    required: true,
    content: {
      'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/User' } } },
    },
  });
  const plain = {
    type: 'object',
    properties: { a: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } } },
    required: ['a'],
  };
  assert.deepEqual(operation(app, '/plain', 'post').requestBody, {
    required: true,
    content: {
      'application/x-www-form-urlencoded': { schema: plain },
      'multipart/form-data': { schema: plain },
    },
  });
  const { content } = operation(app, '/some', 'post').requestBody!;
  assert.deepEqual(
    Object.entries(content).map(([type, { schema, encoding }]) => [
      type,
      Object.keys(schema['properties'] as object),
      encoding,
    ]),
    [
      ['application/x-www-form-urlencoded', ['a', 'raw'], undefined],
      [
        'multipart/form-data',
        ['a', 'pic', 'raw'],
        { pic: { contentType: 'application/octet-stream' }, raw: { contentType: 'text/plain' } },
      ],
    ],
  );
  const bin = (contentMediaType: string): object => ({ type: 'string', contentMediaType });
  assert.deepEqual(operation(app, '/files', 'post').requestBody?.content, {
    'multipart/form-data': {
      schema: {
        type: 'object',
        properties: {
          pics: { type: 'array', items: bin('application/octet-stream'), minItems: 1 },
          icon: bin('application/octet-stream'),
        },
        required: ['pics', 'icon'],
        additionalProperties: false,
      },
      encoding: {
        pics: { contentType: 'application/octet-stream' },
        icon: { contentType: 'image/png, image/gif' },
      },
    },
  });
});

test('OpenAPI document: an operation has the responses that its route declares, with their schemas', () => {
  const app = make();
  app.get('/one', { response: User }, never).post('/made', { response: Address, status: 201 }, never);
  app.get('/many', { response: { 200: list(Address), 204: nullable(str), 404: Address } }, never);
  app
    .get('/any', none)
    .get('/gone', { status: 204 }, none)
    .get('/away', { status: 303 }, none)
    .get('/taken', { status: 202 }, none);
  const json = (schema: object): object => ({ 'application/json': { schema } });
  const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` });
  const own = (path: string, method = 'get'): object =>
    Object.fromEntries(
      Object.entries(operation(app, path, method).responses).filter(([, response]) => !('$ref' in response)),
    );
  assert.deepEqual(own('/one'), { 200: { description: 'OK', content: json(ref('User')) } });
  assert.deepEqual(own('/made', 'post'), { 201: { description: 'Created', content: json(ref('Address')) } });
  assert.deepEqual(own('/many'), {
    200: { description: 'OK', content: json({ type: 'array', items: ref('Address') }) },
    204: { description: 'No Content' },
    404: {
      description: 'Not Found',
      content: { ...json(ref('Address')), 'application/problem+json': { schema: ref('Problem') } },
    },
  });
  assert.deepEqual(own('/any'), {
    200: { description: 'Response of the handler', content: { '*/*': { schema: {} } } },
    204: { description: 'No Content' },
  });
  assert.deepEqual(own('/gone'), { 204: { description: 'No Content' } });
  assert.deepEqual(own('/away'), { 303: { description: 'See Other' } });
  assert.deepEqual(own('/taken'), { 202: { description: 'Accepted', content: { '*/*': { schema: {} } } } });
  assert.deepEqual(app.openapi().components.schemas?.['User'], {
    type: 'object',
    properties: { name: { type: 'string' }, nick: { type: 'string', default: 'anon' }, home: ref('Address') },
    required: ['name', 'nick', 'home'],
  });
});

test('OpenAPI document: each error response that a route can cause is listed once', () => {
  const app = make();
  const statuses = (path: string, method = 'get'): string =>
    Object.entries(operation(app, path, method).responses)
      .filter(([, response]) => '$ref' in response)
      .map(([status]) => status)
      .join(' ');
  app
    .get('/bare', none)
    .get('/q', { query: { a: Field(1) } }, none)
    .get('/p/{x}', none)
    .post('/b', { body: User }, none);
  app
    .get('/me', { me: Depends(BearerAuth()) }, none)
    .get('/admin', { me: Depends(requireRoles('admin')) }, none)
    .get('/slow', { timeoutMs: 10 }, none);
  assert.deepEqual(
    ['/bare', '/q', '/p/{x}', '/me', '/admin', '/slow'].map((path) => statuses(path)),
    ['4XX 5XX', '400 4XX 5XX', '404 4XX 5XX', '401 4XX 5XX', '401 403 4XX 5XX', '503 4XX 5XX'],
  );
  assert.equal(statuses('/b', 'post'), '400 413 415 4XX 5XX');
  const { responses, headers } = app.openapi().components;
  assert.deepEqual(Object.keys(responses!).sort(), [
    'BadRequest',
    'ClientError',
    'ContentTooLarge',
    'Forbidden',
    'NotFound',
    'ServerError',
    'ServiceUnavailable',
    'Unauthorized',
    'UnsupportedMediaType',
  ]);
  assert.deepEqual(Object.keys(headers!), ['Retry-After', 'WWW-Authenticate']);
  assert.deepEqual(responses!['Unauthorized'], {
    description: 'Credentials are missing or invalid',
    headers: { 'WWW-Authenticate': { $ref: '#/components/headers/WWW-Authenticate' } },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  });
});

test('OpenAPI document: middleware adds the responses for rate limits, idempotency conflicts and timeouts to operations', () => {
  const app = make();
  app
    .use(new RateLimitMiddleware())
    .use(new TimeoutMiddleware())
    .use(new IdempotencyMiddleware({ required: true }));
  app
    .get('/', none)
    .post('/', none)
    .post('/free', { rateLimit: false, timeoutMs: false, meta: { idempotency: false } }, none);
  const statuses = (path: string, method: string): string =>
    Object.keys(operation(app, path, method).responses)
      .filter((status) => Number(status) >= 400)
      .join(' ');
  assert.deepEqual(
    [statuses('/', 'get'), statuses('/', 'post'), statuses('/free', 'post')],
    ['429 503', '400 409 422 429 503', ''],
  );
  const { schema, ...key } = operation(app, '/', 'post').parameters![0]!;
  assert.deepEqual([key.name, key.in, key.required], ['Idempotency-Key', 'header', true]);
  assert.match(String(key.example), new RegExp(String(schema['pattern']), 'u'));
  assert.equal(operation(app, '/', 'get').parameters, undefined);
});

test('OpenAPI document: the security of an operation combines the requirements of all its dependencies', () => {
  const app = make();
  const user = sessionKey<string>('user');
  const key = APIKeyAuth({ keys: { a: 'k'.repeat(16) } });
  app.use(new SessionMiddleware());
  app
    .get('/open', none)
    .get('/me', { me: Depends(BearerAuth()) }, none)
    .get('/maybe', { me: Depends(BearerAuth(undefined, { optional: true })) }, none);
  app
    .get(
      '/roles',
      { me: Depends(requireRoles('a', 'b')), too: Depends(requireScopes('read', 'write')) },
      none,
    )
    .get('/key', { key: Depends(key) }, none);
  app
    .get('/other', { key: Depends(APIKeyAuth({ cookie: 'k', keys: { a: 'k'.repeat(16) } })) }, none)
    .get('/both', { key: Depends(key), user: Depends(requireSession(user)) }, none);
  app.get(
    '/all',
    { me: Depends(requireRoles({ roles: ['a'], auth: BearerAuth(undefined, { optional: true }) })) },
    none,
  );
  const of = (path: string): unknown => operation(app, path).security;
  assert.deepEqual(['/open', '/me', '/maybe', '/roles', '/key', '/other', '/both', '/all'].map(of), [
    [],
    [{ bearer: [] }],
    [{ bearer: [] }, {}],
    [{ bearer: [] }],
    [{ apiKey: [] }],
    [{ apiKey2: [] }],
    [{ apiKey: [], session: [] }],
    [{ bearer: [] }],
  ]);
  assert.deepEqual(operation(app, '/roles')['x-svc-requires'], [
    { scheme: 'bearer', scopes: [], roles: ['a', 'b'] },
    { scheme: 'bearer', scopes: ['read', 'write'], roles: [] },
  ]);
  assert.equal(
    operation(app, '/roles').description,
    'Needs a bearer token with the role `a` or `b`. Needs a bearer token with the scopes `read` and `write`.',
  );
  assert.equal(operation(app, '/maybe').description, 'Takes a bearer token, if there is one.');
  const schemes = app.openapi().components.securitySchemes!;
  assert.deepEqual(
    Object.fromEntries(
      Object.entries(schemes).map(([name, { description: _, ...scheme }]) => [name, scheme]),
    ),
    {
      bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
      apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      apiKey2: { type: 'apiKey', in: 'cookie', name: 'k' },
      session: { type: 'apiKey', in: 'cookie', name: 'svc_session' },
    },
  );
});

test('OpenAPI document: the security of an operation lists each set of credentials that required and optional guards accept', () => {
  const keys = { a: 'k'.repeat(16) };
  const guards = {
    key: APIKeyAuth({ keys }),
    key_: APIKeyAuth({ keys, optional: true }),
    bearer: BearerAuth(),
    bearer_: BearerAuth(undefined, { optional: true }),
    cookie_: APIKeyAuth({ cookie: 'c', keys, optional: true }),
    session: requireSession(sessionKey<string>('user')),
    admin: requireRoles({ roles: ['admin'], auth: BearerAuth(undefined, { optional: true }) }),
    issuer: IssuerAuth({ issuer: 'https://a.example', audience: 'api' }),
    issuers: IssuerAuth(
      ['https://b.example', 'https://a.example'].map((issuer) => ({ issuer, audience: 'api' })),
    ),
    none: () => 'no credential',
  };
  // the names of the guards that are optional end with _
  const cases: readonly (readonly [guards: string, security: string, description: string])[] = [
    ['none', '', 'Needs no credentials.'],
    ['key', 'apiKey', 'Needs an API key.'],
    ['key_', 'apiKey | -', 'Takes an API key, if there is one.'],
    ['key bearer', 'apiKey+bearer', 'Needs an API key. Needs a bearer token.'],
    ['key_ bearer', 'apiKey+bearer | bearer', 'Takes an API key, if there is one. Needs a bearer token.'],
    ['key bearer_', 'apiKey+bearer | apiKey', 'Needs an API key. Takes a bearer token, if there is one.'],
    [
      'key_ bearer_',
      'apiKey+bearer | apiKey | bearer | -',
      'Takes an API key, if there is one. Takes a bearer token, if there is one.',
    ],
    [
      'bearer_ key_ cookie_',
      'apiKey+apiKey2+bearer | apiKey+bearer | apiKey2+bearer | apiKey+apiKey2 | bearer | apiKey | apiKey2 | -',
      'Takes a bearer token, if there is one. Takes an API key, if there is one.',
    ],
    [
      'session key_ bearer_',
      'apiKey+bearer+session | apiKey+session | bearer+session | session',
      'Needs a session that has logged in. Takes an API key, if there is one. Takes a bearer token, if there is one.',
    ],
    ['bearer bearer_', 'bearer', 'Needs a bearer token.'],
    ['bearer_ admin', 'bearer', 'Needs a bearer token with the role `admin`.'],
    ['bearer admin', 'bearer', 'Needs a bearer token with the role `admin`.'],
    ['key admin', 'apiKey+bearer', 'Needs an API key. Needs a bearer token with the role `admin`.'],
    ['issuers', 'openIdConnect | openIdConnect2', 'Needs a bearer token.'],
    [
      'issuers key_',
      'apiKey+openIdConnect | apiKey+openIdConnect2 | openIdConnect | openIdConnect2',
      'Needs a bearer token. Takes an API key, if there is one.',
    ],
    ['issuers issuer', 'openIdConnect2', 'Needs a bearer token.'],
  ];
  const told = cases.map(([names]) => {
    const spec = Object.fromEntries(
      names.split(' ').map((name) => [name, Depends(guards[name as keyof typeof guards])]),
    );
    const { security, description } = operation(
      make()
        .use(new SessionMiddleware())
        .get('/', spec as object, none),
      '/',
    );
    const sets = security!.map((set) => Object.keys(set).sort().join('+') || '-');
    return [names, sets.join(' | '), description];
  });
  assert.deepEqual(told, cases);
});

test('OpenAPI document: the sets of credentials of twenty optional guards name each one alone, and stay few', () => {
  const keys = { a: 'k'.repeat(16) };
  const guards = Array.from({ length: 20 }, (_, index) => [
    `key${index}`,
    Depends(APIKeyAuth({ keys, optional: true, header: `X-Key-${index}` })),
  ]);
  const { security } = operation(make().get('/', Object.fromEntries(guards) as object, none), '/');
  const sizes = security!.map((set) => Object.keys(set).length);
  assert.equal(security!.length, 32);
  assert.equal(sizes.filter((size) => size === 1).length, 20);
  assert.equal(sizes.at(-1), 0);
});

test('OpenAPI document: each of many optional credentials goes with each of the required alternatives', () => {
  const keys = { a: 'k'.repeat(16) };
  const issuers = ['a', 'b'].map((name) => ({ issuer: `https://${name}.example`, audience: 'api' }));
  const optional = Array.from({ length: 6 }, (_, index) => [
    `key${index}`,
    Depends(APIKeyAuth({ keys, optional: true, header: `X-Key-${index}` })),
  ]);
  const spec = { user: Depends(IssuerAuth(issuers)), ...Object.fromEntries(optional) };
  const { security } = operation(make().get('/', spec as object, none), '/');
  const pairs = security!.filter((set) => Object.keys(set).length === 2);
  assert.equal(pairs.filter((set) => 'openIdConnect' in set).length, 6);
  assert.equal(pairs.filter((set) => 'openIdConnect2' in set).length, 6);
});

test('OpenAPI document: each issuer of IssuerAuth() is a scheme openIdConnect, and one of them suffices', () => {
  const one = IssuerAuth({ issuer: 'https://login.example/realms/shop', audience: 'api' });
  const two = IssuerAuth([
    { issuer: 'https://login.example/realms/shop', audience: 'api' },
    { issuer: 'https://tenant.example/', audience: 'api' },
  ]);
  const app = make()
    .get('/one', { me: Depends(one) }, () => '')
    .get('/two', { me: Depends(requireScopes({ scopes: ['read'], auth: two })) }, () => '')
    .get('/both', { me: Depends(two), key: Depends(APIKeyAuth({ keys: { a: 'k'.repeat(20) } })) }, () => '');
  assert.deepEqual(operation(app, '/one').security, [{ openIdConnect: [] }]);
  assert.deepEqual(operation(app, '/two').security, [{ openIdConnect: [] }, { openIdConnect2: [] }]);
  assert.deepEqual(operation(app, '/both').security, [
    { openIdConnect: [], apiKey: [] },
    { openIdConnect2: [], apiKey: [] },
  ]);
  const schemes = app.openapi().components.securitySchemes ?? {};
  assert.deepEqual(
    ['openIdConnect', 'openIdConnect2'].map((name) => [
      schemes[name]?.['type'],
      schemes[name]?.['openIdConnectUrl'],
    ]),
    [
      ['openIdConnect', 'https://login.example/realms/shop/.well-known/openid-configuration'],
      ['openIdConnect', 'https://tenant.example/.well-known/openid-configuration'],
    ],
  );
});

test('OpenAPI document: a security scheme links to the routes at which browsers log in, without those that have path parameters', () => {
  const app = new Svc({ env: 'test', authSecret: 'kT9-vb2Lq8RzW4hXn6Yd0PmJcE3gUsAf' });
  app.use(new SessionMiddleware());
  app
    .get('/me', { user: Depends(requireSession(sessionKey('user'))) }, none)
    .get('/login', { public: true, meta: { login: 'session' } }, none)
    .get('/login/{by}', { public: true, meta: { login: 'session' } }, none)
    .post('/login', { public: true, meta: { login: 'session' } }, none)
    .get('/token', { public: true, meta: { login: 'bearer' } }, none);
  const { session } = app.openapi().components.securitySchemes ?? {};
  assert.equal(session?.['description'], 'The cookie of a logged-in session: log in at [/login](/login)');
});

test("OpenAPI document: the session cookie has the name that SessionMiddleware gives it in the application's environment", () => {
  for (const [env, options, name] of [
    ['production', {}, '__Host-svc_session'],
    ['test', {}, 'svc_session'],
    ['production', { cookie: { name: 'sid', path: '/a' } }, '__Secure-sid'],
    ['test', { cookie: { name: 'sid', secure: true } }, '__Host-sid'],
  ] as const) {
    const app = make({ env });
    app.get(
      '/',
      { use: [new SessionMiddleware(options)], user: Depends(requireSession(sessionKey('user'))) },
      none,
    );
    assert.equal(app.openapi().components.securitySchemes!['session']!['name'], name);
  }
});

test('OpenAPI document: if CSRFMiddleware is used, requests that change data require a CSRF token', () => {
  const app = make();
  app
    .use(new SessionMiddleware())
    .use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'], exemptBearer: true }));
  app
    .get('/', none)
    .post('/', none)
    .post('/api/x', none)
    .post('/own', { meta: { csrf: false } }, none)
    .post('/token', { me: Depends(BearerAuth()) }, none)
    .post('/maybe', { me: Depends(BearerAuth(undefined, { optional: true })) }, none)
    .post('/both', { me: Depends(BearerAuth()), user: Depends(requireSession(sessionKey('user'))) }, none);
  const of = (path: string, method = 'post'): unknown => operation(app, path, method).security;
  assert.deepEqual(
    [of('/', 'get'), of('/'), of('/api/x'), of('/own'), of('/token'), of('/maybe'), of('/both')],
    [
      [],
      [{ csrf: [] }],
      [],
      [],
      [{ bearer: [] }],
      [{ bearer: [] }, { csrf: [] }], // exemptBearer exempts a request with a token
      [{ bearer: [], session: [], csrf: [] }], // and without cookies
    ],
  );
  const is403 = (path: string): boolean => '403' in operation(app, path, 'post').responses;
  assert.deepEqual(['/', '/token', '/maybe', '/both'].map(is403), [true, false, true, true]);
});

test('OpenAPI document: schema classes of the same name get different names, and a recursive class refers to itself', () => {
  class Tree extends Schema {
    value = Field(int);
    children: Tree[] = Field(list(lazy(() => Tree)));
  }
  class Problem extends Schema {
    ours = Field(str);
  }
  const app = make();
  const other = ((): typeof Schema =>
    class Address extends Schema {
      street = Field(str);
    })();
  app
    .post('/', { body: Address }, none)
    .post('/other', { body: other }, none)
    .post('/tree', { body: Tree }, none)
    .get('/problem', { response: Problem }, never);
  const schemas = app.openapi().components.schemas!;
  assert.deepEqual(Object.keys(schemas), ['Address', 'Address2', 'Tree', 'Problem', 'Problem2']);
  assert.deepEqual((schemas['Tree']!['properties'] as Record<string, unknown>)['children'], {
    type: 'array',
    items: { $ref: '#/components/schemas/Tree' },
  });
  assert.ok('request_id' in (schemas['Problem2']!['properties'] as object));
  assert.deepEqual(
    openapiFindings(app.inspect()).map(({ subject, message }) => `${subject}: ${message}`),
    [
      'POST /other: the schema Address of this route is called Address2 in the document, because another schema is called Address',
    ],
  );
});

test('OpenAPI document: a tagged union is written as oneOf with a discriminator', () => {
  class Cat extends Schema {
    kind = Field(literal('cat'));
  }
  class Dog extends Schema {
    kind = Field(literal('dog'));
  }
  const app = make();
  app.post('/', { body: record(union('kind', Cat, Dog)) }, none);
  const { schema } = operation(app, '/', 'post').requestBody!.content['application/json']!;
  assert.deepEqual(schema['additionalProperties'], {
    type: 'object',
    required: ['kind'],
    oneOf: [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }],
    discriminator: {
      propertyName: 'kind',
      mapping: { cat: '#/components/schemas/Cat', dog: '#/components/schemas/Dog' },
    },
  });
});

test('OpenAPI document: the option meta.openapi of a route overrides members of its operation', () => {
  const app = make();
  const own = {
    externalDocs: { url: 'https://docs.example' },
    'x-own': 1,
    responses: {
      200: { description: 'A picture', content: { 'image/png': {} } },
      204: null,
      '4XX': { $ref: '#/components/responses/Own' },
    },
    parameters: [
      { name: 'page', in: 'query', schema: { type: 'string' } },
      { name: 'x', in: 'header', schema: {} },
    ],
    components: { responses: { Own: { description: 'Ours' } }, schemas: { Address: { type: 'null' } } },
  };
  app
    .get('/', { query: { page: Field(1), size: Field(1) }, meta: { openapi: own } }, none)
    .post('/', { body: Address, meta: { openapi: 'text' } }, none);
  const {
    externalDocs,
    responses,
    'x-own': x,
    parameters: list,
  } = operation(app, '/') as Operation & Record<string, unknown>;
  assert.deepEqual(
    [externalDocs, x, Object.keys(responses)],
    [own['externalDocs'], 1, ['200', '400', '4XX', '5XX']],
  );
  assert.deepEqual(responses['200'], own.responses[200]);
  assert.deepEqual(
    list?.map(({ in: place, name, schema }) => [place, name, schema['type']]),
    [
      ['query', 'page', 'string'],
      ['query', 'size', 'integer'],
      ['header', 'x', undefined],
    ],
  );
  const { components } = app.openapi();
  assert.deepEqual(
    [components.responses?.['Own'], components.schemas?.['Address'], Object.keys(components.schemas!)],
    [{ description: 'Ours' }, { type: 'null' }, ['Address2', 'Problem', 'Address']],
  );
  assert.deepEqual(
    openapiFindings(app.inspect()).map(({ message }) => message),
    [
      'meta.openapi of the route must be an object',
      'the schema Address of this route is called Address2 in the document, because another schema is called Address',
    ],
  );
});

test('OpenAPI document: an error response of meta.openapi without content keeps the content of its status or range', () => {
  const app = make();
  const described = (description: string): object => ({ description });
  const responses = { 200: described('A place'), 404: described('No place'), 503: described('Closed') };
  app.get('/', { response: Address, meta: { openapi: { responses } } }, () => ({ city: 'London' }));
  const contentOf = (status: string): unknown => {
    const { description, content } = operation(app, '/').responses[status] as unknown as Record<
      string,
      unknown
    >;
    return [description, JSON.stringify(content)];
  };
  const problem = '{"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}}}';
  assert.deepEqual(contentOf('200'), ['A place', undefined]);
  assert.deepEqual([contentOf('404'), contentOf('503')], [['No place', problem], ['Closed', problem]]); // prettier-ignore
});

class Failure extends Schema {
  reason = Field(str);
}
class Invalid extends Schema {
  fields = Field(list(str));
}

test('OpenAPI document: an error response has the schema that the exception handler for the error declares', () => {
  const responsesOf = (declare: (app: Svc) => void): Record<string, unknown> => {
    const app = make();
    declare(app);
    app.post('/items/{id:int}', { body: Failure, response: { 200: Failure, 410: Failure } }, never);
    return operation(app, '/items/{id}', 'post').responses;
  };
  const issueOf = (name: string): object => ({ $ref: `#/components/responses/${name}` });
  const json = (name: string): object => ({
    'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
  });
  const problem = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
  const plain = responsesOf(none);
  assert.deepEqual(plain['400'], issueOf('BadRequest'));
  assert.deepEqual(plain['410'], { description: 'Gone', content: { ...json('Failure'), ...problem } });
  const silent = responsesOf((app) => app.exceptionHandler(HTTPException, () => [{}, 400]));
  assert.deepEqual(Object.keys(silent), ['200', '410', '4XX', '5XX']);
  assert.deepEqual(silent['4XX'], { description: 'The request was refused' });
  assert.deepEqual(silent['5XX'], { description: 'An error in the application' });
  assert.deepEqual(silent['410'], { description: 'Gone', content: json('Failure') });
  const whole = responsesOf((app) =>
    app.exceptionHandler(HTTPException, { response: Failure }, (error) => [
      { reason: error.message },
      error.status,
    ]),
  );
  assert.deepEqual(whole['404'], { description: 'No resource has this path', content: json('Failure') });
  assert.deepEqual((whole['4XX'] as { content: unknown }).content, json('Failure'));
  assert.deepEqual((whole['5XX'] as { content: unknown }).content, { ...json('Failure'), ...problem });
  const invalid = responsesOf((app) =>
    app.exceptionHandler(ValidationError, { response: { 422: Invalid } }, ({ issues }) => [
      { fields: issues.map(({ message }) => message) },
      422,
    ]),
  );
  assert.equal(invalid['400'], undefined);
  assert.deepEqual(invalid['4XX'], issueOf('ClientError'));
  assert.deepEqual(invalid['422'], {
    description: 'Unprocessable Entity',
    content: json('Invalid'),
  });
  const both = responsesOf((app) =>
    app.exceptionHandler(ValidationError, { response: { 400: Invalid } }, () => [{ fields: [] }, 400]),
  );
  assert.deepEqual((both['400'] as { content: unknown }).content, { ...json('Invalid'), ...problem });
});

test('OpenAPI document: an exception handler without a declared response leaves the content of its errors open', () => {
  class Stale extends NotFound {}
  class Own extends Error {}
  const PROBLEM = 'application/problem+json';
  const open = { '4XX': 'The request was refused', '5XX': 'An error in the application' };
  const cases: readonly [
    declare: (app: Svc) => void,
    absent: readonly string[],
    ranges: readonly string[],
  ][] = [
    [(app) => app.exceptionHandler(ValidationError, () => [{}, 422]), ['400'], ['4XX']],
    [(app) => app.exceptionHandler(Stale, () => [{}, 404]), ['404'], ['4XX']],
    [(app) => app.exceptionHandler(Conflict, () => [{}, 409]), [], ['4XX']],
    [(app) => app.exceptionHandler(Own, () => [{}, 409]), [], ['4XX', '5XX']],
    [(app) => app.exceptionHandler(Error, () => [{}, 500]), [], ['5XX']],
    [(app) => app.exceptionHandler(LoginRequired, () => ['', 303]), [], ['4XX']],
    [(app) => app.exceptionHandler(ConstraintViolation, conflictOn()), [], []],
    [(app) => app.exceptionHandler(HTTPException, { response: PROBLEM }, never), [], []],
    [(app) => app.exceptionHandler(LoginRequired, { response: PROBLEM }, never), [], []],
    [(app) => app.exceptionHandler(Own, { response: PROBLEM, status: 409 }, never), [], []],
  ];
  for (const [declare, absent, ranges] of cases) {
    const app = make();
    declare(app);
    app.post('/items/{id:int}', { body: Failure, response: Failure }, never);
    const { responses } = operation(app, '/items/{id}', 'post');
    for (const status of ['400', '404'])
      assert.equal(responses[status] === undefined, absent.includes(status), `${status}: ${declare}`);
    for (const [range, description] of Object.entries(open)) {
      const isOpen = isDeepStrictEqual(responses[range], { description });
      assert.equal(isOpen, ranges.includes(range), `${range}: ${declare}`);
    }
  }
});

test('OpenAPI document: an exception handler without a declared response also leaves the statuses open that other handlers declare in its range', () => {
  class Own extends Error {}
  class Other extends Error {}
  const app = make();
  app.exceptionHandler(Own, { response: { 404: Failure, 409: Failure, 303: Failure } }, never);
  app.exceptionHandler(Other, () => ['plain words', 409]);
  app.get('/items', { response: Failure }, never);
  app.get('/declared', { response: { 200: Failure, 409: Invalid } }, never);
  const { responses } = operation(app, '/items');
  assert.deepEqual(Object.keys(responses), ['200', '303', '4XX', '5XX']);
  assert.deepEqual(responses['4XX'], { description: 'The request was refused' });
  assert.deepEqual(Object.keys(operation(app, '/declared').responses), ['200', '303', '409', '4XX', '5XX']);
});

test("OpenAPI document: the declared responses to an application's error have their statuses, and the ranges stay problem details", () => {
  class Own extends Error {}
  class Other extends Error {}
  const app = make();
  app.exceptionHandler(Own, { response: { 409: Invalid, 404: Failure, 303: Failure } }, never);
  app.exceptionHandler(Other, { response: Failure, status: 500 }, never);
  app.get('/items/{id:int}', { response: Failure }, never);
  const { responses } = operation(app, '/items/{id}');
  const json = (name: string): object => ({
    'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
  });
  const problem = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
  assert.deepEqual(Object.keys(responses), ['200', '303', '404', '409', '500', '4XX', '5XX']);
  assert.deepEqual(responses['303'], { description: 'See Other', content: json('Failure') });
  assert.deepEqual(responses['409'], {
    description: 'Conflict',
    content: { ...json('Invalid'), ...problem },
  });
  assert.deepEqual(responses['500'], {
    description: 'Internal Server Error',
    content: { ...json('Failure'), ...problem },
  });
  assert.deepEqual((responses['404'] as { content: unknown }).content, { ...json('Failure'), ...problem });
  assert.deepEqual(
    [responses['4XX'], responses['5XX']],
    ['ClientError', 'ServerError'].map((name) => ({ $ref: `#/components/responses/${name}` })),
  );
});

test("OpenAPI document: a declared response to an application's error without a status joins the ranges", () => {
  class Own extends Error {}
  const app = make();
  app.exceptionHandler(Own, { response: Failure }, never);
  app.get('/items', { response: Failure }, never);
  const { responses } = operation(app, '/items');
  assert.deepEqual(Object.keys(responses), ['200', '4XX', '5XX']);
  for (const range of ['4XX', '5XX'])
    assert.deepEqual(Object.keys((responses[range] as { content: object }).content).sort(), [
      'application/json',
      'application/problem+json',
    ]);
});

test("OpenAPI document: for routes of a router, the router's exception handler takes precedence over the application's handler", () => {
  const app = make();
  app.exceptionHandler(NotFound, { response: Invalid }, never);
  const router = new Router();
  router.exceptionHandler(HTTPException, { response: Failure }, never);
  router.get('/inner/{id}', never);
  app.includeRouter(router);
  app.get('/outer/{id}', never);
  const contentOf = (path: string): unknown =>
    (operation(app, path).responses['404'] as { content: unknown }).content;
  assert.deepEqual(contentOf('/inner/{id}'), {
    'application/json': { schema: { $ref: '#/components/schemas/Failure' } },
  });
  assert.deepEqual(contentOf('/outer/{id}'), {
    'application/json': { schema: { $ref: '#/components/schemas/Invalid' } },
  });
});

test('a response of an exception handler contains only the members of its declared schema', async () => {
  const app = make();
  app.exceptionHandler(NotFound, { response: Failure, status: 404 }, (error) => ({
    reason: error.message,
    secret: 'x',
  }));
  app.exceptionHandler(Conflict, { response: { 409: Failure } }, () => [{ why: 1 }, 409]);
  app.get('/gone', () => {
    throw new NotFound('Nothing here');
  });
  app.get('/taken', () => {
    throw new Conflict();
  });
  await using client = new TestClient(app, { raiseErrors: false });
  const gone = await client.get('/gone');
  assert.equal(gone.status, 404);
  assert.deepEqual(await gone.json(), { reason: 'Nothing here' });
  assert.equal((await client.get('/taken')).status, 500);
  for (const response of [1, 'application/json'])
    assert.throws(() => make().exceptionHandler(NotFound, { response: response as never }, none), SvcError);
  assert.throws(() => make().exceptionHandler(NotFound, {} as never, none), { code: 'E_OPTION_RANGE' });
});

test('an exception handler that declares problem details may throw its error again, and return responses and text', async () => {
  const app = make();
  app.exceptionHandler(NotFound, { response: 'application/problem+json' }, (error, req) => {
    if (req.query.has('text')) return [error.message, 404];
    if (req.headers['accept'] !== 'text/html') throw error;
    return new HTMLResponse('<h1>Nothing here</h1>', { status: 404 });
  });
  app.get('/gone', () => {
    throw new NotFound('Nothing here');
  });
  await using client = new TestClient(app, { raiseErrors: false });
  const contentOf = async (path: string, Accept: string): Promise<unknown> => {
    const { status, headers } = await client.get(path, { headers: { Accept } });
    return [status, headers.get('content-type')];
  };
  assert.deepEqual(await contentOf('/gone', 'text/html'), [404, 'text/html; charset=utf-8']);
  assert.deepEqual(await contentOf('/gone', '*/*'), [404, 'application/problem+json']);
  assert.deepEqual(await contentOf('/gone?text', '*/*'), [404, 'text/plain; charset=utf-8']);
});

test('OpenAPI document: examples of fields and responses are included, and deprecated fields are marked', () => {
  class Item extends Schema {
    id = Field(int, { example: 1, examples: [2, 3] });
    old = Field(str, { optional: true, deprecated: true });
    pass = Field(str, { secret: true, optional: true, examples: ['x'] });
  }
  const app = make();
  app.get(
    '/',
    { response: Item, examples: { 200: { small: { id: 1, more: 2 }, wrong: { id: 'x' } } } },
    never,
  );
  app.post('/', { body: Item }, never);
  const content = (operation(app, '/').responses['200'] as { content: Record<string, unknown> }).content;
  assert.deepEqual((content['application/json'] as { examples: unknown }).examples, {
    small: { value: { id: 1 } },
  });
  const properties = app.openapi().components.schemas?.['Item']?.['properties'] as Record<string, unknown>;
  assert.deepEqual((properties['id'] as { examples: unknown }).examples, [1, 2, 3]);
  assert.deepEqual(properties['old'], { type: 'string', deprecated: true });
  assert.deepEqual(properties['pass'], { type: 'string', writeOnly: true });
});

test('OpenAPI document: all responses of a deprecated route, also errors, have the headers Deprecation and Sunset (RFC 9745, RFC 8594)', async () => {
  const app = make();
  const deprecated = {
    since: '2026-01-01',
    sunset: new Date('2027-01-01T00:00:00Z'),
    link: 'https://a.example/x',
  };
  app.get('/old', { deprecated }, () => 'x');
  app.get('/late', { deprecated: { since: '2026-01-01' } }, async () => Promise.reject(new NotFound()));
  app.get('/plain', { deprecated: true }, () => 'x');
  assert.equal(operation(app, '/old').deprecated, true);
  await using client = new TestClient(app);
  const { headers } = await client.get('/old');
  assert.equal(headers.get('deprecation'), '@1767225600');
  assert.equal(headers.get('sunset'), 'Fri, 01 Jan 2027 00:00:00 GMT');
  assert.equal(headers.get('link'), '<https://a.example/x>; rel="deprecation"');
  const late = await client.get('/late');
  assert.deepEqual(
    [late.status, late.headers.get('deprecation'), late.headers.get('sunset')],
    [404, '@1767225600', null],
  );
  assert.equal((await client.get('/plain')).headers.get('deprecation'), null);
  for (const wrong of [
    {},
    { since: 'soon' },
    { since: '2026-01-02', sunset: '2026-01-01' },
    { since: '2026-01-01', link: 'a b' },
  ])
    assert.throws(() => make().get('/', { deprecated: wrong as never }, none), { code: 'E_OPTION_RANGE' });
});

test('an integer has the format int64 if its bounds need more than 32 bits, and a decimal is text with a pattern', () => {
  class Sale extends Schema {
    any = Field(int);
    small = Field(int, { ge: -(2 ** 31), le: 2 ** 31 - 1 });
    wide = Field(int, { ge: 0, le: 2 ** 31 });
    open = Field(int, { gt: 0.5, lt: 10, multipleOf: 2 });
    price = Field(decimal, { digits: 6, places: 2 });
  }
  const app = make().post(
    '/sales/{id:int}',
    { public: true, body: Sale, query: { page: Field(1, { ge: 1, le: 9 }) } },
    none,
  );
  const { components, paths } = app.openapi();
  const { properties } = components.schemas!['Sale'] as {
    properties: Record<string, Record<string, unknown>>;
  };
  assert.deepEqual(
    Object.values(properties).map(({ format }) => format),
    ['int64', undefined, 'int64', undefined, undefined],
  );
  assert.deepEqual(properties['open'], {
    type: 'integer',
    exclusiveMinimum: 0.5,
    exclusiveMaximum: 10,
    multipleOf: 2,
  });
  assert.deepEqual(properties['price'], {
    type: 'string',
    pattern: '^-?(?:0|[1-9][0-9]{0,3})(?:\\.[0-9]{1,2})?$',
  });
  const formats = paths['/sales/{id}']!.post!.parameters!.map(({ name, schema }) => [name, schema['format']]);
  assert.deepEqual(formats, [
    ['id', 'int64'],
    ['page', undefined],
  ]);
});
