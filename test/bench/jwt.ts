/**
 * HS256 tokens: sign, verify and refuse a forged one, against fast-jwt with its cache off and against the bare HMAC of the same
 * bytes, by createHmac() and by src/crypto/keys.ts. Claims: `sub`, `jti`, two lists, `iat`, `exp`. ns of processor time per operation, medians of alternating fresh processes.
 *
 *   node --conditions=svc-source test/bench/jwt.ts [--rounds=5]        exits 1 when a ratio to fast-jwt is above its bound
 *
 * fast-jwt is installed in the scratch folder of test/support/scratch.ts; without a registry only our own figures are printed.
 */
import { spawnSync } from 'node:child_process';
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hmacSha256 } from '../../src/crypto/keys.ts';
import { createToken, verifyToken } from '../../src/crypto/jwt.ts';
import { scratch } from '../support/scratch.ts';
import type { TestContext } from 'node:test';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    child: { type: 'string' },
    operation: { type: 'string' },
    folder: { type: 'string', default: '' },
  },
});

/** The most that an operation may cost, as a multiple of fast-jwt's. */
const BOUNDS = { sign: 0.75, verify: 0.8, forged: 0.35 } as const;
type OperationName = keyof typeof BOUNDS;
/** Answers something true; a forged token's refusal too. */
type Operation = (index: number) => unknown;

const SECRET = `${'k'.repeat(32)}secret-secret-secret-secret-1234`;
const ID = '0123456789abcdef0123456789abcdef';
const LISTS = { scopes: ['read', 'write'], roles: ['admin'] };
const tokens = Array.from({ length: 16 }, (_, index) =>
  createToken(`user-${index}`, SECRET, { claims: LISTS, id: ID }),
);
const forged = tokens.map((token) => `${token.slice(0, -6)}AAAAAA`);

/** Whether it is thrown, which is what a forged token is there for. */
function isRefused(verify: (token: string) => unknown, token: string): boolean {
  try {
    verify(token);
    return false;
  } catch {
    return true;
  }
}

const IMPLEMENTATIONS: Readonly<Record<string, () => Record<OperationName, Operation>>> = {
  'fast-jwt': () => {
    const require = createRequire(join(values.folder, 'package.json'));
    const { createSigner, createVerifier } = require('fast-jwt') as {
      createSigner(options: object): (claims: object) => string;
      createVerifier(options: object): (token: string) => unknown;
    };
    const sign = createSigner({ key: SECRET, algorithm: 'HS256', expiresIn: 900_000 });
    const verify = createVerifier({ key: SECRET, algorithms: ['HS256'], cache: false });
    return {
      sign: (index) =>
        sign({ sub: `user-${index & 15}`, jti: ID, scopes: ['read', 'write'], roles: ['admin'] }),
      verify: (index) => verify(tokens[index & 15]!),
      forged: (index) => isRefused(verify, forged[index & 15]!),
    };
  },
  svc: () => {
    const verify = (token: string): unknown => verifyToken(token, SECRET);
    return {
      sign: (index) =>
        createToken(`user-${index & 15}`, SECRET, {
          claims: { scopes: ['read', 'write'], roles: ['admin'] },
          id: ID,
        }),
      verify: (index) => verify(tokens[index & 15]!),
      forged: (index) => isRefused(verify, forged[index & 15]!),
    };
  },
  'bare HMAC': () => {
    const key = createSecretKey(Buffer.from(SECRET));
    const parts = [...tokens, ...forged].map((token) => ({
      signed: token.slice(0, -44),
      mac: Buffer.from(token.slice(-43), 'base64url'),
    }));
    const isRight = ({ signed, mac }: { signed: string; mac: Buffer }): boolean =>
      timingSafeEqual(createHmac('sha256', key).update(signed).digest(), mac);
    return {
      sign: (index) =>
        createHmac('sha256', key)
          .update(parts[index & 15]!.signed)
          .digest('base64url'),
      verify: (index) => isRight(parts[index & 15]!),
      forged: (index) => !isRight(parts[16 + (index & 15)]!),
    };
  },
  'hmac.ts': () => {
    const key = createSecretKey(Buffer.from(SECRET));
    const parts = [...tokens, ...forged].map((token) => ({
      signed: token.slice(0, -44),
      mac: Buffer.from(token.slice(-43)),
    }));
    const isRight = ({ signed, mac }: { signed: string; mac: Buffer }): boolean =>
      timingSafeEqual(Buffer.from(hmacSha256(key, signed)), mac);
    return {
      sign: (index) => hmacSha256(key, parts[index & 15]!.signed),
      verify: (index) => isRight(parts[index & 15]!),
      forged: (index) => !isRight(parts[16 + (index & 15)]!),
    };
  },
};

const WARM_UP = 30_000;
const MEASURED = 150_000;

/** ns of processor time of this thread, which a busy machine spoils less than the clock's. @throws Error when an operation fails */
function timed(operation: Operation): number {
  const run = (times: number): void => {
    for (let index = 0; index < times; index++)
      if (!operation(index)) throw new Error('the operation has failed');
  };
  run(WARM_UP);
  const started = process.threadCpuUsage();
  run(MEASURED);
  const { user, system } = process.threadCpuUsage(started);
  return ((user + system) * 1_000) / MEASURED;
}

function measured(implementation: string, operation: string, folder: string): number {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [
      '--conditions=svc-source',
      fileURLToPath(import.meta.url),
      `--child=${implementation}`,
      `--operation=${operation}`,
      `--folder=${folder}`,
    ],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`${implementation}, ${operation}: ${stderr}`);
  return Number(stdout);
}

/** Prints the table. Answers the exit status. */
function compare(): number {
  const reported = { skip: (why: string): void => console.log(`fast-jwt: left out, ${why}`) };
  const folder = scratch(reported as unknown as TestContext, 'fast-jwt', { 'fast-jwt': '^6.0.0' }); // it calls nothing else
  const names = Object.keys(IMPLEMENTATIONS).filter((name) => folder !== undefined || name !== 'fast-jwt');
  let isSlow = false;
  const rows = Object.entries(BOUNDS).map(([operation, bound]) => {
    const samples = new Map<string, number[]>(names.map((name) => [name, []]));
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const name of round % 2 === 0 ? names : names.toReversed())
        samples.get(name)!.push(measured(name, operation, folder ?? ''));
    }
    const median = (name: string): number =>
      samples.get(name)?.toSorted((left, right) => left - right)[Number(values.rounds) >> 1] ?? NaN;
    const ratio = median('svc') / median('fast-jwt');
    isSlow ||= ratio > bound;
    const columns = Object.fromEntries(names.map((name) => [`${name}, ns`, Math.round(median(name))]));
    return [
      operation,
      {
        ...columns,
        'svc / HMAC': (median('svc') / median('bare HMAC')).toFixed(2),
        'svc / fast-jwt': ratio.toFixed(2),
        bound,
      },
    ];
  });
  console.table(Object.fromEntries(rows));
  return isSlow ? 1 : 0;
}

if (values.child === undefined) process.exitCode = compare();
else console.log(timed(IMPLEMENTATIONS[values.child]!()[values.operation as OperationName]));
