/**
 * The connection to Redis against fake servers: assignment of replies, and reactions to misbehaving servers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { systemClock } from '../../../src/base/clock.ts';
import {
  ConnectionLost,
  DatabaseError,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  Redis,
  RedisError,
  RedisPlugin,
  RedisScript,
} from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { HELLO, greeting, openedFake as opened, serving, type Answer } from '../../support/fake-redis.ts';
import { seeded } from '../../support/random.ts';

const echo: Answer = (command) => `$${Buffer.byteLength(command[1] ?? '')}\r\n${command[1] ?? ''}\r\n`;

// ── assignment of replies ──

test('Redis connection: when a reply arrives after the time limit of its command, no other caller gets this reply', async (t) => {
  const held: (() => void)[] = [];
  const arrived = Promise.withResolvers<void>();
  const { redis } = await opened(t, (command, socket) => {
    if (held.push(() => socket.write(`+${command[1]}\r\n`)) === 3) arrived.resolve();
    return undefined;
  });
  const abort = new AbortController();
  const first = redis.command(['GET', 'a'], { signal: abort.signal });
  const second = redis.command(['GET', 'b'], { timeoutMs: 5 });
  const third = redis.command(['GET', 'c']);
  abort.abort(new Error('enough'));
  await assert.rejects(
    first,
    (error) => error instanceof QueryCanceled && (error.cause as Error).message === 'enough',
  );
  await assert.rejects(second, QueryTimeout);
  assert.equal(redis.load.pending, 3, 'their places stay');
  await arrived.promise; // 5 ms may pass before the server has read the command
  for (const answer of held) answer();
  assert.equal(await third, 'c');
  assert.equal(redis.load.pending, 0);
});

test('Redis connection: when commands are aborted at random times, no command gets the reply of another command', async (t) => {
  const random = seeded(3);
  const { redis } = await opened(t, (command, socket) => {
    const reply = Buffer.from(`$${command[1]!.length}\r\n${command[1]}\r\n`);
    const at = random(reply.length + 1);
    socket.write(reply.subarray(0, at));
    socket.write(reply.subarray(at));
    return undefined;
  });
  let abandoned = 0;
  await Promise.all(
    Array.from({ length: 20 }, async (_, caller) => {
      for (let count = 0; count < 100; count++) {
        const nonce = `${caller}:${count}`;
        const abort = new AbortController();
        if (random(2) === 0) setImmediate(() => abort.abort());
        try {
          assert.equal(await redis.command(['ECHO', nonce], { signal: abort.signal }), nonce);
        } catch (error) {
          if (!(error instanceof QueryCanceled)) throw error;
          abandoned++;
        }
      }
    }),
  );
  assert.ok(abandoned > 0);
  assert.equal(await redis.command(['ECHO', 'last']), 'last');
});

test('Redis connection: commands that are called in the same turn of the event loop are sent together', async (t) => {
  const { redis, fake } = await opened(t, echo);
  let chunks = 0;
  for (const socket of fake.sockets) socket.on('data', () => chunks++);
  assert.deepEqual(await Promise.all(['a', 'b', 'c', 'd'].map((word) => redis.command(['ECHO', word]))), [
    'a',
    'b',
    'c',
    'd',
  ]);
  assert.equal(chunks, 1);
});

test('Redis connection: commands above the limit "maxPending" are refused at once, and a transaction is sent completely or not at all', async (t) => {
  const { redis, fake } = await opened(t, () => undefined, { maxPending: 4, commandTimeoutMs: 0 });
  for (const socket of fake.sockets) socket.pause();
  const waiting = [1, 2, 3].map((count) => redis.command(['GET', count]));
  for (const each of waiting) each.catch(() => undefined);
  await assert.rejects(redis.transaction([['SET', 'a', 1]]), PoolTimeout);
  const fourth = redis.command(['GET', 4]);
  fourth.catch(() => undefined);
  await assert.rejects(redis.command(['GET', 5]), PoolTimeout);
  await redis.close();
  await assert.rejects(fourth, ConnectionLost);
  assert.ok(!fake.commands.flat().includes('MULTI'));
});

test('Redis connection: push messages and unexpected attributes are not returned as replies to a command', async (t) => {
  const { redis } = await opened(t, () => '>2\r\n+invalidate\r\n*1\r\n+k\r\n+mine\r\n');
  assert.equal(await redis.command(['GET', 'k']), 'mine');
});

// ── servers that misbehave ──

for (const [what, bytes] of [
  ['an unknown type', '?\r\n'],
  ['a second reply to one command', '+a\r\n+b\r\n'],
  ['a reply above the limit "maxReplyBytes"', `$70000\r\n${'x'.repeat(70_000)}\r\n`],
  ['no reply and closes the connection', ''],
  ['half a reply and closes the connection', '$10\r\nabc'],
] as const) {
  test(`Redis connection: the client opens a new connection when the server sends ${what}`, async (t) => {
    const { logger, events } = collectedLog();
    const { redis, fake } = await opened(
      t,
      (_command, socket) => {
        if (bytes === '' || bytes.endsWith('abc')) socket.end(bytes);
        return bytes;
      },
      { maxReplyBytes: 65_536, log: logger },
    );
    const running = redis.command(['GET', 'a']);
    if (!bytes.startsWith('+a'))
      await assert.rejects(
        running,
        (error) => error instanceof ConnectionLost && !error.message.includes('xxx'),
      );
    else await running;
    while (fake.connections < 2) await systemClock.sleep(2);
    assert.ok(events.some(({ event }) => event === 'redis_not_reached'));
  });
}

for (const [what, reply] of [
  ['a string', `$70000\r\n${'x'.repeat(70_000)}\r\n`],
  ['a list', `*200\r\n${`$1000\r\n${'x'.repeat(1_000)}\r\n`.repeat(200)}`],
] as const)
  test(`Redis connection: the error for a reply (${what}) above the limit "maxReplyBytes" names this option`, async (t) => {
    const { redis } = await opened(t, () => reply, { maxReplyBytes: 65_536 });
    await assert.rejects(
      redis.command(['GET', 'a']),
      (error) =>
        error instanceof ConnectionLost &&
        error.sqlstate === '54000' &&
        /raise maxReplyBytes/.test(error.message),
    );
  });

test('Redis connection: when a reply is overdue and no data has arrived for five seconds, the connection is replaced', async (t) => {
  const clock = new ManualClock();
  let isSilent = true;
  const { redis, fake } = await opened(
    t,
    (command) => (isSilent ? undefined : echo(command, undefined as never)),
    { clock },
  );
  for (let count = 0; count < 6; count++) {
    const running = redis.command(['ECHO', 'a']);
    running.catch(() => undefined);
    await clock.advance(1_000);
    await assert.rejects(running, DatabaseError);
  }
  isSilent = false;
  while (!redis.isConnected) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(fake.connections, 2);
  assert.equal(await redis.command(['ECHO', 'b']), 'b');
});

test('Redis connection: a reply with random changes either ends the connection or gives a value, and never causes another error', async (t) => {
  const random = seeded(8);
  const all = Buffer.from('*3\r\n$1\r\na\r\n:1\r\n%1\r\n+k\r\n#t\r\n');
  for (let run = 0; run < 100; run++) {
    const bytes = Buffer.from(all);
    for (let count = 1 + random(3); count > 0; count--) bytes[random(bytes.length)] = random(256);
    const { redis } = await opened(t, (_command, socket) => {
      socket.end(bytes);
      return undefined;
    });
    const outcome = await redis.command(['GET', 'a']).catch((error: unknown) => error);
    assert.ok(!(outcome instanceof Error) || outcome instanceof DatabaseError, String(outcome));
    await redis.close();
  }
});

test('Redis connection: when the server ends each connection at once, the client pauses between attempts', async (t) => {
  const fake = await serving(t, (command, socket) => {
    const said = greeting(command);
    if (command[0] === 'CLIENT') socket.end();
    return said;
  });
  const clock = new ManualClock();
  const redis = new Redis(fake.url, { clock });
  t.after(() => redis.close());
  redis.start();
  for (let step = 0; step < 200; step++) {
    await clock.advance(50);
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(fake.connections >= 3 && fake.connections < 30, `${fake.connections} connections in ten seconds`);
});

// ── the login ──

test('Redis connection: with a server that does not know HELLO, the client uses RESP2', async (t) => {
  const fake = await serving(t, ([name, ...rest]) => {
    switch (name) {
      case 'HELLO':
        return '-ERR unknown command `HELLO`, with args beginning with: `3`\r\n';
      case 'AUTH':
        return rest.join(' ') === 'app secret' ? '+OK\r\n' : '-WRONGPASS\r\n';
      case 'ROLE':
        return '*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n';
      case 'CLIENT':
        return '-ERR unknown subcommand\r\n';
      case 'SELECT':
        return '+OK\r\n';
      default:
        return '$-1\r\n';
    }
  });
  await using redis = await new Redis(
    fake.url.replace('redis://', 'redis://app:secret@').replace('/0', '/2'),
  ).open();
  assert.equal(await redis.command(['GET', 'a']), null);
  assert.deepEqual(
    fake.commands.slice(0, 5).map(([name]) => name),
    ['HELLO', 'AUTH', 'CLIENT', 'ROLE', 'SELECT'],
  );
});

for (const [what, answer, problem] of [
  [
    'a database that the server lacks',
    '-ERR DB index is out of range\r\n',
    /has no database 99.*"databases"/,
  ],
  [
    'a node of a cluster',
    '-ERR SELECT is not allowed in cluster mode\r\n',
    /is a node of a Redis cluster, which is not supported/,
  ],
] as const) {
  test(`Redis connection: if the URL names ${what}, open() rejects with that reason and does not retry`, async (t) => {
    const fake = await serving(t, ([name]) => {
      if (name === 'HELLO') return '%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n';
      return name === 'SELECT' ? answer : '+OK\r\n';
    });
    await assert.rejects(
      new Redis(fake.url.replace('/0', '/99')).open(),
      (error) => fault('E_REDIS_OPEN')(error) && problem.test((error as Error).message),
    );
    assert.equal(fake.connections, 1);
  });
}

for (const [what, answer] of [
  ['WRONGPASS', '-WRONGPASS invalid username-password pair\r\n'],
  ['NOAUTH', '-NOAUTH HELLO must be called with the client already authenticated\r\n'],
] as const) {
  test(`Redis connection: when a login fails with the error ${what}, the error of open() does not show the password, and open() does not retry`, async (t) => {
    const fake = await serving(t, ([name]) => (name === 'HELLO' ? answer : '+OK\r\n'));
    const redis = new Redis(fake.url.replace('redis://', 'redis://app:hunter2@'));
    await assert.rejects(
      redis.open(),
      (error) =>
        fault('E_REDIS_OPEN')(error) &&
        !JSON.stringify([(error as Error).message, String((error as Error).cause)]).includes('hunter2'),
    );
    assert.equal(fake.connections, 1);
  });
}

test('Redis connection: the client refuses a replica, and connects again when a READONLY error shows that its server became a replica', async (t) => {
  const replica = await serving(t, ([name]) =>
    name === 'HELLO' ? HELLO.replace('master', 'replica') : '+OK\r\n',
  );
  // the time of this clock stands still, so the client refuses without a pause
  await assert.rejects(
    new Redis(replica.url, { clock: new ManualClock() }).open(),
    (error) => fault('E_REDIS_OPEN')(error) && /replica/.test((error as Error).message),
  );
  await using any = await new Redis(`${replica.url}?role=any`).open();
  assert.equal(await any.command(['GET', 'a']), 'OK');
  const refusal = "-READONLY You can't write against a read only replica.";
  const script = new RedisScript('return redis.call("INCR", KEYS[1])');
  for (const [how, write, refused] of [
    ['by a command', (redis: Redis) => redis.command(['SET', 'a', 1]), () => refusal],
    [
      'in a transaction',
      (redis: Redis) => redis.transaction([['SET', 'a', 1]]),
      (name: string) =>
        name === 'MULTI'
          ? '+OK'
          : name === 'EXEC'
            ? '-EXECABORT Transaction discarded because of previous errors.'
            : refusal,
    ],
    [
      'by a script',
      (redis: Redis) => redis.script(script, ['a'], []),
      () => `${refusal} script: ${script.sha1}, on @user_script:1.`,
    ],
    [
      'by a script, before Redis 7',
      (redis: Redis) => redis.script(script, ['a'], []),
      () =>
        `-ERR Error running script (call to f_${script.sha1}): @user_script:1: @user_script: 1: ${refusal}`,
    ],
  ] as const) {
    let isReadOnly = false;
    const primary = await serving(
      t,
      (command) => greeting(command) ?? (isReadOnly ? `${refused(command[0]!)}\r\n` : '+OK\r\n'),
    );
    await using redis = await new Redis(
      `redis://${new URL(replica.url).host},${new URL(primary.url).host}/0`,
    ).open();
    assert.equal(await write(redis), 'OK', how);
    isReadOnly = true;
    await assert.rejects(write(redis), ReadOnly, how);
    isReadOnly = false;
    while (primary.connections < 2 || !redis.isConnected) await systemClock.sleep(2);
    assert.equal(await write(redis), 'OK', how);
  }
});

test('Redis connection: after a connection, commands wait while the only server is a replica, until it is the primary again', async (t) => {
  let isReplica = false;
  const fake = await serving(t, ([name]) =>
    name !== 'HELLO' ? '+OK\r\n' : isReplica ? HELLO.replace('master', 'replica') : HELLO,
  );
  await using redis = await new Redis(fake.url, { offlineQueue: 10, commandTimeoutMs: 20_000 }).open();
  isReplica = true;
  for (const socket of fake.sockets) socket.destroy();
  while (redis.isConnected) await systemClock.sleep(2);
  const waiting = redis.command(['GET', 'a']);
  while (fake.connections < 3) await systemClock.sleep(2);
  isReplica = false;
  assert.equal(await waiting, 'OK');
});

// ── commands ──

test('Redis connection: the first word of an error reply determines the class of the error, and the message shows no arguments', async (t) => {
  const { redis } = await opened(t, ([, second]) => `-${second}\r\n`);
  for (const [said, Class] of [
    ['WRONGTYPE Operation', RedisError],
    ['OOM command not allowed', RedisError],
    ['LOADING Redis is loading', ConnectionLost],
    ['MASTERDOWN Link', ConnectionLost],
    ['MOVED 3999 127.0.0.1:6381', RedisError],
    ["ERR unknown command 'x', with args beginning with: 'hunter2' 'b'", RedisError],
  ] as const) {
    await assert.rejects(
      redis.command(['GET', said]),
      (error) =>
        error instanceof Class &&
        !error.message.includes('hunter2') &&
        (!(error instanceof RedisError) || error.reply === said.split(' ')[0]),
    );
  }
  for (const [said, code, sqlstate, remedy] of [
    ['MOVED 3999 127.0.0.1:6381', 'database', '0A000', /clusters are not supported: name a server/],
    ['ASK 3999 127.0.0.1:6381', 'database', '0A000', /clusters are not supported: name a server/],
    ["READONLY You can't write", 'read_only', '25006', /is a replica.*: name its primary/],
  ] as const)
    await assert.rejects(redis.command(['SET', said]), (error) => {
      assert.ok(error instanceof DatabaseError);
      assert.deepEqual([error.code, error.sqlstate], [code, sqlstate]);
      assert.match(error.message, remedy);
      return true;
    });
  await assert.rejects(
    redis.command(['GET', 'OOM no']),
    (error) => /redis\/connection\.test/.test((error as Error).stack!),
    'the stack begins here',
  );
});

test('Redis connection: a transaction without commands has no results, and nothing is sent', async (t) => {
  const { redis, fake } = await opened(t, echo);
  const before = fake.commands.length;
  assert.deepEqual(await redis.transaction([]), []);
  assert.deepEqual(await redis.command(['ECHO', 'a']), 'a');
  assert.equal(fake.commands.length, before + 1);
});

for (const count of [0, 1, 2, 3])
  test(`Redis connection: close() waits for the replies to all pending commands (${count} commands)`, async (t) => {
    const held: (() => void)[] = [];
    const arrived = Promise.withResolvers<void>();
    const { redis } = await opened(
      t,
      (command, socket) => {
        if (held.push(() => socket.write(`+${command[1]}\r\n`)) === count) arrived.resolve();
        return undefined;
      },
      { clock: new ManualClock() },
    );
    const commands = Array.from({ length: count }, (_, index) => redis.command(['GET', `${index}`]));
    if (count > 0) await arrived.promise;
    const closing = redis.close();
    for (const [index, answer] of held.entries()) {
      answer();
      assert.equal(await commands[index], `${index}`);
    }
    await closing;
  });

test('Redis connection: a script is sent by its digest, or as text if the server does not know the digest', async (t) => {
  const script = new RedisScript('return 1');
  assert.equal(script.sha1, 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db');
  let isKnown = false;
  const { redis, fake } = await opened(t, ([name]) => {
    if (name === 'EVALSHA' && !isKnown) return '-NOSCRIPT No matching script.\r\n';
    isKnown = true;
    return ':1\r\n';
  });
  assert.deepEqual(
    [await redis.script(script, ['k'], ['v', 2]), await redis.script(script, ['k'], [])],
    [1, 1],
  );
  assert.deepEqual(
    fake.commands.filter(([name]) => name!.startsWith('EVAL')),
    [
      ['EVALSHA', script.sha1, '1', 'k', 'v', '2'],
      ['EVAL', 'return 1', '1', 'k', 'v', '2'],
      ['EVALSHA', script.sha1, '1', 'k'],
    ],
  );
});

test('Redis connection: invalid arguments and commands that would affect other callers are refused before anything is sent', async (t) => {
  const { redis, fake } = await opened(t, echo);
  const before = fake.commands.length;
  for (const parts of [
    ['SUBSCRIBE', 'a'],
    ['blpop', 'a', 0],
    ['MULTI'],
    ['WATCH', 'a'],
    ['SELECT', 1],
    ['AUTH', 'x'],
    ['CLIENT', 'REPLY', 'OFF'],
    ['XREAD', 'BLOCK', 0, 'STREAMS', 'a', '$'],
    ['xreadgroup', 'GROUP', 'g', 'c', 'Block', 0, 'STREAMS', 'a', '>'],
    ['MONITOR'],
  ])
    await assert.rejects(redis.command(parts), fault('E_REDIS_COMMAND'));
  for (const commands of [
    [['SUBSCRIBE', 'a']],
    [['SET', 'a', 1], ['EXEC'], ['SELECT', 1]],
    [['CLIENT', 'reply', 'off']],
  ])
    await assert.rejects(redis.transaction(commands), fault('E_REDIS_COMMAND'));
  for (const parts of [
    [],
    [Buffer.from('MONITOR')],
    [7],
    ['GET', undefined],
    ['GET', null],
    ['GET', NaN],
    ['GET', {}],
    ['GET', ['a']],
    ['GET', true],
    ['GET', '\ud800'],
    ['GET', new Date()],
  ])
    await assert.rejects(redis.command(parts as never), fault('E_REDIS_ARGUMENT'));
  assert.equal(fake.commands.length, before);
  await redis.command(['XREAD', 'COUNT', 1, 'STREAMS', 'block', 0]); // here "block" is the name of a stream
  await assert.rejects(redis.command(['ECHO', 'a'], { signal: AbortSignal.abort() }), QueryCanceled);
});

test('Redis connection: without a connection, commands fail at once, unless the option "offlineQueue" lets them wait', async (t) => {
  const fake = await serving(t, (command) => greeting(command) ?? echo(command, undefined as never));
  const away = new Redis('redis://127.0.0.1:1/0');
  t.after(() => away.close());
  await assert.rejects(away.command(['GET', 'a']), fault('E_REDIS_CLOSED'));
  away.start();
  await assert.rejects(
    away.command(['GET', 'a']),
    (error) => error instanceof ConnectionLost && /not reachable/.test(error.message),
  );
  await assert.rejects(new Redis('redis://127.0.0.1:1/0?connect_timeout=1').open(), fault('E_REDIS_OPEN'));
  const patient = new Redis(fake.url, { offlineQueue: 2 });
  t.after(() => patient.close());
  patient.start();
  assert.deepEqual(
    await Promise.all([
      patient.command(['ECHO', 'a']),
      patient.command(['ECHO', 'b']),
      assert.rejects(patient.command(['ECHO', 'c']), ConnectionLost).then(() => 'no'),
    ]),
    ['a', 'b', 'no'],
  );
  await assert.rejects(
    new Redis('redis://127.0.0.1:1/0', { offlineQueue: 1 }).command(['PING']),
    fault('E_REDIS_CLOSED'),
  );
});

test('Redis connection: without a connection, the error of a command has the reason of the last failed attempt', async (t) => {
  const redis = new Redis('redis://127.0.0.1:1/0', { clock: new ManualClock() });
  t.after(() => redis.close());
  redis.start();
  let error: unknown;
  do {
    await new Promise((resolve) => setImmediate(resolve));
    error = await redis.command(['PING']).catch((thrown: unknown) => thrown);
    assert.ok(error instanceof ConnectionLost);
  } while (error.cause === undefined);
  assert.match(error.message, /^Redis is not reachable: .*ECONNREFUSED/s);
  assert.equal((error.cause as Error).message, error.message.slice('Redis is not reachable: '.length));
});

for (const offlineQueue of [0, 1])
  test(`Redis connection: the first command of a client that has only subscribed opens a connection for commands (offlineQueue: ${offlineQueue})`, async (t) => {
    const fake = await serving(
      t,
      (command, socket) =>
        greeting(command) ??
        (command[0] === 'SUBSCRIBE' ? '>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n' : echo(command, socket)),
    );
    const redis = new Redis(fake.url, { offlineQueue });
    t.after(() => redis.close());
    await redis.subscribe('c', () => undefined);
    assert.deepEqual([fake.connections, redis.isConnected], [1, false]);
    const first = redis.command(['ECHO', 'a']);
    if (offlineQueue === 0)
      await assert.rejects(
        first,
        (error) =>
          error instanceof ConnectionLost &&
          error.sqlstate === '08003' &&
          error.message === 'Redis is not reachable',
      );
    else assert.equal(await first, 'a');
    while (!redis.isConnected) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([fake.connections, await redis.command(['ECHO', 'b'])], [2, 'b']);
  });

test('the constructor of Redis refuses unknown options, and values of options that are out of range', () => {
  assert.throws(() => new Redis('redis://h', { timeout: 1 } as never), fault('E_OPTION_UNKNOWN'));
  assert.throws(() => new Redis('redis://h', { maxPending: 0 }), fault('E_OPTION_RANGE'));
  assert.throws(() => new Redis('redis://h', { clientName: 'a b' }), fault('E_OPTION_RANGE'));
  assert.throws(() => new Redis('redis:/h'), fault('E_REDIS_URL'));
  assert.equal(new Redis('redis://u:hunter2@h/1').shown, 'redis://u:…@h/1');
});

test('RedisPlugin connects before the application has started, and exports the load of its client as metrics', async (t) => {
  const fake = await serving(t, (command) => greeting(command) ?? '+PONG\r\n');
  const plugin = new RedisPlugin(fake.url, { name: 'jobs' });
  const app = new Svc({ logger: collectedLog().logger, env: 'test' }).register(plugin);
  t.after(() => app.shutdown());
  await app.startup();
  assert.equal(fake.connections, 1);
  const commands = fake.commands.length;
  await plugin.client.command(['PING']);
  assert.equal(fake.commands.length, commands + 1);
  const values = (): string[] =>
    app.metrics
      .render()
      .split('\n')
      .filter((line) => /^svc_redis_(?:pending|disconnected|command_seconds_count|events)/.test(line));
  assert.deepEqual(values().slice(0, 2), ['svc_redis_pending 0', 'svc_redis_disconnected 0']);
  assert.match(values()[2]!, /^svc_redis_command_seconds_count\{redis="jobs"\} [1-9]$/);
  await plugin.client.close();
  assert.deepEqual(values()[1], 'svc_redis_disconnected 1');
});

test('Redis connection: a server that has reached its limit of connections is a lost connection, and another refusal is one of the login', async (t) => {
  let refusal: string | undefined;
  const fake = await serving(t, (command) =>
    command[0] === 'HELLO' && refusal !== undefined ? refusal : (greeting(command) ?? '+OK\r\n'),
  );
  await using redis = await new Redis(fake.url).open();
  const { host } = new URL(fake.url);
  for (const [reply, Class, sqlstate, message] of [
    [
      '-ERR max number of clients reached\r\n',
      ConnectionLost,
      '53300',
      `${host} has reached its limit of connections (maxclients)`,
    ],
    ['-NOPERM no\r\n', DatabaseError, '28000', `${host} refused the login of "default" (NOPERM)`],
  ] as const) {
    refusal = reply;
    await assert.rejects(redis.dedicated(), (error) => {
      assert.ok(error instanceof Class);
      assert.deepEqual([error.message, error.sqlstate], [message, sqlstate]);
      assert.ok(error.cause instanceof RedisError);
      return true;
    });
  }
});

test('Redis connection: the error of a discarded transaction has the refusal of its command', async (t) => {
  const { redis } = await opened(t, ([name]) =>
    name === 'SET'
      ? '-NOPERM no permission\r\n'
      : name === 'EXEC'
        ? '-EXECABORT Transaction discarded\r\n'
        : '+QUEUED\r\n',
  );
  await assert.rejects(
    redis.transaction([
      ['GET', 'a'],
      ['SET', 'a', 1],
      ['SET', 'b', 1],
    ]),
    (error) => {
      assert.ok(error instanceof RedisError);
      assert.deepEqual(
        [error.reply, error.message],
        ['EXECABORT', 'EXEC: EXECABORT Transaction discarded (SET: NOPERM no permission)'],
      );
      return true;
    },
  );
});
