import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { Forbidden, SvcError, Unauthorized } from '../../../src/base/errors.ts';
import { CORSMiddleware } from '../../../src/http/middleware/cors.ts';
import { AllowedOrigins } from '../../../src/http/origins.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { SecurityHeadersMiddleware } from '../../../src/http/middleware/security-headers.ts';
import { SessionMiddleware } from '../../../src/http/session/middleware.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { fakeRequest } from '../../support/transport.ts';
import type { CORSOptions } from '../../../src/http/middleware/cors.ts';

const SITE = 'https://example.com';

interface Setting {
  readonly client: TestClient;
  readonly calls: string[];
}

/** Returns an application with the middleware, and a list of the handlers that have run. */
function setting(options: CORSOptions, change: (app: Svc) => void = () => undefined): Setting {
  const calls: string[] = [];
  const app = new Svc({ logger: collectedLog().logger });
  app.use(new CORSMiddleware(options));
  app.get('/x', () => {
    calls.push('get');
    return 'x';
  });
  change(app);
  return { client: new TestClient(app, { raiseErrors: false }), calls };
}

/** Returns the CORS fields and Vary of a response. */
function fieldsOf(response: Response): Record<string, string> {
  return Object.fromEntries(
    [...response.headers].filter(([name]) => name === 'vary' || name.startsWith('access-control-')),
  );
}

const preflight = (
  method: string,
  headers?: string,
  origin: string = SITE,
): { headers: Record<string, string> } => ({
  headers: {
    Origin: origin,
    'Access-Control-Request-Method': method,
    ...(headers === undefined ? {} : { 'Access-Control-Request-Headers': headers }),
  },
});

test('CORSMiddleware refuses "*" for origins, methods or headers together with credentials', () => {
  for (const options of [
    { origins: '*' },
    { origins: [SITE], methods: '*' },
    { origins: [SITE], headers: '*' },
  ] as const) {
    assert.throws(
      () => new CORSMiddleware({ ...options, credentials: true }),
      (error) => error instanceof SvcError && error.code === 'E_CORS' && /credentials/.test(error.message),
    );
  }
  assert.ok(new CORSMiddleware({ origins: '*', methods: '*', headers: '*' }));
});

test('for an allowed origin, CORSMiddleware repeats the origin in the response; for any other origin it sends only Vary', async () => {
  const { client } = setting({ origins: [SITE, 'http://localhost:5173'] });
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.get('/x', { headers: { Origin: SITE } })), {
    'access-control-allow-origin': SITE,
    vary: 'Origin',
  });
  assert.deepEqual(fieldsOf(await client.get('/x', { headers: { Origin: 'http://localhost:5173' } })), {
    'access-control-allow-origin': 'http://localhost:5173',
    vary: 'Origin',
  });
  assert.deepEqual(fieldsOf(await client.get('/x', { headers: { Origin: 'https://other.example' } })), {
    vary: 'Origin',
  });
});

test('if a request has no Origin, CORSMiddleware adds Vary to the response, unless the option "origins" is "*"', async () => {
  for (const [options, expected] of [
    [{ origins: [SITE] }, { vary: 'Origin' }],
    [{ origins: () => true }, { vary: 'Origin' }],
    [{ origins: '*' }, { 'access-control-allow-origin': '*' }],
  ] as const) {
    const { client } = setting(options);
    await using _ = client;
    assert.deepEqual(fieldsOf(await client.get('/x')), expected);
  }
  const { client } = setting({ origins: '*' });
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.get('/x', { headers: { Origin: 'null' } })), {
    'access-control-allow-origin': '*',
  });
});

test('CORSMiddleware refuses an origin that only resembles an allowed one', async () => {
  const { client } = setting({ origins: [SITE], credentials: true });
  await using _ = client;
  for (const origin of [
    'https://example.com.evil.test',
    'https://evilexample.com',
    'http://example.com',
    'https://example.com:444',
    'https://EXAMPLE.com',
    'null',
    'https://example.com/',
    'https://example.com.',
    'https://user@example.com',
    'https://sub.example.com',
    '',
    '__proto__',
    'https://example.com, https://example.com',
  ]) {
    assert.deepEqual(
      fieldsOf(await client.get('/x', { headers: { Origin: origin } })),
      { vary: 'Origin' },
      origin,
    );
    assert.equal(
      (await client.options('/x', preflight('GET', undefined, origin))).headers.get(
        'access-control-allow-origin',
      ),
      null,
      origin,
    );
  }
});

for (const entry of [
  'https://example.com/',
  'https://example.com/path',
  'https://*.example.com',
  'https://exa*mple.com',
  'null',
  '*',
  'example.com',
  'https://EXAMPLE.com',
  'https://example.com:443',
  'http://example.com:80',
  'https://user@example.com',
  'https://example.com?x',
  'https://',
  '',
  ' https://example.com',
  'https://example.com,https://b.example',
  'https://bücher.example',
  'https://[::1',
  'https://0x7f.1',
  'https://a%zz.example',
  5,
]) {
  test(`CORSMiddleware refuses a list with an invalid origin (E_CORS): ${JSON.stringify(entry)}`, () => {
    assert.throws(() => new CORSMiddleware({ origins: [SITE, entry as string] }), { code: 'E_CORS' });
  });
}

test('AllowedOrigins accepts origins of apps and browser extensions, origins with ports, and IP addresses', () => {
  assert.ok(
    new AllowedOrigins([
      'capacitor://localhost',
      'chrome-extension://abcdef',
      'http://localhost:3000',
      'http://127.0.0.1:8000',
      'http://[::1]:8000',
      'https://xn--bcher-kva.example',
    ]),
  );
});

test('CORSMiddleware answers a preflight with 204 and the configured permissions, and no handler runs', async () => {
  const { client, calls } = setting(
    { origins: [SITE], methods: ['GET', 'PUT'], headers: ['X-One', 'Content-Type'], maxAgeSeconds: 60 },
    (app) =>
      app.route('/own', ['OPTIONS'], () => {
        throw new Error('must not run');
      }),
  );
  await using _ = client;
  for (const path of ['/x', '/own', '/nowhere', '/%zz']) {
    const response = await client.options(path, preflight('PUT', 'content-type, x-one'));
    assert.equal(response.status, 204);
    assert.equal(await response.text(), '');
    assert.deepEqual(fieldsOf(response), {
      'access-control-allow-origin': SITE,
      'access-control-allow-methods': 'GET, PUT',
      'access-control-allow-headers': 'X-One, Content-Type',
      'access-control-max-age': '60',
      vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
    });
  }
  assert.deepEqual(calls, []);
});

test('CORSMiddleware allows the common methods and request header fields by default', async () => {
  const { client } = setting({ origins: '*' });
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.options('/x', preflight('DELETE', 'authorization'))), {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': 'Authorization, Content-Type, X-CSRF-Token, X-Request-Id',
    'access-control-max-age': '600',
    vary: 'Access-Control-Request-Method, Access-Control-Request-Headers',
  });
});

test('CORSMiddleware answers a preflight from a refused origin, but grants it no permissions', async () => {
  const { client } = setting({ origins: [SITE] });
  await using _ = client;
  const response = await client.options('/x', preflight('GET', undefined, 'https://other.example'));
  assert.equal(response.status, 204);
  assert.deepEqual(fieldsOf(response), {
    vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
  });
});

test('if an OPTIONS request lacks Access-Control-Request-Method or Origin, CORSMiddleware passes the request to the routes', async () => {
  const { client } = setting({ origins: [SITE] }, (app) => app.route('/own', ['OPTIONS'], () => 'mine'));
  await using _ = client;
  assert.equal(
    (await client.options('/x', { headers: { Origin: SITE } })).headers.get('allow'),
    'GET, HEAD, OPTIONS',
  );
  const own = await client.options('/own', { headers: { 'Access-Control-Request-Method': 'GET' } });
  assert.equal(await own.text(), 'mine');
});

test('if a preflight asks for a header or method that is not allowed, CORSMiddleware grants no permission', async () => {
  const { client } = setting({
    origins: [SITE],
    credentials: true,
    headers: ['X-One'],
    methods: ['GET', 'POST'],
  });
  await using _ = client;
  for (const [method, headers] of [
    ['GET', 'x-one, x-two'],
    ['DELETE', 'x-one'],
    ['get', undefined],
    ['GET, POST', undefined],
    ['GET', '*'],
    ['', undefined],
  ] as const) {
    assert.deepEqual(
      fieldsOf(await client.options('/x', preflight(method, headers))),
      {
        'access-control-allow-origin': SITE,
        'access-control-allow-credentials': 'true',
        vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
      },
      `${method} ${headers}`,
    );
  }
  assert.equal(
    (await client.options('/x', preflight('POST', ' X-ONE ,'))).headers.get('access-control-allow-headers'),
    'X-One',
  );
  assert.equal(
    (await client.options('/x', preflight('POST'))).headers.get('access-control-allow-credentials'),
    'true',
  );
});

test('with headers "*", CORSMiddleware also lists Authorization, because the wildcard does not include it', async () => {
  const { client } = setting({ origins: [SITE], methods: '*', headers: '*' });
  await using _ = client;
  const { headers } = await client.options('/x', preflight('PROPFIND', 'x-anything, authorization'));
  assert.equal(headers.get('access-control-allow-methods'), '*');
  assert.equal(headers.get('access-control-allow-headers'), '*, Authorization');
});

test('CORSMiddleware adds its header fields to responses 400, 401, 403, 404, 405, 413, 429 and 500', async () => {
  const { client } = setting({ origins: [SITE], credentials: true }, (app) => {
    app.use(new RateLimitMiddleware({ rules: [{ path: '/limited', perMinute: 1 }] }));
    app.get('/401', () => {
      throw new Unauthorized();
    });
    app.get('/403', () => {
      throw new Forbidden();
    });
    app.get('/500', () => {
      throw new Error('boom');
    });
    app.get('/limited', () => 'once');
    app.post('/413', { maxBodyBytes: 3 }, async ({ req }) => req.text());
  });
  await using _ = client;
  await client.get('/limited');
  for (const [status, method, path] of [
    [400, 'GET', '/%zz'],
    [401, 'GET', '/401'],
    [403, 'GET', '/403'],
    [404, 'GET', '/nowhere'],
    [405, 'DELETE', '/x'],
    [413, 'POST', '/413'],
    [429, 'GET', '/limited'],
    [500, 'GET', '/500'],
  ] as const) {
    const response = await client.request(method, path, {
      headers: { Origin: SITE },
      ...(method === 'POST' ? { body: 'too long' } : {}),
    });
    assert.equal(response.status, status);
    assert.deepEqual(
      fieldsOf(response),
      { 'access-control-allow-origin': SITE, 'access-control-allow-credentials': 'true', vary: 'Origin' },
      String(status),
    );
  }
});

test('CORSMiddleware adds to an existing Vary without duplicates, and replaces CORS header fields that the handler has set', async () => {
  const { client } = setting({ origins: [SITE] }, (app) => {
    app.get('/vary', ({ req }) => ['x', 200, { Vary: req.query.get('v')! }]);
    app.get('/own', () => [
      'x',
      200,
      { 'access-control-allow-origin': '*', 'Access-Control-Allow-Credentials': 'true' },
    ]);
  });
  await using _ = client;
  for (const [given, expected] of [
    ['Accept-Encoding', 'Accept-Encoding, Origin'],
    ['origin', 'Origin'],
    ['Accept, ORIGIN', 'Accept, Origin'],
    ['*', '*'],
  ] as const) {
    assert.equal(
      (await client.get('/vary', { query: { v: given }, headers: { Origin: SITE } })).headers.get('vary'),
      expected,
    );
    assert.equal((await client.get('/vary', { query: { v: given } })).headers.get('vary'), expected);
  }
  assert.deepEqual(fieldsOf(await client.get('/own', { headers: { Origin: SITE } })), {
    'access-control-allow-origin': SITE,
    vary: 'Origin',
  });
  assert.deepEqual(fieldsOf(await client.get('/own', { headers: { Origin: 'https://other.example' } })), {
    vary: 'Origin',
  });
});

test('CORSMiddleware allows private network access only if its option is set and the preflight asks for it', async () => {
  for (const [privateNetwork, asked, expected] of [
    [false, 'true', null],
    [true, 'true', 'true'],
    [true, undefined, null],
    [true, 'yes', null],
  ] as const) {
    const { client } = setting({ origins: [SITE], privateNetwork });
    await using _ = client;
    const { headers } = preflight('GET');
    const response = await client.options('/x', {
      headers: {
        ...headers,
        ...(asked === undefined ? {} : { 'Access-Control-Request-Private-Network': asked }),
      },
    });
    assert.equal(response.headers.get('access-control-allow-private-network'), expected);
    assert.equal(response.headers.get('vary')!.includes('Private-Network'), privateNetwork);
  }
});

test('CORSMiddleware sends the values of its options maxAgeSeconds and exposeHeaders unchanged', async () => {
  const { client } = setting({ origins: [SITE], maxAgeSeconds: 0, exposeHeaders: ['X-Total', 'RateLimit'] });
  await using _ = client;
  assert.equal((await client.options('/x', preflight('GET'))).headers.get('access-control-max-age'), '0');
  assert.equal(
    (await client.options('/x', preflight('GET'))).headers.get('access-control-expose-headers'),
    null,
  );
  assert.equal(
    (await client.get('/x', { headers: { Origin: SITE } })).headers.get('access-control-expose-headers'),
    'X-Total, RateLimit',
  );
});

test('CORSMiddleware allows no origin when a request has two Origin fields', async () => {
  const app = new Svc()
    .use(new CORSMiddleware({ origins: (origin) => origin !== 'https://never.example' }))
    .get('/x', () => 'x');
  await app.startup();
  const server = new HttpServer(app.application());
  const { port } = await server.listen({ port: 0 });
  const answers = [];
  for (const fields of [`Origin: ${SITE}\r\nOrigin: ${SITE}\r\n`, `origin: ${SITE}\r\n`]) {
    await using client = await RawClient.open(port);
    const answer = await client.get('/x', fields).answer();
    answers.push([answer.status, answer.field('access-control-allow-origin')]);
    client.socket.destroy();
  }
  await server.close(0);
  await app.shutdown();
  assert.deepEqual(answers, [
    [400, undefined],
    [200, SITE],
  ]);
});

test('AllowedOrigins checks WebSocket handshakes against the list of CORSMiddleware, and accepts a missing Origin only with allowsAbsent: true', async () => {
  const { allowed } = new CORSMiddleware({ origins: [SITE] });
  const from = (origin?: string): Parameters<AllowedOrigins['admits']>[0] =>
    fakeRequest({ url: '/ws', headers: origin === undefined ? [] : ['Origin', origin] }).req;
  assert.equal(await allowed.admits(from(SITE)), true);
  assert.equal(await allowed.admits(from('https://other.example')), false);
  assert.equal(await allowed.admits(from('null'), { allowsAbsent: true }), false);
  assert.equal(await allowed.admits(from()), false);
  assert.equal(await allowed.admits(from(), { allowsAbsent: true }), true);
  assert.equal(await new AllowedOrigins('*').admits(from('null')), true);
  assert.equal(await new AllowedOrigins(async (origin) => origin === SITE).admits(from(SITE)), true);
});

test('CORSMiddleware accepts a sync or async function as "origins", and calls it only for well-formed origins', async () => {
  const asked: string[] = [];
  for (const isAsync of [false, true]) {
    const { client } = setting({
      credentials: true,
      origins: (origin) => {
        if (origin !== 'https://svc-check.invalid') asked.push(origin); // by a check
        const isAllowed = origin.endsWith('.example.com');
        return isAsync ? Promise.resolve(isAllowed) : isAllowed;
      },
    });
    await using _ = client;
    assert.equal(
      (await client.get('/x', { headers: { Origin: 'https://a.example.com' } })).headers.get(
        'access-control-allow-origin',
      ),
      'https://a.example.com',
    );
    assert.deepEqual(fieldsOf(await client.get('/x', { headers: { Origin: 'https://evil.test' } })), {
      vary: 'Origin',
    });
    assert.equal(
      (await client.options('/x', preflight('PUT', undefined, 'https://b.example.com'))).headers.get(
        'access-control-allow-origin',
      ),
      'https://b.example.com',
    );
    assert.equal(
      (await client.options('/x', preflight('PUT', undefined, 'https://evil.test'))).headers.get(
        'access-control-allow-origin',
      ),
      null,
    );
    for (const odd of [
      'null',
      '<x>.example.com',
      'https://a.example.com/.example.com',
      'https://a,https://b.example.com',
    ])
      await client.get('/x', { headers: { Origin: odd } });
  }
  assert.deepEqual(
    asked,
    [...Array(2)].flatMap(() => [
      'https://a.example.com',
      'https://evil.test',
      'https://b.example.com',
      'https://evil.test',
    ]),
  );
});

test('if the function "origins" throws, CORSMiddleware answers 500 and grants no permissions', async () => {
  const { client } = setting({
    origins: () => {
      throw new Error('no database');
    },
  });
  await using _ = client;
  const response = await client.get('/x', { headers: { Origin: SITE } });
  assert.equal(response.status, 500);
  assert.deepEqual(fieldsOf(response), {});
});

test('CORSMiddleware adds its header fields to asynchronous responses', async () => {
  const { client } = setting({ origins: [SITE] }, (app) => app.get('/later', async () => 'later'));
  await using _ = client;
  assert.equal(
    (await client.get('/later', { headers: { Origin: SITE } })).headers.get('access-control-allow-origin'),
    SITE,
  );
});

for (const options of [
  { origin: [SITE] },
  { origins: SITE },
  { origins: [SITE], methods: ['GE T'] },
  { origins: [SITE], headers: ['*'] },
  { origins: [SITE], exposeHeaders: 'x' },
  { maxAgeSeconds: 86_401 },
  { credentials: 1 },
]) {
  test(`CORSMiddleware refuses ${JSON.stringify(options)}`, () =>
    assert.throws(() => new CORSMiddleware(options as never), { name: 'SvcError', code: /^E_OPTION_/ }));
}

test('svc check reports CORSMiddleware inside middleware that refuses requests, a second CORSMiddleware, and a CORSMiddleware without "origins" (SVC121)', () => {
  const check = (...layers: ConstructorParameters<typeof Object>[0][]): (string | undefined)[] => {
    const app = new Svc();
    for (const layer of layers) app.use(layer);
    return app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, severity, message }) => `${rule} ${severity} ${message}`);
  };
  const cors = (): CORSMiddleware => new CORSMiddleware({ origins: [SITE] });
  assert.deepEqual(check(new SecurityHeadersMiddleware(), cors(), new RateLimitMiddleware()), []);
  assert.match(
    check(new RateLimitMiddleware(), cors())[0]!,
    /SVC121 error the middleware "rate-limit" runs before CORSMiddleware/,
  );
  assert.match(check(cors(), cors())[0]!, /SVC121 error CORSMiddleware is registered twice/);
  assert.match(check(new CORSMiddleware())[0]!, /SVC121 warning the option "origins" is an empty list/);
  assert.throws(() => new Svc().use(new RateLimitMiddleware()).use(cors()).compileAll(), {
    code: 'E_COMPILE',
  });
});

test('svc check warns of CORSMiddleware of a route if a limit around the route refuses requests before it (SVC121)', () => {
  const ofRoute = (...layers: Parameters<Svc['use']>[0][]): string[] => {
    const app = new Svc({ authSecret: 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg' });
    for (const layer of layers) app.use(layer);
    app.get('/a', { use: [new CORSMiddleware({ origins: [SITE] })] }, () => 'x');
    return app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity, message, remedy }) => `${severity} ${message}: ${remedy}`);
  };
  assert.deepEqual(ofRoute(), []);
  assert.deepEqual(ofRoute(new SessionMiddleware()), []);
  assert.deepEqual(ofRoute(new RateLimitMiddleware()), [
    'warning the middleware "rate-limit" around the route runs before CORSMiddleware, so scripts of other sites cannot read its refusals: Register CORSMiddleware at the application or router, before RateLimitMiddleware',
  ]);
});

test('CORSMiddleware in the option "use" of a route answers preflights of that route only', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  const calls: string[] = [];
  app.use(new SecurityHeadersMiddleware());
  app.get('/items/{id:int}', { use: [new CORSMiddleware({ origins: '*' })] }, () => 'public');
  app.put(
    '/items/{id:int}',
    {
      use: [
        (_, next) => {
          calls.push('layer');
          return next();
        },
        new CORSMiddleware({ origins: [SITE], credentials: true }),
      ],
    },
    () => {
      calls.push('put');
      return 'own';
    },
  );
  app.delete('/items/{id:int}', () => 'closed');
  app.put('/items/{name}', () => 'closed');
  assert.deepEqual(
    app.check().findings.filter(({ rule }) => rule === 'SVC121'),
    [],
  );
  await using client = new TestClient(app, { raiseErrors: false });
  const ask = async (
    path: string,
    method: string,
  ): Promise<[status: number, origin: string | null, methods: string | null, allow: string | null]> => {
    const { status, headers } = await client.options(path, preflight(method));
    return [
      status,
      headers.get('access-control-allow-origin'),
      headers.get('access-control-allow-methods'),
      headers.get('allow'),
    ];
  };
  const usual = 'GET, HEAD, POST, PUT, PATCH, DELETE';
  assert.deepEqual(await ask('/items/1', 'GET'), [204, '*', usual, null]);
  assert.deepEqual(await ask('/items/1', 'HEAD'), [204, '*', usual, null]);
  assert.deepEqual(await ask('/items/1', 'PUT'), [204, SITE, usual, null]);
  const closed = [204, null, null, 'GET, HEAD, PUT, DELETE, OPTIONS'];
  assert.deepEqual(await ask('/items/1', 'DELETE'), closed);
  assert.deepEqual(await ask('/items/1', 'PATCH'), closed);
  assert.deepEqual(await ask('/items/name', 'PUT'), [204, null, null, 'PUT, OPTIONS']);
  assert.deepEqual((await ask('/nowhere', 'PUT'))[0], 404);
  const answer = await client.options('/items/1', preflight('PUT'));
  assert.equal(answer.headers.get('access-control-allow-credentials'), 'true');
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  assert.deepEqual(calls, []);
  assert.equal(
    (await client.options('/items/1', { headers: { Origin: SITE } })).headers.get('allow'),
    'GET, HEAD, PUT, DELETE, OPTIONS',
  );
  assert.deepEqual(fieldsOf(await client.put('/items/1', { headers: { Origin: SITE } })), {
    'access-control-allow-origin': SITE,
    'access-control-allow-credentials': 'true',
    vary: 'Origin',
  });
});

test('if the routes of a path do not share one CORSMiddleware, preflight responses have Access-Control-Max-Age: 0, because browsers cache them by path', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  const [layer, slow] = [
    new CORSMiddleware({ origins: [SITE] }),
    new CORSMiddleware({ origins: () => Promise.resolve(true) }),
  ];
  app.put('/mixed', { use: [layer] }, () => 'x').delete('/mixed', () => 'x');
  app.put('/apart', { use: [layer] }, () => 'x').delete('/apart', { use: [slow] }, () => 'x');
  app.put('/same', { use: [layer] }, () => 'x').delete('/same', { use: [layer] }, () => 'x');
  app.get('/alone', { use: [slow] }, () => 'x');
  await using client = new TestClient(app);
  for (const [path, method, seconds] of [
    ['/mixed', 'PUT', '0'],
    ['/apart', 'PUT', '0'],
    ['/apart', 'DELETE', '0'],
    ['/same', 'PUT', '600'],
    ['/same', 'DELETE', '600'],
    ['/alone', 'GET', '600'],
    ['/alone', 'HEAD', '600'],
  ] as const) {
    const { headers } = await client.options(path, preflight(method));
    assert.deepEqual(
      [headers.get('access-control-allow-origin'), headers.get('access-control-max-age')],
      [SITE, seconds],
      `${method} ${path}`,
    );
  }
  const { headers } = await client.options('/mixed', {
    headers: { ...preflight('PUT').headers, Origin: 'https://evil.example' },
  });
  assert.deepEqual(
    [headers.get('access-control-allow-origin'), headers.get('access-control-max-age')],
    [null, null],
  );
});

test('if the function "origins" of a route throws, a preflight is answered with 500, unless the path has its own OPTIONS route', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  const broken = new CORSMiddleware({
    origins: () => {
      throw new Error('down');
    },
  });
  app.post('/broken', { use: [broken] }, () => 'x');
  app.post('/own', { use: [broken] }, () => 'x');
  app.route('/own', ['OPTIONS'], () => 'mine');
  await using client = new TestClient(app, { raiseErrors: false });
  assert.equal((await client.options('/broken', preflight('POST'))).status, 500);
  assert.equal(await (await client.options('/own', preflight('POST'))).text(), 'mine');
});
