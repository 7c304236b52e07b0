/**
 * IssuerAuth() with tokens of oidc-provider, a certified authorization server: for an API, and for an MCP endpoint
 * that the official client opens after a login of its own.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, hash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Depends, IssuerAuth, Svc, requireScopes } from 'svc';
import { jwk, jws } from '../../oauth/support/fake-provider.ts';
import { LateServer } from '../../oauth/support/late-server.ts';
import { ScriptedBrowser } from '../../oauth/support/scripted-browser.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { scratch } from '../../support/scratch.ts';
import type { TestContext } from 'node:test';
import type { Listener } from '../../oauth/support/late-server.ts';

/** Members of `oidc-provider` that these tests use. */
interface OidcProviderModule {
  readonly default: new (issuer: string, configuration: object) => { callback(): Listener };
}

/** Members of the official MCP client that these tests use. */
interface McpClient {
  connect(transport: object): Promise<void>;
  callTool(call: {
    name: string;
    arguments: object;
  }): Promise<{ isError?: boolean; content: { text: string }[] }>;
  close(): Promise<void>;
}
interface McpTransport {
  finishAuth(code: string): Promise<void>;
}

const SECRET = '3f0a9c7d5e1b48263f0a9c7d5e1b4826';
const CLIENT_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' });

interface Site extends AsyncDisposable {
  readonly issuer: string;
  /** URL of the application, and of its MCP endpoint. */
  readonly url: string;
  readonly resource: string;
  readonly events: Record<string, unknown>[];
}

async function opened(t: TestContext): Promise<Site | undefined> {
  const folder = scratch(t, 'oauth-parties', { 'oidc-provider': '^9.13.0', oauth4webapi: '^3.8.0' });
  if (folder === undefined) return undefined;
  const file = pathToFileURL(join(folder, 'node_modules/oidc-provider/lib/index.js')).href;
  const module = (await import(file)) as OidcProviderModule;
  for (const method of ['info', 'warn'] as const) t.mock.method(console, method, () => undefined); // its advice for production
  await using stack = new AsyncDisposableStack();
  const late = stack.use(await LateServer.start());
  const front = stack.use(await LateServer.start());
  const resource = `${front.url}/mcp`;
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env: 'development', authSecret: SECRET });
  const token = IssuerAuth({ issuer: late.url, audience: resource, allowInsecure: true });
  app.get('/me', { me: Depends(token), mcp: { name: 'me' } }, ({ me }) => ({
    sub: me.sub,
    scopes: me.scopes,
  }));
  app.get(
    '/orders',
    { me: Depends(requireScopes({ scopes: ['orders:read'], auth: token })), mcp: { name: 'orders' } },
    () => ({ orders: [1] }),
  );
  app.mountMcp('/mcp', { deps: { me: Depends(token) }, authorization: { resource } });
  await app.startup();
  stack.defer(() => app.shutdown());
  front.answerWith(app.requestListener().request);
  const keys = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const certified = new module.default(late.url, {
    clients: [
      {
        client_id: 'desk',
        application_type: 'native',
        redirect_uris: [CALLBACK],
        response_types: ['code'],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'none',
      },
      {
        client_id: 'robot',
        client_secret: 'a-secret-of-the-robot-that-is-long-enough',
        redirect_uris: [],
        response_types: [],
        grant_types: ['client_credentials'],
      },
    ],
    jwks: { keys: [{ ...keys.privateKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'RS256' }] },
    cookies: { keys: [SECRET] },
    scopes: ['openid', 'offline_access', 'basic', 'orders:read'],
    ttl: { AccessToken: 300, ClientCredentials: 300 },
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      dPoP: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: unknown, indicator: string) => ({
          scope: 'basic orders:read',
          audience: indicator,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    clientDefaults: { id_token_signed_response_alg: 'RS256' },
    issueRefreshToken: () => true,
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  late.answerWith(certified.callback());
  const site = stack.move();
  return {
    issuer: late.url,
    url: front.url,
    resource,
    events,
    [Symbol.asyncDispose]: () => site.disposeAsync(),
  };
}

async function machineToken(site: Site, resource: string, proof?: string): Promise<string> {
  const response = await fetch(`${site.issuer}/token`, {
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
  assert.deepEqual(await ask(await machineToken(site, site.resource)), {
    sub: 'robot',
    scopes: ['orders:read'],
  });
  assert.equal(await ask(await machineToken(site, `${site.url}/other`)), 401);
  assert.equal(site.events.findLast(({ event }) => event === 'token_rejected')?.['reason'], 'audience');
});

test('an API accepts a DPoP-bound token of oidc-provider with its proof, and refuses it without', async (t) => {
  await using site = await opened(t);
  if (site === undefined) return;
  const token = await machineToken(site, site.resource, proofOf('POST', `${site.issuer}/token`));
  const ask = async (headers: Record<string, string>): Promise<number> =>
    (await fetch(`${site.url}/orders`, { headers })).status;
  const dpop = proofOf('GET', `${site.url}/orders`, token);
  assert.equal(await ask({ authorization: `DPoP ${token}`, dpop }), 200);
  assert.equal(await ask({ authorization: `DPoP ${token}`, dpop }), 401);
  assert.equal(await ask({ authorization: `DPoP ${token}` }), 401);
  assert.equal(await ask({ authorization: `Bearer ${token}` }), 401);
});

const CALLBACK = 'http://127.0.0.1:9/callback';

type McpModule = Readonly<Record<'Client' | 'Transport', new (...given: unknown[]) => unknown>>;

/** A person with the official MCP client: logs in where the client wants it. */
class Desk {
  /** Authorization requests of the client. */
  readonly asked: URL[] = [];
  readonly #site: Site;
  readonly #module: McpModule;
  readonly #provider: object;
  #tokens: Record<string, string> | undefined;
  #code = '';

  /** `clientId`: a registered client; without it, the client registers itself. */
  constructor(
    site: Site,
    module: McpModule,
    { clientId, scope }: { clientId?: string; scope?: string } = {},
  ) {
    this.#site = site;
    this.#module = module;
    const browser = new ScriptedBrowser();
    let client: object | undefined = clientId === undefined ? undefined : { client_id: clientId };
    let verifier = '';
    this.#provider = {
      redirectUrl: CALLBACK,
      clientMetadata: {
        client_name: 'test',
        redirect_uris: [CALLBACK],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        ...(scope === undefined ? {} : { scope }),
      },
      clientInformation: () => client,
      saveClientInformation: (registered: object) => void (client = registered),
      tokens: () => this.#tokens,
      // with a refresh token, this client refreshes in place of asking for more scope
      saveTokens: ({ refresh_token: refresh, ...tokens }: Record<string, string>) =>
        void (this.#tokens = clientId === undefined ? { ...tokens, refresh_token: refresh ?? '' } : tokens),
      saveCodeVerifier: (made: string) => void (verifier = made),
      codeVerifier: () => verifier,
      redirectToAuthorization: async (url: URL) => {
        this.asked.push(url);
        let page = await browser.open(url, { stopAt: CALLBACK });
        if (page.text.includes('name="login"'))
          page = await browser.submit(page, { login: 'ada', password: 'any' }, { stopAt: CALLBACK });
        if (page.response.headers.get('location') === null)
          page = await browser.submit(page, {}, { stopAt: CALLBACK });
        this.#code = new URL(page.response.headers.get('location') ?? '').searchParams.get('code') ?? '';
      },
    };
  }

  static async load(t: TestContext): Promise<McpModule | undefined> {
    const folder = scratch(t, 'mcp-sdk-1', { '@modelcontextprotocol/sdk': '1.32.2' });
    if (folder === undefined) return undefined;
    const base = join(folder, 'node_modules/@modelcontextprotocol/sdk/dist/esm/client');
    const [{ Client }, { StreamableHTTPClientTransport: Transport }] = (await Promise.all(
      ['index.js', 'streamableHttp.js'].map((name) => import(pathToFileURL(join(base, name)).href)),
    )) as [Record<'Client', never>, Record<'StreamableHTTPClientTransport', never>];
    return { Client, Transport };
  }

  async connect(): Promise<McpClient> {
    const client = new this.#module.Client({ name: 'test', version: '1' }) as McpClient;
    await client.connect(this.#transport());
    return client;
  }

  /** Exchanges the code of the last login for a token. */
  async finish(): Promise<void> {
    await this.#transport().finishAuth(this.#code);
  }

  spoilToken(): void {
    this.#tokens = { ...this.#tokens, access_token: 'x.y.z' };
  }

  #transport(): McpTransport {
    const options = { authProvider: this.#provider };
    return new this.#module.Transport(new URL(this.#site.resource), options) as McpTransport;
  }
}

const textOf = async (client: McpClient, name: string): Promise<string> =>
  (await client.callTool({ name, arguments: {} })).content[0]?.text ?? '';

test('the official MCP client finds the authorization server, registers itself, logs in, and refreshes its token during a session', async (t) => {
  const module = await Desk.load(t);
  await using site = await opened(t);
  if (site === undefined || module === undefined) return;
  const desk = new Desk(site, module, { scope: 'basic orders:read' });
  await assert.rejects(desk.connect(), /Unauthorized/);
  assert.equal(desk.asked[0]?.searchParams.get('resource'), site.resource);
  await desk.finish();
  const client = await desk.connect();
  assert.match(await textOf(client, 'me'), /"sub":"ada"/);
  desk.spoilToken();
  assert.match(await textOf(client, 'orders'), /\[1\]/);
  assert.equal(desk.asked.length, 1, 'without another login');
  await client.close();
});

test('the official MCP client asks for the scope that a tool needs (403 insufficient_scope)', async (t) => {
  const module = await Desk.load(t);
  await using site = await opened(t);
  if (site === undefined || module === undefined) return;
  const desk = new Desk(site, module, { clientId: 'desk', scope: 'basic' });
  await assert.rejects(desk.connect(), /Unauthorized/);
  await desk.finish();
  const client = await desk.connect();
  assert.match(await textOf(client, 'me'), /"scopes":\["basic"\]/);
  await assert.rejects(textOf(client, 'orders'), /Unauthorized/);
  assert.deepEqual(
    desk.asked.map((url) => url.searchParams.get('scope')),
    ['basic', 'orders:read'],
  );
  await desk.finish();
  assert.match(await textOf(client, 'orders'), /\[1\]/);
  await client.close();
});
