/**
 * Rules on authentication, roles and rate limits: SVC201, SVC203, SVC204. Tests of SVC202 are in rules.test.ts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BearerAuth } from '../../../src/auth/auth.ts';
import { IssuerAuth } from '../../../src/auth/issuer/guard.ts';
import { requireRoles, requireScopes } from '../../../src/auth/require.ts';
import { Depends, provide } from '../../../src/routing/di.ts';
import { Router } from '../../../src/routing/route.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { Field, Schema, str } from '../../../src/schema/schema.ts';
import { found, quiet, subjects } from '../../support/found.ts';
import type { Svc } from '../../../src/app/svc.ts';

const handler = (): string => 'x';
const someone = { me: Depends(BearerAuth()) };
const admin = { me: Depends(requireRoles('admin')) };

test('svc check reports routes that change data and have no guard, unless they are declared public (SVC201)', () => {
  const app = quiet()
    .get('/', handler)
    .route('/a', ['POST', 'PUT'], handler)
    .patch('/b', someone, handler)
    .delete('/c', { public: 'a demo' }, handler)
    .delete('/d', { public: false }, handler);
  const router = new Router({
    deps: { me: Depends(provide({ who: Depends(BearerAuth()) }, ({ who }) => who)) },
  });
  router.post('/deep', ({ me }) => me.sub);
  app
    .includeRouter(router, '/r')
    .post('/by-spec', { security: { scheme: 'apiKey', scopes: [], roles: [] } }, handler);
  assert.deepEqual(subjects(app, 'SVC201').sort(), ['DELETE /d', 'POST /a', 'PUT /a']);
});

test('svc check accepts IssuerAuth(), and a guard of the application that declares its security (SVC201)', () => {
  const token = IssuerAuth({ issuer: 'https://login.example', audience: 'api' });
  const own = provide({ security: { scheme: 'bearer', scopes: [], roles: [] } }, () => 'ada');
  const silent = provide({}, () => 'ada');
  const app = quiet()
    .post('/a', { me: Depends(token) }, handler)
    .post('/b', { me: Depends(requireScopes({ scopes: ['b:write'], auth: token })) }, handler)
    .post('/c', { me: Depends(own) }, handler)
    .post('/d', { me: Depends(silent) }, handler);
  assert.deepEqual(subjects(app, 'SVC201'), ['POST /d']);
});

test('for one path, svc check reports a method such as DELETE that is protected less than a less dangerous method such as GET (SVC203)', () => {
  const app = quiet()
    .get('/a', someone, handler)
    .post('/a', { public: true }, handler)
    .put('/b/{id}', admin, handler)
    .delete('/b/{other}', someone, handler)
    .patch('/c', { me: Depends(requireScopes('c:write')) }, handler)
    .put('/c', someone, handler);
  assert.deepEqual(found(app, 'SVC203'), [
    'POST /a: the method POST changes more than the method GET of the same path, but has weaker protection: GET requires a credential, and POST requires no credential',
    'DELETE /b/{other}: the method DELETE changes more than the method PUT of the same path, but has weaker protection: PUT requires the role "admin", and DELETE accepts every authenticated client',
    'PUT /c: the method PUT changes more than the method PATCH of the same path, but has weaker protection: PATCH requires the scope "c:write", and PUT accepts every authenticated client',
  ]);
});

test('svc check accepts a DELETE guard that is stricter than the GET guard of its path, and guards that cannot be compared (SVC203)', () => {
  const app = quiet()
    .get('/a', someone, handler)
    .post('/a', handler)
    .get('/b', handler)
    .delete('/b', admin, handler)
    .get('/c', admin, handler)
    .put('/c', someone, handler)
    .put('/d', admin, handler)
    .delete('/d', { me: Depends(requireScopes('d')) }, handler)
    .put('/e', admin, handler)
    .delete('/e/{id}', someone, handler);
  assert.deepEqual(found(app, 'SVC203'), []);
});

test('svc check reports the only route of a table of routes whose guard requires no role (SVC203)', () => {
  const tableOf = (...guards: readonly (typeof someone)[]): Svc => {
    const app = quiet();
    for (const [index, guard] of guards.entries()) app.route(`/${index}`, ['POST'], guard, handler);
    return app;
  };
  assert.deepEqual(found(tableOf(admin, admin, someone, admin), 'SVC203'), [
    'POST /2: the other 3 routes of the table require more, such as the role "admin", and this route accepts every authenticated client',
  ]);
  assert.deepEqual(found(tableOf(admin, admin, someone, someone), 'SVC203'), []);
  assert.deepEqual(found(tableOf(admin, someone), 'SVC203'), []);
});

test('svc check reports a path whose PUT and DELETE require two different roles, so that no single role may use both (SVC203)', () => {
  const app = quiet()
    .put('/a', { me: Depends(requireRoles('sales')) }, handler)
    .delete('/a', { me: Depends(requireRoles('stock')) }, handler);
  assert.deepEqual(found(app, 'SVC203'), [
    'DELETE /a: two methods of the path require different roles: PUT requires the role "sales", and DELETE requires the role "stock"',
  ]);
});

for (const path of [
  '/login',
  '/api/sign-in',
  '/auth/Token',
  '/reset-password',
  '/users/{id}/password',
  '/2fa',
]) {
  test(`svc check reports POST ${path} without a rate limit (SVC204)`, () => {
    const spec = { public: 'it is how one gets in' } as const;
    assert.deepEqual(subjects(quiet().post(path as '/x', spec, handler), 'SVC204'), [`POST ${path}`]);
    assert.deepEqual(
      subjects(
        quiet()
          .use(new RateLimitMiddleware())
          .post(path as '/x', { ...spec, rateLimit: false }, handler),
        'SVC204',
      ),
      [`POST ${path}`],
    );
    assert.deepEqual(
      subjects(
        quiet()
          .use(new RateLimitMiddleware())
          .post(path as '/x', spec, handler),
        'SVC204',
      ),
      [],
    );
    assert.deepEqual(
      subjects(quiet().post(path as '/x', { ...spec, use: [new RateLimitMiddleware()] }, handler), 'SVC204'),
      [],
    );
  });
}

test('svc check reports a rate limit of the application or of a route that is too high for passwords (SVC204)', () => {
  const spec = { public: 'it is how one gets in' } as const;
  const limited = (perMinute: number, own?: number): string[] =>
    found(
      quiet()
        .use(new RateLimitMiddleware({ perMinute }))
        .post(
          '/token',
          { ...spec, ...(own === undefined ? {} : { rateLimit: { perMinute: own } }) },
          handler,
        ),
      'SVC204',
    );
  const tooHigh = (perMinute: number): string =>
    `POST /token: the rate limit allows ${perMinute} attempts a minute for POST /token, too many to prevent guessing of passwords or codes`;
  assert.deepEqual(limited(100_000), [tooHigh(100_000)]);
  assert.deepEqual(limited(60, 50_000), [tooHigh(50_000)]);
  assert.deepEqual(limited(100_000, 5), []);
  assert.deepEqual(limited(60), []);
});

test('svc check requires no rate limit for GET routes, for guarded routes, and for words that only contain a login word, such as "tokenize" (SVC204)', () => {
  const app = quiet()
    .get('/login', handler)
    .post('/token', someone, handler)
    .post('/tokenize', { public: true }, handler)
    .post('/logins-report', { public: true }, handler);
  assert.deepEqual(found(app, 'SVC204'), []);
  assert.deepEqual(subjects(quiet().post('/enter', { public: true, tags: ['login'] }, handler), 'SVC204'), [
    'POST /enter',
  ]);
});

test('svc check requires no rate limit for a path with "reset" or "change" that does not concern an account (SVC204)', () => {
  const app = quiet()
    .post('/game/reset', { public: true }, handler)
    .post('/till/change', { public: true }, handler)
    .post('/account/reset', { public: true }, handler)
    .post('/reset-password', { public: true }, handler);
  assert.deepEqual(subjects(app, 'SVC204').sort(), ['POST /account/reset', 'POST /reset-password']);
});

test('svc check says of a route that sends mails, and receives no secret, that mails can be sent without limit (SVC204)', () => {
  class Address extends Schema {
    email = Field(str, { maxLength: 60 });
  }
  class Login extends Schema {
    email = Field(str, { maxLength: 60 });
    password = Field(str, { maxLength: 60 });
  }
  const app = quiet()
    .post('/reset-password', { public: true, body: Address }, handler)
    .post('/login', { public: true, form: Login }, handler);
  assert.deepEqual(found(app, 'SVC204').sort(), [
    'POST /login: clients can try passwords, codes or tokens without limit, because no rate limit applies to the route',
    'POST /reset-password: clients can have mails sent to any address without limit, because no rate limit applies to the route',
  ]);
});
