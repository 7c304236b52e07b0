/**
 * A process that serves `/oauth/token` over a database: address, `limited` or `unlimited`, and `mortal` when a refresh is to
 * end it as kill -9 does, between commit and answer. It sends its address.
 */
import { Svc } from '../../src/index.ts';
import { DatabasePlugin } from '../../src/db/index.ts';
import { OAuthPlugin, OAuthProvider } from '../../src/oauth/index.ts';
import { collectedLog } from './collected-log.ts';
import { OAUTH_SECRET } from './oauth-tokens.ts';

const [url, limits, mortality] = process.argv.slice(2);
const { logger, events } = collectedLog();
const app = new Svc({ authSecret: OAUTH_SECRET, logger, config: { env: 'test' } });
app.register(new DatabasePlugin(url!, { busyTimeoutMs: 60_000, migrations: 'apply' }));
app.register(new OAuthPlugin({
  provider: new OAuthProvider({ name: 'dev', clientId: 'id', clientSecret: 'secret', authorizeUrl: 'https://id.example/a', tokenUrl: 'https://id.example/t', userinfoUrl: 'https://id.example/u' }),
  onUser: (_provider, { subject }) => subject,
  ...limits === 'unlimited' ? { limits: { token: false } } : {},
  ...mortality === 'mortal' ? { onRefresh: () => { process.kill(process.pid, 'SIGKILL'); for (;;); } } : {},
}));
const server = await app.run({ port: 0, handleSignals: false });
process.on('message', () => process.send!({ reuses: events.filter(({ event }) => event === 'token_reuse_detected').length }));
process.on('disconnect', () => process.exit(0));
process.send!(server.url);
