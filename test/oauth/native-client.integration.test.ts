/**
 * A native client in its own process, with its own listener, logs a user in through a browser (RFC 8252, RFC 7636).
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { BearerAuth, Depends, Svc } from 'svc';
import { OAuthPlugin } from 'svc/oauth';
import { DevProvider } from 'svc/testing';
import { collectedLog } from '../support/collected-log.ts';
import { forked } from '../support/oauth-races.ts';
import { ScriptedBrowser } from './support/scripted-browser.ts';
import { SECRET } from './support/site.ts';
import type { TestContext } from 'node:test';

const ISSUER = 'https://app.example';

async function served(t: TestContext): Promise<{ readonly url: string; readonly oauth: OAuthPlugin }> {
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env: 'development' });
  const oauth = new OAuthPlugin({
    provider: new DevProvider({ env: 'test', redirectUris: ['/oauth/callback'] }).mount(app),
    onUser: (_provider, { subject }) => subject,
    nativeRedirects: ['http://127.0.0.1/done'],
    issuer: ISSUER,
  });
  app.register(oauth);
  app.get('/me', { me: Depends(BearerAuth(undefined, { issuer: ISSUER })) }, ({ me }) => me.sub);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  return { url: server.url, oauth };
}

/** Runs a native client, and a browser that opens its address. */
async function loggedIn(t: TestContext, url: string, choice: Record<string, string>): Promise<unknown> {
  const { child, said } = await forked(t, 'native-client.ts', [url]);
  const reported = once(child, 'message');
  const browser = new ScriptedBrowser();
  const page = await browser.open((said as { open: string }).open);
  const last = await browser.submit(page, choice);
  assert.equal(last.text, 'You may close this window');
  assert.match(last.url.href, /^http:\/\/127\.0\.0\.1:\d+\/done\?/);
  assert.ok(!browser.history.some(({ href }) => /svcrt_|eyJ/.test(href)), 'no token is in an address');
  return ((await reported) as [unknown])[0];
}

test('OAuth: two native clients, each on a separate port, log in with PKCE and refresh (RFC 8252 §7.3, RFC 7636 §4.5)', async (t) => {
  const { url, oauth } = await served(t);
  for (const user of ['ada', 'alan'])
    assert.deepEqual(await loggedIn(t, url, { user }), {
      issuer: ISSUER,
      stolen: 'invalid_grant',
      isRotated: true,
      me: user,
    });
  assert.equal((await oauth.listSessions('ada')).length, 1);
});

test('OAuth: a native client receives an error of the provider at its own redirect URI (RFC 6749 §4.1.2.1)', async (t) => {
  const { url } = await served(t);
  assert.deepEqual(await loggedIn(t, url, { deny: '1' }), { error: 'access_denied' });
});
