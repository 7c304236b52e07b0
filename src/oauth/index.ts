/**
 * `svc/oauth`: every public name, one by one.
 */
/// <reference types="node" preserve="true" />
export { currentUser } from './login-state.ts';
export type { UserAnswer } from './tokens/access.ts';
export type { OnUser } from './endpoints.ts';
export { OAUTH_ERRORS, OAuthError } from './errors.ts';
export type { OAuthErrorCode, OAuthErrorOptions } from './errors.ts';
export { OAuthPlugin } from './plugin.ts';
export type { SessionInfo } from './plugin.ts';
export type { OAuthLimits, OAuthPluginOptions } from './plugin-options.ts';
export { OAuthProvider, githubProvider, googleProvider } from './provider/presets.ts';
export type {
  IdTokenAlgorithm,
  MappedUser,
  OAuthProviderOptions,
  PresetOptions,
  UserInfo,
} from './provider/presets.ts';
export type { RefreshVerdict, RefreshedLogin } from './tokens/refresh.ts';
