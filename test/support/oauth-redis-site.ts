/**
 * One of several processes of an application with its used states, codes and limits in Redis, and its logins
 * in a database. Arguments: addresses of Redis, the database and the provider, and logins a minute. Sends its
 * own address.
 */
import { Svc } from '../../src/index.ts';
import { DatabasePlugin, RedisPlugin, RedisRateLimitStore, RedisRecordStore } from '../../src/db/index.ts';
import { OAuthPlugin, OAuthProvider } from '../../src/oauth/index.ts';
import { collectedLog } from './collected-log.ts';
import { OAUTH_SECRET } from './oauth-tokens.ts';

const [redisUrl, databaseUrl, issuer, login] = process.argv.slice(2);
const redis = new RedisPlugin(redisUrl!);
const app = new Svc({ authSecret: OAUTH_SECRET, logger: collectedLog().logger, env: 'test' });
app.register(redis);
app.register(new DatabasePlugin(databaseUrl!, { migrations: 'apply' }));
app.register(
  new OAuthPlugin({
    provider: new OAuthProvider({
      name: 'dev',
      clientId: 'dev-client',
      clientSecret: 'dev-secret',
      issuer: issuer!,
      allowInsecure: true,
    }),
    onUser: (_provider, { subject }) => subject,
    nativeRedirects: ['com.example.app:/done'],
    dpop: 'optional',
    records: new RedisRecordStore(redis.client, { prefix: 'oauth:' }),
    limits: {
      login: Number(login),
      callback: 1_000,
      token: 1_000,
      store: new RedisRateLimitStore(redis.client),
    },
  }),
);
const server = await app.run({ port: 0, handleSignals: false });
process.on('disconnect', () => process.exit(0));
process.send!(server.url);
