/** Keys and times of the commands that the stores in Redis send. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { StoreFull } from '../../../src/base/errors.ts';
import { toBytes } from '../../../src/cache/cache.ts';
import {
  Redis,
  RedisCache,
  RedisError,
  RedisRateLimitStore,
  RedisRecordStore,
} from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';
import type { RedisValue } from '../../../src/db/redis/connection.ts';

/** A client that records its commands, and replies with `reply`. */
class Recorded extends Redis {
  readonly commands: (readonly unknown[])[] = [];
  /** Options of each call. */
  readonly options: unknown[] = [];
  reply: RedisValue = 'OK';
  scriptReply: RedisValue = 1;
  error: Error | undefined;

  override command(parts: readonly unknown[], options?: unknown): Promise<never> {
    return this.#answer(parts, options, this.reply);
  }

  override script(
    _script: unknown,
    keys: readonly string[],
    args: readonly unknown[],
    options?: unknown,
  ): Promise<never> {
    return this.#answer(['script', ...keys, ...args], options, this.scriptReply);
  }

  #answer(parts: readonly unknown[], options: unknown, reply: RedisValue): Promise<never> {
    this.commands.push(parts);
    this.options.push(options);
    return this.error === undefined ? Promise.resolve(reply as never) : Promise.reject(this.error);
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
      override command(parts: readonly unknown[], options?: unknown): Promise<never> {
        if (parts[0] === 'SCAN') this.reply = pages.shift()!;
        return super.command(parts, options);
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

// ── values of a cache ──

/** A reply of a GET with `asBytes`. */
const stored = (text: string): RedisValue => new Uint8Array(Buffer.from(text)) as never;

for (const [encoding, reply, expected] of [
  ['json', stored('{"a":[1]}'), { a: [1] }],
  ['json', stored('{'), undefined],
  ['json', null, undefined],
  ['clone', toBytes(new Map([['a', 1n]])), new Map([['a', 1n]])],
  ['clone', stored('no clone'), undefined],
  ['clone', null, undefined],
] as const)
  test(`RedisCache.get() with the encoding "${encoding}" returns ${JSON.stringify(expected)} for ${
    reply === null
      ? 'a missing key'
      : Buffer.from(reply as never)
          .toString('latin1')
          .slice(0, 12)
  }`, async () => {
    const redis = recorded();
    redis.reply = reply as RedisValue;
    assert.deepEqual(await new RedisCache(redis, { encoding, prefix: 'p:' }).get('k'), expected);
    assert.deepEqual(redis.commands, [['GET', 'p:k']]);
    assert.deepEqual(redis.options, [{ timeoutMs: 250, asBytes: true }]);
  });

for (const [what, options, value, ttlMs, expected] of [
  ['JSON', { encoding: 'json' }, { a: 1 }, 9.5, ['SET', 'svc:cache:k', Buffer.from('{"a":1}'), 'PX', 10]],
  ['a clone', {}, new Set([1]), 9, ['SET', 'svc:cache:k', toBytes(new Set([1])), 'PX', 9]],
  [
    'the longest value',
    { encoding: 'json', maxValueBytes: 4 },
    'ab',
    9,
    ['SET', 'svc:cache:k', Buffer.from('"ab"'), 'PX', 9],
  ],
  ['a longer value', { encoding: 'json', maxValueBytes: 4 }, 'abc', 9, ['DEL', 'svc:cache:k']],
  ['undefined', {}, undefined, 9, ['DEL', 'svc:cache:k']],
  ['a value without a time to live', {}, 1, 0, ['DEL', 'svc:cache:k']],
  ['a value that has expired', {}, 1, -1, ['DEL', 'svc:cache:k']],
  ['a value with NaN as its time to live', {}, 1, NaN, ['DEL', 'svc:cache:k']],
] as const)
  test(`RedisCache.set() of ${what} sends ${expected[0]}`, async () => {
    const redis = recorded();
    await new RedisCache(redis, options).set('k', value, ttlMs);
    assert.deepEqual(redis.commands, [expected]);
    assert.deepEqual(redis.options, [{ timeoutMs: 250 }]);
  });

test('RedisCache.delete() tells whether the key existed, and long keys are hashed above 2,000 bytes', async () => {
  const redis = recorded();
  const cache = new RedisCache(redis, { timeoutMs: 9 });
  for (const [reply, expected] of [
    [1, true],
    [0, false],
  ] as const) {
    redis.reply = reply;
    assert.equal(await cache.delete('x'.repeat(2_000)), expected);
  }
  await cache.delete('x'.repeat(2_001));
  const digest = hash('sha256', Buffer.from('x'.repeat(2_001), 'utf16le'), 'base64url');
  assert.deepEqual(redis.commands, [
    ['DEL', `svc:cache:${'x'.repeat(2_000)}`],
    ['DEL', `svc:cache:${'x'.repeat(2_000)}`],
    ['DEL', `svc:cache:${'x'.repeat(500)}\0#${digest}`],
  ]);
  assert.deepEqual(redis.options.at(-1), { timeoutMs: 9 });
});

test('RedisCache.clear() waits ten times as long for each command, and removes at most 500 keys at once', async () => {
  const keys = Array.from({ length: 1_001 }, (_, index) => Buffer.from(String(index)));
  const redis = recorded();
  redis.reply = [Buffer.from('0'), keys] as never;
  await new RedisCache(redis).clear();
  assert.deepEqual(redis.commands[0]!.slice(0, 4), ['SCAN', '0', 'MATCH', 'svc:cache:*']);
  assert.deepEqual(
    redis.commands.slice(1).map((command) => command.length - 1),
    [500, 500, 1],
  );
  assert.deepEqual(redis.options, [
    { timeoutMs: 2_500, asBytes: true },
    ...Array.from({ length: 3 }, () => ({ timeoutMs: 2_500 })),
  ]);
});

// ── rate limits ──

for (const [reply, expected] of [
  [[1, 4, 0, 60], { isAllowed: true, remaining: 4, retryAfterMs: 0, resetMs: 60 }],
  [[0, 0, 12, 70], { isAllowed: false, remaining: 0, retryAfterMs: 12, resetMs: 70 }],
] as const)
  test(`RedisRateLimitStore returns the result [${reply.join(', ')}] of its script`, async () => {
    const redis = recorded();
    redis.scriptReply = reply as never;
    const store = new RedisRateLimitStore(redis);
    assert.deepEqual(await store.take('k', { limit: 5, periodMs: 100 }), expected);
    assert.deepEqual(await store.take('k', { limit: 5, periodMs: 100 }, 3), expected);
    assert.deepEqual(redis.commands, [
      ['script', 'svc:rl:k', 5, 100, 1],
      ['script', 'svc:rl:k', 5, 100, 3],
    ]);
    assert.deepEqual(redis.options, [{ timeoutMs: 250 }, { timeoutMs: 250 }]);
  });

// ── errors and options ──

test('RedisRecordStore throws StoreFull when the server has no memory left, and other errors unchanged', async () => {
  const redis = recorded();
  const store = new RedisRecordStore(redis);
  const calls = [
    () => store.set('a', 'b', 1),
    () => store.add('a', 'b', 1),
    () => store.replace('a', 'b', 'c', 1),
  ];
  for (const call of calls) {
    redis.error = new RedisError('OOM', 'SET: OOM command not allowed');
    await assert.rejects(call(), (error) => error instanceof StoreFull && error.cause === redis.error);
    redis.error = new RedisError('NOPERM', 'SET: NOPERM');
    await assert.rejects(call(), (error) => error === redis.error);
  }
});

for (const [Store, timeoutMs] of [
  [RedisCache, 250],
  [RedisRateLimitStore, 250],
  [RedisRecordStore, 1_000],
] as const)
  test(`options of ${Store.name}: a prefix of 1 to 100 characters, and a time limit (default ${timeoutMs})`, () => {
    const make = (options: object): unknown => new Store(recorded(), options);
    for (const good of [
      { prefix: 'p' },
      { prefix: 'p'.repeat(100) },
      { timeoutMs: 1 },
      { timeoutMs: 2_147_483_647 },
    ])
      make(good);
    for (const bad of [
      { prefix: '' },
      { prefix: 'p'.repeat(101) },
      { prefix: 'p\ud800' },
      { prefix: 1 },
      { timeoutMs: 0 },
      { timeoutMs: 2_147_483_648 },
    ])
      assert.throws(() => make(bad), fault('E_OPTION_RANGE'), JSON.stringify(bad));
    assert.throws(() => make({ ttl: 1 }), fault('E_OPTION_UNKNOWN'));
  });

test('options of RedisCache: the encoding and the size of values', () => {
  for (const good of [
    { maxValueBytes: 1 },
    { maxValueBytes: 512 * 1024 * 1024 },
    { encoding: 'clone' as const },
  ])
    new RedisCache(recorded(), good);
  for (const bad of [{ maxValueBytes: 0 }, { maxValueBytes: 512 * 1024 * 1024 + 1 }, { encoding: 'text' }])
    assert.throws(() => new RedisCache(recorded(), bad as never), fault('E_OPTION_RANGE'));
});
