/**
 * What the endpoints are put together from.
 */
import type { Clock } from '../clock.ts';
import type { Awaitable } from '../http/contracts.ts';
import type { OwnPages } from '../http/same-origin.ts';
import type { RateLimiter } from '../http/rate-limiter.ts';
import type { AccessTokens, UserAnswer } from './access-tokens.ts';
import type { Audit } from './audit.ts';
import type { DPoP } from './dpop.ts';
import type { LoginStates } from './login-state.ts';
import type { ProviderClient } from './provider-client.ts';
import type { OAuthProvider, UserInfo } from './providers.ts';
import type { RedirectAllowlist } from './redirects.ts';
import type { RefreshTokenCodec } from './refresh-token-codec.ts';
import type { RefreshTokens } from './refresh-tokens.ts';
import type { TokenCookies } from './token-cookies.ts';

/** Finds or creates the user of an identity. */
export type OnUser = (provider: string, info: UserInfo) => Awaitable<UserAnswer>;

/** A provider and the client that talks to it. */
export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** A new one each time the application starts. */
  client: ProviderClient;
}

/** Who may come how often. */
export interface EndpointLimits {
  readonly login: RateLimiter | undefined;
  readonly callback: RateLimiter | undefined;
  /** By login. */
  readonly token: RateLimiter | undefined;
  /** By login. */
  readonly revoke: RateLimiter | undefined;
  /** By address, for what is no token of ours. */
  readonly forged: RateLimiter | undefined;
}

/** What the endpoints work with. */
export interface EndpointParts {
  readonly states: LoginStates;
  readonly allowlistOf: (provider: string) => RedirectAllowlist;
  readonly refreshTokens: RefreshTokens;
  readonly codec: RefreshTokenCodec;
  readonly access: AccessTokens;
  readonly onUser: OnUser;
  readonly audit: Audit;
  readonly clock: Clock;
  readonly limits: EndpointLimits;
  /** Unless the option is `off`. */
  readonly dpop: DPoP | undefined;
  /** Whose pages may have a browser send the refresh cookie. */
  readonly ownPages: OwnPages;
  /** In cookie mode. */
  readonly cookies: TokenCookies | undefined;
  readonly afterLogin: string;
  /** Values of the session before the login that outlive it. */
  readonly keepSession: readonly string[];
  readonly keepsAddress: boolean;
}
