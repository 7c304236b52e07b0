/**
 * Sessions for browsers and handlers, with both kinds of storage.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  HTTPException,
  HttpResponse,
  JSONResponse,
  MemoryRecordStore,
  SessionMiddleware,
  StreamingResponse,
  Svc,
  sessionKey,
} from 'svc';
import { ManualClock } from 'svc/testing';
import { parseCookies, serializeCookie } from '../../../src/http/cookies.ts';
import { ProtectedValues } from '../../../src/crypto/protected-values.ts';
import { loginAuthority } from '../../../src/http/state.ts';
import { Keyring } from '../../../src/crypto/keys.ts';
import { NEXT_SECRET, SECRET, Site, cookieParts, stored } from '../../support/session-site.ts';
import type { Awaitable, CookieOptions, HttpRequest, SessionCookieOptions, SessionOptions } from 'svc';
import type { SiteOptions } from '../../support/session-site.ts';

const DAY_SECONDS = 86_400;

const setUser = (req: HttpRequest): void => {
  req.session.set('user', 'ada');
};
const user = (req: HttpRequest): unknown => req.session.get('user');

/** Options of both kinds of storage: in a cookie, and in a store. */
const KEPT: readonly (readonly [how: string, options: (session?: SessionOptions) => SiteOptions])[] = [
  ['in the cookie', (session = {}) => ({ session })],
  ['in a store', (session = {}) => stored(new ManualClock(), session)],
  ['encrypted in the cookie', (session = {}) => ({ session: { encrypt: true, ...session } })],
  ['encrypted in a store', (session = {}) => stored(new ManualClock(), { encrypt: true, ...session })],
];

test('the session cookie is __Host-svc_session with Secure, HttpOnly, SameSite=Lax, Path=/ and no Domain', async () => {
  await using site = new Site({ env: 'production' });
  const [field, ...others] = (await site.visit(setUser)).headers.getSetCookie();
  const { name, attributes } = cookieParts(field!);
  assert.equal(name, '__Host-svc_session');
  assert.deepEqual(attributes, [
    'HttpOnly',
    `Max-Age=${7 * DAY_SECONDS}`,
    'Path=/',
    'SameSite=Lax',
    'Secure',
  ]);
  assert.deepEqual(others, []);
});

for (const [what, cookie] of [
  ['__Host- with another path', { name: '__Host-a', path: '/x' }],
  ['__Host- with a domain', { name: '__Host-a', domain: 'a.example' }],
  ['__Host- without Secure', { name: '__Host-a', secure: false }],
  ['__Secure- without Secure', { name: '__Secure-a', secure: false }],
  ['a prefix and nothing behind it', { name: '__Host-' }],
] as readonly (readonly [string, { readonly name: string } & CookieOptions])[]) {
  test(`SessionMiddleware and setCookie() refuse cookie options that contradict the prefix of the name: ${what}`, () => {
    assert.throws(() => new SessionMiddleware({ cookie: cookie as SessionCookieOptions }), {
      code: 'E_COOKIE',
    });
    if (what.startsWith('a prefix')) return;
    const { name, ...attributes } = cookie;
    assert.throws(() => new HttpResponse().setCookie(name, 'x', attributes), { code: 'E_COOKIE' });
  });
}

test('a cookie with SameSite=None must be Secure, and an unknown SameSite is refused', async () => {
  assert.throws(() => new SessionMiddleware({ cookie: { sameSite: 'none', secure: false } }), {
    code: 'E_COOKIE',
  });
  assert.throws(() => new HttpResponse().setCookie('a', 'x', { sameSite: 'none', secure: false }), {
    code: 'E_COOKIE',
  });
  assert.throws(
    () => new SessionMiddleware({ cookie: { sameSite: 'Lax' } as unknown as SessionCookieOptions }),
    { code: 'E_OPTION_RANGE' },
  );
  assert.throws(() => new HttpResponse().setCookie('a', 'x', { sameSite: 'Lax' as 'lax' }), {
    code: 'E_COOKIE',
  });
  await using site = new Site({ session: { cookie: { sameSite: 'none' } } });
  const { name, attributes } = cookieParts((await site.visit(setUser)).headers.getSetCookie()[0]!);
  assert.deepEqual(
    [name, attributes.slice(2)],
    ['__Host-svc_session', ['Path=/', 'SameSite=None', 'Secure']],
  );
});

test('no control character, separator or non-ASCII character of a cookie is written unencoded to Set-Cookie', () => {
  for (const character of ['\r', '\n', '\0', ';', ',', ' ', '\t', '\x7f', 'é', '"', '\\']) {
    assert.throws(() => serializeCookie(`a${character}b`, 'x'), { code: 'E_COOKIE' });
    assert.throws(() => new SessionMiddleware({ cookie: { name: `a${character}b` } }), { code: 'E_COOKIE' });
    const field = serializeCookie('a', `x${character}y`);
    assert.match(field, /^a=x(?:%[0-9A-F]{2})+y; Path=\/; HttpOnly; SameSite=Lax$/);
    assert.equal(parseCookies(field.split(';')[0])['a'], `x${character}y`);
  }
  assert.throws(() => serializeCookie('a', '\ud800'), { code: 'E_COOKIE' });
});

for (const [how, options] of KEPT) {
  test(`if a session is too large, the response is a 413, and the log names the reason and the remedy (${how})`, async () => {
    await using site = new Site(options());
    const isStored = how.includes('store');
    const large = 'x'.repeat(isStored ? 1_000_000 : 4_000);
    const response = await site.visit((req) => req.session.set('large', large));
    assert.equal(response.status, 413);
    assert.equal(((await response.json()) as { code: string }).code, 'session_too_large');
    assert.deepEqual(response.headers.getSetCookie(), []);
    const error = site.audited('session_not_kept')[0]!['error'] as Record<string, string>;
    assert.equal(error['code'], 'E_SESSION_SIZE');
    assert.match(error['remedy']!, /store: new MemoryRecordStore\(\)/);
    assert.ok(!JSON.stringify(site.events).includes('xxxxx'));
  });
}

test('a session cookie of 4,096 bytes is set, and a session cookie of 4,097 bytes is refused with the advice to use a store', async () => {
  const least = 'a'.repeat(4_090);
  assert.ok(serializeCookie('name', `${least}bb`).startsWith('name=aaa'));
  assert.throws(() => serializeCookie('name', `${least}bbb`), {
    code: 'E_COOKIE',
    message: /4097 bytes.*store the data on the server/,
  });
  await using site = new Site();
  let most = 0;
  for (let length = 2_500; length < 3_200; length++) {
    const response = await site.visit((req) => req.session.set('text', 'x'.repeat(length)));
    if (response.status !== 204) break;
    const { name, value } = cookieParts(response.headers.getSetCookie()[0]!);
    most = name.length + value.length;
  }
  assert.ok(most > 4_090 && most <= 4_096, String(most));
});

for (const [how, options] of KEPT) {
  test(`a session cookie that was changed, cut, renamed or written by another application gives an empty session, and is logged once (${how})`, async () => {
    const other = new Site({ ...options(), session: { ...options().session, secrets: NEXT_SECRET } });
    await other.visit(setUser);
    const foreign = other.client.cookies.get('svc_session')!;
    await other.client.close();
    await using site = new Site(options());
    await site.visit(setUser);
    const good = site.client.cookies.get('svc_session')!;
    const half = Math.floor(good.length / 2);
    const flipped = good.slice(0, half) + (good[half] === 'A' ? 'B' : 'A') + good.slice(half + 1);
    for (const [text, reason] of [
      [flipped, 'forged'],
      [good.slice(0, -20), /forged|malformed/],
      [good.slice(0, good.lastIndexOf('.')), 'malformed'],
      ['', 'malformed'],
      [foreign, 'unknown_key'],
    ] as const) {
      site.events.length = 0;
      await site.wait(60); // a minute has one line
      const response = await site.visit(
        (req) => [user(req) ?? 'nobody', req.session.isNew, user(req) ?? 'nobody'],
        { headers: { cookie: `svc_session=${text}` } },
      );
      assert.equal(response.status, 200);
      assert.deepEqual(await response.json(), ['nobody', true, 'nobody']);
      assert.deepEqual(response.headers.getSetCookie(), []);
      const [line, ...more] = site.audited('session_rejected');
      assert.match(String(line!['reason']), new RegExp(reason));
      assert.deepEqual([line!['level'], line!['method'], line!['route'], more], ['warn', 'GET', '/', []]);
      assert.equal(line!['request_id'], response.headers.get('x-request-id'));
      assert.ok(text === '' || !JSON.stringify(site.events).includes(text));
    }
  });

  test(`a session cookie is invalid if its value is sent under another cookie name (${how})`, async () => {
    const first = new Site(options());
    await first.visit(setUser);
    const text = first.client.cookies.get('svc_session')!;
    await first.client.close();
    await using site = new Site({
      ...options(),
      session: { ...options().session, cookie: { name: 'other' } },
    });
    assert.equal(await site.ask(user, { headers: { cookie: `other=${text}` } }), null);
    assert.equal(site.audited('session_rejected')[0]!['reason'], 'forged');
  });

  test(`a session cookie of the previous secret is accepted and signed again; a cookie of a removed secret gives an empty session (${how})`, async () => {
    const store = options().session?.store;
    const clock = options().clock ?? new ManualClock();
    const base = { ...options(), clock };
    const shared: SessionOptions = {
      ...base.session,
      ...(store === undefined ? {} : { store: new MemoryRecordStore({ clock }) }),
    };
    const withSecrets = (secrets: readonly string[]): Site =>
      new Site({ ...base, session: { ...shared, secrets } });
    await using old = withSecrets([SECRET]);
    await old.visit(setUser);
    const cookie = old.client.cookies.get('svc_session')!;
    await using both = withSecrets([NEXT_SECRET, SECRET]);
    both.client.cookies.set('svc_session', cookie);
    const answer = await both.visit((req) => ({ user: user(req) }));
    assert.deepEqual(await answer.json(), { user: 'ada' });
    assert.equal(answer.headers.getSetCookie().length, 1);
    const renewed = both.client.cookies.get('svc_session')!;
    assert.notEqual(renewed.split('.')[1], cookie.split('.')[1]);
    assert.deepEqual((await both.visit((req) => ({ user: user(req) }))).headers.getSetCookie(), []);
    await both.visit((req) => req.session.set('more', 1)); // sealed records use the new key, too
    const last = both.client.cookies.get('svc_session')!;
    await using removed = withSecrets([NEXT_SECRET]);
    assert.equal(await removed.ask(user, { headers: { cookie: `svc_session=${last}` } }), 'ada');
    assert.equal(await removed.ask(user, { headers: { cookie: `svc_session=${cookie}` } }), null);
    assert.equal(removed.audited('session_rejected')[0]!['reason'], 'unknown_key');
  });

  test(`a session that was idle for too long is empty, although the browser still sends the cookie, and no warning is logged (${how})`, async () => {
    await using site = new Site(options({ maxAgeSeconds: 100 }));
    await site.visit(setUser);
    const cookie = `svc_session=${site.client.cookies.get('svc_session')}`;
    await site.wait(99);
    assert.equal(await site.ask(user, { headers: { cookie } }), 'ada');
    await site.wait(1);
    assert.equal(await site.ask(user, { headers: { cookie } }), null);
    assert.deepEqual(site.audited('session_rejected'), []);
  });

  test(`a session ends at its absolute limit, although it was used every minute (${how})`, async () => {
    await using site = new Site(options({ maxAgeSeconds: 300, absoluteSeconds: 3_600 }));
    await site.visit(setUser);
    for (let minute = 1; minute < 60; minute++) {
      await site.wait(60);
      assert.equal(await site.ask(user), 'ada', `minute ${minute}`);
    }
    const cookie = `svc_session=${site.client.cookies.get('svc_session')}`;
    await site.wait(60);
    assert.equal(await site.ask(user, { headers: { cookie } }), null);
    assert.equal(await site.ask(user), null);
  });

  test(`session.regenerate() at login changes the id, and drops values that the option "keep" does not name (${how})`, async () => {
    await using site = new Site(options());
    await site.visit((req) => {
      req.session.set('cart', [1]);
      req.session.set('draft', 'x');
    });
    const before = await site.ask((req) => req.session.id);
    const cookie = `svc_session=${site.client.cookies.get('svc_session')}`;
    const response = await site.visit((req) => {
      req.session.set('late', 'gone, too');
      req.session.regenerate({ keep: ['cart', sessionKey('nothing')] });
      setUser(req);
      return { id: req.session.id };
    });
    const { id } = (await response.json()) as { id: string };
    assert.notEqual(id, before);
    assert.equal(await site.ask((req) => req.session.id), id);
    assert.deepEqual(
      await site.ask((req) => ['user', 'cart', 'draft', 'late'].map((key) => req.session.get(key) ?? null)),
      ['ada', [1], null, null],
    );
    if (!how.includes('store')) return;
    assert.equal(await site.ask((req) => req.session.isNew, { headers: { cookie } }), true);
    assert.equal(site.audited('session_rejected')[0]!['reason'], 'unknown_session');
  });

  test(`if an attacker has planted a session cookie in a browser, the planted session is not logged in after the login (${how})`, async () => {
    const shared = options();
    await using site = new Site(shared);
    await site.visit((req) => req.session.set('mine', 'attacker'));
    const planted = site.client.cookies.get('svc_session')!;
    await site.visit((req) => {
      req.session.regenerate({ keep: [] });
      setUser(req);
    }); // the victim logs in with it
    assert.equal(await site.ask(user), 'ada');
    assert.equal(await site.ask((req) => req.session.get('mine')), null);
    site.client.cookies.set('svc_session', planted);
    assert.equal(await site.ask(user), null);
  });

  test(`session.destroy() deletes the cookie with the attributes with which the cookie was set (${how})`, async () => {
    const clock = new ManualClock();
    const base = how.includes('store') ? stored(clock) : { clock, session: {} };
    await using site = new Site({
      ...base,
      env: 'production',
      session: {
        ...base.session,
        cookie: { name: '__Secure-sid', path: '/', domain: 'localhost', sameSite: 'strict' },
      },
    });
    const set = cookieParts((await site.visit(setUser)).headers.getSetCookie()[0]!);
    const [field, ...others] = (await site.visit((req) => req.session.destroy())).headers.getSetCookie();
    const cleared = cookieParts(field!);
    const withoutAge = (attributes: readonly string[]): string[] =>
      attributes.filter((attribute) => !attribute.startsWith('Max-Age'));
    assert.deepEqual(
      [cleared.name, cleared.value, withoutAge(cleared.attributes)],
      [set.name, '', withoutAge(set.attributes)],
    );
    assert.ok(cleared.attributes.includes('Max-Age=0'));
    assert.deepEqual(others, []);
    assert.deepEqual(site.client.cookies.names(), []);
    assert.equal(await site.ask(user), null);
    assert.deepEqual((await site.visit((req) => req.session.destroy())).headers.getSetCookie(), []); // nothing to forget
  });
}

test('session.destroy() deletes the record from the store, so a copy of the cookie becomes invalid', async () => {
  const options = stored(new ManualClock());
  await using site = new Site(options);
  await site.visit(setUser);
  const cookie = `svc_session=${site.client.cookies.get('svc_session')}`;
  assert.equal(options.store.size, 1);
  await site.visit((req) => req.session.destroy());
  assert.equal(options.store.size, 0);
  assert.equal(await site.ask(user, { headers: { cookie } }), null);
  assert.equal(site.audited('session_rejected')[0]!['reason'], 'unknown_session');
});

test('if there is no store, a copy of the session cookie stays valid until it expires, even after destroy()', async () => {
  await using site = new Site({ session: { maxAgeSeconds: 60 } });
  await site.visit(setUser);
  const cookie = `svc_session=${site.client.cookies.get('svc_session')}`;
  await site.visit((req) => req.session.destroy());
  assert.equal(await site.ask(user, { headers: { cookie } }), 'ada');
  await site.wait(60);
  assert.equal(await site.ask(user, { headers: { cookie } }), null);
});

test('SessionMiddleware uses the first of several cookies with its name, and ignores a cookie without the prefix that it requires', async () => {
  await using site = new Site({ env: 'production' });
  await site.visit(setUser);
  const good = site.client.cookies.get('__Host-svc_session')!;
  assert.equal(
    await site.ask(user, {
      headers: { cookie: `svc_session=evil; __Host-svc_session=${good}; __Host-svc_session=evil` },
    }),
    'ada',
  );
  assert.equal(await site.ask(user, { headers: { cookie: `svc_session=${good}` } }), null);
  assert.deepEqual(site.audited('session_rejected'), []);
  assert.equal(
    await site.ask(user, { headers: { cookie: `__Host-svc_session=evil; __Host-svc_session=${good}` } }),
    null,
  );
  assert.equal(site.audited('session_rejected').length, 1);
});

test('SessionMiddleware finds its cookie behind 1,000 cookies and a cookie named __proto__', async () => {
  await using site = new Site();
  await site.visit(setUser);
  const good = site.client.cookies.get('svc_session')!;
  const cookie = `__proto__=x; constructor=y; ${Array.from({ length: 1_000 }, (_, index) => `c${index}=1`).join('; ')}; svc_session=${good}`;
  assert.equal(
    await site
      .ask((req) => [user(req), req.cookies['__proto__'], Object.keys(req.cookies).length], {
        headers: { cookie },
      })
      .then(String),
    'ada,x,1003',
  );
  assert.equal(({} as Record<string, unknown>)['x'], undefined);
});

for (const [how, options] of KEPT) {
  test(`session values with members named __proto__ and constructor are stored as data, and change no prototype (${how})`, async () => {
    await using site = new Site(options());
    const evil: unknown = JSON.parse(
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"list":[{"__proto__":{"polluted":1}}]}',
    );
    await site.visit((req) => {
      req.session.set('evil', evil);
      req.session.set('__proto__', { polluted: 1 });
    });
    const answer = await site.ask((req) => [
      JSON.stringify(req.session.get('evil')),
      JSON.stringify(req.session.get('__proto__')),
      (req.session.get('evil') as { polluted?: unknown }).polluted ?? null,
      req.session.get('constructor') ?? null,
    ]);
    assert.deepEqual(answer, [JSON.stringify(evil), '{"polluted":1}', null, null]);
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
  });
}

test('SessionMiddleware({ encrypt: true }) hides the values of its cookie, and encrypts equal values differently each time', async () => {
  await using site = new Site({ session: { encrypt: true, secrets: [SECRET, NEXT_SECRET] } });
  await site.visit((req) => req.session.set('user', 'ada-lovelace'));
  const text = site.client.cookies.get('svc_session')!;
  assert.match(text, /^e1\./);
  for (const part of text.split('.'))
    assert.ok(!Buffer.from(part, 'base64url').toString('latin1').includes('lovelace'));
  const again = cookieParts(
    (await site.visit((req) => req.session.set('user', 'ada-lovelace'))).headers.getSetCookie()[0]!,
  ).value;
  assert.notEqual(again.split('.').at(-1)!.slice(0, 16), text.split('.').at(-1)!.slice(0, 16)); // another IV
  await using plain = new Site();
  await plain.visit((req) => req.session.set('user', 'ada-lovelace'));
  const signed = plain.client.cookies.get('svc_session')!;
  assert.ok(signed.split('.').some((part) => Buffer.from(part, 'base64url').toString().includes('lovelace')));
});

test('SessionMiddleware({ encrypt: true }) hides the values in its store, and a record is invalid for a session with another id', async () => {
  const options = stored(new ManualClock(), { encrypt: true });
  const records = new Map<string, string>();
  const { add } = options.store;
  options.store.add = function (key, value, ttlMs) {
    records.set(key, value);
    return add.call(this, key, value, ttlMs);
  };
  await using site = new Site(options);
  await site.visit((req) => req.session.set('user', 'ada-lovelace'));
  const [[key, record]] = [...records] as [[string, string]];
  assert.match(record, /^e1\./);
  assert.ok(!Buffer.from(record.split('.').at(-1)!, 'base64url').toString('latin1').includes('lovelace'));
  assert.equal(await site.ask(user), 'ada-lovelace');
  site.client.cookies.clear();
  await site.visit((req) => req.session.set('user', 'mallory'));
  const mallory = [...records.keys()].find((other) => other !== key)!;
  options.store.set(mallory, record, 1_000_000); // an attacker with write access to the store moves a record
  assert.equal(await site.ask(user), null);
});

for (const [what, given, expected] of [
  ['nothing', undefined, 'private'],
  ['public', 'public, max-age=60', 'private, max-age=60'],
  ['s-maxage', 'max-age=5, S-MaxAge=9', 'private, max-age=5'],
  ['private', 'private, max-age=60', 'private, max-age=60'],
  ['no-store', 'no-store', 'no-store'],
  ['a private field', 'private="x", max-age=1', 'private, max-age=1'],
  ['private fields', 'private="x, public", no-cache="y, public"', 'private, no-cache="y, public"'],
  ['no-cache', 'no-cache', 'private, no-cache'],
  ['nothing between commas', ' , ', 'private'],
  ['both', 'no-store, public', 'private, no-store'],
] as const) {
  test(`shared caches do not store a response with a session cookie, whatever Cache-Control the handler sets (${what})`, async () => {
    await using site = new Site();
    const answer = (): JSONResponse =>
      new JSONResponse({}, { headers: given === undefined ? {} : { 'Cache-Control': given } });
    const set = await site.visit((req) => {
      setUser(req);
      return answer();
    });
    assert.deepEqual([set.headers.get('cache-control'), set.headers.get('vary')], [expected, 'Cookie']);
    const own = await site.visit(() => answer().setCookie('theme', 'dark'));
    assert.deepEqual([own.headers.get('cache-control'), own.headers.get('vary')], [expected, null]);
    const read = await site.visit((req) => {
      user(req);
      return answer();
    });
    assert.deepEqual(
      [read.headers.get('cache-control'), read.headers.get('vary')],
      [given?.trim() ?? null, 'Cookie'],
    );
    const none = await site.visit(answer);
    assert.deepEqual(
      [none.headers.get('cache-control'), none.headers.get('vary')],
      [given?.trim() ?? null, null],
    );
  });
}

for (const [how, options] of KEPT) {
  test(`an unchanged session sets no cookie, and a changed session sets exactly one (${how})`, async () => {
    await using site = new Site(options());
    const cookies = async (act: (req: HttpRequest) => unknown): Promise<number> =>
      (await site.visit(act)).headers.getSetCookie().length;
    assert.equal(
      await cookies((req) => [
        req.session.id,
        req.session.isNew,
        user(req) ?? null,
        req.session.takeFlashes(),
      ]),
      0,
    );
    assert.equal(await cookies((req) => req.session.delete('user')), 0);
    assert.equal(
      await cookies((req) => {
        setUser(req);
        req.session.delete('user');
      }),
      0,
    );
    assert.equal(await cookies((req) => req.session.regenerate()), 0);
    assert.equal(
      await cookies((req) => {
        setUser(req);
        req.session.set('more', 1);
      }),
      1,
    );
    assert.equal(await cookies((req) => [req.session.id, user(req), req.session.takeFlashes()]), 0);
    assert.equal(await cookies(() => null), 0);
    assert.equal(await cookies((req) => req.session.delete('absent')), 0);
    assert.equal(await cookies((req) => req.session.delete('more')), 1);
    assert.equal(
      await cookies((req) => {
        req.session.regenerate();
        req.session.regenerate();
      }),
      1,
    );
    assert.equal(
      await cookies((req) => {
        req.session.flash('info', 'Saved');
        req.session.set('more', 2);
      }),
      1,
    );
    assert.equal(await cookies((req) => req.session.takeFlashes()), 1);
  });

  test(`a session that is only read is renewed when a tenth of its idle time has passed, and not with every response (${how})`, async () => {
    await using site = new Site(options({ maxAgeSeconds: 1_000 }));
    const cookies = async (act: (req: HttpRequest) => unknown): Promise<number> =>
      (await site.visit(act)).headers.getSetCookie().length;
    await site.visit(setUser);
    await site.wait(100);
    assert.equal(await cookies(user), 0);
    await site.wait(1);
    assert.equal(await cookies(() => null), 0); // it was not read
    assert.equal(await cookies(user), 1);
    assert.equal(await cookies(user), 0);
    for (let round = 0; round < 10; round++) {
      await site.wait(900);
      assert.equal(await site.ask(user), 'ada');
    }
  });

  test(`a session value that is changed in place is saved (${how})`, async () => {
    await using site = new Site(options());
    await site.visit((req) => req.session.set('cart', { items: [] }));
    const response = await site.visit((req) => {
      (req.session.get('cart') as { items: string[] }).items.push('book');
    });
    assert.equal(response.headers.getSetCookie().length, 1);
    assert.deepEqual(await site.ask((req) => req.session.get('cart')), { items: ['book'] });
  });
}

for (const [env, baseUrl, expected] of [
  ['production', 'http://localhost', '__Host-svc_session Secure'],
  ['production', 'https://shop.example', '__Host-svc_session Secure'],
  ['development', 'http://localhost', 'svc_session'],
  ['development', 'https://localhost', '__Host-svc_session Secure'],
  ['test', 'http://localhost', 'svc_session'],
  ['test', 'https://localhost', '__Host-svc_session Secure'],
] as const) {
  test(`the session cookie has Secure and the prefix __Host- in production and over https (${env}, ${baseUrl.split(':')[0]}: ${expected})`, async () => {
    await using site = new Site({ env, baseUrl });
    const response = await site.visit(setUser);
    const { name, attributes } = cookieParts(response.headers.getSetCookie()[0]!);
    assert.equal([name, ...attributes.filter((attribute) => attribute === 'Secure')].join(' '), expected);
    assert.equal(await site.ask(user), 'ada');
    assert.equal(
      site.audited('session_cookie_without_tls').length,
      env === 'production' && baseUrl.startsWith('http:') ? 1 : 0,
    );
  });
}

test('in production, a session cookie that is set without TLS and without a TLS proxy causes one warning in the log', async () => {
  await using site = new Site({ env: 'production' });
  for (const headers of [{ 'x-forwarded-proto': 'https' }, { forwarded: 'proto=https' }] as const)
    await site.visit((req) => req.session.set('n', req.id), { headers });
  assert.deepEqual(site.audited('session_cookie_without_tls'), []);
  for (let round = 0; round < 3; round++) await site.visit((req) => req.session.set('n', req.id));
  assert.deepEqual(
    site.audited('session_cookie_without_tls').map((line) => line['level']),
    ['warn'],
  );
});

// ── further cases ──

test('session ids are 256 random bits, and the store holds only hashes of ids', async () => {
  const options = stored(new ManualClock());
  const keys: string[] = [];
  const { add } = options.store;
  options.store.add = function (key, value, ttlMs) {
    keys.push(key, value);
    return add.call(this, key, value, ttlMs);
  };
  await using site = new Site(options);
  const ids = new Set<string>();
  for (let round = 0; round < 50; round++) {
    site.client.cookies.clear();
    ids.add(
      (await site.ask((req) => {
        setUser(req);
        return req.session.id;
      })) as string,
    );
  }
  assert.equal(ids.size, 50);
  for (const id of ids) {
    assert.equal(Buffer.from(id, 'base64url').length, 32);
    assert.ok(!keys.some((text) => text.includes(id)));
  }
});

for (const [what, secrets, expected] of [
  ['no secrets of its own', undefined, false],
  ['other secrets', ['sessions-of-a-test-0123456789abcdef'], false],
  ['the same secret', 'application-of-a-test-0123456789abcdef', true],
  [
    'the same secret as an old one',
    ['sessions-of-a-test-0123456789abcdef', 'application-of-a-test-0123456789abcdef'],
    true,
  ],
] as const)
  test(`svc check ${expected ? 'warns' : 'does not warn'} if SessionMiddleware has ${what}, compared with authSecret (SVC205)`, () => {
    const app = new Svc({
      logger: new Site().app.log,
      authSecret: 'application-of-a-test-0123456789abcdef',
    }).use(new SessionMiddleware(secrets === undefined ? {} : { secrets }));
    app.get('/', () => 'ok');
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ rule, message }) => rule === 'SVC205' && message.includes('"secrets"'))
        .map(({ severity, subject }) => [severity, subject]),
      expected ? [['warning', 'middleware session']] : [],
    );
  });

test('if an application with SessionMiddleware has no secret, it does not start, and the error names the environment variable to set', async () => {
  const app = new Svc({ logger: new Site().app.log });
  app.use(new SessionMiddleware());
  const report = app.check();
  assert.deepEqual(
    report.findings
      .filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, subject }) => [rule, subject]),
    [['SVC205', 'setting authSecret']],
  );
  assert.match(report.findings[0]!.remedy, /SVC_AUTH_SECRET/);
  await assert.rejects(app.startup(), { code: 'E_COMPILE' });
});

test('svc check reports SessionMiddleware if the setting "authSecret" is an empty text or null (SVC205)', () => {
  for (const authSecret of ['', null]) {
    const app = new Svc({ config: { authSecret } });
    app.use(new SessionMiddleware());
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
        .map(({ rule }) => rule),
      ['SVC205'],
    );
  }
});

test('SessionMiddleware refuses a short secret, and check() reports a short secret in the settings', () => {
  assert.throws(() => new SessionMiddleware({ secrets: 'short' }), { code: 'E_SECRET_WEAK' });
  const app = new Svc({ authSecret: 'short' });
  app.use(new SessionMiddleware());
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule }) => rule)
      .filter((rule) => rule === 'SVC121'),
    ['SVC121'],
  );
});

for (const [what, options, code] of [
  ['an unknown option', { maxAge: 5 }, 'E_OPTION_UNKNOWN'],
  ['an unknown cookie option', { cookie: { httpOnly: false } }, 'E_OPTION_UNKNOWN'],
  ['no idle time', { maxAgeSeconds: 0 }, 'E_OPTION_RANGE'],
  ['a fractional time', { absoluteSeconds: 1.5 }, 'E_OPTION_RANGE'],
  ['more than a year', { absoluteSeconds: 31_536_001 }, 'E_OPTION_RANGE'],
  ['an idle time above the absolute one', { maxAgeSeconds: 61, absoluteSeconds: 60 }, 'E_OPTION_RANGE'],
  ['something else than a store', { store: new Map() }, 'E_OPTION_RANGE'],
  ['no store at all', { store: 5 }, 'E_OPTION_RANGE'],
  ['a cookie that is a name', { cookie: 'sid' }, 'E_OPTION_RANGE'],
  ['secrets that are numbers', { secrets: [5] }, 'E_OPTION_RANGE'],
  ['Secure as text', { cookie: { secure: 'yes' } }, 'E_OPTION_RANGE'],
] as const) {
  test(`SessionMiddleware refuses ${what}`, () => {
    assert.throws(() => new SessionMiddleware(options as SessionOptions), { code });
  });
}

test('if "absoluteSeconds" is below the default idle time, the idle time of a session is "absoluteSeconds"', async () => {
  await using site = new Site({ session: { absoluteSeconds: 60 } });
  assert.ok((await site.visit(setUser)).headers.getSetCookie()[0]!.includes('Max-Age=60'));
});

test('in production, svc check reports a session cookie that is not Secure, and a session cookie that is shared with other hosts (SVC207)', () => {
  for (const [cookie, env, expected] of [
    [{ secure: false }, 'production', ['error']],
    [{ domain: 'a.example' }, 'production', ['warning']],
    [{ secure: false }, 'development', []],
    [{ domain: 'a.example' }, 'test', []],
    [{}, 'production', []],
    [{ secure: true }, 'production', []],
  ] as const) {
    const app = new Svc({ authSecret: SECRET, env });
    app.use(new SessionMiddleware({ cookie }));
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ rule }) => rule === 'SVC207')
        .map(({ severity, subject }) => [severity, subject]),
      expected.map((severity) => [severity, 'middleware session']),
    );
  }
});

test('svc check reports two SessionMiddleware around one route, but not a single one (SVC121)', () => {
  const app = new Svc({ authSecret: SECRET });
  app.use(new SessionMiddleware()).use(new SessionMiddleware({ cookie: { name: 'b' } }));
  assert.match(
    app.check().findings.find(({ rule }) => rule === 'SVC121')!.message,
    /two session middlewares are registered/,
  );
  const other = new Svc({ authSecret: SECRET });
  other.use(new SessionMiddleware());
  assert.deepEqual(
    other.check().findings.filter(({ rule }) => rule === 'SVC121'),
    [],
  );
});

test('the session cookie has the name and the attributes that the options of SessionMiddleware set', async () => {
  for (const [cookie, env, expected] of [
    [{ name: 'sid' }, 'production', '__Host-sid HttpOnly Path=/ SameSite=Lax Secure'],
    [{ path: '/app' }, 'production', '__Secure-svc_session HttpOnly Path=/app SameSite=Lax Secure'],
    [
      { name: 'sid', domain: 'a.example' },
      'production',
      '__Secure-sid Domain=a.example HttpOnly Path=/ SameSite=Lax Secure',
    ],
    [{ name: 'sid' }, 'test', 'sid HttpOnly Path=/ SameSite=Lax'],
    [{ name: 'sid', secure: false }, 'test', 'sid HttpOnly Path=/ SameSite=Lax'],
    [{ name: '__sid' }, 'production', '__sid HttpOnly Path=/ SameSite=Lax Secure'],
    [{ name: '__Secure-x' }, 'test', 'x HttpOnly Path=/ SameSite=Lax'],
    [{ secure: true }, 'test', '__Host-svc_session HttpOnly Path=/ SameSite=Lax Secure'],
    [{ secure: false }, 'test', 'svc_session HttpOnly Path=/ SameSite=Lax'],
    [{ sameSite: 'strict' }, 'test', 'svc_session HttpOnly Path=/ SameSite=Strict'],
  ] as const) {
    await using site = new Site({ env, session: { cookie } });
    const { name, attributes } = cookieParts((await site.visit(setUser)).headers.getSetCookie()[0]!);
    assert.equal(
      [name, ...attributes.filter((attribute) => !attribute.startsWith('Max-Age'))].join(' '),
      expected,
    );
  }
});

test('sessionKey(name) returns a typed key for get(), set() and delete() of a session, and its value is also stored under that name', async () => {
  const cart = sessionKey<string[]>('cart');
  await using site = new Site();
  await site.visit((req) => req.session.set(cart, ['book']));
  assert.deepEqual(
    await site.ask((req) => {
      const items: string[] | undefined = req.session.get(cart);
      return [items, req.session.get('cart')];
    }),
    [['book'], ['book']],
  );
  await site.visit((req) => req.session.delete(cart));
  assert.equal(await site.ask((req) => req.session.get(cart)), null);
});

test('session.set() copies JSON values and refuses others, with an error that names the key but not the value', async () => {
  await using site = new Site();
  const loop: unknown[] = [];
  loop.push(loop);
  const problems = (await site.ask((req) =>
    [
      undefined,
      5n,
      Symbol('x'),
      () => 1,
      new Date(0),
      new Map(),
      [1, , 2],
      { a: [undefined] },
      { a: { b: new Uint8Array(1) } },
      loop,
      Object.create(Object.create(null) as object),
    ].map((value) => {
      try {
        req.session.set('thing', value);
        return 'taken';
      } catch (error) {
        return [(error as { code: string }).code, (error as Error).message.includes('"thing"')].join(' ');
      }
    }),
  )) as string[];
  assert.deepEqual([...new Set(problems)], ['E_SESSION_VALUE true']);
  for (const [value, problem] of [
    [undefined, /is or contains undefined$/],
    [() => 1, /is or contains a function$/],
    [new Date(0), /of the class Date$/],
    [Object.create(Object.create(null) as object), /of the class \(anonymous\)$/],
    [loop, /the value contains itself$/],
  ] as const) {
    await site.visit((req) => assert.throws(() => req.session.set('thing', value), problem));
  }
  assert.deepEqual(
    site.events.filter((line) => line['event'] === 'unhandled_error'),
    [],
  );
  const source = {
    list: [1, 'two', null, true, { deep: -0.5 }],
    bare: Object.assign(Object.create(null) as object, { x: 1 }),
  };
  await site.visit((req) => {
    req.session.set('thing', source);
    source.list.push(99);
  });
  assert.deepEqual(await site.ask((req) => req.session.get('thing')), {
    list: [1, 'two', null, true, { deep: -0.5 }],
    bare: { x: 1 },
  });
});

test('if a session value is changed in place and is no longer valid JSON, the response is a 500 with E_SESSION_VALUE', async () => {
  await using site = new Site();
  const response = await site.visit((req) => {
    req.session.set('cart', {});
    (req.session.get('cart') as { at?: Date }).at = new Date(0);
  });
  assert.equal(response.status, 500);
  assert.equal(
    (site.events.find((line) => line['event'] === 'unhandled_error')!['error'] as { code: string }).code,
    'E_SESSION_VALUE',
  );
});

test('changes of a session are saved even if the handler throws or returns an error status', async () => {
  await using site = new Site();
  assert.equal(
    (
      await site.visit((req) => {
        req.session.set('tries', 1);
        throw new Error('broken');
      })
    ).status,
    500,
  );
  assert.equal(await site.ask((req) => req.session.get('tries')), 1);
  assert.equal(
    (
      await site.visit((req) => {
        req.session.set('tries', 2);
        return new JSONResponse({}, { status: 422 });
      })
    ).status,
    422,
  );
  assert.equal(await site.ask((req) => req.session.get('tries')), 2);
});

test('after the handler has returned its response, changes of the session are refused, and reading still works', async () => {
  await using site = new Site();
  await site.visit(setUser);
  const seen: unknown[] = [];
  const response = await site.visit(
    (req) =>
      new StreamingResponse(
        (async function* () {
          yield 'a';
          seen.push(user(req));
          for (const change of [
            () => setUser(req),
            () => req.session.delete('user'),
            () => req.session.regenerate(),
            () => req.session.destroy(),
            () => req.session.flash('a', 'b'),
            () => req.session.takeFlashes(),
          ]) {
            try {
              change();
            } catch (error) {
              seen.push((error as { code: string }).code);
            }
          }
        })(),
      ),
  );
  await response.text();
  assert.deepEqual(seen, ['ada', ...Array<string>(6).fill('E_SESSION_SENT')]);
});

for (const [how, options] of KEPT) {
  test(`flash messages are shown once, oldest first, and not in the request that adds them (${how})`, async () => {
    await using site = new Site(options());
    assert.deepEqual(
      await site.ask((req) => {
        req.session.flash('info', 'Saved');
        req.session.flash('error', 'Not sent');
        return req.session.takeFlashes();
      }),
      [],
    );
    await site.visit(() => null); // a page that shows none
    assert.deepEqual(await site.ask((req) => [req.session.takeFlashes(), req.session.takeFlashes()]), [
      [
        { kind: 'info', text: 'Saved' },
        { kind: 'error', text: 'Not sent' },
      ],
      [],
    ]);
    assert.deepEqual(await site.ask((req) => req.session.takeFlashes()), []);
  });

  test(`after session.destroy(), the same request can add a flash message and start a new session with another id (${how})`, async () => {
    await using site = new Site(options());
    const before = await site.ask((req) => {
      setUser(req);
      req.session.flash('info', 'never shown');
      return req.session.id;
    });
    const response = await site.visit((req) => {
      req.session.set('draft', 1);
      req.session.destroy();
      req.session.flash('info', 'Good bye');
    });
    assert.equal(response.headers.getSetCookie().length, 1);
    assert.deepEqual(
      await site.ask((req) => [
        user(req) ?? null,
        req.session.get('draft') ?? null,
        req.session.id === before,
        req.session.takeFlashes(),
      ]),
      [null, null, false, [{ kind: 'info', text: 'Good bye' }]],
    );
  });
}

test('a session keeps at most 50 unread flash messages, and refuses flash messages that are not strings', async () => {
  await using site = new Site(stored(new ManualClock()));
  await site.visit((req) => {
    for (let index = 0; index < 60; index++) req.session.flash('info', String(index));
  });
  const flashes = (await site.ask((req) => req.session.takeFlashes())) as { text: string }[];
  assert.deepEqual([flashes.length, flashes[0]!.text], [50, '10']);
  assert.equal(
    await site.ask((req) => {
      try {
        req.session.flash('info', 5 as unknown as string);
        return 'taken';
      } catch (error) {
        return (error as { code: string }).code;
      }
    }),
    'E_SESSION_VALUE',
  );
});

test('if the time limits of sessions are shortened, the new limits apply to cookies that were issued before', async () => {
  const clock = new ManualClock();
  await using long = new Site({ clock });
  await long.visit(setUser);
  const cookie = `svc_session=${long.client.cookies.get('svc_session')}`;
  for (const session of [{ maxAgeSeconds: 50 }, { absoluteSeconds: 50, maxAgeSeconds: 40 }]) {
    await using short = new Site({ clock, session });
    await clock.advance(session.absoluteSeconds === undefined ? 49_000 : 0);
    assert.equal(
      await short.ask(user, { headers: { cookie } }),
      session.absoluteSeconds === undefined ? 'ada' : null,
    );
    await clock.advance(1_000);
    assert.equal(await short.ask(user, { headers: { cookie } }), null);
  }
});

test('a correctly signed session cookie whose payload is not a session gives an empty session', async () => {
  await using site = new Site();
  const values = new ProtectedValues(Keyring.of(SECRET), 'svc session', 'signed');
  const seconds = Math.floor(site.clock.nowMs() / 1_000);
  const payloads = [
    'nonsense',
    '5',
    'null',
    '{}',
    '{"i":"x","b":1}',
    `{"i":5,"b":${seconds},"v":{}}`,
    `{"i":"x","b":"${seconds}","v":{}}`,
    `{"i":"x","b":${seconds},"v":{},"f":5}`,
  ];
  for (const payload of payloads) {
    const text = values.write('svc_session', payload, {
      issuedSeconds: seconds,
      expiresSeconds: seconds + 600,
    });
    assert.equal(
      await site.ask((req) => req.session.isNew, { headers: { cookie: `svc_session=${text}` } }),
      true,
      payload,
    );
    await site.wait(60);
  }
  assert.deepEqual(
    site.audited('session_rejected').map((line) => line['reason']),
    payloads.map(() => 'malformed'),
  );
});

test('a session whose login has ended is empty, and if the state of the login is unknown, only requests that use the session fail', async () => {
  const login = new (class {
    state: Awaitable<boolean> = true;
    admits = (): Awaitable<boolean> => this.state;
    watch = (): undefined => undefined;
  })();
  await using site = new Site();
  site.app.register({ name: 'login', register: (host) => host.provide(loginAuthority, () => login) });
  await site.visit(setUser);
  const unknown = Promise.reject(new HTTPException(503));
  unknown.catch(() => undefined);
  for (const [state, expected, status] of [
    [true, 'ada', 200],
    [Promise.resolve(true), 'ada', 200],
    [unknown, undefined, 503],
    [Promise.resolve(false), null, 200],
  ] as const) {
    login.state = state;
    const response = await site.visit((req) => ({ user: user(req) ?? null }));
    const { user: found } = (await response.json()) as { user?: unknown };
    assert.deepEqual([found, response.status], [expected, status]);
    if (status === 503) assert.equal((await site.visit(() => 'no session')).status, 200);
  }
});
