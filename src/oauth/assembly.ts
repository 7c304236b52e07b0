/** Creates the objects of OAuthPlugin and connects them, once for each application. */
import { SvcError } from '../base/errors.ts';
import { RecordRateLimitStore, MemoryRecordStore } from '../cache/stores.ts';
import { Keyring, authSecrets } from '../crypto/keys.ts';
import { db } from '../db/plugin.ts';
import { DatabaseRecordStore } from '../db/record-store.ts';
import { foreignPage } from '../http/origins.ts';
import { readTrustProxy } from '../http/request/proxy.ts';
import { Arrivals } from '../http/server/arrivals.ts';
import { services } from '../http/state.ts';
import { Audit } from './audit.ts';
import { Authorizations } from './authorization.ts';
import { ClientCodes } from './client-codes.ts';
import { RedirectAllowlist } from './redirects.ts';
import { EndpointGuard } from './guard.ts';
import { limitsOf } from './limits.ts';
import { LinkEndpoints } from './link-endpoints.ts';
import { LoginEndpoints } from './login-endpoints.ts';
import { LogoutEndpoints } from './logout-endpoints.ts';
import { Logins } from './logins.ts';
import { LoginStates } from './login-state.ts';
import { outOfRange } from '../base/options.ts';
import { PROXY_NEEDS, wrongOption } from './plugin-options.ts';
import { StoredProviderTokens } from './provider-tokens.ts';
import { dpopTokenOf } from '../auth/dpop.ts';
import { Proxies } from '../auth/provider/addresses.ts';
import { ProviderClient } from './provider/client.ts';
import { SingleUse } from './single-use.ts';
import { TokenEndpoints } from './token-endpoints.ts';
import { TokenResponses } from './token-responses.ts';
import { AccessTokens, ValidAfterGate, marginOf } from './tokens/access.ts';
import { TokenCookies } from './tokens/cookies.ts';
import { DpopNonces, DPoP } from './tokens/dpop.ts';
import { RefreshTokenCodec } from './tokens/refresh-codec.ts';
import { RefreshTokens } from './tokens/refresh.ts';
import { LiveLogins, ReportedEnds } from './tokens/live-logins.ts';
import { SqlTokenStore } from './tokens/sql-store.ts';
import { MemoryTokenStore } from './tokens/store.ts';
import type { TokenIssuer } from '../auth/auth.ts';
import type { Clock } from '../base/clock.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Config, Env } from '../base/config.ts';
import type { RateLimitStore, RecordStore } from '../cache/stores.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { Database } from '../db/database.ts';
import type { Awaitable, HostLike, HttpRequest } from '../http/contracts.ts';
import type { OwnPages } from '../http/origins.ts';
import type { Logger } from '../observability/log.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { TokenStore } from './tokens/store.ts';

export const PREFIX = '/oauth';
/** Database table of values that can be used only once, such as login states. */
export const USED_TABLE = 'svc_oauth_used';
/** Database table of the tokens that identity providers have issued. */
export const PROVIDER_TOKEN_TABLE = 'svc_oauth_provider_token';
const MAX_RECORDS = 10_000_000;
const HOLD_MS = 25;
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Objects that OAuthPlugin creates for one application. */
export interface Registered extends EndpointDeps {
  readonly log: Logger;
  readonly loginEndpoints: LoginEndpoints;
  readonly tokenEndpoints: TokenEndpoints;
  readonly logouts: LogoutEndpoints;
  /** Undefined unless the option `onLink` is set. */
  readonly links: LinkEndpoints | undefined;
  readonly connect: (provider: OAuthProvider) => ProviderClient;
  readonly issuer: TokenIssuer;
  readonly isPersistent: boolean;
}

export function assemble(
  host: HostLike,
  options: ReadOptions,
  providers: readonly OAuthProvider[],
): Registered {
  const { clock, metrics } = host;
  const log = host.log.child('svc_oauth');
  const proxies = proxiesOf(options);
  const { tracer } = host.get(services);
  const connect = (provider: OAuthProvider): ProviderClient =>
    new ProviderClient(provider, { clock, log, metrics, proxies, tracer });
  const connected = new Map(
    providers.map((provider) => [provider.name, { provider, client: connect(provider) }]),
  );
  const deps = endpointDeps(host, options, providers, connected, log);
  const { dpop, cookies, ownPages, live, gate } = deps;
  const codes = new ClientCodes(deps);
  const links = options.onLink === undefined ? undefined : new LinkEndpoints(deps, options.onLink);
  const allows = (claims: Claims, req: HttpRequest): Awaitable<boolean> => {
    live.noteToken(claims, req);
    return gate?.allows(claims) ?? true;
  };
  const issuer: TokenIssuer = {
    keyId: deps.keys.current.id,
    tokenOf: (req) =>
      dpop !== undefined
        ? dpopTokenOf(req)
        : cookies === undefined || isForeign(req, ownPages)
          ? undefined
          : cookies.accessTokenOf(req),
    accepts:
      dpop === undefined
        ? allows
        : async (claims, req) => (await dpop.accepts(claims, req)) && allows(claims, req),
  };
  if (dpop !== undefined) {
    issuer.challenge = (req, error) => dpop.challengeOf(req, error);
    issuer.fields = () => ({ 'DPoP-Nonce': dpop.nonce });
  }
  return {
    ...deps,
    log,
    loginEndpoints: new LoginEndpoints({ ...deps, codes, links }),
    tokenEndpoints: new TokenEndpoints(deps, options.nativeRedirects.length > 0 ? codes : undefined),
    logouts: new LogoutEndpoints(deps),
    links,
    connect,
    issuer,
    isPersistent: host.has(db),
  };
}

function endpointDeps(
  host: HostLike,
  options: ReadOptions,
  providers: readonly OAuthProvider[],
  connected: ReadonlyMap<string, ConnectedProvider>,
  log: Logger,
): EndpointDeps & { readonly keys: Keyring; readonly gate: ValidAfterGate | undefined } {
  const { clock, env } = host;
  const { config } = host.get(services);
  const secrets = secretsOf(options, config);
  const keys = Keyring.of(secrets);
  const audit = new Audit(log, host.metrics);
  const database = host.has(db) ? (): Database => host.get(db) : undefined;
  const store: TokenStore =
    database === undefined ? new MemoryTokenStore(clock) : new SqlTokenStore(database, clock);
  const gate = options.enforceValidAfter
    ? new ValidAfterGate(store, clock, options.clockSkewMs * 1_000)
    : undefined;
  const live = new LiveLogins({ store, clock, log, gate });
  const ends = new ReportedEnds(store, live);
  const { records } = options;
  const used = new SingleUse(records ?? recordsOf(database, clock, USED_TABLE));
  const codec = new RefreshTokenCodec(keys);
  const access = new AccessTokens({ options, secrets, clock, log });
  const cookies = options.mode === 'cookie' ? new TokenCookies(env, options.accessTtlSeconds) : undefined;
  const arrivals = new Arrivals({ clock });
  const refreshTokens = refreshTokensOf(options, { store, ends, codec, clock, audit, access, arrivals });
  const dpop =
    options.dpop === 'off'
      ? undefined
      : new DPoP({
          isRequired: options.dpop === 'required',
          requiresNonce: options.dpopNonces === 'required',
          nonces: new DpopNonces(keys, clock),
          used,
          clock,
          audit,
        });
  const responses = new TokenResponses({ options, access, cookies, dpop, clock });
  const states = new LoginStates({ used, clock, env, keys, ttlSeconds: options.stateTtlSeconds });
  const loginsDeps = { options, refreshTokens, access, responses, audit, clock, dpop, connected };
  return {
    ...loginsDeps,
    env,
    keys,
    gate,
    live,
    store,
    ends,
    used,
    codec,
    cookies,
    states,
    arrivals,
    guard: new EndpointGuard({
      audit,
      limits: limitsOf(options.limits, limitStoreOf(options, database, clock)),
      clock,
    }),
    authorizations: new Authorizations({
      states,
      allowlists: allowlistsOf(options, providers, env),
      options,
    }),
    logins: new Logins(loginsDeps),
    ownPages: {
      trusted: new Set<string>(),
      allowsSameSite: false,
      knowsScheme: readTrustProxy(config.peek('trustProxy')) !== undefined,
    },
    providerTokens: options.storeProviderTokens
      ? new StoredProviderTokens({
          records: recordsOf(database, clock, PROVIDER_TOKEN_TABLE),
          keys,
          clock,
          connected,
        })
      : undefined,
  };
}

function refreshTokensOf(
  options: ReadOptions,
  deps: Pick<EndpointDeps, 'store' | 'ends' | 'codec' | 'clock' | 'audit' | 'access' | 'arrivals'>,
): RefreshTokens {
  const { access, arrivals, ...others } = deps;
  const clockSkew = options.clockSkewMs * 1_000;
  return new RefreshTokens({
    ...others,
    readSockets: () => arrivals.readSockets(),
    onRefresh: access.checked(options.onRefresh),
    policy: {
      idleTtl: options.refreshIdleTtlSeconds * 1_000_000,
      absoluteTtl: options.refreshAbsoluteTtlSeconds * 1_000_000,
      grace: options.refreshGraceSeconds * 1_000_000,
      clockSkew,
      concurrency: options.concurrency,
      holdMs: HOLD_MS,
      apart: options.enforceValidAfter ? marginOf(clockSkew) : 0,
    },
  });
}

function allowlistsOf(
  { allowedRedirectUris }: ReadOptions,
  providers: readonly OAuthProvider[],
  env: Env,
): ReadonlyMap<string, RedirectAllowlist> {
  const pathsOf = (provider: OAuthProvider): readonly string[] => callbackPathsOf(provider, providers);
  return new Map(
    providers.map((provider) => [
      provider.name,
      new RedirectAllowlist(allowedRedirectUris, {
        env,
        callbackPaths: pathsOf(provider),
        otherPaths: providers.filter((other) => other !== provider).flatMap(pathsOf),
      }),
    ]),
  );
}

/** Returns the callback paths of a provider, the default path first. */
export function callbackPathsOf(
  provider: OAuthProvider,
  providers: readonly OAuthProvider[],
): readonly string[] {
  const own = providers.length > 1 ? [`${PREFIX}/${provider.name}/callback`] : [];
  return provider === providers[0] ? [`${PREFIX}/callback`, ...own] : own;
}

/** Returns the option `authSecret`, or else the secret of the application; both must be equal. */
function secretsOf(options: ReadOptions, config: Config): Secrets {
  const own = options.authSecret;
  if (own === undefined) return authSecrets(config);
  const [shared] = [config.peek('authSecret')].flat();
  if (typeof shared === 'string' && shared !== '' && [own].flat()[0] !== shared)
    throw new SvcError('E_OAUTH_SECRET', []);
  return own;
}

/** Returns the proxies of the option `proxy`, or of the environment if Node.js uses those too. */
function proxiesOf({ proxy }: ReadOptions): Proxies | undefined {
  const read = Proxies.chosen(proxy);
  if (typeof read === 'string') throw wrongOption('proxy', PROXY_NEEDS, `the variable ${read}`);
  return read;
}

/** Returns the store of the rate limits; undefined if each process counts in its own memory. */
function limitStoreOf(
  { limits: { store } }: ReadOptions,
  database: (() => Database) | undefined,
  clock: Clock,
): RateLimitStore | undefined {
  if (store !== 'database') return store;
  if (database === undefined)
    throw outOfRange(
      'OAuthPlugin limits',
      'store',
      'must be omitted, because no DatabasePlugin is registered',
      '"database"',
    );
  return new RecordRateLimitStore(recordsOf(database, clock, USED_TABLE), { clock });
}

/**
 * Returns the record store of a table. It asks for the database at each call, because each start of the
 * application opens a new one. Without a database, the records are in the memory of this process.
 */
function recordsOf(database: (() => Database) | undefined, clock: Clock, table: string): RecordStore {
  const options = { clock, maxRecords: MAX_RECORDS };
  if (database === undefined) return new MemoryRecordStore(options);
  const source = {
    get database(): Database {
      return database();
    },
  };
  return new DatabaseRecordStore(source, { ...options, table });
}

/**
 * Returns whether the access cookie must be ignored, because a page of another origin may have sent the
 * request. SameSite=Lax does not stop requests from other hosts of the same site. Requests that only read
 * data may use the cookie, except for the GET that opens a WebSocket.
 */
function isForeign(req: HttpRequest, ownPages: OwnPages): boolean {
  const isRead = SAFE_METHODS.has(req.method) && req.headers['upgrade'] === undefined;
  return !isRead && foreignPage(req, ownPages) !== undefined;
}
