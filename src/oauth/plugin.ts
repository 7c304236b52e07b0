/**
 * The plugin: options read, parts put together, routes declared. What happens at the routes is endpoints.ts.
 *
 *   GET /oauth/login   GET|POST /oauth/callback   POST /oauth/token   POST /oauth/revoke
 *   with several providers also GET /oauth/{provider}/login and GET|POST /oauth/{provider}/callback
 */
import { randomInt } from 'node:crypto';
import { NotFound, SvcError } from '../base/errors.ts';
import { Keyring, authSecrets } from '../crypto/keys.ts';
import { tokenIssuer } from '../auth/auth.ts';
import { db, durability } from '../db/plugin.ts';
import { readTrustProxy } from '../http/request/proxy.ts';
import { foreignPage } from '../http/origins.ts';
import { services } from '../http/state.ts';
import { AccessTokens } from './tokens/access.ts';
import { OAuthAnswers, answering } from './answers.ts';
import { Audit } from './audit.ts';
import { describeEndpoint } from './document.ts';
import { DPoP } from './tokens/dpop.ts';
import { Endpoints } from './endpoints.ts';
import { FailurePages } from './failure-page.ts';
import { LoginStates } from './login-state.ts';
import { readPluginOptions } from './plugin-options.ts';
import { rulesOf } from './plugin-rules.ts';
import { ProviderClient } from './provider/client.ts';
import { OAuthProvider } from './provider/presets.ts';
import { RedirectAllowlist } from './redirects.ts';
import { RefreshTokenCodec } from './tokens/refresh-codec.ts';
import { RefreshTokens } from './tokens/refresh.ts';
import { TokenCookies } from './tokens/cookies.ts';
import { MemoryTokenStore } from './tokens/store.ts';
import { OAUTH_TABLES, SqlTokenStore } from './tokens/sql-store.ts';
import { ValidAfterGate, marginOf } from './tokens/valid-after.ts';
import type { TokenIssuer } from '../auth/auth.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { Logger } from '../observability/log.ts';
import type { Awaitable, Host, HttpRequest, Plugin } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { OwnPages } from '../http/origins.ts';
import type { EndpointName } from './document.ts';
import type { ConnectedProvider } from './endpoints.ts';
import type { OAuthPluginOptions, ReadOptions } from './plugin-options.ts';
import type { LoginRow, TokenStore } from './tokens/store.ts';

/** A login as its owner may see it. */
export interface SessionInfo {
  readonly id: string;
  readonly provider: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date;
  readonly userAgent: string | null;
  readonly ip: string | null;
  /** Whether it is the one of the access token whose claim `sid` was given. */
  readonly isCurrent: boolean;
}

const PREFIX = '/oauth';
const HOLD_MS = 25;
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);
const CLEAN_UP_MS = 600_000;
const CLEAN_UP_BATCH = 1_000;
const ROUTE = {
  public: 'people log in here',
  mcp: false,
  tags: ['oauth'],
  meta: { csrf: false, idempotency: false, rateLimit: 'own' },
} as const; // they look at where a request comes from, and whether it comes again, themselves

/** Login through identity providers; see the README of this folder. */
export class OAuthPlugin implements Plugin {
  readonly name = 'oauth';
  readonly after: readonly string[] = ['database'];
  readonly secrets: readonly string[] | undefined;
  readonly #options: ReadOptions;
  readonly #providers: readonly OAuthProvider[];
  #registered: Registered | undefined;
  #timer: Disposable | undefined;
  /** The clean-up that runs. */
  #cleaning: Promise<unknown> | undefined;
  #isStopped = false;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_OAUTH_PROVIDERS` */
  constructor(options: OAuthPluginOptions) {
    this.#options = readPluginOptions(options);
    const { provider, providers } = this.#options;
    if ((provider === undefined) === (providers === undefined))
      throw new SvcError('E_OAUTH_PROVIDERS', ['give either provider or providers']);
    this.#providers = provider === undefined ? [...providers!] : [provider];
    if (this.#providers.length === 0 || !this.#providers.every((one) => one instanceof OAuthProvider))
      throw new SvcError('E_OAUTH_PROVIDERS', [
        'each is made by githubProvider(), googleProvider() or new OAuthProvider()',
      ]);
    if (new Set(this.#providers.map((one) => one.name)).size < this.#providers.length)
      throw new SvcError('E_OAUTH_PROVIDERS', ['two have the same name']);
    if (this.#options.onUser === undefined)
      throw new SvcError('E_OPTION_RANGE', [
        'OAuthPlugin',
        'onUser',
        'a function (provider, info) => subject',
        'none',
      ]);
    if (this.#options.authSecret === undefined) this.secrets = ['authSecret'];
  }

  /** Ends every login of a subject: after a change of password, or a breach. Answers how many there were. */
  async revokeAll(sub: string): Promise<number> {
    const { store, clock, gate, audit } = this.#use();
    const now = clock.nowMicros();
    const count = await store.revokeAll(sub, now);
    gate?.remember(sub, now);
    audit.allRevoked(sub, count);
    return count;
  }

  /** The logins of a subject that are not over, the latest used first. `currentId` is the claim `sid` of whoever asks. */
  async listSessions(
    sub: string,
    { currentId }: { readonly currentId?: string | undefined } = {},
  ): Promise<SessionInfo[]> {
    const { store, clock } = this.#use();
    return (await store.listLogins(sub, clock.nowMicros())).map((row) => sessionOf(row, currentId));
  }

  /** Ends one login of a subject. False when there is none of that id, or it is somebody else's. */
  async revokeSession(sub: string, id: string): Promise<boolean> {
    const { store, clock, audit } = this.#use();
    const isEnded = await store.revokeOf(sub, id, clock.nowMicros());
    if (isEnded) audit.tokenRevoked(undefined, id, 'user', sub);
    return isEnded;
  }

  /**
   * Logs out whoever has sent this request, for a route of the application: ends the login of the refresh cookie (cookie mode), takes
   * the cookies of the plugin out of the browser by `response`, and destroys `req.session` where `SessionMiddleware` is in use. Answers
   * whether a login was ended; the rest is done in any case. In JSON mode there is no cookie: `revokeSession(me.sub, me.sid)` ends the
   * login of an access token. Who may call the route is its own to see to: POST, behind `CSRFMiddleware`.
   *
   * @throws OAuthError `temporarily_unavailable` when the database does not answer; nothing has been changed then
   */
  async logout(req: HttpRequest, response: HttpResponse): Promise<boolean> {
    return this.#use().endpoints.logout(req, response);
  }

  /** Called by the application. */
  register(host: Host): void {
    const parts = (this.#registered = this.#assemble(host));
    const { endpoints, connected } = parts;
    host.use(
      new OAuthAnswers(
        PREFIX,
        this.#options.mode === 'cookie'
          ? new FailurePages(PREFIX, this.#options.errorPath, this.#options.allowedRedirectUris)
          : undefined,
      ),
      'outside',
    );
    const route = (
      path: string,
      methods: readonly ('GET' | 'POST')[],
      run: (req: HttpRequest) => Awaitable<HttpResponse>,
    ): void => {
      for (const method of methods) {
        const { meta, ...texts } = describeEndpoint(
          path.slice(path.lastIndexOf('/') + 1) as EndpointName,
          method,
          this.#options,
        ); // each ends in its name
        host.routes.route(
          PREFIX + path,
          [method],
          { ...ROUTE, ...texts, meta: { ...ROUTE.meta, ...meta } },
          answering(run),
        );
      }
    };
    const [first] = [...connected.values()] as [ConnectedProvider]; // there is one at least
    route('/login', ['GET'], (req) => endpoints.login(req, first));
    route('/callback', ['GET', 'POST'], (req) => endpoints.callback(req, first));
    route('/token', ['POST'], (req) => endpoints.token(req));
    route('/revoke', ['POST'], (req) => endpoints.revoke(req));
    if (connected.size > 1) {
      const named = (req: HttpRequest): ConnectedProvider => {
        const found = connected.get(String(req.pathParams['provider']));
        if (found === undefined) throw new NotFound();
        return found;
      };
      route('/{provider}/login', ['GET'], (req) => endpoints.login(req, named(req)));
      route('/{provider}/callback', ['GET', 'POST'], (req) => endpoints.callback(req, named(req)));
    }
    host.migration('oauth_logins', OAUTH_TABLES);
    if (parts.hasIssuer) host.provide(tokenIssuer, () => parts.issuer);
    for (const rule of rulesOf(this.#options, {
      env: host.env,
      storage: parts.isPersistent ? host.get(durability) : undefined,
    }))
      host.rule(rule);
    if (!parts.isPersistent && host.env !== 'production')
      parts.log.warn('logins_in_memory', { remedy: 'Register a DatabasePlugin to keep them' });
  }

  async startup(signal: AbortSignal): Promise<void> {
    const { connected, connect } = this.#use();
    if (this.#isStopped) for (const one of connected.values()) one.client = connect(one.provider); // those of before are closed
    this.#isStopped = false;
    for (const { client } of connected.values()) await client.start(signal);
    this.#scheduleCleanUp();
  }

  async shutdown(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.[Symbol.dispose]();
    for (const { client } of this.#use().connected.values()) client.close();
    await this.#cleaning; // the database closes next
  }

  #use(): Registered {
    if (this.#registered === undefined) throw new SvcError('E_OAUTH_UNREGISTERED', []);
    return this.#registered;
  }

  #assemble(host: Host): Registered {
    const options = this.#options;
    const { config } = host.get(services);
    const secrets = this.#secrets(config);
    const ring = Keyring.of(secrets);
    const { clock, env } = host;
    const log = host.log.child('svc_oauth');
    const audit = new Audit(log, host.metrics);
    const isPersistent = host.has(db);
    const store: TokenStore = isPersistent
      ? new SqlTokenStore(() => host.get(db), clock)
      : new MemoryTokenStore();
    const codec = new RefreshTokenCodec(ring);
    const access = new AccessTokens({
      secrets,
      clock,
      log,
      ttlSeconds: options.accessTtlSeconds,
      issuer: options.issuer,
      audience: options.audience,
      scopes: options.scopes,
      isForCookies: options.mode === 'cookie',
      isExact: options.enforceValidAfter,
    });
    const cookies = options.mode === 'cookie' ? new TokenCookies(env, options.accessTtlSeconds) : undefined;
    const refreshTokens = new RefreshTokens({
      store,
      codec,
      clock,
      audit,
      onRefresh: access.checked(options.onRefresh),
      policy: {
        idleTtl: options.refreshIdleTtlSeconds * 1_000_000,
        absoluteTtl: options.refreshAbsoluteTtlSeconds * 1_000_000,
        grace: options.refreshGraceSeconds * 1_000_000,
        clockSkew: options.clockSkewMs * 1_000,
        concurrency: options.concurrency,
        holdMs: HOLD_MS,
        apart: options.enforceValidAfter ? marginOf(options.clockSkewMs * 1_000) : 0,
      },
    });
    const connect = (provider: OAuthProvider): ProviderClient =>
      new ProviderClient(provider, { clock, log, metrics: host.metrics });
    const connected = new Map(
      this.#providers.map((provider) => [provider.name, { provider, client: connect(provider) }]),
    );
    const allowlists = new Map(
      this.#providers.map(({ name }, index) => [
        name,
        new RedirectAllowlist(options.allowedRedirectUris, {
          env,
          callbackPaths:
            index === 0
              ? [`${PREFIX}/callback`, ...(connected.size > 1 ? [`${PREFIX}/${name}/callback`] : [])]
              : [`${PREFIX}/${name}/callback`],
        }),
      ]),
    );
    const ownPages = {
      trusted: new Set<string>(),
      allowsSameSite: false,
      knowsScheme: readTrustProxy(config.peek('trustProxy')) !== undefined,
    };
    const dpop =
      options.dpop === 'off'
        ? undefined
        : new DPoP({ isRequired: options.dpop === 'required', clock, audit });
    const endpoints = new Endpoints({
      states: new LoginStates({
        store,
        clock,
        env,
        keys: ring.derive('svc-oauth-pkce'),
        ttlSeconds: options.stateTtlSeconds,
      }),
      allowlistOf: (provider) => allowlists.get(provider)!,
      refreshTokens,
      codec,
      audit,
      clock,
      cookies,
      dpop,
      access,
      onUser: options.onUser!,
      limits: options.limits,
      afterLogin: options.afterLogin,
      keepSession: options.keepSession,
      keepsAddress: options.keepAddress,
      ownPages, // there is an onUser: the constructor has seen to it
    });
    const gate = options.enforceValidAfter
      ? new ValidAfterGate(store, clock, options.clockSkewMs * 1_000)
      : undefined;
    const issuer: TokenIssuer = {
      keyId: ring.current.id,
      tokenOf: (req) =>
        dpop !== undefined
          ? dpop.tokenOf(req)
          : cookies === undefined || isForeign(req, ownPages)
            ? undefined
            : cookies.accessTokenOf(req),
      accepts:
        dpop === undefined
          ? (claims) => gate?.allows(claims) ?? true
          : async (claims, req) => (await dpop.accepts(claims, req)) && (gate?.allows(claims) ?? true),
    };
    if (dpop !== undefined) issuer.challenge = (req, error) => dpop.challengeOf(req, error);
    return {
      store,
      clock,
      audit,
      endpoints,
      connected,
      connect,
      gate,
      hasIssuer: gate !== undefined || cookies !== undefined || dpop !== undefined,
      issuer,
      isPersistent,
      log,
    };
  }

  /** The plugin's own, else the application's; both, if they say the same. */
  #secrets(config: Config): Secrets {
    const own = this.#options.authSecret;
    if (own === undefined) return authSecrets(config);
    const [shared] = [config.peek('authSecret')].flat();
    if (typeof shared === 'string' && shared !== '' && [own].flat()[0] !== shared)
      throw new SvcError('E_OAUTH_SECRET', []);
    return own;
  }

  /** Every ten minutes, more or less: several processes should not all come at once. */
  #scheduleCleanUp(): void {
    const { clock, log } = this.#use();
    this.#timer = clock.after(CLEAN_UP_MS / 2 + randomInt(CLEAN_UP_MS), () => {
      this.#cleaning = this.cleanUp()
        .catch((error: unknown) => log.error('clean_up_failed', error))
        .finally(() => {
          if (!this.#isStopped) this.#scheduleCleanUp();
        });
    });
  }

  /** Removes login states and logins that are over, in batches. Done by itself every ten minutes. Answers how many rows went. */
  async cleanUp(): Promise<number> {
    const { store, clock } = this.#use();
    let removed = 0;
    for (;;) {
      const count = this.#isStopped ? 0 : await store.cleanUp(clock.nowMicros(), CLEAN_UP_BATCH);
      removed += count;
      if (count < CLEAN_UP_BATCH) return removed;
    }
  }
}

/** What register() has put together. */
interface Registered {
  readonly store: TokenStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly audit: Audit;
  readonly endpoints: Endpoints;
  readonly connected: ReadonlyMap<string, ConnectedProvider>;
  readonly connect: (provider: OAuthProvider) => ProviderClient;
  readonly gate: ValidAfterGate | undefined;
  /** Whether `issuer` has anything to say. */
  readonly hasIssuer: boolean;
  readonly issuer: TokenIssuer;
  readonly isPersistent: boolean;
}

/**
 * Whether the access cookie does not count, since a page of another origin may have made the browser send it. SameSite=Lax keeps it
 * from other sites; this is for sibling hosts, and for browsers without that. A WebSocket is opened by GET, and is no reading.
 */
function isForeign(req: HttpRequest, ownPages: OwnPages): boolean {
  const isRead = SAFE_METHODS.has(req.method) && req.headers['upgrade'] === undefined;
  return !isRead && foreignPage(req, ownPages) !== undefined;
}

function sessionOf(row: LoginRow, currentId: string | undefined): SessionInfo {
  return {
    id: row.id,
    provider: row.provider,
    createdAt: new Date(row.createdAt / 1_000),
    lastUsedAt: new Date(row.lastUsedAt / 1_000),
    userAgent: row.userAgent,
    ip: row.ip,
    isCurrent: row.id === currentId,
  };
}
