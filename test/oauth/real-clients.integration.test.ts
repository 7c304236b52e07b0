/**
 * Interoperability: users log in at `oidc-provider`, a certified OpenID provider; `oauth4webapi`, a strict client, refreshes
 * and revokes the tokens.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { BearerAuth, Depends, Svc } from 'svc';
import { OAuthPlugin, OAuthProvider } from 'svc/oauth';
import { collectedLog } from '../support/collected-log.ts';
import { CertifiedProvider, importedParty } from '../support/oidc-provider.ts';
import { ScriptedBrowser } from './support/scripted-browser.ts';
import { SECRET, claimsOf } from './support/site.ts';
import type { TestContext } from 'node:test';
import type { RunningServer } from 'svc';
import type { IdTokenAlgorithm, OAuthProviderOptions, UserInfo } from 'svc/oauth';
import type { Visited } from './support/scripted-browser.ts';
import type { Tokens } from './support/site.ts';

/** Members of `oauth4webapi` that these tests use. */
interface OAuth4WebApi {
  readonly allowInsecureRequests: symbol;
  readonly ResponseBodyError: new (...given: never[]) => ResponseBodyError;
  None(): unknown;
  ClientSecretPost(secret: string): unknown;
  ClientSecretBasic(secret: string): unknown;
  refreshTokenGrantRequest(
    server: object,
    client: object,
    auth: unknown,
    token: string,
    options: object,
  ): Promise<Response>;
  processRefreshTokenResponse(server: object, client: object, response: Response): Promise<Tokens>;
  revocationRequest(
    server: object,
    client: object,
    auth: unknown,
    token: string,
    options: object,
  ): Promise<Response>;
  processRevocationResponse(response: Response): Promise<undefined>;
  genericTokenEndpointRequest(
    server: object,
    client: object,
    auth: unknown,
    grantType: string,
    parameters: object,
    options: object,
  ): Promise<Response>;
  processGenericTokenEndpointResponse(server: object, client: object, response: Response): Promise<Tokens>;
}
interface ResponseBodyError extends Error {
  readonly error: string;
  readonly error_description: string;
  readonly status: number;
  readonly cause: Readonly<Record<string, unknown>>;
}

const CLIENT_ID = 'svc:app+1%';
const CLIENT_SECRET = 'secret:of/the+app=50%~'; // both have what Basic must encode
const rsaKey = (): object =>
  generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ format: 'jwk' });
const ecKey = (namedCurve: string): object =>
  generateKeyPairSync('ec', { namedCurve }).privateKey.export({ format: 'jwk' });
const KEYS: Partial<Record<IdTokenAlgorithm, object>> = {
  RS256: jwk('RS256', rsaKey()),
  PS256: jwk('PS256', rsaKey()),
  RS512: jwk('RS512', rsaKey()),
  ES256: jwk('ES256', ecKey('P-256')),
  ES384: jwk('ES384', ecKey('P-384')),
  ES512: jwk('ES512', ecKey('P-521')),
  EdDSA: jwk('EdDSA', generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })),
};

function jwk(alg: IdTokenAlgorithm, key: object): object {
  return { ...key, kid: alg.toLowerCase(), use: 'sig', alg };
}

interface Registration {
  readonly clientAuth: 'client_secret_basic' | 'client_secret_post' | 'none';
  readonly algorithm: IdTokenAlgorithm;
}

/** Application with logins at `oidc-provider`. */
class Application implements AsyncDisposable {
  readonly provider: CertifiedProvider;
  readonly events: Record<string, unknown>[];
  readonly users: UserInfo[];
  readonly visitor: ScriptedBrowser = new ScriptedBrowser();
  readonly #server: RunningServer;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    provider: CertifiedProvider,
    server: RunningServer,
    {
      events,
      users,
      stack,
    }: Pick<Application, 'events' | 'users'> & { readonly stack: AsyncDisposableStack },
  ) {
    this.provider = provider;
    this.#server = server;
    this.#stack = stack;
    this.events = events;
    this.users = users;
  }

  static async open(
    t: TestContext,
    { clientAuth, algorithm }: Registration,
    options: Partial<OAuthProviderOptions> = {},
  ): Promise<Application | undefined> {
    await using stack = new AsyncDisposableStack();
    const provider = stack.use(await CertifiedProvider.start(t));
    if (provider === undefined) return undefined;
    const { logger, events } = collectedLog();
    const users: UserInfo[] = [];
    const app = new Svc({ authSecret: SECRET, logger, env: 'development' });
    app.register(
      new OAuthPlugin({
        provider: new OAuthProvider({
          name: 'certified',
          clientId: CLIENT_ID,
          clientSecret: clientAuth === 'none' ? undefined : CLIENT_SECRET,
          issuer: provider.url,
          allowInsecure: true,
          idTokenAlgorithms: [algorithm],
          clientAuth: ({ client_secret_basic: 'basic', client_secret_post: 'post', none: 'none' } as const)[
            clientAuth
          ],
          ...options,
        }),
        scopes: ['notes'],
        onUser: (_provider, info) => {
          users.push(info);
          return `user-${info.subject}`;
        },
      }),
    );
    app.get('/me', { claims: Depends(BearerAuth()) }, ({ claims }) => claims);
    const server = stack.adopt(await app.run({ port: 0, handleSignals: false }), (running) =>
      running.close(),
    );
    provider.configure({
      clients: [
        {
          client_id: CLIENT_ID,
          ...(clientAuth === 'none' ? {} : { client_secret: CLIENT_SECRET }),
          redirect_uris: [`${server.url}/oauth/callback`],
          response_types: ['code'],
          grant_types: ['authorization_code'],
          token_endpoint_auth_method: clientAuth,
          id_token_signed_response_alg: algorithm,
        },
      ],
      jwks: { keys: Object.values(KEYS) },
      pkce: { required: () => true },
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
      enabledJWA: { idTokenSigningAlgValues: Object.keys(KEYS) },
      findAccount: (_context: unknown, id: string) => ({
        accountId: id,
        claims: () => ({ sub: id, name: 'Ada Lovelace', email: 'ada@example.test', email_verified: true }),
      }),
    });
    return new Application(provider, server, { events, users, stack: stack.move() });
  }

  get url(): string {
    return this.#server.url;
  }
  get callback(): string {
    return `${this.url}/oauth/callback`;
  }

  /** Goes through the provider's pages, and returns the address of the callback without opening it. */
  async approved(): Promise<URL> {
    const login = await this.visitor.open(`${this.url}/oauth/login`);
    assert.ok(login.url.href.startsWith(`${this.provider.url}/interaction/`), login.url.href);
    const consent = await this.visitor.submit(login, { login: 'ada', password: 'any will do' });
    assert.match(consent.text, /name="prompt" value="consent"/);
    const { response } = await this.visitor.submit(consent, {}, { stopAt: this.callback });
    return new URL(response.headers.get('location')!);
  }

  async login(): Promise<Visited> {
    return this.visitor.open(await this.approved());
  }

  audited(): unknown[] {
    return this.events
      .filter(({ logger }) => logger === 'svc_oauth')
      .map(({ event, reason }) => (reason === undefined ? event : `${String(event)} ${String(reason)}`));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

for (const [clientAuth, algorithm] of [
  ['client_secret_basic', 'RS256'],
  ['client_secret_post', 'RS256'],
  ['client_secret_basic', 'ES256'],
  ['client_secret_post', 'ES256'],
  ['none', 'PS256'],
  ['client_secret_basic', 'EdDSA'],
  ['client_secret_basic', 'RS512'],
  ['client_secret_post', 'ES384'],
  ['none', 'ES512'],
] as const) {
  test(`with ${clientAuth} and ${algorithm}, a user logs in at the npm package oidc-provider with code, PKCE, nonce and iss`, async (t) => {
    await using application = await Application.open(t, { clientAuth, algorithm });
    if (application === undefined) return;
    const { visitor } = application;
    const back = await application.approved();
    const request = visitor.history.find(({ pathname }) => pathname === '/auth')!.searchParams;
    assert.deepEqual([...request.keys()].sort(), [
      'client_id',
      'code_challenge',
      'code_challenge_method',
      'nonce',
      'redirect_uri',
      'response_type',
      'scope',
      'state',
    ]);
    assert.deepEqual([...back.searchParams.keys()].sort(), ['code', 'iss', 'state']);
    assert.equal(back.searchParams.get('iss'), application.provider.url);

    const { response, text, url } = await visitor.open(back);
    assert.equal(response.status, 200, `${text} ${application.audited().join()}`);
    assert.equal(url.href, back.href, 'no redirect: the tokens are in the body');
    const tokens = JSON.parse(text) as Tokens;
    assert.deepEqual(
      [tokens.token_type, tokens.expires_in, tokens.scope, claimsOf(tokens.access_token)['sub']],
      ['Bearer', 900, 'notes', 'user-ada'],
    );
    const me = await fetch(`${application.url}/me`, {
      headers: { authorization: `Bearer ${tokens.access_token}` },
    });
    assert.equal(((await me.json()) as { sub: string }).sub, 'user-ada');

    const [{ raw, ...user } = undefined as never] = application.users;
    assert.deepEqual(user, {
      subject: 'ada',
      email: 'ada@example.test',
      emailVerified: true,
      name: 'Ada Lovelace',
      picture: null,
    });
    assert.deepEqual(
      [raw['iss'], raw['aud'], raw['nonce']],
      [application.provider.url, CLIENT_ID, request.get('nonce')],
      'claims of the id_token',
    );
    assert.deepEqual(
      application.audited().filter((event) => event !== 'provider_call'),
      ['logins_in_memory', 'login_started', 'login_succeeded', 'token_issued'],
    );
    assert.ok(
      !visitor.history.some(
        ({ href }) => href.includes(tokens.access_token) || href.includes(tokens.refresh_token),
      ),
      'no token in an address',
    );
    assert.ok(
      !JSON.stringify(application.events).includes(back.searchParams.get('code')!),
      'no code in the log',
    );

    const again = await visitor.open(back);
    assert.deepEqual(
      [again.response.status, (JSON.parse(again.text) as { error: string }).error],
      [400, 'invalid_state'],
    );
  });
}

/** Asserts that a visit ended with this status and error code. */
function refused({ response, text }: Visited, status: number, code: string): void {
  assert.deepEqual([response.status, (JSON.parse(text) as { error: string }).error], [status, code]);
}

test('An authorization response of oidc-provider for one login is refused in another login because of PKCE, iss and state', async (t) => {
  await using application = await Application.open(t, {
    clientAuth: 'client_secret_basic',
    algorithm: 'RS256',
  });
  if (application === undefined) return;
  const { visitor, provider } = application;
  const first = await application.approved();
  const login = await visitor.open(`${application.url}/oauth/login`, { stopAt: application.callback }); // logged in there already, and has consented
  const second = new URL(login.response.headers.get('location')!);
  const mixed = new URL(second);
  mixed.searchParams.set('code', first.searchParams.get('code')!);
  refused(await visitor.open(mixed), 502, 'provider_error');
  assert.equal(application.audited().at(-1), 'provider_error token_status_400_invalid_grant');

  const elsewhere = new URL(first);
  elsewhere.searchParams.set('iss', `${provider.url}/`);
  refused(await visitor.open(elsewhere), 400, 'issuer_mismatch');
  const third = new URL(
    (
      await visitor.open(`${application.url}/oauth/login`, { stopAt: application.callback })
    ).response.headers.get('location')!,
  );
  third.searchParams.delete('iss');
  refused(await visitor.open(third), 400, 'issuer_mismatch');

  const fourth = new URL(
    (
      await visitor.open(`${application.url}/oauth/login`, { stopAt: application.callback })
    ).response.headers.get('location')!,
  );
  refused(await new ScriptedBrowser().open(fourth), 400, 'state_browser_mismatch');
  assert.equal((await visitor.open(fourth)).response.status, 200);
  assert.equal(application.users.length, 1);
});

test('A login fails with access_denied if the user cancels it at oidc-provider, and with login_required if prompt=none finds no session', async (t) => {
  await using application = await Application.open(t, {
    clientAuth: 'client_secret_post',
    algorithm: 'RS256',
  });
  if (application === undefined) return;
  const { visitor } = application;
  const { url } = await visitor.open(`${application.url}/oauth/login`);
  refused(await visitor.open(`${url.href}/abort`), 400, 'access_denied');
  refused(await visitor.open(`${application.url}/oauth/login?prompt=none`), 400, 'login_required');
  assert.equal(application.audited().at(-1), 'login_failed login_required');
});

test('A login at oidc-provider fails if the id_token has an unlisted algorithm, or if the client secret is wrong', async (t) => {
  await using wrongAlgorithm = await Application.open(
    t,
    { clientAuth: 'client_secret_basic', algorithm: 'ES256' },
    { idTokenAlgorithms: ['RS256'] },
  );
  if (wrongAlgorithm === undefined) return;
  refused(await wrongAlgorithm.login(), 502, 'provider_error');
  assert.match(String(wrongAlgorithm.audited().at(-1)), /^provider_error id_token_/);
  await using wrongSecret = (await Application.open(
    t,
    { clientAuth: 'client_secret_basic', algorithm: 'RS256' },
    { clientSecret: 'another' },
  ))!; // installed, because a test that skips has returned already
  refused(await wrongSecret.login(), 502, 'provider_error');
  assert.match(String(wrongSecret.audited().at(-1)), /^provider_error token_status_401_invalid_client$/);
});

/** Returns whether oauth4webapi has read an error of the plugin with this code and status. */
function readsAs(library: OAuth4WebApi, error: string, status: number = 400): (thrown: unknown) => true {
  return (thrown) => {
    assert.ok(thrown instanceof library.ResponseBodyError, String(thrown));
    const { cause } = thrown;
    assert.deepEqual(
      [thrown.error, thrown.status, typeof thrown.error_description, Object.keys(cause)],
      [error, status, 'string', ['error', 'error_description', 'request_id']],
    );
    return true;
  };
}

test('the npm package oauth4webapi can refresh and revoke tokens at the endpoints of OAuthPlugin, and can parse their errors', async (t) => {
  const library = await importedParty<OAuth4WebApi>(t, 'oauth4webapi/build/index.js');
  await using application = await Application.open(t, {
    clientAuth: 'client_secret_basic',
    algorithm: 'RS256',
  });
  if (library === undefined || application === undefined) return;
  const server = {
    issuer: application.url,
    token_endpoint: `${application.url}/oauth/token`,
    revocation_endpoint: `${application.url}/oauth/revoke`,
  };
  const client = { client_id: 'any' };
  const options = { [library.allowInsecureRequests]: true };
  const refresh = async (
    token: string,
    parameters: Readonly<Record<string, string>> = {},
    auth: unknown = library.None(),
  ): Promise<Tokens> =>
    library.processRefreshTokenResponse(
      server,
      client,
      await library.refreshTokenGrantRequest(server, client, auth, token, {
        ...options,
        additionalParameters: parameters,
      }),
    );
  const revoke = async (
    token: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<undefined> =>
    library.processRevocationResponse(
      await library.revocationRequest(server, client, library.None(), token, {
        ...options,
        additionalParameters: parameters,
      }),
    );
  const ask = async (grantType: string, parameters: Readonly<Record<string, string>>): Promise<Tokens> =>
    library.processGenericTokenEndpointResponse(
      server,
      client,
      await library.genericTokenEndpointRequest(
        server,
        client,
        library.None(),
        grantType,
        parameters,
        options,
      ),
    );

  const tokens = JSON.parse((await application.login()).text) as Tokens;
  let { refresh_token: current } = tokens;
  for (const auth of [
    library.None(),
    library.ClientSecretPost('unused'),
    library.ClientSecretBasic('unused'),
  ]) {
    // the endpoints of the plugin authenticate no client
    const refreshed = await refresh(current, {}, auth);
    assert.deepEqual(
      [refreshed.token_type, refreshed.expires_in, refreshed.scope],
      ['bearer', 900, 'notes'],
      'it writes the type in lower case',
    );
    assert.notEqual(refreshed.refresh_token, current);
    const me = await fetch(`${application.url}/me`, {
      headers: { authorization: `Bearer ${refreshed.access_token}` },
    });
    assert.equal(me.status, 200);
    current = refreshed.refresh_token;
  }
  assert.equal(
    (
      await refresh(current, { scope: 'notes' }).then((answer) => {
        current = answer.refresh_token;
        return answer;
      })
    ).scope,
    'notes',
  );

  await assert.rejects(refresh(current, { scope: 'notes admin' }), readsAs(library, 'invalid_scope'));
  await assert.rejects(refresh('nobody.knows.this'), readsAs(library, 'invalid_grant'));
  await assert.rejects(ask('client_credentials', {}), readsAs(library, 'unsupported_grant_type'));
  await assert.rejects(ask('refresh_token', {}), readsAs(library, 'invalid_request'));
  const { refresh_token: latest } = await refresh(current);
  await assert.rejects(refresh(tokens.refresh_token), readsAs(library, 'invalid_grant'));
  await assert.rejects(
    refresh(latest),
    readsAs(library, 'invalid_grant'),
    'one that was used before has ended the login',
  );

  const other = JSON.parse((await application.visitor.open(`${application.url}/oauth/login`)).text) as Tokens;
  for (const token of [other.refresh_token, other.refresh_token, 'nobody.knows.this'])
    assert.equal(await revoke(token, { token_type_hint: 'refresh_token' }), undefined);
  await assert.rejects(refresh(other.refresh_token), readsAs(library, 'invalid_grant'));
});
