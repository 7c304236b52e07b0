/**
 * Addresses of real servers of other kinds: each is recognised at once, by its first bytes or by a probe.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { Redis, openDatabase } from '../../../src/db/index.ts';
import { mysqlUrl, needsEngine } from '../../support/mysql-database.ts';
import { needsPostgres, sharedPostgres } from '../../support/postgres-database.ts';
import { needsRedis, sharedRedis } from '../../support/redis-server.ts';
import type { AddressInfo } from 'node:net';

const portOf = (url: string): number => Number(new URL(url).port);

const SERVERS: readonly (readonly [
  kind: string,
  port: (t: TestContext) => Promise<number | undefined>,
  schemes: readonly string[],
])[] = [
  [
    'a server of PostgreSQL',
    async (t) => (needsPostgres(t) ? portOf(await sharedPostgres()) : undefined),
    ['mariadb', 'mysql', 'redis'],
  ],
  [
    'a server of MySQL or MariaDB',
    async (t) => (needsEngine(t, 'mariadb') ? portOf(await mysqlUrl(t, 'mariadb')) : undefined),
    ['postgres', 'redis'],
  ],
  [
    'a server of Redis or Valkey',
    async (t) => (needsRedis(t) ? portOf((await sharedRedis()).url) : undefined),
    ['mariadb', 'postgres'],
  ],
  [
    'an HTTP server',
    async (t) => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.after(() => server.close());
      return (server.address() as AddressInfo).port;
    },
    ['mariadb', 'postgres', 'redis'],
  ],
];

for (const [kind, portOfServer, schemes] of SERVERS)
  for (const scheme of schemes)
    for (const setting of scheme === 'redis' ? [''] : ['?sslmode=disable', '?sslmode=prefer'])
      test(`if a URL with the scheme ${scheme} (${setting || 'no parameter'}) leads to ${kind}, the client rejects, and the error names the kind of server`, async (t) => {
        const port = await portOfServer(t);
        if (port === undefined) return;
        const opening =
          scheme === 'redis'
            ? new Redis(`redis://127.0.0.1:${port}/0`).open()
            : openDatabase(`${scheme}://root:secret@127.0.0.1:${port}/test${setting}`);
        await assert.rejects(opening, (error: Error) => {
          assert.ok(error.message.includes(`the server is ${kind}`), error.message);
          assert.equal((error as { code?: unknown }).code, 'E_DB_CONNECT');
          return true;
        });
      });
