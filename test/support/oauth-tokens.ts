/**
 * Refresh tokens in a database, assembled as the plugin does, but without an application.
 */
import { systemClock } from '../../src/base/clock.ts';
import { Migrator, openDatabase, recordStoreMigration } from '../../src/db/index.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { Audit } from '../../src/oauth/audit.ts';
import { RefreshTokenCodec } from '../../src/oauth/tokens/refresh-codec.ts';
import { RefreshTokens } from '../../src/oauth/tokens/refresh.ts';
import { OAUTH_TABLES, PROVIDER_SESSIONS, SqlTokenStore } from '../../src/oauth/tokens/sql-store.ts';
import { collectedLog } from './collected-log.ts';
import { patient } from './patient.ts';
import type { Clock } from '../../src/base/clock.ts';
import type { Database, DatabaseOptions } from '../../src/db/index.ts';
import type { LoginRow, TokenStore } from '../../src/oauth/tokens/store.ts';

export type RefreshPolicy = ConstructorParameters<typeof RefreshTokens>[0]['policy'];

/** Random text, used only in tests. */
export const OAUTH_SECRET = '3b0e41c7d95f28a6e81470bd2c96fa53e7b8';
const DAY = 86_400_000_000;

/** Returns the usual policy with these changes. */
export function policyOf(policy: Partial<RefreshPolicy> = {}): RefreshPolicy {
  return {
    idleTtl: 14 * DAY,
    absoluteTtl: 90 * DAY,
    grace: 0,
    clockSkew: 0,
    concurrency: 'coalesce',
    holdMs: 25,
    apart: 0,
    ...policy,
  };
}

/** Opens a database and creates the plugin's tables by its migrations. */
export async function oauthDatabase(url: string, options: DatabaseOptions = {}): Promise<Database> {
  const database = await openDatabase(url, patient(url, options));
  await new Migrator(database, {
    contributed: [
      { plugin: 'oauth', id: 'oauth_logins', sql: OAUTH_TABLES },
      { plugin: 'oauth', id: 'oauth_provider_sessions', sql: PROVIDER_SESSIONS },
      { plugin: 'oauth', id: 'oauth_used', sql: recordStoreMigration('svc_oauth_used') },
    ],
  }).up();
  return database;
}

/** Operations of a test on the tokens of one process. */
export interface Tokens {
  readonly store: TokenStore;
  readonly codec: RefreshTokenCodec;
  readonly tokens: RefreshTokens;
  readonly clock: Clock;
  /** Events of the audit log so far. */
  readonly events: readonly Record<string, unknown>[];
  issue(sub: string): Promise<{ readonly refreshToken: string; readonly login: LoginRow }>;
  /**
   * Refreshes a token and returns the next one. `arrivedAt`: arrival of the request in microseconds, by
   * default now.
   */
  refresh(text: string, arrivedAt?: number): Promise<string>;
}

/** Returns operations on a token store. */
export function tokensOver(
  store: TokenStore,
  policy: Partial<RefreshPolicy> = {},
  clock: Clock = systemClock,
  secrets: string | readonly string[] = OAUTH_SECRET,
): Tokens {
  const { logger, events } = collectedLog();
  const codec = new RefreshTokenCodec(Keyring.of(secrets));
  const audit = new Audit(logger.child('svc_oauth'), createMetrics({ log: logger }));
  const tokens = new RefreshTokens({
    store,
    ends: store,
    codec,
    clock,
    audit,
    onRefresh: undefined,
    policy: policyOf(policy),
  });
  return {
    store,
    codec,
    tokens,
    clock,
    events,
    issue: (sub) =>
      tokens.issue({
        sub,
        provider: 'dev',
        subject: `provider-${sub}`,
        scopes: ['read', 'write'],
        claims: { roles: ['user'] },
        startedAt: clock.nowMicros(),
        userAgent: 'test/1',
        ip: '192.0.2.1',
        keyThumbprint: null,
      }),
    async refresh(text, arrivedAt = clock.nowMicros()) {
      const token = codec.parse(text);
      if (token === undefined) throw new Error('The token is none of ours');
      const refreshed = await tokens.refresh(token, {
        arrivedMs: clock.monotonicMs() - (clock.nowMicros() - arrivedAt) / 1_000,
        scopes: undefined,
        keyThumbprint: null,
        req: undefined,
      });
      await tokens.markDelivered(refreshed);
      return refreshed.refreshToken;
    },
  };
}

/** Returns operations on a database. */
export function tokensIn(
  database: Database,
  policy: Partial<RefreshPolicy> = {},
  clock: Clock = systemClock,
): Tokens {
  return tokensOver(new SqlTokenStore(() => database, clock), policy, clock);
}
