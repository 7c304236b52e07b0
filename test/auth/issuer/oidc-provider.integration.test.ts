/** IssuerAuth() with tokens of oidc-provider, a certified authorization server. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, hash, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Depends, IssuerAuth, Svc, requireScopes } from 'svc';
import { ConnectProxy } from '../../oauth/support/connect-proxy.ts';
import { jwk, jws } from '../../oauth/support/fake-provider.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { CertifiedProvider, tokensForResources } from '../../support/oidc-provider.ts';
import type { TestContext } from 'node:test';
import type { TrustedIssuer } from 'svc';

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
const AUDIENCE = 'https://api.example';
const CLIENT_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' });

interface Site extends AsyncDisposable {
  readonly issuer: string;
  /** Address of the issuer on this machine. */
  readonly address: string;
  readonly url: string;
  readonly events: Record<string, unknown>[];
}

async function opened(
  t: TestContext,
  { hostname, ...options }: Partial<TrustedIssuer> & { readonly hostname?: string } = {},
): Promise<Site | undefined> {
  await using stack = new AsyncDisposableStack();
  const certified = stack.use(await CertifiedProvider.start(t, hostname));
  if (certified === undefined) return undefined;
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env: 'development', authSecret: SECRET });
  const token = IssuerAuth({ issuer: certified.url, audience: AUDIENCE, allowInsecure: true, ...options });
  app.get('/me', { me: Depends(token) }, ({ me }) => ({
    sub: me.sub,
    scopes: me.scopes,
  }));
  app.get('/orders', { me: Depends(requireScopes({ scopes: ['orders:read'], auth: token })) }, () => ({
    orders: [1],
  }));
  const server = stack.adopt(await app.run({ port: 0, handleSignals: false }), (running) => running.close());
  certified.configure({
    clients: [
      {
        client_id: 'robot',
        client_secret: 'a-secret-of-the-robot-that-is-long-enough',
        redirect_uris: [],
        response_types: [],
        grant_types: ['client_credentials'],
      },
    ],
    scopes: ['openid', 'orders:read'],
    ttl: { ClientCredentials: 300 },
    features: {
      clientCredentials: { enabled: true },
      dPoP: { enabled: true },
      ...tokensForResources('orders:read'),
    },
  });
  const site = stack.move();
  return {
    issuer: certified.url,
    address: certified.address,
    url: server.url,
    events,
    [Symbol.asyncDispose]: () => site.disposeAsync(),
  };
}

async function machineToken(site: Site, resource: string, proof?: string): Promise<string> {
  const response = await fetch(`${site.address}/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from('robot:a-secret-of-the-robot-that-is-long-enough').toString('base64')}`,
      ...(proof === undefined ? {} : { dpop: proof }),
    },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'orders:read', resource }),
  });
  const answer = (await response.json()) as { access_token?: string };
  assert.ok(answer.access_token !== undefined, JSON.stringify(answer));
  return answer.access_token;
}

function proofOf(method: string, url: string, token?: string): string {
  return jws(
    { typ: 'dpop+jwt', alg: 'ES256', jwk: jwk(CLIENT_KEY.publicKey) },
    {
      jti: randomUUID(),
      htm: method,
      htu: url,
      iat: Math.floor(Date.now() / 1_000),
      ...(token === undefined ? {} : { ath: hash('sha256', token, 'base64url') }),
    },
    CLIENT_KEY.privateKey,
  );
}

test('an API accepts a token of oidc-provider for its resource, and refuses one for another resource', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  const ask = async (token: string): Promise<unknown> => {
    const response = await fetch(`${site.url}/me`, { headers: { authorization: `Bearer ${token}` } });
    return response.status === 200 ? await response.json() : response.status;
  };
  assert.deepEqual(await ask(await machineToken(site, AUDIENCE)), {
    sub: 'robot',
    scopes: ['orders:read'],
  });
  assert.equal(await ask(await machineToken(site, 'https://other.example')), 401);
  assert.equal(site.events.findLast(({ event }) => event === 'token_rejected')?.['reason'], 'audience');
});

test('an API accepts a DPoP-bound token of oidc-provider with its proof, and refuses it without', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  const token = await machineToken(site, AUDIENCE, proofOf('POST', `${site.issuer}/token`));
  const ask = async (headers: Record<string, string>): Promise<number> =>
    (await fetch(`${site.url}/orders`, { headers })).status;
  const dpop = proofOf('GET', `${site.url}/orders`, token);
  assert.equal(await ask({ authorization: `DPoP ${token}`, dpop }), 200);
  assert.equal(await ask({ authorization: `DPoP ${token}`, dpop }), 401);
  assert.equal(await ask({ authorization: `DPoP ${token}` }), 401);
  assert.equal(await ask({ authorization: `Bearer ${token}` }), 401);
});

test('an API fetches the keys of oidc-provider through a proxy with a password, which resolves its name', async (t) => {
  await using proxy = await ConnectProxy.start();
  await using site = await opened(t, {
    hostname: 'login.test',
    allowInsecure: ['login.test'],
    proxy: `http://user:word@127.0.0.1:${proxy.port}`,
  });
  if (site === undefined) return;
  const authorization = `Bearer ${await machineToken(site, AUDIENCE)}`;
  assert.equal((await fetch(`${site.url}/me`, { headers: { authorization } })).status, 200);
  assert.deepEqual(
    proxy.tunnels,
    Array(2).fill({
      target: new URL(site.issuer).host,
      authorization: `Basic ${Buffer.from('user:word').toString('base64')}`,
    }),
    'for the discovery document and the keys',
  );
  assert.match(site.issuer, /^http:\/\/login\.test:/);
});
