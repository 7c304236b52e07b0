/**
 * `svc/oauth`: all public names.
 */
/// <reference types="node" preserve="true" />
import '../base/need-node.ts';
export { currentLogin, currentUser } from './login-state.ts';
export type { SessionLogin } from './login-state.ts';
export type {
  LoginRequest,
  OnLink,
  OnLogin,
  OnUnlink,
  OnUser,
  OnUserContext,
  UserAnswer,
} from './plugin-options.ts';
export type {
  Identity,
  ProviderTokenAnswer,
  ProviderTokenOptions,
  ProviderTokens,
} from './provider-tokens.ts';
export { OAUTH_ERRORS, OAuthError } from './errors.ts';
export type { OAuthErrorCode, OAuthErrorOptions } from './errors.ts';
export type { IssueOptions, IssuedLogin } from './logins.ts';
export type { TokenBody } from './token-responses.ts';
export { OAuthPlugin } from './plugin.ts';
export type { SessionInfo } from './plugin.ts';
export type { OAuthLimits } from './limits.ts';
export type { OAuthPluginOptions } from './plugin-options.ts';
export {
  OAuthProvider,
  appleProvider,
  auth0Provider,
  cognitoProvider,
  discordProvider,
  facebookProvider,
  githubProvider,
  gitlabProvider,
  googleProvider,
  keycloakProvider,
  linkedinProvider,
  microsoftProvider,
  oidcProvider,
  oktaProvider,
  slackProvider,
  spotifyProvider,
  twitchProvider,
  xProvider,
} from './provider/presets.ts';
export type {
  AppleKey,
  ClientKey,
  ClientSecretMaker,
  IdTokenAlgorithm,
  MappedUser,
  OAuthProviderOptions,
  PresetOptions,
  ProviderPreset,
  UserInfo,
} from './provider/presets.ts';
export type { RefreshVerdict, RefreshedLogin } from './tokens/refresh.ts';
