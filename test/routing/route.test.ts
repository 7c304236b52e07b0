import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import test from 'node:test';
import { BearerAuth, Depends, Svc, createLogger } from '../../src/index.ts';
import { Router } from '../../src/routing/route.ts';
import type { Finding } from '../../src/base/findings.ts';

/** Returns the whole paths of a router, and the findings about them. */
function flattened(router: Router): { routes: string[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const flat = router.flatten((finding) => findings.push(finding));
  return { findings, routes: flat.map((route) => `${route.methods.join(',')} ${route.template.template}`) };
}
/** Returns the line of its caller. */
const line = (): number => Number(/:(\d+):\d+\)?$/.exec(new Error('here').stack!.split('\n')[2]!)![1]);
const handler = (): string => 'x';
/** Removes the types of a router, for arguments that TypeScript refuses. */
const loose = (router: Router): Record<'get' | 'post' | 'route', (...rest: unknown[]) => Router> =>
  router as never;

test('each method call on a Router declares a route, in the order of the calls', () => {
  const router = new Router()
    .get('/a', handler)
    .post('/a', { status: 201 }, handler)
    .put('/b', handler)
    .patch('/c', handler)
    .delete('/d', handler)
    .route('/e', ['PURGE', 'GET'], handler);
  assert.deepEqual(flattened(router).routes, [
    'GET /a',
    'POST /a',
    'PUT /b',
    'PATCH /c',
    'DELETE /d',
    'PURGE,GET /e',
  ]);
});

for (const method of ['get', 'GE T', '', 'Get', 'GET\r\n', 5]) {
  test(`Router.route() refuses ${JSON.stringify(method)} as a method`, () => {
    assert.throws(() => new Router().route('/', [method as string], handler), { code: 'E_ROUTE_METHOD' });
  });
}

test('Router.route() refuses methods that are empty or not a list, and copies the list', () => {
  for (const methods of ['GET', [], undefined])
    assert.throws(() => new Router().route('/', methods as unknown as string[], handler), {
      code: 'E_ROUTE_METHOD',
    });
  const methods = ['GET'];
  const router = new Router().route('/', methods, handler);
  methods.push('POST');
  assert.deepEqual(flattened(router).routes, ['GET /']);
});

test('Router refuses a handler that is not a function', () => {
  for (const rest of [[], [undefined], [{}], [handler, {}], [{}, undefined], ['x', 'y']])
    assert.throws(() => loose(new Router()).get('/', ...rest), { code: 'E_ROUTE_HANDLER' });
});

test('Router refuses an invalid template immediately, and an unknown option with a suggestion', () => {
  assert.throws(() => loose(new Router()).get('a', handler), { code: 'E_PATH_TEMPLATE' });
  assert.throws(() => loose(new Router()).get('/{a:nit}', handler), {
    code: 'E_PATH_TEMPLATE',
    message: /"int"/,
  });
  assert.throws(() => loose(new Router()).get('/', { sumary: 'x' }, handler), {
    code: 'E_ROUTE_SPEC',
    message: /"summary"/,
  });
  for (const spec of [
    { status: 199 },
    { status: 600 },
    { status: 200.5 },
    { name: 5 },
    { tags: 'x' },
    { deprecated: 1 },
    { meta: null },
    { tuple: 'no' },
  ]) {
    assert.throws(() => loose(new Router()).get('/', spec, handler), { code: 'E_OPTION_RANGE' });
  }
});

test('Router refuses unknown options and invalid prefixes', () => {
  assert.throws(() => new Router({ prefx: '/a' } as object), {
    code: 'E_OPTION_UNKNOWN',
    message: /"prefix"/,
  });
  for (const prefix of ['a', '/', '/a/', '/a?', '/{x:path}/b'])
    assert.throws(() => new Router({ prefix }), { code: 'E_PATH_TEMPLATE' });
  assert.throws(() => new Router().includeRouter(new Router(), '/a/'), { code: 'E_PATH_TEMPLATE' });
});

test('Router joins its prefix and the path of a route; an empty path stands for the prefix', () => {
  const inner = new Router({ prefix: '/in' }).get('', handler).get('/', handler).get('/{x}', handler);
  const outer = new Router({ prefix: '/out' }).includeRouter(inner, '/{v:int}').includeRouter(inner);
  assert.deepEqual(flattened(outer).routes, [
    'GET /out/{v:int}/in',
    'GET /out/{v:int}/in/',
    'GET /out/{v:int}/in/{x}',
    'GET /out/in',
    'GET /out/in/',
    'GET /out/in/{x}',
  ]);
});

test('Router.includeRouter() includes routes that are declared after the call', () => {
  const inner = new Router();
  const outer = new Router().includeRouter(inner, '/in');
  inner.get('/late', handler);
  assert.deepEqual(flattened(outer).routes, ['GET /in/late']);
});

test('Router puts its own tags before the tags of a route', () => {
  const inner = new Router({ tags: ['b'] });
  inner.get('/', { tags: ['c'] }, handler);
  const outer = new Router({ tags: ['a'] }).includeRouter(inner);
  assert.deepEqual(
    outer.flatten(() => undefined).map((route) => route.tags),
    [['a', 'b', 'c']],
  );
});

test('if routers include each other, Router reports the cycle at the line of includeRouter() (SVC106)', () => {
  const a = new Router();
  const b = new Router().get('/b', handler);
  a.includeRouter(b, '/x');
  const at = line() + 1;
  b.includeRouter(a, '/y');
  a.includeRouter(a);
  const { routes, findings } = flattened(a);
  assert.deepEqual(routes, ['GET /x/b']);
  assert.deepEqual(
    findings.map(({ rule, severity, subject }) => [rule, severity, subject]),
    [
      ['SVC106', 'error', 'includeRouter(/y)'],
      ['SVC106', 'error', "includeRouter('')"],
    ],
  );
  assert.equal(findings[0]!.place!.line, at);
  assert.match(findings[0]!.place!.file, /route\.test\.ts$/);
});

test('if a prefix and a path form an invalid template, Router reports the template at the line of the route (SVC106)', () => {
  const router = new Router({ prefix: '/{id}' });
  const at = line() + 1;
  router.get('/x', handler).get('/{id:int}', handler);
  const { routes, findings } = flattened(router);
  assert.deepEqual(routes, ['GET /{id}/x']);
  assert.deepEqual(
    findings.map(({ rule, subject }) => [rule, subject]),
    [['SVC106', 'GET /{id}/{id:int}']],
  );
  assert.deepEqual(
    [findings[0]!.place!.line, findings[0]!.place!.file],
    [
      at,
      import.meta.url.startsWith('file:') && findings[0]!.place!.file.startsWith('/')
        ? fileURLToPath(import.meta.url)
        : import.meta.url,
    ],
  );
  assert.deepEqual(
    flattened(new Router({ prefix: '/f/{p:path}' }).get('/x', handler)).findings.map(({ rule }) => rule),
    ['SVC106'],
  );
  assert.deepEqual(
    flattened(new Router().get('', handler)).findings.map(({ rule }) => rule),
    ['SVC106'],
  );
});

test('each method that takes a path throws E_PATH_TEMPLATE without a path, and for a value that is not text', () => {
  const app = new Svc({ logger: createLogger({ sink: () => undefined }) });
  const methods: Readonly<Record<string, (path: never) => unknown>> = {
    get: (path) => app.get(path, () => 'x'),
    post: (path) => app.post(path, {}, () => 'x'),
    route: (path) => app.route(path, ['GET'], () => 'x'),
    websocket: (path) => app.websocket(path),
    mount: (path) => app.mount(path, () => new Response()),
    mountStatic: (path) => app.mountStatic(path, '.'),
    mountMcp: (path) => app.mountMcp(path),
    includeRouter: (path) =>
      app.includeRouter(new Router(), path ?? (null as never)) /* undefined is the default */,
  };
  const deps = { me: Depends(BearerAuth('s'.repeat(32))) };
  for (const [name, call] of Object.entries(methods))
    for (const [path, found] of [
      [undefined, name === 'includeRouter' ? 'null' : 'undefined'],
      [null, 'null'],
      [5, '5'],
      [{ deps }, 'an object'],
      [['/'], 'an array'],
    ] as const)
      assert.throws(() => call(path as never), {
        code: 'E_PATH_TEMPLATE',
        message: `Cannot read the path template "${found}": the path must be text, found ${found}`,
      });
  const mountMcp = app.mountMcp.bind(app) as (...given: unknown[]) => unknown;
  for (const given of [[], [undefined, { deps, authorization: { servers: ['https://login.example'] } }]])
    assert.throws(() => mountMcp(...given), { code: 'E_PATH_TEMPLATE' });
});

test('Router.urlFor() builds the path of a named route, starting with the prefix of the router on which it is called', () => {
  const inner = new Router({ prefix: '/in' });
  inner.get('/{id:int}', { name: 'item' }, handler);
  const outer = new Router().includeRouter(inner, '/caf\u00e9');
  assert.equal(inner.urlFor('item', { id: 5 }), '/in/5');
  assert.equal(outer.urlFor('item', { id: 5 }), '/caf%C3%A9/in/5');
  assert.throws(() => outer.urlFor('itme', { id: 5 }), { code: 'E_URL_NAME', message: /"item"/ });
  assert.throws(() => outer.urlFor('toString'), { code: 'E_URL_NAME' });
  assert.throws(() => outer.urlFor('item'), { code: 'E_URL_PARAM' });
  assert.throws(() => outer.urlFor('item', { id: 'x' }), { code: 'E_URL_PARAM' });
  assert.throws(() => outer.urlFor('item', { id: 1, page: 2 }), { code: 'E_URL_PARAM' });
});

test('Router.freeze() forbids declarations in every included router, even if routers include each other', () => {
  const a = new Router();
  const b = new Router();
  a.includeRouter(b);
  b.includeRouter(a);
  a.freeze();
  for (const router of [a, b]) {
    assert.throws(() => router.get('/', handler), { code: 'E_APP_FROZEN' });
    assert.throws(() => router.includeRouter(new Router()), { code: 'E_APP_FROZEN' });
  }
});

test('after freeze(), Router.urlFor() finds a route by its name, and throws E_URL_NAME for an unknown name', () => {
  const router = new Router();
  router.get('/a', { name: 'a' }, handler);
  router.freeze();
  assert.equal(router.urlFor('a'), '/a');
  assert.equal(router.urlFor('a'), '/a');
  assert.throws(() => router.urlFor('b'), { code: 'E_URL_NAME' });
});

test('Router copies the options and lists that it is given', () => {
  const methods = ['GET'];
  const spec = { meta: { a: 1 }, status: 201, tags: ['t'] };
  const router = new Router().route('/', methods, spec, handler);
  methods.push('POST');
  spec.status = 404;
  const [route] = router.flatten(() => undefined);
  assert.deepEqual([route!.methods, route!.spec.status], [['GET'], 201]);
});
