import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { Depends, provide } from '../../src/routing/di.ts';
import { MethodNotAllowed, NotFound, SvcError } from '../../src/base/errors.ts';
import { JSONResponse } from '../../src/http/response.ts';
import { Router } from '../../src/routing/route.ts';
import { Field, int, list, str } from '../../src/schema/schema.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { SvcOptions } from '../../src/app/options.ts';
import type { RouteDetail } from '../../src/routing/compile.ts';
import type { Finding } from '../../src/base/findings.ts';

const make = (options: SvcOptions = {}): Svc => new Svc({ logger: collectedLog().logger, ...options });
const handler = (): string => 'x';
/** Returns the line of its caller. */
const line = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);
function findingsOf(app: Svc): readonly Finding[] {
  try {
    app.compileAll();
  } catch (error) {
    assert.equal((error as SvcError).code, 'E_COMPILE');
    return (error as SvcError).findings.filter(
      (finding) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(finding.rule),
    ); // SVC404 depends on the Node.js that runs the tests
  }
  return [];
}
const ask = (app: Svc, path: string, method = 'GET'): Promise<Response> =>
  app.fetch(new Request(`http://a.example${path}`, { method }));

test('if two routes have the same method and path, compileAll() reports SVC101 at the second route and names the first route', () => {
  const app = make();
  const first = line() + 1;
  app.get('/a/{x}', handler);
  app.get('/b', handler).post('/a/{x}', handler);
  const second = line() + 1;
  app.get('/a/{y}', handler);
  const findings = findingsOf(app);
  assert.deepEqual(
    findings.map(({ rule, severity, subject }) => [rule, severity, subject]),
    [['SVC101', 'error', 'GET /a/{y}']],
  );
  assert.equal(findings[0]!.place!.line, second);
  assert.match(findings[0]!.place!.file, /compile\.test\.ts$/);
  assert.match(findings[0]!.message, new RegExp(`/a/\\{x\\} at .*compile\\.test\\.ts:${first}$`));
});

test('if two routes have the same name, compileAll() reports SVC104 at the second route', () => {
  const app = make();
  app.get('/a', { name: 'n' }, handler);
  const at = line() + 1;
  app.post('/b', { name: 'n' }, handler);
  const findings = findingsOf(app);
  assert.deepEqual(
    findings.map(({ rule, subject, place }) => [rule, subject, place!.line]),
    [['SVC104', 'POST /b', at]],
  );
  assert.match(findings[0]!.message, /\/a/);
});

test('compileAll() accepts two routes that differ only in method, converter, letter case or final slash', () => {
  const app = make()
    .get('/a', handler)
    .post('/a', handler)
    .get('/A', handler)
    .get('/a/', handler)
    .get('/{x}', handler)
    .get('/{x:int}', handler);
  app.route('/a', ['HEAD'], handler);
  assert.deepEqual(findingsOf(app), []);
  assert.deepEqual(
    app.routes
      .filter(({ template }) => !/^\/(healthz|readyz|metrics)$/.test(template))
      .map(({ method, template }) => `${method} ${template}`),
    ['GET /a', 'POST /a', 'GET /A', 'GET /a/', 'GET /{x}', 'GET /{x:int}', 'HEAD /a'],
  );
});

test('compileAll() throws all findings in one error, and leaves the application open for changes', () => {
  const app = make().get('/a', { name: 'n' }, handler).get('/a', { name: 'n' }, handler);
  const router = new Router({ prefix: '/{id}' });
  router.get('/{id}', handler).includeRouter(router);
  app.includeRouter(router);
  app.use({
    handle: (_req, next) => next(),
    compile: () => [{ rule: 'mine/rule', severity: 'warning', subject: 's', message: 'm', remedy: 'r' }],
  });
  const findings = findingsOf(app);
  assert.deepEqual(findings.map(({ rule }) => rule).sort(), [
    'SVC101',
    'SVC104',
    'SVC106',
    'SVC106',
    'mine/rule',
  ]);
  assert.throws(() => app.compileAll(), { code: 'E_COMPILE', message: /SVC101 GET \/a/ });
  app.get('/b', handler); // declarations are still possible
});

for (const [what, error, message] of [
  ['an error', new TypeError('two\nlines'), /threw TypeError: two$/],
  ['null', null, /threw null$/],
  ['a mistake that has a remedy', new SvcError('E_STATE_UNSET', ['db']), /"db"/],
] as const) {
  test(`if compile() of a middleware throws ${what}, compileAll() reports SVC121 at the app.use() call of this middleware`, () => {
    const here = line() + 1;
    const app = make().use({
      kind: 'cors',
      handle: (_req, next) => next(),
      compile: () => {
        throw error;
      },
    });
    const [finding, ...more] = findingsOf(app);
    assert.deepEqual(
      [finding!.rule, finding!.subject, finding!.place!.line, more.length],
      ['SVC121', 'middleware cors', here, 0],
    );
    assert.match(finding!.message, message);
  });
}

test('compileAll() reports SVC107 for a getter that throws in the argument of provide(), and SVC102 for a route at a path such as /healthz', () => {
  const spec = provide(
    {
      get later(): never {
        throw new ReferenceError('not yet');
      },
    } as object,
    () => 1,
  );
  const app = make()
    .get('/x', { it: Depends(spec) }, handler)
    .get('/healthz', handler)
    .get('/metrics', handler);
  assert.deepEqual(
    findingsOf(app).map(({ rule, subject }) => [rule, subject]),
    [
      ['SVC107', 'GET /x'],
      ['SVC102', 'GET /healthz'],
      ['SVC102', 'GET /metrics'],
    ],
  );
  assert.match(findingsOf(app)[0]!.message, /threw ReferenceError: not yet/);
});

test('compileAll() does not throw for warnings, and gives compile() of a middleware all routes and settings', () => {
  const seen: unknown[] = [];
  const app = make({ env: 'test', config: { pageSize: 20 } });
  app.use({
    handle: (_req, next) => next(),
    compile: (view) => {
      seen.push(
        view.env,
        view.routes.some(({ template }) => template === '/late'),
        view.middleware.length,
        view.config('pageSize'),
      );
      return [{ rule: 'mine/rule', severity: 'warning', subject: 's', message: 'm', remedy: 'r' }];
    },
  });
  app.get('/late', handler);
  assert.deepEqual(findingsOf(app), []);
  assert.deepEqual(seen, ['test', true, 1, 20]);
});

test('a compiled route has its template, name, source position and meta, and middleware can read it as req.route', async () => {
  const app = make();
  const seen: unknown[] = [];
  app.use((req, next) => {
    seen.push(req.route?.template, req.pathParams);
    return next();
  });
  const at = line() + 1;
  app.get('/a/{id:int}', { name: 'n', meta: { mine: 1 } }, handler);
  const route = app.routes.find(({ name }) => name === 'n')!;
  assert.deepEqual(
    [route.method, route.template, route.place.line, route.meta],
    ['GET', '/a/{id:int}', at, { mine: 1 }],
  );
  assert.ok(Object.isFrozen(route.meta));
  await ask(app, '/a/5');
  await ask(app, '/none');
  await ask(app, '/a/5', 'POST');
  assert.deepEqual(seen, ['/a/{id:int}', { id: 5 }, undefined, {}, undefined, {}]);
});

test('path parameters are converted by their converters and arrive as members of a plain object, for any number of parameters', async () => {
  const app = make()
    .get('/1/{a:int}', ({ params }) => params)
    .get('/2/{a:float}/{b}', ({ params }) => params)
    .get('/3/{a}/{b:uuid}/{c:path}', ({ params }) => params)
    .get('/p/{constructor}/{toString}/{valueOf}', ({ params }) => ({
      ...params,
      isPlain: Object.getPrototypeOf(params) === Object.prototype,
    }));
  const uuid = '0190163D-8694-739B-AEA5-966C26F8AD91';
  assert.deepEqual(await (await ask(app, '/1/5')).json(), { a: 5 });
  assert.deepEqual(await (await ask(app, '/2/1.50/x%2Fy')).json(), { a: 1.5, b: 'x/y' });
  assert.deepEqual(await (await ask(app, `/3/x/${uuid}/r/s`)).json(), {
    a: 'x',
    b: uuid.toLowerCase(),
    c: 'r/s',
  });
  assert.deepEqual(await (await ask(app, '/p/1/2/3')).json(), {
    constructor: '1',
    toString: '2',
    valueOf: '3',
    isPlain: true,
  });
});

test('responses with status 404, 405 and 400, and responses to OPTIONS, pass through the middleware', async () => {
  const app = make().get('/a', handler);
  app.use(async (_req, next) => {
    const response = await next();
    response.headers.set('X-Outer', 'there');
    return response;
  });
  for (const [path, method, status] of [
    ['/none', 'GET', 404],
    ['/a', 'POST', 405],
    ['/a', 'OPTIONS', 204],
    ['/none', 'OPTIONS', 404],
    ['/%zz', 'GET', 400],
  ] as const) {
    const response = await ask(app, path, method);
    assert.deepEqual(
      [response.status, response.headers.get('x-outer')],
      [status, 'there'],
      `${method} ${path}`,
    );
    if (status === 405 || status === 204) assert.equal(response.headers.get('allow'), 'GET, HEAD, OPTIONS');
  }
});

test('an exception handler for NotFound or MethodNotAllowed answers unmatched requests; handlers for other errors do not run', async () => {
  const app = make().get('/a', handler);
  app.exceptionHandler(NotFound, (_error, req) => [`no ${req.path}`, 404]);
  app.exceptionHandler(SyntaxError, () => 'never');
  assert.equal(await (await ask(app, '/none')).text(), 'no /none');
  const refused = await ask(app, '/a', 'POST');
  assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
  assert.equal((await ask(app, '/%zz')).status, 400);
  const other = make().get('/a', handler);
  other.exceptionHandler(MethodNotAllowed, (error) => [error.headers!['Allow']!, 405]);
  assert.equal(await (await ask(other, '/a', 'PUT')).text(), 'GET, HEAD, OPTIONS');
});

test('if an exception handler answers 405, the response has the field Allow (RFC 9110 §15.5.6), unless the handler sets it', async () => {
  const kept = new JSONResponse({ error: 'kept' }, { status: 405 });
  for (const [reply, status, allow] of [
    [() => [{ error: 'no' }, 405] as const, 405, 'GET, HEAD, OPTIONS'],
    [async () => [{ error: 'no' }, 405] as const, 405, 'GET, HEAD, OPTIONS'],
    [() => kept, 405, 'GET, HEAD, OPTIONS'],
    [() => ['mine', 405, { Allow: 'GET' }] as const, 405, 'GET'],
    [() => ['hidden', 404] as const, 404, null],
  ] as const) {
    const app = make().get('/a', handler).post('/b', handler).exceptionHandler(MethodNotAllowed, reply);
    const answer = await ask(app, '/a', 'PUT');
    assert.deepEqual([answer.status, answer.headers.get('allow')], [status, allow]);
    if (reply() === kept) assert.equal((await ask(app, '/b', 'PUT')).headers.get('allow'), 'POST, OPTIONS'); // each call makes one response
  }
});

for (const [what, answer] of [
  [
    'is thrown',
    () => {
      throw new MethodNotAllowed();
    },
  ],
  ['is returned', () => ['no', 405] as const],
] as const) {
  test(`a 405 that ${what} by a handler, middleware or exception handler has Allow with the other methods of the path (RFC 9110 §15.5.6)`, async () => {
    const allowOf = async (app: Svc, method: string, path = '/a/5'): Promise<unknown> => {
      const response = await ask(app, path, method);
      return [response.status, response.headers.get('allow')];
    };
    const app = make().get('/a/{id}', answer).delete('/a/{id}', answer).put('/a/{id:int}', handler);
    assert.deepEqual(await allowOf(app, 'GET'), [405, 'PUT, DELETE, OPTIONS']);
    assert.deepEqual(await allowOf(app, 'HEAD'), [405, 'PUT, DELETE, OPTIONS']);
    assert.deepEqual(await allowOf(app, 'DELETE'), [405, 'GET, HEAD, PUT, OPTIONS']);
    assert.deepEqual(await allowOf(app, 'DELETE', '/a/x'), [405, 'GET, HEAD, OPTIONS']);
    const own = make().route('/a/{id}', ['GET', 'OPTIONS'], answer);
    assert.deepEqual(await allowOf(own, 'OPTIONS'), [405, 'GET, HEAD']);
    const layer = make().use(answer).get('/a/{id}', handler).post('/a/{id}', handler);
    assert.deepEqual(await allowOf(layer, 'POST'), [405, 'GET, HEAD, OPTIONS']);
    assert.deepEqual(await allowOf(layer, 'POST', '/none'), [405, '']);
    const failing = make().exceptionHandler(NotFound, answer);
    failing.get('/a/{id}', () => {
      throw new NotFound();
    });
    assert.deepEqual(await allowOf(failing, 'GET'), [405, 'OPTIONS']);
  });
}

test('Allow of a thrown MethodNotAllowed wins', async () => {
  const app = make().get('/a', () => {
    throw new MethodNotAllowed('only by PUT', { headers: { allow: 'PUT' } });
  });
  assert.equal((await ask(app, '/a')).headers.get('allow'), 'PUT');
});

test('one route with an optional path serves its folder with and without a slash, and all below', async () => {
  const app = make();
  app.route('/dav/{rest:path?}', ['GET', 'PUT'], { name: 'dav' }, ({ params }) => ({ rest: params.rest }));
  const restAt = async (path: string): Promise<unknown> => (await ask(app, path)).json();
  assert.deepEqual(await restAt('/dav'), { rest: '' });
  assert.deepEqual(await restAt('/dav/'), { rest: '' });
  assert.deepEqual(await restAt('/dav/a/b%2Fc/'), { rest: 'a/b/c/' });
  assert.equal((await ask(app, '/dav', 'POST')).headers.get('allow'), 'GET, HEAD, PUT, OPTIONS');
  assert.equal(app.urlFor('dav'), '/dav');
  assert.equal(app.urlFor('dav', { rest: 'x y/z' }), '/dav/x%20y/z');
  const twice = make().get('/dav/{rest:path?}', handler).get('/dav/', handler);
  assert.deepEqual(
    twice.check().findings.flatMap(({ rule }) => (rule === 'SVC101' ? [rule] : [])),
    ['SVC101'],
  );
});

test('a 404 response suggests a similar path, except in production', async () => {
  for (const [env, detail] of [
    ['development', 'Nothing is here; did you mean /users?'],
    ['test', 'Nothing is here; did you mean /users?'],
    ['production', undefined],
  ] as const) {
    const app = make({ env }).get('/users', handler);
    const problem = (await (await ask(app, '/usres')).json()) as Record<string, unknown>;
    assert.equal(problem['detail'], detail);
    assert.equal(
      ((await (await ask(app, `/${'x'.repeat(300)}`)).json()) as Record<string, unknown>)['detail'],
      undefined,
    );
  }
});

test('a route may declare its own OPTIONS handler', async () => {
  const app = make()
    .route('/a', ['OPTIONS'], () => 'mine')
    .get('/a', handler);
  assert.equal(await (await ask(app, '/a', 'OPTIONS')).text(), 'mine');
});

test('the option "status" of a route is the status of replies that set no status themselves', async () => {
  const app = make()
    .post('/a', { status: 201 }, () => ({ a: 1 }))
    .post('/b', { status: 201 }, () => null)
    .post('/c', { status: 201 }, () => ['x', 409] as const)
    .post('/d', { tuple: false }, () => ['x', 409]);
  const statuses = await Promise.all(
    ['/a', '/b', '/c', '/d'].map(async (path) => (await ask(app, path, 'POST')).status),
  );
  assert.deepEqual(statuses, [201, 201, 409, 200]);
});

test('inspect() lists the inputs of a route, including the inputs of its dependencies and routers', () => {
  const paging = provide({ query: { page: Field(1) } }, ({ query }) => query.page);
  const tenant = provide(
    { headers: { tenant: Field(str) }, page: Depends(paging) },
    ({ headers }) => headers.tenant,
  );
  const app = make();
  app.includeRouter(
    new Router({ deps: { tenant: Depends(tenant) } }).post(
      '/',
      { page: Depends(paging), query: { dry: Field(false) }, body: list(int) },
      () => 1,
    ),
  );
  const [{ inputs }] = app.inspect().details as unknown as [RouteDetail];
  assert.deepEqual(
    inputs.texts.map(({ from, plan }) => [from, plan.fields.map(({ name }) => name)]),
    [
      ['query', ['page']],
      ['header', ['tenant']],
      ['query', ['dry']],
    ],
  );
  assert.equal(inputs.body?.node.kind, 'list');
  assert.equal(inputs.form, undefined);
});
