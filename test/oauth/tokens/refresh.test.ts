/**
 * The state machine of refresh tokens, on the memory store with a manual clock.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keyring } from '../../../src/crypto/keys.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Audit } from '../../../src/oauth/audit.ts';
import { OAuthError } from '../../../src/oauth/errors.ts';
import { RefreshTokenCodec, hashOf } from '../../../src/oauth/tokens/refresh-codec.ts';
import { RefreshTokens } from '../../../src/oauth/tokens/refresh.ts';
import { MemoryTokenStore } from '../../../src/oauth/tokens/store.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { storeClock, tokenStoreContract } from './store.contract.ts';
import type { Awaitable } from '../../../src/http/contracts.ts';
import type { RefreshVerdict, Refreshed } from '../../../src/oauth/tokens/refresh.ts';
import type { TokenStore } from '../../../src/oauth/tokens/store.ts';

type NewLogin = Parameters<RefreshTokens['issue']>[0];
type RefreshPolicy = ConstructorParameters<typeof RefreshTokens>[0]['policy'];

tokenStoreContract('MemoryTokenStore', () => ({ store: new MemoryTokenStore(storeClock()) }));

const SECOND = 1_000_000;
const SECRETS = ['7d3f9a1c5e8b2046f1d7a93c58e0b64272a9', 'b1946ac92492d2347c6235b4d2611184eeff'];

function machine(
  policy: Partial<RefreshPolicy> = {},
  parts: {
    store?: TokenStore;
    secrets?: readonly string[];
    onRefresh?: () => Awaitable<RefreshVerdict>;
    clock?: ManualClock;
    pause?: (ms: number) => Promise<void>;
  } = {},
) {
  const clock = parts.clock ?? new ManualClock();
  const { logger, events } = collectedLog();
  const store = parts.store ?? new MemoryTokenStore(clock);
  const codec = new RefreshTokenCodec(Keyring.of(parts.secrets ?? SECRETS[0]!));
  const tokens = new RefreshTokens({
    store,
    ends: store,
    codec,
    clock,
    audit: new Audit(logger.child('svc_oauth'), createMetrics({ log: logger })),
    onRefresh: parts.onRefresh,
    pause: parts.pause ?? ((ms) => clock.advance(ms)),
    policy: {
      idleTtl: 14 * 86_400 * SECOND,
      absoluteTtl: 90 * 86_400 * SECOND,
      grace: 0,
      clockSkew: 0,
      concurrency: 'coalesce',
      holdMs: 0,
      apart: 0,
      ...policy,
    },
  });
  const login = (startedAt = clock.nowMicros(), more: Partial<NewLogin> = {}) =>
    tokens.issue({
      sub: 'alice',
      provider: 'dev',
      subject: 'p-1',
      scopes: ['read', 'write'],
      claims: { roles: ['admin'] },
      startedAt,
      userAgent: null,
      ip: null,
      keyThumbprint: null,
      ...more,
    });
  /** Starts a refresh whose response is not sent yet. */
  const answer = (
    text: string,
    request: {
      arrivedMs?: number;
      scopes?: readonly string[];
      keyThumbprint?: string | null;
    } = {},
  ): Promise<Refreshed> => {
    const token = codec.parse(text);
    assert.ok(token !== undefined, 'the token is one of ours');
    return tokens.refresh(token, {
      arrivedMs: request.arrivedMs ?? clock.monotonicMs(),
      scopes: request.scopes,
      keyThumbprint: request.keyThumbprint ?? null,
      req: undefined,
    });
  };
  const refresh = async (...given: Parameters<typeof answer>): Promise<Refreshed> => {
    const refreshed = await answer(...given);
    await tokens.markDelivered(refreshed);
    return refreshed;
  };
  const names = (): unknown[] => events.map((event) => event['event']);
  return { clock, store, codec, tokens, login, answer, refresh, events, names };
}

/** Returns a clock that only the test moves, and a pause that waits for the clock. */
function still(clock = new ManualClock()): { clock: ManualClock; pause: (ms: number) => Promise<void> } {
  return { clock, pause: (ms) => clock.sleep(ms) };
}

/** Moves the clock, when all requests wait for it. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  await clock.advance(0);
  await clock.advance(ms);
}

function refused(code: string, reason?: string) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof OAuthError, String(error));
    assert.equal(error.code, code);
    if (reason !== undefined) assert.equal(error.reason, reason);
    return true;
  };
}

test('refresh tokens: a refresh token can be exchanged for a new refresh token, and the new one can be exchanged again', async () => {
  const { login, refresh, clock, store } = machine();
  const first = await login();
  await clock.advance(1_000);
  const second = await refresh(first.refreshToken);
  assert.notEqual(second.refreshToken, first.refreshToken);
  assert.deepEqual(second.scopes, ['read', 'write']);
  assert.deepEqual(second.claims, { roles: ['admin'] });
  await clock.advance(1_000);
  const third = await refresh(second.refreshToken);
  const row = await store.findLogin(first.login.id);
  assert.equal(row?.generation, 2);
  assert.equal(new Set([first.refreshToken, second.refreshToken, third.refreshToken]).size, 3);
});

test('refresh tokens: a token has a 256-bit secret, a prefix for secret scanners, and fewer than 160 characters', async () => {
  const { login, codec } = machine({}, { secrets: SECRETS });
  const { refreshToken } = await login();
  assert.match(refreshToken, /^svcrt_1[\w-]+\.[\w-]{22}\.0\.[\w-]{43}\.[\w-]{22}$/);
  assert.ok(refreshToken.length < 160);
  assert.equal(codec.parse(refreshToken)?.secret.length, 32);
});

test('refresh tokens: no stored row contains a usable part of a token', async () => {
  const { login, refresh, store, codec } = machine();
  const { refreshToken, login: row } = await login();
  const next = await refresh(refreshToken);
  const stored = JSON.stringify(await store.findLogin(row.id));
  for (const text of [refreshToken, next.refreshToken]) {
    const secret = codec.parse(text)!.secret;
    for (const form of [
      text,
      secret.toString('base64url'),
      secret.toString('hex'),
      secret.toString('base64'),
    ])
      assert.ok(!stored.includes(form));
  }
});

test('refresh tokens: the replay of a token ends the login of that token, but no other login of the user', async () => {
  const { login, refresh, clock, names, events } = machine();
  const [first, other] = [await login(), await login()];
  const second = await refresh(first.refreshToken);
  await clock.advance(1);
  await assert.rejects(refresh(first.refreshToken), refused('invalid_grant', 'reuse'));
  await assert.rejects(refresh(second.refreshToken), refused('invalid_grant', 'revoked_reuse'));
  await assert.rejects(refresh(first.refreshToken), refused('invalid_grant', 'revoked_reuse'));
  assert.ok((await refresh(other.refreshToken)).refreshToken);
  assert.equal(names().filter((name) => name === 'token_reuse_detected').length, 1);
  assert.equal(
    events.find((event) => event['event'] === 'token_reuse_detected')?.['login_id'],
    first.login.id,
  );
});

test('refresh tokens: every one of a hundred sequential replays is detected', async () => {
  const { login, refresh, clock } = machine();
  let caught = 0;
  for (let round = 0; round < 100; round++) {
    const { refreshToken } = await login();
    await refresh(refreshToken);
    await clock.advance(0.001);
    await refresh(refreshToken).catch((error: unknown) => {
      if (refused('invalid_grant', 'reuse')(error)) caught++;
    });
  }
  assert.equal(caught, 100);
});

for (const count of [2, 5, 20, 100]) {
  test(`refresh tokens: ${count} simultaneous refreshes with one token all get one and the same new token, which can be used`, async () => {
    const { login, refresh, clock, store } = machine({ holdMs: 25 });
    const { refreshToken, login: row } = await login();
    await clock.advance(1_000);
    const racing = Array.from({ length: count }, () => refresh(refreshToken));
    const done = Promise.all(racing);
    await pass(clock, 25);
    const answers = await done;
    assert.equal(new Set(answers.map((answer) => answer.refreshToken)).size, 1);
    assert.equal((await store.findLogin(row.id))?.generation, 1);
    await clock.advance(1);
    const next = refresh(answers[0]!.refreshToken);
    await pass(clock, 25);
    assert.ok((await next).refreshToken);
  });
}

test('refresh tokens: a refresh waits 25 ms for simultaneous refreshes, and its new token counts as delivered only after markDelivered()', async () => {
  const clock = new ManualClock();
  const { login, answer, tokens, store } = machine({ holdMs: 25 }, { clock, pause: (ms) => clock.sleep(ms) });
  const { refreshToken, login: row } = await login();
  let answered = false;
  const answering = answer(refreshToken).then((given) => {
    answered = true;
    return given;
  });
  await pass(clock, 24);
  assert.equal(answered, false);
  await clock.advance(1);
  const refreshed = await answering;
  assert.equal((await store.findLogin(row.id))?.deliveredAt, null);
  const readyAt = clock.nowMicros();
  await clock.advance(3);
  await tokens.markDelivered(refreshed);
  assert.equal(
    (await store.findLogin(row.id))?.deliveredAt,
    readyAt,
    'the moment before the response went out',
  );
});

test('refresh tokens: if the response to a refresh was never sent, a retry with the old token gets the new token of that response', async () => {
  const { login, answer, refresh, clock } = machine();
  const { refreshToken } = await login();
  const lost = await answer(refreshToken);
  await clock.advance(60_000);
  const retried = await refresh(refreshToken);
  assert.equal(retried.refreshToken, lost.refreshToken);
  await clock.advance(1);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
});

test('refresh tokens: a retry with the old token counts as a replay if the first response is sent while the retry waits', async () => {
  const { login, answer, refresh, tokens, clock, names } = machine();
  const { refreshToken } = await login();
  const first = await answer(refreshToken);
  await clock.advance(1);
  const replay = refresh(refreshToken);
  await clock.advance(0);
  await tokens.markDelivered(first);
  await assert.rejects(replay, refused('invalid_grant', 'reuse'));
  assert.ok(names().includes('token_reuse_detected'));
});

test('refresh tokens: of two simultaneous refreshes, the second is refused if the new token of the first is already used, but the login does not end', async () => {
  const clock = new ManualClock();
  const { login, answer, refresh, tokens } = machine({ holdMs: 25 }, still(clock));
  const { refreshToken } = await login();
  const [first, second] = [answer(refreshToken), answer(refreshToken)];
  const refusedSecond = assert.rejects(second, refused('invalid_grant', 'concurrent'));
  await pass(clock, 25);
  const won = await first;
  await tokens.markDelivered(won);
  const third = answer(won.refreshToken);
  await pass(clock, 25);
  await refusedSecond;
  await tokens.markDelivered(await third);
  const last = refresh((await third).refreshToken);
  await pass(clock, 25);
  assert.ok((await last).refreshToken);
});

test('refresh tokens: with concurrency "strict", one of many simultaneous refreshes succeeds, and the login remains valid', async () => {
  const { login, refresh, clock } = machine({ holdMs: 25, concurrency: 'strict' });
  const { refreshToken } = await login();
  await clock.advance(1_000);
  const racing = Promise.allSettled(Array.from({ length: 20 }, () => refresh(refreshToken)));
  await pass(clock, 25);
  const answers = await racing;
  const won = answers.filter((answer) => answer.status === 'fulfilled');
  assert.equal(won.length, 1);
  for (const answer of answers)
    if (answer.status === 'rejected') refused('invalid_grant', 'concurrent')(answer.reason);
  await clock.advance(1);
  const next = refresh(won[0]!.value.refreshToken);
  await pass(clock, 25);
  assert.ok((await next).refreshToken);
});

test('refresh tokens: with concurrency "strict", a retry after five seconds gets the new token if its delivery was not recorded', async () => {
  const { login, refresh, clock, store, codec } = machine({ concurrency: 'strict' });
  const { refreshToken, login: row } = await login();
  const token = codec.parse(refreshToken)!;
  assert.equal(
    await store.rotate({
      id: row.id,
      generation: 0,
      currentHash: hashOf(token),
      keyThumbprint: null,
      nextHash: hashOf(codec.next(token)),
      now: clock.nowMicros(),
      idleExpiresAt: row.idleExpiresAt,
    }),
    true,
  );
  await clock.advance(1_000);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'concurrent'));
  await clock.advance(4_001);
  assert.equal((await refresh(refreshToken)).refreshToken, codec.format(codec.next(token)));
});

test('refresh tokens: a retry within the grace period gets the new token again, but counts as theft if the new token was already used', async () => {
  const { login, refresh, clock } = machine({ grace: 10 * SECOND });
  const { refreshToken } = await login();
  const second = await refresh(refreshToken);
  await clock.advance(9_999);
  assert.equal((await refresh(refreshToken)).refreshToken, second.refreshToken);
  const third = await refresh(second.refreshToken);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
  await assert.rejects(refresh(third.refreshToken), refused('invalid_grant', 'revoked_reuse'));
});

test('refresh tokens: a retry with the old token counts as theft from the end of the grace period on', async () => {
  const { login, refresh, clock } = machine({ grace: 10 * SECOND });
  const { refreshToken } = await login();
  await refresh(refreshToken);
  await clock.advance(10_000);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
});

test('refresh tokens: clockSkewMs does not extend the time in which the old token gets the new token', async () => {
  const { login, refresh, clock } = machine({ clockSkew: 5_000 });
  const { refreshToken } = await login();
  await refresh(refreshToken);
  await clock.advance(0.001);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
});

test('refresh tokens: a token that was replaced two refreshes ago counts as stolen even within the grace period', async () => {
  const { login, refresh, clock } = machine({ grace: 60 * SECOND });
  const first = await login();
  const second = await refresh(first.refreshToken);
  await clock.advance(1);
  await refresh(second.refreshToken);
  await assert.rejects(refresh(first.refreshToken), refused('invalid_grant', 'reuse'));
});

test('refresh tokens: a token is invalid if it is forged or combines parts of two valid tokens', async () => {
  const { login, codec, refresh } = machine();
  const [one, two] = [await login(), await login()];
  const [a, b] = [one.refreshToken.split('.'), two.refreshToken.split('.')] as [string[], string[]];
  for (let part = 0; part < 5; part++) {
    const mixed = a.map((text, index) => (index === part ? b[index]! : text)).join('.');
    if (mixed !== one.refreshToken)
      assert.equal(codec.parse(mixed), part === 0 ? codec.parse(mixed) : undefined);
  }
  const forged = a.with(2, '5').join('.');
  assert.equal(codec.parse(forged), undefined);
  assert.ok((await refresh(one.refreshToken)).refreshToken);
  assert.ok((await refresh(two.refreshToken)).refreshToken);
});

test('refresh tokens: a token with one inserted, removed or replaced character is refused', async () => {
  const { login, codec } = machine();
  const { refreshToken } = await login();
  const below = seeded(20_261_121);
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n\0é';
  for (let round = 0; round < 20_000; round++) {
    const at = below(refreshToken.length + 1);
    const character = alphabet[below(alphabet.length)]!;
    const how = below(3);
    const mutated =
      how === 0
        ? refreshToken.slice(0, at) + character + refreshToken.slice(at)
        : how === 1
          ? refreshToken.slice(0, at) + refreshToken.slice(at + 1)
          : refreshToken.slice(0, at) + character + refreshToken.slice(at + 1);
    if (mutated !== refreshToken) assert.equal(codec.parse(mutated), undefined, JSON.stringify(mutated));
  }
  for (const text of ['', 'svcrt_1', 'x'.repeat(1_000_000), `${refreshToken}\n`, ` ${refreshToken}`])
    assert.equal(codec.parse(text), undefined);
});

test('refresh tokens: a login ends at its absolute limit, even if it is refreshed all the time', async () => {
  const { login, refresh, clock } = machine({
    idleTtl: 2 * 86_400 * SECOND,
    absoluteTtl: 3 * 86_400 * SECOND,
  });
  let { refreshToken } = await login();
  for (let day = 1; day <= 2; day++) {
    await clock.advance(86_400_000);
    ({ refreshToken } = await refresh(refreshToken));
  }
  await clock.advance(86_400_000);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'expired'));
});

test('refresh tokens: a login that is not refreshed ends at its idle limit', async () => {
  const { login, refresh, clock } = machine({ idleTtl: 60 * SECOND });
  const { refreshToken } = await login();
  await clock.advance(60_000);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'expired'));
});

test('refresh tokens: a refresh with fewer scopes narrows one access token only, and a refresh with additional scopes is refused', async () => {
  const { login, refresh, store } = machine();
  const { refreshToken, login: row } = await login();
  await assert.rejects(refresh(refreshToken, { scopes: ['read', 'admin'] }), refused('invalid_scope'));
  assert.equal((await store.findLogin(row.id))?.generation, 0);
  const narrowed = await refresh(refreshToken, { scopes: ['read'] });
  assert.deepEqual(narrowed.scopes, ['read']);
  assert.deepEqual((await refresh(narrowed.refreshToken)).scopes, ['read', 'write']);
});

test('refresh tokens: if a new token was never sent to the client, a retry with the old token returns it even a day later', async () => {
  const { login, refresh, clock, store, codec } = machine();
  const { refreshToken, login: row } = await login();
  const token = codec.parse(refreshToken)!;
  await store.rotate({
    id: row.id,
    generation: 0,
    currentHash: hashOf(token),
    keyThumbprint: null,
    nextHash: hashOf(codec.next(token)),
    now: clock.nowMicros(),
    idleExpiresAt: row.idleExpiresAt,
  });
  await clock.advance(86_400_000);
  const retried = await refresh(refreshToken);
  assert.equal(retried.refreshToken, codec.format(codec.next(token)));
  assert.ok((await refresh(retried.refreshToken)).refreshToken);
});

test('refresh tokens: if the hook onRefresh() returns false, the refresh is refused and the login ends', async () => {
  let verdict: RefreshVerdict = true;
  const { login, refresh, names } = machine({}, { onRefresh: () => verdict });
  const { refreshToken } = await login();
  const second = await refresh(refreshToken);
  verdict = { scopes: ['read'], claims: { roles: [] } };
  const third = await refresh(second.refreshToken);
  assert.deepEqual([third.scopes, third.claims], [['read'], { roles: [] }]);
  verdict = false;
  await assert.rejects(refresh(third.refreshToken), refused('invalid_grant', 'disabled'));
  verdict = true;
  await assert.rejects(refresh(third.refreshToken), refused('invalid_grant', 'revoked_disabled'));
  assert.ok(names().includes('token_revoked'));
});

test('refresh tokens: if the hook onRefresh() ends a login during simultaneous refreshes, one event is logged', async () => {
  const { login, refresh, names } = machine({}, { onRefresh: () => false });
  const { refreshToken } = await login();
  const ended = await Promise.allSettled([1, 2, 3, 4].map(() => refresh(refreshToken)));
  assert.ok(ended.every(({ status }) => status === 'rejected'));
  assert.deepEqual(
    names().filter((name) => name === 'token_revoked'),
    ['token_revoked'],
  );
});

test('refresh tokens: if the hook onRefresh() throws, the login does not change, and the refresh can be retried', async () => {
  let fails = true;
  const { login, refresh, clock } = machine(
    {},
    {
      onRefresh: () => {
        if (fails) throw new Error('directory down');
        return true;
      },
    },
  );
  const { refreshToken } = await login();
  await assert.rejects(refresh(refreshToken), /directory down/);
  fails = false;
  await clock.advance(60_000);
  assert.ok((await refresh(refreshToken)).refreshToken);
});

test('refresh tokens: a login that is bound to a DPoP key can be refreshed only with this key', async () => {
  const { tokens, clock, refresh, store } = machine();
  const bound = await tokens.issue({
    sub: 'a',
    provider: 'dev',
    subject: 'p',
    scopes: [],
    claims: {},
    startedAt: clock.nowMicros(),
    userAgent: null,
    ip: null,
    keyThumbprint: 'key-1',
  });
  await assert.rejects(
    refresh(bound.refreshToken, { keyThumbprint: 'key-2' }),
    refused('invalid_grant', 'other_key'),
  );
  assert.equal((await store.findLogin(bound.login.id))?.generation, 0);
  const next = await refresh(bound.refreshToken, { keyThumbprint: 'key-1' });
  await assert.rejects(refresh(next.refreshToken), refused('invalid_grant', 'other_key'));
  assert.ok((await refresh(next.refreshToken, { keyThumbprint: 'key-1' })).refreshToken);
});

test('refresh tokens: a token that is newer than the stored login, as after a restored backup, is refused but does not end the login', async () => {
  const { login, refresh, store, codec } = machine();
  const { refreshToken, login: row } = await login();
  const ahead = codec.format(codec.next(codec.parse(refreshToken)!));
  await assert.rejects(refresh(ahead), refused('invalid_grant', 'ahead_of_store'));
  assert.equal((await store.findLogin(row.id))?.revokedAt, null);
});

test('refresh tokens: a token that has a valid MAC and a wrong secret is refused, but does not end the login', async () => {
  const { login, refresh, store, codec } = machine();
  const { refreshToken, login: row } = await login();
  const other = codec.format({ id: row.id, generation: 0, secret: Buffer.alloc(32, 7) });
  await assert.rejects(refresh(other), refused('invalid_grant', 'wrong_secret'));
  const second = await refresh(refreshToken);
  await assert.rejects(refresh(other), refused('invalid_grant', 'wrong_secret'));
  assert.equal((await store.findLogin(row.id))?.revokedAt, null);
  assert.ok((await refresh(second.refreshToken)).refreshToken);
});

test('refresh tokens: a token whose login is unknown is refused', async () => {
  const { refresh, codec } = machine();
  const token = codec.format(codec.first());
  await assert.rejects(refresh(token), refused('invalid_grant', 'unknown_login'));
  await assert.rejects(refresh(token, { scopes: ['read'] }), refused('invalid_grant', 'unknown_login'));
});

test('refresh tokens: a token made with the previous secret of the application can be refreshed, but is invalid when that secret is removed', async () => {
  const clock = new ManualClock();
  const store = new MemoryTokenStore(clock);
  const before = machine({}, { store, clock, secrets: [SECRETS[1]!] });
  const { refreshToken } = await before.login();
  const during = machine({}, { store, clock, secrets: SECRETS });
  const next = await during.refresh(refreshToken);
  const after = machine({}, { store, clock, secrets: [SECRETS[0]!] });
  assert.equal(after.codec.parse(refreshToken), undefined);
  assert.ok((await after.refresh(next.refreshToken)).refreshToken);
});

test("refresh tokens: after the application's secret was rotated, a retry returns the new token that was made before the rotation", async () => {
  const clock = new ManualClock();
  const store = new MemoryTokenStore(clock);
  const before = machine({ grace: 60 * SECOND }, { store, clock, secrets: [SECRETS[1]!] });
  const { refreshToken } = await before.login();
  const next = await before.refresh(refreshToken);
  const during = machine({ grace: 60 * SECOND }, { store, clock, secrets: SECRETS });
  const retried = await during.refresh(refreshToken);
  assert.deepEqual(during.codec.parse(retried.refreshToken), before.codec.parse(next.refreshToken));
});

test('refresh tokens: revoking a token that was already replaced by a newer one ends its login', async () => {
  const { login, refresh, tokens, codec, names } = machine();
  const { refreshToken } = await login();
  const second = await refresh(refreshToken);
  for (let time = 0; time < 2; time++) {
    await tokens.revoke(codec.parse(refreshToken)!, undefined);
    assert.equal(names().filter((name) => name === 'token_revoked').length, 1);
  }
  await assert.rejects(refresh(second.refreshToken), refused('invalid_grant', 'revoked_logout'));
});

test('refresh tokens: a login is refused if revokeAll() is called after the login was started and before it is finished', async () => {
  const { login, store, clock } = machine();
  const startedAt = clock.nowMicros();
  await clock.advance(1);
  await store.revokeAll('alice', clock.nowMicros());
  await clock.advance(1);
  await assert.rejects(login(startedAt), refused('access_denied', 'revoked_meanwhile'));
  assert.deepEqual(await store.listLogins('alice', clock.nowMicros()), []);
  assert.ok((await login()).refreshToken);
});

test('refresh tokens: if revokeAll() is called during a login, the token store revokes this login before the login is refused', async () => {
  const isRevoked: boolean[] = [];
  const store = new (class extends MemoryTokenStore {
    override async revoke(...row: Parameters<MemoryTokenStore['revoke']>): Promise<boolean> {
      await new Promise((resolve) => setImmediate(resolve));
      isRevoked.push(true);
      return super.revoke(...row);
    }
  })(new ManualClock());
  const { login, clock } = machine({}, { store });
  await store.revokeAll('alice', clock.nowMicros());
  await assert.rejects(login(clock.nowMicros()), refused('access_denied', 'revoked_meanwhile'));
  assert.deepEqual(isRevoked, [true]);
});

test('refresh tokens: a login is refused if it begins after revokeAll() by no more than clockSkewMs', async () => {
  const { login, store, clock } = machine({ clockSkew: 2 * SECOND });
  await store.revokeAll('alice', clock.nowMicros());
  await clock.advance(2_000);
  await assert.rejects(login(), refused('access_denied', 'revoked_meanwhile'));
  await clock.advance(1);
  assert.ok((await login()).refreshToken);
});

test('refresh tokens: a login right after revokeAll() waits until its access token gets a later time than the revoked access tokens', async () => {
  const { login, store, clock } = machine({ apart: 10_000 });
  assert.equal((await login()).issuedAt, clock.nowMicros(), 'nothing has been revoked: it does not wait');
  await clock.advance(1);
  const revokedAt = clock.nowMicros();
  await store.revokeAll('alice', revokedAt);
  await clock.advance(1);
  const waiting = login();
  await pass(clock, 20);
  assert.ok((await waiting).issuedAt > revokedAt + 10_000);
  assert.equal((await login()).issuedAt, clock.nowMicros());
});

test('refresh tokens: if the clock is set back after revokeAll(), a new login gets its tokens at once', async () => {
  const { login, store, clock } = machine({ apart: 10_000 });
  const later = clock.nowMicros() + 3_600 * SECOND;
  await store.revokeAll('alice', later);
  const waiting = login(later + SECOND);
  await pass(clock, 30);
  assert.equal(clock.pending, 0);
  assert.ok((await waiting).refreshToken);
});

test('refresh tokens: if revokeAll() is called while a login waits after an earlier revokeAll(), this login is refused', async () => {
  for (const lag of [0, 5_000]) {
    // revokeAll() and the login are in the same process
    const { login, store, clock } = machine({ apart: 10_000 }, still());
    await store.revokeAll('alice', clock.nowMicros());
    await clock.advance(1);
    const waiting = assert.rejects(login(), refused('access_denied', 'revoked_meanwhile'));
    await pass(clock, 1);
    await store.revokeAll('alice', clock.nowMicros() - lag);
    await pass(clock, 20);
    await waiting;
    assert.deepEqual(await store.listLogins('alice', clock.nowMicros()), []);
  }
});

for (const [what, boundTo, act, expected] of [
  ['nothing happens', null, () => undefined, 'issued'],
  ['its time is nearly over', null, ({ clock }) => clock.advance(59_999), 'issued'],
  ['its time is over', null, ({ clock }) => clock.advance(60_000), 'code_login_ended'],
  [
    'it is revoked',
    null,
    ({ store, clock }, id) => store.revoke(id, 'logout', clock.nowMicros()),
    'code_login_ended',
  ],
  [
    'all logins of the user are revoked',
    null,
    ({ store, clock }) => store.revokeAll('alice', clock.nowMicros()),
    'code_login_ended',
  ],
  [
    'it is removed',
    null,
    ({ store, clock }) => store.cleanUp(clock.nowMicros() + 91 * 86_400 * SECOND, 10),
    'code_login_ended',
  ],
  ['it is bound to the key of the request', 'key', () => undefined, 'issued'],
  ['it is bound to another key', 'other', () => undefined, 'other_key'],
  [
    'another request has activated it',
    null,
    ({ tokens }, id) => tokens.activate(id, null),
    'code_sent_twice',
  ],
  [
    'another request has bound it to the same key',
    null,
    ({ tokens }, id) => tokens.activate(id, 'key'),
    'code_sent_twice',
  ],
] as readonly [string, string | null, (it: ReturnType<typeof machine>, id: string) => unknown, string][])
  test(`refresh tokens: activate() issues the first tokens of a login, or gives the reason (${what}: ${expected})`, async () => {
    const it = machine();
    const { login } = await it.login(it.clock.nowMicros(), {
      activeWithin: 60 * SECOND,
      keyThumbprint: boundTo,
    });
    await act(it, login.id);
    const result = await it.tokens
      .activate(login.id, 'key')
      .catch((error: unknown) => refused('access_denied')(error) && (error as OAuthError).reason);
    if (typeof result !== 'object') return assert.equal(result, expected);
    assert.equal(expected, 'issued');
    assert.equal(result.issuedAt, it.clock.nowMicros());
    assert.equal(result.login.idleExpiresAt, it.clock.nowMicros() + 14 * 86_400 * SECOND);
    const next = await it.refresh(result.refreshToken, { keyThumbprint: 'key' });
    assert.equal(next.generation, 2);
  });

test('refresh tokens: a slow commit does not shorten the 25 ms during which a refresh waits for simultaneous refreshes', async () => {
  const clock = new ManualClock();
  const memory = new MemoryTokenStore(clock);
  const rotate = memory.rotate.bind(memory);
  memory.rotate = async (rotation) => {
    const isWinner = await rotate(rotation);
    await clock.sleep(40); // the disk is slow, so the commit takes 40 ms
    return isWinner;
  };
  const { login, refresh, store } = machine({ holdMs: 25 }, { store: memory, ...still(clock) });
  const { refreshToken, login: row } = await login();
  const answer = refresh(refreshToken);
  await pass(clock, 40);
  await clock.advance(24);
  assert.equal((await store.findLogin(row.id))?.deliveredAt, null);
  await clock.advance(1);
  assert.equal((await answer).login.generation, 1);
  assert.equal((await store.findLogin(row.id))?.deliveredAt, clock.nowMicros());
});

test('refresh tokens: if onRefresh() takes longer than 25 ms, a refresh still waits briefly for simultaneous refreshes', async () => {
  const clock = new ManualClock();
  const { login, refresh } = machine(
    { holdMs: 25 },
    { ...still(clock), onRefresh: () => clock.sleep(60).then(() => true) },
  );
  const { refreshToken } = await login();
  const answer = refresh(refreshToken);
  await pass(clock, 60);
  assert.equal(clock.pending, 1);
  await clock.advance(1);
  assert.ok((await answer).refreshToken);
});

test('refresh tokens: two refreshes with one token get the same new token if the second arrives just before the first responds', async () => {
  const { login, refresh, clock } = machine({ holdMs: 25 }, still());
  const { refreshToken } = await login();
  const first = refresh(refreshToken);
  await pass(clock, 24); // the first step of the wait has ended, and sockets are read
  await clock.advance(0.5);
  const second = refresh(refreshToken);
  await pass(clock, 0.5);
  await pass(clock, 25);
  assert.equal((await first).refreshToken, (await second).refreshToken);
});

test('refresh tokens: clockSkewMs is not added to the grace period', async () => {
  const { login, refresh, clock } = machine({ grace: 10 * SECOND, clockSkew: 5_000 });
  const { refreshToken } = await login();
  await refresh(refreshToken);
  await clock.advance(10_000);
  await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
});

/** Two hosts with one store, which has its own clock. The clock of the second host differs by `skewMs`. */
function hosts(skewMs: number, policy: Partial<RefreshPolicy> = {}) {
  const own = new ManualClock();
  const store = new MemoryTokenStore(own);
  const clocks = [own, new ManualClock(own.nowMs() + skewMs)] as const;
  const [first, second] = clocks.map((clock) => machine(policy, { store, clock }));
  const advance = async (ms: number): Promise<void> => {
    for (const clock of clocks) await clock.advance(ms);
  };
  assert.ok(first !== undefined && second !== undefined);
  return { first, second, advance };
}

for (const skewMs of [-60_000, -200, 0, 200, 60_000]) {
  test(`refresh tokens: a replay at a host whose clock differs by ${skewMs} ms ends the login`, async () => {
    for (const clockSkew of [0, 5 * SECOND]) {
      const { first, second, advance } = hosts(skewMs, { clockSkew });
      const { refreshToken } = await first.login();
      await advance(1);
      const next = await first.refresh(refreshToken);
      await advance(0.001);
      await assert.rejects(second.refresh(refreshToken), refused('invalid_grant', 'reuse'));
      await assert.rejects(first.refresh(next.refreshToken), refused('invalid_grant', 'revoked_reuse'));
    }
  });

  test(`refresh tokens: a request that overlaps at a host whose clock differs by ${skewMs} ms gets the same new token`, async () => {
    const { first, second, advance } = hosts(skewMs);
    const { refreshToken } = await first.login();
    await advance(1);
    const arrivedMs = second.clock.monotonicMs();
    await advance(10);
    const next = await first.refresh(refreshToken);
    await advance(5); // the handler of the second request begins late
    assert.equal((await second.refresh(refreshToken, { arrivedMs })).refreshToken, next.refreshToken);
  });

  test(`refresh tokens: the grace period has the same length at a host whose clock differs by ${skewMs} ms`, async () => {
    const { first, second, advance } = hosts(skewMs, { grace: 10 * SECOND });
    const { refreshToken } = await first.login();
    const next = await first.refresh(refreshToken);
    await advance(9_999);
    assert.equal((await second.refresh(refreshToken)).refreshToken, next.refreshToken);
    await advance(1);
    await assert.rejects(second.refresh(refreshToken), refused('invalid_grant', 'reuse'));
  });
}

test('refresh tokens: a replay that arrives while the event loop is blocked ends the login', async () => {
  const { first, second, advance } = hosts(0, { holdMs: 25 });
  const { refreshToken } = await first.login();
  await advance(100);
  const next = await first.refresh(refreshToken);
  await advance(200); // the second process was blocked, and reads the replay only now
  await assert.rejects(second.refresh(refreshToken), refused('invalid_grant', 'reuse'));
  await assert.rejects(first.refresh(next.refreshToken), refused('invalid_grant', 'revoked_reuse'));
});

test('refresh tokens: a slow read of the login never makes a replay look like a request that overlaps', async () => {
  for (const [slowBefore, slowAfter] of [
    [40, 0],
    [0, 40],
  ] as const) {
    const clock = new ManualClock();
    const store = new MemoryTokenStore(clock);
    const read = store.readLogin.bind(store);
    store.readLogin = async (id) => {
      await clock.advance(slowBefore);
      const found = await read(id);
      await clock.advance(slowAfter);
      return found;
    };
    const { login, refresh } = machine({}, { store, clock });
    const { refreshToken } = await login();
    await refresh(refreshToken);
    await clock.advance(0.001);
    await assert.rejects(refresh(refreshToken), refused('invalid_grant', 'reuse'));
  }
});

test('refresh tokens: with concurrency "strict", a request that arrived before the response is refused, and the login remains valid', async () => {
  const { first, second, advance } = hosts(-200, { concurrency: 'strict' });
  const { refreshToken } = await first.login();
  await advance(100);
  const arrivedMs = second.clock.monotonicMs();
  await advance(1);
  const next = await first.refresh(refreshToken);
  await advance(100); // the handler of the second request begins late
  await assert.rejects(second.refresh(refreshToken, { arrivedMs }), refused('invalid_grant', 'concurrent'));
  assert.ok((await first.refresh(next.refreshToken)).refreshToken);
});

test('refresh tokens: the response waits longer than 25 ms while other processes get requests with the token', async () => {
  const clock = new ManualClock();
  const store = new MemoryTokenStore(clock);
  const [first, second] = [1, 2].map(() => machine({ holdMs: 25 }, { store, ...still(clock) }));
  const { refreshToken, login: row } = await first!.login();
  let isReady = false;
  const refreshed = first!.answer(refreshToken).then((given) => {
    isReady = true;
    return given;
  });
  const others: Promise<Refreshed>[] = [];
  for (let count = 0; count < 6; count++) {
    await pass(clock, 10);
    assert.equal(isReady, false);
    others.push(second!.answer(refreshToken));
  }
  await pass(clock, 24);
  await clock.advance(1);
  assert.equal(isReady, true);
  await first!.tokens.markDelivered(await refreshed);
  await pass(clock, 40);
  for (const other of others) assert.equal((await other).refreshToken, (await refreshed).refreshToken);
  assert.equal((await store.findLogin(row.id))?.generation, 1);
});

test('refresh tokens: requests with one token make the response wait at most 250 ms longer', async () => {
  const clock = new ManualClock();
  const store = new MemoryTokenStore(clock);
  const { login, answer } = machine({ holdMs: 25 }, { store, ...still(clock) });
  const { refreshToken } = await login();
  let isReady = false;
  void answer(refreshToken).then(() => {
    isReady = true;
  });
  for (let elapsedMs = 0; elapsedMs < 300; elapsedMs += 10) {
    await pass(clock, 10);
    if (!isReady) answer(refreshToken).catch(() => undefined);
  }
  assert.equal(isReady, true);
});

test('refresh tokens: only the process whose response was first stores the time of the delivery', async () => {
  const { login, answer, tokens, clock } = machine();
  const { refreshToken } = await login();
  const first = await answer(refreshToken);
  const second = answer(refreshToken, { arrivedMs: clock.monotonicMs() - 1 });
  await clock.advance(0);
  await tokens.markDelivered(first);
  assert.equal(typeof first.readyAt, 'number');
  assert.equal((await second).readyAt, undefined);
});
