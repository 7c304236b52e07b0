/** Plugins: their order, the functions of their Host, start and stop. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  Field,
  Router,
  Schema,
  Svc,
  SvcError,
  TextResponse,
  createLogger,
  stateKey,
  str,
} from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { sortPlugins } from '../../src/routing/plugin.ts';
import type { Finding, Host, Plugin } from '../../src/index.ts';

const place = { file: 'x.ts', line: 1, column: 1 };

function plugin(name: string, parts: Partial<Plugin> = {}): Plugin {
  return { name, register: () => undefined, ...parts };
}

function sorted(...plugins: Plugin[]): { names: string[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const names = sortPlugins(
    plugins.map((entry) => ({ plugin: entry, place })),
    (finding) => findings.push(finding),
  ).map(({ name }) => name);
  return { names, findings };
}

/** Returns an application and its log events. */
function application(): { app: Svc; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    format: 'json',
    level: 'debug',
    sink: (line) => {
      lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  return { app: new Svc({ logger, env: 'test' }), lines };
}

test('sortPlugins() puts required plugins before the plugins that require them, in any order of registration', () => {
  const a = plugin('a', { requires: ['b', 'c'] });
  const b = plugin('b', { requires: ['c'] });
  const c = plugin('c');
  for (const order of [
    [a, b, c],
    [c, b, a],
    [b, a, c],
    [a, c, b],
  ])
    assert.deepEqual(sorted(...order), { names: ['c', 'b', 'a'], findings: [] });
});

test('sortPlugins() keeps plugins that are independent of each other in the order of registration', () => {
  assert.deepEqual(sorted(plugin('z'), plugin('a'), plugin('m')).names, ['z', 'a', 'm']);
});

test('sortPlugins() ignores a name in "after" if no plugin of this name is registered', () => {
  assert.deepEqual(sorted(plugin('a', { after: ['b', 'absent'] }), plugin('b')), {
    names: ['b', 'a'],
    findings: [],
  });
});

test('if the names in "requires" and "after" of plugins form a cycle, sortPlugins() reports its path', () => {
  const { findings } = sorted(
    plugin('a', { requires: ['b'] }),
    plugin('b', { after: ['c'] }),
    plugin('c', { requires: ['a'] }),
  );
  assert.equal(findings.length, 1);
  assert.equal(findings[0]!.rule, 'SVC114');
  assert.match(findings[0]!.message, /a → b → c → a/);
  assert.deepEqual(findings[0]!.place, place);
});

test('if a required plugin is missing, sortPlugins() reports the path of requirements that leads to it', () => {
  const { findings } = sorted(plugin('a', { requires: ['b'] }), plugin('b', { requires: ['database'] }));
  assert.deepEqual(
    findings.map(({ rule }) => rule),
    ['SVC114'],
  );
  assert.match(findings[0]!.message, /"database", which is not registered: a → b → database/);
});

test('sortPlugins() reports two plugins with the same name', () => {
  const { names, findings } = sorted(plugin('a'), plugin('a'));
  assert.deepEqual(names, ['a']);
  assert.match(findings[0]!.message, /two plugins are named "a"/);
});

test('compileAll() reports the findings of a plugin at the Svc.register() call of this plugin', () => {
  const { app } = application();
  app.register(plugin('a', { requires: ['nothing'] }));
  assert.throws(
    () => app.compileAll(),
    (error: unknown) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, 'E_COMPILE');
      assert.equal(error.findings[0]!.rule, 'SVC114');
      assert.match(error.findings[0]!.place!.file, /plugin\.test\.ts$/);
      return true;
    },
  );
});

test('Svc.register() throws E_APP_FROZEN once the application is compiled', () => {
  const { app } = application();
  app.compileAll();
  assert.throws(() => app.register(plugin('late')), { code: 'E_APP_FROZEN' });
});

test('register() of a plugin can declare routes, middleware, state and metrics, and read settings', async () => {
  const { app, lines } = application();
  const answer = stateKey<number>('answer');
  const seen: unknown[] = [];
  app.config.loadDict({ pageSize: 7 });
  app.register(
    plugin('second', {
      requires: ['first'],
      register(host: Host) {
        seen.push(
          host.get(answer),
          host.option('pageSize', 20),
          host.option('absent', 'x'),
          host.option('pageSize', 1, Number),
          host.env,
        );
        assert.equal(typeof host.clock.nowMs(), 'number');
        host.metrics.counter('svc_second_total', 'x').add(2);
        host.log.info('registered');
        host.rule({
          id: 'second/rule',
          severity: 'info',
          why: '',
          remedy: '',
          phase: 'graph',
          run: () => undefined,
        });
        host.migration('0001', { sqlite: [], postgres: [], mysql: [], mariadb: [] });
      },
    }),
  );
  app.register(
    plugin('first', {
      register(host: Host) {
        host.provide(answer, () => 42);
        host.use({
          async handle(_req, next) {
            const response = await next();
            response.headers.set('X-First', 'yes');
            return response;
          },
        });
        host.routes.route('/first/{n:int}', ['GET', 'POST'], { summary: 'x' }, ({ params }) => ({
          n: params.n + 0,
        }));
      },
    }),
  );
  await using client = new TestClient(app);
  const response = await client.post('/first/5');
  assert.deepEqual(await response.json(), { n: 5 });
  assert.equal(response.headers.get('x-first'), 'yes');
  assert.deepEqual(seen, [42, 7, 'x', 7, 'test']);
  assert.match(app.metrics.render(), /svc_second_total 2/);
  assert.equal(lines.find((line) => line['event'] === 'registered')!['logger'], 'second');
});

test('host.routes is a router of the plugin: its routes are in the application, its middleware is for them alone', async () => {
  const { app } = application();
  class Item extends Schema {
    name = Field(str);
  }
  class Absent extends Error {}
  let routes: Host['routes'] | undefined;
  app.register(
    plugin('stock', {
      register(host: Host) {
        routes = host.routes;
        const inner = new Router({ prefix: '/inner' }).get('/', () => 'inner');
        host.routes
          .get('/items/{id:int}', { query: { q: Field('none') } }, ({ params, query }) => [
            params.id + 1,
            query.q,
          ])
          .put('/items/{id:int}', { body: Item }, ({ params, body }) => ({ [body.name]: params.id }))
          .delete('/items/{id:int}', () => {
            throw new Absent();
          })
          .includeRouter(inner, '/more')
          .exceptionHandler(Absent, () => new TextResponse('absent', { status: 410 }))
          .use(async (_req, next) => {
            const response = await next();
            response.headers.set('X-Stock', 'yes');
            return response;
          });
      },
    }),
  );
  app.get('/', () => 'app');
  await using client = new TestClient(app);
  const answers: unknown[] = [];
  for (const [method, path, json] of [
    ['get', '/', undefined],
    ['get', '/items/1?q=x', undefined],
    ['put', '/items/1', { name: 'tea' }],
    ['put', '/items/1', {}],
    ['delete', '/items/1', undefined],
    ['get', '/more/inner/', undefined],
  ] as const) {
    const response = await client[method](path, json === undefined ? {} : { json });
    answers.push([
      response.status,
      response.ok ? await response.text() : '',
      response.headers.get('x-stock'),
    ]);
  }
  assert.deepEqual(answers, [
    [200, 'app', null],
    [200, '[2,"x"]', 'yes'],
    [200, '{"tea":1}', 'yes'],
    [400, '', 'yes'],
    [410, '', 'yes'],
    [200, 'inner', 'yes'],
  ]);
  assert.throws(() => routes!.get('/late', () => 'x'), { code: 'E_APP_FROZEN' });
});

test('host.use() takes the same middleware as app.use(): a function, or an object with handle()', async () => {
  const { app } = application();
  app.register(
    plugin('named', {
      register(host: Host) {
        host.use(async (_req, next) => {
          const response = await next();
          response.headers.set('X-Inside', 'yes');
          return response;
        });
        host.use((req, next) => (req.path === '/early' ? { early: true } : next()), 'outside');
        assert.throws(() => host.use({} as never), { code: 'E_MIDDLEWARE' });
      },
    }),
  );
  app.get('/', () => 'x');
  await using client = new TestClient(app);
  assert.equal((await client.get('/')).headers.get('x-inside'), 'yes');
  const early = await client.get('/early');
  assert.deepEqual(await early.json(), { early: true });
  assert.equal(early.headers.get('x-inside'), null);
});

test('a function that a plugin passes to host.provide() is called for each request', async () => {
  const { app } = application();
  const count = stateKey<number>('count');
  let reads = 0;
  app.register(plugin('counting', { register: (host) => host.provide(count, () => ++reads) }));
  app.get('/', ({ state }) => ({ count: state.get(count) }));
  await using client = new TestClient(app);
  assert.deepEqual(await (await client.get('/')).json(), { count: 1 });
  assert.deepEqual(await (await client.get('/')).json(), { count: 2 });
});

test('plugins start in order before the startup hooks, and stop in reverse order after the shutdown hooks', async () => {
  const { app } = application();
  const log: string[] = [];
  const noisy = (name: string, requires: string[] = []): Plugin =>
    plugin(name, {
      requires,
      startup: async () => {
        log.push(`start ${name}`);
      },
      shutdown: async () => {
        log.push(`stop ${name}`);
      },
    });
  app.register(noisy('b', ['a']));
  app.register(noisy('a'));
  app.onStartup(() => {
    log.push('hook');
  });
  app.onShutdown(() => {
    log.push('unhook');
  });
  await app.startup();
  await app.shutdown();
  assert.deepEqual(log, ['start a', 'start b', 'hook', 'unhook', 'stop b', 'stop a']);
});

test('if a plugin fails to start, only the plugins that have already started are shut down, in reverse order', async () => {
  const { app } = application();
  const log: string[] = [];
  for (const name of ['a', 'b'])
    app.register(
      plugin(name, {
        startup: () => {
          log.push(`start ${name}`);
        },
        shutdown: () => {
          log.push(`stop ${name}`);
        },
      }),
    );
  app.register(
    plugin('c', {
      startup: () => {
        throw new Error('no database');
      },
      shutdown: () => {
        log.push('stop c');
      },
    }),
  );
  app.register(
    plugin('d', {
      startup: () => {
        log.push('start d');
      },
    }),
  );
  app.onStartup(() => {
    log.push('hook');
  });
  await assert.rejects(app.startup(), /no database/);
  assert.deepEqual(log, ['start a', 'start b', 'stop b', 'stop a']);
});

test('if a plugin fails to start, startup() rejects after the started plugins have stopped one after another, even if one fails to stop', async () => {
  const { app, lines } = application();
  const log: string[] = [];
  const late = (name: string) => async (): Promise<void> => {
    log.push(`${name} stops`);
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    log.push(`${name} has stopped`);
  };
  app.register(plugin('a', { shutdown: late('a') }));
  app.register(
    plugin('b', {
      shutdown: async () => {
        await late('b')();
        throw new Error('stuck');
      },
    }),
  );
  app.register(plugin('c', { startup: () => Promise.reject(new Error('no database')), shutdown: late('c') }));
  await assert.rejects(
    app.startup().finally(() => {
      log.push(
        `rejects after ${lines.filter(({ event }) => event === 'plugin_shutdown_failed').length} line`,
      );
    }),
    /no database/,
  );
  assert.deepEqual(log, ['b stops', 'b has stopped', 'a stops', 'a has stopped', 'rejects after 1 line']);
});

test('if a startup hook throws, the plugins are shut down', async () => {
  const { app } = application();
  const log: string[] = [];
  app.register(
    plugin('a', {
      startup: () => {
        log.push('start');
      },
      shutdown: () => {
        log.push('stop');
      },
    }),
  );
  app.onStartup(() => {
    throw new Error('hook');
  });
  await assert.rejects(app.startup(), /hook/);
  assert.deepEqual(log, ['start', 'stop']);
});

test('after a failed start, the application can be started again, and all plugins start again', async () => {
  const { app } = application();
  let attempts = 0;
  app.register(
    plugin('flaky', {
      startup: () => {
        if (++attempts === 1) throw new Error('first');
      },
    }),
  );
  await assert.rejects(app.startup(), /first/);
  await app.startup();
  assert.equal(attempts, 2);
});

test('if a plugin fails to stop, the error is logged and the other plugins are stopped', async () => {
  const { app, lines } = application();
  const log: string[] = [];
  app.register(
    plugin('a', {
      shutdown: () => {
        log.push('stop a');
      },
    }),
  );
  app.register(
    plugin('b', {
      shutdown: () => {
        throw new Error('stuck');
      },
    }),
  );
  await app.startup();
  await app.shutdown();
  assert.deepEqual(log, ['stop a']);
  assert.equal(lines.find((line) => line['event'] === 'plugin_shutdown_failed')!['plugin'], 'b');
});

test('shutdown() during the start aborts the signal of the start, and waits until the start has ended', async () => {
  const { app } = application();
  const entered = Promise.withResolvers<void>();
  app.register(
    plugin('slow', {
      async startup(signal) {
        entered.resolve();
        await new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
        );
      },
    }),
  );
  const starting = app.startup();
  starting.catch(() => undefined);
  await entered.promise;
  await app.shutdown();
  await assert.rejects(starting, /shutting down/);
});

test('two applications can register plugins of the same name, and share no state', async () => {
  const key = stateKey<string>('owner');
  const make = (owner: string): Svc => {
    const { app } = application();
    app.register(plugin('same', { register: (host) => host.provide(key, () => owner) }));
    app.get('/', ({ state }) => state.get(key));
    return app;
  };
  await using one = new TestClient(make('one'));
  await using two = new TestClient(make('two'));
  assert.equal(await (await one.get('/')).text(), 'one');
  assert.equal(await (await two.get('/')).text(), 'two');
});
