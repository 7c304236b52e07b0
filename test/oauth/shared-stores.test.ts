/** Rate limits and used states in a store that several processes share. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryRateLimitStore, MemoryRecordStore } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { ManualClock } from 'svc/testing';
import { folder } from '../support/run.ts';
import { LoginSite, refusedAs } from './support/site.ts';
import type { SiteDatabase } from './support/site.ts';

test('OAuth: if rate limits are stored in the database, all processes count towards the same limits', async (t) => {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  const database = (): Promise<SiteDatabase> =>
    Promise.resolve({ plugin: new DatabasePlugin(url, { migrations: 'apply' }) });
  const plugin = { limits: { login: 3, store: 'database' } } as const;
  await using one = await LoginSite.open({ database, plugin });
  await using two = await LoginSite.open({ database, plugin });
  for (const site of [one, two, one]) await site.begin();
  for (const site of [one, two]) await refusedAs(await site.client.get('/oauth/login'), 429, 'rate_limited');
  await one.clock.advance(20_000);
  await one.begin();
});

test('OAuth: two applications can share rate limits in one store, and the store "database" is refused without DatabasePlugin', async () => {
  const store = new MemoryRateLimitStore({ clock: new ManualClock() });
  const plugin = { limits: { login: 2, store } };
  await using one = await LoginSite.open({ plugin });
  await using two = await LoginSite.open({ plugin });
  await one.begin();
  await two.begin();
  await refusedAs(await one.client.get('/oauth/login'), 429, 'rate_limited');
  await assert.rejects(
    async () => {
      await using site = await LoginSite.open({ plugin: { limits: { store: 'database' } } });
      await site.client.get('/healthz');
    },
    { code: 'E_COMPILE' },
  );
  await assert.rejects(LoginSite.open({ plugin: { limits: { store: 'redis' as never } } }), {
    code: 'E_OPTION_RANGE',
  });
});

test('OAuth: a state that was used in one process is refused in every process that shares the store of used states', async () => {
  const records = new MemoryRecordStore({ clock: new ManualClock() });
  await using one = await LoginSite.open({ plugin: { records } });
  await using two = await LoginSite.open({ plugin: { records } });
  const { state } = await one.begin();
  const [name] = one.client.cookies.names() as [string];
  const headers = { cookie: `${name}=${one.client.cookies.get(name)!}` };
  assert.equal((await one.back({ code: 'c', state })).status, 200);
  await refusedAs(
    await two.client.get('/oauth/callback', { query: { code: 'c', state }, headers }),
    400,
    'invalid_state',
  );
  assert.equal(two.audited('state_rejected')[0]?.['reason'], 'used');
  await assert.rejects(LoginSite.open({ plugin: { records: {} as never } }), { code: 'E_OPTION_RANGE' });
});
