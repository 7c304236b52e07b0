/**
 * Malicious MySQL and MariaDB servers: their requests are refused, and they learn no secrets.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DataError,
  QueryTimeout,
  json,
  openDatabase,
} from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { cachingSha2Password, nativePassword } from '../../../src/db/mysql/auth.ts';
import { CAPABILITY } from '../../../src/db/mysql/wire.ts';
import {
  CAPABILITIES,
  END,
  MOST,
  NONCE,
  OK,
  TLS_CAPABILITY,
  column,
  fakeMySql,
  greeting,
  packet,
  packetsIn,
  prepared,
} from '../../support/mysql-bytes.ts';

const opens = (url: string) => openDatabase(url, { pool: { acquireTimeoutMs: 1_000 } });
const tells =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    (error instanceof Error && pattern.test(error.message)) || assert.fail(String(error));

for (const [what, first, said, pattern] of [
  [
    'requests the authentication from before MySQL 4.1',
    greeting(),
    packet(2, Buffer.of(0xfe)),
    /before MySQL 4\.1/,
  ],
  [
    'requests a plugin that is not allowed',
    greeting(),
    packet(2, Buffer.of(0xfe), 'mysql_clear_password\0'),
    /plugin "mysql_clear_password", but the client may use only mysql_native_password, caching_sha2_password, sha256_password, parsec \(auth_plugins\)/,
  ],
  [
    'is older than MySQL 4.1',
    greeting(CAPABILITIES & ~CAPABILITY.protocol41),
    undefined,
    /Protocol violation: the server is older than MySQL 4\.1, the oldest version that can be used/,
  ],
  [
    'has no secure connection',
    greeting(CAPABILITIES & ~CAPABILITY.secureConnection),
    undefined,
    /Protocol violation: the server is older than MySQL 4\.1/,
  ],
  [
    'sends more data for a method without',
    greeting(),
    packet(2, Buffer.from([1, 3])),
    /Protocol violation: the server sent more data for the authentication method mysql_native_password, which expects no more data/,
  ],
  ['requests an unknown plugin', greeting(), packet(2, Buffer.of(0xfe), 'dialog\0', 'Password: '), /dialog/],
  ['sends a wrong sequence number', greeting(), packet(3, OK), /packet number 3, but 2/],
  [
    'sends a packet that does not belong to a login',
    greeting(),
    packet(2, Buffer.of(0xfb), '/etc/passwd'),
    /does not belong to a login/,
  ],
  [
    'sends a packet above the limit',
    greeting(),
    Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 2]), Buffer.alloc(10)]),
    /more than 65536 bytes/,
  ],
] as const) {
  test(`MySQL client: a server that ${what} is refused, and the client does not send the password`, async (t) => {
    const { url, received } = await fakeMySql(t, first, (_, count) => (count === 0 ? said : undefined));
    await assert.rejects(opens(url), tells(pattern));
    assert.ok(!Buffer.concat(received).includes('hunter2'));
  });
}

for (const count of [3, 4])
  test(`MySQL client: a server that switches the authentication method ${count} times is ${count === 3 ? 'accepted' : 'refused'}`, async (t) => {
    const { url } = await fakeMySql(t, greeting(), (received, before) => {
      if (received.includes('max_allowed_packet')) return MOST;
      const sequence = 2 * before + 2;
      if (before < count) return packet(sequence, Buffer.of(0xfe), 'mysql_native_password\0', `${NONCE}\0`);
      return packet(before === count ? sequence : 1, OK);
    });
    if (count === 3) await (await opens(url)).close();
    else
      await assert.rejects(
        opens(url),
        tells(/Protocol violation: the server requested more than 3 changes of the authentication method/),
      );
  });

test('MySQL client: an account with the plugin client_ed25519 gets a dummy signature, and the refusal names the plugin', async (t) => {
  const { url, received } = await fakeMySql(t, greeting(), (_, count) =>
    count === 0
      ? packet(2, Buffer.of(0xfe), 'client_ed25519\0', 'n'.repeat(32))
      : packet(4, Buffer.of(0xff, 0x15, 0x04), '#28000Access denied'),
  );
  await assert.rejects(
    opens(url),
    tells(
      /the account uses the authentication plugin "client_ed25519", which this client does not support: give the account the plugin parsec, caching_sha2_password or mysql_native_password/,
    ),
  );
  assert.deepEqual(packetsIn(received[1]!), [Buffer.alloc(64)]);
});

test('MySQL client: with sha256_password, the client asks a server on this machine for its key', async (t) => {
  const { url, received } = await fakeMySql(t, greeting(), (_, count) =>
    count === 0
      ? packet(2, Buffer.of(0xfe), 'sha256_password\0', `${NONCE}\0`)
      : packet(4, Buffer.of(1), 'no key'),
  );
  await assert.rejects(opens(url), tells(/an invalid public key/));
  assert.deepEqual(packetsIn(received[1]!), [Buffer.of(1)]);
});

test('MySQL client: a server that sends a second factor of parsec with a short nonce is refused', async (t) => {
  const { url } = await fakeMySql(t, greeting(), (_, count) =>
    count === 0
      ? packet(2, Buffer.of(0xfe), 'parsec\0', 'n'.repeat(31))
      : packet(4, Buffer.of(1), Buffer.from([0x50, 0]), 's'.repeat(18)),
  );
  await assert.rejects(
    opens(url),
    tells(/Protocol violation: the server sent an invalid nonce for the authentication method parsec/),
  );
});

test('MySQL client: a login by the method "parsec" is refused when the server requests too many rounds of key derivation', async (t) => {
  const { url } = await fakeMySql(t, greeting(), (_, count) =>
    count === 0
      ? packet(2, Buffer.of(0xfe), 'parsec\0', 'n'.repeat(32))
      : packet(4, Buffer.of(1), Buffer.from([0x50, 30]), 's'.repeat(18)),
  );
  await assert.rejects(opens(url), tells(/factor is 30/));
});

test('MySQL client: when the URL requires TLS and the server has no TLS, the client sends nothing, not even the user name', async (t) => {
  const { url, received } = await fakeMySql(t, greeting(), () => undefined);
  await assert.rejects(
    opens(`${url}?sslmode=require`),
    (error) =>
      error instanceof SvcError && error.code === 'E_DB_CONNECT' && /does not offer TLS/.test(error.message),
  );
  assert.equal(Buffer.concat(received).length, 0);
});

test('MySQL client: when the server sends unexpected bytes after its greeting, the client ends the connection before the TLS handshake', async (t) => {
  const { url, received } = await fakeMySql(
    t,
    Buffer.concat([greeting(CAPABILITIES | TLS_CAPABILITY), packet(1, OK)]),
    () => undefined,
  );
  await assert.rejects(opens(`${url}?sslmode=require`), tells(/unexpected data after its greeting/));
  assert.equal(Buffer.concat(received).length, 0);
});

test('MySQL client: when the server sends an invalid RSA key, the client refuses it, and does not send the password', async (t) => {
  const { url, received } = await fakeMySql(t, greeting(CAPABILITIES, 'caching_sha2_password'), (_, count) =>
    count === 0 ? packet(2, Buffer.from([1, 4])) : packet(4, Buffer.of(1), 'no key'),
  );
  await assert.rejects(opens(url), tells(/an invalid public key/));
  assert.ok(!Buffer.concat(received).includes('hunter2'));
});

for (const [what, said, pattern] of [
  ['a request for a file', packet(1, Buffer.of(0xfb), '/etc/passwd'), /LOCAL INFILE/],
  ['a reply with a wrong sequence number', packet(2, OK), /packet number 2, but 1/],
  ['too many columns', packet(1, Buffer.from([0xfd, 0xff, 0xff, 0xff])), /columns/],
  ['an empty packet', packet(1), /empty packet/],
  ['a truncated reply', packet(1, Buffer.from([0, 0xfc, 1])), /a truncated message/],
] as const) {
  test(`MySQL client: the client ends a connection to MySQL or MariaDB when the server sends ${what}`, async (t) => {
    const { url } = await fakeMySql(t, greeting(), (_, count) => (count === 0 ? packet(2, OK) : said));
    await assert.rejects(
      opens(url),
      (error) => error instanceof SvcError && error.cause instanceof ConnectionLost && tells(pattern)(error),
    );
  });
}

test('MySQL client: when the server sends an error about its shutdown right after a reply, the running statement rejects with ConnectionLost', async (t) => {
  const leave = packet(0, Buffer.of(0xff, 0x1d, 0x04), '#08S01Server shutdown in progress'); // 1053
  const { url } = await fakeMySql(t, greeting(), (received, count) =>
    count === 0
      ? packet(2, OK)
      : received.includes('max_allowed_packet')
        ? MOST
        : received[4] === 0x16
          ? Buffer.concat([prepared(), leave])
          : packet(1, OK),
  );
  const db = await opens(url);
  t.after(() => db.close());
  await assert.rejects(db.execute('update a set b = 1'), ConnectionLost);
  assert.equal(db.load.inUse, 0);
});

test('MySQL client: after a canceled SELECT returned a normal result instead of an error, the connection can be used again', async (t) => {
  const rows = Buffer.concat([
    packet(1, Buffer.of(1)),
    packet(2, column('sleep(5)')),
    packet(3, Buffer.of(0, 0, 1, 0, 0, 0, 0, 0, 0, 0)),
    packet(4, END),
  ]); // 1: MySQL's SLEEP() was interrupted
  let asking: Socket | undefined;
  const { url } = await fakeMySql(t, greeting(), (received, count, socket) => {
    if (count === 0) return packet(2, OK);
    if (received.includes('max_allowed_packet')) return MOST;
    if (received[4] === 0x16) return prepared();
    if (received.includes('kill query')) asking!.write(rows);
    else if (received[4] === 0x17) asking = socket;
    return received[4] === 0x17 ? undefined : packet(1, OK);
  });
  const db = await openDatabase(url);
  t.after(() => db.close());
  await assert.rejects(db.scalar('select sleep(5)', [], { timeoutMs: 50 }), QueryTimeout);
  assert.equal(db.load.idle, 1);
});

for (const [what, isInterrupted] of [
  ['returns a normal result', false],
  ['reports the interruption', true],
] as const) {
  test(`MySQL client: after a canceled statement ${what}, its connection can be used again ${isInterrupted ? 'at once' : 'after a harmless query, so that a late cancellation ends only this query'}`, async (t) => {
    const clock = new ManualClock();
    const asked = Promise.withResolvers<void>();
    const order: string[] = [];
    let asking: Socket | undefined;
    const { url } = await fakeMySql(t, greeting(), (received, count, socket) => {
      if (count === 0) return packet(2, OK);
      if (received.includes('max_allowed_packet')) return MOST;
      if (received[4] === 0x16) return prepared();
      if (received[4] === 0x17) {
        if (asking === undefined) setImmediate(asked.resolve);
        else order.push('next');
        asking ??= socket;
        return order.length === 0 ? undefined : packet(1, OK);
      }
      if (received.includes('kill query')) {
        order.push('kill');
        asking!.write(
          isInterrupted
            ? packet(1, Buffer.of(0xff, 0x25, 0x05), '#70100Query execution was interrupted')
            : packet(1, OK),
        ); // 1317
      } else if (received.includes('do 0')) order.push('question');
      return packet(1, OK);
    });
    const db = await openDatabase(url, { clock, pool: { max: 1 } });
    t.after(() => db.close());
    const running = db.execute('update a set b = 1', [], { timeoutMs: 50 }).catch((error: unknown) => error);
    await asked.promise;
    await clock.advance(50);
    await running;
    await db.execute('update a set b = 1');
    assert.deepEqual(order, isInterrupted ? ['kill', 'next'] : ['kill', 'question', 'next']);
  });
}

test('MySQL client: a statement is refused before it runs when client and server count different numbers of placeholders', async (t) => {
  let executions = 0;
  const { url } = await fakeMySql(t, greeting(), (received, count) => {
    if (count === 0) return packet(2, OK);
    if (received.includes('max_allowed_packet')) return MOST;
    if (received[4] === 0x17) executions++;
    return received[4] === 0x16 ? prepared(2) : packet(1, OK);
  });
  const db = await openDatabase(url);
  t.after(() => db.close());
  await assert.rejects(
    db.execute('update a set b = ?', [1]),
    (error) => error instanceof SvcError && error.code === 'E_DB_PARAMETER_COUNT',
  );
  assert.deepEqual([executions, db.load.inUse], [0, 0]);
});

test('MySQL client: when the server does not answer a COMMIT within its time limit, the COMMIT is canceled, and its outcome is unknown', async (t) => {
  const clock = new ManualClock();
  const asked = Promise.withResolvers<void>(),
    reported = Promise.withResolvers<void>();
  const { url } = await fakeMySql(t, greeting(), (received, count) => {
    if (count === 0) return packet(2, OK);
    if (received.includes('max_allowed_packet')) return MOST;
    if (received.includes('kill query')) reported.resolve();
    else if (received.includes('start transaction')) return packet(1, Buffer.from([0, 0, 0, 3, 0, 0, 0]));
    else if (received.toString('latin1', 5) !== 'commit') return packet(1, OK);
    else setImmediate(asked.resolve);
    return undefined;
  });
  const db = await openDatabase(url, { clock, statementTimeoutMs: 1_000 });
  t.after(() => db.close());
  const committing = assert.rejects(
    db.transaction(async () => undefined),
    CommitOutcomeUnknown,
  );
  await asked.promise;
  await clock.advance(1_000);
  await reported.promise;
  await clock.advance(5_000);
  await committing;
  assert.equal(db.load.inUse, 0);
});

for (const statementCache of [100, 0])
  test(`MySQL client: a statement is prepared once while it is in the cache of statements, and a batch ends with its last reply (statementCache: ${statementCache})`, async (t) => {
    const commands: number[] = [];
    let isInTransaction = false;
    const { url } = await fakeMySql(t, greeting(), (received, count) => {
      if (count === 0) return packet(2, OK);
      if (received.includes('max_allowed_packet')) return MOST;
      if (received.includes('start transaction')) isInTransaction = true;
      if (received.includes('commit')) isInTransaction = false;
      const found = packetsIn(received).map((body) => body[0]!);
      commands.push(...found);
      return Buffer.concat(
        found.map((command) =>
          command === 0x16
            ? prepared(1)
            : command === 0x19
              ? Buffer.alloc(0)
              : packet(1, Buffer.from([0, 1, 0, isInTransaction ? 3 : 2, 0, 0, 0])),
        ),
      );
    });
    const db = await openDatabase(url, { statementCache, pool: { max: 1 } });
    t.after(() => db.close());
    for (let run = 0; run < 3; run++)
      assert.equal((await db.execute('update a set b = ?', [run])).affectedRows, 1);
    const count = (command: number): number => commands.filter((each) => each === command).length;
    assert.deepEqual([count(0x16), count(0x17)], statementCache === 0 ? [3, 3] : [1, 3]);
    assert.equal(await db.executeMany('update a set b = ?', [[1], [2], [3]]), 3);
    assert.equal(count(0x17), 6);
    assert.equal(await db.executeMany('update a set b = ?', []), 0);
    assert.deepEqual([count(0x17), db.load.inUse], [6, 0]);
  });

for (const [what, make] of [
  ['text', (length: number) => 'ü'.repeat(length / 2)],
  ['bytes', (length: number) => Buffer.alloc(length, 7)],
  ['a value of json()', (length: number) => json('x'.repeat(length - 2))],
] as const)
  test(`MySQL client: a large value is sent in chunks before its statement (${what})`, async (t) => {
    const commands: number[] = [];
    const sent: Buffer[] = [];
    let pending = Buffer.alloc(0);
    const { url } = await fakeMySql(t, greeting(), (received, count) => {
      if (count === 0) return packet(2, OK);
      pending = Buffer.concat([pending, received]);
      if (pending.includes('max_allowed_packet')) {
        pending = Buffer.alloc(0);
        return MOST;
      }
      const replies: Buffer[] = [];
      while (pending.length >= 4 && pending.length >= 4 + pending.readUIntLE(0, 3)) {
        const end = 4 + pending.readUIntLE(0, 3);
        const [command, body] = [pending[4]!, pending.subarray(5, end)];
        pending = pending.subarray(end);
        commands.push(command);
        if (command === 0x18) {
          assert.equal(body.readUInt16LE(4), 1); // index of the value
          sent.push(body.subarray(6));
        } else if (command !== 0x19) replies.push(command === 0x16 ? prepared(2) : packet(1, OK));
      }
      return Buffer.concat(replies);
    });
    const db = await openDatabase(url, { pool: { max: 1 } });
    t.after(() => db.close());
    const value = make(2_500_000);
    commands.length = 0;
    await db.execute('insert into a values (?, ?)', [1, value]);
    assert.deepEqual(commands, [0x16, 0x18, 0x18, 0x18, 0x17]);
    const text = what === 'a value of json()' ? String(value) : value;
    assert.ok(Buffer.concat(sent).equals(Buffer.from(text as string)));
    if (what !== 'text') return;
    commands.length = 0;
    await assert.rejects(
      db.execute('insert into a values (?, ?)', [1, `${String(value)}\ud800`]),
      (error) =>
        error instanceof DataError &&
        error.sqlstate === '22021' &&
        error.errno === 1366 &&
        /parameter 2\b/.test(error.message),
    );
    assert.ok(!commands.includes(0x17) && !commands.includes(0x18), String(commands));
  });

for (const [plugin, proof] of [
  ['mysql_native_password', nativePassword],
  ['caching_sha2_password', cachingSha2Password],
] as const)
  test(`MySQL client: the first packet of a login has the proof of the method of the greeting (${plugin})`, async (t) => {
    const { url, received } = await fakeMySql(t, greeting(CAPABILITIES, plugin), (bytes, count) =>
      count === 0 ? packet(2, OK) : bytes.includes('max_allowed_packet') ? MOST : packet(1, OK),
    );
    const db = await openDatabase(url);
    t.after(() => db.close());
    const expected = proof('hunter2', Buffer.from(NONCE));
    const user = Buffer.from('app\0');
    const at = received[0]!.indexOf(user) + user.length;
    assert.deepEqual(
      [...received[0]!.subarray(at, at + 1 + expected.length)],
      [expected.length, ...expected],
    );
    assert.ok(!Buffer.concat(received).includes('hunter2'));
  });

test('MySQL client: a reply is parsed to the same values wherever its bytes are split', async (t) => {
  for (let cut = 1; cut < MOST.length; cut++) {
    const server = createServer((socket) => {
      let count = 0;
      t.after(() => {
        socket.destroy();
      });
      socket.on('error', () => undefined);
      socket.write(greeting());
      socket.on('data', (chunk: Buffer) => {
        if (count++ === 0) socket.write(packet(2, OK));
        else if (chunk.includes('max_allowed_packet')) {
          socket.write(MOST.subarray(0, cut));
          setImmediate(() => setImmediate(() => socket.write(MOST.subarray(cut))));
        } else if (chunk[4] !== 1) socket.write(packet(1, OK));
      });
    }).listen(0, '127.0.0.1');
    t.after(() => {
      server.close();
    });
    await once(server, 'listening');
    const db = await openDatabase(`mysql://app@127.0.0.1:${(server.address() as AddressInfo).port}/shop`);
    t.after(() => db.close());
    await db.close();
    server.close();
  }
});
