import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import test from 'node:test';
import tls, { connect } from 'node:tls';
import { Svc } from '../../../src/app/svc.ts';
import { Config } from '../../../src/base/config.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { SecureTransport, examinePair } from '../../../src/http/server/tls.ts';
import { readTlsOptions } from '../../../src/http/server/options.ts';
import { FIRST, SECOND } from '../../support/certificates.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import type { Pair } from '../../support/certificates.ts';

const read = (options: object): ReturnType<typeof readTlsOptions> =>
  readTlsOptions(options, new Config({ environment: {} }));

/** Writes certificate and key to files, which a test can replace. */
function files(t: TestContext, pair: Pair): { cert: string; key: string; write(pair: Pair): void } {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const write = (other: Pair): void => {
    writeFileSync(cert, other.cert);
    writeFileSync(key, other.key);
  };
  write(pair);
  return { cert, key, write };
}

async function open(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({
    port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    ALPNProtocols: ['h2', 'http/1.1'],
    ...options,
  });
  await once(socket, 'secureConnect');
  return socket;
}

/** Returns the certificate that a new connection gets. */
async function shown(port: number): Promise<Pair> {
  const socket = await open(port);
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return [FIRST, SECOND].find(({ cert }) => new X509Certificate(cert).fingerprint256 === fingerprint256)!;
}

async function ask(socket: TLSSocket, path: string): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  return bytes.toString();
}

test('run({ tls }) serves HTTP/1.1 over TLS, and req.scheme is https', async (t) => {
  const { cert, key } = files(t, FIRST);
  const app = new Svc({ logger: collectedLog().logger }).get('/', ({ req }) => ({
    scheme: req.scheme,
    ip: req.ip,
  }));
  const { url, port, close } = await app.run({ port: 0, handleSignals: false, tls: { cert, key } });
  t.after(close);
  assert.match(url, /^https:/);
  const [response] = (await once(
    request(url, { rejectUnauthorized: false, agent: false }).end(),
    'response',
  )) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  assert.deepEqual(await json(response), { scheme: 'https', ip: '127.0.0.1' });
  const socket = await open(port);
  assert.equal(socket.alpnProtocol, 'http/1.1');
  socket.destroy();
});

test('run({ tls }) selects the newest HTTP/1 version that a client offers by ALPN, and no other protocol (RFC 7301)', async (t) => {
  const { cert, key } = files(t, FIRST);
  const app = new Svc({ logger: collectedLog().logger }).get('/', () => 'served');
  const { port, close } = await app.run({ port: 0, handleSignals: false, tls: { cert, key } });
  t.after(close);
  for (const [offered, spoken] of [
    [['http/1.0'], 'http/1.0'],
    [['http/1.0', 'http/1.1'], 'http/1.1'],
  ] as const) {
    const socket = await open(port, { ALPNProtocols: [...offered] });
    assert.equal(socket.alpnProtocol, spoken);
    socket.write('GET / HTTP/1.0\r\n\r\n');
    assert.match(await text(socket), /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nserved$/s);
  }
  await assert.rejects(open(port, { ALPNProtocols: ['h2'] }), {
    code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
  });
});

test('run({ tls }) refuses TLS versions below 1.2, or below the option "minVersion"', async (t) => {
  for (const [minVersion, refused, accepted] of [
    [undefined, 'TLSv1.1', 'TLSv1.2'],
    ['TLSv1.3', 'TLSv1.2', 'TLSv1.3'],
  ] as const) {
    const app = new Svc({ logger: collectedLog().logger });
    const { port, close } = await app.run({ port: 0, handleSignals: false, tls: { ...FIRST, minVersion } });
    t.after(close);
    await assert.rejects(open(port, { minVersion: 'TLSv1', maxVersion: refused }));
    (await open(port, { maxVersion: accepted })).destroy();
  }
});

test('with TLS 1.2, run({ tls }) accepts only forward-secret AEAD ciphers, unless tls.DEFAULT_CIPHERS is changed (RFC 9325 §4.2)', async (t) => {
  const serve = async (): Promise<number> => {
    const { port, close } = await new Svc({ logger: collectedLog().logger }).run({
      port: 0,
      handleSignals: false,
      tls: FIRST,
    });
    t.after(close);
    return port;
  };
  const named = async (port: number, ciphers: string): Promise<string> => {
    const socket = await open(port, { maxVersion: 'TLSv1.2', ciphers });
    t.after(() => socket.destroy());
    return socket.getCipher().name;
  };
  const port = await serve();
  const all = tls
    .getCiphers()
    .map((cipher) => cipher.toUpperCase())
    .filter((cipher) => !/^(?:TLS_|DHE-|AES|ARIA|CAMELLIA|SRP-|PSK-|RSA-|DHE)|NULL|PSK/.test(cipher));
  const taken = new Set<string>();
  for (const cipher of all)
    await named(port, cipher).then(
      (name) => taken.add(name),
      () => undefined,
    );
  const kind = new X509Certificate(FIRST.cert).publicKey.asymmetricKeyType === 'ec' ? 'ECDSA' : 'RSA';
  assert.deepEqual([...taken].toSorted(), [
    `ECDHE-${kind}-AES128-GCM-SHA256`,
    `ECDHE-${kind}-AES256-GCM-SHA384`,
    `ECDHE-${kind}-CHACHA20-POLY1305`,
  ]);
  const list = tls.DEFAULT_CIPHERS;
  t.after(() => {
    tls.DEFAULT_CIPHERS = list;
  });
  tls.DEFAULT_CIPHERS = `ECDHE-${kind}-AES128-SHA`;
  assert.equal(await named(await serve(), `ECDHE-${kind}-AES128-SHA`), `ECDHE-${kind}-AES128-SHA`);
});

test('if a client speaks plain HTTP, run({ tls }) closes its connection without a response, and continues', async (t) => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger }).get('/', () => 'ok');
  const { port, close } = await app.run({ port: 0, handleSignals: false, tls: FIRST });
  t.after(close);
  for (const bytes of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', '\0\0\0\0\0\0', '\x16\x03\x01\x40\x00\x01']) {
    await using client = await RawClient.open(port);
    client.send(bytes);
    if (bytes.startsWith('\x16')) client.socket.end();
    const answer = await client.ended();
    assert.ok(answer.length === 0 || answer[0] === 0x15, 'an alert at most');
  }
  const socket = await open(port);
  assert.match(await ask(socket, '/'), /^HTTP\/1\.1 200 /);
  socket.destroy();
  assert.deepEqual(
    events.filter((event) => event['level'] === 'error'),
    [],
  );
});

test('run({ tls }) requires a client certificate if certificate authorities are configured', async (t) => {
  const app = new Svc({ logger: collectedLog().logger }).get('/', () => 'ok');
  const { port, close } = await app.run({
    port: 0,
    handleSignals: false,
    tls: { ...FIRST, ca: SECOND.cert },
  });
  t.after(close);
  const known = await open(port, SECOND);
  assert.match(await ask(known, '/'), /^HTTP\/1\.1 200 /);
  known.destroy();
  const stranger = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  stranger.on('secureConnect', () => stranger.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'));
  stranger.on('data', () => assert.fail('it was served'));
  await once(stranger, 'error');
});

test('SecureTransport.reload() uses the new certificate for new connections, and keeps open connections', async (t) => {
  const { logger, events } = collectedLog();
  const { cert, key, write } = files(t, FIRST);
  const app = new Svc({ logger }).get('/', () => 'ok');
  await app.startup();
  const secure = new SecureTransport(read({ cert, key })!, app);
  const server = new HttpServer(app.application(), secure);
  const { port } = await server.listen({ port: 0 });
  t.after(() => server.close(0));
  const before = await open(port);
  assert.match(await ask(before, '/'), / 200 /);
  assert.equal(await shown(port), FIRST);
  write(SECOND);
  secure.reload();
  assert.equal(await shown(port), SECOND);
  assert.match(await ask(before, '/'), / 200 /);
  before.destroy();
  assert.ok(events.some((event) => event['event'] === 'tls_reloaded'));
});

test('if a new certificate is invalid, SecureTransport.reload() keeps the old one, and logs the reason without showing the certificate', async (t) => {
  const { logger, events } = collectedLog();
  const { cert, key, write } = files(t, FIRST);
  const app = new Svc({ logger }).get('/', () => 'ok');
  await app.startup();
  const secure = new SecureTransport(read({ cert, key })!, app);
  const server = new HttpServer(app.application(), secure);
  const { port } = await server.listen({ port: 0 });
  t.after(() => server.close(0));
  for (const broken of [
    { cert: SECOND.cert, key: FIRST.key },
    { cert: 'rubbish', key: FIRST.key },
    { cert: FIRST.cert, key: '' },
    { cert: FIRST.cert.slice(0, 200), key: FIRST.key },
  ]) {
    write(broken);
    secure.reload();
    assert.equal(await shown(port), FIRST);
  }
  rmSync(cert);
  secure.reload();
  assert.equal(await shown(port), FIRST);
  const failures = events.filter((event) => event['event'] === 'tls_reload_failed');
  assert.equal(failures.length, 5);
  assert.ok(
    failures.every(
      (event) =>
        event['level'] === 'error' &&
        JSON.stringify(event).includes('E_TLS') &&
        !JSON.stringify(event).includes(FIRST.key.slice(30, 60)),
    ),
  );
});

test('SecureTransport renews the keys of session tickets, so old tickets become invalid', async (t) => {
  const clock = new ManualClock();
  const app = new Svc({ logger: collectedLog().logger, clock }).get('/', () => 'ok');
  await app.startup();
  const server = new HttpServer(app.application(), new SecureTransport(read(FIRST)!, app));
  const { port } = await server.listen({ port: 0 });
  t.after(() => server.close(0));
  const options = { maxVersion: 'TLSv1.2' } as const;
  const first = await open(port, options);
  const session = first.getSession()!;
  first.destroy();
  const again = await open(port, { ...options, session });
  assert.equal(again.isSessionReused(), true);
  again.destroy();
  await clock.advance(12 * 3_600_000);
  const later = await open(port, { ...options, session });
  assert.equal(later.isSessionReused(), false);
  later.destroy();
});

test('run({ tls }) refuses an invalid certificate or key with E_TLS before anything starts', async () => {
  let started = 0;
  for (const tls of [
    {},
    { cert: FIRST.cert },
    { key: FIRST.key },
    { cert: FIRST.cert, key: SECOND.key },
    { cert: '/nowhere/cert.pem', key: FIRST.key },
    { cert: FIRST.cert, key: '-----BEGIN rubbish' },
  ]) {
    const app = new Svc({ logger: collectedLog().logger }).onStartup(() => {
      started++;
    });
    await assert.rejects(app.run({ port: 0, handleSignals: false, tls }), { code: 'E_TLS' });
  }
  await assert.rejects(new Svc().run({ tls: { certificate: 'x' } as object }), { code: 'E_OPTION_UNKNOWN' });
  await assert.rejects(new Svc().run({ tls: { ...FIRST, minVersion: 'TLSv1' } as object }), {
    code: 'E_OPTION_RANGE',
  });
  assert.equal(started, 0);
});

test('readTlsOptions() reads certificate and key from the settings if the options omit them', () => {
  const config = new Config({ environment: { SVC_TLS_CERT: 'a.pem', SVC_TLS_KEY: 'b.pem' } });
  assert.deepEqual(
    { ...readTlsOptions(undefined, config)! },
    { cert: 'a.pem', key: 'b.pem', ca: undefined, passphrase: undefined, minVersion: 'TLSv1.2' },
  );
  assert.equal(readTlsOptions({ cert: 'c.pem' }, config)!.cert, 'c.pem');
  assert.equal(readTlsOptions(undefined, new Config({ environment: {} })), undefined);
  assert.throws(() => readTlsOptions(undefined, new Config({ environment: { SVC_TLS_CERT: 'a.pem' } })), {
    code: 'E_TLS',
  });
});

test('examinePair() reports a certificate that has expired, expires soon, is not yet valid, or belongs to another key', () => {
  const [now, end] = [Date.parse('2027-01-01'), Date.parse('2126-11-01')];
  for (const [pair, nowMs, problem] of [
    [FIRST, now, undefined],
    [FIRST, end, /expired on/],
    [FIRST, Date.parse('2126-10-20'), /expires on/],
    [FIRST, 0, /is not valid before/],
    [{ cert: FIRST.cert, key: SECOND.key }, now, /does not belong to the certificate/],
    [{ cert: 'nowhere.pem', key: FIRST.key }, now, /cannot be read: ENOENT/],
    [{ cert: FIRST.cert, key: '-----BEGIN x' }, now, /not usable PEM/],
  ] as const) {
    const problems = examinePair(read(pair)!, nowMs);
    if (problem === undefined) assert.deepEqual(problems, []);
    else assert.match(problems.join(), problem);
  }
});

test('over TLS, HttpServer.close() answers requests in flight with Connection: close', async (t) => {
  const release = Promise.withResolvers<void>();
  const app = new Svc({ logger: collectedLog().logger }).get('/', async () => {
    await release.promise;
    return 'done';
  });
  const { port, close } = await app.run({ port: 0, handleSignals: false, tls: FIRST });
  t.after(close);
  const [busy, silent] = [await open(port), createConnection(port, '127.0.0.1')];
  await once(silent, 'connect');
  const answered = ask(busy, '/');
  while (app.operations.inFlight() === 0) await new Promise((resolve) => setImmediate(resolve));
  const closed = close();
  release.resolve();
  assert.match(await answered, /\r\nConnection: close\r\n/i);
  await closed;
  assert.ok(silent.destroyed || (await once(silent, 'close')));
});

test('if a connection does not complete the TLS handshake, run({ tls }) closes it', async (t) => {
  const app = new Svc({ logger: collectedLog().logger, headersTimeoutMs: 30 });
  const { port, close } = await app.run({ port: 0, handleSignals: false, tls: FIRST });
  t.after(close);
  await using silent = await RawClient.open(port);
  assert.equal((await silent.ended()).length, 0);
});

test('over TLS, HttpServer.adopt() destroys a socket when its client leaves: before, during or after the handshake, or after a response', async (t) => {
  const app = new Svc({
    logger: collectedLog().logger,
    headersTimeoutMs: 60_000,
    keepAliveTimeoutMs: 60_000,
  }).get('/', () => 'ok');
  await app.startup();
  const server = new HttpServer(app.application(), new SecureTransport(read(FIRST)!, app));
  t.after(() => server.close(0));
  const adopted: Socket[] = [];
  const door = createServer({ pauseOnConnect: true }, (socket) => {
    adopted.push(socket);
    server.adopt(socket);
  }).listen(0, '127.0.0.1'); // in place of a parent that hands them over
  t.after(() => door.close());
  await once(door, 'listening');
  const { port } = door.address() as AddressInfo;
  const gone = (): Promise<unknown> =>
    adopted.at(-1)!.destroyed ? Promise.resolve() : once(adopted.at(-1)!, 'close');

  for (const start of ['', '\x16\x03\x01\x02\x00\x01']) {
    // leaves without a byte, as probes of load balancers do, and during the handshake
    const plain = createConnection(port, '127.0.0.1').on('error', () => undefined);
    await once(plain, 'connect');
    plain.end(start);
    await once(plain.resume(), 'close');
    await gone();
  }
  (await open(port)).destroy();
  await gone();
  const used = await open(port);
  assert.match(await ask(used, '/'), / 200 /);
  used.end();
  await gone();
});
