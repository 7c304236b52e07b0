/**
 * Hooks of the application. It owns its users, and decides who may log in.
 */
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { UserInfo } from './provider/presets.ts';
import type { ProviderTokens } from './provider-tokens.ts';
import type { UserAnswer } from './tokens/access.ts';

/** Context of `onUser` and `onLink`, beside the identity. */
export interface OnUserContext {
  /** Tokens of the provider, for calls to its API. They are secrets. */
  readonly tokens: ProviderTokens;
  /** The request of the callback. */
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

/** Parameters of one login, in addition to the provider's configuration. */
export interface LoginRequest {
  /** Added to the authorization URL, for example `{ kc_idp_hint: 'github' }`. Parameters of the protocol and `max_age` are refused. */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /** Replaces the provider's scopes, for example to request more for one feature. `openid` stays if the provider has it. */
  readonly scopes?: readonly string[] | undefined;
}

/** Chooses parameters when a login or a link begins. The request is not authenticated: validate everything taken from it. */
export type OnLogin = (provider: string, req: HttpRequest) => Awaitable<LoginRequest | undefined>;
