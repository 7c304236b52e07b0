/**
 * Exempt path templates, route by route.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CSRFMiddleware, SessionMiddleware, Svc } from 'svc';
import { TestClient } from 'svc/testing';
import { Exemptions } from '../../../src/http/middleware/exemptions.ts';
import { SECRET } from '../../support/session-site.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { CompiledRoute } from '../../../src/http/contracts.ts';

/** Whether a request for `path`, which the route handles, is exempt; and templates without a route. */
function judge(
  exempt: readonly string[],
  template: string,
  path: string,
): [isExempt: boolean, unused: readonly string[]] {
  const route = { template, method: 'POST', meta: {} } as CompiledRoute;
  const exemptions = new Exemptions(exempt);
  const unused = exemptions.enter([route]);
  return [exemptions.has({ route, path }), unused];
}

for (const [exempt, template, path, expected] of [
  ['/{tenant}/webhook', '/{t}/webhook', '/acme/webhook', true],
  ['/{tenant}/webhook', '/account/webhook', '/account/webhook', false], // more specific
  ['/{tenant}/webhook', '/{id:int}/webhook', '/7/webhook', false],
  ['/{tenant}/webhook', '/{tenant}/{rest:path}', '/acme/webhook', true],
  ['/{tenant}/webhook', '/{tenant}/{rest:path}', '/acme/other', false],
  ['/{tenant}/webhook', '/{tenant}/webhook/{id}', '/acme/webhook/1', false],
  ['/hooks/{p:path}', '/hooks/pay', '/hooks/pay', true],
  ['/hooks/{p:path}', '/hooks/{kind}/{id:int}', '/hooks/pay/1', true],
  ['/hooks/{p:path}', '/hooks', '/hooks', false],
  ['/hooks/{p:path}', '/hooks/', '/hooks/', false],
  ['/hooks/{p:path}', '/hooks//x', '/hooks//x', true],
  ['/hooks/{p:path}', '/{any}/pay', '/hooks/pay', true],
  ['/hooks/{p:path}', '/{any}/pay', '/other/pay', false],
  ['/hooks/{p:path?}', '/hooks', '/hooks', true],
  ['/hooks/{p:path?}', '/hooks/pay', '/hooks/pay', true],
  ['/hooks/{p:path?}', '/hooks/{rest:path?}', '/hooks/', true],
  ['/hooks/{p:path}', '/hooks/{rest:path?}', '/hooks', false],
  ['/hooks/{p:path}', '/hooks/{rest:path?}', '/hooks/pay', true],
  ['/hooks', '/hooks/{rest:path?}', '/hooks', true],
  ['/hooks', '/hooks/{rest:path?}', '/hooks/pay', false],
  ['/{tenant}/{p:path}', '/account/transfer', '/account/transfer', false],
  ['/{p:path}', '/account/transfer', '/account/transfer', true],
  ['/hooks/github', '/hooks/{name}', '/hooks/github', true],
  ['/hooks/github', '/hooks/{name}', '/hooks/gitlab', false],
  ['/hooks/7', '/hooks/{id:int}', '/hooks/7', true],
  ['/hooks/{id:int}', '/hooks/{id}', '/hooks/7', true],
  ['/hooks/{id:int}', '/hooks/{id}', '/hooks/x', false],
  ['/hooks/github', '/hooks/gitlab', '/hooks/github', false],
] as const) {
  test(`Exemptions.has() compares a path template with the path and the route of a request (template: ${exempt}, path: ${path}, route: ${template}, result: ${expected})`, () => {
    assert.equal(judge([exempt], template, path)[0], expected);
  });
}

test('Exemptions.has() returns true if any template exempts the route; Exemptions.enter() returns the templates that exempt none of the given routes', () => {
  assert.deepEqual(judge(['/a/{x}', '/a/{p:path}', '/c'], '/a/b', '/a/b'), [true, ['/a/{x}', '/c']]);
  assert.deepEqual(judge(['/a/1', '/a/2'], '/a/{x}', '/a/2'), [true, []]);
  assert.deepEqual(judge([], '/a', '/a'), [false, []]);
});

test('for a request that matches no route, Exemptions.has() returns true if a template matches the path', () => {
  const exemptions = new Exemptions(['/hooks/{p:path}']);
  assert.deepEqual(
    ['/hooks/x', '/hooks', '/hooks/%zz'].map((path) => exemptions.has({ route: undefined, path })),
    [true, false, false],
  );
});

test('the template /{tenant}/webhook in the option "exempt" of CSRFMiddleware does not exempt the more specific route /account/webhook', async () => {
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger });
  app
    .use(new SessionMiddleware())
    .use(new CSRFMiddleware({ exempt: ['/{tenant}/webhook', '/acount/{id}', '/read'] }));
  app
    .post('/{tenant}/webhook', () => 'hook')
    .post('/account/webhook', () => 'changed')
    .post('/account/{id}', () => 'changed')
    .get('/read', () => 'read');
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, severity, subject, message }) => [rule, severity, subject, message]),
    [
      [
        'SVC121',
        'warning',
        'middleware csrf',
        'the path template "/acount/{id}" in the option "exempt" matches no route: did you mean "/account/{id}"?',
      ],
      [
        'SVC121',
        'warning',
        'middleware csrf',
        'the path template "/read" in the option "exempt" has no effect: it matches only routes with GET, and CSRFMiddleware checks no such requests',
      ],
    ],
  );
  await using client = new TestClient(app);
  const statuses = [];
  for (const path of ['/acme/webhook', '/account/webhook', '/%61ccount/webhook', '/account/5', '/acount/5'])
    statuses.push((await client.post(path, { headers: { 'sec-fetch-site': 'cross-site' } })).status);
  assert.deepEqual(statuses, [200, 403, 403, 403, 404]);
});

test('Exemptions.has() returns true for a route with the option csrf: false, even if no template matches the route', () => {
  const exemptions = new Exemptions([]);
  const route = { template: '/hook', method: 'POST', meta: { csrf: false } } as unknown as CompiledRoute;
  assert.deepEqual(exemptions.enter([route]), []);
  assert.equal(exemptions.has({ route, path: '/hook' }), true);
  assert.equal(exemptions.has({ route: { ...route, meta: { csrf: true } }, path: '/hook' }), false);
});
