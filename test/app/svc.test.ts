import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { Depends } from '../../src/routing/di.ts';
import { HTTPException, NotFound } from '../../src/base/errors.ts';
import { stateKey } from '../../src/http/state.ts';
import { HttpResponse } from '../../src/http/response.ts';
import { createLogger } from '../../src/observability/log.ts';
import { Router } from '../../src/routing/route.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import type { SvcOptions } from '../../src/app/options.ts';
import type { TransportRequest } from '../../src/http/request/request.ts';

function make(options: SvcOptions = {}): { app: Svc; events: Record<string, unknown>[] } {
  const { logger, events } = collectedLog();
  return { app: new Svc({ logger, ...options }), events };
}
const ask = (app: Svc, path = '/', method = 'GET'): Promise<Response> =>
  app.fetch(new Request(`http://a.example${path}`, { method }));

test('new Svc() refuses unknown options with a suggestion, and values out of range', () => {
  assert.throws(() => new Svc({ debgu: true } as object), { code: 'E_OPTION_UNKNOWN', message: /"debug"/ });
  assert.throws(() => new Svc({ pageSize: 20 } as object), { code: 'E_OPTION_UNKNOWN' });
  for (const options of [
    { debug: 'yes' },
    { title: 5 },
    { maxBodyBytes: -1 },
    { maxBodyBytes: 1.5 },
    { logger: 'x' },
    { clock: null },
    { config: null },
    { enableDocs: 1 },
  ])
    assert.throws(() => new Svc(options as object), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new Svc({ env: 'staging' as never }), { code: 'E_CONFIG_CAST' });
});

test('new Svc() treats undefined options as absent, applies defaults, and reads some settings from the configuration', () => {
  const { app } = make({ title: undefined, debug: undefined, version: undefined, env: undefined });
  assert.deepEqual([app.title, app.version, app.env], ['svc', '1.0.0', 'production']);
  const { app: other } = make({
    version: '2.0.0',
    config: { title: 'Shop', version: '9', env: 'test', pageSize: 20 },
  });
  assert.deepEqual(
    [other.title, other.version, other.env, other.config.get('pageSize', 0)],
    ['Shop', '2.0.0', 'test', 20],
  );
});

test('once the application is compiled, Svc and its routers refuse all further declarations', async () => {
  const { app } = make();
  const router = new Router();
  app.includeRouter(router, '/r').compileAll().compileAll();
  const hook = (): void => undefined;
  for (const declare of [
    () => app.get('/', () => 'x'),
    () => router.get('/', () => 'x'),
    () => app.use((_req, next) => next()),
    () => app.exceptionHandler(Error, () => 'x'),
    () => app.onStartup(hook),
    () => app.onShutdown(hook),
    () => app.includeRouter(new Router()),
    () => app.route('/', ['GET'], () => 'x'),
  ])
    assert.throws(declare, { code: 'E_APP_FROZEN' });
  assert.throws(() => app.config.loadDict({ a: 1 }));
  const { app: served } = make();
  await ask(served);
  assert.throws(() => served.get('/', () => 'x'), { code: 'E_APP_FROZEN' });
});

test('Svc.use() adds middleware to every route, also to routes that were declared before the call', async () => {
  const { app } = make();
  const mark =
    (name: string) =>
    async (_req: unknown, next: () => unknown): Promise<HttpResponse> => {
      const response = (await next()) as HttpResponse;
      response.headers.append('X-Order', name);
      return response;
    };
  app
    .use(mark('outer'))
    .get('/', () => 'x')
    .use(mark('inner'));
  assert.equal((await ask(app)).headers.get('x-order'), 'inner, outer');
});

test('if several exception handlers match an error, Svc uses the handler for the most specific class', async () => {
  class Mine extends Error {}
  class Finer extends Mine {}
  const { app, events } = make();
  app
    .exceptionHandler(Error, () => ['error', 500])
    .exceptionHandler(Mine, (error) => [error.constructor.name, 418])
    .get('/mine', () => {
      throw new Finer();
    })
    .get('/other', () => {
      throw new TypeError();
    });
  assert.deepEqual(
    [
      (await ask(app, '/mine')).status,
      await (await ask(app, '/mine')).text(),
      await (await ask(app, '/other')).text(),
    ],
    [418, 'Finer', 'error'],
  );
  assert.deepEqual(events, []);
});

test('an unhandled error is answered with 500 and logged as one structured line', async () => {
  const { app, events } = make();
  app.get('/{id:int}', () => {
    throw new Error('boom');
  });
  const response = await ask(app, '/5');
  assert.equal(response.status, 500);
  const problem = (await response.json()) as Record<string, unknown>;
  assert.deepEqual(Object.keys(problem), ['type', 'title', 'status', 'request_id']);
  assert.equal(events.length, 1);
  const { level, event, method, route, status, request_id, error } = events[0]!;
  assert.deepEqual(
    [level, event, method, route, status, request_id],
    ['error', 'unhandled_error', 'GET', '/{id:int}', 500, problem['request_id']],
  );
  assert.match(JSON.stringify(error), /boom/);
});

test('5xx responses contain a stack trace only if the option "debug" is true, whatever "env" is', async () => {
  for (const env of ['production', 'development', 'test'] as const) {
    for (const debug of [true, false]) {
      const { app } = make({ env, debug });
      app
        .get('/', () => {
          throw new Error('boom');
        })
        .get('/503', () => {
          throw new HTTPException(503);
        })
        .get('/404', () => {
          throw new NotFound();
        });
      for (const [path, has] of [
        ['/', debug],
        ['/503', debug],
        ['/404', false],
      ] as const) {
        assert.equal(
          'trace' in ((await (await ask(app, path)).json()) as object),
          has,
          `${env} ${debug} ${path}`,
        );
      }
    }
  }
});

test('svc_errors_total counts unhandled errors and thrown HTTP exceptions of status 500 and above', async () => {
  const { app } = make();
  app
    .get('/500', () => {
      throw new Error();
    })
    .get('/503', () => {
      throw new HTTPException(503);
    })
    .get('/404', () => {
      throw new NotFound();
    });
  for (const path of ['/500', '/503', '/404', '/none']) await ask(app, path);
  assert.match(app.metrics.render(), /^svc_errors_total 2$/m);
});

test('cookies are Secure in production even without TLS; outside production they are Secure only over TLS', async () => {
  for (const [env, isSecure] of [
    ['production', true],
    ['test', false],
  ] as const) {
    const { app } = make({ env });
    app.get('/', () => new HttpResponse('x').setCookie('a', '1'));
    assert.equal((await ask(app)).headers.get('set-cookie')!.endsWith('; Secure'), isSecure);
  }
});

test('the option "maxBodyBytes" of new Svc() limits every request body', async () => {
  const { app } = make({ maxBodyBytes: 3 });
  app.post('/', async ({ req }) => (await req.body({ maxBytes: 100 })).length);
  const post = (body: string): Promise<Response> =>
    app.fetch(new Request('http://a/', { method: 'POST', body }));
  assert.equal((await post('abc')).status, 200);
  assert.equal((await post('abcd')).status, 413);
});

test('startup hooks run once, in order, before the first request; shutdown hooks run in reverse order', async () => {
  const { app } = make();
  const order: string[] = [];
  app.get('/', () => {
    order.push('request');
    return 'x';
  });
  app
    .onStartup(() => {
      order.push('start 1');
    })
    .onStartup(async (given) => {
      await undefined;
      order.push(given === app ? 'start 2' : 'another app');
    });
  app
    .onShutdown(() => {
      order.push('stop 1');
    })
    .onShutdown(async () => {
      await undefined;
      order.push('stop 2');
    });
  await Promise.all([app.startup(), app.startup(), ask(app)]);
  await Promise.all([app.shutdown(), app.shutdown()]);
  assert.deepEqual(order, ['start 1', 'start 2', 'request', 'stop 2', 'stop 1']);
});

test('if a startup hook throws, the start fails, and the application can be started again', async () => {
  const { app } = make();
  let tries = 0;
  const failure = new Error('not yet');
  let isLater = false;
  app
    .onStartup(async () => {
      if (++tries === 1) throw failure;
    })
    .onStartup(() => {
      isLater = true;
    });
  await assert.rejects(Promise.all([app.startup(), app.startup()]), (error) => error === failure);
  assert.deepEqual([tries, isLater], [1, false]);
  await app.startup();
  assert.deepEqual([tries, isLater], [2, true]);
});

test('if a startup hook fails, the shutdown hooks and the clean-ups returned by startup hooks run in reverse order', async () => {
  const { app } = make();
  const order: string[] = [];
  let isBroken = true;
  const opening = (name: string) => () => {
    order.push(`open ${name}`);
    return () => void order.push(`close ${name}`);
  };
  app
    .onShutdown(() => void order.push('shutdown 1'))
    .onStartup(opening('a'))
    .onShutdown(() => void order.push('shutdown 2'))
    .onStartup(async () => opening('b')())
    .onStartup(() => {
      if (isBroken) throw new Error('not yet');
    })
    .onStartup(opening('c'));
  await assert.rejects(app.startup(), { message: 'not yet' });
  assert.deepEqual(order.splice(0), ['open a', 'open b', 'close b', 'shutdown 2', 'close a', 'shutdown 1']);
  isBroken = false;
  await app.startup();
  await app.shutdown();
  assert.deepEqual(order, [
    ...['open a', 'open b', 'open c'],
    ...['close c', 'close b', 'shutdown 2', 'close a', 'shutdown 1'],
  ]);
});

test('if a dependency of scope "app" fails at the start, the shutdown hooks run, and the application can be started again', async () => {
  const { app } = make();
  const order: string[] = [];
  let tries = 0;
  const failing = (): string => {
    if (++tries === 1) throw new Error('not yet');
    return 'x';
  };
  app
    .onStartup(() => {
      order.push('start');
    })
    .onShutdown(() => {
      order.push('stop');
    });
  app.get('/', { it: Depends(failing, { scope: 'app' }) }, ({ it }) => it);
  await assert.rejects(app.startup(), { message: 'not yet' });
  assert.deepEqual(order, ['start', 'stop']);
  assert.equal(await (await ask(app)).text(), 'x');
  assert.deepEqual([order, tries], [['start', 'stop', 'start'], 2]);
});

for (const how of ['startup()', 'run()'] as const) {
  test(`if a dependency of scope "app" fails, Svc.${how} rejects after the shutdown hooks have run and the plugins have stopped`, async () => {
    const { app } = make();
    const order: string[] = [];
    const late = (step: string) => async (): Promise<void> => {
      for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
      order.push(step);
    };
    app.register({ name: 'shop', register: () => undefined, shutdown: late('plugin') });
    app.onShutdown(late('hook 1')).onShutdown(late('hook 2'));
    app.get(
      '/',
      {
        it: Depends(
          (): string => {
            throw new Error('not yet');
          },
          { scope: 'app' },
        ),
      },
      ({ it }) => it,
    );
    const starting = how === 'run()' ? app.run({ port: 0, handleSignals: false }) : app.startup();
    await assert.rejects(
      starting.finally(() => {
        order.push('rejects');
      }),
      { message: 'not yet' },
    );
    assert.deepEqual(order, ['hook 2', 'hook 1', 'plugin', 'rejects']);
  });
}

test('if a startup hook fails, Svc.startup() rejects after all plugins have stopped in reverse order, even if one fails to stop', async () => {
  const { app, events } = make();
  const order: string[] = [];
  const late = (step: string) => async (): Promise<void> => {
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    order.push(step);
  };
  app.register({ name: 'a', register: () => undefined, shutdown: late('a') });
  app.register({ name: 'b', register: () => undefined, shutdown: () => Promise.reject(new Error('stuck')) });
  app.register({ name: 'c', register: () => undefined, shutdown: late('c') });
  app.onStartup(() => {
    throw new Error('hook');
  });
  await assert.rejects(
    app.startup().finally(() => {
      order.push(...events.map(({ event }) => String(event)), 'rejects');
    }),
    { message: 'hook' },
  );
  assert.deepEqual(order, ['c', 'a', 'plugin_shutdown_failed', 'rejects']);
});

test('if Svc.run() cannot listen on its port, it rejects after the application has shut down', async (t) => {
  const { app } = make();
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const { app: other } = make();
  const order: string[] = [];
  other.onShutdown(async () => {
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    order.push('stopped');
  });
  await assert.rejects(
    other.run({ port: server.port, handleSignals: false }).finally(() => {
      order.push('rejects');
    }),
    { code: 'E_LISTEN' },
  );
  assert.deepEqual(order, ['stopped', 'rejects']);
});

test('if a shutdown hook throws, the error is logged, and the remaining shutdown hooks run', async () => {
  const { app, events } = make();
  let runs = 0;
  app
    .onShutdown(() => {
      runs++;
    })
    .onShutdown(() => Promise.reject(new Error('stuck')))
    .onShutdown(() => {
      throw undefined;
    });
  await app.startup();
  await app.shutdown();
  assert.equal(runs, 1);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['shutdown_hook_failed', 'shutdown_hook_failed'],
  );
});

test('if two routes have the same method and path, Svc.startup(), Svc.run() and Svc.fetch() reject with E_COMPILE', async () => {
  const { app } = make();
  app.get('/', () => 'x').get('/', () => 'y');
  await assert.rejects(app.startup(), { code: 'E_COMPILE' });
  await assert.rejects(app.run({ port: 0 }), { code: 'E_COMPILE' });
  await assert.rejects(ask(app), { code: 'E_COMPILE' });
});

test('Svc.shutdown() waits for functions that run after a response, even if one of them fails', async () => {
  const { app, events } = make();
  const order: string[] = [];
  const release = Promise.withResolvers<void>();
  app
    .use((req, next) => {
      (req as TransportRequest).afterwards(async () => {
        await release.promise;
        order.push('first');
      });
      (req as TransportRequest).afterwards(() => {
        throw new Error('cleanup');
      });
      (req as TransportRequest).afterwards(() => {
        order.push('last');
      });
      return next();
    })
    .get('/', () => 'x')
    .onShutdown(() => {
      order.push('hook');
    });
  const asked = ask(app);
  await app.startup();
  while (order.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const stopped = app.shutdown();
  release.resolve();
  await Promise.all([asked, stopped]);
  assert.deepEqual(order, ['last', 'first', 'hook']);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['cleanup_failed'],
  );
});

test('Svc.run({ port: 0 }) listens on a free port, and close() of its result shuts the application down', async () => {
  const { app, events } = make();
  let isDown = false;
  app
    .get('/', () => 'x')
    .onShutdown(() => {
      isDown = true;
    });
  const server = await app.run({ port: 0, handleSignals: false });
  assert.equal(server.url, `http://127.0.0.1:${server.port}`);
  assert.equal(await (await fetch(server.url)).text(), 'x');
  await Promise.all([server.close(), server.close()]);
  assert.ok(isDown);
  await assert.rejects(fetch(server.url));
  assert.deepEqual(
    events.map(({ event }) => event).filter((event) => event !== 'request'),
    ['listening', 'draining', 'stopped'],
  );
});

test('Svc.run() reads host and port from the configuration, and refuses unknown options', async () => {
  const { app } = make({ config: { port: 0, host: 'localhost' } });
  const server = await app.run({ handleSignals: false });
  assert.notEqual(server.port, 8000);
  await server.close();
  await assert.rejects(app.run({ prot: 1 } as object), { code: 'E_OPTION_UNKNOWN', message: /"port"/ });
  for (const port of [-1, 65_536, 1.5, '80' as never])
    await assert.rejects(app.run({ port }), { code: 'E_OPTION_RANGE' });
});

test('if the port is in use, Svc.run() rejects with E_LISTEN, and does not stop an application that already runs', async () => {
  const { app } = make();
  const stopped: string[] = [];
  app.onShutdown(() => {
    stopped.push('app');
  });
  const server = await app.run({ port: 0, handleSignals: false });
  const { app: other } = make();
  other.onShutdown(() => {
    stopped.push('other');
  });
  await assert.rejects(other.run({ port: server.port, handleSignals: false }), {
    code: 'E_LISTEN',
    message: new RegExp(`${server.port}: .*in use`),
  });
  await assert.rejects(app.run({ port: server.port, handleSignals: false }), { code: 'E_LISTEN' });
  assert.deepEqual(stopped, ['other']);
  await server.close();
  assert.deepEqual(stopped, ['other', 'app']);
});

test('Svc.run() adds signal handlers, and removes them when the server is closed', async () => {
  const count = (): number => process.listenerCount('SIGTERM') + process.listenerCount('SIGINT');
  const before = count();
  const { app } = make();
  const server = await app.run({ port: 0 });
  assert.equal(count(), before + 2);
  await server.close();
  assert.equal(count(), before);
});

/**
 * Starts a process that serves `/slow`, whose response waits for a request for `/go`. Signals are sent after
 * the request for `/slow` has arrived.
 */
const SERVES_SLOWLY = `
  import { Svc } from ${JSON.stringify(new URL('../../src/app/svc.ts', import.meta.url).href)};
  const go = Promise.withResolvers();
  const app = new Svc();
  app.get('/slow', async () => { process.stdout.write('asked'); await go.promise; return 'done'; }).onShutdown(() => process.stdout.write('down'));
  process.on('message', () => go.resolve());
  const { url } = await app.run({ port: 0 });
  process.send(url);
`;

for (const [what, signals, code] of [
  ['after the first SIGTERM, the process finishes its requests and ends with status 0', 1, 0],
  ['the second SIGTERM ends the process at once', 2, 143],
] as const) {
  test(`Svc.run() finishes its requests after SIGTERM, unless a second SIGTERM arrives: ${what}`, async (t) => {
    const child = spawn(
      process.execPath,
      ['--conditions=svc-source', '--input-type=module', '-e', SERVES_SLOWLY],
      { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] },
    );
    let output = '';
    let log = '';
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log += text;
    });
    t.after(() => child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const [url] = (await once(child, 'message')) as [string];
    const answer = fetch(`${url}/slow`).then(
      (response) => response.text(),
      () => 'cut',
    );
    await once(child.stdout!, 'data');
    child.kill('SIGTERM');
    while (!log.includes('draining')) await once(child.stderr!, 'data');
    if (signals === 2) child.kill('SIGTERM');
    else child.send('go');
    assert.equal(await answer, signals === 2 ? 'cut' : 'done');
    assert.deepEqual([(await exited)[0], output], [code, signals === 2 ? 'asked' : 'askeddown']);
  });
}

for (const [when, hasPort] of [
  ['while its last startup hook runs', false],
  ['while its ports are opened', true],
] as const) {
  test(`if SIGTERM arrives during the start, Svc.run() answers every connection that it accepts (${when})`, async (t) => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger, ops: { metrics: { port: 0 } } });
    const exited = Promise.withResolvers<unknown>();
    t.mock.method(process, 'exit', ((status: unknown) => {
      exited.resolve(status);
    }) as never);
    const steps: string[] = [];
    const tell = (): void => {
      process.emit('SIGTERM', 'SIGTERM');
    };
    if (!hasPort) app.onStartup(tell);
    app.onShutdown(async () => {
      for (let turns = 0; turns < 20; turns++)
        await new Promise((resolve) => {
          setImmediate(resolve);
        }); // a start that continued would listen meanwhile
      steps.push('shut down');
    });
    logger.info = new Proxy(logger.info, {
      apply: (info, self, [event, fields]: [string, Record<string, unknown>]) => {
        steps.push(event);
        if (hasPort && event === 'listening' && fields['what'] === 'metrics') tell();
        Reflect.apply(info, self, [event, fields]);
      },
    });
    void app.run({ port: 0, shutdownDelaySeconds: 0 });
    assert.equal(await exited.promise, 0);
    assert.deepEqual(
      events.filter(({ level }) => level === 'error'),
      [],
    );
    assert.deepEqual(
      steps,
      hasPort
        ? ['listening', 'signal', 'listening', 'draining', 'shut down', 'stopped']
        : ['signal', 'shut down'],
    );
  });
}

test('two applications share no state, even if both include the same router', async () => {
  const key = stateKey<string>('k');
  const router = new Router().get('/r', ({ state }) => state.get(key));
  const [one, two] = ['one', 'two'].map((name) => {
    const { app } = make();
    app.includeRouter(router, `/${name}`).use((req, next) => {
      req.state.set(key, name);
      return next();
    });
    app.get('/own', () => {
      throw new NotFound(name);
    });
    return app;
  }) as [Svc, Svc];
  one.exceptionHandler(NotFound, () => 'handled');
  assert.equal(await (await ask(one, '/one/r')).text(), 'one');
  assert.equal(await (await ask(two, '/two/r')).text(), 'two');
  assert.deepEqual([(await ask(one, '/own')).status, (await ask(two, '/own')).status], [200, 404]);
  assert.equal((await ask(two, '/one/r')).status, 404);
  await one.shutdown();
  assert.equal((await ask(two, '/two/r')).status, 200);
});

test('if the application does not shut down in time after a signal, the process ends with status 1', async (t) => {
  const { endOnSignals } = await import('../../src/operations/signals.ts');
  const { ManualClock } = await import('../../src/testing/index.ts');
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const exits: unknown[] = [];
  t.mock.method(process, 'exit', ((status: unknown) => {
    exits.push(status);
  }) as never);
  const signals = endOnSignals({
    clock,
    log: logger,
    deadlineMs: 1_000,
    close: () => new Promise(() => undefined),
  });
  t.after(() => signals[Symbol.dispose]());
  process.emit('SIGTERM', 'SIGTERM');
  await clock.advance(999);
  assert.deepEqual(exits, []);
  await clock.advance(1);
  assert.deepEqual(exits, [1]);
  assert.ok(events.some((event) => event['event'] === 'shutdown_deadline_exceeded'));
  process.emit('SIGTERM', 'SIGTERM');
  assert.deepEqual(exits, [1, 143]);
});

test('the time for the last log lines is part of the time of a stop', async (t) => {
  const { endOnSignals } = await import('../../src/operations/signals.ts');
  const { ManualClock } = await import('../../src/testing/index.ts');
  const clock = new ManualClock();
  const exited = Promise.withResolvers<unknown>();
  t.mock.method(process, 'exit', ((status: unknown) => exited.resolve(status)) as never);
  const steps: string[] = [];
  const log = createLogger({
    format: 'json',
    sink: {
      write: (line) => void steps.push((JSON.parse(line) as { event: string }).event),
      flush: () => void steps.push('flush'),
    },
  });
  const signals = endOnSignals({ clock, log, deadlineMs: 28_000, close: () => new Promise(() => undefined) });
  t.after(() => signals[Symbol.dispose]());
  process.emit('SIGTERM', 'SIGTERM');
  await clock.advance(25_999);
  assert.deepEqual(steps, ['signal']);
  await clock.advance(1); // Kubernetes kills the process after 30 seconds, and flush() may take two
  assert.equal(await exited.promise, 1);
  assert.deepEqual(steps, ['signal', 'shutdown_deadline_exceeded', 'flush']);
});

for (const [what, hangs] of [
  ['the clean-up of a handler whose signal is aborted', false],
  ['at most one second for a handler that never ends', true],
] as const) {
  test(`after the drain deadline, Svc.run() still waits a short time for running handlers before it stops the plugins: ${what}`, async () => {
    const steps: string[] = [];
    const begun = Promise.withResolvers<void>();
    function* connection(): Generator<string, void> {
      try {
        yield 'open';
      } finally {
        steps.push('clean-up');
      }
    }
    const { logger } = collectedLog();
    const app = new Svc({ logger });
    app.register({ name: 'db', register: () => undefined, shutdown: () => void steps.push('plugin stops') });
    app.get('/', { db: Depends(connection) }, async ({ signal }) => {
      begun.resolve();
      await (hangs ? new Promise(() => undefined) : once(signal, 'abort'));
      for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve)); // a rollback, for example
      steps.push('handler ends');
    });
    const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 0 });
    await using client = await RawClient.open(port);
    client.get('/');
    await begun.promise;
    await close();
    assert.deepEqual(steps, hangs ? ['plugin stops'] : ['handler ends', 'clean-up', 'plugin stops']);
    assert.equal((await client.ended()).length, 0);
  });
}
