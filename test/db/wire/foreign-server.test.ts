import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Redis, openDatabase } from '../../../src/db/index.ts';
import { askServer, foreignServer } from '../../../src/db/wire/server-probe.ts';
import type { Endpoint } from '../../../src/db/wire/server-socket.ts';

const GREETING = Buffer.from('4a0000000a352e352e352d31302e31312e31392d4d617269614442002600000000', 'hex');
const HTTP = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n';

/** Starts a server that sends one text, at once or after the first bytes of the client. */
async function saying(t: TestContext, bytes: string | Buffer, isFirst: boolean): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    if (isFirst) socket.write(bytes);
    else socket.once('data', () => socket.write(bytes));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Returns a scheme with its queries: PostgreSQL asks a server for TLS first if TLS is required. */
function addressesOf(scheme: keyof typeof NAMES): (readonly [scheme: keyof typeof NAMES, query: string])[] {
  return ['', ...(scheme === 'postgres' ? ['?sslmode=require'] : [])].map((query) => [scheme, query]);
}

const NAMES = {
  postgres: 'PostgreSQL',
  mysql: 'MySQL or MariaDB',
  mariadb: 'MySQL or MariaDB',
  redis: 'Redis',
};

for (const [kind, bytes, isFirst, schemes] of [
  ['a server of MySQL or MariaDB', GREETING, true, ['postgres', 'redis']],
  ['an HTTP server', HTTP, false, ['postgres', 'redis']],
  ['a server of Redis or Valkey', '-ERR unknown command\r\n', false, ['postgres']],
  ['an SSH server', 'SSH-2.0-OpenSSH_9.2\r\n', true, ['postgres', 'mysql', 'mariadb', 'redis']],
  ['a mail or FTP server', '220 mail.example ESMTP\r\n', true, ['postgres', 'mysql', 'redis']],
] as const)
  for (const [scheme, query] of schemes.flatMap((each) => addressesOf(each)))
    test(`if a URL with the scheme ${scheme}${query} leads to ${kind}, the client rejects without waiting, and the error names the kind of server`, async (t) => {
      const port = await saying(t, bytes, isFirst);
      const clock = new ManualClock(); // stands still: an attempt that waits is never repeated
      const opening =
        scheme === 'redis'
          ? new Redis(`redis://127.0.0.1:${port}/0`, { clock }).open()
          : openDatabase(`${scheme}://root:secret@127.0.0.1:${port}/test${query}`, { clock });
      await assert.rejects(opening, (error: Error) => {
        assert.ok(
          error.message.includes(`the server is ${kind}, not a ${NAMES[scheme]} server`),
          error.message,
        );
        return true;
      });
    });

test('foreignServer() returns undefined for bytes of a server of the expected kind, and for short inputs', () => {
  assert.equal(foreignServer(GREETING, 'MySQL'), undefined);
  assert.equal(foreignServer(Buffer.from('-NOAUTH x'), 'Redis'), undefined);
  assert.equal(foreignServer(GREETING.subarray(0, 4), 'Redis'), undefined);
  assert.equal(foreignServer(GREETING.subarray(0, 5), 'Redis'), 'a server of MySQL or MariaDB');
  assert.equal(foreignServer(Buffer.from('R\0\0\0\x08\0\0\0\0', 'latin1'), 'PostgreSQL'), undefined);
});

for (const [what, answer, waitMs, expected] of [
  [
    'a known server answers',
    (socket: Socket) => void socket.write('+PONG\r\n'),
    0,
    'a server of Redis or Valkey',
  ],
  ['an unknown server answers', (socket: Socket) => void socket.write('hello'), 0, undefined],
  ['the server closes them', (socket: Socket) => void socket.destroy(), 0, undefined],
  ['no server answers for two seconds', () => undefined, 2_000, undefined],
] as const)
  test(`askServer() has closed its connections when ${what}`, async (t) => {
    const closed: Promise<unknown>[] = [];
    const asked = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      closed.push(new Promise((resolve) => socket.once('close', resolve)));
      socket.once('data', () => {
        answer(socket);
        if (closed.length === 2) asked.resolve();
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const clock = new ManualClock();
    const { port } = server.address() as AddressInfo;
    const asking = askServer({ at: { host: '127.0.0.1', port } } as Endpoint, 'PostgreSQL', clock);
    await asked.promise;
    await clock.advance(waitMs);
    assert.equal(await asking, expected);
    await Promise.all(closed);
    assert.equal(closed.length, 2);
  });
