/**
 * Rules on deployment (SVC206, SVC208, SVC211, SVC212, SVC214, SVC403), and on handlers that contradict others (SVC105, SVC123).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { join } from 'node:path';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { folder } from '../../support/run.ts';
import { NotFound } from '../../../src/base/errors.ts';
import { Field, Schema, file, list, str } from '../../../src/schema/schema.ts';
import { CORSMiddleware } from '../../../src/http/middleware/cors.ts';
import { IdempotencyMiddleware } from '../../../src/http/middleware/idempotency.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { SecurityHeadersMiddleware } from '../../../src/http/middleware/security-headers.ts';
import { APIKeyAuth } from '../../../src/auth/api-key.ts';
import { BearerAuth } from '../../../src/auth/auth.ts';
import { findUnnamedHosts } from '../../../src/check/rules/deployment.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { TrustedHostMiddleware } from '../../../src/http/middleware/trusted-host.ts';
import { Depends } from '../../../src/routing/di.ts';
import type { Deployment } from '../../../src/check/sources.ts';
import type { Svc } from '../../../src/app/svc.ts';
import type { IdempotencyOptions } from '../../../src/http/middleware/idempotency.ts';
import type { RouteSpec } from '../../../src/routing/spec.ts';
import { found, quiet, subjects } from '../../support/found.ts';

type Policy = NonNullable<
  ConstructorParameters<typeof SecurityHeadersMiddleware>[0]
>['contentSecurityPolicy'];

const handler = (): string => 'x';
const here = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);

test('svc check reports stack traces and API documents that are public in production, at the line of new Svc() (SVC208)', () => {
  const app = quiet({ debug: true, enableDocs: true });
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC208')
      .map(({ severity, subject, place }) => [severity, subject, place?.file.endsWith('found.ts')]),
    [
      ['error', 'setting debug', true],
      ['warning', 'setting enableDocs', true],
    ],
  );
  assert.deepEqual(found(quiet({ debug: true, enableDocs: true, env: 'development' }), 'SVC208'), []);
  assert.deepEqual(found(quiet({ config: { debug: 'false' } }), 'SVC208'), []);
  assert.deepEqual(
    found(quiet({ enableDocs: true, ops: { docs: { auth: 'a token of more than 16' } } }), 'SVC208'),
    [],
    'they ask for a credential',
  );
});

test('in production, svc check warns of an application that lacks security headers or a content security policy (SVC211)', () => {
  assert.deepEqual(subjects(quiet().get('/', handler), 'SVC211'), ['the application']);
  assert.deepEqual(
    subjects(
      quiet()
        .use(new SecurityHeadersMiddleware({ contentSecurityPolicy: false }))
        .get('/', handler),
      'SVC211',
    ),
    ['middleware security-headers'],
  );
  assert.deepEqual(
    [
      quiet(),
      quiet().use(new SecurityHeadersMiddleware()).get('/', handler),
      quiet({ env: 'development' }).get('/', handler),
    ].flatMap((app) => found(app, 'SVC211')),
    [],
  );
});

test('svc check reports content security policies that let an injected script run, and accepts hosts and nonces (SVC211)', () => {
  const loose = (contentSecurityPolicy: Policy): string[] =>
    found(quiet().use(new SecurityHeadersMiddleware({ contentSecurityPolicy })), 'SVC211');
  const allows = (what: string): string[] => [
    `middleware security-headers: the content security policy allows ${what} for scripts, so a script that is injected into a page runs`,
  ];
  assert.deepEqual(loose("default-src 'self'; script-src 'self' 'unsafe-inline'"), allows("'unsafe-inline'"));
  assert.deepEqual(loose("default-src 'unsafe-eval'"), allows("'unsafe-eval'"));
  assert.deepEqual(loose("script-src 'self' https:"), allows('https:'));
  assert.deepEqual(loose('script-src *'), allows('*'));
  for (const right of [
    "default-src 'self'; style-src 'unsafe-inline'; script-src https://cdn.example",
    "script-src 'unsafe-inline' 'strict-dynamic'",
  ])
    assert.deepEqual(loose(right), []);
});

test('svc check reports a network of trusted proxies that covers a large part of all addresses (SVC210)', () => {
  assert.deepEqual(found(quiet({ trustProxy: ['10.0.0.0/8', '0.0.0.0/1'] }), 'SVC210'), [
    'setting trustProxy: the network "0.0.0.0/1" of trusted proxies is too large: clients in this network can claim any IP address',
  ]);
  assert.deepEqual(found(quiet({ trustProxy: ['10.0.0.0/8', '192.168.0.0/16'] }), 'SVC210'), []);
});

test('svc check accepts a rate limit by a header if a second limit of the same requests counts by address (SVC210)', () => {
  const byClient = (): RateLimitMiddleware =>
    new RateLimitMiddleware({ key: (req) => req.headers['x-client'] });
  const byAddress = (): RateLimitMiddleware => new RateLimitMiddleware({ name: 'address' });
  const finding = [
    'middleware rate-limit: the rate limit counts requests by the header "x-client", so a client can avoid the limit by sending a new value each time',
  ];
  assert.deepEqual(found(quiet().use(byClient()).get('/', handler), 'SVC210'), finding);
  assert.deepEqual(found(quiet().use(byClient()).use(byAddress()).get('/', handler), 'SVC210'), []);
  assert.deepEqual(found(quiet().get('/', { use: [byAddress(), byClient()] }, handler), 'SVC210'), []);
  assert.deepEqual(
    found(
      quiet()
        .get('/', { use: [byClient()] }, handler)
        .get('/other', { use: [byAddress()] }, handler),
      'SVC210',
    ),
    finding,
    'the second limit counts requests to another route',
  );
});

test('svc check accepts a rate limit by the header that an API key guard reads (SVC210)', () => {
  const limited = (name: string): string[] =>
    found(
      quiet()
        .use(new RateLimitMiddleware({ key: (req) => req.headers[name] }))
        .get('/', { client: Depends(APIKeyAuth({ header: 'X-Shop-Key', verify: () => 'shop' })) }, handler),
      'SVC210',
    );
  assert.deepEqual(limited('x-shop-key'), []);
  assert.equal(limited('x-other-key').length, 1);
});

test('svc check reports a rate limit by a header with credentials that the guard of a route does not verify (SVC210)', () => {
  const by = (name: string): RateLimitMiddleware =>
    new RateLimitMiddleware({ key: (req) => req.headers[name] });
  const bearer = { me: Depends(BearerAuth()) };
  for (const [name, guarded, isFound] of [
    ['x-api-key', { client: Depends(APIKeyAuth({ verify: () => 'shop' })) }, false],
    ['x-api-key', bearer, true],
    ['authorization', bearer, false],
    ['authorization', { me: Depends(BearerAuth(undefined, { optional: true })) }, true],
    ['cookie', bearer, true],
  ] as const) {
    const app = quiet().use(by(name)).get('/', guarded, handler);
    assert.equal(found(app, 'SVC210').length, Number(isFound), name);
    app.get('/open', { public: 'x' }, handler);
    assert.equal(found(app, 'SVC210').length, 1, `${name}, with an open route`);
  }
  const app = quiet().get('/', { ...bearer, use: [by('authorization')] }, handler);
  assert.deepEqual(found(app.get('/open', { public: 'x' }, handler), 'SVC210'), []);
});

test('in production, svc check reports CORS origins without TLS, and origin functions that allow every site with credentials (SVC206)', () => {
  const cors = (
    options: ConstructorParameters<typeof CORSMiddleware>[0],
    env: 'production' | 'development' = 'production',
  ): string[] =>
    quiet({ env })
      .use(new CORSMiddleware(options))
      .check()
      .findings.filter(({ rule }) => rule === 'SVC206')
      .map(({ severity, message }) => `${severity} ${message}`);
  assert.deepEqual(
    cors({
      origins: ['http://app.example', 'https://app.example', 'http://localhost:3000', 'http://[::1]:3000'],
    }),
    [
      'warning the allowed origin http://app.example has no TLS, so an attacker on the network can read responses of this application',
    ],
  );
  assert.deepEqual(cors({ origins: ['http://app.example'], credentials: true }), [
    'error the allowed origin http://app.example has no TLS, so an attacker on the network can send requests with the cookies of visitors',
  ]);
  assert.deepEqual(cors({ origins: ['http://app.example'], credentials: true }, 'development'), []);
  assert.equal(cors({ origins: () => true, credentials: true }).length, 1);
  for (const origins of [
    (origin: string) => origin.endsWith('.app.example'),
    () => {
      throw new Error('no');
    },
    async () => {
      throw new Error('no');
    },
    (_origin: string, req: { ip: string }) => req.ip === '::1',
  ])
    assert.deepEqual(cors({ origins, credentials: true }), []);
  assert.deepEqual(cors({ origins: () => true }), []);
});

test('svc check warns of a timeout or body limit that is too high to protect the process (SVC212)', () => {
  const app = quiet({ requestTimeoutMs: 86_400_000, maxBodyBytes: 2 ** 40, headersTimeoutMs: 60_000 });
  app.post(
    '/a',
    {
      public: true,
      maxBodyBytes: 2 ** 40,
      form: { photo: Field(file), small: Field(file, { maxLength: 10 }) },
    },
    handler,
  );
  assert.deepEqual(found(app, 'SVC212').sort(), [
    'POST /a: the route accepts request bodies of 1099511627776 bytes, above 1073741824: a few clients can fill the memory or the disk',
    'setting maxBodyBytes: the limit 1099511627776 is too high to protect the process, above 1073741824: a few clients can use up its memory and connections',
    'setting requestTimeoutMs: the limit 86400000 is too high to protect the process, above 3600000: a few clients can use up its memory and connections',
  ]);
});

test('svc check warns of a file without a limit where the route has none, and the remedy for a list names its items (SVC212)', () => {
  const app = quiet();
  const form = { photo: Field(file), papers: Field(list(file), { maxLength: 3 }) };
  app.post('/unlimited', { public: true, form }, handler);
  app.post('/of-route', { public: true, form, maxBodyBytes: 20_000_000 }, handler);
  app.post('/of-route-too-high', { public: true, form, maxBodyBytes: 5_000_000_000 }, handler);
  const limited = {
    ...form,
    photo: Field(file, { maxLength: 9 }),
    papers: Field(list(file, { maxLength: 9 })),
  };
  app.post('/of-files', { public: true, form: limited }, handler);
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC212')
      .map(({ subject, message, remedy }) => [subject, message, remedy]),
    [
      [
        'POST /unlimited',
        'the file "photo" has no limit of its own',
        'Add maxLength to the field, or maxBodyBytes to the route',
      ],
      [
        'POST /unlimited',
        'the file "papers" has no limit of its own',
        'Limit each file: list(file, { maxLength: 5_000_000 }), or add maxBodyBytes to the route',
      ],
      [
        'POST /of-route-too-high',
        'the route accepts request bodies of 5000000000 bytes, above 1073741824: a few clients can fill the memory or the disk',
        'Lower the limit to what your largest request needs, or remove the limit so that its default applies',
      ],
    ],
  );
});

test('svc check reports a form whose file size limit exceeds the body limit of the route (SVC214)', () => {
  const declare = (app: Svc, maxBodyBytes: number | undefined): Svc =>
    app.post(
      '/a',
      {
        public: true,
        maxBodyBytes,
        form: {
          photo: Field(file, { maxLength: 20_000_000 }),
          papers: Field(list(file), { maxLength: 3 }),
          small: Field(file, { maxLength: 1_000 }),
        },
      },
      handler,
    );
  const says = (cap: number): string =>
    `POST /a: the file "photo" may have 20000000 bytes, but the request body only ${cap}: the server refuses larger bodies with status 413`;
  assert.deepEqual(found(declare(quiet(), undefined), 'SVC214'), [says(10_000_000)]);
  assert.deepEqual(found(declare(quiet({ maxBodyBytes: 5_000 }), undefined), 'SVC214'), [says(5_000)]);
  assert.deepEqual(found(declare(quiet(), 19_999_999), 'SVC214'), [says(19_999_999)]);
  assert.deepEqual(found(declare(quiet({ maxBodyBytes: 5_000 }), 20_000_000), 'SVC214'), []);
});

test('svc check reports routes and settings that accept larger bodies than IdempotencyMiddleware (SVC214)', () => {
  const keyed = (of: IdempotencyOptions = {}): IdempotencyMiddleware =>
    new IdempotencyMiddleware({ principal: () => 'x', ...of });
  const photo = { photo: Field(file, { maxLength: 5_000_000 }) };
  const refuses = 'only 1000000 with a key: the server refuses larger bodies with status 413';
  const route = (bytes: number, limit = refuses): string =>
    `POST /a: the route accepts bodies of ${bytes} bytes, but IdempotencyMiddleware ${limit}`;
  const usual = (bytes: number): string =>
    `middleware idempotency: with the setting maxBodyBytes, routes accept bodies of ${bytes} bytes, but IdempotencyMiddleware ${refuses}`;
  class Text extends Schema {
    text = Field(str, { maxLength: 9 });
  }
  const text = { form: { text: Field(str, { maxLength: 9 }) } };
  const [small, large] = [{ maxBodyBytes: 1_000_000 }, { maxBodyBytes: 5_500_000 }];
  const cases: readonly (readonly [app: Svc, spec: RouteSpec, message: string | undefined])[] = [
    [quiet().use(keyed()), large, route(5_500_000)],
    [quiet().use(keyed()), { ...large, form: photo }, route(5_500_000)],
    [quiet().use(keyed()), { form: photo }, route(5_000_000)],
    [quiet().use(keyed()), { form: { all: Field(list(file), { maxLength: 3 }) } }, route(10_000_000)],
    [quiet(), { ...large, use: [keyed()] }, route(5_500_000)],
    [quiet().use(keyed({ required: true })), large, route(5_500_000)],
    [quiet({ maxBodyBytes: 2_000_000 }).use(keyed()), text, usual(2_000_000)],
    // without a limit of their own, bodies and forms never have more than 10 MB
    [quiet({ maxBodyBytes: 50_000_000 }).use(keyed()), text, usual(10_000_000)],
    [quiet({ maxBodyBytes: 50_000_000 }).use(keyed()), { body: Text }, usual(10_000_000)],
    [quiet({ maxBodyBytes: 50_000_000 }).use(keyed({ maxBodyBytes: 10_000_000 })), text, undefined],
    [quiet().use(keyed(large)), { ...large, form: photo }, undefined],
    [quiet().use(keyed()), { ...large, meta: { idempotency: false } }, undefined],
    [quiet().use(keyed({ methods: ['PATCH'] })), large, undefined],
    [quiet().use(keyed()), small, undefined],
    [quiet().use(keyed()), text, undefined],
    [quiet({ maxBodyBytes: 2_000_000 }).use(keyed()), {}, undefined],
    [quiet({ maxBodyBytes: 2_000_000 }).use(keyed()), small, undefined],
    [quiet(), { ...large, form: photo }, undefined],
  ];
  for (const [app, spec, message] of cases) {
    app.post('/a', { public: true, ...spec }, handler);
    assert.deepEqual(found(app, 'SVC214'), message === undefined ? [] : [message]);
  }
  const remedyOf = (maxBodyBytes: number): string | undefined =>
    quiet({ maxBodyBytes })
      .use(keyed())
      .post('/a', { public: true, ...text }, handler)
      .check()
      .findings.find(({ rule }) => rule === 'SVC214')?.remedy;
  assert.match(remedyOf(50_000_000)!, /new IdempotencyMiddleware\(\{ maxBodyBytes: 10000000 \}\)/);
  const severities = [true, false].map((required) => {
    const app = quiet()
      .use(keyed({ required }))
      .post('/a', { public: true, ...large }, handler);
    return app.check().findings.find(({ rule }) => rule === 'SVC214')?.severity;
  });
  assert.deepEqual(severities, ['error', 'warning']);
});

test('svc check reports a HEAD handler that differs from the GET handler, and an OPTIONS handler behind CORSMiddleware (SVC105)', () => {
  const app = quiet()
    .route('/a', ['HEAD'], handler)
    .route('/b', ['GET', 'HEAD'], handler)
    .route('/c', ['OPTIONS'], handler);
  assert.deepEqual(subjects(app, 'SVC105'), ['HEAD /a']);
  assert.deepEqual(subjects(app.use(new CORSMiddleware({ origins: ['https://a.example'] })), 'SVC105'), [
    'HEAD /a',
    'OPTIONS /c',
  ]);
});

test('if two exception handlers are registered for one class, svc check reports the second handler at its line (SVC123)', () => {
  const app = quiet()
    .exceptionHandler(NotFound, () => 'x')
    .exceptionHandler(Error, () => 'x');
  const at = here() + 1;
  app.exceptionHandler(NotFound, () => 'y');
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC123')
      .map(({ severity, subject, place }) => [severity, subject, place?.line]),
    [['info', 'exception handler of NotFound', at]],
  );
});

test('svc check reports what one of several processes keeps for itself, however the processes are started (SVC403)', (t) => {
  const judged = (run: string, isServedByMany = false): string[] => {
    const text = `import { EventBroadcast, MemoryCache, MemoryRecordStore, MemoryRoomBus, RateLimitMiddleware, RateLimiter, SessionMiddleware, Svc, cached } from 'svc';
const roomBus = new MemoryRoomBus();
const news = new EventBroadcast();
const logins = new RateLimiter({ name: 'logins', perMinute: 5 });
const shared = new RateLimiter({ name: 'shared', perMinute: 5, store });
export const priceOf = cached(readPrice, { ttlSeconds: 9, name: 'prices', backend: new MemoryCache() });
export const app = new Svc({ roomBus });
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.use(new SessionMiddleware({ store: new MemoryRecordStore() }));
app.post('/news', { public: 'a' }, async ({ req, body }) => { await logins.take(req); news.send(body.text); });
${run}
`;
    const project = readProject([join(folder(t, { 'app.ts': text }), 'app.ts')]);
    const { findings } = examineSources(project, CORE_RULES, undefined, [], new Map(), {
      isServedByMany,
      hasAuthSecret: true,
    });
    return findings
      .filter(({ rule }) => rule === 'SVC403')
      .map(({ message }) => message.split(' ')[0]!)
      .sort();
  };
  const unseen = ['EventBroadcast', 'MemoryCache', 'MemoryRoomBus', 'RateLimiter'];
  const all = [...unseen, 'MemoryRecordStore', 'RateLimitMiddleware'].sort();
  for (const run of [
    'await app.run({ workers: 4 });',
    "await app.run({ workers: 'auto' });",
    'await app.run({ workers: availableParallelism() });',
    'const workers = 2 * 2;\nawait app.run({ workers });',
    'const options = { workers: 3 };\nawait app.run(options);',
  ])
    assert.deepEqual(judged(run), all, run);
  for (const run of [
    'await app.run();',
    'await app.run({ workers: 1 });',
    "const workers = app.config.get('workers', 1);\nawait app.run({ workers });",
  ]) {
    assert.deepEqual(judged(run), [], run);
    // the middleware reports its own memory where a setting names the number
    assert.deepEqual(judged(run, true), unseen, run);
  }
});

test('svc check reports MCP sessions that only one of several processes knows, because no authSecret is set (SVC403)', (t) => {
  const judged = (options: string, deployment: Deployment, run = ''): number[] => {
    const text = `import { Svc } from 'svc';\nexport const app = new Svc();\napp.mountMcp('/mcp'${options});\n${run}`;
    const project = readProject([join(folder(t, { 'app.ts': text }), 'app.ts')]);
    const { findings } = examineSources(project, CORE_RULES, undefined, [], new Map(), deployment);
    return findings.filter(({ rule }) => rule === 'SVC403').map(({ place }) => place!.line);
  };
  const open = { isServedByMany: true, hasAuthSecret: false };
  assert.deepEqual(judged('', open), [3]);
  assert.deepEqual(judged(", { hosts: ['a.example'] }", open), [3]);
  const one = { isServedByMany: false, hasAuthSecret: false };
  assert.deepEqual(judged('', one, 'await app.run({ workers: 4 });'), [3]);
  assert.deepEqual(judged('', one), []);
  assert.deepEqual(judged(', { sessions: false }', open), []);
  assert.deepEqual(judged('', { isServedByMany: true, hasAuthSecret: true }), []);
});

test('svc check reports a store in memory where a setting starts several processes, unless its middleware does (SVC403)', (t) => {
  const judged = (text: string): string[] => {
    const imports = `import { IdempotencyMiddleware, MemoryRateLimitStore, MemoryRecordStore, RateLimitMiddleware, RateLimiter, RecordRateLimitStore, SessionMiddleware, Svc } from 'svc';
import { RedisRecordStore } from 'svc/db';
const app = new Svc();
`;
    const project = readProject([join(folder(t, { 'app.ts': imports + text }), 'app.ts')]);
    const { findings } = examineSources(project, CORE_RULES, undefined, [], new Map(), {
      isServedByMany: true,
      hasAuthSecret: true,
    });
    return findings.filter(({ rule }) => rule === 'SVC403').map(({ message }) => message.split(' ')[0]!);
  };
  for (const [text, ...reported] of [
    [
      "const logins = new RateLimiter({ name: 'logins', perMinute: 5, store: new MemoryRateLimitStore() });",
      'MemoryRateLimitStore',
    ],
    [
      "const store = new MemoryRateLimitStore();\nconst logins = new RateLimiter({ name: 'logins', perMinute: 5, store });",
      'MemoryRateLimitStore',
    ],
    [
      'app.use(new RateLimitMiddleware({ perMinute: 5, store: new RecordRateLimitStore(new MemoryRecordStore()) }));',
      'MemoryRecordStore',
    ],
    ['const records = new MemoryRecordStore();', 'MemoryRecordStore'],
    ['app.use(new RateLimitMiddleware({ perMinute: 5, store: new MemoryRateLimitStore() }));'],
    ['app.use(new SessionMiddleware({ store: new MemoryRecordStore() }));'],
    ['const store = new MemoryRecordStore();\napp.use(new SessionMiddleware({ store }));'],
    ['const records = new MemoryRecordStore();\napp.use(new IdempotencyMiddleware({ store: records }));'],
    [
      'app.use(new SessionMiddleware({ store: redis ? new RedisRecordStore(redis) : new MemoryRecordStore() }));',
    ],
  ] as const)
    assert.deepEqual(judged(text), reported, text);
});

/** Returns the first words of the findings of SVC219. */
function unnamed(app: Svc, hasLinks = false): string[] {
  const rule = CORE_RULES.find(({ id }) => id === 'SVC219')!;
  return findUnnamedHosts(app.inspect(), rule, hasLinks).map(({ message }) => message.slice(0, 14));
}

test('svc check notes that clients choose the host of links only if the sources make such links (SVC219)', (t) => {
  const linksIn = (code: string): boolean => {
    const text = `import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/a', {}, ({ req }) => (${code}));\n`;
    return examineSources(readProject([join(folder(t, { 'app.ts': text }), 'app.ts')]), CORE_RULES)
      .hasHostLinks;
  };
  for (const code of [
    '{ at: `https://${req.host}/join` }',
    "{ at: new URL('/join', 'https://' + req.headers['host']).href }",
    'sendTo(`//${req.host}`)',
  ])
    assert.equal(linksIn(code), true, code);
  for (const code of [
    '{ host: req.host }',
    "{ isOurs: req.host === 'app.example' }",
    'sitesOf(req.headers.host)',
  ])
    assert.equal(linksIn(code), false, code);
  const withLogin = (): Svc => quiet().get('/a', { me: Depends(BearerAuth()) }, handler);
  assert.deepEqual(unnamed(withLogin()), []);
  assert.deepEqual(unnamed(quiet().get('/a', handler), true), ['the server acc']);
  const named = withLogin().use(new TrustedHostMiddleware({ hosts: ['app.example'] }));
  assert.deepEqual(unnamed(named, true), []);
});

test('svc check notes logins without TLS only if the server listens on another address than those of the machine itself (SVC219)', () => {
  const listening = (config: Record<string, string>): Svc =>
    quiet({ config }).get('/a', { me: Depends(BearerAuth()) }, handler);
  for (const config of [{}, { host: '127.0.0.1' }, { host: '::1' }, { host: 'localhost' }])
    assert.deepEqual(unnamed(listening(config)), [], JSON.stringify(config));
  for (const host of ['0.0.0.0', '::', '10.1.2.3'])
    assert.deepEqual(unnamed(listening({ host })), ['clients log in'], host);
  assert.deepEqual(unnamed(listening({ host: '0.0.0.0', trustProxy: '1' })), []);
  assert.deepEqual(unnamed(listening({ host: '0.0.0.0', socket: '/run/app.sock' })), []);
  assert.deepEqual(unnamed(quiet({ config: { host: '0.0.0.0' } }).get('/a', handler)), []);
});
