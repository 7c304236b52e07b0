/** Options of OAuthPlugin with their defaults, and the hooks of the application. */
import {
  bool,
  given,
  int,
  isFunction,
  isObject,
  isTextList,
  oneOf,
  readOptions,
  text,
  outOfRange,
} from '../base/options.ts';
import { localPath } from '../http/path.ts';
import { isUnusable, issueOfClientRedirect } from './redirects.ts';
import { readLimits } from './limits.ts';
import { issueOfProxy } from '../auth/provider/addresses.ts';
import type { OptionKind } from '../base/options.ts';
import type { SvcError } from '../base/errors.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { RecordStore } from '../cache/stores.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { OAuthLimits, ReadLimits } from './limits.ts';
import type { OAuthProvider, UserInfo } from './provider/presets.ts';
import type { RefreshVerdict, RefreshedLogin } from './tokens/refresh.ts';
import type { ProviderTokens } from './provider-tokens.ts';

/** Options of {@link OAuthPlugin}. */
export interface OAuthPluginOptions {
  /** Secret for keys and tokens. Default: the application's secret. If both are given, they must be equal. */
  readonly authSecret?: Secrets | undefined;
  /**
   * The identity provider. If there are several, use `providers`. Without a provider, the application starts
   * logins by `issue()`.
   */
  readonly provider?: OAuthProvider | undefined;
  /** Several identity providers with different names. `/oauth/login` uses the first. */
  readonly providers?: readonly OAuthProvider[] | undefined;
  /**
   * Finds or creates the user after a login at a provider, and returns the user's id (`sub`). Required with a
   * provider. The id is a string: for a number or bigint of a database, return `String(id)`. To refuse a login,
   * it returns undefined or null, or throws an exception with a 4xx status. The response is then 403
   * `access_denied`, with the text of the exception.
   */
  readonly onUser?: OnUser | undefined;
  /**
   * Called when a login or link starts. Returns parameters to add to the request, and scopes that replace the
   * scopes of the provider for this login.
   */
  readonly onLogin?: OnLogin | undefined;
  /** Adds an identity at a provider to a logged-in user. Enables `POST /oauth/{provider}/link`. */
  readonly onLink?: OnLink | undefined;
  /**
   * Removes an identity at a provider from a user. Enables `POST /oauth/{provider}/unlink`. Requires
   * `onLink`.
   */
  readonly onUnlink?: OnUnlink | undefined;
  /**
   * Called at every refresh. If it returns `false`, the login ends. It can return scopes and claims for the
   * new access token.
   */
  readonly onRefresh?: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
  /**
   * Allowed redirect URIs, compared byte for byte. They must be https in production. In cookie mode each ends in the
   * callback path of a provider, which is fixed. Default outside production: the callback of this server on the
   * loopback interface.
   */
  readonly allowedRedirectUris?: readonly string[] | undefined;
  /**
   * Allows the redirect URIs of native applications in production: http on 127.0.0.1 or [::1] (RFC 8252
   * §7.3). Default false.
   */
  readonly allowLoopbackRedirects?: boolean | undefined;
  /**
   * Redirect URIs of native clients and single-page applications, which receive one-time codes (RFC 8252 §7).
   * Not allowed in cookie mode. Default none.
   */
  readonly nativeRedirects?: readonly string[] | undefined;
  /**
   * Enables the route `/oauth/logout`. Lists the URLs to which the provider may redirect the browser after
   * the logout. With an empty list, the browser stays at the provider; outside production, it returns to
   * `afterLogin`. Default: no such route.
   */
  readonly postLogoutRedirectUris?: readonly string[] | undefined;
  /** Enables `POST /oauth/{provider}/backchannel-logout`, by which providers end logins. Default false. */
  readonly backchannelLogout?: boolean | undefined;
  /**
   * `json`: the callback returns the tokens. `cookie`: the tokens are in cookies that scripts cannot read.
   * Default `json`.
   */
  readonly mode?: 'json' | 'cookie' | undefined;
  /** In cookie mode: local path to open after a login without `return_to`. Default `/`. */
  readonly afterLogin?: string | undefined;
  /**
   * In cookie mode: local path outside `/oauth` to open after a failed login, or if a user must log in again
   * to link or unlink an account, with `error` and `request_id` in the query. Default: the plugin's error page.
   */
  readonly errorPath?: string | undefined;
  /** Scopes of access tokens, unless `onUser` returns others. Default none. */
  readonly scopes?: readonly string[] | undefined;
  /** Lifetime of access tokens in seconds, 1 ... 86_400. Default 900. */
  readonly accessTtlSeconds?: number | undefined;
  /** Time without a refresh after which a login ends, 1 second ... 1 year. Default 14 days. */
  readonly refreshIdleTtlSeconds?: number | undefined;
  /** Maximum lifetime of a login, 1 second ... 1 year. Default 90 days. */
  readonly refreshAbsoluteTtlSeconds?: number | undefined;
  /** Time limit in seconds for the user to log in at the provider, 30 ... 3_600. Default 600. */
  readonly stateTtlSeconds?: number | undefined;
  /**
   * Time in seconds, 0 ... 60, in which a used refresh token still gives the same new tokens. So a client can
   * repeat a refresh whose response was lost. Set it for several processes. Default 0, in cookie mode 10.
   */
  readonly refreshGraceSeconds?: number | undefined;
  /**
   * Maximum difference between the clocks of several hosts in milliseconds, 0 ... 5_000. It matters for
   * expiry and for `revokeAll()`. Overlapping refreshes and the grace time use the clock of the database.
   * Default 0.
   */
  readonly clockSkewMs?: number | undefined;
  /**
   * Handling of overlapping refreshes with one refresh token. With `coalesce`, all of them get the same new
   * tokens; with `strict`, only one succeeds. Default `coalesce`.
   */
  readonly concurrency?: 'coalesce' | 'strict' | undefined;
  /**
   * DPoP: binds tokens to a key of the client (RFC 9449). With `optional`, tokens are bound if the client
   * sends a DPoP proof. With `required`, a refresh without a proof is refused. Not allowed in cookie mode.
   * Default `off`.
   */
  readonly dpop?: 'off' | 'optional' | 'required' | undefined;
  /**
   * Server nonces in DPoP proofs (RFC 9449 §8). With `offered`, responses contain a nonce, which proofs may
   * use. With `required`, proofs without a nonce are refused. Default `offered`.
   */
  readonly dpopNonces?: 'offered' | 'required' | undefined;
  /**
   * Refuses access tokens that were issued before `revokeAll()` was called for their user. Requires one
   * look-up for each user every 5 seconds. Default false.
   */
  readonly enforceValidAfter?: boolean | undefined;
  /** Rate limits of the endpoints. */
  readonly limits?: OAuthLimits | undefined;
  /**
   * Store of values that can be used only once: login states, DPoP proofs, codes. All processes must share
   * it. Default: the application's database; without one, the memory of the process.
   */
  readonly records?: RecordStore | undefined;
  /** Stores the tokens of the providers in encrypted form, for `providerToken()`. Default false. */
  readonly storeProviderTokens?: boolean | undefined;
  /**
   * Proxy for the calls to the providers: `http://` or `https://`, host and port, also with user name and
   * password. Read it from an environment variable. Default: with `NODE_USE_ENV_PROXY=1`, the variables
   * `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; otherwise none.
   */
  readonly proxy?: string | undefined;
  /** Claim `iss` of access tokens. Default none. */
  readonly issuer?: string | undefined;
  /** Claim `aud` of access tokens. Default none. */
  readonly audience?: string | undefined;
  /**
   * Maximum age of a login in seconds, 60 ... 31_536_000, with which accounts may be linked and unlinked. A
   * user with an older login must log in again. With `false`, the age does not matter. Default 86_400.
   */
  readonly freshSeconds?: number | false | undefined;
  /**
   * Keys of session values that are kept at a login. All other values are removed. A login removes all values if
   * the session has another user. Default none.
   */
  readonly keepSession?: readonly string[] | undefined;
  /** Whether the client's address is stored with each login. Default true. */
  readonly keepAddress?: boolean | undefined;
}

export const PROXY_NEEDS = 'must be a URL such as http://proxy.example:3128';
const YEAR_SECONDS = 31_536_000;
const DAY_SECONDS = 86_400;
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export function isScopes(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((scope) => typeof scope === 'string' && SCOPE.test(scope));
}

/** Defines an option that is a list, by default empty. */
function list(needs: string, accepts: (value: unknown) => boolean): OptionKind<readonly string[]> {
  return { fallback: [], needs, accepts };
}

/** Names of options without a default value. They may be undefined. */
type Undefaulted =
  | 'authSecret'
  | 'provider'
  | 'providers'
  | 'onUser'
  | 'onLogin'
  | 'onLink'
  | 'onUnlink'
  | 'onRefresh'
  | 'postLogoutRedirectUris'
  | 'errorPath'
  | 'records'
  | 'proxy'
  | 'issuer'
  | 'audience';

export type ReadOptions = {
  readonly [Name in Exclude<keyof OAuthPluginOptions, 'limits'>]-?: Name extends Undefaulted
    ? OAuthPluginOptions[Name]
    : NonNullable<OAuthPluginOptions[Name]>;
} & { readonly limits: ReadLimits };

export function wrongOption(option: string, needs: string, found: string): SvcError {
  return outOfRange('OAuthPlugin', option, needs, found);
}

export function readPluginOptions(options: OAuthPluginOptions): ReadOptions {
  const seconds = (fallback: number): ReturnType<typeof int> => int(fallback, 1, YEAR_SECONDS);
  const { limits, refreshGraceSeconds, nativeRedirects, ...read } = readOptions('OAuthPlugin', options, {
    authSecret: given<Secrets>(
      'a secret or a list of them',
      (value) => typeof value === 'string' || isTextList(value),
    ),
    provider: given<OAuthProvider>('a provider', isObject),
    providers: given<readonly OAuthProvider[]>('a list of providers', Array.isArray),
    onUser: given<OnUser>('a function (provider, info) that returns the subject', isFunction),
    onLogin: given<OnLogin>('a function (provider, req)', isFunction),
    onLink: given<OnLink>('a function (sub, provider, info)', isFunction),
    onUnlink: given<OnUnlink>('a function (sub, provider, subject)', isFunction),
    onRefresh: given<NonNullable<OAuthPluginOptions['onRefresh']>>('a function', isFunction),
    allowedRedirectUris: list(
      'a list of URLs, each with "//" behind its scheme and no port outside 1 to 65535',
      (value) => isTextList(value) && !value.some(isUnusable),
    ),
    allowLoopbackRedirects: bool(false),
    postLogoutRedirectUris: given<readonly string[]>(
      'a list of URLs, each with "//" behind its scheme and no port outside 1 to 65535',
      (value) =>
        isTextList(value) &&
        value.every((url) => /^https?:\/\/[^\s#\\]+$/.test(url) && URL.canParse(url) && !isUnusable(url)),
    ),
    backchannelLogout: bool(false),
    nativeRedirects: list(
      'a list of addresses',
      (value) => isTextList(value) && value.every((entry) => entry !== ''),
    ),
    mode: oneOf(['json', 'cookie'], 'json'),
    afterLogin: {
      ...given<string>('a local path', (value) => localPath(value) !== undefined),
      fallback: '/',
    },
    errorPath: given<string>(
      'a local path outside /oauth',
      (value) => localPath(value) !== undefined && !/^\/oauth(?:\/|$)/.test(value as string),
    ),
    scopes: list('a list of texts without spaces', isScopes),
    accessTtlSeconds: int(900, 1, DAY_SECONDS),
    refreshIdleTtlSeconds: seconds(14 * DAY_SECONDS),
    refreshAbsoluteTtlSeconds: seconds(90 * DAY_SECONDS),
    stateTtlSeconds: int(600, 30, 3_600),
    refreshGraceSeconds: given<number>('an integer 0 … 60', int(0, 0, 60).accepts),
    clockSkewMs: int(0, 0, 5_000),
    concurrency: oneOf(['coalesce', 'strict'], 'coalesce'),
    dpop: oneOf(['off', 'optional', 'required'], 'off'),
    dpopNonces: oneOf(['offered', 'required'], 'offered'),
    enforceValidAfter: bool(false),
    limits: given<OAuthLimits>('an object', isObject),
    records: given<RecordStore>(
      'a RecordStore',
      (value) => typeof (value as Partial<RecordStore> | null)?.add === 'function',
    ),
    storeProviderTokens: bool(false),
    // checked below, so that no error contains the password of the proxy
    proxy: given<string>('a URL', () => true),
    issuer: text(),
    audience: text(),
    freshSeconds: {
      fallback: DAY_SECONDS as number | false,
      needs: `false or an integer 60 … ${YEAR_SECONDS}`,
      accepts: (value) => value === false || int(0, 60, YEAR_SECONDS).accepts(value),
    },
    keepSession: list('a list of names', isTextList),
    keepAddress: bool(true),
  });
  nativeRedirects.forEach((entry, index) => {
    const problem = issueOfClientRedirect(entry);
    if (problem !== undefined)
      throw wrongOption(
        'nativeRedirects',
        'must be redirect URIs of native clients (RFC 8252 §7)',
        `a list whose entry ${index + 1} ${problem}`,
      );
  });
  const proxyIssue = read.proxy === undefined ? undefined : issueOfProxy(read.proxy);
  if (proxyIssue !== undefined) throw wrongOption('proxy', PROXY_NEEDS, `a value that ${proxyIssue}`);
  if (nativeRedirects.length > 0 && read.mode === 'cookie')
    throw wrongOption(
      'nativeRedirects',
      'must be omitted in cookie mode: native clients have no cookies to refresh with',
      'a list',
    );
  if (read.onUnlink !== undefined && read.onLink === undefined)
    throw wrongOption('onLink', 'must be a function, because onUnlink is set', 'none');
  if (read.mode === 'cookie' && read.dpop !== 'off')
    throw wrongOption(
      'dpop',
      'must be "off" in cookie mode: scripts cannot read the tokens that a proof needs',
      read.dpop,
    );
  return {
    ...read,
    nativeRedirects: [...nativeRedirects],
    // in cookie mode, a response is lost if the user leaves the page, so a repeated refresh must succeed
    refreshGraceSeconds: refreshGraceSeconds ?? (read.mode === 'cookie' ? 10 : 0),
    limits: readLimits(limits ?? {}),
  };
}

/**
 * Result of `onUser`: the application's id of the user (`sub`), alone or with scopes and claims. The id is a
 * string, such as `String(id)` of a bigint. Undefined or null refuses the login.
 */
export type UserAnswer =
  | string
  | null
  | undefined
  | {
      readonly sub: string;
      /** Scopes of the access tokens. Default: the option `scopes` of the plugin. */
      readonly scopes?: readonly string[] | undefined;
      /** Additional claims of the access tokens, for example `roles`. */
      readonly claims?: Readonly<Record<string, unknown>> | undefined;
    };

/** Third argument of `onUser`, and fourth argument of `onLink`. */
export interface OnUserContext {
  /** Tokens of the provider, for calls to its API. They are secret. */
  readonly tokens: ProviderTokens;
  /** The request of the callback. */
  readonly req: HttpRequest;
}

/** Function that finds or creates the user of an identity. */
export type OnUser = (provider: string, info: UserInfo, context: OnUserContext) => Awaitable<UserAnswer>;

/**
 * Function that adds an identity to a user. If the identity belongs to another user, it returns `false` or
 * throws an exception with a 4xx status.
 */
export type OnLink = (
  sub: string,
  provider: string,
  info: UserInfo,
  context: OnUserContext,
) => Awaitable<boolean | void>;

/**
 * Function that removes the identity (`provider`, `subject`) from a user. If the user could not log in
 * afterwards, or the identity is not the user's, it returns `false` or throws an exception with a 4xx status.
 *
 * `subject` comes from the request, so remove only an identity of `sub`. It is undefined if the request names
 * none, and the plugin knows no identity of the user at this provider: then remove all of them.
 */
export type OnUnlink = (
  sub: string,
  provider: string,
  subject: string | undefined,
) => Awaitable<boolean | void>;

/** Result of `onLogin`: parameters and scopes of one login. */
export interface LoginRequest {
  /**
   * Parameters to add to the authorization URL, for example `{ kc_idp_hint: 'github' }`. `max_age`, and
   * parameters that the plugin sets, such as `state`, are refused.
   */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /**
   * Scopes to request instead of the provider's scopes. To add one, repeat them: `[...github.scopes, 'repo']`.
   * `openid` is added if the provider's scopes contain it.
   */
  readonly scopes?: readonly string[] | undefined;
}

/**
 * Function that chooses the parameters of a login or link. The request is not authenticated, so validate
 * every value from it.
 */
export type OnLogin = (provider: string, req: HttpRequest) => Awaitable<LoginRequest | undefined>;
