import assert from 'node:assert/strict';
import { createHmac, pbkdf2Sync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { SvcError } from '../../../src/base/errors.ts';
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  DatabaseError,
  QueryCanceled,
  QueryTimeout,
} from '../../../src/db/index.ts';
import { connectPostgres } from '../../../src/db/postgres/connect.ts';
import { Incoming } from '../../../src/db/wire/server-socket.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { FIRST } from '../../support/certificates.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { PLAIN, type Changes } from '../../support/postgres.ts';
import { seeded } from '../../support/random.ts';
import * as write from '../../support/postgres-bytes.ts';
import type { PostgresConnection } from '../../../src/db/postgres/connection.ts';
import type { PostgresHost } from '../../../src/db/postgres/url.ts';

const MAX_ITERATIONS = 10_000_000;

/** Script of a server, run for each connection. `next` resolves to the next received bytes. */
type Script = (socket: Socket, next: () => Promise<Buffer>) => Promise<void> | void;

const KEY = write.backendKey(7, Buffer.from('0badcafe', 'hex'));
const WELCOME = Buffer.concat([
  write.authentication(0),
  write.parameterStatus('server_version', '15.0'),
  KEY,
  write.ready(),
]);
const SECRET = 's3cret-Pw';

/** Starts a scripted server on its own port. */
async function serving(t: TestContext, script: Script): Promise<PostgresHost> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    const chunks: Buffer[] = [];
    let waiting: (() => void) | undefined;
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      waiting?.();
    });
    const next = async (): Promise<Buffer> => {
      while (chunks.length === 0)
        await new Promise<void>((resolve) => {
          waiting = resolve;
        });
      return chunks.shift()!;
    };
    Promise.resolve(script(socket, next)).catch(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
}

function connect(host: PostgresHost, { tls, ...changes }: Changes = {}): Promise<PostgresConnection> {
  const options = {
    user: 'u',
    password: SECRET,
    database: 'd',
    parameters: {},
    hasPlainStartup: false,
    slowStatementMs: 0,
    mustWrite: false,
    statementCache: 256,
    int8: 'auto',
    log: undefined,
    ...changes,
  } as const;
  const clock = changes.clock ?? systemClock;
  return connectPostgres(
    host,
    { ...options, clock, tls: { ...PLAIN, ...tls } },
    { signal: undefined, deadlineMs: clock.monotonicMs() + 10_000, timeoutMs: 10_000 },
  );
}

/** Connects to a server that accepts every login, and returns the connection with the server's socket. */
async function welcomed(t: TestContext, script: Script, changes: Changes = {}): Promise<PostgresConnection> {
  const connection = await connect(
    await serving(t, async (socket, next) => {
      await next();
      socket.write(WELCOME);
      await script(socket, next);
    }),
    changes,
  );
  t.after(() => connection.destroy());
  return connection;
}

const refused = (error: unknown): boolean =>
  error instanceof SvcError && error.code === 'E_DB_CONNECT' && !error.message.includes(SECRET);
const lost = (error: unknown): boolean => error instanceof ConnectionLost && !error.message.includes(SECRET);

// ── before and during TLS ──

const EARLY =
  /: the server sent data before encryption, which indicates an attacker between client and server$/m;
for (const [what, answer, reason] of [
  ['refuses TLS', 'N', /: the server does not offer TLS, but the sslmode of the address requires TLS$/m],
  ['answers with an unknown byte', 'X', /: the reply does not come from a PostgreSQL server$/m],
  [
    'replies with only the beginning of an error message',
    'E',
    /: the server refused TLS with an error \(the text is not shown, because an attacker may have sent it\)/,
  ],
  ['replies with an error message', 'E\0\0\0\x30SERROR\0Mlook here\0\0', EARLY],
  ['replies with more than one byte', `S${'x'.repeat(10)}`, EARLY],
  ['refuses TLS and then sends a greeting', 'NR\0\0\0\x08\0\0\0\0', EARLY],
] as const) {
  test(`PostgreSQL client: when TLS is required and the server ${what}, the login fails, and the client sends nothing more`, async (t) => {
    let seen = Buffer.alloc(0);
    const host = await serving(t, async (socket, next) => {
      seen = Buffer.concat([seen, await next()]);
      socket.write(Buffer.from(answer, 'latin1'));
      for (;;) seen = Buffer.concat([seen, await next()]);
    });
    await assert.rejects(connect(host, { tls: { mode: 'require' } }), (error) => {
      assert.ok(refused(error));
      assert.match((error as Error).message, reason);
      assert.ok(!(error as Error).message.includes('look here'));
      return true;
    });
    assert.equal(seen.toString('hex'), '0000000804d2162f');
  });
}

test('PostgreSQL client: a server that sends bytes before TLS begins is refused, even if these bytes arrive in a separate packet', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write('S');
    socket.write(WELCOME);
  });
  await assert.rejects(connect(host, { tls: { mode: 'require' } }), (error) => refused(error) || lost(error));
});

test('PostgreSQL client: sslmode=prefer accepts a server without TLS, and logs a warning', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write('N');
    await next();
    socket.write(WELCOME);
  });
  const { logger, events } = collectedLog();
  const connection = await connect(host, { tls: { mode: 'prefer' }, log: logger });
  assert.equal(events.length, 1);
  connection.destroy();
});

/** Agrees to TLS, then runs the script. */
function encrypted(script: Script, alpn?: readonly string[]): Script {
  return async (socket, next) => {
    if (alpn === undefined) await next();
    socket.removeAllListeners('data');
    const secure = new TLSSocket(socket, {
      isServer: true,
      cert: FIRST.cert,
      key: FIRST.key,
      ...(alpn !== undefined && { ALPNProtocols: [...alpn] }),
    });
    if (alpn === undefined) socket.write('S');
    const chunks: Buffer[] = [];
    let waiting: (() => void) | undefined;
    secure.on('error', () => undefined);
    secure.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      waiting?.();
    });
    await script(secure, async () => {
      while (chunks.length === 0)
        await new Promise<void>((resolve) => {
          waiting = resolve;
        });
      return chunks.shift()!;
    });
  };
}

test('PostgreSQL client: an untrusted certificate is refused, unless verification is turned off', async (t) => {
  const host = await serving(
    t,
    encrypted(async (socket, next) => {
      await next();
      socket.write(WELCOME);
    }),
  );
  for (const mode of ['verify-ca', 'verify-full'] as const)
    await assert.rejects(connect(host, { tls: { mode } }), refused);
  (await connect(host, { tls: { mode: 'require' } })).destroy();
});

for (const [alpn, isAccepted] of [
  [['postgresql'], true],
  [[], false],
] as const)
  test(`PostgreSQL client: sslnegotiation=direct ${isAccepted ? 'accepts' : 'refuses'} a server ${isAccepted ? 'with' : 'without'} the ALPN protocol "postgresql"`, async (t) => {
    const host = await serving(
      t,
      encrypted(async (socket, next) => {
        await next();
        socket.write(WELCOME);
      }, alpn),
    );
    const opening = connect(host, { tls: { mode: 'require', negotiation: 'direct' } });
    if (isAccepted) (await opening).destroy();
    else
      await assert.rejects(opening, (error) => {
        assert.ok(refused(error), String(error));
        assert.match(
          (error as Error).message,
          /: the server does not support sslnegotiation=direct \(no ALPN protocol "postgresql"\): use PostgreSQL 17 or newer, or remove sslnegotiation$/m,
        );
        return true;
      });
  });

test('PostgreSQL client: with channel_binding=require, only the login method SCRAM-SHA-256-PLUS is accepted', async (t) => {
  for (const asked of [
    write.authentication(0),
    write.authentication(3),
    write.authentication(5, Buffer.alloc(4)),
    write.authenticationSasl('SCRAM-SHA-256'),
  ]) {
    const host = await serving(
      t,
      encrypted(async (socket, next) => {
        await next();
        socket.write(asked);
      }),
    );
    await assert.rejects(connect(host, { tls: { mode: 'require', channelBinding: 'require' } }), refused);
  }
});

test('PostgreSQL login: if the server does not offer SCRAM-SHA-256-PLUS over TLS, the client still announces that it supports channel binding', async (t) => {
  const said = Promise.withResolvers<string>();
  const host = await serving(
    t,
    encrypted(async (socket, next) => {
      await next();
      socket.write(write.authenticationSasl('SCRAM-SHA-256'));
      said.resolve((await next()).toString('latin1'));
      socket.destroy();
    }),
  );
  await assert.rejects(connect(host, { tls: { mode: 'require' } }), lost);
  assert.match(await said.promise, /SCRAM-SHA-256\0....y,,n=,r=/s);
});

// ── the login ──

for (const [what, asked, password, reason] of [
  [
    'a clear-text password without one in the address',
    write.authentication(3),
    undefined,
    /: the server requests a clear-text password, but the address has no password for the user "u"/,
  ],
  [
    'an md5 password without one in the address',
    write.authentication(5, Buffer.alloc(4)),
    '',
    /: the server requests an md5 password, but the address has no password for the user "u"/,
  ],
  [
    'SCRAM without a password in the address',
    write.authenticationSasl('SCRAM-SHA-256'),
    undefined,
    /: the server requests a password for SCRAM, but the address has no password for the user "u"/,
  ],
  [
    'an unknown SASL method',
    write.authenticationSasl('OAUTHBEARER', 'OTHER'),
    SECRET,
    /: the server offers the login methods OAUTHBEARER, OTHER, but the client supports only SCRAM-SHA-256/,
  ],
  [
    'SASL without a method',
    write.authenticationSasl(),
    SECRET,
    /: the server offers the login methods \(none\), but the client supports only SCRAM-SHA-256/,
  ],
  [
    'GSSAPI',
    write.authentication(7),
    SECRET,
    /: the server requests a login by GSSAPI, which is not supported/,
  ],
] as const)
  test(`PostgreSQL login: a server that requests ${what} is refused`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(asked);
    });
    await assert.rejects(connect(host, { password }), (error) => {
      assert.ok(refused(error), String(error));
      assert.match((error as Error).message, reason);
      return true;
    });
  });

test('PostgreSQL login: a message of a method that has not begun is a protocol violation', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write(write.authentication(11, Buffer.from('r=x')));
  });
  await assert.rejects(connect(host), (error) => {
    assert.ok(lost(error));
    assert.match(
      `${(error as Error).message} ${String((error as Error).cause)}`,
      /the server sent a message of an authentication method that has not begun/,
    );
    return true;
  });
});

test('PostgreSQL client: without TLS, a clear-text password is sent to a server on this machine', async (t) => {
  const seen: string[] = [];
  const script: Script = async (socket, next) => {
    await next();
    socket.write(write.authentication(3));
    seen.push((await next()).toString());
    socket.write(WELCOME);
  };
  (await connect(await serving(t, script))).destroy(); // 127.0.0.1
  assert.deepEqual(seen, [`p\0\0\0\x0e${SECRET}\0`]);
});

test(
  'PostgreSQL client: without TLS or with an unverified certificate, no clear-text password is sent to a server on another machine',
  { skip: process.platform === 'win32' },
  async (t) => {
    const server = await serving(t, () => undefined);
    const { PostgresLogin } = await import('../../../src/db/postgres/login.ts');
    const written: Buffer[] = [];
    const socket = { write: (bytes: Buffer) => written.push(bytes) } as unknown as Socket;
    for (const tls of [undefined, { authorized: false } as TLSSocket]) {
      const login = new PostgresLogin(
        { socket, incoming: new Incoming(), tls, address: server },
        { host: 'db.example', port: 5432 },
        {
          user: 'u',
          password: SECRET,
          database: 'd',
          parameters: {},
          hasPlainStartup: false,
          slowStatementMs: 0,
          mustWrite: false,
          statementCache: 0,
          int8: 'auto',
          log: undefined,
          clock: systemClock,
          tls: PLAIN,
        },
      );
      const running = login.run();
      login.onBytes(write.authentication(3));
      await assert.rejects(running, refused);
    }
    assert.ok(!Buffer.concat(written).includes(SECRET));
  },
);

for (const [what, zone, parameters, statements] of [
  ['reports UTC', 'UTC', {}, []],
  ['reports a foreign time zone', 'Europe/Berlin', {}, ["set TimeZone = 'UTC'"]],
  ['reports no time zone', undefined, {}, ["set TimeZone = 'UTC'"]],
  ['reports the time zone of the address', 'Europe/Berlin', { timezone: 'Europe/Berlin' }, []],
] as const) {
  test(`PostgreSQL client: with "startup=plain", the start-up message asks for UTC, and a statement sets UTC if needed (the pooler ${what})`, async (t) => {
    const seen: string[] = [];
    let startUp = '';
    const host = await serving(t, async (socket, next) => {
      startUp = (await next()).toString('latin1');
      socket.write(
        Buffer.concat([
          write.authentication(0),
          write.parameterStatus('DateStyle', 'ISO, MDY'),
          ...(zone === undefined ? [] : [write.parameterStatus('TimeZone', zone)]),
          KEY,
          write.ready(),
        ]),
      );
      for (;;) {
        seen.push((await next()).toString('latin1', 5).replace('\0', ''));
        socket.write(Buffer.concat([write.commandComplete('SET'), write.ready()]));
      }
    });
    (await connect(host, { hasPlainStartup: true, parameters })).destroy();
    assert.match(startUp, /client_encoding\0UTF8\0DateStyle\0ISO\0TimeZone\0UTC\0/);
    assert.doesNotMatch(startUp, /IntervalStyle|application_name/);
    assert.deepEqual(seen, statements);
  });
}

test('PostgreSQL client: if a pooler refuses a start-up parameter, the error says how to change the address or the pooler', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.end(write.failure({ S: 'FATAL', C: '08P01', M: 'unsupported startup parameter: timezone' }));
  });
  const cases: readonly (readonly [Changes, RegExp])[] = [
    [{}, /"timezone": add startup=plain&statement_cache=0 to the address/],
    [{ hasPlainStartup: true }, /"timezone": let the pooler accept it, as ignore_startup_parameters/],
    [{ hasPlainStartup: true, parameters: { TimeZone: 'UTC' } }, /"timezone": remove it from the address/],
  ];
  for (const [changes, message] of cases)
    await assert.rejects(
      connect(host, changes),
      (error: Error) => refused(error) && message.test(error.message),
    );
});

for (const [what, messages] of [
  ['requests Kerberos', [write.authentication(7)]],
  ['requests an unknown authentication method', [write.authentication(77)]],
  ['offers only unsupported SASL mechanisms', [write.authenticationSasl('SCRAM-SHA-1', 'PLAIN')]],
  ['offers no SASL mechanism', [write.authenticationSasl()]],
  ['reports success before SCRAM has ended', [write.authenticationSasl('SCRAM-SHA-256'), WELCOME]],
  [
    'skips the first message of SCRAM',
    [write.authenticationSasl('SCRAM-SHA-256'), write.authentication(12, Buffer.from('v=QQ=='))],
  ],
  ['requests too few SCRAM iterations', [write.authenticationSasl('SCRAM-SHA-256'), 'i=1']],
  [
    'requests too many SCRAM iterations',
    [write.authenticationSasl('SCRAM-SHA-256'), `i=${MAX_ITERATIONS + 1}`],
  ],
  ['ends SCRAM without a signature', [write.authenticationSasl('SCRAM-SHA-256'), 'i=4096', WELCOME]],
  [
    'ends SCRAM with a wrong signature',
    [
      write.authenticationSasl('SCRAM-SHA-256'),
      'i=4096',
      Buffer.concat([
        write.authentication(12, Buffer.from(`v=${Buffer.alloc(32).toString('base64')}`)),
        WELCOME,
      ]),
    ],
  ],
  [
    'ends SCRAM with an error',
    [
      write.authenticationSasl('SCRAM-SHA-256'),
      'i=4096',
      write.authentication(12, Buffer.from('e=other-error')),
    ],
  ],
] as const) {
  test(`PostgreSQL client: the login fails when the server ${what}`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      for (const message of messages) {
        const nonce = /r=([^,]*)/.exec((await next()).toString('latin1'))?.[1];
        socket.write(
          typeof message === 'string'
            ? write.authentication(11, Buffer.from(`r=${nonce}x,s=QUJD,${message}`))
            : message,
        );
      }
    });
    await assert.rejects(connect(host), refused);
  });
}

for (const [what, bytes] of [
  ['a message of 64 KiB and one byte', Buffer.concat([Buffer.from('R'), write.int32(64 * 1024 + 1)])],
  ['a message of 2 GiB', Buffer.concat([Buffer.from('S'), write.int32(2 ** 31 - 1)])],
  ['a message that is shorter than its length', Buffer.concat([Buffer.from('R'), write.int32(3)])],
  ['a row', write.dataRow('x')],
  ['a second authentication request', Buffer.concat([write.authentication(0), write.authentication(3)])],
  ['ReadyForQuery at once', write.ready()],
  ['ReadyForQuery in a transaction', Buffer.concat([write.authentication(0), write.ready('T')])],
  [
    'a reply for another protocol version',
    Buffer.concat([write.message('v', write.int32(196_610), write.int32(0)), WELCOME]),
  ],
  [
    'endless settings',
    Buffer.concat([
      write.authentication(0),
      ...Array.from({ length: 600 }, (_, index) => write.parameterStatus(`s${index}`, 'x')),
    ]),
  ],
] as const) {
  test(`PostgreSQL client: a login fails when the server sends ${what}`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(bytes);
    });
    await assert.rejects(connect(host), lost);
  });
}

test('PostgreSQL client: when a web server answers, the login fails, and the error says that the server is a web server', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write('HTTP/1.1 400 Bad Request\r\n\r\n');
  });
  await assert.rejects(connect(host), { code: 'E_DB_CONNECT', message: /the server is an HTTP server/ });
});

test('PostgreSQL client: during login, the client accepts notices, and a server that announces an older protocol version', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write(
      Buffer.concat([
        write.failure({ S: 'NOTICE', C: '00000', M: 'hello' }, 'N'),
        write.message('v', write.int32(196_608), write.int32(0)),
        WELCOME,
        write.message('A', write.int32(1), write.text('c'), write.text('')),
      ]),
    );
  });
  (await connect(host)).destroy();
});

test('PostgreSQL client: with protocol 3.2 in the URL, the client accepts a long cancellation key, and a server that supports only protocol 3.0', async (t) => {
  const long = Buffer.alloc(32, 7);
  for (const [answer, key] of [
    [Buffer.alloc(0), long],
    [write.message('v', write.int32(196_608), write.int32(0)), Buffer.from('0badcafe', 'hex')],
  ] as const) {
    const seen: Buffer[] = [];
    const leaving = new AbortController();
    const canceled = Promise.withResolvers<Buffer>();
    const host = await serving(t, async (socket, next) => {
      const first = await next();
      if (first.readInt32BE(4) === 80_877_102) {
        canceled.resolve(first);
        return void socket.end();
      }
      seen.push(first);
      socket.write(Buffer.concat([answer, write.authentication(0), write.backendKey(7, key), write.ready()]));
      await next();
      leaving.abort();
      await canceled.promise;
      socket.write(Buffer.concat([write.failure({ S: 'ERROR', C: '57014', M: 'canceled' }), write.ready()]));
    });
    const connection = await connect(host, { protocol: '3.2' });
    assert.equal(seen[0]!.readInt32BE(4), 196_610);
    await assert.rejects(
      connection.execute('select pg_sleep(9)', [], {
        signal: leaving.signal,
        deadlineMs: Infinity,
        timeoutMs: 0,
      }),
      QueryCanceled,
    );
    assert.deepEqual((await canceled.promise).subarray(8), Buffer.concat([write.int32(7), key]));
    connection.destroy();
  }
});

for (const [what, version, unknown] of [
  ['a newer version than the client requested', 196_611, 0],
  ['version 2', 131_072, 0],
  ['a parameter that the client did not send', 196_608, 1],
] as const) {
  test(`PostgreSQL client: a login with protocol 3.2 fails when the server answers with ${what}`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(
        Buffer.concat([
          write.message(
            'v',
            write.int32(version),
            write.int32(unknown),
            ...(unknown === 1 ? [write.text('_pq_.x')] : []),
          ),
          WELCOME,
        ]),
      );
    });
    await assert.rejects(connect(host, { protocol: '3.2' }), lost);
  });
}

test('PostgreSQL client: if the server closes the connection during the login, the error has the SQLSTATE that the server has sent, or is ConnectionLost', async (t) => {
  const closing = await serving(t, async (socket, next) => {
    await next();
    socket.end();
  });
  await assert.rejects(connect(closing), lost);
  for (const [sqlstate, Class] of [
    ['28P01', DatabaseError],
    ['53300', DatabaseError],
    ['57P03', ConnectionLost],
  ] as const) {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.end(write.failure({ S: 'FATAL', V: 'FATAL', C: sqlstate, M: 'no' }));
    });
    await assert.rejects(connect(host), (error) => error instanceof Class && error.sqlstate === sqlstate);
  }
});

test('PostgreSQL client: when the server stops answering at any step of the login, the login ends after "connectTimeoutMs"', async (t) => {
  const silent: Script = () => undefined;
  const asksForMore: Script = async (socket, next) => {
    await next();
    socket.write(write.authentication(0));
  };
  const yes: Script = async (socket, next) => {
    await next();
    socket.write('S');
  };
  for (const [script, mode] of [
    [silent, 'disable'],
    [silent, 'require'],
    [yes, 'require'],
    [asksForMore, 'disable'],
  ] as const) {
    const clock = new ManualClock();
    const arrived = Promise.withResolvers<void>();
    const host = await serving(t, async (socket, next) => {
      await script(socket, async () => {
        const bytes = await next();
        setImmediate(arrived.resolve);
        return bytes;
      });
      if (script === silent) await next().then(() => arrived.resolve());
    });
    const connecting = connect(host, { clock, tls: { mode } });
    connecting.catch(() => undefined);
    await arrived.promise;
    await clock.advance(10_000);
    await assert.rejects(connecting, QueryTimeout);
    assert.equal(clock.pending, 0);
  }
});

test('PostgreSQL client: when the server does not answer a COMMIT within its time limit, the COMMIT is canceled, and its outcome is unknown', async (t) => {
  const clock = new ManualClock();
  const asked = Promise.withResolvers<void>(),
    reported = Promise.withResolvers<void>();
  let connections = 0;
  const host = await serving(t, async (socket, next) => {
    const first = await next();
    if (++connections > 1)
      return first.readUInt32BE(4) === 80_877_102 ? reported.resolve() : reported.reject(first); // CancelRequest
    socket.write(WELCOME);
    assert.match(String(await next()), /commit/);
    setImmediate(asked.resolve);
  });
  const connection = await connect(host, { clock });
  t.after(() => connection.destroy());
  const committing = assert.rejects(
    connection.commit({ signal: undefined, deadlineMs: clock.monotonicMs() + 1_000, timeoutMs: 1_000 }),
    CommitOutcomeUnknown,
  );
  await asked.promise;
  await clock.advance(1_000);
  await reported.promise;
  await clock.advance(5_000);
  await committing;
  assert.equal(connection.isBroken, true);
});

for (const [isReadOnly, expected] of [
  [true, ConnectionLost],
  [false, CommitOutcomeUnknown],
] as const)
  test(`PostgreSQL client: if the connection breaks during the COMMIT of a transaction with isReadOnly=${isReadOnly}, it throws ${expected.name}`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(WELCOME);
      assert.match(String(await next()), /begin/);
      socket.write(Buffer.concat([write.commandComplete('BEGIN'), write.ready('T')]));
      assert.match(String(await next()), /commit/);
      socket.destroy();
    });
    const connection = await connect(host, { clock: new ManualClock() });
    t.after(() => connection.destroy());
    await connection.begin({ isolation: undefined, isReadOnly }, undefined);
    await assert.rejects(connection.commit(), expected);
  });

// ── the conversation ──

const ANSWER = Buffer.concat([
  write.message('1'),
  write.message('t', write.int16(0)),
  write.rowDescription(['a', 23]),
  write.message('2'),
  write.dataRow('1'),
  write.commandComplete('SELECT 1'),
  write.ready(),
]);

for (const [what, isOurs, text, expected] of [
  ['its own transaction', true, 'insert into t values (1) returning a', CommitOutcomeUnknown],
  [
    'its own transaction that writes in WITH',
    true,
    'with w as (delete from t) select 1 as a',
    CommitOutcomeUnknown,
  ],
  ['its own transaction that only reads', true, 'select 1 as a', QueryTimeout],
  ['its own transaction that only reads WITH', true, 'with w as (select 1) select 1 as a', QueryTimeout],
  ['a transaction of the caller', false, 'select 1 as a', QueryTimeout],
] as const) {
  test(`PostgreSQL client: if the server does not answer when a stream in ${what} ends, the client cancels the statement and closes the connection`, async (t) => {
    const clock = new ManualClock();
    const asked = Promise.withResolvers<void>(),
      reported = Promise.withResolvers<void>();
    let connections = 0;
    const host = await serving(t, async (socket, next) => {
      const first = await next();
      if (++connections > 1)
        return first.readUInt32BE(4) === 80_877_102 ? reported.resolve() : reported.reject(first); // CancelRequest
      socket.write(WELCOME);
      assert.match(String(await next()), /begin/);
      socket.write(Buffer.concat([write.commandComplete('BEGIN'), write.ready('T')]));
      await next();
      socket.write(
        Buffer.concat([
          ANSWER.subarray(0, ANSWER.indexOf(write.commandComplete('SELECT 1'))),
          write.message('s'),
          write.ready('T'),
        ]),
      );
      assert.match(String(await next()), isOurs ? /commit/ : /^C[^]*Psvc_p1/); // Close
      setImmediate(asked.resolve);
    });
    const connection = await connect(host, { clock });
    t.after(() => connection.destroy());
    if (!isOurs) await connection.begin({ isolation: undefined, isReadOnly: false }, undefined);
    const stream = connection.stream(text, [], {
      signal: undefined,
      deadlineMs: clock.monotonicMs() + 1_000,
      timeoutMs: 1_000,
    });
    assert.deepEqual((await stream.next()).value, [{ a: 1 }]);
    const leaving = assert.rejects(stream.return(), expected);
    await asked.promise;
    await clock.advance(5_000);
    await reported.promise;
    await clock.advance(5_000);
    await leaving;
    assert.equal(connection.isBroken, true);
  });
}

test('PostgreSQL client: while executeMany() waits for the description of an unknown type, its signal can cancel the call', async (t) => {
  const clock = new ManualClock();
  const asked = Promise.withResolvers<void>(),
    reported = Promise.withResolvers<void>();
  let connections = 0;
  const host = await serving(t, async (socket, next) => {
    const first = await next();
    if (++connections > 1)
      return first.readUInt32BE(4) === 80_877_102 ? reported.resolve() : reported.reject(first); // CancelRequest
    socket.write(WELCOME);
    assert.match(String(await next()), /insert into t/);
    const unknownType = Buffer.from([0, 1, 0, 1, 0x86, 0x9f]); // one parameter of type 99999
    socket.write(
      Buffer.concat([write.message('1'), write.message('t', unknownType), write.message('n'), write.ready()]),
    );
    assert.match(String(await next()), /pg_type/);
    setImmediate(asked.resolve);
  });
  const connection = await connect(host, { clock });
  t.after(() => connection.destroy());
  const abort = new AbortController();
  const running = assert.rejects(
    connection.executeMany('insert into t values (?)', [['x']], {
      signal: abort.signal,
      deadlineMs: Infinity,
      timeoutMs: 0,
    }),
    QueryCanceled,
  );
  await asked.promise;
  abort.abort();
  await reported.promise;
  await clock.advance(5_000);
  await running;
});

for (const [what, bytes] of [
  ['an unexpected message', Buffer.concat([write.message('2'), ANSWER])],
  [
    'a row without a description of its columns',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.message('n'),
      write.message('2'),
      write.dataRow('1'),
    ]),
  ],
  [
    'a row with more columns than were described',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.rowDescription(['a', 23]),
      write.message('2'),
      write.dataRow('1', '2'),
    ]),
  ],
  [
    'a row with fewer columns than were described',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.rowDescription(['a', 23], ['b']),
      write.message('2'),
      write.dataRow('1'),
    ]),
  ],
  [
    'a value that exceeds its row',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.rowDescription(['a']),
      write.message('2'),
      write.message('D', write.int16(1), write.int32(100), Buffer.from('x')),
    ]),
  ],
  [
    'a value with a negative length',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.rowDescription(['a']),
      write.message('2'),
      write.message('D', write.int16(1), write.int32(-2)),
    ]),
  ],
  [
    'invalid JSON',
    Buffer.concat([
      write.message('1'),
      write.message('t', write.int16(0)),
      write.rowDescription(['a', 114]),
      write.message('2'),
      write.dataRow('{'),
    ]),
  ],
  ['ReadyForQuery too early', Buffer.concat([write.message('1'), write.ready()])],
  ['ReadyForQuery with an unknown status', Buffer.concat([ANSWER.subarray(0, -1), Buffer.from('X')])],
  ['a message of 2 GiB', Buffer.concat([Buffer.from('D'), write.int32(2 ** 31 - 1)])],
  ['CopyBoth', write.message('W', Buffer.alloc(1), write.int16(0))],
  ['an unknown message', write.message('~')],
] as const) {
  test(`PostgreSQL client: during a statement, the client ends the connection when the server sends ${what}`, async (t) => {
    const connection = await welcomed(t, async (socket, next) => {
      await next();
      socket.write(bytes);
    });
    let reported = 0;
    connection.onLost = () => reported++;
    await assert.rejects(connection.fetchAll('select 1 as a', [], undefined), lost);
    assert.deepEqual([connection.isBroken, reported], [true, 1]);
    await assert.rejects(connection.fetchAll('select 1 as a', [], undefined), ConnectionLost);
  });
}

const PONG = Buffer.concat([write.message('I'), write.ready()]);

for (const [what, bytes] of [
  ['a reply without a request', ANSWER],
  ['an error that no request expects', write.failure({ S: 'ERROR', C: '22000', M: 'x' })],
  ['a second reply to one request', PONG],
] as const) {
  test(`PostgreSQL client: the client ends an idle connection when the server sends ${what}`, async (t) => {
    const connection = await welcomed(t, async (socket, next) => {
      await next();
      socket.write(Buffer.concat([PONG, bytes]));
    });
    const ended = Promise.withResolvers<Error>();
    connection.onLost = ended.resolve;
    await connection.ping(undefined);
    assert.ok(lost(await ended.promise));
  });

  test(`PostgreSQL client: a new connection fails when the first message after the login is ${what}`, async (t) => {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(Buffer.concat([WELCOME, bytes]));
    });
    await assert.rejects(connect(host), lost);
  });
}

test('PostgreSQL client: the connection ends when the session encoding changes from UTF-8 to another encoding', async (t) => {
  const connection = await welcomed(t, async (socket, next) => {
    await next();
    socket.write(Buffer.concat([write.parameterStatus('client_encoding', 'utf-8'), PONG]));
    await next();
    socket.write(
      Buffer.concat([
        write.commandComplete('SET'),
        write.parameterStatus('client_encoding', 'SJIS'),
        write.ready(),
      ]),
    );
  });
  await connection.ping(undefined);
  await assert.rejects(connection.script("set client_encoding to 'SJIS'", undefined), /client_encoding/);
  assert.equal(connection.isBroken, true);
});

test('PostgreSQL client: a login succeeds wherever the bytes of the server are split, also before text of another protocol', async (t) => {
  const welcome = Buffer.concat([
    write.authentication(0),
    write.parameterStatus('application_name', 'HTTP/1.1'),
    KEY,
    write.ready(),
  ]);
  for (let at = 1; at < welcome.length; at++) {
    const host = await serving(t, async (socket, next) => {
      await next();
      socket.write(welcome.subarray(0, at));
      setImmediate(() => setImmediate(() => socket.write(welcome.subarray(at))));
    });
    const connection = await connect(host);
    assert.equal(connection.parameters.get('application_name'), 'HTTP/1.1');
    connection.destroy();
  }
});

test('PostgreSQL client: a reply is parsed to the same values wherever its bytes are split', async (t) => {
  for (let at = 1; at < ANSWER.length; at += 3) {
    const connection = await welcomed(t, async (socket, next) => {
      await next();
      socket.write(ANSWER.subarray(0, at));
      setImmediate(() => socket.write(ANSWER.subarray(at)));
    });
    assert.deepEqual(await connection.fetchAll('select 1 as a', [], undefined), [{ a: 1 }]);
    connection.destroy();
  }
});

test('PostgreSQL client: a reply with random changes either ends the connection or gives a result, and never causes another error', async (t) => {
  const random = seeded(77);
  for (let run = 0; run < 150; run++) {
    const bytes = Buffer.from(ANSWER);
    for (let count = 1 + random(3); count > 0; count--) bytes[random(bytes.length)] = random(256);
    const connection = await welcomed(t, async (socket, next) => {
      await next();
      socket.end(bytes);
    });
    const outcome = await connection
      .fetchAll('select 1 as a', [], undefined)
      .catch((error: unknown) => error);
    assert.ok(Array.isArray(outcome) || outcome instanceof DatabaseError, String(outcome));
    connection.destroy();
  }
});

test('PostgreSQL client: when the server ignores a cancellation, the connection is closed after a grace period', async (t) => {
  const clock = new ManualClock();
  const reported = Promise.withResolvers<void>();
  let isFirst = true;
  const host = await serving(t, async (socket, next) => {
    if (!isFirst) {
      await next();
      socket.destroy();
      reported.resolve();
      return;
    }
    isFirst = false;
    await next();
    socket.write(WELCOME);
  });
  const connection = await connect(host, { clock });
  const running = connection.fetchAll('select 1', [], {
    signal: undefined,
    deadlineMs: clock.monotonicMs() + 1_000,
    timeoutMs: 1_000,
  });
  running.catch(() => undefined);
  await clock.advance(1_000);
  await reported.promise;
  assert.equal(connection.isIdle, false);
  await clock.advance(5_000);
  await assert.rejects(running, QueryTimeout);
  assert.deepEqual([connection.isBroken, clock.pending], [true, 0]);
});

test('PostgreSQL client: when the server sends the FATAL error 57P01 right after a reply, the running statement rejects with ConnectionLost', async (t) => {
  const described = Buffer.concat([
    write.message('1'),
    write.message('t', write.int16(1), write.int32(1007)),
    write.message('n'),
    write.ready(),
  ]);
  for (const ask of [
    (connection: PostgresConnection) =>
      connection.execute('insert into a select unnest(?::int4[])', [[1, 2]], undefined),
    (connection: PostgresConnection) =>
      connection.executeMany('insert into a values (?)', [[[1]], [[2]]], undefined),
    (connection: PostgresConnection) =>
      connection.insertMany(
        'a',
        ['b'],
        Array.from({ length: 10 }, () => [[1]]),
        undefined,
      ),
  ]) {
    const connection = await welcomed(t, async (socket, next) => {
      await next();
      socket.write(
        Buffer.concat([
          described,
          write.failure({
            S: 'FATAL',
            V: 'FATAL',
            C: '57P01',
            M: 'terminating connection due to administrator command',
          }),
        ]),
      );
    });
    await assert.rejects(ask(connection), ConnectionLost);
    assert.ok(connection.isBroken);
  }
});

test('PostgreSQL client: close() waits at most one second for the server to close the connection', async (t) => {
  const clock = new ManualClock();
  const connection = await welcomed(
    t,
    async (socket, next) => {
      socket.allowHalfOpen = true;
      for (;;) await next();
    },
    { clock },
  );
  const closing = connection.close();
  await clock.advance(1_000);
  await closing;
  assert.equal(clock.pending, 0);
});

test('PostgreSQL client: when a notification listener throws, the exception is logged, and the connection stays open', async (t) => {
  const { logger, events } = collectedLog();
  const connection = await welcomed(
    t,
    async (socket, next) => {
      await next();
      socket.write(
        Buffer.concat([write.message('A', write.int32(1), write.text('c'), write.text('')), ANSWER]),
      );
    },
    { log: logger },
  );
  connection.onNotification = () => {
    throw new Error('mine');
  };
  assert.deepEqual(await connection.fetchAll('select 1 as a', [], undefined), [{ a: 1 }]);
  assert.equal(events.length, 1);
});

test('PostgreSQL client: a SCRAM login succeeds when the server proves that it knows the password', async (t) => {
  const host = await serving(t, async (socket, next) => {
    await next();
    socket.write(write.authenticationSasl('SCRAM-SHA-256'));
    const bare = /n=,r=.*$/s.exec((await next()).toString('latin1'))![0];
    const first = `${bare.slice(3)}x,s=QUJD,i=4096`;
    socket.write(write.authentication(11, Buffer.from(first)));
    const withoutProof = /c=.*(?=,p=)/s.exec((await next()).toString('latin1'))![0];
    const hmac = (key: Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest();
    const signature = hmac(
      hmac(pbkdf2Sync(SECRET, 'ABC', 4_096, 32, 'sha256'), 'Server Key'),
      `${bare},${first},${withoutProof}`,
    );
    socket.write(
      Buffer.concat([write.authentication(12, Buffer.from(`v=${signature.toString('base64')}`)), WELCOME]),
    );
  });
  (await connect(host)).destroy();
});
