/** Plugins that a test client replaces: which of them start, and which values the application reads. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import test from 'node:test';
import {
  Depends,
  SessionMiddleware,
  Svc,
  createLogger,
  provide,
  requireSession,
  stateKey,
} from '../../src/index.ts';
import {
  DatabasePlugin,
  DatabaseRecordStore,
  RedisPlugin,
  RedisRateLimitStore,
  db,
  openDatabase,
  redis,
  transaction,
} from '../../src/db/index.ts';
import { OAuthPlugin, currentUser } from '../../src/oauth/index.ts';
import { DevProvider, TestClient } from '../../src/testing/index.ts';
import { fault } from '../contract/database.ts';
import { folder } from '../support/run.ts';
import { turn } from '../support/turn.ts';
import type { Session } from '../../src/db/index.ts';
import type { Host, Plugin, StateKey } from '../../src/index.ts';

class Service {
  readonly #name: string;
  constructor(name: string) {
    this.#name = name;
  }
  name(): string {
    return this.#name;
  }
  other(): string {
    return this.#name;
  }
}

interface ProvidingPlugin extends Plugin {
  readonly key: StateKey<Service>;
  readonly calls: string[];
}

/** Returns a plugin that provides a service, and notes its starts and stops. */
function providing(
  name: string,
  register?: (host: Host) => void,
  parts: Partial<Plugin> = {},
): ProvidingPlugin {
  const key = stateKey<Service>(name);
  const calls: string[] = [];
  return {
    name,
    key,
    calls,
    register(host) {
      host.provide(key, () => new Service(calls.at(-1) === 'start' ? `real ${name}` : 'closed'), Service);
      host.readiness(name, () => {
        if (calls.at(-1) !== 'start') throw new Error('not open');
      });
      register?.(host);
    },
    startup: () => void calls.push('start'),
    shutdown: () => void calls.push('stop'),
    ...parts,
  };
}

function application(...plugins: Plugin[]): Svc {
  const app = new Svc({ env: 'test', logger: createLogger({ sink: () => undefined }) });
  for (const plugin of plugins) app.register(plugin);
  return app;
}

const fake = (name = 'fake') => ({ name: () => name });

/** The routes of an application, and whether a client that replaces the service still starts the plugin. */
const NEEDS: readonly (readonly [
  string,
  boolean,
  (app: Svc, service: StateKey<Service>) => void,
  Parameters<typeof providing>[1]?,
  Partial<Plugin>?,
])[] = [
  [
    'its value is a dependency of a route',
    false,
    (app, key) => app.get('/a', { it: Depends(key) }, ({ it }) => it.name()),
  ],
  [
    'its value is a dependency of a dependency',
    false,
    (app, key) =>
      app.get('/a', { it: Depends(provide({ it: Depends(key) }, ({ it }) => it.name())) }, ({ it }) => it),
  ],
  [
    'its value is read from the state of a request',
    false,
    (app, key) => app.get('/a', ({ state }) => state.get(key).name()),
  ],
  [
    'its value is read from the state of the application',
    false,
    (app, key) => app.get('/a', () => app.state.get(key).name()),
  ],
  [
    'its value is a dependency of an MCP tool',
    false,
    (app, key) => app.tool('a', { it: Depends(key), description: 'x' }, ({ it }) => it.name()),
  ],
  ['nothing reads its value', false, () => undefined],
  [
    'a route needs another of its values',
    true,
    (app) => app.get('/b', { it: Depends(OTHER) }, ({ it }) => it),
    (host) => host.provide(OTHER, () => 'other'),
  ],
  [
    'only its own rules read another of its values',
    false,
    () => undefined,
    (host) => host.provide(OTHER, () => 'other'),
  ],
  [
    'it has added a route',
    true,
    () => undefined,
    (host) => host.routes.route('/own', ['GET'], {}, () => 'own'),
  ],
  [
    'it has added a middleware',
    true,
    () => undefined,
    (host) => host.use({ handle: (_req, next) => next() }),
  ],
  ['the program holds its object', true, () => undefined, undefined, { isHeld: true }],
];

const OTHER = stateKey<string>('other');

for (const [when, starts, declare, register, parts] of NEEDS)
  test(`a client that replaces the value of a plugin ${starts ? 'starts' : 'does not start'} the plugin if ${when}`, async () => {
    const service = providing('service', register, parts);
    const app = application(service);
    declare(app, service.key);
    const client = new TestClient(app, { overrides: [[service.key, () => fake()]] });
    const response = await client.get('/a');
    if (response.status === 200) assert.equal(await response.text(), 'fake');
    const ready = await client.get('/readyz');
    assert.equal(ready.status, 200, await ready.text());
    await client.close();
    assert.deepEqual(service.calls, starts ? ['start', 'stop'] : []);
  });

test('a client without replacements starts every plugin', async () => {
  const service = providing('service');
  const app = application(service);
  await using client = new TestClient(app, { overrides: [[() => 1, () => 2]] });
  await client.get('/');
  assert.deepEqual(service.calls, ['start']);
});

test('while a client replaces a plugin, other plugins and hooks read its replacement', async () => {
  const service = providing('service');
  const seen: string[] = [];
  let host: Host | undefined;
  const dependent = providing('dependent', (own) => void (host = own), {
    requires: ['service'],
    startup: () => void seen.push(host!.get(service.key).name()),
  });
  const app = application(dependent, service);
  app.onStartup(() => void seen.push(app.state.get(service.key).name()));
  await using client = new TestClient(app, { overrides: [[service.key, () => fake()]] });
  await client.get('/');
  assert.deepEqual([seen, service.calls], [['fake', 'fake'], []]);
});

test('a later client that needs the plugin starts it, and the state then has the value of the plugin', async () => {
  const service = providing('service');
  const app = application(service);
  app.get('/dependency', { it: Depends(service.key) }, ({ it }) => it.name());
  app.get('/state', () => app.state.get(service.key).name());
  const texts = async (client: TestClient): Promise<string[]> =>
    await Promise.all(['/dependency', '/state'].map(async (path) => (await client.get(path)).text()));
  const replacing = new TestClient(app, { overrides: [[service.key, () => fake()]] });
  assert.deepEqual(await texts(replacing), ['fake', 'fake']);
  const plain = new TestClient(app);
  const [first, second] = await Promise.all([texts(plain), texts(plain)]);
  assert.deepEqual(
    [first, second],
    [
      ['real service', 'real service'],
      ['real service', 'real service'],
    ],
  );
  assert.deepEqual(await texts(replacing), ['fake', 'real service']);
  await replacing.close();
  await plain.close();
  assert.deepEqual(service.calls, ['start', 'stop']);
  await using again = new TestClient(app, { overrides: [[service.key, () => fake('again')]] });
  assert.deepEqual(await texts(again), ['again', 'again']);
  assert.deepEqual(service.calls, ['start', 'stop']);
});

test('after a client that replaces a plugin, startup() of the application starts the plugin', async () => {
  const service = providing('service');
  const app = application(service);
  const client = new TestClient(app, { overrides: [[service.key, () => fake()]] });
  await client.get('/');
  await app.startup();
  assert.deepEqual(service.calls, ['start']);
  assert.equal(app.state.get(service.key).name(), 'real service');
  await client.close();
  assert.deepEqual(service.calls, ['start', 'stop']);
});

test('if a plugin fails to start for a later client, only this client rejects', async () => {
  let isBroken = true;
  const service = providing('service', undefined, {
    startup: () => {
      if (isBroken) throw new Error('unreachable');
    },
  });
  const app = application(service);
  app.get('/', () => app.state.get(service.key).name());
  await using replacing = new TestClient(app, { overrides: [[service.key, () => fake()]] });
  assert.equal(await (await replacing.get('/')).text(), 'fake');
  await using plain = new TestClient(app);
  await assert.rejects(plain.get('/'), /unreachable/);
  assert.equal(await (await replacing.get('/')).text(), 'fake');
  isBroken = false;
  await using third = new TestClient(app);
  assert.equal((await third.get('/')).status, 200);
});

test('a replacement that lacks a member of the value throws E_REPLACEMENT with the name of the member', async () => {
  const service = providing('service');
  const app = application(service);
  app.get('/', { it: Depends(service.key) }, ({ it }) => it.other());
  app.get('/feature', { it: Depends(service.key) }, ({ it }) =>
    JSON.stringify([it, 'unknown' in it, (it as never)['unknown'] ?? 0]),
  );
  for (const replacement of [() => fake(), async () => fake()]) {
    await using client = new TestClient(app, { overrides: [[service.key, replacement]] });
    await assert.rejects(client.get('/'), (error: Error) => {
      assert.ok(fault('E_REPLACEMENT')(error));
      assert.match(error.message, /replacement of "service".*no member "other"/);
      return true;
    });
    assert.deepEqual(await (await client.get('/feature')).json(), [{}, false, 0]);
  }
  await using real = new TestClient(app, { overrides: [[service.key, () => new Service('private')]] });
  assert.equal(await (await real.get('/')).text(), 'private');
});

test('a replacement by a promise serves Depends(), and throws E_REPLACEMENT where the state is read', async () => {
  const service = providing('service');
  const app = application(service);
  app.get('/', { it: Depends(service.key) }, ({ it }) => it.name());
  app.get('/state', ({ state }) => state.get(service.key).name());
  await using client = new TestClient(app, { overrides: [[service.key, async () => fake()]] });
  assert.equal(await (await client.get('/')).text(), 'fake');
  await assert.rejects(client.get('/state'), fault('E_REPLACEMENT'));
});

test('a replacement that reads the value that it replaces throws E_REPLACEMENT', async () => {
  const service = providing('service');
  const app = application(service);
  app.get('/', { it: Depends(service.key) }, ({ it }) => it.name());
  app.get('/state', ({ state }) => state.get(service.key).name());
  const plugin = new DatabasePlugin('sqlite::memory:');
  app.register(plugin);
  app.get('/database', { db: Depends(db) }, ({ db }) => typeof db);
  await using client = new TestClient(app, {
    overrides: [
      [service.key, ({ state }) => state.get(service.key)],
      [db, () => plugin.database],
    ],
  });
  for (const path of ['/', '/state', '/database'])
    await assert.rejects(client.get(path), (error: Error) => {
      assert.ok(fault('E_REPLACEMENT')(error), `${path}: ${String(error)}`);
      assert.match(error.message, /reads the value that it replaces/);
      return true;
    });
});

test('a class or provide() as a replacement leaves the plugin running, because they need a request', async () => {
  for (const replacement of [class extends Service {}, provide({}, () => fake())]) {
    const service = providing('service');
    const app = application(service);
    app.get('/', { it: Depends(service.key) }, ({ it }) => typeof it.name);
    await using client = new TestClient(app, { overrides: [[service.key, replacement as never]] });
    assert.equal(await (await client.get('/')).text(), 'function');
    assert.deepEqual(service.calls, ['start']);
  }
});

test('a client that replaces the database needs no server, for routes, transactions and /readyz', async () => {
  const app = application(new DatabasePlugin('postgres://app:secret@127.0.0.1:1/none'));
  app.get('/notes', { db: Depends(db) }, ({ db }) => db.fetchAll('select id from note'));
  app.post('/notes', { tx: Depends(transaction), status: 204 }, async ({ tx }) => {
    await tx.execute('insert into note (id) values (1)');
  });
  const written: string[] = [];
  const tx = {
    execute: (text: string) => void written.push(text),
    surround: (work: () => unknown) => work(),
  };
  const database = {
    fetchAll: () => [{ id: 1 }],
    transaction: (run: (handle: typeof tx) => unknown) => run(tx),
  };
  await using client = new TestClient(app, { overrides: [[db, () => database]] });
  assert.deepEqual(await (await client.get('/notes')).json(), [{ id: 1 }]);
  assert.equal((await client.post('/notes')).status, 204);
  assert.deepEqual(written, ['insert into note (id) values (1)']);
  assert.equal((await client.get('/readyz')).status, 200);
});

test('a transaction in place of the database holds the rows of handlers, onUser, logins and record stores', async (t) => {
  const url = `sqlite:${join(folder(t), 'shop.db')}`;
  const app = new Svc({
    env: 'test',
    authSecret: randomUUID() + randomUUID(),
    logger: createLogger({ level: 'silent' }),
  });
  const plugin = new DatabasePlugin(url);
  app.register(plugin);
  const dev = new DevProvider({ env: app.env, redirectUris: ['/oauth/callback'] });
  const onUser = async (_provider: string, { subject }: { readonly subject: string }): Promise<string> => {
    await app.state.db.execute(
      'insert into record (record_key, record_value, deadline_ms) values (?, ?, 1)',
      [subject, ''],
    );
    return subject;
  };
  app.register(new OAuthPlugin({ provider: dev.mount(app), mode: 'cookie', onUser }));
  new DatabaseRecordStore(plugin, { table: 'record' });
  app.use(new SessionMiddleware({ store: new DatabaseRecordStore(plugin, { table: 'session_record' }) }));
  app.get('/me', { me: Depends(requireSession(currentUser)), db: Depends(db) }, ({ me }) => me);
  {
    await using first = new TestClient(app); // applies the migrations
    assert.equal((await first.get('/readyz')).status, 200);
  }
  await using database = await openDatabase(url);
  const tables = ['record', 'session_record', 'svc_oauth_login'];
  const countsIn = (session: Session): Promise<unknown[]> =>
    Promise.all(tables.map(async (table) => Number(await session.scalar(`select count(*) from ${table}`))));
  assert.deepEqual(await countsIn(database), [0, 0, 0]);
  const done = new Error('rolled back');
  const work = database.transaction(async (tx) => {
    await using client = new TestClient(app, { overrides: [[db, () => tx]] });
    const location = (await client.get('/oauth/login')).headers.get('location') ?? '';
    assert.equal((await client.get(await dev.pick(location, 'ada'))).status, 303);
    assert.equal(await (await client.get('/me')).text(), 'ada');
    assert.deepEqual(await countsIn(tx), [1, 1, 1]);
    throw done;
  });
  await assert.rejects(work, done);
  assert.deepEqual(await countsIn(database), [0, 0, 0]);
  assert.throws(() => plugin.database, fault('E_DB_CLOSED'));
});

test('a client that replaces Redis needs no server; the plugin is held once the program has read its client', async () => {
  const address = 'redis://127.0.0.1:1';
  const app = application(new RedisPlugin(address));
  app.get('/', { redis: Depends(redis) }, async ({ redis }) => String(await redis.command(['PING'])));
  await using client = new TestClient(app, { overrides: [[redis, () => ({ command: () => 'fake' })]] });
  assert.equal(await (await client.get('/')).text(), 'fake');
  const plugin = new RedisPlugin(address);
  assert.equal(plugin.isHeld, false);
  assert.ok(new RedisRateLimitStore(plugin.client));
  assert.equal(plugin.isHeld, true);
});

test('shutdown() also stops a plugin that is starting for a later client', async () => {
  const begun = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const service: ProvidingPlugin = providing('service', undefined, {
    startup: async () => {
      begun.resolve();
      await opened.promise;
      service.calls.push('start');
    },
  });
  const app = application(service);
  const first = new TestClient(app, { overrides: [[service.key, () => fake()]] });
  await first.get('/');
  const second = new TestClient(app);
  const starting = second.get('/').catch(() => undefined);
  await begun.promise;
  const stopping = app.shutdown();
  await turn(); // without the wait for the start, the shutdown would end in this turn
  opened.resolve();
  await Promise.all([starting, stopping]);
  assert.deepEqual(service.calls, ['start', 'stop']);
  await second.close();
  await first.close();
});
