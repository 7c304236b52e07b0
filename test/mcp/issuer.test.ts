/**
 * MCP endpoints behind IssuerAuth(): metadata, challenges, scopes, sessions and streams.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, hash } from 'node:crypto';
import { test } from 'node:test';
import { Depends, IssuerAuth, Svc, requireScopes } from 'svc';
import { FakeIssuer, ManualClock, TestClient } from 'svc/testing';
import { thumbprintOf } from '../../src/crypto/jwk.ts';
import { jwk, jws } from '../oauth/support/fake-provider.ts';
import type { AuthSource, IssuerClaims, McpMountOptions } from 'svc';
import type { TestContext } from 'node:test';

type Json = Record<string, unknown>;

const ISSUER = 'https://login.example/realms/shop';
const OTHER = 'https://other.example';
const RESOURCE = 'https://api.example/mcp';
const METADATA = 'https://api.example/.well-known/oauth-protected-resource/mcp';
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

interface Site {
  readonly client: TestClient;
  readonly clock: ManualClock;
  readonly issuer: FakeIssuer;
  readonly other: FakeIssuer;
  /** Sends a message with a token. */
  post(token: string | undefined, message: Json, headers?: Record<string, string>): Promise<Response>;
  /** Calls a tool as a client of 2026-07-28. */
  call(token: string, name: string): Promise<Response>;
}

function site(t: TestContext, options: Omit<McpMountOptions, 'deps'> = {}): Site {
  const clock = new ManualClock();
  const issuer = new FakeIssuer(ISSUER, { audience: RESOURCE, clock });
  const other = new FakeIssuer(OTHER, { audience: RESOURCE, clock });
  const token: AuthSource<IssuerClaims> = IssuerAuth<unknown>([
    { issuer: ISSUER, audience: RESOURCE },
    { issuer: OTHER, audience: RESOURCE },
  ]);
  const app = new Svc({ clock, title: 'shop', authSecret: '3f0a9c7d5e1b48263f0a9c7d5e1b4826' });
  app.get('/me', { me: Depends(token), mcp: { name: 'me' } }, ({ me }) => ({ principal: me.principal }));
  app.get(
    '/orders',
    { me: Depends(requireScopes({ scopes: ['orders:read'], auth: token })), mcp: { name: 'orders' } },
    () => ({ orders: [] }),
  );
  app.mountMcp('/mcp', {
    deps: { me: Depends(token) },
    authorization: { resource: RESOURCE, scopes: ['orders:read'] },
    ...options,
  });
  const client = new TestClient(app, { raiseErrors: false, overrides: [issuer.overrideOf(token, other)] });
  t.after(() => client.close());
  const post: Site['post'] = (text, message, headers = {}) =>
    client.post('/mcp', {
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(text === undefined ? {} : { authorization: `Bearer ${text}` }),
        ...headers,
      },
    });
  return {
    client,
    clock,
    issuer,
    other,
    post,
    call: (text, name) =>
      post(
        text,
        { method: 'tools/call', params: { name, arguments: {}, _meta: META } },
        { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name },
      ),
  };
}

const initialize = {
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};

test('the metadata of an MCP endpoint names the issuers of its guard and its resource (RFC 9728)', async (t) => {
  const { client, post } = site(t);
  assert.deepEqual(await (await client.get('/.well-known/oauth-protected-resource/mcp')).json(), {
    resource: RESOURCE,
    authorization_servers: [ISSUER, OTHER],
    bearer_methods_supported: ['header'],
    scopes_supported: ['orders:read'],
  });
  const refused = await post(undefined, initialize);
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [401, `Bearer resource_metadata="${METADATA}"`],
  );
});

test('without servers, resource and IssuerAuth(), the option authorization is refused', () => {
  const token = IssuerAuth({ issuer: ISSUER, audience: RESOURCE });
  for (const authorization of [{ servers: [] }, { resource: 'mcp' }, { resource: `${RESOURCE}#x` }])
    assert.throws(
      () => new Svc().mountMcp('/mcp', { deps: { me: Depends(token) }, authorization }),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(authorization),
    );
  new Svc().mountMcp('/mcp', { deps: { me: Depends(token) }, authorization: {} });
  new Svc().mountMcp('/mcp', { deps: { me: Depends(token) }, authorization: { servers: [OTHER] } });
});

test('a token for another resource is refused by the MCP endpoint (RFC 8707)', async (t) => {
  const { issuer, post } = site(t);
  const response = await post(issuer.token({ aud: 'https://api.example/other' }), initialize);
  assert.deepEqual(
    [response.status, response.headers.get('www-authenticate')],
    [401, `Bearer error="invalid_token", resource_metadata="${METADATA}"`],
  );
});

test('a tool that needs a scope answers 403 insufficient_scope with the scope, and works with a token that has it', async (t) => {
  const { issuer, call } = site(t);
  assert.equal((await call(issuer.token({}), 'me')).status, 200);
  const refused = await call(issuer.token({ scope: 'orders' }), 'orders');
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [403, `Bearer error="insufficient_scope", scope="orders:read", resource_metadata="${METADATA}"`],
  );
  assert.equal((await call(issuer.token({ scope: 'orders orders:read' }), 'orders')).status, 200);
});

test('a session goes on with a refreshed token of its client, and belongs to no other issuer with the same subject', async (t) => {
  const { issuer, other, post, clock } = site(t);
  const opened = await post(issuer.token({ sub: 'ada' }), initialize);
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
  const ping = async (token: string): Promise<number> =>
    (await post(token, { method: 'ping' }, session)).status;
  const first = issuer.token({ sub: 'ada' });
  assert.equal(await ping(first), 200);
  await clock.advance(400_000);
  assert.equal(await ping(first), 401, 'the token has expired');
  assert.deepEqual(
    [await ping(issuer.token({ sub: 'ada' })), await ping(issuer.token({ sub: 'eve' }))],
    [200, 404],
  );
  assert.equal(await ping(other.token({ sub: 'ada' })), 404);
});

test('the streams of an MCP endpoint end when the token of their request expires', async (t) => {
  const { client, issuer, post, clock } = site(t);
  const opened = await post(issuer.token({}), initialize);
  const token = issuer.token({});
  const idle = await client.get('/mcp', {
    headers: {
      accept: 'text/event-stream',
      authorization: `Bearer ${token}`,
      'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    },
  });
  const listening = await post(
    token,
    { method: 'subscriptions/listen', params: { notifications: {}, _meta: META } },
    { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
  );
  assert.deepEqual([idle.status, listening.status], [200, 200]);
  let isOver = false;
  const ends = Promise.all([idle.text(), listening.text()]).then((texts) => {
    isOver = true;
    return texts;
  });
  await clock.advance(359_000); // five minutes, and the leeway of one
  assert.equal(isOver, false);
  await clock.advance(1_000);
  const [, listened] = await ends;
  assert.match(listened ?? '', /"result"/);
});

test('a tool call with a DPoP-bound token needs one proof, for the URL of the endpoint (RFC 9449)', async (t) => {
  const { issuer, post, clock } = site(t);
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const token = issuer.token({ scope: 'orders:read', cnf: { jkt: thumbprintOf(pair.publicKey) } });
  let proofs = 0;
  const proofFor = (htu: string): string =>
    jws(
      { typ: 'dpop+jwt', alg: 'ES256', jwk: jwk(pair.publicKey) },
      {
        jti: `proof-${proofs++}`,
        htm: 'POST',
        htu,
        iat: Math.floor(clock.nowMs() / 1_000),
        ath: hash('sha256', token, 'base64url'),
      },
      pair.privateKey,
    );
  const ask = async (fields: Record<string, string>): Promise<number> =>
    (
      await post(
        undefined,
        { method: 'tools/call', params: { name: 'orders', arguments: {}, _meta: META } },
        { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'orders', ...fields },
      )
    ).status;
  const authorization = `DPoP ${token}`;
  const dpop = proofFor('http://localhost/mcp');
  assert.deepEqual(
    [
      await ask({ authorization, dpop }),
      await ask({ authorization, dpop }),
      await ask({ authorization, dpop: proofFor('http://localhost/orders') }),
      await ask({ authorization }),
      await ask({ authorization: `Bearer ${token}`, dpop: proofFor('http://localhost/mcp') }),
    ],
    [200, 401, 401, 401, 401],
  );
});
