/**
 * A process that serves `/oauth/token` over a database. Arguments: address of the database; `limited`,
 * `unlimited` (for valid tokens) or `no limits`; and `mortal` if a refresh kills the process between commit
 * and response, or `skewed` if the clock of this host is wrong by the next argument, in milliseconds. A
 * further argument sets `clockSkewMs`. Sends its address.
 */
import { Svc } from '../../src/index.ts';
import { DatabasePlugin } from '../../src/db/index.ts';
import { OAuthPlugin, OAuthProvider } from '../../src/oauth/index.ts';
import { collectedLog } from './collected-log.ts';
import { OAUTH_SECRET } from './oauth-tokens.ts';
import { patient } from './patient.ts';

const [url, limits, mode, offsetMs = '0', clockSkewMs = '0'] = process.argv.slice(2);
const { now } = Date;
// systemClock follows Date.now(), as it follows a clock that an administrator sets
if (mode === 'skewed') Date.now = () => now() + Number(offsetMs);
const { logger } = collectedLog();
const app = new Svc({ authSecret: OAUTH_SECRET, logger, config: { env: 'test' } });
app.register(new DatabasePlugin(url!, { ...patient(url!), migrations: 'apply' }));
app.register(
  new OAuthPlugin({
    provider: new OAuthProvider({
      name: 'dev',
      clientId: 'id',
      clientSecret: 'secret',
      authorizeUrl: 'https://id.example/a',
      tokenUrl: 'https://id.example/t',
      userinfoUrl: 'https://id.example/u',
    }),
    onUser: (_provider, { subject }) => subject,
    ...(limits === 'limited'
      ? {}
      : { limits: limits === 'unlimited' ? { token: false } : { token: false, forged: false } }),
    clockSkewMs: Number(clockSkewMs),
    ...(mode === 'mortal'
      ? {
          onRefresh: () => {
            process.kill(process.pid, 'SIGKILL');
            for (;;);
          },
        }
      : {}),
  }),
);
const server = await app.run({ port: 0, handleSignals: false });
process.on('disconnect', () => process.exit(0));
process.send!(server.url);
