/**
 * Stores in the application's database, called inside a transaction of this database. The mistake is reported
 * as `E_DB_NESTED`, and never as a store that has failed, so that no limit or check is switched off.
 */
import assert from 'node:assert/strict';
import {
  cached,
  Depends,
  IdempotencyMiddleware,
  RateLimiter,
  RateLimitMiddleware,
  RecordRateLimitStore,
  SessionMiddleware,
  Svc,
  type CacheBackend,
  type HttpRequest,
  type Middleware,
  type RecordStore,
} from '../../src/index.ts';
import { DatabasePlugin, DatabaseRecordStore, transaction } from '../../src/db/index.ts';
import { OAuthPlugin } from '../../src/oauth/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import type { Logger } from '../../src/observability/log.ts';

const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';

interface Given {
  readonly app: Svc;
  readonly plugin: DatabasePlugin;
  readonly records: RecordStore;
  readonly log: Logger;
}

/** Adds POST /inside, which calls the store inside a transaction, and POST /outside. */
type Setup = (given: Given) => void;

type Call = (req: HttpRequest) => unknown;

/** A store that a handler calls. */
function inHandler(make: (given: Given) => Call): Setup {
  return (given) => {
    const call = make(given);
    given.app.post('/inside', { tx: Depends(transaction) }, async ({ req }) => void (await call(req)));
    given.app.post('/outside', async ({ req }) => void (await call(req)));
  };
}

/** A store that a middleware calls. A middleware outside of it begins the transaction. */
function inMiddleware(make: (given: Given) => Middleware, call: Call = () => undefined): Setup {
  return (given) => {
    given.app.use((req, next) =>
      req.path === '/inside' ? given.plugin.database.transaction(async () => next()) : next(),
    );
    given.app.use(make(given));
    for (const path of ['/inside', '/outside'])
      given.app.post(path, async ({ req }) => void (await call(req)));
  };
}

const limits = ({ records }: Given, onStoreError: 'allow' | 'refuse') => ({
  perMinute: 100,
  store: new RecordRateLimitStore(records),
  onStoreError,
});

const limiter = (onStoreError: 'allow' | 'refuse'): Setup =>
  inHandler((given) => {
    const limiter = new RateLimiter({ name: 'mail', ...limits(given, onStoreError) });
    return (req) => limiter.take(req, 'ada');
  });

const logins = (call: (oauth: OAuthPlugin, req: HttpRequest) => unknown): Setup =>
  inHandler(({ app }) => {
    const oauth = new OAuthPlugin({});
    app.register(oauth);
    return (req) => call(oauth, req);
  });

/** A cache in a table of records. */
const backendOver = (records: RecordStore): CacheBackend => ({
  get: async (key) => {
    const text = await records.get(key);
    return text === undefined ? undefined : JSON.parse(text);
  },
  set: async (key, value, ttlMs) => records.set(key, JSON.stringify(value), ttlMs),
  delete: async (key) => records.delete(key),
  clear: () => undefined,
});

const STORES: Readonly<Record<string, Setup>> = {
  'RateLimiter that allows requests while its store fails': limiter('allow'),
  'RateLimiter that refuses requests while its store fails': limiter('refuse'),
  'RateLimitMiddleware that allows requests while its store fails': inMiddleware(
    (given) => new RateLimitMiddleware(limits(given, 'allow')),
  ),
  'RateLimitMiddleware that refuses requests while its store fails': inMiddleware(
    (given) => new RateLimitMiddleware(limits(given, 'refuse')),
  ),
  IdempotencyMiddleware: inMiddleware(({ records }) => new IdempotencyMiddleware({ store: records })),
  SessionMiddleware: inMiddleware(
    ({ records }) => new SessionMiddleware({ store: records }),
    (req) => req.session.set('seen', true),
  ),
  'cached() with a backend in the database': inHandler(({ records, log }) =>
    cached(() => 1, { backend: backendOver(records), name: 'one', log, key: () => 'one' }),
  ),
  'issue() of OAuthPlugin': logins((oauth, req) => oauth.issue('ada', { req })),
  'revokeAll() of OAuthPlugin': logins((oauth) => oauth.revokeAll('ada')),
  'listSessions() of OAuthPlugin': logins((oauth) => oauth.listSessions('ada')),
};

for (const [store, setUp] of Object.entries(STORES)) {
  onEveryDatabase(
    `inside a transaction of the application, ${store} fails with E_DB_NESTED, and works outside of it`,
    async (_db, url) => {
      const { logger, events } = collectedLog();
      const app = new Svc({ authSecret: SECRET, logger, env: 'test' });
      const plugin = new DatabasePlugin(url, { migrations: 'apply' });
      app.register(plugin);
      setUp({ app, plugin, records: new DatabaseRecordStore(plugin), log: logger });
      await using client = new TestClient(app, { raiseErrors: false });
      const ask = async (path: string): Promise<number> =>
        (await client.post(path, { headers: { 'Idempotency-Key': `"${path}"` } })).status;
      assert.deepEqual([await ask('/inside'), await ask('/outside')], [500, 204]);
      const failures = events.filter(({ level }) => level === 'error');
      assert.deepEqual(
        failures.map(({ event, error }) => [event, (error as { readonly code: string }).code]),
        [['unhandled_error', 'E_DB_NESTED']],
      );
    },
  );
}
