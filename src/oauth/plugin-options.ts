/**
 * What an {@link OAuthPluginOptions} may say, with every default.
 */
import { SvcError } from '../base/errors.ts';
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
} from '../base/options.ts';
import { localPath } from '../http/path.ts';
import { issueOfClientRedirect } from './client-redirects.ts';
import { readLimits } from './limits.ts';
import { hasNoAuthority } from './redirects.ts';
import { isScopes } from './tokens/access.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { RecordStore } from '../cache/stores.ts';
import type { Awaitable } from '../http/contracts.ts';
import type { OnLink, OnLogin, OnUnlink, OnUser } from './hooks.ts';
import type { OAuthLimits, ReadLimits } from './limits.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { RefreshVerdict, RefreshedLogin } from './tokens/refresh.ts';

/** What an {@link OAuthPlugin} is made from. */
export interface OAuthPluginOptions {
  /** Default: the application's. Given here as well as there, both must be the same. */
  readonly authSecret?: Secrets | undefined;
  /** Where people log in: one, or `providers`. Neither: logins are the application's, by `issue()`. */
  readonly provider?: OAuthProvider | undefined;
  /** Several, each under its own name; `/oauth/login` is that of the first. */
  readonly providers?: readonly OAuthProvider[] | undefined;
  /** Needed with a provider. Finds or creates the user: its answer is the subject of the tokens. Nothing, or a 4xx exception, means that this one may not log in. */
  readonly onUser?: OnUser | undefined;
  /** Asked when a login or a link begins: further parameters and scopes by the request. */
  readonly onLogin?: OnLogin | undefined;
  /** Adds an identity to a user who is logged in: turns `POST /oauth/{provider}/link` on. */
  readonly onLink?: OnLink | undefined;
  /** Takes the identities of a provider from a user: turns `POST /oauth/{provider}/unlink` on. Needs `onLink`. */
  readonly onUnlink?: OnUnlink | undefined;
  /** Asked at every refresh: `false` ends the login; scopes and claims in its answer count for the new access token. */
  readonly onRefresh?: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
  /** Compared byte for byte. In production https only. Default, outside production: the callback of this server on the loopback interface. */
  readonly allowedRedirectUris?: readonly string[] | undefined;
  /** Redirect URIs of native applications, http on 127.0.0.1 or [::1], in production too (RFC 8252 §7.3). Default false. */
  readonly allowLoopbackRedirects?: boolean | undefined;
  /** Where codes for native clients and single-page applications may go (RFC 8252 §7). Not in cookie mode. Default none. */
  readonly nativeRedirects?: readonly string[] | undefined;
  /** Where the provider may send the browser after `/oauth/logout`. Turns that route on; an empty list leaves the browser at the provider. Default: there is no such route. */
  readonly postLogoutRedirectUris?: readonly string[] | undefined;
  /** Whether providers may end logins: `POST /oauth/{provider}/backchannel-logout`. Default false. */
  readonly backchannelLogout?: boolean | undefined;
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
  /** Nonces of the server in proofs (RFC 9449 §8): `offered` with each token response and refusal, or `required`. Default `offered`. */
  readonly dpopNonces?: 'offered' | 'required' | undefined;
  /** Whether access tokens from before a `revokeAll()` are refused at once. Costs a look-up per subject every 5 s. Default false. */
  readonly enforceValidAfter?: boolean | undefined;
  readonly limits?: OAuthLimits | undefined;
  /** Where values are recorded that count once: used states, DPoP proofs, codes. A store that all processes share. Default: the database of the application, else the memory of the process. */
  readonly records?: RecordStore | undefined;
  /** Whether the provider's tokens are kept, sealed, for `providerToken()`. Default false. */
  readonly storeProviderTokens?: boolean | undefined;
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
/** An absolute http or https URL without a fragment. */
function isWebAddress(entry: string): boolean {
  return /^https?:\/\/[^\s#\\]+$/.test(entry) && URL.canParse(entry);
}

/** The options as they count. */
export interface ReadOptions {
  readonly authSecret: Secrets | undefined;
  readonly provider: OAuthProvider | undefined;
  readonly providers: readonly OAuthProvider[] | undefined;
  readonly onUser: OnUser | undefined;
  readonly onLogin: OnLogin | undefined;
  readonly onLink: OnLink | undefined;
  readonly onUnlink: OnUnlink | undefined;
  readonly onRefresh: OAuthPluginOptions['onRefresh'];
  readonly allowedRedirectUris: readonly string[];
  readonly allowLoopbackRedirects: boolean;
  readonly nativeRedirects: readonly string[];
  readonly postLogoutRedirectUris: readonly string[] | undefined;
  readonly backchannelLogout: boolean;
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
  readonly dpopNonces: 'offered' | 'required';
  readonly enforceValidAfter: boolean;
  readonly limits: ReadLimits;
  readonly records: RecordStore | undefined;
  readonly storeProviderTokens: boolean;
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
    nativeRedirects = [],
    afterLogin = '/',
    scopes = [],
    keepSession = [],
    ...read
  } = readOptions('OAuthPlugin', options, {
    authSecret: given<Secrets>(
      'a secret or a list of them',
      (value) => typeof value === 'string' || isTextList(value),
    ),
    provider: given<OAuthProvider>('a provider', isObject),
    providers: given<readonly OAuthProvider[]>('a list of providers', Array.isArray),
    onUser: given<OnUser>('a function (provider, info) => subject', isFunction),
    onLogin: given<OnLogin>('a function (provider, req)', isFunction),
    onLink: given<OnLink>('a function (sub, provider, info)', isFunction),
    onUnlink: given<OnUnlink>('a function (sub, provider)', isFunction),
    onRefresh: given<NonNullable<OAuthPluginOptions['onRefresh']>>('a function', isFunction),
    allowedRedirectUris: given<readonly string[]>(
      'a list of URLs, each with "//" behind its scheme',
      (value) => isTextList(value) && !value.some(hasNoAuthority),
    ),
    allowLoopbackRedirects: bool(false),
    postLogoutRedirectUris: given<readonly string[]>(
      'a list of URLs, each with "//" behind its scheme',
      (value) => isTextList(value) && value.every(isWebAddress),
    ),
    backchannelLogout: bool(false),
    nativeRedirects: given<readonly string[]>(
      'a list of addresses',
      (value) => isTextList(value) && value.every((entry) => entry !== ''),
    ),
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
    dpopNonces: oneOf(['offered', 'required'], 'offered'),
    enforceValidAfter: bool(false),
    limits: given<OAuthLimits>('an object', isObject),
    records: given<RecordStore>(
      'a RecordStore',
      (value) => typeof (value as Partial<RecordStore> | null)?.add === 'function',
    ),
    storeProviderTokens: bool(false),
    issuer: text(),
    audience: text(),
    keepSession: given<readonly string[]>('a list of names', isTextList),
    keepAddress: bool(true),
  });
  nativeRedirects.forEach((entry, index) => {
    const problem = issueOfClientRedirect(entry);
    if (problem !== undefined)
      throw new SvcError('E_OPTION_RANGE', [
        'OAuthPlugin',
        'nativeRedirects',
        'addresses of clients (RFC 8252 §7)',
        `one whose entry ${index + 1} ${problem}`,
      ]);
  });
  if (nativeRedirects.length > 0 && read.mode === 'cookie')
    throw new SvcError('E_OPTION_RANGE', [
      'OAuthPlugin',
      'nativeRedirects',
      'left out in cookie mode: clients cannot refresh by cookies that they do not have',
      'a list',
    ]);
  if (read.onUnlink !== undefined && read.onLink === undefined)
    throw new SvcError('E_OPTION_RANGE', [
      'OAuthPlugin',
      'onLink',
      'a function where there is an onUnlink',
      'none',
    ]);
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
    nativeRedirects: [...nativeRedirects],
    afterLogin,
    scopes,
    keepSession,
    refreshGraceSeconds: graceSeconds,
    limits: readLimits(limits ?? {}),
  };
}
