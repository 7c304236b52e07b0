/**
 * Verification of an access token of an authorization server, as a multiple of the floor: verify() of
 * node:crypto with a prepared key, and reading an HS256 token with the same claims.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, sign, verify } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Svc } from '../../src/app/svc.ts';
import { IssuerAuth, withKeys } from '../../src/auth/issuer/guard.ts';
import { createToken, readToken, tokenChecks } from '../../src/crypto/jwt.ts';
import { signedToken } from '../../src/crypto/jws.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { Depends } from '../../src/routing/di.ts';
import { TestClient } from '../../src/testing/index.ts';
import { argumentsOf, worker, working } from './harness.ts';
import type { Bench, Row } from './harness.ts';
import type { KeyPairKeyObjectResult } from 'node:crypto';
import type { IssuerReader } from '../../src/auth/issuer/reader.ts';
import type { Context } from '../../src/http/contracts.ts';

const values = argumentsOf('algorithm', 'side', 'peers');
/** Maximum cost of svc, as a multiple of the floor. */
const BOUND = 1.1;
const ISSUER = 'https://login.example';
const AUDIENCE = 'https://api.example';
const SECRET = 'a secret of this benchmark alone, of 32 bytes and more';
const PAIRS: Readonly<Record<'RS256' | 'ES256' | 'EdDSA', () => KeyPairKeyObjectResult>> = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
};
type Algorithm = keyof typeof PAIRS;

/** 16 tokens by one key, which the sides verify. */
interface Given extends KeyPairKeyObjectResult {
  readonly algorithm: Algorithm;
  readonly nowSeconds: number;
  readonly tokens: readonly string[];
}

const own = (index: number): object => ({ client_id: 'web', scope: 'orders:read', jti: `j${index}` });

function given(algorithm: Algorithm): Given {
  const pair = PAIRS[algorithm]();
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const tokens = Array.from({ length: 16 }, (_, index) => {
    const times = { iat: nowSeconds, exp: nowSeconds + 3_600 };
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: `u${index}`, ...times, ...own(index) };
    return signedToken(pair.privateKey, { alg: algorithm, typ: 'at+jwt', kid: 'k' }, claims);
  });
  return { ...pair, algorithm, nowSeconds, tokens };
}

type Operation = (index: number) => unknown;
const SIDES: Readonly<Record<string, (given: Given) => Operation | Promise<Operation>>> = {
  floor({ algorithm, privateKey, publicKey, tokens, nowSeconds }) {
    const digest = algorithm === 'EdDSA' ? null : 'sha256';
    const signed = tokens.map((token) => Buffer.from(token.slice(0, token.lastIndexOf('.'))));
    const signatures = signed.map((text) => sign(digest, text, privateKey));
    const keyring = Keyring.of(SECRET);
    const checks = tokenChecks('bench', { audience: AUDIENCE, leewaySeconds: 60 });
    const macs = tokens.map((_, index) => {
      const { jti, ...claims } = own(index) as { jti: string };
      return createToken(`u${index}`, SECRET, { issuer: ISSUER, audience: AUDIENCE, id: jti, claims });
    });
    return (index) => {
      assert.ok(verify(digest, signed[index]!, publicKey, signatures[index]!));
      assert.equal(typeof readToken(keyring, macs[index], checks, nowSeconds), 'object');
    };
  },
  async svc({ publicKey, tokens }) {
    const keys = new Map([[ISSUER, [{ ...publicKey.export({ format: 'jwk' }), kid: 'k' }]]]);
    const [, makeReader] = withKeys(IssuerAuth({ issuer: ISSUER, audience: AUDIENCE }), keys);
    const app = new Svc();
    const made: (Context & { readonly reader: unknown })[] = [];
    app.get('/', { reader: Depends(makeReader, { scope: 'app' }) }, (context) => void made.push(context));
    const client = new TestClient(app);
    await client.get('/');
    const reader = made[0]!.reader as IssuerReader; // the source makes a reader
    const contexts = tokens.map((token) => {
      const req = { headers: { authorization: `Bearer ${token}` }, state: new Map() };
      return { req } as unknown as Context; // the reader uses nothing else
    });
    return (index) => assert.equal((reader.read(contexts[index]!) as { iss: string }).iss, ISSUER);
  },
  'fast-jwt'({ algorithm, publicKey, tokens }) {
    const { createVerifier } = createRequire(join(values.peers!, 'package.json'))('fast-jwt') as {
      createVerifier: (options: object) => (token: string) => { iss: string };
    };
    const key = publicKey.export({ format: 'pem', type: 'spki' });
    const check = createVerifier({ key, algorithms: [algorithm], allowedIss: ISSUER, allowedAud: AUDIENCE });
    return (index) => assert.equal(check(tokens[index]!).iss, ISSUER);
  },
};

async function child(algorithm: Algorithm): Promise<void> {
  const operation = await SIDES[values.side!]!(given(algorithm));
  await working(async (ms) => {
    let calls = 0;
    const startedMs = performance.now();
    do for (let index = 0; index < 16; index++, calls++) operation(index);
    while (performance.now() - startedMs < ms);
    return ((performance.now() - startedMs) * 1e6) / calls;
  });
}

const rows = (peers: string | undefined): readonly Row[] =>
  Object.keys(PAIRS).map((algorithm) => ({
    name: `access token by ${algorithm}`,
    ...{ unit: 'ns', base: 'floor', bound: BOUND, others: peers ? ['fast-jwt'] : [] },
    start: (side, root) => worker(root, 'tokens.ts', { algorithm, side, peers }),
  }));

export const bench: Bench = { packages: { 'fast-jwt': '^6' }, rows };

if (import.meta.main) await child(values.algorithm as Algorithm);
