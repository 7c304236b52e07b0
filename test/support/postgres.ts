/**
 * Single connections to PostgreSQL for tests: to the server of POSTGRES_URL, or else to a private one.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { connectPostgres } from '../../src/db/postgres/connect.ts';
import { sharedPostgres } from './postgres-database.ts';
import { postgresProblem } from './postgres-server.ts';
import type { PostgresConnection } from '../../src/db/postgres/connection.ts';
import type { PostgresConnectionOptions, PostgresHost, PostgresTls } from '../../src/db/postgres/url.ts';
import type { Limit } from '../../src/db/driver.ts';

/** Reason why tests that need a server are skipped; false when they run. */
export const WITHOUT_POSTGRES: string | false = postgresProblem() ?? false;

/** TLS options without encryption. */
export const PLAIN: PostgresTls = {
  mode: 'disable',
  negotiation: 'postgres',
  channelBinding: 'prefer',
  rootCertificate: undefined,
  certificate: undefined,
  key: undefined,
  keyPassword: undefined,
  sendsServerName: true,
  leastVersion: 'TLSv1.2',
};

/** Connection options that a test may change. */
export type Changes = Partial<Omit<PostgresConnectionOptions, 'tls'>> & {
  readonly tls?: Partial<PostgresTls>;
};

/** Returns a limit, by default of ten seconds. */
export function soon(ms: number = 10_000): Limit {
  return { signal: undefined, deadlineMs: systemClock.monotonicMs() + ms, timeoutMs: ms };
}

/**
 * Returns address and options from a URL: user, password, host, port, database, sslmode and the certificate
 * files.
 */
export function optionsOf(
  url: string,
  { tls, ...changes }: Changes = {},
): readonly [PostgresHost, PostgresConnectionOptions] {
  const [, user = '', password, at = '', database = '', query] =
    /^postgres(?:ql)?:\/\/(?:([^:@]*)(?::([^@]*))?@)?([^/]*)\/([^?]*)(?:\?(.*))?$/.exec(url) ??
    assert.fail(`no address of PostgreSQL: ${url}`);
  const keys = new URLSearchParams(query);
  const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(at)!;
  const file = (name: string): string | undefined => keys.get(name) ?? undefined;
  return [
    { host: keys.get('host') ?? decodeURIComponent(host), port: Number(keys.get('port') ?? port ?? 5432) },
    {
      user: keys.get('user') ?? decodeURIComponent(user),
      password: password === undefined ? undefined : decodeURIComponent(password),
      database,
      parameters: {},
      hasPlainStartup: false,
      slowStatementMs: 0,
      mustWrite: false,
      statementCache: 256,
      int8: 'auto',
      clock: systemClock,
      log: undefined,
      ...changes,
      tls: {
        ...PLAIN,
        mode: (keys.get('sslmode') ?? 'disable') as PostgresTls['mode'],
        negotiation: (keys.get('sslnegotiation') ?? 'postgres') as PostgresTls['negotiation'],
        rootCertificate: file('sslrootcert'),
        certificate: file('sslcert'),
        key: file('sslkey'),
        ...tls,
      },
    },
  ];
}

/** Returns a connection to a URL, which is closed after the test. */
export async function connected(
  t: TestContext,
  changes: Changes = {},
  url?: string,
): Promise<PostgresConnection> {
  const connection = await connectPostgres(...optionsOf(url ?? (await sharedPostgres()), changes), soon());
  t.after(() => connection.close());
  return connection;
}

/** Registers a test that needs the server. */
export function withPostgres(does: string, run: (t: TestContext) => Promise<void>): void {
  test(`PostgreSQL: ${does}`, { skip: WITHOUT_POSTGRES }, run);
}
