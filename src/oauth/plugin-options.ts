/**
 * What an {@link OAuthPluginOptions} may say, with every default.
 */
import { SvcError } from '../base/errors.ts';
import { bool, given, int, isFunction, isObject, oneOf, readOptions, text } from '../base/options.ts';
import { localPath } from '../http/path.ts';
import { RateLimiter } from '../http/middleware/rate-limiter.ts';
import { isScopes } from './tokens/access.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { OptionKind } from '../base/options.ts';
import type { Awaitable } from '../http/contracts.ts';
import type { EndpointLimits, OnUser } from './endpoints.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { RefreshVerdict, RefreshedLogin } from './tokens/refresh.ts';

/** How often who may come, each a minute. `false` switches one off. */
export interface OAuthLimits {
  /** Logins begun, by address. Default 20. */
  readonly login?: number | false | undefined;
  /** Callbacks, by address. Default 20. */
  readonly callback?: number | false | undefined;
  /** Refreshes, and as many revocations, by login. Default 60. */
  readonly token?: number | false | undefined;
  /** Texts that are no refresh token of ours, by address. Default 600. */
  readonly forged?: number | false | undefined;
}

/** What an {@link OAuthPlugin} is made from. */
export interface OAuthPluginOptions {
  /** Default: the application's. Given here as well as there, both must be the same. */
  readonly authSecret?: Secrets | undefined;
  /** Where people log in: one, or `providers`. */
  readonly provider?: OAuthProvider | undefined;
  /** Several, each under its own name; `/oauth/login` is that of the first. */
  readonly providers?: readonly OAuthProvider[] | undefined;
  /** Finds or creates the user: its answer is the subject of the tokens. Nothing, or a 4xx exception, means that this one may not log in. */
  readonly onUser: OnUser;
  /** Asked at every refresh: `false` ends the login; scopes and claims in its answer count for the new access token. */
  readonly onRefresh?: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
  /** Compared byte for byte. In production https only. Default, outside production: the callback of this server on the loopback interface. */
  readonly allowedRedirectUris?: readonly string[] | undefined;
  /** Redirect URIs of native applications, http on 127.0.0.1 or [::1], in production too (RFC 8252 §7.3). Default false. */
  readonly allowLoopbackRedirects?: boolean | undefined;
  /** `json`: the callback answers with the tokens. `cookie`: they go into cookies that no script can read. Default `json`. */
  readonly mode?: 'json' | 'cookie' | undefined;
  /** In cookie mode: where the browser goes after a login that named no `return_to`. A local path. Default `/`. */
  readonly afterLogin?: string | undefined;
  /** In cookie mode: where the browser goes when a login fails, with `error` and `request_id` in the query. A local path outside `/oauth`. Default: a plain page says it. */
  readonly errorPath?: string | undefined;
  /** Scopes of access tokens, unless `onUser` says others. Default none. */
  readonly scopes?: readonly string[] | undefined;
  /** 1 ... 86_400. Default 900. */
  readonly accessTtlSeconds?: number | undefined;
  /** How long a login lasts without being used, 1 second ... 1 year. Default 14 days. */
  readonly refreshIdleTtlSeconds?: number | undefined;
  /** How long it lasts at most, 1 second ... 1 year. Default 90 days. */
  readonly refreshAbsoluteTtlSeconds?: number | undefined;
  /** How long a login may take, 30 ... 3_600. Default 600. */
  readonly stateTtlSeconds?: number | undefined;
  /** For how long a rotated token still gets its successor, for answers lost on the way, 0 ... 60. Default 0, in cookie mode 10. */
  readonly refreshGraceSeconds?: number | undefined;
  /** By how much the clocks of several hosts may differ, 0 ... 5_000. Default 0. */
  readonly clockSkewMs?: number | undefined;
  /** What becomes of refreshes that overlap: `coalesce`, the default, gives all the same answer; `strict` refuses all but one. */
  readonly concurrency?: 'coalesce' | 'strict' | undefined;
  /** Tokens bound to a key of the client (RFC 9449): `optional` binds the logins of whoever sends proofs, `required` refreshes no other. Not in cookie mode. Default `off`. */
  readonly dpop?: 'off' | 'optional' | 'required' | undefined;
  /** Whether access tokens from before a `revokeAll()` are refused at once. Costs a look-up per subject every 5 s. Default false. */
  readonly enforceValidAfter?: boolean | undefined;
  readonly limits?: OAuthLimits | undefined;
  /** `iss` of access tokens. Default none. */
  readonly issuer?: string | undefined;
  /** `aud` of access tokens. Default none. */
  readonly audience?: string | undefined;
  /** Values of the session that outlive a login; all others are gone. Default none. */
  readonly keepSession?: readonly string[] | undefined;
  /** Whether addresses are stored with logins. Default true. */
  readonly keepAddress?: boolean | undefined;
}

const YEAR_SECONDS = 31_536_000;
const DAY_SECONDS = 86_400;
const isList = (value: unknown): boolean =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');
const isLimit = (value: unknown): boolean =>
  value === false || (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 1_000_000);

/** The options as they count. */
export interface ReadOptions {
  readonly authSecret: Secrets | undefined;
  readonly provider: OAuthProvider | undefined;
  readonly providers: readonly OAuthProvider[] | undefined;
  readonly onUser: OnUser | undefined;
  readonly onRefresh: OAuthPluginOptions['onRefresh'];
  readonly allowedRedirectUris: readonly string[];
  readonly allowLoopbackRedirects: boolean;
  readonly mode: 'json' | 'cookie';
  readonly afterLogin: string;
  readonly errorPath: string | undefined;
  readonly scopes: readonly string[];
  readonly accessTtlSeconds: number;
  readonly refreshIdleTtlSeconds: number;
  readonly refreshAbsoluteTtlSeconds: number;
  readonly stateTtlSeconds: number;
  readonly refreshGraceSeconds: number;
  readonly clockSkewMs: number;
  readonly concurrency: 'coalesce' | 'strict';
  readonly dpop: 'off' | 'optional' | 'required';
  readonly enforceValidAfter: boolean;
  readonly limits: EndpointLimits;
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  readonly keepSession: readonly string[];
  readonly keepAddress: boolean;
}

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readPluginOptions(options: OAuthPluginOptions): ReadOptions {
  const seconds = (fallback: number): ReturnType<typeof int> => int(fallback, 1, YEAR_SECONDS);
  const {
    limits,
    refreshGraceSeconds,
    allowedRedirectUris = [],
    afterLogin = '/',
    scopes = [],
    keepSession = [],
    ...read
  } = readOptions('OAuthPlugin', options, {
    authSecret: given<Secrets>(
      'a secret or a list of them',
      (value) => typeof value === 'string' || isList(value),
    ),
    provider: given<OAuthProvider>('a provider', isObject),
    providers: given<readonly OAuthProvider[]>('a list of providers', Array.isArray),
    onUser: given<OnUser>('a function (provider, info) => subject', isFunction),
    onRefresh: given<NonNullable<OAuthPluginOptions['onRefresh']>>('a function', isFunction),
    allowedRedirectUris: given<readonly string[]>('a list of URLs', isList),
    allowLoopbackRedirects: bool(false),
    mode: oneOf(['json', 'cookie'], 'json'),
    afterLogin: given<string>('a local path', (value) => localPath(value) !== undefined),
    errorPath: given<string>(
      'a local path outside /oauth',
      (value) => localPath(value) !== undefined && !/^\/oauth(?:\/|$)/.test(value as string),
    ),
    scopes: given<readonly string[]>('a list of words', isScopes),
    accessTtlSeconds: int(900, 1, DAY_SECONDS),
    refreshIdleTtlSeconds: seconds(14 * DAY_SECONDS),
    refreshAbsoluteTtlSeconds: seconds(90 * DAY_SECONDS),
    stateTtlSeconds: int(600, 30, 3_600),
    refreshGraceSeconds: given<number>('an integer 0 … 60', int(0, 0, 60).accepts),
    clockSkewMs: int(0, 0, 5_000),
    concurrency: oneOf(['coalesce', 'strict'], 'coalesce'),
    dpop: oneOf(['off', 'optional', 'required'], 'off'),
    enforceValidAfter: bool(false),
    limits: given<OAuthLimits>('an object', isObject),
    issuer: text(),
    audience: text(),
    keepSession: given<readonly string[]>('a list of names', isList),
    keepAddress: bool(true),
  });
  if (read.mode === 'cookie' && read.dpop !== 'off')
    throw new SvcError('E_OPTION_RANGE', [
      'OAuthPlugin',
      'dpop',
      'off in cookie mode: no script can prove tokens that it cannot read',
      read.dpop,
    ]);
  const graceSeconds = refreshGraceSeconds ?? (read.mode === 'cookie' ? 10 : 0); // browsers lose answers, by a page that is left
  return {
    ...read,
    allowedRedirectUris,
    afterLogin,
    scopes,
    keepSession,
    refreshGraceSeconds: graceSeconds,
    limits: limitersOf(limits ?? {}),
  };
}

/** The limits of the endpoints, each over the memory of this process. */
function limitersOf(limits: OAuthLimits): EndpointLimits {
  const values = readOptions('OAuthPlugin limits', limits, {
    login: LIMIT(20),
    callback: LIMIT(20),
    token: LIMIT(60),
    forged: LIMIT(600),
  });
  const limiter = (name: string, perMinute: number | false): RateLimiter | undefined =>
    perMinute === false ? undefined : new RateLimiter({ name, perMinute });
  return {
    login: limiter('oauth-login', values.login),
    callback: limiter('oauth-callback', values.callback),
    token: limiter('oauth-token', values.token),
    revoke: limiter('oauth-revoke', values.token),
    forged: limiter('oauth-forged', values.forged),
  };
}

const LIMIT = (fallback: number): OptionKind<number | false> => ({
  fallback,
  needs: 'false or an integer 1 … 1000000',
  accepts: isLimit,
});
