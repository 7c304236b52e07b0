/**
 * Hostile input for sessions: sizes, numbers and nestings that cannot be stored, and requests concurrent with a logout.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CSRFMiddleware, MemoryRecordStore, SessionMiddleware, csrfToken } from 'svc';
import { ManualClock } from 'svc/testing';
import { Site, stored } from '../../support/session-site.ts';
import type { Flash, HttpRequest, SessionOptions } from 'svc';
import type { SiteOptions } from '../../support/session-site.ts';

/** Options of both kinds of storage: in a cookie, and in a store. */
const KEPT: readonly (readonly [how: string, options: (session?: SessionOptions) => SiteOptions])[] = [
  ['in the cookie', (session = {}) => ({ session })],
  ['encrypted in the cookie', (session = {}) => ({ session: { encrypt: true, ...session } })],
  ['in a store', (session = {}) => stored(new ManualClock(), session)],
];

const login = (req: HttpRequest): void => {
  req.session.regenerate();
  req.session.set('user', 'ada');
};
const flashes = (req: HttpRequest): readonly Flash[] => req.session.takeFlashes();

for (const [how, options] of KEPT) {
  test(`a flash message of 3,000 characters from a client is shortened to 500, without splitting a character (${how})`, async () => {
    await using site = new Site(options());
    for (const [text, expected] of [
      ['x'.repeat(3_000), `${'x'.repeat(499)}…`],
      ['x'.repeat(500), 'x'.repeat(500)],
      [`${'x'.repeat(498)}😀😀`, `${'x'.repeat(498)}…`],
    ] as const) {
      assert.equal((await site.visit((req) => req.session.flash('error', text))).status, 204);
      assert.deepEqual(await site.ask(flashes), [{ kind: 'error', text: expected }]);
    }
  });

  test(`if a session cannot store JSON that a client has sent, the response is a 400, and the log names the key (${how})`, async () => {
    for (const json of [
      '1e999',
      '{"a":[-1e999]}',
      '['.repeat(500) + ']'.repeat(500),
      '{"a":'.repeat(101) + '1' + '}'.repeat(101),
    ]) {
      await using site = new Site(options());
      const store = async (req: HttpRequest): Promise<void> => {
        req.session.set('kept', 1);
        req.session.set('thing', await req.json());
      };
      const request = { method: 'POST', body: json, headers: { 'content-type': 'application/json' } };
      const response = await site.visit(store, request);
      assert.deepEqual(
        [response.status, ((await response.json()) as { code: string }).code],
        [400, 'session_value'],
        json.slice(0, 20),
      );
      const [line, ...more] = site.audited('session_not_kept');
      const error = line!['error'] as { code: string; message: string };
      assert.deepEqual(
        [error.code, /Cannot store "thing"/.test(error.message), line!['route'], more],
        ['E_SESSION_VALUE', true, '/', []],
      );
      assert.deepEqual(await site.ask((req) => [req.session.get('kept'), req.session.get('thing') ?? null]), [
        1,
        null,
      ]);
      const inPlace = await site.visit(async (req) => {
        req.session.set('list', []);
        (req.session.get('list') as unknown[]).push(await req.json());
      }, request);
      assert.equal(inPlace.status, 400);
      assert.deepEqual(inPlace.headers.getSetCookie(), []);
    }
  });
}

for (const count of [1, 4, 5, 6, 7, 9])
  test(`a session cookie has room for the newest five of ${count} long flash messages, and the values are kept`, async () => {
    await using site = new Site();
    await site.visit((req) => {
      req.session.set('user', 'ada');
      for (let number = 0; number < count; number++) req.session.flash('info', `${number}${'x'.repeat(499)}`);
    });
    const kept = (await site.ask(flashes)) as Flash[];
    assert.deepEqual(
      kept.map(({ text }) => text[0]),
      Array.from({ length: count }, (_, number) => String(number)).slice(-5),
    );
    assert.equal(await site.ask((req) => req.session.get('user')), 'ada');
  });

test('if a session cookie has room for only one of two flash messages, the newer one is kept', async () => {
  await using site = new Site();
  await site.visit((req) => {
    req.session.set('text', 'x'.repeat(1_500));
    for (const number of [0, 1]) req.session.flash('info', `${number}${'\0'.repeat(200)}`);
  });
  assert.deepEqual(
    ((await site.ask(flashes)) as Flash[]).map(({ text }) => text[0]),
    ['1'],
  );
});

test('if the values of a session fill its cookie, a flash message is dropped; if the values do not fit, the response is a 413', async () => {
  await using site = new Site();
  await site.visit((req) => {
    req.session.set('text', 'x'.repeat(2_700));
    req.session.flash('info', '\0'.repeat(500));
  });
  assert.deepEqual(await site.ask((req) => [flashes(req), String(req.session.get('text')).length]), [
    [],
    2_700,
  ]);
  const response = await site.visit((req) => {
    req.session.set('more', 'x'.repeat(2_700));
    req.session.flash('info', 'y');
  });
  assert.equal(response.status, 413);
  assert.deepEqual(response.headers.getSetCookie(), []);
  assert.equal(await site.ask((req) => req.session.get('more')), null);
});

test('a session record in a store has a maximum size, and its oldest flash messages are dropped to stay within it', async () => {
  await using site = new Site(stored(new ManualClock()));
  await site.visit((req) => {
    req.session.set('text', 'x'.repeat(999_000));
    for (let number = 0; number < 4; number++) req.session.flash('info', `${number}${'x'.repeat(400)}`);
  });
  assert.deepEqual(
    ((await site.ask(flashes)) as Flash[]).map(({ text }) => text[0]),
    ['2', '3'],
  );
});

test('a session in a cookie is renewed if a page navigation reads it, but not if a fetch() of a script does', async () => {
  await using site = new Site({ session: { maxAgeSeconds: 1_000 } });
  await site.visit(login);
  await site.wait(200);
  const read = async (
    mode: string | undefined,
    act: (req: HttpRequest) => unknown = (req) => req.session.get('user'),
  ): Promise<number> =>
    (
      await site.visit(act, { headers: mode === undefined ? {} : { 'sec-fetch-mode': mode } })
    ).headers.getSetCookie().length;
  for (const mode of ['cors', 'same-origin', 'no-cors', 'websocket', ''])
    assert.equal(await read(mode), 0, mode);
  assert.equal(await read('cors', (req) => req.session.set('n', 1)), 1);
  await site.wait(200);
  assert.equal(await read('navigate'), 1);
  await site.wait(200);
  assert.equal(await read(undefined), 1);
});

test('a request that reads a session in a cookie, and ends after a logout, does not restore the session', async () => {
  await using site = new Site({ session: { maxAgeSeconds: 1_000 } });
  await site.visit(login);
  await site.wait(200);
  const { promise: left, resolve: leave } = Promise.withResolvers<undefined>();
  const { promise: read, resolve: hasRead } = Promise.withResolvers<undefined>();
  const slow = site.visit(
    async (req) => {
      req.session.get('user');
      hasRead(undefined);
      await left;
      return 'read';
    },
    { headers: { 'sec-fetch-mode': 'cors' } },
  );
  await read;
  await site.visit((req) => req.session.destroy());
  leave(undefined);
  assert.deepEqual((await slow).headers.getSetCookie(), []);
  assert.equal(await site.ask((req) => req.session.get('user')), null);
});

test('a session in a store is also renewed by requests of scripts, because a logout deletes the stored record', async () => {
  await using site = new Site(stored(new ManualClock(), { maxAgeSeconds: 1_000 }));
  await site.visit(login);
  await site.wait(200);
  assert.equal(
    (
      await site.visit((req) => req.session.get('user'), { headers: { 'sec-fetch-mode': 'cors' } })
    ).headers.getSetCookie().length,
    1,
  );
});

for (const isStored of [false, true]) {
  test(`session cookies with the same name but different paths or domains are separate sessions (in a store: ${isStored})`, async () => {
    const store = isStored ? { store: new MemoryRecordStore() } : {};
    const [admin, shop, domain, plain] = [
      { path: '/admin' },
      { path: '/shop' },
      { path: '/admin', domain: 'a.example' },
      {},
    ].map((more) => new SessionMiddleware({ ...store, cookie: { name: 'sid', ...more } }));
    await using site = new Site({ isWithoutSession: true });
    const layers = { admin, shop, domain, plain };
    for (const [name, layer] of Object.entries(layers)) {
      site.app
        .post(`/${name}`, { use: [layer!] }, ({ req }) => login(req))
        .get(`/${name}`, { use: [layer!] }, ({ req }) => ({ user: req.session.get('user') ?? null }));
    }
    for (const from of Object.keys(layers)) {
      const [field] = (await site.client.post(`/${from}`)).headers.getSetCookie();
      const cookie = field!.split(';')[0]!;
      for (const to of Object.keys(layers)) {
        site.client.cookies.clear();
        assert.deepEqual(
          await (await site.client.get(`/${to}`, { headers: { cookie } })).json(),
          { user: from === to ? 'ada' : null },
          `${from} at ${to}`,
        );
      }
    }
  });
}

test('in production, a CSRF cookie that is set without TLS and without a TLS proxy causes one warning in the log', async () => {
  await using site = new Site({ env: 'production', use: [new CSRFMiddleware()] });
  await site.visit((req) => csrfToken(req), { headers: { 'x-forwarded-proto': 'https' } });
  assert.deepEqual(site.audited('session_cookie_without_tls'), []);
  for (let round = 0; round < 2; round++) {
    site.client.cookies.clear();
    await site.visit((req) => csrfToken(req));
  }
  await site.visit(login);
  assert.deepEqual(
    site.audited('session_cookie_without_tls').map(({ name, level }) => [name, level]),
    [
      ['__Host-svc_csrf', 'warn'],
      ['__Host-svc_session', 'warn'],
    ],
  );
});

test('a CSRF cookie causes no warning in the log if it is set over TLS, or if the application is not in production', async () => {
  for (const options of [{ env: 'test' }, { env: 'production', baseUrl: 'https://a.example' }] as const) {
    await using site = new Site({ ...options, use: [new CSRFMiddleware()] });
    await site.visit((req) => csrfToken(req));
    await site.visit(login);
    assert.deepEqual(site.audited('session_cookie_without_tls'), []);
  }
});
