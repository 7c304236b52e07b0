/**
 * Puts the parts of the plugin together, once for each application.
 */
import { SvcError } from '../base/errors.ts';
import { RecordRateLimitStore, MemoryRecordStore } from '../cache/stores.ts';
import { Keyring, authSecrets } from '../crypto/keys.ts';
import { db } from '../db/plugin.ts';
import { DatabaseRecordStore } from '../db/record-store.ts';
import { foreignPage } from '../http/origins.ts';
import { readTrustProxy } from '../http/request/proxy.ts';
import { services } from '../http/state.ts';
import { Audit } from './audit.ts';
import { Authorizations } from './authorization.ts';
import { ClientCodes } from './client-codes.ts';
import { ClientRedirects, RedirectAllowlist } from './redirects.ts';
import { EndpointGuard } from './guard.ts';
import { limitsOf } from './limits.ts';
import { LinkEndpoints } from './link-endpoints.ts';
import { LoginEndpoints } from './login-endpoints.ts';
import { LogoutEndpoints } from './logout-endpoints.ts';
import { Logins } from './logins.ts';
import { LoginStates } from './login-state.ts';
import { StoredProviderTokens } from './provider-tokens.ts';
import { ProviderClient } from './provider/client.ts';
import { SingleUse } from './single-use.ts';
import { TokenEndpoints } from './token-endpoints.ts';
import { TokenResponses } from './token-responses.ts';
import { AccessTokens, ValidAfterGate, marginOf } from './tokens/access.ts';
import { TokenCookies } from './tokens/cookies.ts';
import { DpopNonces, DPoP } from './tokens/dpop.ts';
import { RefreshTokenCodec } from './tokens/refresh-codec.ts';
import { RefreshTokens } from './tokens/refresh.ts';
import { SqlTokenStore } from './tokens/sql-store.ts';
import { MemoryTokenStore } from './tokens/store.ts';
import type { TokenIssuer } from '../auth/auth.ts';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../base/config.ts';
import type { RateLimitStore, RecordStore } from '../cache/stores.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { Database } from '../db/database.ts';
import type { Host, HttpRequest } from '../http/contracts.ts';
import type { OwnPages } from '../http/origins.ts';
import type { Logger } from '../observability/log.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { TokenStore } from './tokens/store.ts';

/** Path prefix of the routes. */
export const PREFIX = '/oauth';
/** Table of values that can be used only once, such as login states. */
export const USED_TABLE = 'svc_oauth_used';
/** Table of the tokens that identity providers have issued. */
export const PROVIDER_TOKEN_TABLE = 'svc_oauth_provider_token';
const MAX_RECORDS = 10_000_000;
const HOLD_MS = 25;
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Assembles the plugin with these options for an application. */
export function assemble(host: Host, options: ReadOptions, providers: readonly OAuthProvider[]): Registered {
  const { config } = host.get(services);
  const secrets = secretsOf(options, config);
  const ring = Keyring.of(secrets);
  const { clock, env } = host;
  const log = host.log.child('svc_oauth');
  const audit = new Audit(log, host.metrics);
  const isPersistent = host.has(db);
  const store: TokenStore = isPersistent
    ? new SqlTokenStore(() => host.get(db), clock)
    : new MemoryTokenStore();
  const inDatabase = isPersistent ? recordsOf(() => host.get(db), clock, USED_TABLE) : undefined;
  const { records } = options;
  const used = new SingleUse(records !== undefined ? () => records : (inDatabase ?? memoryOf(clock)));
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
    providers.map((provider) => [provider.name, { provider, client: connect(provider) }]),
  );
  const pathsOf = ({ name }: OAuthProvider): readonly string[] => {
    const own = connected.size > 1 ? [`${PREFIX}/${name}/callback`] : [];
    return providers[0]?.name === name ? [`${PREFIX}/callback`, ...own] : own;
  };
  const allowlists = new Map(
    providers.map((provider) => [
      provider.name,
      new RedirectAllowlist(options.allowedRedirectUris, {
        env,
        callbackPaths: pathsOf(provider),
        otherPaths: providers.filter((other) => other !== provider).flatMap(pathsOf),
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
      : new DPoP({
          isRequired: options.dpop === 'required',
          requiresNonce: options.dpopNonces === 'required',
          nonces: new DpopNonces(ring, clock),
          used,
          clock,
          audit,
        });
  const providerTokens = options.storeProviderTokens
    ? new StoredProviderTokens({
        records: isPersistent ? recordsOf(() => host.get(db), clock, PROVIDER_TOKEN_TABLE) : memoryOf(clock),
        keys: ring,
        clock,
        providerOf: (name) => connected.get(name),
      })
    : undefined;
  const limits = limitsOf(options.limits, limitStoreOf(options, inDatabase, clock));
  const guard = new EndpointGuard({ audit, limits, clock });
  const responses = new TokenResponses({ access, cookies, dpop, clock });
  const states = new LoginStates({ used, clock, env, keys: ring, ttlSeconds: options.stateTtlSeconds });
  const authorizations = new Authorizations({
    states,
    allowlistOf: (provider) => allowlists.get(provider)!,
    onLogin: options.onLogin,
  });
  const links =
    options.onLink === undefined
      ? undefined
      : new LinkEndpoints({
          authorizations,
          store,
          guard,
          audit,
          clock,
          clockSkew: options.clockSkewMs * 1_000,
          ownPages,
          onLink: options.onLink,
          onUnlink: options.onUnlink,
          providerTokens,
          isCookieMode: cookies !== undefined,
          afterLogin: options.afterLogin,
        });
  const logins = new Logins({
    refreshTokens,
    access,
    responses,
    audit,
    clock,
    dpop,
    isCookieMode: cookies !== undefined,
    keepSession: options.keepSession,
    keepsAddress: options.keepAddress,
    providers: new Set(connected.keys()),
  });
  const codes = new ClientCodes({
    records: used,
    logins,
    refreshTokens,
    audit,
    dpop,
    issuer: options.issuer,
  });
  const tokenEndpoints = new TokenEndpoints({
    refreshTokens,
    codec,
    responses,
    guard,
    audit,
    clock,
    codes: options.nativeRedirects.length > 0 ? codes : undefined,
    dpop,
    ownPages,
    cookies,
  });
  const loginEndpoints = new LoginEndpoints({
    states,
    authorizations,
    codes,
    clientRedirects: new ClientRedirects(options.nativeRedirects),
    links,
    logins,
    access,
    responses,
    guard,
    onUser: options.onUser!, // the constructor of the plugin requires onUser when there is a provider
    audit,
    afterLogin: options.afterLogin,
    isCookieMode: cookies !== undefined,
    usesDpop: dpop !== undefined,
    clock,
    providerTokens,
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
  if (dpop !== undefined) {
    issuer.challenge = (req, error) => dpop.challengeOf(req, error);
    issuer.fields = () => ({ 'DPoP-Nonce': dpop.nonce });
  }
  return {
    store,
    clock,
    audit,
    loginEndpoints,
    logouts: new LogoutEndpoints({
      store,
      codec,
      refreshTokens,
      guard,
      audit,
      clock,
      used,
      ownPages,
      cookies,
      providerTokens,
      providerOf: (name) => connected.get(name),
      postLogoutRedirectUris: options.postLogoutRedirectUris ?? [],
      afterLogin: options.afterLogin,
      env,
    }),
    logins,
    links,
    providerTokens,
    tokenEndpoints,
    connected,
    connect,
    gate,
    issuer,
    isPersistent,
    log,
  };
}

/**
 * Returns the secret of the plugin, or else that of the application. If both are given, they must be equal.
 */
function secretsOf(options: ReadOptions, config: Config): Secrets {
  const own = options.authSecret;
  if (own === undefined) return authSecrets(config);
  const [shared] = [config.peek('authSecret')].flat();
  if (typeof shared === 'string' && shared !== '' && [own].flat()[0] !== shared)
    throw new SvcError('E_OAUTH_SECRET', []);
  return own;
}

/**
 * Returns the store of the rate limits; undefined for the memory of each process.
 * @throws SvcError `E_OPTION_RANGE` for `database` without a DatabasePlugin
 */
function limitStoreOf(
  { limits: { store } }: ReadOptions,
  records: (() => RecordStore) | undefined,
  clock: Clock,
): RateLimitStore | undefined {
  if (store !== 'database') return store;
  if (records === undefined)
    throw new SvcError('E_OPTION_RANGE', [
      'OAuthPlugin limits',
      'store',
      'must be omitted, because no DatabasePlugin is registered',
      '"database"',
    ]);
  return {
    take: (key, rule, cost) => new RecordRateLimitStore(records(), { clock }).take(key, rule, cost),
  };
}

/**
 * Returns a function for the record store in the database. The database object changes each time the
 * application starts.
 */
function recordsOf(database: () => Database, clock: Clock, table: string): () => RecordStore {
  let known: { readonly database: Database; readonly records: RecordStore } | undefined;
  return () => {
    const current = database();
    if (known?.database !== current)
      known = {
        database: current,
        records: new DatabaseRecordStore(current, { table, clock, maxRecords: MAX_RECORDS }),
      };
    return known.records;
  };
}

/** Returns a function for the record store in the memory of this process. */
function memoryOf(clock: Clock): () => RecordStore {
  const records = new MemoryRecordStore({ clock, maxRecords: MAX_RECORDS });
  return () => records;
}

/** The parts of a registered plugin. */
export interface Registered {
  readonly store: TokenStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly audit: Audit;
  readonly loginEndpoints: LoginEndpoints;
  readonly logouts: LogoutEndpoints;
  readonly logins: Logins;
  /** Defined with the option `onLink`. */
  readonly links: LinkEndpoints | undefined;
  readonly providerTokens: StoredProviderTokens | undefined;
  readonly tokenEndpoints: TokenEndpoints;
  readonly connected: ReadonlyMap<string, ConnectedProvider>;
  readonly connect: (provider: OAuthProvider) => ProviderClient;
  readonly gate: ValidAfterGate | undefined;
  readonly issuer: TokenIssuer;
  readonly isPersistent: boolean;
}

/**
 * Whether to ignore the access cookie, because a page of another origin may have sent the request.
 * SameSite=Lax covers other sites. This test covers sibling hosts, and browsers without SameSite. A WebSocket
 * opens by GET, but counts as a write.
 */
function isForeign(req: HttpRequest, ownPages: OwnPages): boolean {
  const isRead = SAFE_METHODS.has(req.method) && req.headers['upgrade'] === undefined;
  return !isRead && foreignPage(req, ownPages) !== undefined;
}
