/**
 * One session or CSRF middleware put to use in two applications.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CSRFMiddleware, RateLimitMiddleware, SessionMiddleware, Svc } from 'svc';
import { TestClient } from 'svc/testing';
import { NEXT_SECRET, SECRET } from '../support/session-site.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { Middleware, SvcOptions } from 'svc';

function application(layers: readonly Middleware[], options: SvcOptions): Svc {
  const app = new Svc({ logger: collectedLog().logger, ...options });
  for (const layer of layers) app.use(layer);
  return app
    .post('/login', ({ req }) => req.session.set('user', 'ada'))
    .get('/me', ({ req }) => ({ user: req.session.get('user') ?? null }));
}

test('if one application uses a SessionMiddleware, a second application refuses it and leaves it unchanged', async () => {
  const session = new SessionMiddleware();
  await using first = new TestClient(application([session], { authSecret: SECRET, env: 'production' }), {
    baseUrl: 'http://a.example',
  });
  await first.post('/login');
  const second = application([session], { authSecret: NEXT_SECRET, env: 'development' });
  const [finding, ...more] = second
    .check()
    .findings.filter(
      ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
    );
  assert.deepEqual(
    [finding!.rule, finding!.severity, finding!.subject, more],
    ['SVC121', 'error', 'middleware session', []],
  );
  assert.match(finding!.message, /belongs to another application/);
  await assert.rejects(second.startup(), { code: 'E_COMPILE' });
  assert.match((await first.post('/login')).headers.getSetCookie()[0]!, /^__Host-svc_session=.*; Secure$/);
});

test('if one application uses a CSRFMiddleware, a second application refuses it', () => {
  const csrf = new CSRFMiddleware();
  const [first, second] = [SECRET, NEXT_SECRET].map((authSecret) =>
    application([new SessionMiddleware(), csrf], { authSecret }),
  );
  assert.deepEqual(
    first!
      .check()
      .findings.filter(
        ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
      ),
    [],
  );
  assert.deepEqual(
    second!
      .check()
      .findings.filter(
        ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
      )
      .map(({ rule, subject }) => [rule, subject]),
    [['SVC121', 'middleware csrf']],
  );
  assert.deepEqual(
    first!
      .check()
      .findings.filter(
        ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
      ),
    [],
  );
});

test('one application can use one SessionMiddleware object for several routes, for check() and for several test clients', async () => {
  const session = new SessionMiddleware();
  const app = new Svc({ logger: collectedLog().logger, authSecret: SECRET });
  for (const path of ['/a', '/b'])
    app.get(path, { use: [session] }, ({ req }) => ({ isNew: req.session.isNew }));
  for (let round = 0; round < 2; round++)
    assert.deepEqual(
      app
        .check()
        .findings.filter(
          ({ rule }) =>
            !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
        ),
      [],
    );
  for (const overrides of [undefined, [[() => 1, () => 2]]] as const) {
    await using client = new TestClient(app, { overrides });
    for (const path of ['/a', '/b']) assert.deepEqual(await (await client.get(path)).json(), { isNew: true });
  }
});

test('if one application uses a RateLimitMiddleware, a second application refuses it', () => {
  const limit = new RateLimitMiddleware();
  const [first, second] = [SECRET, NEXT_SECRET].map((authSecret) =>
    application([limit, new SessionMiddleware()], { authSecret }),
  );
  assert.deepEqual(
    first!
      .check()
      .findings.filter(
        ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
      ),
    [],
  );
  assert.deepEqual(
    second!
      .check()
      .findings.filter(
        ({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule) && rule !== 'SVC204',
      )
      .map(({ rule, subject }) => [rule, subject]),
    [['SVC121', 'middleware rate-limit']],
  );
});
