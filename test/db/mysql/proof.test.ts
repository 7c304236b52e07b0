/**
 * Self-signed certificates, and MariaDB's proof of them since 11.4, which depends on the password. The
 * servers of these tests give a right proof, a wrong one or none. They compute the proof from their stored
 * password hash.
 */
import assert from 'node:assert/strict';
import { X509Certificate, createHash, createPrivateKey, createPublicKey, pbkdf2Sync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import { SvcError } from '../../../src/base/errors.ts';
import { openDatabase } from '../../../src/db/index.ts';
import { FIRST, SECOND, type Pair } from '../../support/certificates.ts';
import {
  CAPABILITIES,
  LONG_PASSWORD,
  MOST,
  NONCE,
  OK,
  TLS_CAPABILITY,
  greeting,
  packet,
} from '../../support/mysql-bytes.ts';
import { folder } from '../../support/run.ts';

const PASSWORD = 'secret';
const SWITCH_NONCE = 'n'.repeat(32);
const SALT = Buffer.concat([Buffer.from([0x50, 0]), Buffer.from('a salt of 18 bytes')]);
const SSL_REQUEST_BYTES = 36;
const COMMAND_NUMBER = 0;

const sha = (algorithm: string, ...parts: readonly (Uint8Array | string)[]): Buffer =>
  parts
    .reduce<ReturnType<typeof createHash>>((hash, part) => hash.update(part), createHash(algorithm))
    .digest();
const fingerprintOf = ({ cert }: Pair): Buffer =>
  Buffer.from(new X509Certificate(cert).fingerprint256.replaceAll(':', ''), 'hex');
/** Returns the hash that a server stores for mysql_native_password. */
const nativeHash = (password: string = PASSWORD): Buffer => sha('sha1', sha('sha1', password));
/** Returns the values that a server stores for parsec: the salt as it is sent, and the public key. */
function parsecHash(): Buffer {
  const seed = pbkdf2Sync(PASSWORD, SALT.subarray(2), 1024, 32, 'sha512');
  const key = createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  });
  return Buffer.concat([SALT, createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32)]);
}
const proofOf = (hash: Uint8Array, pair: Pair = SECOND, nonce: string = NONCE): string =>
  sha('sha256', hash, nonce, fingerprintOf(pair)).toString('hex').toUpperCase();
/** Returns the text of an OK packet: its kind, and the proof. */
const info = (proof: string, mark: number = 1): Buffer =>
  Buffer.concat([Buffer.of(mark), Buffer.from(proof)]);
const withLength = (text: Uint8Array): Buffer => Buffer.concat([Buffer.of(text.length), text]);

/** A packet of the client. */
interface ReceivedPacket {
  readonly sequence: number;
  readonly body: Buffer;
}

/** Replies to a login with the next sequence number. */
interface Talk {
  next(): Promise<ReceivedPacket>;
  say(...parts: readonly (Uint8Array | string)[]): void;
}

interface ServerOptions {
  readonly pair?: Pair;
  readonly version?: string;
  readonly capabilities?: number;
}

/** Starts a TLS server that runs `logIn` after the client's response, then replies to statements. */
async function serving(
  t: TestContext,
  logIn: (talk: Talk) => Promise<void> | void,
  {
    pair = SECOND,
    version = '11.8.3-MariaDB',
    capabilities = (CAPABILITIES | TLS_CAPABILITY) & ~LONG_PASSWORD,
  }: ServerOptions = {},
): Promise<{
  readonly url: (query?: string, password?: string) => string;
  readonly received: ReceivedPacket[];
}> {
  const received: ReceivedPacket[] = [];
  const sockets = new Set<Socket>();
  async function serve(plain: Socket): Promise<void> {
    plain.write(greeting(capabilities, 'mysql_native_password', version));
    while (plain.readableLength < 4 + 32) await once(plain, 'readable');
    plain.read(SSL_REQUEST_BYTES);
    const secure = new TLSSocket(plain, { isServer: true, cert: pair.cert, key: pair.key });
    sockets.add(secure);
    secure.on('error', () => undefined);
    const packets = packetsOf(secure);
    let sequence = 0;
    const next = async (): Promise<ReceivedPacket> => {
      const { value } = await packets.next();
      if (value === undefined) throw new Error('the client has disconnected');
      received.push(value);
      sequence = value.sequence + 1;
      return value;
    };
    const say = (...parts: readonly (Uint8Array | string)[]): void => {
      secure.write(packet(sequence++, ...parts));
    };
    await next();
    await logIn({ next, say });
    for (;;) {
      const { body } = await next();
      if (body[0] === 1) return void secure.end(); // COM_QUIT
      secure.write(body.includes('max_allowed_packet') ? MOST : packet(1, OK));
    }
  }
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    received,
    url: (query = 'sslmode=verify-full', password = PASSWORD) =>
      `mariadb://app:${password}@127.0.0.1:${port}/?${query}`,
  };
}

async function* packetsOf(socket: Socket): AsyncGenerator<ReceivedPacket, undefined, undefined> {
  let kept = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    kept = Buffer.concat([kept, chunk]);
    while (kept.length >= 4 && kept.length >= 4 + kept.readUIntLE(0, 3)) {
      const end = 4 + kept.readUIntLE(0, 3);
      yield { sequence: kept[3]!, body: kept.subarray(4, end) };
      kept = kept.subarray(end);
    }
  }
  return undefined;
}

const opens = (url: string) => openDatabase(url, { pool: { max: 1, acquireTimeoutMs: 2_000 } });
const ok = (text: Uint8Array = Buffer.alloc(0)): Buffer => Buffer.concat([OK, text]);
const isRefused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof SvcError && error.code === 'E_DB_CONNECT', String(error));
    assert.match(error.message, pattern);
    assert.ok(!error.message.includes(PASSWORD));
    return true;
  };
const NOT_PROVED = /certificate is self-signed, and the server does not prove that it is its own/;
const NOT_TRUSTED = /the TLS connection to the server failed/;

const native =
  (text: Uint8Array) =>
  ({ say }: Talk): void =>
    say(ok(text));
const parsec =
  (text: Uint8Array) =>
  async ({ say, next }: Talk): Promise<void> => {
    say(Buffer.of(0xfe), 'parsec\0', SWITCH_NONCE);
    await next();
    say(Buffer.of(1), SALT);
    await next();
    say(ok(text));
  };

for (const [plugin, hash, logIn] of [
  ['mysql_native_password', nativeHash(), native],
  ['parsec', parsecHash(), parsec],
] as const) {
  for (const [how, text] of [
    ['without a length prefix', info(proofOf(hash))],
    ['with a length prefix', withLength(info(proofOf(hash)))],
    ['in lower case', info(proofOf(hash).toLowerCase())],
  ] as const) {
    test(`MariaDB client: a login by ${plugin} accepts a self-signed certificate if the server proves that it knows the password (proof ${how})`, async (t) => {
      const { url, received } = await serving(t, logIn(text));
      for (const mode of ['verify-full', 'verify-ca']) {
        const db = await opens(url(`sslmode=${mode}`));
        t.after(() => db.close());
      }
      assert.ok(
        received.some(
          ({ sequence, body }) => sequence === COMMAND_NUMBER && body.includes('max_allowed_packet'),
        ),
      );
    });
  }

  for (const [what, text] of [
    ['without a proof', Buffer.alloc(0)],
    ['with the proof of another certificate', info(proofOf(hash, FIRST))],
    ['with the proof of another password', info(proofOf(nativeHash('another')))],
    ['with the proof for another nonce', info(proofOf(hash, SECOND, SWITCH_NONCE))],
    ['with a proof whose type byte is wrong', info(proofOf(hash), 2)],
    ['with a truncated proof', info(proofOf(hash).slice(0, -1))],
    ['with a proof that is too long', info(`${proofOf(hash)}0`)],
    ['with an empty proof', info('')],
  ] as const) {
    test(`MariaDB client: a login by ${plugin} refuses a self-signed certificate ${what}, and the client sends no statement`, async (t) => {
      const { url, received } = await serving(t, logIn(text));
      await assert.rejects(opens(url()), isRefused(NOT_PROVED));
      assert.ok(
        received.every(({ sequence, body }) => sequence !== COMMAND_NUMBER && !body.includes(PASSWORD)),
      );
    });
  }
}

test('MariaDB client: a login by caching_sha2_password refuses a self-signed certificate, because this method does not prove that the server knows the password', async (t) => {
  const { url } = await serving(t, async ({ say, next }) => {
    say(Buffer.of(0xfe), 'caching_sha2_password\0', `${NONCE}\0`);
    await next();
    say(ok(info(proofOf(nativeHash()))));
  });
  await assert.rejects(
    opens(url()),
    isRefused(/an account without a password, or with the plugin \w+, cannot prove that it is genuine/),
  );
});

for (const [plugin, query, asks] of [
  [
    'mysql_clear_password',
    '&auth_plugins=mysql_native_password,mysql_clear_password',
    async ({ say }: Talk) => say(Buffer.of(0xfe), 'mysql_clear_password\0'),
  ],
  ['sha256_password', '', async ({ say }: Talk) => say(Buffer.of(0xfe), 'sha256_password\0', `${NONCE}\0`)],
  [
    'caching_sha2_password',
    '',
    async ({ say, next }: Talk) => {
      say(Buffer.of(0xfe), 'caching_sha2_password\0', `${NONCE}\0`);
      await next();
      say(Buffer.of(1, 4));
    },
  ],
] as const) {
  test(`MariaDB client: when the server has a self-signed certificate and requests ${plugin}, the client does not send the clear-text password`, async (t) => {
    const { url, received } = await serving(t, asks);
    await assert.rejects(
      opens(url(`sslmode=verify-full${query}`)),
      isRefused(/requests a clear-text password/),
    );
    assert.ok(received.length > 0 && received.every(({ body }) => !body.includes(PASSWORD)));
  });
}

test('MariaDB client: the certificate of an unknown authority is refused, even if the server proves that it knows the password', async (t) => {
  const { url, received } = await serving(t, native(info(proofOf(nativeHash(), FIRST))), { pair: FIRST });
  await assert.rejects(opens(url()), isRefused(NOT_TRUSTED));
  assert.deepEqual(received, []);
});

test('MariaDB client: the self-signed certificate of a MySQL server is refused, even if the server proves that it knows the password', async (t) => {
  const { url, received } = await serving(t, native(info(proofOf(nativeHash()))), {
    version: '8.4.0',
    capabilities: CAPABILITIES | TLS_CAPABILITY,
  });
  await assert.rejects(opens(url()), isRefused(NOT_TRUSTED));
  assert.deepEqual(received, []);
});

test('MariaDB client: a self-signed certificate is refused when the account has no password, even if the server sends a proof', async (t) => {
  const { url, received } = await serving(t, native(info(proofOf(nativeHash('')))));
  await assert.rejects(opens(url('sslmode=verify-full', '')), isRefused(NOT_TRUSTED));
  assert.deepEqual(received, []);
});

test('MariaDB client: a self-signed certificate is refused when a trusted authority is configured, even if the server proves that it knows the password', async (t) => {
  const { url, received } = await serving(t, native(info(proofOf(nativeHash()))));
  const named = join(folder(t, { 'ca.pem': FIRST.cert }), 'ca.pem');
  await assert.rejects(
    opens(url(`sslmode=verify-full&sslrootcert=${encodeURIComponent(named)}`)),
    isRefused(NOT_TRUSTED),
  );
  assert.deepEqual(received, []);
});

test('MariaDB client: a server with a self-signed certificate need not prove that it knows the password if the certificate is configured as trusted, or verification is off', async (t) => {
  const { url } = await serving(t, native(Buffer.alloc(0)));
  const named = join(folder(t, { 'ca.pem': SECOND.cert }), 'ca.pem');
  for (const query of [
    `sslmode=verify-full&sslrootcert=${encodeURIComponent(named)}`,
    'sslmode=require',
    'sslmode=prefer',
  ]) {
    const db = await opens(url(query));
    t.after(() => db.close());
  }
});
