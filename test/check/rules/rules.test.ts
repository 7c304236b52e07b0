/**
 * Each rule with an application that triggers it at the expected line, and one that does not.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { BearerAuth, requireSession } from '../../../src/auth/auth.ts';
import { requireRoles } from '../../../src/auth/require.ts';
import { examine } from '../../../src/check/check.ts';
import { coveredBy } from '../../../src/check/rules/graph.ts';
import { SUPPORTED_NODE } from '../../../src/check/rules/environment.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { Depends, provide } from '../../../src/routing/di.ts';
import { Router } from '../../../src/routing/route.ts';
import { CSRFMiddleware } from '../../../src/http/session/csrf.ts';
import { parseTemplate } from '../../../src/http/path.ts';
import { RoutingTable } from '../../../src/http/router.ts';
import { RequestIDMiddleware } from '../../../src/http/middleware/request-id.ts';
import { SessionMiddleware, sessionKey } from '../../../src/http/session/middleware.ts';
import { ROOT } from '../../support/build.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { referenceMatch } from '../../support/router-reference.ts';
import { RULES_WITH_SEVERITY, asSevere, severityOf } from '../../support/severities.ts';
import { assertChecks } from '../../../src/cli/command.ts';
import type { SvcOptions } from '../../../src/app/options.ts';
import type { Finding } from '../../../src/base/findings.ts';
import type { Context, Plugin } from '../../../src/index.ts';

/** Returns the line of the caller. */
const line = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);
/** Line of `new Svc()` in make(): the place of findings about its options. */
const MADE_AT = line() + 1;
const make = (options: SvcOptions = {}): Svc => new Svc({ logger: collectedLog().logger, ...options });
const handler = (): string => 'x';
/** Findings without SVC404, which depends on the running Node.js, and without rules that small applications break on purpose. */
const about = (app: Svc): Finding[] =>
  asSevere(app.check().findings).filter(
    ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule),
  );
/** Rule, subject and line of each finding. */
const brief = (app: Svc): unknown[] =>
  about(app).map(({ rule, subject, place }) => [rule, subject, place?.line]);

test('the rules of svc check are sorted by id, and no reason or remedy ends with a full stop', () => {
  const ids = CORE_RULES.map(({ id }) => id);
  assert.deepEqual(ids, [...new Set(ids)].sort());
  for (const { id, why, remedy } of CORE_RULES)
    for (const text of [why, remedy]) assert.match(text, /^[A-Z].*[^.]$/, id);
});

test('each rule of svc check has an example of wrong code and an example of right code', () => {
  for (const { id, wrong, right } of CORE_RULES)
    assert.ok(wrong !== '' && right !== '' && wrong !== right, id);
});

test("the manual of svc check has a row for each rule, in the order of the rules' ids", () => {
  const manual = readFileSync(join(ROOT, 'src/check/README.md'), 'utf8');
  const rows = [...manual.matchAll(/^\| (SVC\d{3}) \| \S/gm)].map(([, id]) => id!);
  assert.deepEqual(rows, [...new Set(rows)].sort());
  assert.deepEqual(rows, [...new Set([...CORE_RULES.map(({ id }) => id), 'SVC209'])].sort());
});

test('each rule of svc check has the severity that test/support/severities.ts lists', () => {
  assert.deepEqual(
    CORE_RULES.map(({ id, severity }) => [id, severity]),
    CORE_RULES.map(({ id }) => [id, severityOf({ rule: id, message: '' })]),
  );
  assert.deepEqual(
    RULES_WITH_SEVERITY.filter((id) => id !== 'SVC209'),
    CORE_RULES.map(({ id }) => id),
  ); // the OAuth plugin adds SVC209
});

test('an application does not start if a route requires a session but has no SessionMiddleware', async () => {
  for (const use of [undefined, [new RequestIDMiddleware()]]) {
    const app = make().get(
      '/me',
      { me: Depends(requireSession(sessionKey<string>('user'))), ...(use === undefined ? {} : { use }) },
      ({ me }) => me,
    );
    await assert.rejects(app.startup(), {
      code: 'E_COMPILE',
      message: /SVC121 GET \/me: the route requires a session/,
    });
  }
});

// ── SVC102 ──

test('svc check reports a route that is unreachable because more specific routes match all of its paths (SVC102)', () => {
  const app = make()
    .get('/f/{x}', handler)
    .get('/f/{x}/{rest:path}', handler)
    .get('/f//{rest:path}', handler)
    .get('/f//', handler);
  app.get('/f/{x}/', { allow: [{ rule: 'SVC103', reason: 'for the cover' }] }, handler).get('/f//x', handler);
  const at = line() + 1;
  app.get('/f/{all:path}', handler);
  assert.deepEqual(brief(app), [['SVC102', 'GET /f/{all:path}', at]]);
  assert.match(
    about(app)[0]!.message,
    /^no request can reach the route, because more specific routes match all of its paths: \/f\/\{x\}, \/f\/\{x\}\/\{rest:path\}, \/f\/\/\{rest:path\}, \/f\/\/, \/f\/\{x\}\/$/,
  );
  assert.throws(() => app.compileAll(), { code: 'E_COMPILE' });
});

test('svc check finds a route that routes with optional paths make unreachable (SVC102)', () => {
  const app = make().get('/f/{x}/{rest:path?}', handler).get('/f//{rest:path?}', handler);
  const at = line() + 1;
  app.get('/f/{all:path}', handler);
  assert.deepEqual(brief(app), [['SVC102', 'GET /f/{all:path}', at]]);
});

test('svc check accepts a route that at least one request can reach (SVC102)', () => {
  for (const others of [
    ['/f/{x}', '/f/{x}/{rest:path}'],
    ['/f/{x}/{rest:path?}', '/f//{p:path}'],
    ['/f/{x:int}', '/f/{x:float}', '/f/{x:uuid}', '/f/x', '/f//', '/f//{p:path}', '/f/{x}/{p:path}'],
    ['/{any:path}'],
    ['/f/{x}', '/f/{x}/', '/f/{x}/{p:path}', '/f//{p:path}'],
    ['/g/{x}', '/g/{x}/', '/g/{x}/{p:path}', '/g//', '/g//{p:path}'],
  ]) {
    const table = ['/f/{all:path}', ...others].map(parseTemplate);
    assert.deepEqual(
      coveredBy(table[0]!, table, (other) => other),
      [],
      others.join(' '),
    );
  }
  const app = make()
    .post('/f/{x}', handler)
    .get('/f/{x}/{rest:path}', handler)
    .get('/f//{rest:path}', handler)
    .get('/f//', handler)
    .get('/f/{all:path}', handler);
  assert.deepEqual(brief(app), []);
});

test('svc check reports a HEAD route that is unreachable because GET routes match all of its paths (SVC102)', () => {
  const app = make()
    .get('/f/{x}', handler)
    .get('/f/{x}/{rest:path}', handler)
    .get('/f//{rest:path}', handler)
    .get('/f//', handler)
    .post('/f/{all:path}', handler);
  app.get('/f/{x}/', { allow: [{ rule: 'SVC103', reason: 'for the cover' }] }, handler);
  const at = line() + 1;
  app.route('/f/{all:path}', ['HEAD'], handler);
  assert.deepEqual(brief(app), [
    ['SVC102', 'HEAD /f/{all:path}', at],
    ['SVC105', 'HEAD /f/{all:path}', at],
  ]);
});

test('when a built-in endpoint such as /healthz hides a route, svc check reports the line of the route (SVC102)', () => {
  const app = make();
  const at = line() + 1;
  app.get('/healthz', handler);
  app.post('/healthz', handler).get('/healthz/{x}', handler);
  assert.deepEqual(brief(app), [['SVC102', 'GET /healthz', at]]);
  assert.match(about(make().get('/metrics', handler))[0]!.remedy, /ops: \{ metrics: \{ port \} \}/);
  assert.deepEqual(brief(make({ ops: { metrics: { port: 0 } } }).get('/metrics', handler)), []);
});

const PARTS = ['', 'a', '{x}', '{x:int}', '{x:float}', '{x:uuid}'];
const TEXTS = ['', 'a', 'zz', '1', '1.5', '0190163d-8694-739b-aea5-966c26f8ad91'];

/** Returns every path of up to `most` segments after a prefix. */
function paths(prefix: string, most: number): string[] {
  let longest = [prefix];
  const all: string[] = [];
  for (let length = 1; length <= most; length++) {
    longest = longest.flatMap((path) => TEXTS.map((text) => `${path}/${text}`));
    all.push(...longest);
  }
  return all;
}

test('for random route tables, svc check reports a route exactly if no generated path reaches the route (SVC102)', () => {
  const random = seeded(102);
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  const all = [...paths('', 2), ...paths('/f', 4)];
  let covered = 0;
  for (let round = 0; round < 150; round++) {
    const templates = new Map<string, string>();
    const add = (template: string): void => {
      const named = rename(template);
      templates.set(template.replaceAll(/\{\w+/g, '{'), named);
    };
    add(random(4) === 0 ? '/f/{x}/{r:path}' : '/f/{r:path}');
    // each template that can cover the route is present in most rounds
    for (const piece of [
      '/f/{x}',
      '/f/{x}/',
      '/f/{x}/{r:path}',
      '/f//',
      '/f//{r:path}',
      '/f/{x}/{y}',
      '/f/{x}/{y}/',
      '/f/{x}//',
      '/f/{x}/{y}/{r:path}',
      '/f/{x}//{r:path}',
    ])
      if (random(6) > 0) add(piece);
    for (let extra = random(4); extra > 0; extra--)
      add(
        `/f/${Array.from({ length: 1 + random(2) }, () => pick(PARTS)).join('/')}${random(3) === 0 ? '/{r:path}' : ''}`,
      );
    const table = [...templates.values()].map((template) => parseTemplate(template));
    const router = new RoutingTable<string>();
    for (const parsed of table) router.add('GET', parsed, parsed.template);
    router.freeze();
    const reached = new Set<string>();
    for (const path of all) {
      const match = router.match('GET', path);
      if (match.kind === 'found') reached.add(match.endpoint);
    }
    for (const parsed of table) {
      const isMatched = all.some(
        (path) =>
          referenceMatch([{ method: 'GET', template: parsed.template }], 'GET', path).kind === 'found',
      );
      assert.ok(isMatched, parsed.template);
      const isReported = coveredBy(parsed, table, (other) => other).length > 0;
      if (isReported) covered++;
      assert.equal(
        isReported,
        !reached.has(parsed.template),
        `${parsed.template} in ${[...templates.values()].join(' ')}`,
      );
    }
  }
  assert.ok(covered > 10, `${covered} covered`);
});

/** Renames the parameters so that each has a unique name. */
function rename(template: string): string {
  let next = 0;
  return template.replaceAll(/\{\w+/g, () => `{p${next++}`);
}

// ── SVC103 ──

test('svc check warns of two paths that differ only in letter case or in a final slash, at the line of the second route (SVC103)', () => {
  const app = make().get('/users/{id}', handler).get('/a', handler);
  const byCase = line() + 1;
  app.get('/Users/{key}', handler);
  const bySlash = line() + 1;
  app.get('/a/', handler);
  assert.deepEqual(brief(app), [
    ['SVC103', 'GET /Users/{key}', byCase],
    ['SVC103', 'GET /a/', bySlash],
  ]);
  assert.match(
    about(app)[0]!.message,
    /differs from \/users\/\{id\} at .*rules\/rules\.test\.ts:\d+ only in upper and lower case$/,
  );
  assert.match(about(app)[1]!.message, /only in a slash at the end$/);
  app.compileAll();
  const own = make();
  const at = line() + 1;
  own.get('/healthz/', handler);
  assert.deepEqual(brief(own), [['SVC103', 'GET /healthz/', at]]);
});

test('svc check accepts similar paths whose methods, parameter converters or words differ (SVC103)', () => {
  assert.deepEqual(
    brief(
      make()
        .get('/', handler)
        .get('/a', handler)
        .post('/A', handler)
        .get('/{x}', handler)
        .get('/{x:int}/', handler)
        .get('/b//', handler),
    ),
    [],
  );
});

// ── SVC113 ──

function alice(): string {
  return 'alice';
}
function bob(): string {
  return 'bob';
}

test('svc check warns when a route and its router declare different dependencies under one name (SVC113)', () => {
  const router = new Router({ deps: { me: Depends(alice) } });
  const at = line() + 1;
  router.route('/a', ['GET', 'POST'], { me: Depends(bob) }, ({ me }) => me);
  router
    .get('/b', { me: Depends(alice, { cache: false }) }, ({ me }) => me)
    .get('/c', { you: Depends(bob) }, ({ you }) => you);
  assert.deepEqual(brief(make().includeRouter(router, '/r')), [['SVC113', 'GET, POST /r/a', at]]);
  assert.match(
    about(make().includeRouter(router, '/r'))[0]!.message,
    /^the router declares the dependency "me" as alice, and the route declares it as bob/,
  );
  const outer = new Router({ deps: { me: Depends(bob) } }).includeRouter(
    new Router({ deps: { me: Depends(alice) } }).get('/x', handler),
  );
  assert.deepEqual(
    about(make().includeRouter(outer)).map(({ rule, subject }) => [rule, subject]),
    [['SVC113', 'GET /x']],
  );
});

// ── SVC107 ──

test('when a getter in the options of provide() throws, svc check reports the error at the line of the route (SVC107)', () => {
  const late = provide(
    {
      get it() {
        throw new ReferenceError('not yet');
      },
    } as object,
    () => 1,
  );
  const app = make();
  const at = line() + 1;
  app.get('/a', { late: Depends(late) }, handler);
  assert.deepEqual(brief(app), [['SVC107', 'GET /a', at]]);
  assert.match(about(app)[0]!.message, /threw ReferenceError: not yet$/);
});

// ── SVC205 ──

const SECRETIVE: Plugin = { name: 'login', secrets: ['authSecret'], register: () => undefined };

// ── SVC121, SVC202 ──

const USER = sessionKey<string>('user');
const SIGNED = { authSecret: `${'kR7#vq2Lw9!xTz4m'}Yb8@cN3$fHs6^jDg` }; // two parts, because SVC205 reports a secret that is written in the source

test('when a route requires a session and has no SessionMiddleware, svc check reports the route and the application does not start (SVC121)', async () => {
  const app = make(SIGNED);
  const bare = line() + 1;
  app.get('/me', { user: Depends(requireSession(USER)) }, handler);
  app.get('/own', { use: [new SessionMiddleware()], user: Depends(requireSession(USER)) }, handler);
  app.get(
    '/other',
    {
      user: Depends(
        provide(
          {
            security: { scheme: 'session', scopes: [], roles: [], credential: { in: 'cookie', name: 'sid' } },
          },
          () => 'ada',
        ),
      ),
    },
    handler,
  ); // its guard reads another cookie
  assert.deepEqual(brief(app), [['SVC121', 'GET /me', bare]]);
  assert.match(about(app)[0]!.remedy, /app\.use\(new SessionMiddleware\(\)\)/);
  await assert.rejects(app.startup(), { code: 'E_COMPILE' });
  const whole = make(SIGNED).use(new SessionMiddleware());
  whole.get(
    '/me',
    {
      admin: Depends(
        requireRoles({ roles: ['admin'], auth: requireSession(sessionKey<{ roles: string[] }>('user')) }),
      ),
    },
    handler,
  );
  assert.deepEqual(brief(whole), []);
});

test('svc check reports a route that changes data, authenticates by a session cookie and has no CSRF middleware (SVC202)', async () => {
  const app = make(SIGNED).use(new SessionMiddleware());
  const user = Depends(requireSession(USER));
  const written = line() + 1;
  app.route('/me', ['GET', 'HEAD', 'OPTIONS', 'POST', 'DELETE'], { user }, handler);
  app.post('/protected', { use: [new CSRFMiddleware()], user }, handler);
  app.post('/enter', handler);
  app.post('/bearer', { me: Depends(BearerAuth()) }, handler);
  const by = (place: 'header' | 'cookie') =>
    ({
      me: Depends(
        provide(
          { security: { scheme: 'session', scopes: [], roles: [], credential: { in: place, name: 'sid' } } },
          () => 'ada',
        ),
      ),
    }) as const;
  const cookie = line() + 1;
  app.put('/cookie', by('cookie'), handler);
  app.put('/header', by('header'), handler);
  app.patch('/allowed', { user, allow: [{ rule: 'SVC202', reason: 'served to one network' }] }, handler);
  assert.deepEqual(brief(app), [
    ['SVC202', 'POST /me', written],
    ['SVC202', 'DELETE /me', written],
    ['SVC202', 'PUT /cookie', cookie],
  ]);
  // a preflight protects DELETE and PUT
  assert.deepEqual(
    about(app).map(({ severity, remedy }) => [severity, /new CSRFMiddleware\(\)/.test(remedy)]),
    [
      ['error', true],
      ['warning', true],
      ['warning', true],
    ],
  );
  await app.startup(); // outside production an application starts despite SVC202
  await app.shutdown();
  assert.deepEqual(
    brief(make(SIGNED).use(new SessionMiddleware()).use(new CSRFMiddleware()).post('/me', { user }, handler)),
    [],
  );
});

test('when a plugin needs a secret that is missing, svc check reports the secret and the application does not start (SVC205)', async () => {
  const app = make();
  const at = line() + 1;
  const register = (): never => {
    throw new Error('there is no secret');
  };
  app.register({ ...SECRETIVE, register });
  assert.deepEqual(
    brief(app),
    [['SVC205', 'setting authSecret', at + 3]],
    'the plugin itself has no finding',
  );
  assert.match(
    about(app)[0]!.message,
    /^the plugin login needs the secret "authSecret" \(SVC_AUTH_SECRET\), which is not set$/,
  );
  assert.match(about(app)[0]!.remedy, /^Set SVC_AUTH_SECRET to the output of: node -p/);
  await assert.rejects(app.startup(), { code: 'E_COMPILE', message: /SVC205 setting authSecret/ });
});

test('when a nested dependency needs a secret that is missing, svc check reports the secret once (SVC205)', () => {
  const inner = provide({ secrets: ['tokenSecret'] }, function verified() {
    return 1;
  });
  const outer = provide({ inner: Depends(inner) }, ({ inner: value }) => value);
  const app = make();
  const at = line() + 1;
  app.get('/a', { it: Depends(outer) }, ({ it }) => it);
  app.get('/b', { it: Depends(inner) }, ({ it }) => it).get('/c', { it: Depends(outer) }, ({ it }) => it);
  assert.deepEqual(brief(app), [['SVC205', 'setting tokenSecret', at]]);
  assert.match(about(app)[0]!.message, /^the dependency verified needs/);
});

const GOOD = `${'5d0f3b6a91c7e284'}0d6f5b3a19c8e7f2`;
const OLDER = `${'c81e9a07b2d4f653'}10987ace24bd6f01`;

test('svc check accepts a strong secret in the configuration, and reports an empty secret as missing (SVC205)', () => {
  assert.deepEqual(brief(make({ config: { authSecret: GOOD } }).register(SECRETIVE)), []);
  assert.deepEqual(
    brief(make({ authSecret: [GOOD, OLDER], config: { authSecretPrevious: '' } }).register(SECRETIVE)),
    [],
  );
  for (const none of ['', null, []])
    assert.match(
      about(make({ config: { authSecret: none } }).register(SECRETIVE))[0]!.message,
      /which is not set$/,
    );
  make({ config: { authSecret: GOOD } })
    .register(SECRETIVE)
    .compileAll();
});

test('when a secret has less than 32 bytes or is not a string, svc check reports the secret and the application does not start (SVC205)', async () => {
  for (const [secret, pattern] of [
    [GOOD.slice(1), / "authSecret" \(SVC_AUTH_SECRET\) has 31 bytes, but needs 32 or more$/],
    [[GOOD, 'second-secret'], / "authSecret" \(SVC_AUTH_SECRET\), number 2 of its list, has 13 bytes/],
    ['{"kty":"oct","k":"eW91LTI1Ni1iaXQtc2VjcmV0"}', /is a JSON Web Key$/],
  ] as const) {
    const app = make({ authSecret: secret });
    app.register(SECRETIVE);
    assert.deepEqual(brief(app), [['SVC205', 'setting authSecret', MADE_AT]]);
    assert.match(about(app)[0]!.message, pattern);
    for (const text of [secret].flat()) assert.ok(!JSON.stringify(about(app)).includes(text));
    await assert.rejects(app.startup(), { code: 'E_COMPILE', message: /SVC205/ });
  }
  const typed = make({ config: { authSecret: 5 } }).register(SECRETIVE);
  assert.match(about(typed)[0]!.message, /is not text$/);
  assert.throws(() => typed.compileAll(), { code: 'E_COMPILE' });
});

test('when a secret is easy to guess, svc check reports an error, but the application starts with a warning (SVC205)', async () => {
  const { logger, events } = collectedLog();
  for (const secret of [
    'x'.repeat(32),
    'changeme-changeme-changeme-changeme',
    'your-256-bit-secret-your-256-bit-secret',
    '0123456789abcdef0123456789abcdef',
  ]) {
    const app = make({ logger, authSecret: secret, config: { authSecretPrevious: OLDER } }).register(
      SECRETIVE,
    );
    assert.deepEqual(
      about(app).map(({ rule, severity, subject }) => [rule, severity, subject]),
      [['SVC205', 'error', 'setting authSecret']],
      secret,
    );
    assert.throws(() => assertChecks(app, true), { code: 'E_COMPILE' });
    await app.startup();
    await app.shutdown();
    const warnings = events.splice(0).filter(({ event }) => event === 'secret_weak');
    assert.deepEqual(
      warnings.map(({ level }) => level),
      ['warn'],
    );
    assert.ok(!JSON.stringify(warnings).includes(secret));
  }
});

test('svc check reports a weak secret in SVC_AUTH_SECRET_PREVIOUS, but only if the application uses secrets (SVC205)', (t) => {
  process.env['SVC_AUTH_SECRET_PREVIOUS'] = 'y'.repeat(32);
  t.after(() => {
    delete process.env['SVC_AUTH_SECRET_PREVIOUS'];
  });
  assert.deepEqual(
    about(make({ authSecret: GOOD }).register(SECRETIVE)).map(({ rule, subject }) => [rule, subject]),
    [['SVC205', 'setting authSecretPrevious']],
  );
  assert.deepEqual(about(make({ authSecret: GOOD })), []); // no part of the application uses the secret
});

// ── SVC401 ──

test('svc check reports a setting whose value cannot be converted, at the line of config.get() (SVC401)', () => {
  const app = make();
  const at = line() + 1;
  assert.equal(app.config.get('pageSize', 20), 20);
  app.config.loadDict({ pageSize: 'large' });
  assert.deepEqual(brief(app), [['SVC401', 'setting pageSize', at]]);
  assert.match(
    about(app)[0]!.message,
    /^Cannot read the setting "pageSize" \(SVC_PAGE_SIZE\): a finite decimal number is needed/,
  );
  assert.doesNotMatch(about(app)[0]!.message, /large/);
});

test('when the setting "env" is invalid, svc check reports this setting and nothing else (SVC401)', () => {
  const app = make().get('/a', handler).get('/a', handler);
  app.config.loadDict({ env: 'staging' });
  const { findings, ok } = app.check();
  assert.deepEqual(
    [ok, findings.map(({ rule, subject }) => [rule, subject])],
    [false, [['SVC401', 'the settings']]],
  );
  assert.match(findings[0]!.message, /^Cannot read the setting "env" \(SVC_ENV\)/);
});

test('svc check reports an invalid built-in setting even if no code has read the setting yet (SVC401)', () => {
  assert.deepEqual(
    about(make({ config: { port: 'http' } })).map(({ rule, severity, subject }) => [rule, severity, subject]),
    [['SVC401', 'error', 'setting port']],
  );
  assert.deepEqual(brief(make({ config: { port: '80', host: '::1', enableDocs: 'no' } })), []);
});

test('svc check reports a required setting that is read without a default and has no value (SVC401)', () => {
  const app = make({ config: { there: 'x' } });
  const at = line() + 1;
  app.config.get('databaseUrl');
  app.config.get('there');
  app.config.get('maybe', null);
  app.config.get('perhaps', undefined, { cast: Number });
  assert.deepEqual(brief(app), [['SVC401', 'setting databaseUrl', at]]);
  app.compileAll();
});

test('svc check warns of an environment variable with the prefix SVC_ that no code reads, and suggests a similar name (SVC401)', (t) => {
  const variables = {
    SVC_PAGE_SZIE: '5',
    SVC_POTR: '80',
    SVC_HOST: '::1',
    SVC_SOCKET: '',
    SVC_SOCKET_MODE: '660',
    SVC_SHUTDOWN_DELAY_SECONDS: '5',
    SVC_SHUTDOWN_TIMEOUT_SECONDS: '28',
    SVC_AUTH_SECRET: 'x',
    SVC_TOKEN_SECRET: 'x',
    SVC_DEBUG: '0',
    SVC_WHOLLY_ELSE: '1',
    SVC_SIZE: '5',
  };
  Object.assign(process.env, variables);
  t.after(() => Object.keys(variables).forEach((name) => delete process.env[name]));
  const app = make().register({ ...SECRETIVE, secrets: ['tokenSecret'] });
  app.config.get('pageSize', 20);
  app.config.get('size', 1);
  assert.deepEqual(
    about(app).map(({ rule, severity, subject, message }) => [rule, severity, subject, message]),
    [
      [
        'SVC401',
        'warning',
        'variable SVC_PAGE_SZIE',
        'the environment variable is set, but no code reads it: did you mean SVC_PAGE_SIZE?',
      ],
      [
        'SVC401',
        'warning',
        'variable SVC_POTR',
        'the environment variable is set, but no code reads it: did you mean SVC_PORT?',
      ],
      [
        'SVC401',
        'warning',
        'variable SVC_WHOLLY_ELSE',
        'the environment variable is set, but no code reads it',
      ],
    ],
  );
});

// ── SVC404 ──

for (const [version, day, expected] of [
  ['24.18.1', '2026-11-20', []],
  ['24.21.0', '2026-11-20', []],
  ['26.5.1', '2026-11-20', []],
  ['26.10.0', '2026-11-20', []],
  ['27.1.0', '2027-06-01', []],
  ['28.0.0-nightly', '2028-01-01', []],
  ['24.18.0', '2026-11-20', ['the version lacks the security fixes of 24.18.1']],
  ['24.16.0', '2026-11-20', ['the version lacks the security fixes of 24.18.1']],
  ['26.5.0', '2026-11-20', ['the version lacks the security fixes of 26.5.1']],
  ['24.21.0', '2028-04-30', ['this release line of Node.js reached its end of life on 2028-04-30']],
  [
    '25.9.0',
    '2026-11-20',
    [
      'the version is outside the supported range (^24.18.1 || >=26.5.1)',
      'this release line of Node.js reached its end of life on 2026-06-01',
    ],
  ],
  ['22.23.2', '2026-11-20', ['the version is outside the supported range (^24.18.1 || >=26.5.1)']],
  ['18.20.0', '2026-11-20', ['the version is outside the supported range (^24.18.1 || >=26.5.1)']],
] as const) {
  test(`for Node.js ${version} on the date ${day}, svc check (SVC404) reports: ${expected.join(' and ') || 'nothing'}`, () => {
    const view = { ...make().inspect(), nodeVersion: version, nowMs: Date.parse(`${day}T00:00:00Z`) };
    const { report, refuses } = examine(view, [], CORE_RULES);
    assert.deepEqual(
      report.findings
        .filter(({ rule, message }) => rule === 'SVC404' && !message.startsWith('package.json requires'))
        .map(({ severity, message }) => [severity, message]),
      expected.map((message) => ['warning', message]),
    );
    assert.equal(refuses, false);
  });
}

test('svc check compares the version of Node.js with the range in "engines" of package.json (SVC404)', () => {
  assert.equal(
    (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { engines: { node: string } }).engines
      .node,
    SUPPORTED_NODE,
  );
});

// ── findings of compilation ──

test('app.check() reports the compilation errors SVC101, SVC104, SVC106, SVC111, SVC112 and SVC114, each at its line', () => {
  const app = make();
  app.get('/a', { name: 'n' }, handler);
  const twice = line() + 1;
  app.get('/a', handler);
  const named = line() + 1;
  app.get('/c', { name: 'n' }, handler);
  const router = new Router({ prefix: '/{id}' });
  const unreadable = line() + 1;
  router.get('/{id}', handler);
  app.includeRouter(router);
  const circle: (context: Context) => unknown = provide(
    {
      get me() {
        return Depends(circle);
      },
    },
    () => 1,
  );
  const circular = line() + 1;
  app.get('/d', { circle: Depends(circle) }, (context) => context);
  const wide = provide({ narrow: Depends(alice) }, () => 1);
  const scoped = line() + 1;
  app.get('/e', { wide: Depends(wide, { scope: 'app' }) }, (context) => context);
  const plugged = line() + 1;
  app.register({ name: 'p', requires: ['q'], register: () => undefined });
  assert.deepEqual(brief(app), [
    ['SVC101', 'GET /a', twice],
    ['SVC104', 'GET /c', named],
    ['SVC106', 'GET /{id}/{id}', unreadable],
    ['SVC111', 'GET /d', circular],
    ['SVC112', 'GET /e', scoped],
    ['SVC114', 'plugin p', plugged],
  ]);
});

test('src/check/README.md lists every rule of svc check in the order of the source code', () => {
  const rows = [
    ...readFileSync(new URL('../../../src/check/README.md', import.meta.url), 'utf8').matchAll(
      /^\| (SVC\d{3}) \| \S/gm,
    ),
  ].map(([, id]) => id);
  assert.deepEqual(
    rows,
    CORE_RULES.map(({ id }) => id)
      .concat('SVC209')
      .sort(),
  );
});
