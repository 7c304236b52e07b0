/**
 * Contract of every TokenStore.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import type { Awaitable } from '../../../src/http/contracts.ts';
import type { LoginRow, TokenStore } from '../../../src/oauth/tokens/store.ts';

export interface TokenStoreUnderTest {
  readonly store: TokenStore;
  /** A store of the same logins with the clock that it has in production. */
  readonly live?: TokenStore;
  close?(): Awaitable<void>;
}

const NOW = 1_767_225_600_000_000;
const DAY = 86_400_000_000;

/** Returns the clock of the store. It differs from the times that the process passes to the store. */
export function storeClock(): ManualClock {
  return new ManualClock((NOW + DAY) / 1_000);
}

/** Returns a login as it is stored first. */
export function loginRow(parts: Partial<LoginRow> = {}): LoginRow {
  return {
    id: 'login-1',
    sub: 'alice',
    provider: 'dev',
    subject: 'p-1',
    generation: 0,
    currentHash: 'a'.repeat(64),
    previousHash: null,
    scopes: ['read', 'write'],
    claims: { roles: ['admin'], nested: { text: 'grüße "x"' } },
    authenticatedAt: NOW,
    createdAt: NOW,
    lastUsedAt: NOW,
    rotatedAt: null,
    deliveredAt: NOW,
    idleExpiresAt: NOW + 14 * DAY,
    absoluteExpiresAt: NOW + 90 * DAY,
    revokedAt: null,
    revokeReason: null,
    userAgent: 'curl/8',
    ip: '192.0.2.1',
    keyThumbprint: null,
    providerSid: null,
    ...parts,
  };
}

/** Registers the contract's tests for one implementation. A test is skipped when `make` returns nothing. */
export function tokenStoreContract(
  name: string,
  make: (t: TestContext) => Awaitable<TokenStoreUnderTest | undefined>,
): void {
  function contract(
    does: string,
    run: (store: TokenStore, live: TokenStore | undefined) => Promise<void>,
  ): void {
    test(`${name}: ${does}`, async (t) => {
      const under = await make(t);
      if (under === undefined) return;
      t.after(() => under.close?.());
      await run(under.store, under.live);
    });
  }
  const rotation = {
    id: 'login-1',
    generation: 0,
    currentHash: 'a'.repeat(64),
    keyThumbprint: null,
    nextHash: 'c'.repeat(64),
    now: NOW + 1,
    idleExpiresAt: NOW + 15 * DAY,
  };

  contract(
    'TokenStore.liveLogins() returns logins that are neither revoked nor expired nor older than revokeAll()',
    async (store) => {
      const ids = Array.from({ length: 300 }, (_, index) => `many-${index}`);
      for (const id of ids) await store.addLogin(loginRow({ id, sub: 'many' }));
      for (const parts of [
        { id: 'live' },
        { id: 'idle', idleExpiresAt: NOW + 5 },
        { id: 'over', absoluteExpiresAt: NOW + 5 },
        { id: 'revoked' },
        { id: 'early', sub: 'bob' },
        { id: 'later', sub: 'bob', createdAt: NOW + 2 },
      ])
        await store.addLogin(loginRow(parts));
      await store.revoke('revoked', 'logout', NOW);
      await store.revokeAll('bob', NOW + 1);
      // a login that begins after the revocation
      await store.addLogin(loginRow({ id: 'new', sub: 'bob', createdAt: NOW + 2 }));
      await store.addLogin(loginRow({ id: 'lost', sub: 'bob', createdAt: NOW + 1 }));
      const found = await store.liveLogins(
        ['live', 'idle', 'over', 'revoked', 'early', 'new', 'lost', 'unknown', ...ids],
        NOW + 5,
      );
      assert.deepEqual(found.map(({ id }) => id).toSorted(), ['live', 'new', ...ids].toSorted());
      assert.deepEqual(await store.liveLogins([], NOW), []);
      assert.deepEqual(await store.liveLogins(['live'], NOW), [await store.findLogin('live')]);
    },
  );

  contract('TokenStore.findLogin() returns every member of a login as it was stored', async (store) => {
    await store.addLogin(loginRow());
    assert.deepEqual(await store.findLogin('login-1'), loginRow());
    const bare = loginRow({
      id: 'bare',
      scopes: [],
      claims: {},
      userAgent: null,
      ip: null,
      deliveredAt: null,
      keyThumbprint: 'k'.repeat(43),
    });
    await store.addLogin(bare);
    assert.deepEqual(await store.findLogin('bare'), bare);
    assert.equal(await store.findLogin('none'), undefined);
  });

  contract('TokenStore.readLogin() returns a login, and the time of the store', async (store) => {
    await store.addLogin(loginRow());
    assert.deepEqual(await store.readLogin('login-1'), {
      login: loginRow(),
      readAt: NOW + DAY,
      precision: 0,
    });
    assert.equal(await store.readLogin('none'), undefined);
  });

  contract('the clock of a TokenStore is that of its database, in microseconds', async (store, live) => {
    if (live === undefined) return;
    await store.addLogin(loginRow());
    const [first, second] = [await live.readLogin('login-1'), await live.readLogin('login-1')];
    assert.ok(first !== undefined && second !== undefined);
    assert.ok(Number.isInteger(first.readAt) && first.precision > 0 && first.precision <= 1_000);
    assert.ok(Math.abs(first.readAt - systemClock.nowMicros()) < DAY, String(first.readAt));
    assert.ok(first.readAt <= second.readAt);
    const idOf = (key: string | null): string => (key === null ? 'unbound' : 'bound');
    for (const keyThumbprint of [null, 'k'.repeat(43)]) {
      await store.addLogin(loginRow({ id: idOf(keyThumbprint) }));
      assert.equal(await live.rotate({ ...rotation, id: idOf(keyThumbprint), keyThumbprint }), true);
      const { rotatedAt } = (await live.findLogin(idOf(keyThumbprint)))!;
      assert.ok(rotatedAt! >= second.readAt && rotatedAt! < second.readAt + DAY, String(rotatedAt));
    }
  });

  contract(
    'TokenStore.rotate() changes a live login once, if its generation and token hash are the expected ones',
    async (store) => {
      await store.addLogin(loginRow());
      assert.equal(await store.rotate(rotation), true);
      assert.deepEqual(
        await store.findLogin('login-1'),
        loginRow({
          generation: 1,
          currentHash: 'c'.repeat(64),
          previousHash: 'a'.repeat(64),
          rotatedAt: NOW + DAY,
          deliveredAt: null,
          lastUsedAt: NOW + 1,
          idleExpiresAt: NOW + 15 * DAY,
        }),
      );
      assert.equal(await store.rotate(rotation), false);
    },
  );

  contract('one of many simultaneous TokenStore.rotate() calls for one login succeeds', async (store) => {
    await store.addLogin(loginRow());
    const wins = await Promise.all(Array.from({ length: 20 }, () => store.rotate(rotation)));
    assert.equal(wins.filter(Boolean).length, 1);
  });

  contract('TokenStore.rotate() never sets the idle expiry beyond the absolute expiry', async (store) => {
    await store.addLogin(loginRow());
    assert.equal(await store.rotate({ ...rotation, idleExpiresAt: NOW + 1_000 * DAY }), true);
    assert.equal((await store.findLogin('login-1'))?.idleExpiresAt, NOW + 90 * DAY);
  });

  for (const [what, row, change] of [
    ['whose generation is not the expected one', {}, { generation: 1 }],
    ['whose hash is not the expected one', {}, { currentHash: 'd'.repeat(64) }],
    ['that is revoked', { revokedAt: NOW, revokeReason: 'logout' }, {}],
    ['that has reached its idle end', { idleExpiresAt: NOW + 1 }, {}],
    ['that has reached its absolute end', { absoluteExpiresAt: NOW + 1 }, {}],
    ['that does not exist', { id: 'other' }, {}],
  ] as const) {
    contract(`TokenStore.rotate() does not change a login ${what}`, async (store) => {
      await store.addLogin(loginRow(row));
      assert.equal(await store.rotate({ ...rotation, ...change }), false);
      assert.deepEqual(await store.findLogin(loginRow(row).id), loginRow(row));
    });
  }

  contract('TokenStore.rotate() can bind a login to a key, which later calls must name', async (store) => {
    const [key, other] = ['k'.repeat(43), 'K'.repeat(43)];
    await store.addLogin(loginRow());
    const wins = await Promise.all(
      [key, other, key, other, null].map((keyThumbprint) => store.rotate({ ...rotation, keyThumbprint })),
    );
    assert.equal(wins.filter(Boolean).length, 1);
    assert.equal(
      (await store.findLogin('login-1'))?.keyThumbprint,
      [key, other, key, other, null][wins.indexOf(true)],
    );
    await store.addLogin(loginRow({ id: 'bound', keyThumbprint: key }));
    for (const keyThumbprint of [other, null])
      assert.equal(await store.rotate({ ...rotation, id: 'bound', keyThumbprint }), false);
    assert.deepEqual(await store.findLogin('bound'), loginRow({ id: 'bound', keyThumbprint: key }));
    assert.equal(await store.rotate({ ...rotation, id: 'bound', keyThumbprint: key }), true);
    const { generation, keyThumbprint, currentHash, previousHash } = (await store.findLogin('bound'))!;
    assert.deepEqual(
      [generation, keyThumbprint, currentHash, previousHash],
      [1, key, 'c'.repeat(64), 'a'.repeat(64)],
    );
    await store.addLogin(loginRow({ id: 'over', revokedAt: NOW, revokeReason: 'logout' }));
    assert.equal(await store.rotate({ ...rotation, id: 'over', keyThumbprint: key }), false);
    assert.equal((await store.findLogin('over'))?.keyThumbprint, null);
  });

  contract(
    'TokenStore.noteOverlap() stores the time of the store, until the current refresh token is delivered',
    async (store) => {
      await store.addLogin(loginRow());
      await store.rotate(rotation);
      await store.noteOverlap('login-1', 0);
      assert.equal((await store.findLogin('login-1'))?.lastUsedAt, NOW + 1);
      await store.noteOverlap('login-1', 1);
      assert.equal((await store.findLogin('login-1'))?.lastUsedAt, NOW + DAY);
      await store.addLogin(loginRow({ id: 'delivered' }));
      await store.noteOverlap('delivered', 0);
      assert.deepEqual(await store.findLogin('delivered'), loginRow({ id: 'delivered' }));
    },
  );

  contract(
    'TokenStore.markDelivered() succeeds once, and only for the current generation of the refresh token',
    async (store) => {
      await store.addLogin(loginRow());
      await store.rotate(rotation);
      await store.markDelivered('login-1', 0, NOW + 2);
      assert.equal((await store.findLogin('login-1'))?.deliveredAt, null);
      await store.markDelivered('login-1', 1, NOW + 3);
      await store.markDelivered('login-1', 1, NOW + 4);
      assert.equal((await store.findLogin('login-1'))?.deliveredAt, NOW + 3);
    },
  );

  contract('TokenStore.revoke() ends a login once, and stores the reason', async (store) => {
    await store.addLogin(loginRow());
    const ends = await Promise.all(
      Array.from({ length: 6 }, () => store.revoke('login-1', 'reuse', NOW + 5)),
    );
    assert.equal(ends.filter(Boolean).length, 1);
    assert.deepEqual(
      await store.findLogin('login-1'),
      loginRow({ revokedAt: NOW + 5, revokeReason: 'reuse' }),
    );
    assert.equal(await store.revoke('none', 'logout', NOW), false);
  });

  contract('TokenStore.revokeOf() ends a login only if it belongs to the given subject', async (store) => {
    await store.addLogin(loginRow());
    assert.equal(await store.revokeOf('mallory', 'login-1', NOW), false);
    assert.equal(await store.revokeOf('ALICE', 'login-1', NOW), false);
    assert.equal(await store.revokeOf('alice', 'login-1', NOW), true);
    assert.equal(await store.revokeOf('alice', 'login-1', NOW), false);
    assert.equal((await store.findLogin('login-1'))?.revokeReason, 'user');
  });

  contract(
    'TokenStore.revokeIdentity() ends all logins of a provider account, or only the logins of one provider session',
    async (store) => {
      for (const [id, parts] of [
        ['1', { subject: 'p-1', providerSid: 's-1' }],
        ['2', { subject: 'p-1', providerSid: 's-2' }],
        ['3', { subject: 'p-2', providerSid: 's-1' }],
        ['4', { subject: 'p-1', providerSid: 's-1', provider: 'other' }],
        ['5', { subject: 'P-1', providerSid: 's-3' }],
        ['6', { subject: 'p-1', providerSid: null }],
      ] as const)
        await store.addLogin(loginRow({ id, ...parts }));
      const ended = async (identity: Parameters<TokenStore['revokeIdentity']>[0]): Promise<string[]> =>
        (await store.revokeIdentity(identity, NOW + 3)).map(({ id }) => id).toSorted();
      assert.deepEqual(await ended({ provider: 'dev', subject: 'p-1', providerSid: 's-1' }), ['1']);
      assert.equal((await store.findLogin('1'))?.revokeReason, 'provider');
      assert.deepEqual(await ended({ provider: 'dev', providerSid: 's-1' }), ['3']);
      assert.deepEqual(await ended({ provider: 'dev', subject: 'p-1' }), ['2', '6']);
      assert.deepEqual(await ended({ provider: 'dev', subject: 'p-1' }), []);
      assert.deepEqual(await ended({ provider: 'dev' }), [], 'never everybody');
      for (const id of ['4', '5']) assert.equal((await store.findLogin(id))?.revokedAt, null);
    },
  );

  contract(
    'TokenStore.revokeAll() ends all logins of exactly one subject, and stores the time of the revocation',
    async (store) => {
      for (const [id, sub] of [
        ['1', 'alice'],
        ['2', 'alice'],
        ['3', 'Alice'],
        ['4', 'alice '],
        ['5', 'bob'],
      ] as const)
        await store.addLogin(loginRow({ id, sub }));
      await store.revoke('2', 'logout', NOW);
      assert.equal(await store.validAfter('alice'), 0);
      assert.equal(await store.revokeAll('alice', NOW + 7), 1);
      assert.equal((await store.findLogin('1'))?.revokeReason, 'all');
      for (const id of ['3', '4', '5']) assert.equal((await store.findLogin(id))?.revokedAt, null);
      assert.equal(await store.validAfter('alice'), NOW + 7);
      assert.equal(await store.validAfter('Alice'), 0);
      assert.equal(await store.revokeAll('alice', NOW + 6), 0);
      assert.equal(await store.validAfter('alice'), NOW + 7);
      assert.equal(await store.revokeAll('alice', NOW + 8), 0);
      assert.equal(await store.validAfter('alice'), NOW + 8);
    },
  );

  contract('TokenStore.listLogins() returns live logins of a subject, latest used first', async (store) => {
    await store.addLogin(loginRow({ id: 'old', lastUsedAt: NOW - 5 }));
    await store.addLogin(loginRow({ id: 'new', lastUsedAt: NOW + 5 }));
    await store.addLogin(loginRow({ id: 'over', idleExpiresAt: NOW }));
    await store.addLogin(loginRow({ id: 'past', absoluteExpiresAt: NOW }));
    await store.addLogin(loginRow({ id: 'gone', revokedAt: NOW, revokeReason: 'logout' }));
    await store.addLogin(loginRow({ id: 'other', sub: 'bob' }));
    assert.deepEqual(
      (await store.listLogins('alice', NOW)).map((row) => row.id),
      ['new', 'old'],
    );
  });

  contract(
    'TokenStore.cleanUp() deletes ended logins in batches, but keeps a revoked login until its absolute expiry',
    async (store) => {
      for (let index = 0; index < 5; index++) {
        await store.addLogin(
          loginRow({
            id: `login-${index}`,
            absoluteExpiresAt: NOW + index,
            revokedAt: NOW,
            revokeReason: 'reuse',
          }),
        );
      }
      assert.equal(await store.cleanUp(NOW + 2, 2), 2);
      assert.equal(await store.cleanUp(NOW + 2, 2), 1);
      assert.equal(await store.cleanUp(NOW + 2, 2), 0);
      assert.notEqual(await store.findLogin('login-3'), undefined);
      assert.equal(await store.findLogin('login-2'), undefined);
    },
  );
}
