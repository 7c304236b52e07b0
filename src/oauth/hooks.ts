/**
 * Functions of the application that the plugin calls: the application owns its users, and decides.
 */
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { UserInfo } from './provider/presets.ts';
import type { ProviderTokens } from './provider-tokens.ts';
import type { UserAnswer } from './tokens/access.ts';

/** Context of `onUser` and `onLink`, beside the identity. */
export interface OnUserContext {
  /** Tokens of the provider, for calls to its API. Secrets. */
  readonly tokens: ProviderTokens;
  /** The callback. */
  readonly req: HttpRequest;
}

/** Finds or creates the user of an identity. */
export type OnUser = (provider: string, info: UserInfo, context: OnUserContext) => Awaitable<UserAnswer>;

/** Adds an identity to a user. `false`, or a 4xx exception, refuses: the identity belongs to another user. */
export type OnLink = (
  sub: string,
  provider: string,
  info: UserInfo,
  context: OnUserContext,
) => Awaitable<boolean | void>;

/** Takes the identities of a provider from a user. `false`, or a 4xx exception, refuses: it is the last way in. */
export type OnUnlink = (sub: string, provider: string) => Awaitable<boolean | void>;

/** Parameters of one login, beside those that the provider is configured with. */
export interface LoginRequest {
  /** Added to the authorization URL, for example `{ kc_idp_hint: 'github' }`; none of the protocol, and no `max_age`. */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /** In place of the provider's scopes, for example more of them for one feature. `openid` stays where the provider has it. */
  readonly scopes?: readonly string[] | undefined;
}

/** Asked when a login or a link begins: parameters by the request. The request is not authenticated: check what is taken from it. */
export type OnLogin = (provider: string, req: HttpRequest) => Awaitable<LoginRequest | undefined>;
