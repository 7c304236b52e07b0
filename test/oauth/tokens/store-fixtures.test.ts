/** Databases and tokens that earlier versions have written stay valid. fixtures/make.ts has written them. */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { SqlTokenStore } from '../../../src/oauth/tokens/sql-store.ts';
import { oauthDatabase, tokensOver } from '../../support/oauth-tokens.ts';
import { folder } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { Fixture } from '../fixtures/make.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures');
const names = readdirSync(FIXTURES)
  .filter((name) => name.endsWith('.json'))
  .map((name) => name.slice(0, -'.json'.length));

/** Opens a copy of a fixture, with the clock shortly after the time of writing. */
async function opened(
  t: TestContext,
  name: string,
  laterMs = 60_000,
  secrets?: (secret: string) => readonly string[],
) {
  const fixture = JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8')) as Fixture;
  const path = join(folder(t), 'data.db');
  copyFileSync(join(FIXTURES, `${name}.db`), path);
  const clock = new ManualClock(fixture.writtenAtMs + laterMs);
  const database = await oauthDatabase(`sqlite:${path}`); // with the additions of later versions
  t.after(() => database.close());
  const store = new SqlTokenStore(() => database, clock);
  return {
    ...tokensOver(store, { holdMs: 0 }, clock, secrets?.(fixture.secret) ?? fixture.secret),
    fixture,
    store,
    clock,
  };
}

test('the folder test/oauth/fixtures contains a database that was written by version 1.4 of the package', () =>
  assert.ok(names.includes('1.4')));

for (const name of names) {
  test(`refresh tokens that version ${name} of the package has stored can be refreshed repeatedly`, async (t) => {
    const { fixture, refresh, clock } = await opened(t, name);
    for (const text of [fixture.fresh, fixture.current]) {
      const next = await refresh(text);
      await clock.advance(1_000);
      assert.ok(await refresh(next));
    }
  });

  test(`refresh tokens that version ${name} has stored can be refreshed after their secret has become the previous secret`, async (t) => {
    const { fixture, refresh } = await opened(t, name, 60_000, (secret) => [
      'another-secret-that-is-the-current-one',
      secret,
    ]);
    assert.ok(await refresh(await refresh(fixture.fresh)));
    assert.equal((await refresh(fixture.interrupted)).split('.')[3], fixture.successor.split('.')[3]);
  });

  test(`the replay of a refresh token that version ${name} of the package has stored counts as theft`, async (t) => {
    const { fixture, refresh } = await opened(t, name);
    await assert.rejects(refresh(fixture.superseded), { code: 'invalid_grant', reason: 'reuse' });
    await assert.rejects(refresh(fixture.current), { code: 'invalid_grant', reason: 'revoked_reuse' });
  });

  test(`a refresh that was interrupted in version ${name} of the package can be repeated, and returns the same new token`, async (t) => {
    const { fixture, refresh } = await opened(t, name);
    assert.equal(await refresh(fixture.interrupted), fixture.successor);
    assert.ok(await refresh(fixture.successor));
  });

  test(`logins that had ended in version ${name} of the package are still refused`, async (t) => {
    const { fixture, refresh, store } = await opened(t, name);
    for (const [text, reason] of [
      [fixture.revoked, 'revoked_logout'],
      [fixture.reused, 'revoked_reuse'],
      [fixture.ended, 'revoked_all'],
    ] as const) {
      await assert.rejects(refresh(text), { code: 'invalid_grant', reason });
    }
    assert.equal(await store.validAfter('bob'), fixture.endedAt);
    const {
      refresh: later,
      fixture: { fresh },
    } = await opened(t, name, 15 * 86_400_000);
    await assert.rejects(later(fresh), { reason: 'expired' });
  });

  test(`logins that version ${name} of the package has stored can be listed`, async (t) => {
    const { fixture, store, clock, codec } = await opened(t, name);
    assert.equal((await store.listLogins('alice', clock.nowMicros())).length, 2);
    const row = await store.findLogin(codec.parse(fixture.interrupted)!.id);
    assert.deepEqual(
      [row?.sub, row?.provider, row?.scopes, row?.claims, row?.userAgent, row?.ip],
      ['Grüße ✓', 'dev', ['read', 'write'], { roles: ['user'] }, 'test/1', '192.0.2.1'],
    );
    assert.equal(await store.cleanUp(clock.nowMicros() + 91 * 86_400_000_000, 1_000), 6);
  });
}
