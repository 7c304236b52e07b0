/** Keys and certificates in PEM, whose line breaks are a backslash and the letter n, as in environment variables. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Outbound } from '../../src/auth/provider/outbound.ts';
import { Config } from '../../src/base/config.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { pemText } from '../../src/crypto/keys.ts';
import { examinePair } from '../../src/http/server/tls.ts';
import { readTlsOptions } from '../../src/http/server/options.ts';
import { OAuthProvider } from '../../src/oauth/provider/options.ts';
import { appleProvider } from '../../src/oauth/provider/presets.ts';
import { AUTHORITY_PEM } from '../oauth/support/tls.ts';
import { FakeProvider } from '../oauth/support/fake-provider.ts';
import { FIRST } from '../support/certificates.ts';

const P8 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
}) as string;
const NOW = Date.UTC(2030, 0, 1);
const ENDPOINTS = {
  authorizeUrl: 'https://id.example/a',
  tokenUrl: 'https://id.example/t',
  userinfoUrl: 'https://id.example/u',
} as const;

/** Returns a PEM text as `.env` files and deployment systems often write it. */
const onOneLine = (pem: string): string => pem.trimEnd().replaceAll('\n', '\\n');

/** Passes a PEM text through a file. */
function inFile<T>(pem: string, use: (file: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'svc-pem-'));
  try {
    const file = join(folder, 'one.pem');
    writeFileSync(file, pem);
    return use(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function tlsProblems(options: object, environment: Readonly<Record<string, string>> = {}): string[] {
  return examinePair(readTlsOptions(options, new Config({ environment }))!, NOW);
}

/** Each place that reads PEM. A function throws if it cannot read the text. */
const PLACES: Readonly<Record<string, readonly [pem: string, read: (pem: string) => unknown]>> = {
  'privateKey of appleProvider()': [
    P8,
    (privateKey) => appleProvider('app', { teamId: 'ABCDEFGHIJ', keyId: '0123456789', privateKey }),
  ],
  'clientKey of OAuthProvider': [
    P8,
    (privateKey) =>
      new OAuthProvider({
        name: 'own',
        clientId: 'client',
        ...ENDPOINTS,
        clientAuth: 'private_key_jwt',
        clientKey: { privateKey },
      }),
  ],
  'caFile of OAuthProvider': [
    AUTHORITY_PEM,
    (pem) =>
      inFile(
        pem,
        (caFile) =>
          new OAuthProvider({
            name: 'own',
            clientId: 'client',
            clientSecret: 'secret',
            ...ENDPOINTS,
            clientAuth: 'post',
            caFile,
          }),
      ),
  ],
  'option cert of the server': [
    FIRST.cert,
    (cert) => assert.deepEqual(tlsProblems({ cert, key: FIRST.key }), []),
  ],
  'option key of the server': [
    FIRST.key,
    (key) => assert.deepEqual(tlsProblems({ cert: FIRST.cert, key }), []),
  ],
  'option ca of the server': [AUTHORITY_PEM, (ca) => assert.deepEqual(tlsProblems({ ...FIRST, ca }), [])],
  'variable SVC_TLS_CERT': [
    FIRST.cert,
    (cert) => assert.deepEqual(tlsProblems({ key: FIRST.key }, { SVC_TLS_CERT: cert }), []),
  ],
  'variable SVC_TLS_KEY': [
    FIRST.key,
    (key) => assert.deepEqual(tlsProblems({ cert: FIRST.cert }, { SVC_TLS_KEY: key }), []),
  ],
  'file of SVC_TLS_KEY': [
    FIRST.key,
    (pem) =>
      inFile(pem, (key) => assert.deepEqual(tlsProblems({ cert: FIRST.cert }, { SVC_TLS_KEY: key }), [])),
  ],
  'option ca of IssuerAuth()': [
    AUTHORITY_PEM,
    async (ca) => {
      await using fake = await FakeProvider.start({ isTls: true });
      const outbound = new Outbound({ clock: new ManualClock(), timeoutMs: 10_000, ca });
      try {
        assert.equal((await outbound.call({ method: 'GET', url: `${fake.url}/jwks` })).status, 200);
      } finally {
        outbound.close();
      }
    },
  ],
};

for (const [place, [pem, read]] of Object.entries(PLACES)) {
  test(`the ${place} may have the text \\n in place of line breaks`, async () => {
    await read(pem);
    await read(onOneLine(pem));
    await read(pem.replaceAll('\n', '\\r\\n'));
    await read(pem.replaceAll('\n', '\\\\n')); // escaped twice
  });
}

test('pemText() leaves a PEM text with line breaks unchanged', () => {
  for (const pem of [P8, AUTHORITY_PEM, P8.replaceAll('\n', '\r\n')]) assert.equal(pemText(pem), pem);
});
