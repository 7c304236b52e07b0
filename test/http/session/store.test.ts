/**
 * Sessions in a store: concurrent requests of one session, and stores that are full, slow or lose records.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryRecordStore, StoreFull, SvcError } from 'svc';
import { ManualClock } from 'svc/testing';
import { TransportRequest } from '../../../src/http/request/request.ts';
import { Site, SlowStore, stored } from '../../support/session-site.ts';
import type { Flash, HttpRequest, RecordStore } from 'svc';

/** Makes a site with a session store that waits a turn of the event loop in every call. */
function slowSite(options: { readonly encrypt?: boolean } = {}): {
  site: Site;
  store: SlowStore;
  records: MemoryRecordStore;
} {
  const { clock, store: records } = stored(new ManualClock());
  const store = new SlowStore(records);
  return { site: new Site({ clock, session: { store, ...options } }), store, records };
}

/** Makes a gate that opens when `count` handlers wait at it, so that their requests overlap. */
function gate(count: number): { pass(): Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting = 0;
  return {
    pass() {
      if (++waiting === count) resolve();
      return promise;
    },
  };
}

/** Two concurrent requests of one session: one logs out while the handler of the other runs. Returns both responses, the logout first. */
async function overtaken(
  site: Site,
  act: (req: HttpRequest) => void,
): Promise<readonly [out: Response, other: Response]> {
  const open = gate(2);
  const headers = { cookie: `svc_session=${site.client.cookies.get('svc_session')}` };
  const out = site.visit(
    async (req) => {
      await open.pass();
      req.session.destroy();
    },
    { headers },
  );
  return Promise.all([
    out,
    site.visit(
      async (req) => {
        await open.pass();
        await out;
        act(req);
      },
      { headers },
    ),
  ]);
}

for (const encrypt of [false, true]) {
  test(`if concurrent requests of one session save different keys, every key is kept (encrypted: ${encrypt})`, async () => {
    const { site, store } = slowSite({ encrypt });
    await using _site = site;
    await site.visit((req) => {
      req.session.set('shared', 'first');
      req.session.set('old', 1);
    });
    const open = gate(20);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        site.visit(async (req) => {
          await open.pass();
          req.session.set(`key${index}`, index);
          if (index === 7) req.session.delete('old');
          if (index === 9) req.session.flash('info', 'nine');
        }),
      ),
    );
    assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [204]);
    const seen = await site.ask((req) => [
      req.session.get('shared'),
      req.session.get('old') ?? null,
      Array.from({ length: 20 }, (_, index) => req.session.get(`key${index}`)),
      req.session.takeFlashes(),
    ]);
    assert.deepEqual(seen, [
      'first',
      null,
      Array.from({ length: 20 }, (_, index) => index),
      [{ kind: 'info', text: 'nine' }],
    ]);
    assert.ok(store.calls.filter((call) => call === 'replace').length > 20); // some had to try again
  });
}

test('if concurrent requests read a flash message, the message is removed, and a message that was added meanwhile stays', async () => {
  const { site } = slowSite();
  await using _site = site;
  await site.visit((req) => req.session.flash('info', 'one'));
  const open = gate(3);
  await Promise.all(
    [0, 1, 2].map((index) =>
      site.visit(async (req) => {
        await open.pass();
        if (index === 2) req.session.flash('info', 'two');
        else req.session.takeFlashes();
      }),
    ),
  );
  assert.deepEqual(await site.ask((req) => req.session.takeFlashes()), [{ kind: 'info', text: 'two' }]);
});

for (const [what, others, rest] of [
  ['adds nothing', [], []],
  ['adds an equal message', [(req) => req.session.flash('info', 'one')], ['info one']],
  ['adds the text with another kind', [(req) => req.session.flash('error', 'one')], ['error one']],
  ['adds another text', [(req) => req.session.flash('info', 'two')], ['info two']],
  ['has taken the message', [(req) => req.session.takeFlashes()], []],
  [
    'has taken the message, and adds the text with another kind',
    [(req) => req.session.takeFlashes(), (req) => req.session.flash('error', 'one')],
    ['error one'],
  ],
  [
    'has taken the message, and adds two texts',
    [
      (req) => req.session.takeFlashes(),
      (req) => {
        req.session.flash('info', 'two');
        req.session.flash('info', 'three');
      },
    ],
    ['info two', 'info three'],
  ],
] as readonly [string, readonly ((req: HttpRequest) => unknown)[], readonly string[]][]) {
  test(`a request that takes a flash message removes only this message if a concurrent request ${what}`, async () => {
    const { site } = slowSite();
    await using _site = site;
    await site.visit((req) => req.session.flash('info', 'one'));
    const hasTaken = Promise.withResolvers<void>();
    const othersHaveEnded = Promise.withResolvers<void>();
    const taking = site.visit(async (req) => {
      assert.deepEqual(req.session.takeFlashes(), [{ kind: 'info', text: 'one' }]);
      hasTaken.resolve();
      await othersHaveEnded.promise;
    });
    await hasTaken.promise;
    for (const act of others) await site.visit((req) => void act(req));
    othersHaveEnded.resolve();
    assert.equal((await taking).status, 204);
    const left = (await site.ask((req) => req.session.takeFlashes())) as Flash[];
    assert.deepEqual(
      left.map(({ kind, text }) => `${kind} ${text}`),
      rest,
    );
  });
}

test('if a concurrent request has destroyed a session, a later change does not restore the session', async () => {
  const { site, records } = slowSite();
  await using _site = site;
  await site.visit((req) => req.session.set('user', 'ada'));
  const [out, changed] = await overtaken(site, (req) => req.session.set('late', 1));
  assert.deepEqual([changed.headers.getSetCookie(), out.headers.getSetCookie().length], [[], 1]);
  assert.equal(records.size, 0);
});

test('if a concurrent request has ended the session, session.regenerate() keeps only values that the current request has set', async () => {
  const { site, records } = slowSite();
  await using _site = site;
  await site.visit((req) => req.session.set('user', 'ada'));
  const [, login] = await overtaken(site, (req) => {
    req.session.regenerate();
    req.session.set('mine', 1);
  });
  assert.equal(login.headers.getSetCookie().length, 1);
  assert.deepEqual(await site.ask((req) => [req.session.get('user') ?? null, req.session.get('mine')]), [
    null,
    1,
  ]);
  await site.visit((req) => req.session.destroy());
  assert.equal(records.size, 0);
  site.client.cookies.clear();
  await site.visit((req) => req.session.set('user', 'ada'));
  const [, rotated] = await overtaken(site, (req) => req.session.regenerate());
  assert.deepEqual(rotated.headers.getSetCookie(), []);
  assert.equal(records.size, 0);
});

test('the session store is read only if the cookie is valid, and written only if the session changes', async () => {
  const { site, store } = slowSite();
  await using _site = site;
  const calls = async (act: (req: HttpRequest) => unknown, cookie?: string): Promise<string[]> => {
    store.calls.length = 0;
    await site.visit(act, cookie === undefined ? {} : { headers: { cookie } });
    return [...store.calls];
  };
  assert.deepEqual(await calls((req) => req.session.get('a')), []);
  assert.deepEqual(await calls(() => null, 'svc_session=forged'), []);
  assert.deepEqual(await calls((req) => req.session.set('a', 1)), ['add']);
  assert.deepEqual(await calls(() => null), ['get']);
  assert.deepEqual(await calls((req) => req.session.get('a')), ['get']);
  assert.deepEqual(await calls((req) => req.session.set('a', 2)), ['get', 'replace']);
  assert.deepEqual(await calls((req) => req.session.regenerate()), ['get', 'delete', 'add']);
  assert.deepEqual(await calls((req) => req.session.destroy()), ['get', 'delete']);
});

test('if the session store is full, a request that needs a new session is answered with 503, and other requests succeed', async () => {
  const clock = new ManualClock();
  await using site = new Site({ clock, session: { store: new MemoryRecordStore({ clock, maxRecords: 1 }) } });
  await site.visit((req) => req.session.set('user', 'ada'));
  const first = `svc_session=${site.client.cookies.get('svc_session')}`;
  site.client.cookies.clear();
  const full = await site.visit((req) => req.session.set('user', 'bob'));
  assert.deepEqual([full.status, full.headers.getSetCookie()], [503, []]);
  assert.equal(await site.ask((req) => req.session.get('user') ?? null), null);
  assert.equal(await site.ask((req) => req.session.get('user'), { headers: { cookie: first } }), 'ada');
});

test('if concurrent requests keep changing a session, a further change ends with 503 and Retry-After instead of an endless loop', async () => {
  const clock = new ManualClock();
  const records = new MemoryRecordStore({ clock });
  const busy: RecordStore = {
    get: (key) => records.get(key),
    set: (key, value, ttlMs) => records.set(key, value, ttlMs),
    add: (key, value, ttlMs) => records.add(key, value, ttlMs),
    delete: (key) => records.delete(key),
    replace: () => false,
  };
  await using site = new Site({ clock, session: { store: busy } });
  await site.visit((req) => req.session.set('a', 1));
  const response = await site.visit((req) => req.session.set('a', 2));
  assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '1']);
});

const CALLS: readonly (keyof RecordStore)[] = ['get', 'add', 'replace', 'delete'];

/** A store in memory. The calls whose names are in `failing` throw `error`. */
function breakable(clock: ManualClock, error: () => Error): { store: RecordStore; failing: Set<string> } {
  const records = new MemoryRecordStore({ clock });
  const failing = new Set<string>();
  const store = new Proxy(records, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (failing.has(String(name))) throw error();
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { store, failing };
}

const refused = (): Error => new Error('connection refused');

test('if the session store fails, a request that does not use the session is answered as usual', async () => {
  const clock = new ManualClock();
  const { store, failing } = breakable(clock, refused);
  await using site = new Site({ clock, session: { store } });
  await site.visit((req) => req.session.set('a', 1));
  for (const call of CALLS) failing.add(call);
  const response = await site.visit(() => 'public');
  assert.deepEqual(
    [response.status, response.headers.getSetCookie(), await response.text()],
    [200, [], 'public'],
  );
  failing.clear();
  assert.equal(await site.ask((req) => req.session.get('a')), 1);
});

for (const [what, call, use] of [
  ['reads the session', 'get', (req) => req.session.get('a')],
  ['asks whether the session is new', 'get', (req) => req.session.isNew],
  ['reads the id', 'get', (req) => req.session.id],
  ['takes flash messages', 'get', (req) => req.session.takeFlashes()],
  ['changes a value', 'get', (req) => req.session.set('a', 2)],
  ['ends the session', 'get', (req) => req.session.destroy()],
  ['changes a value', 'replace', (req) => req.session.set('a', 2)],
  ['changes an object', 'replace', (req) => (req.session.get('list') as number[]).push(2)],
  ['rotates the session', 'delete', (req) => req.session.regenerate()],
  ['rotates the session', 'add', (req) => req.session.regenerate({ keep: ['a'] })],
  ['ends the session', 'delete', (req) => req.session.destroy()],
] as readonly [string, keyof RecordStore, (req: HttpRequest) => unknown][]) {
  // after the handler, a repeated request might do its work twice, so the response does not ask for one
  const isRead = call === 'get';
  for (const [error, make, status] of [
    ['an error of the network', refused, isRead ? 503 : 500],
    ['a full store', () => new StoreFull(), 503],
    ['a mistake in the program', () => new SvcError('E_DB_NESTED', ['x']), 500],
  ] as const) {
    test(`if ${call}() of the session store fails by ${error}, a handler that ${what} gets ${status}`, async () => {
      const clock = new ManualClock();
      const { store, failing } = breakable(clock, make);
      await using site = new Site({ clock, session: { store } });
      await site.visit((req) => {
        req.session.set('a', 1);
        req.session.set('list', [1]);
      });
      failing.add(call);
      const response = await site.visit((req) => void use(req));
      assert.deepEqual([response.status, response.headers.getSetCookie()], [status, []]);
      if (make === refused) assert.equal(response.headers.get('retry-after'), isRead ? '1' : null);
      assert.ok(!(await response.text()).includes('refused'));
    });
  }
}

test('a response of a handler that caught the failure of the session store has Vary: Cookie', async () => {
  const clock = new ManualClock();
  const { store, failing } = breakable(clock, refused);
  await using site = new Site({ clock, session: { store } });
  await site.visit((req) => req.session.set('a', 1));
  failing.add('get');
  const response = await site.visit((req) => {
    try {
      return req.session.get('a');
    } catch {
      return 'logged out';
    }
  });
  assert.deepEqual(
    [response.status, response.headers.get('vary'), await response.text()],
    [200, 'Cookie', 'logged out'],
  );
});

test('a session store that fails is logged once a minute, also if no handler uses the session', async () => {
  const clock = new ManualClock();
  const { store, failing } = breakable(clock, refused);
  await using site = new Site({ clock, session: { store } });
  await site.visit((req) => req.session.set('a', 1));
  failing.add('get');
  const logged = (): number => site.events.filter(({ event }) => event === 'session_store_failed').length;
  for (const [seconds, count] of [
    [0, 1],
    [59, 1],
    [1, 2],
  ] as const) {
    await site.wait(seconds);
    assert.equal((await site.visit(() => 'public')).status, 200);
    assert.equal(logged(), count, `${seconds}`);
  }
});

for (const [what, record] of [
  ['no JSON', 'nonsense'],
  ['no object', '5'],
  ['null', 'null'],
  ['no values', '{"b":1}'],
  ['invalid values', '{"b":1,"v":null}'],
  ['no birth', '{"v":{}}'],
  ['an id that is a number', '{"i":5,"b":1,"v":{}}'],
  ['invalid flash messages', '{"b":1,"v":{},"f":{}}'],
] as const) {
  test(`a session record with invalid content (${what}) gives an empty session`, async () => {
    const options = stored(new ManualClock());
    const keys: string[] = [];
    const { add } = options.store;
    options.store.add = function (key, value, ttlMs) {
      keys.push(key);
      return add.call(this, key, value, ttlMs);
    };
    await using site = new Site(options);
    await site.visit((req) => req.session.set('a', 1));
    options.store.set(keys[0]!, record, 1_000_000);
    assert.equal(await site.ask((req) => req.session.isNew), true);
    assert.equal(site.audited('session_rejected').length, 1);
  });
}

test('invalid entries in a record of flash messages are skipped', async () => {
  const options = stored(new ManualClock());
  const keys: string[] = [];
  const { add } = options.store;
  options.store.add = function (key, value, ttlMs) {
    keys.push(key);
    return add.call(this, key, value, ttlMs);
  };
  await using site = new Site(options);
  await site.visit((req) => req.session.set('a', 1));
  options.store.set(
    keys[0]!,
    `{"b":${options.clock.nowMs() / 1_000},"v":{},"f":[["info","yes"],5]}`,
    1_000_000,
  );
  assert.deepEqual(await site.ask((req) => req.session.takeFlashes()), [{ kind: 'info', text: 'yes' }]);
});

test('if no handler of an application uses the session, SessionMiddleware parses no cookies', async () => {
  await using site = new Site();
  let reads = 0;
  const original = Object.getOwnPropertyDescriptor(TransportRequest.prototype, 'cookies')!;
  Object.defineProperty(TransportRequest.prototype, 'cookies', {
    ...original,
    get(this: TransportRequest) {
      reads++;
      return original.get!.call(this) as unknown;
    },
  });
  try {
    await site.visit(() => null, { headers: { cookie: 'svc_session=forged' } });
    assert.equal(reads, 0);
    assert.deepEqual(site.audited('session_rejected'), []);
    await site.visit((req) => req.session.get('a'), { headers: { cookie: 'svc_session=forged' } });
    assert.equal(reads, 1);
  } finally {
    Object.defineProperty(TransportRequest.prototype, 'cookies', original);
  }
});
