/**
 * The example of the manual "Serve over HTTP" behind oidc-provider, a certified authorization server. Three
 * clients find the server, register themselves, log in, ask for a further scope and refresh their tokens: the
 * official client, the inspector and mcp-remote.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { LateServer } from '../oauth/support/late-server.ts';
import { ScriptedBrowser } from '../oauth/support/scripted-browser.ts';
import { manual } from '../support/manuals.ts';
import { blocksOf } from '../support/markdown.ts';
import { CertifiedProvider, tokensForResources } from '../support/oidc-provider.ts';
import { folder, project, start } from '../support/run.ts';
import { scratch } from '../support/scratch.ts';
import type { Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import type { Svc } from 'svc';
import type { Running } from '../support/run.ts';

/** Members of the official MCP client that these tests use. */
interface McpClient {
  connect(transport: object): Promise<void>;
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(call: { name: string }): Promise<{ content: { text: string }[] }>;
  close(): Promise<void>;
}
interface HttpTransport {
  finishAuth(code: string): Promise<void>;
}
interface StdioTransport {
  readonly stderr: Readable;
}

/** Address of a client that runs in this process. Nothing listens there. */
const CALLBACK = 'http://127.0.0.1:9/callback';
const DESK = {
  client_name: 'desk',
  redirect_uris: [CALLBACK],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
};
const SPOILT = 'x.y.z';

before(() => {
  process.env['SVC_ENV'] = 'development';
});

/** Returns the application of the example, with other addresses. */
async function example(t: TestContext, issuer: string, resource: string): Promise<Svc> {
  const code = blocksOf(manual('src/mcp/README.md')).find(
    ({ language, text }) => language === 'ts' && text.includes('IssuerAuth('),
  )!.text;
  const moved = code
    .replace("'https://api.example.com/mcp'", `'${resource}'`)
    .replace("issuer: 'https://login.example.com'", `issuer: '${issuer}', allowInsecure: true`);
  const file = join(project(t, { 'app.ts': moved }), 'app.ts');
  return ((await import(pathToFileURL(file).href)) as { app: Svc }).app;
}

interface Site extends AsyncDisposable {
  readonly issuer: string;
  /** URL of the MCP endpoint. */
  readonly resource: string;
}

async function opened(t: TestContext): Promise<Site | undefined> {
  await using stack = new AsyncDisposableStack();
  const certified = stack.use(await CertifiedProvider.start(t));
  if (certified === undefined) return undefined;
  const front = stack.use(await LateServer.start());
  const resource = `${front.url}/mcp`;
  const app = await example(t, certified.url, resource);
  await app.startup();
  stack.defer(() => app.shutdown());
  front.answerWith(app.requestListener().request);
  certified.configure({
    clients: [{ client_id: 'desk', ...DESK }],
    scopes: ['openid', 'offline_access', 'notes:read'],
    ttl: { AccessToken: 300 },
    features: {
      registration: { enabled: true },
      ...tokensForResources('notes:read'),
    },
    clientDefaults: { id_token_signed_response_alg: 'RS256' },
    issueRefreshToken: () => true,
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
  const site = stack.move();
  return { issuer: certified.url, resource, [Symbol.asyncDispose]: () => site.disposeAsync() };
}

/** Ada with a browser. She visits the addresses that a client asks her to open. */
class Ada {
  readonly visited: URL[] = [];
  readonly #browser = new ScriptedBrowser();
  readonly #firstScope: string | undefined;

  /** With `firstScope`, Ada grants only this scope at her first login. */
  constructor(firstScope?: string) {
    this.#firstScope = firstScope;
  }

  /** Logs in and agrees. Returns the address to which the authorization server then leads. */
  async logIn(address: string | URL): Promise<URL> {
    const url = new URL(address);
    this.visited.push(new URL(url));
    if (this.visited.length === 1 && this.#firstScope !== undefined)
      url.searchParams.set('scope', this.#firstScope);
    const stopAt = url.searchParams.get('redirect_uri')!;
    let page = await this.#browser.open(url, { stopAt });
    if (page.text.includes('name="login"'))
      page = await this.#browser.submit(page, { login: 'ada', password: 'any' }, { stopAt });
    if (page.response.headers.get('location') === null)
      page = await this.#browser.submit(page, {}, { stopAt });
    const answer = new URL(page.response.headers.get('location')!);
    assert.ok(answer.searchParams.has('code'), answer.href);
    return answer;
  }

  /** Logs in, and goes back to the client. */
  async visit(address: string): Promise<void> {
    assert.equal((await fetch(await this.logIn(address))).status, 200);
  }

  /** Scopes and resources of the authorization requests. */
  asked(): unknown[] {
    return this.visited.map(({ searchParams }) => [
      searchParams.get('scope')?.includes('notes:read'),
      searchParams.get('resource'),
    ]);
  }
}

interface Sdk {
  readonly Client: new (info: object) => McpClient;
  readonly HttpTransport: new (url: URL, options: object) => HttpTransport;
  readonly StdioTransport: new (options: object) => StdioTransport;
}

async function loadSdk(t: TestContext): Promise<Sdk | undefined> {
  const path = scratch(t, 'mcp-sdk-1', { '@modelcontextprotocol/sdk': '1.32.2' });
  if (path === undefined) return undefined;
  const base = join(path, 'node_modules/@modelcontextprotocol/sdk/dist/esm/client');
  const [
    { Client },
    { StreamableHTTPClientTransport: HttpTransport },
    { StdioClientTransport: StdioTransport },
  ] = (await Promise.all(
    ['index.js', 'streamableHttp.js', 'stdio.js'].map((file) => import(pathToFileURL(join(base, file)).href)),
  )) as [
    Pick<Sdk, 'Client'>,
    Record<'StreamableHTTPClientTransport', Sdk['HttpTransport']>,
    Record<'StdioClientTransport', Sdk['StdioTransport']>,
  ];
  return { Client, HttpTransport, StdioTransport };
}

const resultOf = async (client: McpClient, name: string): Promise<string> =>
  (await client.callTool({ name })).content[0]!.text;

/** A program with the official client, which keeps what it has to remember in memory. */
class Desk {
  readonly ada: Ada;
  readonly #site: Site;
  readonly #sdk: Sdk;
  readonly #provider: object;
  #tokens: Readonly<Record<string, unknown>> | undefined;
  #code = '';

  /** `clientId`: a registered client; without it, the client registers itself. */
  constructor(site: Site, sdk: Sdk, ada: Ada, { clientId }: { clientId?: string } = {}) {
    this.#site = site;
    this.#sdk = sdk;
    this.ada = ada;
    let client: object | undefined = clientId === undefined ? undefined : { client_id: clientId };
    let verifier = '';
    this.#provider = {
      redirectUrl: CALLBACK,
      clientMetadata: DESK,
      clientInformation: () => client,
      saveClientInformation: (registered: object) => void (client = registered),
      tokens: () => this.#tokens,
      // with a refresh token, this client refreshes in place of asking for more scope
      saveTokens: ({ refresh_token: refresh, ...tokens }: Record<string, unknown>) =>
        void (this.#tokens = clientId === undefined ? { ...tokens, refresh_token: refresh } : tokens),
      saveCodeVerifier: (made: string) => void (verifier = made),
      codeVerifier: () => verifier,
      redirectToAuthorization: async (url: URL) =>
        void (this.#code = (await ada.logIn(url)).searchParams.get('code')!),
    };
  }

  async connect(): Promise<McpClient> {
    const client = new this.#sdk.Client({ name: 'desk', version: '1' });
    await client.connect(this.#transport());
    return client;
  }

  /** Exchanges the code of the last login for a token. */
  async finish(): Promise<void> {
    await this.#transport().finishAuth(this.#code);
  }

  spoilToken(): void {
    this.#tokens = { ...this.#tokens, access_token: SPOILT };
  }

  #transport(): HttpTransport {
    return new this.#sdk.HttpTransport(new URL(this.#site.resource), { authProvider: this.#provider });
  }
}

test('the official MCP client finds the authorization server, registers itself, logs in, and refreshes its token during a session', async (t) => {
  const sdk = await loadSdk(t);
  await using site = await opened(t);
  if (site === undefined || sdk === undefined) return;
  const desk = new Desk(site, sdk, new Ada());
  await assert.rejects(desk.connect(), /Unauthorized/);
  await desk.finish();
  const client = await desk.connect();
  assert.equal(await resultOf(client, 'get_me'), `${site.issuer} ada`);
  desk.spoilToken();
  assert.equal(await resultOf(client, 'get_notes'), '{"notes":["Buy tea"]}');
  assert.deepEqual(desk.ada.asked(), [[true, site.resource]], 'without another login');
  await client.close();
});

test('the official MCP client asks for the scope that a tool needs (403 insufficient_scope)', async (t) => {
  const sdk = await loadSdk(t);
  await using site = await opened(t);
  if (site === undefined || sdk === undefined) return;
  const desk = new Desk(site, sdk, new Ada('openid'), { clientId: 'desk' });
  await assert.rejects(desk.connect(), /Unauthorized/);
  await desk.finish();
  const client = await desk.connect();
  assert.equal(await resultOf(client, 'get_me'), `${site.issuer} ada`);
  await assert.rejects(resultOf(client, 'get_notes'), /Unauthorized/);
  await desk.finish();
  assert.equal(await resultOf(client, 'get_notes'), '{"notes":["Buy tea"]}');
  assert.equal(desk.ada.visited.length, 2);
  await client.close();
});

test('the MCP inspector logs in, keeps its tokens, and refreshes them, in version 2026-07-28 of the protocol and in an earlier version', async (t) => {
  const path = scratch(t, 'mcp-inspector', { '@modelcontextprotocol/inspector': '2.12.0' });
  await using site = await opened(t);
  if (site === undefined || path === undefined) return;
  const home = folder(t);
  const inspect = (...args: string[]): Running => {
    const usual = ['--cli', '--transport', 'http', '--server-url', site.resource, '--format', 'json'];
    return start(t, process.execPath, [join(path, 'node_modules/.bin/mcp-inspector'), ...usual, ...args], {
      cwd: home,
      env: { HOME: home, BROWSER: 'true', MCP_AUTO_OPEN_ENABLED: 'true', MCP_INSPECTOR_SECRET_STORE: 'file' },
    });
  };
  const ada = new Ada();
  const first = inspect('--method', 'tools/list', '--callback-url', 'http://127.0.0.1:0/callback');
  await ada.visit((await first.printed(/Please navigate to: (\S+)\n/))[1]!);
  const listed = await first.ended;
  assert.match(listed.stdout, /"name":"get_me".*"name":"get_notes"/, listed.stderr);
  const call = ['--method', 'tools/call', '--tool-name', 'get_notes', '--stored-auth-only'];
  const secrets = join(home, '.mcp-inspector/secrets.json');
  for (const era of ['legacy', 'modern']) {
    const { stdout, stderr } = await inspect(...call, '--protocol-era', era).ended;
    assert.match(stdout, /Buy tea/, stderr);
    const kept = readFileSync(secrets, 'utf8');
    const spoilt = kept.replace(/(access_token\\":\\")[^\\]+/, `$1${SPOILT}`);
    assert.notEqual(spoilt, kept);
    writeFileSync(secrets, spoilt);
    const again = await inspect(...call, '--protocol-era', era).ended;
    assert.match(again.stdout, /Buy tea/, again.stderr);
  }
  assert.deepEqual(ada.asked(), [[true, site.resource]]);
});

for (const protocol of ['legacy', 'auto'])
  test(`mcp-remote logs in, asks for the scope that a tool needs, and refreshes its token during a session, with --protocol ${protocol}`, async (t) => {
    const sdk = await loadSdk(t);
    const path = scratch(t, 'mcp-remote', { 'mcp-remote': '0.15.1' });
    await using site = await opened(t);
    if (site === undefined || sdk === undefined || path === undefined) return;
    const home = folder(t);
    const transport = new sdk.StdioTransport({
      command: process.execPath,
      args: [join(path, 'node_modules/mcp-remote/dist/proxy.js'), site.resource, '--protocol', protocol],
      env: { PATH: process.env['PATH'], HOME: home, MCP_REMOTE_CONFIG_DIR: home, BROWSER: 'true' },
      stderr: 'pipe',
    });
    const ada = new Ada('offline_access');
    const visits: Promise<void>[] = [];
    let told = '';
    transport.stderr.setEncoding('utf8').on('data', (text: string) => {
      told += text;
      const addresses = [...told.matchAll(/by visiting:\s+(\S+)\s/g)].map(([, address]) => address!);
      // it prints the second address before it listens for the answer
      const listens = told.match(/callback server running/g)?.length ?? 0;
      for (const address of addresses.slice(visits.length, listens)) visits.push(ada.visit(address));
    });
    const client = new sdk.Client({ name: 'desk', version: '1' });
    t.after(() => client.close());
    await client.connect(transport);
    assert.deepEqual(
      (await client.listTools()).tools.map(({ name }) => name),
      ['get_me', 'get_notes'],
    );
    assert.equal(await resultOf(client, 'get_me'), `${site.issuer} ada`);
    assert.equal(visits.length, 1);
    assert.equal(await resultOf(client, 'get_notes'), '{"notes":["Buy tea"]}', told);
    await Promise.all(visits);
    assert.deepEqual(ada.asked(), [
      [true, site.resource],
      [true, site.resource],
    ]);
    const [file] = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('_tokens.json')); // prettier-ignore
    const kept = join(home, file!);
    const tokens = JSON.parse(readFileSync(kept, 'utf8')) as Readonly<Record<string, unknown>>;
    writeFileSync(kept, JSON.stringify({ ...tokens, access_token: SPOILT }));
    assert.equal(await resultOf(client, 'get_me'), `${site.issuer} ada`, told);
    assert.notEqual(
      (JSON.parse(readFileSync(kept, 'utf8')) as { access_token: string }).access_token,
      SPOILT,
    );
    assert.equal(visits.length, 2, 'without another login');
  });
