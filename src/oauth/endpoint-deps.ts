/** Objects of OAuthPlugin that several endpoints use. */
import type { Env } from '../base/config.ts';
import type { OwnPages } from '../http/origins.ts';
import type { Arrivals } from '../http/server/arrivals.ts';
import type { Authorizations } from './authorization.ts';
import type { EndpointGuard } from './guard.ts';
import type { Logins, LoginsDeps } from './logins.ts';
import type { LoginStates } from './login-state.ts';
import type { StoredProviderTokens } from './provider-tokens.ts';
import type { SingleUse } from './single-use.ts';
import type { TokenCookies } from './tokens/cookies.ts';
import type { RefreshTokenCodec } from './tokens/refresh-codec.ts';
import type { LiveLogins } from './tokens/live-logins.ts';
import type { LoginEnds, LoginStore } from './tokens/store.ts';

export interface EndpointDeps extends LoginsDeps {
  readonly env: Env;
  readonly store: LoginStore;
  readonly ends: LoginEnds;
  readonly live: LiveLogins;
  readonly used: SingleUse;
  readonly codec: RefreshTokenCodec;
  readonly guard: EndpointGuard;
  readonly arrivals: Arrivals;
  readonly states: LoginStates;
  readonly authorizations: Authorizations;
  readonly logins: Logins;
  readonly ownPages: OwnPages;
  /** Undefined unless the option `mode` is `cookie`. */
  readonly cookies: TokenCookies | undefined;
  readonly providerTokens: StoredProviderTokens | undefined;
}
