/** Options of a database: each number up to its limits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis, openDatabase } from '../../src/db/index.ts';
import { prepareDatabase } from '../../src/db/open.ts';
import type { DatabaseOptions } from '../../src/db/index.ts';

const MAX_TIMEOUT_MS = 2_147_483_647;
const SERVERS = ['postgres://u@127.0.0.1:1/d', 'mysql://u@127.0.0.1:1/d', 'mariadb://u@127.0.0.1:1/d'];
const FILE = ['sqlite:./data.db'];

for (const [name, least, most, urls] of [
  ['statementTimeoutMs', 0, MAX_TIMEOUT_MS, [...SERVERS, ...FILE]],
  ['slowStatementMs', 0, MAX_TIMEOUT_MS, [...SERVERS, ...FILE]],
  ['statementCache', 0, 10_000, SERVERS],
  ['busyTimeoutMs', 0, MAX_TIMEOUT_MS, FILE],
  ['readers', 0, 64, FILE],
  ['pool.max', 1, 10_000, SERVERS],
  ['pool.min', 0, 10_000, SERVERS],
  ['pool.idleSeconds', 1, 86_400, SERVERS],
  ['pool.maxLifetimeSeconds', 10, 604_800, SERVERS],
  ['pool.leakSeconds', 0, 86_400, SERVERS],
  ['pool.acquireTimeoutMs', 1, MAX_TIMEOUT_MS, [...SERVERS, ...FILE]],
  ['pool.maxWaiting', 0, 1_000_000, [...SERVERS, ...FILE]],
] as const)
  test(`the option "${name}" of a database is an integer from ${least} to ${most}`, () => {
    const [key, inner] = name.split('.') as [string, string?];
    const more = inner === 'min' ? { max: 10_000 } : {};
    const optionsOf = (value: unknown): DatabaseOptions =>
      inner === undefined ? { [key]: value } : { pool: { ...more, [inner]: value } };
    for (const url of urls) {
      for (const value of [least, most]) prepareDatabase(url, optionsOf(value));
      for (const value of [least - 1, most + 1, least + 0.5, `${least}`])
        assert.throws(
          () => prepareDatabase(url, optionsOf(value)),
          { code: 'E_OPTION_RANGE' },
          `${url} ${value}`,
        );
    }
  });

test('"pool.min" must not exceed "pool.max"', () => {
  for (const url of SERVERS) {
    prepareDatabase(url, { pool: { min: 5, max: 5 } });
    assert.throws(() => prepareDatabase(url, { pool: { min: 6, max: 5 } }), {
      code: 'E_DB_OPTION',
      message: /"pool.min" \(6\) must not exceed "pool.max" \(5\)/,
    });
    assert.throws(() => prepareDatabase(url, { pool: { min: 11 } }), { code: 'E_DB_OPTION' });
  }
});

for (const [address, query] of [
  ['postgres://u@127.0.0.1:1/d', 'sslmode=verify-full&sslrootcert='],
  ['mysql://u@127.0.0.1:1/d', 'sslmode=verify-full&sslrootcert='],
  ['mariadb://u@127.0.0.1:1/d', 'sslmode=verify-full&sslrootcert='],
  ['rediss://127.0.0.1:1/0', 'sslrootcert='],
] as const)
  test(`a file of certificates that cannot be read is an error before the client connects (${address})`, async () => {
    const url = `${address}?${query}/nowhere/ca.pem`;
    const opening = address.startsWith('redis') ? new Redis(url).open() : openDatabase(url);
    await assert.rejects(opening, (error) => {
      const { code, message, cause } = error as NodeJS.ErrnoException;
      assert.equal(code, 'E_DB_CONNECT');
      assert.ok(message.includes('the file "/nowhere/ca.pem" cannot be read (ENOENT)'), message);
      assert.equal((cause as NodeJS.ErrnoException).code, 'ENOENT');
      return true;
    });
  });
