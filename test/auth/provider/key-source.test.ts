import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { KeySource } from '../../../src/auth/provider/key-source.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { Outbound } from '../../../src/auth/provider/outbound.ts';
import { FakeProvider } from '../../oauth/support/fake-provider.ts';

function source(
  fake: FakeProvider,
  pinned?: readonly unknown[],
): { keys: KeySource; clock: ManualClock; fetches(): number } {
  const clock = new ManualClock();
  let fetches = 0;
  const outbound = new Outbound({ clock, timeoutMs: 10_000 });
  return {
    keys: new KeySource({
      clock,
      fetch: () => {
        fetches++;
        return outbound.call({ method: 'GET', url: `${fake.url}/jwks` });
      },
      pinned,
    }),
    clock,
    fetches: () => fetches,
  };
}

test('KeySource caches keys for ten minutes', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock } = source(fake);
  const first = await keys.current();
  await clock.advance(599_999);
  assert.equal(await keys.current(), first);
  assert.equal(fake.count(), 1);
  await clock.advance(1);
  assert.notEqual(await keys.current(), first);
  assert.equal(fake.count('jwks'), 2);
});

test('KeySource.atHand() returns keys that are older than ten minutes while newer ones are fetched, and tries again once a minute', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, fetches } = source(fake);
  const first = await keys.atHand();
  const looks = async (ms: number): Promise<number> => {
    await clock.advance(ms);
    assert.equal(keys.atHand(), first);
    return fetches();
  };
  assert.equal(await looks(599_999), 1);
  fake.failNext('jwks', { status: 503 });
  assert.equal(await looks(1), 2);
  await assert.rejects(keys.again()!); // waits for the fetch
  assert.equal(await looks(59_999), 2);
  assert.equal(await looks(1), 3);
  const second = await keys.again();
  assert.deepEqual([keys.atHand() === second, second === first, fetches()], [true, false, 3]);
});

test('if a fetch fails, KeySource uses its cached keys for up to a day, and tries again once a minute', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock } = source(fake);
  const known = await keys.current();
  await clock.advance(600_000);
  for (let minute = 0; minute < 3; minute++) {
    fake.failNext('jwks', { status: 503 });
    for (let count = 0; count < 5; count++) assert.equal(await keys.current(), known);
    assert.equal(fake.count('jwks'), 2 + minute);
    await clock.advance(60_000);
  }
  assert.notEqual(await keys.current(), known, 'it answers again');
  await clock.advance(86_400_000);
  fake.failNext('jwks', { status: 503 });
  await assert.rejects(Promise.resolve(keys.current()), ProviderFault);
});

test('KeySource makes one request for the key set if several logins wait for it', async () => {
  await using fake = await FakeProvider.start();
  const { keys } = source(fake);
  const go = Promise.withResolvers<void>();
  fake.failNext('jwks', { until: go.promise });
  const waiting = Array.from({ length: 50 }, () => keys.current());
  await fake.arrived(1);
  const again = keys.again();
  go.resolve();
  fake.failNext('jwks', { status: 500 });
  await Promise.all([...waiting, again].map((each) => Promise.resolve(each).catch(() => undefined)));
  assert.equal(fake.count(), 1);
});

test('KeySource fetches at most once a minute for unknown key ids, however many such ids arrive', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock } = source(fake);
  await keys.current();
  for (let minute = 1; minute <= 3; minute++) {
    for (let index = 0; index < 1_000; index++) await keys.again();
    assert.equal(fake.count(), 1 + minute);
    await clock.advance(59_999);
    assert.equal(keys.again(), undefined);
    await clock.advance(1);
  }
});

test('after a wrong signature, KeySource fetches again if its keys are at least a minute old, and at most once a minute', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock } = source(fake);
  await keys.current();
  await clock.advance(59_999);
  assert.equal(keys.renewed(), undefined);
  await clock.advance(1);
  const [one, other] = [keys.renewed(), keys.renewed()];
  assert.equal(await one, await other);
  for (let index = 0; index < 1_000; index++) assert.equal(keys.renewed(), undefined);
  assert.equal(fake.count(), 2);
  await clock.advance(60_000);
  await keys.again(); // this is the one fetch that a minute allows
  assert.equal(keys.renewed(), undefined);
  assert.equal(fake.count(), 3);
});

test('KeySource fails if it cannot fetch a key set, and tries again at the next call', async () => {
  await using fake = await FakeProvider.start();
  const { keys } = source(fake);
  const reason =
    (expected: string) =>
    (error: unknown): boolean =>
      error instanceof ProviderFault && error.code === 'provider_error' && error.reason === expected;
  for (const [scripted, expected] of [
    [{ status: 500 }, 'jwks_status_500'],
    [{ body: '[]' }, 'jwks_not_object'],
    [{ body: '{"keys":{}}' }, 'jwks_without_keys'],
    [{ body: '{' }, 'jwks_not_json'],
    [{ headers: { 'content-type': 'text/html' } }, 'jwks_media_type'],
  ] as const) {
    fake.failNext('jwks', { body: {}, ...scripted });
    await assert.rejects(Promise.resolve(keys.current()), reason(expected));
  }
  fake.failNext('jwks', {
    headers: { 'content-type': 'application/jwk-set+json; charset=utf-8' },
    body: { keys: fake.keys },
  });
  assert.equal((await keys.current()).keys.length, 1);
});

test('KeySource uses its cached keys after a failure of the provider, but passes on every other error', async () => {
  await using fake = await FakeProvider.start();
  const known = source(fake);
  const answer = await new Outbound({ clock: known.clock, timeoutMs: 10_000 }).call({
    method: 'GET',
    url: `${fake.url}/jwks`,
  });
  let error: Error | undefined;
  const { clock } = known;
  const keys = new KeySource({
    clock,
    fetch: () => (error === undefined ? Promise.resolve(answer) : Promise.reject(error)),
  });
  const set = await keys.current();
  await clock.advance(600_000);
  error = new ProviderFault('provider_error', 'test');
  assert.equal(await keys.current(), set);
  await clock.advance(60_000);
  error = new TypeError('a defect');
  await assert.rejects(Promise.resolve(keys.current()), error);
});

test('KeySource with configured keys never fetches', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock } = source(fake, fake.keys);
  assert.equal((await keys.current()).keys.length, 1);
  assert.equal(keys.again(), undefined);
  await clock.advance(700_000);
  assert.equal((await keys.current()).keys.length, 1);
  assert.equal(fake.count(), 0);
});
