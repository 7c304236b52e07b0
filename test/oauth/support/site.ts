/**
 * An application with logins, its identity provider, and browsers.
 */
import assert from 'node:assert/strict';
import { SessionMiddleware, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin, OAuthProvider } from 'svc/oauth';
import { ManualClock, TestClient } from 'svc/testing';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeProvider } from './fake-provider.ts';
import type { Env, SvcOptions } from 'svc';
import type { OAuthPluginOptions, OAuthProviderOptions } from 'svc/oauth';
import type { TestClientOptions, TestRequest } from 'svc/testing';

/** Secret of the application under test. */
export const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';

export interface LoginSiteOptions {
  readonly env?: Env;
  readonly plugin?: Partial<OAuthPluginOptions>;
  readonly provider?: Partial<OAuthProviderOptions>;
  /** Whether the provider has an e-mail endpoint, as GitHub has. Default false. */
  readonly hasEmails?: boolean;
  /** Names of several providers, all on one server. */
  readonly names?: readonly string[];
  readonly app?: SvcOptions;
  /** Whether there is a database. Default: only in production. */
  readonly hasDatabase?: boolean;
  /** Opens the database. Default: SQLite in memory. */
  readonly database?: () => Promise<SiteDatabase>;
  readonly hasSession?: boolean;
  /** Adds to the application before it starts. */
  readonly more?: (app: Svc) => void;
  readonly listen?: boolean;
}

/** Body of a token response. */
export interface Tokens {
  readonly access_token: string;
  readonly token_type: string;
  readonly refresh_token: string;
  readonly expires_in: number;
  readonly scope: string;
}

/** A login that was started. */
export interface BegunVisit {
  readonly response: Response;
  /** Address of the provider's page. */
  readonly page: URL;
  readonly state: string;
}

/** Returns a provider on the fake server. With `issuer` it is an OpenID provider. */
export function fakeProvider(fake: FakeProvider, options: Partial<OAuthProviderOptions> = {}): OAuthProvider {
  return new OAuthProvider({
    name: 'fake',
    clientId: 'client',
    clientSecret: 'client-secret-9f2c',
    allowInsecure: true,
    ...(options.issuer === undefined
      ? {
          authorizeUrl: `${fake.url}/authorize`,
          tokenUrl: `${fake.url}/token`,
          userinfoUrl: `${fake.url}/userinfo`,
        }
      : {}),
    ...options,
  });
}

/** Database of one application, and its tear-down. */
export interface SiteDatabase {
  readonly plugin: DatabasePlugin;
  readonly end?: () => Promise<void>;
}

/** One application with any number of browsers. */
export class LoginSite implements AsyncDisposable {
  /**
   * Opens the databases of all sites in place of SQLite in memory. Then every site has a database, unless its
   * test refuses one.
   */
  static databases: (() => Promise<SiteDatabase>) | undefined;
  readonly #end: (() => Promise<void>) | undefined;
  readonly fake: FakeProvider;
  readonly clock: ManualClock = new ManualClock();
  readonly events: Record<string, unknown>[];
  readonly oauth: OAuthPlugin;
  readonly app: Svc;
  readonly client: TestClient;
  readonly #client: TestClientOptions;
  readonly #others: TestClient[] = [];

  private constructor(fake: FakeProvider, database: SiteDatabase | undefined, options: LoginSiteOptions) {
    const {
      env = 'test',
      plugin = {},
      provider: given = {},
      hasEmails = false,
      names,
      app = {},
      hasSession = false,
      more,
      listen = false,
    } = options;
    const provider = { ...given, ...(hasEmails && { emailsUrl: `${fake.url}/emails` }) };
    this.fake = fake;
    this.#end = database?.end;
    const { logger, events } = collectedLog();
    this.events = events;
    this.app = new Svc({ authSecret: SECRET, logger, env, ...app });
    const from =
      plugin.provider !== undefined
        ? {}
        : names === undefined
          ? { provider: fakeProvider(fake, provider) }
          : { providers: names.map((name) => fakeProvider(fake, { ...provider, name })) };
    this.oauth = new OAuthPlugin({
      ...from,
      onUser: (_provider, info) => `user-${info.subject}`,
      ...(env === 'production' ? { allowedRedirectUris: ['https://app.example/oauth/callback'] } : {}),
      ...plugin,
    });
    if (hasSession) this.app.use(new SessionMiddleware());
    this.app.register(this.oauth);
    if (database !== undefined) this.app.register(database.plugin);
    more?.(this.app);
    this.#client = {
      clock: this.clock,
      env,
      raiseErrors: false,
      baseUrl: env === 'production' ? 'https://app.example' : 'http://localhost',
      ...(listen ? { listen, baseUrl: undefined } : {}),
    };
    this.client = new TestClient(this.app, this.#client);
  }

  static async open(options: LoginSiteOptions = {}): Promise<LoginSite> {
    const fake = await FakeProvider.start();
    const {
      env = 'test',
      database: make = LoginSite.databases,
      hasDatabase = env === 'production' || make !== undefined,
    } = options;
    const database = !hasDatabase
      ? undefined
      : ((await make?.()) ?? { plugin: new DatabasePlugin('sqlite::memory:') });
    try {
      return new LoginSite(fake, database, options);
    } catch (error) {
      await database?.end?.();
      await fake[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Returns another browser. */
  browser(baseUrl?: string): TestClient {
    const client = new TestClient(this.app, {
      ...this.#client,
      ...(baseUrl === undefined ? {} : { baseUrl }),
    });
    this.#others.push(client);
    return client;
  }

  async begin(
    query: Readonly<Record<string, string>> = {},
    {
      client = this.client,
      path = '/oauth/login',
    }: { readonly client?: TestClient; readonly path?: string } = {},
  ): Promise<BegunVisit> {
    const response = await client.get(path, { query });
    assert.equal(response.status, 302, await response.clone().text());
    const page = new URL(response.headers.get('location')!);
    this.fake.nonce = page.searchParams.get('nonce') ?? this.fake.nonce;
    return { response, page, state: page.searchParams.get('state')! };
  }

  /** Opens the callback with these parameters. */
  back(
    query: Readonly<Record<string, string | readonly string[]>>,
    {
      client = this.client,
      path = '/oauth/callback',
    }: { readonly client?: TestClient; readonly path?: string } = {},
  ): Promise<Response> {
    return client.get(path, { query });
  }

  /** Performs a whole login. */
  async login(client: TestClient = this.client): Promise<Tokens> {
    const { state } = await this.begin({}, { client });
    const response = await this.back({ code: 'c-1', state }, { client });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Tokens;
  }

  /** Performs a refresh. The clock moves by itself while the refresh waits. */
  refresh(
    token: string,
    more: Readonly<Record<string, string>> = {},
    client: TestClient = this.client,
  ): Promise<Response> {
    return client.post('/oauth/token', {
      form: { grant_type: 'refresh_token', refresh_token: token, ...more },
    });
  }

  async refreshed(token: string): Promise<Tokens> {
    const response = await this.refresh(token);
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Tokens;
  }

  revoke(form: Readonly<Record<string, string>>, client: TestClient = this.client): Promise<Response> {
    return client.post('/oauth/revoke', { form });
  }

  /** Returns the events of the audit trail, or only those with a name. */
  audited(event?: string): Record<string, unknown>[] {
    return this.events.filter(
      (line) => line['logger'] === 'svc_oauth' && (event === undefined || line['event'] === event),
    );
  }

  async metrics(): Promise<string> {
    return (await this.client.get('/metrics')).text();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of [...this.#others, this.client]) await client.close();
    await this.#end?.();
    await this.fake[Symbol.asyncDispose]();
  }
}

/** Asserts a refusal in the form of OAuth, and returns its body. */
export async function refusedAs(
  response: Response,
  status: number,
  code: string,
): Promise<{ readonly error_description: string; readonly request_id: string }> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  assert.equal(response.headers.get('content-type'), 'application/json');
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(response.headers.get('pragma'), 'no-cache');
  assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
  const body = JSON.parse(text) as Record<string, string>;
  assert.deepEqual(Object.keys(body), ['error', 'error_description', 'request_id']);
  assert.equal(body['error'], code, text);
  assert.match(
    body['error_description']!,
    /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/,
    'the characters of RFC 6749 §5.2',
  );
  assert.equal(body['request_id'], response.headers.get('x-request-id'));
  return body as never;
}

/** Returns the fields `Set-Cookie` by the name of the cookie. */
export function cookiesOf(
  response: Response,
): Map<string, { readonly value: string; readonly attributes: readonly string[] }> {
  return new Map(
    response.headers.getSetCookie().map((field) => {
      const [pair, ...attributes] = field.split('; ');
      const at = pair!.indexOf('=');
      return [pair!.slice(0, at), { value: pair!.slice(at + 1), attributes: attributes.toSorted() }];
    }),
  );
}

/** Returns the claims of a token without verifying it. */
export function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>;
}

export type { TestRequest };

/** Returns the address to which the page in the response to a form goes. Browsers send no Referer there. */
export async function leftFor(response: Response): Promise<URL> {
  const { status, headers } = response;
  assert.deepEqual(
    [status, headers.get('location'), headers.get('referrer-policy')],
    [200, null, 'no-referrer'],
  );
  assert.match(
    headers.get('content-security-policy')!,
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'$/,
  );
  const [, refresh, link] = /http-equiv="refresh" content="0; url=([^"]+)"[^]*<a href="([^"]+)"/.exec(
    await response.text(),
  )!;
  assert.equal(refresh, link);
  return new URL(refresh!.replaceAll('&#38;', '&'));
}
