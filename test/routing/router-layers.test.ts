/**
 * Middleware and exception handlers of routers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HTTPException, NotFound, Router, Svc } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { MiddlewareFunction } from '../../src/http/contracts.ts';

class Conflict extends Error {}
class Stale extends Conflict {}

function clientOf(app: Svc): TestClient {
  return new TestClient(app, { raiseErrors: false });
}

/** Returns the expectation of an SvcError for `assert.throws()`. */
function fault(code: string, message: RegExp = /./): { code: string; message: RegExp } {
  return { code, message };
}

/** Returns middleware that adds its name to a list, before and after the inner layers. */
function traced(steps: string[], name: string): MiddlewareFunction {
  return async (_req, next) => {
    steps.push(name);
    const response = await next();
    steps.push(`/${name}`);
    return response;
  };
}

test('Router.use() applies to the routes of this router and of its nested routers, and to no others', async () => {
  const steps: string[] = [];
  const app = new Svc();
  const outer = new Router({ prefix: '/outer' });
  const inner = new Router({ prefix: '/inner' });
  app.includeRouter(outer);
  outer.includeRouter(inner);
  app.get('/', () => 'root');
  outer.get('/', () => 'outer');
  inner.get('/', { use: [traced(steps, 'route')] }, () => 'inner');
  inner.use(traced(steps, 'inner'));
  outer.use(traced(steps, 'outer 1')).use(traced(steps, 'outer 2'));
  app.use(traced(steps, 'app'));
  await using client = clientOf(app);
  const stepsOf = async (path: string): Promise<string[]> => {
    assert.equal((await client.get(path)).status, 200);
    return steps.splice(0).filter((step) => !step.startsWith('/'));
  };
  assert.deepEqual(await stepsOf('/'), ['app']);
  assert.deepEqual(await stepsOf('/outer/'), ['app', 'outer 1', 'outer 2']);
  await client.get('/outer/inner/');
  assert.deepEqual(steps.splice(0), [
    ...['app', 'outer 1', 'outer 2', 'inner', 'route'],
    ...['/route', '/inner', '/outer 2', '/outer 1', '/app'],
  ]);
  await client.get('/outer/missing');
  assert.deepEqual(steps, ['app', '/app']);
});

test('if a router is included in two parents, a request runs only the middleware of the parent to which its path belongs', async () => {
  const steps: string[] = [];
  const app = new Svc();
  const shared = new Router().get('/x', () => 'x');
  const guarded = new Router({ prefix: '/guarded' }).use(traced(steps, 'guard')).includeRouter(shared);
  app.includeRouter(guarded).includeRouter(shared, '/open');
  await using client = clientOf(app);
  await client.get('/open/x');
  assert.deepEqual(steps, []);
  await client.get('/guarded/x');
  assert.deepEqual(steps, ['guard', '/guard']);
});

test("Router.exceptionHandler() handles errors of the router's routes, and handlers of inner routers run before those of outer routers", async () => {
  const app = new Svc({ logger: collectedLog().logger });
  const outer = new Router({ prefix: '/outer' });
  const inner = new Router({ prefix: '/inner' });
  app.includeRouter(outer.includeRouter(inner));
  const failing = (): never => {
    throw new Stale('stale');
  };
  app.get('/', failing);
  outer.get('/', failing);
  inner.get('/', failing);
  inner.get('/async', async () => failing());
  inner.get('/missing', () => {
    throw new NotFound('not here');
  });
  app.exceptionHandler(Conflict, () => ['app', 409]);
  outer.exceptionHandler(Stale, () => ['outer', 409]);
  inner.exceptionHandler(Conflict, () => ['inner', 409]);
  outer.use((req, next) => {
    if (req.headers['x-fail'] !== undefined) throw new Stale('in a layer');
    return next();
  });
  await using client = clientOf(app);
  const answerOf = async (path: string, headers: Record<string, string> = {}): Promise<string> =>
    (await client.get(path, { headers })).text();
  assert.equal(await answerOf('/'), 'app');
  assert.equal(await answerOf('/outer/'), 'outer');
  assert.equal(await answerOf('/outer/inner/'), 'inner');
  assert.equal(await answerOf('/outer/inner/async'), 'inner');
  assert.equal(await answerOf('/outer/', { 'x-fail': '1' }), 'outer');
  assert.match(await answerOf('/outer/inner/missing'), /"status":404/);
});

test("Router.exceptionHandler(HTTPException) handles exceptions of this router's routes only", async () => {
  const app = new Svc();
  const api = new Router({ prefix: '/api' }).exceptionHandler(HTTPException, (error) => [
    { error: error.status },
    error.status,
  ]);
  api.get('/x', () => {
    throw new NotFound();
  });
  app.includeRouter(api).get('/x', () => {
    throw new NotFound();
  });
  await using client = clientOf(app);
  assert.deepEqual(await (await client.get('/api/x')).json(), { error: 404 });
  assert.match(String((await client.get('/x')).headers.get('content-type')), /problem\+json/);
});

test('Router.use() and Router.exceptionHandler() refuse invalid middleware, a second handler for one class, and calls after compilation', async () => {
  const router = new Router().get('/x', () => 'x');
  assert.throws(() => router.use('layer' as never), fault('E_MIDDLEWARE'));
  router.exceptionHandler(Conflict, () => ['conflict', 409]);
  assert.throws(
    () => router.exceptionHandler(Conflict, () => 'again'),
    fault('E_EXCEPTION_HANDLER', /already has an exception handler/),
  );
  const app = new Svc().includeRouter(router);
  app.compileAll();
  assert.throws(() => router.use((_req, next) => next()), fault('E_APP_FROZEN'));
  assert.throws(() => router.exceptionHandler(Stale, () => 'late'), fault('E_APP_FROZEN'));
});

test('middleware of a router also runs for WebSocket handshakes of this router', async () => {
  const app = new Svc();
  const rooms = new Router({ prefix: '/rooms' }).use(() => ['closed', 403]);
  rooms.websocket('/chat', async (socket) => socket.send('hello'));
  app.includeRouter(rooms);
  await using client = clientOf(app);
  await assert.rejects(client.websocket('/rooms/chat'), /403/);
});

test('a middleware of a router is compiled once for all routes that share it', () => {
  let count = 0;
  const layer = {
    kind: 'counted',
    compile: () => {
      count++;
      return [];
    },
    handle: (_req: unknown, next: () => unknown) => next(),
  };
  const router = new Router({ prefix: '/x' }).use(layer as never);
  for (let index = 0; index < 50; index++) router.get(`/${index}`, () => index);
  new Svc().includeRouter(router).compileAll();
  assert.equal(count, 1);
});
