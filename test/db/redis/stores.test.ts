/** Keys and times of the commands that the stores in Redis send. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { Redis, RedisCache, RedisRecordStore } from '../../../src/db/index.ts';
import type { RedisValue } from '../../../src/db/redis/connection.ts';

/** A client that records its commands, and replies with `reply`. */
class Recorded extends Redis {
  readonly commands: (readonly unknown[])[] = [];
  reply: RedisValue = 'OK';

  override command(parts: readonly unknown[]): Promise<never> {
    this.commands.push(parts);
    return Promise.resolve(this.reply as never);
  }

  override script(_script: unknown, keys: readonly string[], args: readonly unknown[]): Promise<never> {
    this.commands.push(['script', ...keys, ...args]);
    return Promise.resolve(1 as never);
  }
}

const recorded = (): Recorded => new Recorded('redis://127.0.0.1:1/0');

for (const [what, key, kept] of [
  ['short', 'a', undefined],
  ['of 66 characters of three bytes', '€'.repeat(66), undefined],
  ['of 200 bytes', 'x'.repeat(200), undefined],
  ['of 201 bytes', 'x'.repeat(201), 'x'.repeat(50)],
  ['of 67 characters of three bytes', '€'.repeat(67), '€'.repeat(50)],
  ['with the mark of a hashed key', 'a\0#b', 'a\0#b'],
  ['that is not valid Unicode', 'a\ud800', 'a\ufffd'],
  [
    'whose beginning ends inside of a character',
    `${'x'.repeat(49)}${'😀'.repeat(90)}`,
    `${'x'.repeat(49)}\ufffd`,
  ],
] as const)
  test(`RedisRecordStore ${kept === undefined ? 'keeps' : 'hashes'} a key ${what}`, async () => {
    const redis = recorded();
    const store = new RedisRecordStore(redis, { prefix: 'p:' });
    await store.get(key);
    const digest = hash('sha256', Buffer.from(key, 'utf16le'), 'base64url');
    assert.deepEqual(redis.commands, [['GET', `p:${kept === undefined ? key : `${kept}\0#${digest}`}`]]);
  });

for (const [ttlMs, life] of [
  [0.2, 1],
  [1, 1],
  [1.5, 2],
  [60_000, 60_000],
  [1e13, 1e13],
  [1e13 + 1, 1e13],
  [Infinity, 1e13],
  [0, undefined],
  [-1, undefined],
] as const)
  test(`RedisRecordStore ${life === undefined ? 'stores nothing' : `stores a record for ${life} ms`} if its time to live is ${ttlMs} ms`, async () => {
    const redis = recorded();
    const store = new RedisRecordStore(redis);
    await store.set('a', 'b', ttlMs);
    await store.add('a', 'b', ttlMs);
    await store.replace('a', 'b', 'c', ttlMs);
    const key = 'svc:record:a';
    assert.deepEqual(
      redis.commands,
      life === undefined
        ? [
            ['DEL', key],
            ['EXISTS', key],
            ['script', key, 'b', 'c', 0],
          ]
        : [
            ['SET', key, 'b', 'PX', life],
            ['SET', key, 'b', 'NX', 'PX', life],
            ['script', key, 'b', 'c', life],
          ],
    );
  });

test('RedisRecordStore gives the results of its commands', async () => {
  const redis = recorded();
  const store = new RedisRecordStore(redis);
  for (const [reply, call, expected] of [
    ['text', () => store.get('a'), 'text'],
    [null, () => store.get('a'), undefined],
    ['OK', () => store.add('a', 'b', 1), true],
    [null, () => store.add('a', 'b', 1), false],
    [0, () => store.add('a', 'b', 0), true],
    [1, () => store.add('a', 'b', 0), false],
    [1, () => store.delete('a'), true],
    [0, () => store.delete('a'), false],
  ] as const) {
    redis.reply = reply;
    assert.equal(await call(), expected);
  }
});

for (const [prefix, below, pattern] of [
  ['p:', '', 'p:*'],
  ['p:', 'user:', 'p:user:*'],
  ['p*', 'a?b', 'p\\*a\\?b*'],
  ['[p]', 'a\\', '\\[p\\]a\\\\*'],
] as const)
  test(`RedisCache.clear() removes the keys that begin with ${JSON.stringify(prefix + below)}, page by page`, async () => {
    const pages: RedisValue[] = [
      [Buffer.from('17'), [Buffer.from('a'), Buffer.from('b')]],
      [Buffer.from('18'), []],
      [Buffer.from('0'), [Buffer.from('c')]],
    ] as never;
    class Scanned extends Recorded {
      override command(parts: readonly unknown[]): Promise<never> {
        if (parts[0] === 'SCAN') this.reply = pages.shift()!;
        return super.command(parts);
      }
    }
    const redis = new Scanned('redis://127.0.0.1:1/0');
    await new RedisCache(redis, { prefix }).clear(below);
    assert.deepEqual(redis.commands, [
      ['SCAN', '0', 'MATCH', pattern, 'COUNT', 1_000],
      ['UNLINK', Buffer.from('a'), Buffer.from('b')],
      ['SCAN', '17', 'MATCH', pattern, 'COUNT', 1_000],
      ['SCAN', '18', 'MATCH', pattern, 'COUNT', 1_000],
      ['UNLINK', Buffer.from('c')],
    ]);
  });
