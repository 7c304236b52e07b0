import assert from 'node:assert/strict';
import { X509Certificate, createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import { serverEndPoint, signatureHash } from '../../../src/db/postgres/channel-binding.ts';
import {
  ScramFirst,
  ScramKeyring,
  ScramIssue,
  md5Password,
  type ChannelBinding,
} from '../../../src/db/postgres/scram.ts';
import { FIRST, SECOND } from '../../support/certificates.ts';
import { seeded } from '../../support/random.ts';

const MAX_ITERATIONS = 10_000_000;

const MIN_ITERATIONS = 4_096;

const NONE: ChannelBinding = { kind: 'none' };
const NONCE = 'rOprNGfwEbeRWgbNEkqO';
const SERVER_FIRST = `r=${NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`;
const SERVER_FINAL = 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=';

test('the SCRAM client sends and accepts the messages of the example in RFC 7677 §3', async () => {
  const first = new ScramFirst('pencil', NONE, new ScramKeyring(), NONCE, 'user');
  assert.equal(first.mechanism, 'SCRAM-SHA-256');
  assert.equal(first.message, `n,,n=user,r=${NONCE}`);
  const final = await first.answer(SERVER_FIRST);
  assert.equal(
    final.message,
    `c=biws,r=${NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=`,
  );
  assert.deepEqual(final.verify(SERVER_FINAL), { kind: 'verified' });
});

/**
 * A plain reference server that knows the password: returns its replies, and whether it accepted the proof
 * (RFC 5802 §3).
 */
function server(
  password: string,
  salt: Buffer,
  iterations: number,
  expectedBinding: Buffer,
): { first(clientFirst: string): string; final(clientFinal: string): string } {
  let authMessage = '';
  const hmac = (key: Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest();
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  return {
    first(clientFirst) {
      const bare = clientFirst.replace(/^[^,]*,[^,]*,/, '');
      const answer = `${bare.slice(bare.indexOf('r='))}SERVER,s=${salt.toString('base64')},i=${iterations}`;
      authMessage = `${bare},${answer}`;
      return answer;
    },
    final(clientFinal) {
      const [withoutProof, proof] = clientFinal.split(',p=') as [string, string];
      assert.deepEqual(Buffer.from(/^c=([^,]*)/.exec(withoutProof)![1]!, 'base64'), expectedBinding);
      authMessage += `,${withoutProof}`;
      const clientKey = hmac(salted, 'Client Key');
      const signature = hmac(createHash('sha256').update(clientKey).digest(), authMessage);
      assert.deepEqual(
        Buffer.from(proof, 'base64').map((byte, index) => byte ^ signature[index]!),
        clientKey,
      );
      return `v=${hmac(hmac(salted, 'Server Key'), authMessage).toString('base64')}`;
    },
  };
}

const DIGEST = createHash('sha256').update('certificate').digest();

for (const [what, binding, mechanism, header, bound] of [
  ['without TLS', NONE, 'SCRAM-SHA-256', 'n,,', Buffer.from('n,,')],
  [
    'with TLS, where the server offers no channel binding',
    { kind: 'unused' },
    'SCRAM-SHA-256',
    'y,,',
    Buffer.from('y,,'),
  ],
  [
    'with channel binding to TLS',
    { kind: 'tls-server-end-point', digest: DIGEST },
    'SCRAM-SHA-256-PLUS',
    'p=tls-server-end-point,,',
    Buffer.concat([Buffer.from('p=tls-server-end-point,,'), DIGEST]),
  ],
] as const) {
  test(`the SCRAM client and a reference server authenticate each other (${what})`, async () => {
    const first = new ScramFirst('pa\u00adss', binding, new ScramKeyring());
    assert.equal(first.mechanism, mechanism);
    assert.ok(first.message.startsWith(`${header}n=,r=`));
    const peer = server('pass', Buffer.from('some salt'), MIN_ITERATIONS, bound);
    const final = await first.answer(peer.first(first.message));
    assert.equal(final.verify(peer.final(final.message)).kind, 'verified');
  });
}

for (const [what, message] of [
  ["a nonce that does not begin with the client's nonce", 'r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096'],
  ["only the client's nonce", `r=${NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`],
  ['an empty salt', `r=${NONCE}x,s=,i=4096`],
  ['a salt that is not base64', `r=${NONCE}x,s=***,i=4096`],
  ['a base64 salt whose unused bits are not zero', `r=${NONCE}x,s=QR==,i=4096`],
  ['too few iterations', `r=${NONCE}x,s=QQ==,i=${MIN_ITERATIONS - 1}`],
  ['zero iterations', `r=${NONCE}x,s=QQ==,i=0`],
  ['too many iterations', `r=${NONCE}x,s=QQ==,i=${MAX_ITERATIONS + 1}`],
  ['iterations beyond 2^53', `r=${NONCE}x,s=QQ==,i=99999999999999999999`],
  ['negative iterations', `r=${NONCE}x,s=QQ==,i=-4096`],
  ['iterations in hexadecimal digits', `r=${NONCE}x,s=QQ==,i=0x1000`],
  ['an unknown mandatory extension', `m=x,r=${NONCE}x,s=QQ==,i=4096`],
  ['an error', 'e=other-error'],
  ['no content', ''],
] as const) {
  test(`the SCRAM client refuses a server-first message with ${what}`, () =>
    assert.rejects(new ScramFirst('pencil', NONE, new ScramKeyring(), NONCE).answer(message), ScramIssue));
}

test('the SCRAM client refuses a server-final message without a valid signature', async () => {
  const final = await new ScramFirst('pencil', NONE, new ScramKeyring(), NONCE, 'user').answer(SERVER_FIRST);
  for (const message of [
    '',
    'v=',
    'v',
    'e=invalid-proof',
    'x=1',
    `${SERVER_FINAL.slice(0, -4)}AA==`,
    SERVER_FINAL.replace('6', '7'),
    `${SERVER_FINAL}=`,
    `v=${Buffer.alloc(32).toString('base64')}`,
    'v=QQ==',
  ]) {
    assert.throws(() => final.verify(message), ScramIssue, message);
  }
  assert.equal(final.verify(`${SERVER_FINAL},ext=1`).kind, 'verified');
});

/** Returns fixed keys at once, because their values do not matter in this test. */
const KEYS = await new ScramKeyring().get('pencil', Buffer.alloc(1), 1);
const AT_ONCE = new (class extends ScramKeyring {
  override get(): ReturnType<ScramKeyring['get']> {
    return Promise.resolve(KEYS);
  }
})();

test('the SCRAM client answers or refuses a server-first message with random changes, and never throws an unexpected error', async () => {
  const random = seeded(11);
  for (let run = 0; run < 300; run++) {
    const bytes = Buffer.from(SERVER_FIRST);
    bytes[random(bytes.length)] = random(128);
    const first = new ScramFirst('pencil', NONE, AT_ONCE, NONCE, 'user');
    try {
      const final = await first.answer(bytes.toString());
      assert.throws(() => (bytes.toString() === SERVER_FIRST ? assert.fail() : final.verify(SERVER_FINAL)));
    } catch (error) {
      assert.ok(error instanceof ScramIssue, String(error));
    }
  }
});

test('ScramKeyring derives the keys of each password, salt and iteration count once, and removes the oldest keys above its limit', async () => {
  const keys = new ScramKeyring();
  const salt = Buffer.from('salt');
  const one = keys.get('a', salt, 1);
  assert.equal(keys.get('a', Buffer.from('salt'), 1), one);
  for (const other of [
    keys.get('b', salt, 1),
    keys.get('a', salt, 2),
    keys.get('a', Buffer.from('other'), 1),
  ])
    assert.notEqual(other, one);
  const { clientKey, storedKey, serverKey } = await one;
  const salted = pbkdf2Sync('a', salt, 1, 32, 'sha256');
  assert.deepEqual(clientKey, createHmac('sha256', salted).update('Client Key').digest());
  assert.deepEqual(storedKey.export(), createHash('sha256').update(clientKey).digest());
  assert.deepEqual(serverKey.export(), createHmac('sha256', salted).update('Server Key').digest());
  for (let index = 0; index < 64; index++) await keys.get(`p${index}`, salt, 1);
  assert.notEqual(keys.get('a', salt, 1), one);
});

test('md5Password() returns md5(md5(password + user) + salt), computed from bytes', () => {
  const md5 = (data: Buffer): string => createHash('md5').update(data).digest('hex');
  const salt = Buffer.from([0xff, 0, 1, 2]);
  assert.equal(
    md5Password('jürgen', 'gehéim', salt),
    `md5${md5(Buffer.concat([Buffer.from(md5(Buffer.from('gehéimjürgen'))), salt]))}`,
  );
});

// ── the certificate's digest ──

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([
    body.length < 0x80
      ? Buffer.from([tag, body.length])
      : Buffer.from([tag, 0x82, body.length >> 8, body.length & 0xff]),
    body,
  ]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const oid = (digits: string): Buffer => der(0x06, Buffer.from(digits, 'hex'));
const certificate = (...algorithm: readonly Uint8Array[]): Buffer =>
  sequence(sequence(Buffer.alloc(300)), sequence(...algorithm), der(0x03, Buffer.alloc(4)));
const NULL = Buffer.from([5, 0]);
const byPss = (hash: string): Buffer =>
  certificate(oid('2a864886f70d01010a'), sequence(der(0xa0, sequence(oid(hash)))));

for (const [what, bytes, expected] of [
  ['a signature by MD5 with RSA', certificate(oid('2a864886f70d010104'), NULL), 'sha256'],
  ['a signature by SHA-1 with RSA', certificate(oid('2a864886f70d010105'), NULL), 'sha256'],
  ['a signature by SHA-256 with RSA', certificate(oid('2a864886f70d01010b'), NULL), 'sha256'],
  ['a signature by SHA-384 with RSA', certificate(oid('2a864886f70d01010c'), NULL), 'sha384'],
  ['a signature by SHA-512 with RSA', certificate(oid('2a864886f70d01010d'), NULL), 'sha512'],
  ['a signature by SHA-224 with RSA', certificate(oid('2a864886f70d01010e'), NULL), 'sha224'],
  ['a signature by SHA-512/224 with RSA', certificate(oid('2a864886f70d01010f'), NULL), 'sha512-224'],
  ['a signature by SHA-512/256 with RSA', certificate(oid('2a864886f70d010110'), NULL), 'sha512-256'],
  ['a signature by SHA-1 with DSA', certificate(oid('2a8648ce380403')), 'sha256'],
  ['a signature by SHA-256 with DSA', certificate(oid('608648016503040302')), 'sha256'],
  ['a signature by SHA-1 with ECDSA', certificate(oid('2a8648ce3d0401')), 'sha256'],
  ['a signature by SHA-384 with ECDSA', certificate(oid('2a8648ce3d040303')), 'sha384'],
  ['a signature by SHA-224 with ECDSA', certificate(oid('2a8648ce3d040301')), 'sha224'],
  ['a signature by SHA-256 with ECDSA', certificate(oid('2a8648ce3d040302')), 'sha256'],
  ['a signature by SHA-512 with ECDSA', certificate(oid('2a8648ce3d040304')), 'sha512'],
  ['a signature by RSA-PSS with SHA-1', byPss('2b0e03021a'), 'sha256'],
  ['a signature by RSA-PSS with SHA-256', byPss('608648016503040201'), 'sha256'],
  ['a signature by RSA-PSS with SHA-384', byPss('608648016503040202'), 'sha384'],
  ['a signature by RSA-PSS with SHA-512', byPss('608648016503040203'), 'sha512'],
  ['a signature by RSA-PSS with SHA-224', byPss('608648016503040204'), 'sha224'],
  ['a signature by RSA-PSS with an unknown hash', byPss('608648016503040209'), undefined],
  ['a default RSA-PSS signature', certificate(oid('2a864886f70d01010a'), sequence()), 'sha256'],
  ['a signature by Ed25519', certificate(oid('2b6570')), undefined],
  ['bytes that are not a certificate', Buffer.from('no certificate'), undefined],
  ['no bytes', Buffer.alloc(0), undefined],
] as const) {
  test(`signatureHash() returns ${expected} for ${what}`, () => {
    assert.equal(signatureHash(bytes), expected);
    for (let end = 0; end < bytes.length; end++)
      assert.equal(signatureHash(bytes.subarray(0, end)), undefined);
  });
}

test('serverEndPoint() hashes a certificate with the hash algorithm of its signature, and returns undefined for Ed25519', () => {
  for (const { cert } of [FIRST, SECOND]) {
    const { raw } = new X509Certificate(cert);
    assert.deepEqual(serverEndPoint(raw), createHash('sha256').update(raw).digest());
  }
  assert.equal(serverEndPoint(certificate(oid('2b6570'))), undefined);
});

test('the nonce of the SCRAM client has 18 random bytes', () => {
  const nonces = Array.from({ length: 3 }, () => {
    const { message } = new ScramFirst('pencil', NONE, new ScramKeyring());
    assert.match(message, /^n,,n=,r=[A-Za-z0-9+/]{24}$/);
    return message;
  });
  assert.equal(new Set(nonces).size, 3);
});
