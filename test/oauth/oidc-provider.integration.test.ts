/**
 * oidc-provider, a certified OpenID provider: provider tokens, logout from both sides, private_key_jwt, parameters of one
 * login.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { SessionMiddleware, Svc } from 'svc';
import { OAuthPlugin, OAuthProvider } from 'svc/oauth';
import { collectedLog } from '../support/collected-log.ts';
import { CertifiedProvider } from '../support/oidc-provider.ts';
import { ScriptedBrowser } from './support/scripted-browser.ts';
import { SECRET } from './support/site.ts';
import type { TestContext } from 'node:test';
import type { ProviderTokenAnswer } from 'svc/oauth';

const CLIENT_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' });

interface Site extends AsyncDisposable {
  readonly url: string;
  readonly issuer: string;
  readonly oauth: OAuthPlugin;
  readonly browser: ScriptedBrowser;
  readonly events: Record<string, unknown>[];
  /** Access tokens that onUser got. */
  readonly given: (string | undefined)[];
  login(): Promise<void>;
}

async function opened(t: TestContext): Promise<Site | undefined> {
  await using stack = new AsyncDisposableStack();
  const certified = stack.use(await CertifiedProvider.start(t));
  if (certified === undefined) return undefined;
  const { logger, events } = collectedLog();
  const given: (string | undefined)[] = [];
  const app = new Svc({ authSecret: SECRET, logger, env: 'development' });
  const oauth = new OAuthPlugin({
    provider: new OAuthProvider({
      name: 'certified',
      clientId: 'app',
      clientAuth: 'private_key_jwt',
      clientKey: {
        privateKey: CLIENT_KEY.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        keyId: 'client-1',
      },
      issuer: certified.url,
      allowInsecure: true,
      scopes: ['openid', 'profile', 'offline_access'],
      authorizeParams: { prompt: 'consent' }, // or there is no refresh token
    }),
    mode: 'cookie',
    storeProviderTokens: true,
    backchannelLogout: true,
    postLogoutRedirectUris: [],
    onLogin: () => ({ params: { acr_values: 'urn:example:strong' } }),
    onUser: (_provider, { subject }, { tokens }) => {
      given.push(tokens.accessToken);
      return `user-${subject}`;
    },
  });
  app.register(oauth).use(new SessionMiddleware());
  app.get('/', () => 'home');
  const server = stack.adopt(await app.run({ port: 0, handleSignals: false }), (running) => running.close());
  certified.configure({
    clients: [
      {
        client_id: 'app',
        redirect_uris: [`${server.url}/oauth/callback`],
        post_logout_redirect_uris: [`${server.url}/`],
        backchannel_logout_uri: `${server.url}/oauth/certified/backchannel-logout`,
        backchannel_logout_session_required: true,
        response_types: ['code'],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'private_key_jwt',
        token_endpoint_auth_signing_alg: 'ES256',
        jwks: {
          keys: [
            { ...CLIENT_KEY.publicKey.export({ format: 'jwk' }), kid: 'client-1', use: 'sig', alg: 'ES256' },
          ],
        },
      },
    ],
    fetch: (url: string, options: RequestInit & { dispatcher?: unknown }) => {
      const { dispatcher: _dispatcher, ...rest } = options; // its dispatcher refuses the loopback interface
      return fetch(url, rest);
    },
    acrValues: ['urn:example:strong'],
    rotateRefreshToken: true,
    features: {
      rpInitiatedLogout: { enabled: true },
      backchannelLogout: { enabled: true },
    },
    claims: { openid: ['sub'], profile: ['name'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, name: 'Ada Lovelace' }),
    }),
  });
  const browser = new ScriptedBrowser();
  const site = stack.move();
  return {
    url: server.url,
    issuer: certified.url,
    oauth,
    browser,
    events,
    given,
    async login() {
      let page = await browser.open(`${server.url}/oauth/login`);
      if (page.text.includes('name="login"'))
        page = await browser.submit(page, { login: 'ada', password: 'any will do' });
      const home = await browser.submit(page);
      assert.equal(home.text, 'home', `${home.text} ${JSON.stringify(events.at(-1))}`);
    },
    [Symbol.asyncDispose]: () => site.disposeAsync(),
  };
}

test('the npm package oidc-provider accepts logins with private_key_jwt and with additional parameters from onLogin (RFC 7523 §2.2)', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  await site.login();
  const request = site.browser.history.find(({ pathname }) => pathname === '/auth')!.searchParams;
  assert.deepEqual([request.get('acr_values'), request.get('prompt')], ['urn:example:strong', 'consent']);
  assert.equal((await site.oauth.listSessions('user-ada')).length, 1);
});

test('providerToken() can refresh a token repeatedly at the npm package oidc-provider, which rotates refresh tokens', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  await site.login();
  const [first] = site.given;
  const kept = await site.oauth.providerToken('user-ada', 'certified');
  assert.equal(kept.kind === 'token' && kept.accessToken, first);
  const seen = new Set([first]);
  for (let round = 0; round < 3; round++) {
    const next: ProviderTokenAnswer = await site.oauth.providerToken('user-ada', 'certified', {
      minValiditySeconds: 3_600,
    });
    assert.ok(next.kind === 'token', next.kind);
    assert.ok(!seen.has(next.accessToken), 'another one');
    seen.add(next.accessToken);
    const info = await fetch(`${site.issuer}/me`, {
      headers: { authorization: `Bearer ${next.accessToken}` },
    });
    assert.equal(((await info.json()) as { sub: string }).sub, 'ada');
  }
});

test('A logout redirects to oidc-provider and back, and the back-channel logout ends a second login with the same provider session', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  await site.login();
  await site.login(); // this login uses the same session at the provider
  assert.equal((await site.oauth.listSessions('user-ada')).length, 2);
  const address = new URL('/oauth/logout', site.url);
  const left = await fetch(address, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie: site.browser.cookies.headerFor(address), 'sec-fetch-site': 'same-origin' },
  });
  assert.equal(left.status, 303);
  assert.equal((await site.oauth.listSessions('user-ada')).length, 1);
  const end = new URL(left.headers.get('location')!);
  assert.deepEqual(
    [end.origin, end.searchParams.has('id_token_hint'), end.searchParams.get('post_logout_redirect_uri')],
    [site.issuer, true, `${site.url}/`],
  );
  const home = await site.browser.submit(await site.browser.open(end), { logout: 'yes' });
  assert.equal(home.text, 'home');
  assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
  assert.ok(
    site.events.some(({ event, reason }) => event === 'token_revoked' && reason === 'provider'),
    'by the logout token',
  );
});
