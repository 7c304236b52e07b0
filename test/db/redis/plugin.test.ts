/** RedisPlugin on a fake server: its start, its warnings, and its rule. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { RedisPlugin, type RedisPluginOptions } from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { greeting, serving } from '../../support/fake-redis.ts';

interface Started {
  readonly plugin: RedisPlugin;
  readonly app: Svc;
  readonly events: readonly Record<string, unknown>[];
  readonly starting: Promise<void>;
}

function starting(t: TestContext, url: string, options: RedisPluginOptions = {}): Started {
  const { logger, events } = collectedLog();
  const plugin = new RedisPlugin(url, options);
  const app = new Svc({ logger, env: 'test' }).register(plugin);
  t.after(() => app.shutdown());
  return { plugin, app, events, starting: app.startup() };
}

const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;

for (const [what, reply, policy] of [
  ['that evicts keys', bulk('# Memory\r\nmaxmemory_policy:allkeys-lru\r\nx:1\r\n'), 'allkeys-lru'],
  ['that evicts nothing', bulk('# Memory\r\nmaxmemory_policy:noeviction\r\n'), undefined],
  ['that reports no policy', bulk('# Memory\r\n'), undefined],
  ['that refuses INFO', '-NOPERM no permission\r\n', undefined],
] as const)
  test(`RedisPlugin ${policy === undefined ? 'does not warn' : 'warns'} at its start of a server ${what}`, async (t) => {
    const fake = await serving(
      t,
      (command) => greeting(command) ?? (command[0] === 'INFO' ? reply : '+OK\r\n'),
    );
    const { starting: started, events } = starting(t, fake.url);
    await started;
    assert.deepEqual(
      fake.commands.filter(([name]) => name === 'INFO'),
      [['INFO', 'memory']],
    );
    const own = events.filter(({ event }) => String(event).startsWith('redis_'));
    assert.deepEqual(
      own.map(({ event, url }) => [event, url]),
      [['redis_opened', fake.url], ...(policy === undefined ? [] : [['redis_evicts', undefined]])],
    );
    if (policy !== undefined)
      assert.deepEqual(
        [own[1]!['level'], own[1]!['policy'], own[1]!['remedy']],
        [
          'warn',
          policy,
          'Set maxmemory-policy to noeviction, so that Redis does not delete sessions and idempotency records; keep caches on another server',
        ],
      );
  });

/** An address at which no server listens. */
const NOWHERE = 'redis://127.0.0.1:1/0?connect_timeout=1';

test('RedisPlugin ends the start without a server, unless "startsWithout" is true', async (t) => {
  await assert.rejects(starting(t, NOWHERE).starting, fault('E_REDIS_OPEN'));
  const { starting: started, events, plugin } = starting(t, NOWHERE, { startsWithout: true });
  await started;
  assert.equal(plugin.client.isConnected, false);
  const [warning] = events.filter(({ event, level }) => event === 'redis_not_reached' && level === 'warn');
  assert.equal(warning?.['url'], 'redis://127.0.0.1:1/0?connect_timeout=…');
  assert.ok(events.every(({ event }) => event !== 'redis_opened'));
});

test('RedisPlugin ends the start if the server is not Redis, also with "startsWithout"', async (t) => {
  const fake = await serving(t, (command) => (command[0] === 'HELLO' ? '-WRONGPASS invalid\r\n' : '+OK\r\n'));
  await assert.rejects(starting(t, fake.url.replace('//', '//:pw@')).starting, fault('E_REDIS_OPEN'));
});

test('RedisPlugin has the name "redis" by default, and knows whether the program has read its client', () => {
  const plugin = new RedisPlugin(NOWHERE);
  assert.deepEqual([plugin.name, plugin.startsFirst, plugin.isHeld], ['redis', true, false]);
  assert.equal(plugin.client.isConnected, false);
  assert.equal(plugin.isHeld, true);
  const other = new RedisPlugin(NOWHERE, { name: 'jobs' });
  assert.equal(other.name, 'jobs');
  assert.notEqual(other.key, plugin.key);
  assert.equal(new RedisPlugin(NOWHERE, { name: 'redis' }).key, plugin.key);
  assert.throws(() => new RedisPlugin(NOWHERE, { startsWithout: 1 as never }), fault('E_OPTION_RANGE'));
  assert.throws(() => new RedisPlugin(NOWHERE, { starts: true } as never), fault('E_OPTION_UNKNOWN'));
});

for (const [url, env, expected] of [
  ['redis://redis.example/0', 'production', true],
  ['rediss://redis.example/0', 'production', false],
  ['redis://127.0.0.1/0', 'production', false],
  ['redis://redis.example/0', 'development', false],
] as const)
  test(`the rule of RedisPlugin ${expected ? 'reports' : 'accepts'} ${url} in ${env}`, () => {
    const app = new Svc({ logger: collectedLog().logger, env }).register(new RedisPlugin(url));
    const findings = app.check().findings.filter(({ rule }) => rule.startsWith('redis/'));
    assert.deepEqual(
      findings.map(({ rule, severity, subject, message, remedy }) => [
        rule,
        severity,
        subject,
        message,
        remedy,
      ]),
      expected
        ? [
            [
              'redis/tls',
              'warning',
              'plugin redis',
              'the connection to Redis has no TLS, because the address begins with redis://',
              'Begin the address with rediss://, and add sslrootcert=… for a certificate of a private authority',
            ],
          ]
        : [],
    );
  });
