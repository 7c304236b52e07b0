/** Types of the options of an identity provider, and constants of the protocol. */
import type { Resolved } from '../../base/options.ts';
import type { ClientAssertions, ClientKey } from './client-assertion.ts';
import type { MappedUser } from './user-info.ts';

/**
 * Signature algorithms of id_tokens. `none` is never allowed (RFC 8725 §3.1). `HS256` must be the only
 * algorithm, because its key is the client secret.
 */
export type IdTokenAlgorithm =
  'HS256' | 'RS256' | 'RS384' | 'RS512' | 'PS256' | 'PS384' | 'PS512' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

/** Function that creates a client secret. `nowSeconds` is the time in seconds since the epoch. */
export type ClientSecretMaker = (nowSeconds: number) => string;

/** Options of {@link OAuthProvider}. An option that is `undefined` has its default. */
export interface OAuthProviderOptions {
  /** Short name of the provider in routes, logs and metrics: `[a-z][a-z0-9-]*`, at most 32 characters. */
  readonly name: string;
  /** Id of the application at the provider. */
  readonly clientId: string;
  /**
   * Client secret: read it from an environment variable. Required unless `clientAuth` is `none` or
   * `private_key_jwt`. A function creates a new secret for each call, as Sign in with Apple requires.
   */
  readonly clientSecret?: string | ClientSecretMaker | undefined;
  /**
   * Client authentication at the token endpoint: `post` in the form, `basic` by HTTP Basic, `private_key_jwt`
   * by a signed assertion (RFC 7523), `none` for a public client with PKCE. Default: `post` or `basic`,
   * depending on the provider's metadata; without metadata, `post`.
   */
  readonly clientAuth?: 'post' | 'basic' | 'private_key_jwt' | 'none' | undefined;
  /** Key for `clientAuth: 'private_key_jwt'`, which needs no `clientSecret`. */
  readonly clientKey?: ClientKey | undefined;
  /**
   * The provider's issuer, compared byte for byte. `{tenantid}` in it matches any GUID (see the option
   * `tenants`).
   */
  readonly issuer?: string | undefined;
  /**
   * URL of the discovery document, which is read only if the other options lack an endpoint. Default:
   * `issuer` + `/.well-known/openid-configuration`.
   */
  readonly discoveryUrl?: string | undefined;
  /**
   * Content of the discovery document (OpenID Connect Discovery §3, RFC 8414 §2). With this option, the
   * document is not fetched.
   */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /**
   * URL of the authorization endpoint. URLs in these options take precedence over those in the discovery
   * document.
   */
  readonly authorizeUrl?: string | undefined;
  /** URL of the token endpoint. Default: from discovery. */
  readonly tokenUrl?: string | undefined;
  /** URL of the userinfo endpoint. Default: from discovery. */
  readonly userinfoUrl?: string | undefined;
  /** URL of the keys of the provider. Default: from discovery. */
  readonly jwksUrl?: string | undefined;
  /** Page that ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0). */
  readonly endSessionUrl?: string | undefined;
  /**
   * Endpoint that returns the user's e-mail addresses in GitHub's format, `[{ email, primary, verified }]`.
   */
  readonly emailsUrl?: string | undefined;
  /** Keys of the provider, `{ keys: [ ... ] }` (RFC 7517 §5). With this option, no keys are fetched. */
  readonly jwks?: { readonly keys: readonly unknown[] } | undefined;
  /**
   * Scopes to request. If they include `openid`, the login uses a nonce and an id_token. Default `['openid',
   * 'email', 'profile']` with an issuer or discovery URL, otherwise none.
   */
  readonly scopes?: readonly string[] | undefined;
  /** Accepted signature algorithms of id_tokens. Default `['RS256']`. */
  readonly idTokenAlgorithms?: readonly IdTokenAlgorithm[] | undefined;
  /**
   * Tenants whose users may log in, as lower-case GUIDs. Only for an issuer with `{tenantid}`. Default: every
   * tenant.
   */
  readonly tenants?: readonly string[] | undefined;
  /** Accepted values of `token_type` in token responses. Case does not matter. Default `['bearer']`. */
  readonly tokenTypes?: readonly string[] | undefined;
  /** Format of token responses. `form` is for providers that are older than RFC 6749. Default `json`. */
  readonly tokenAnswer?: 'json' | 'form' | undefined;
  /** Accepts the text "true" for the claim `email_verified`. Default false. */
  readonly acceptsTextVerified?: boolean | undefined;
  /**
   * Accepts a name from the form field `user` if the claims contain none. Sign in with Apple posts this field
   * only at a user's first login. It comes from the browser, so users can choose any name. Default false.
   */
  readonly acceptsPostedName?: boolean | undefined;
  /**
   * Converts the provider's data about a user to a {@link MappedUser}. Default: reads the standard claims.
   */
  readonly mapUser?: ((raw: Readonly<Record<string, unknown>>) => MappedUser) | undefined;
  /**
   * Parameters to add to every authorization URL, for example `{ access_type: 'online' }`. With `max_age` in
   * whole seconds, an id_token whose claim `auth_time` is older is refused.
   */
  readonly authorizeParams?: Readonly<Record<string, string>> | undefined;
  /**
   * Whether id_tokens contain the nonce of the login. Set `false` for providers that omit it; then a stolen
   * id_token cannot be distinguished from a new one. Default true.
   */
  readonly usesNonce?: boolean | undefined;
  /** Whether PKCE is used (RFC 7636). Set `false` for providers that refuse PKCE. Default true. */
  readonly usesPkce?: boolean | undefined;
  /** Name of the parameter `client_id`, for providers that use another name. Default `client_id`. */
  readonly clientIdName?: string | undefined;
  /**
   * Name of the parameter `post_logout_redirect_uri`, for providers that use another name. Default
   * `post_logout_redirect_uri`.
   */
  readonly postLogoutName?: string | undefined;
  /**
   * Whether endpoints in the discovery document must be on the issuer's host or a subdomain of it. Default
   * false.
   */
  readonly requireSameSite?: boolean | undefined;
  /** PEM file with the certificate authorities for this provider, which replace those of Node.js. */
  readonly caFile?: string | undefined;
  /**
   * `true` allows `http://` to the loopback interface. A list also allows `http://` to its hosts, for example
   * `['keycloak']` in a network of containers. In production, only the loopback interface is allowed. Default
   * false.
   */
  readonly allowInsecure?: boolean | readonly string[] | undefined;
  /**
   * Time limit in milliseconds, 100 ... 60_000, for each stage of a call: queue, connect, TLS, first byte,
   * whole body. Default 10_000.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Accepted difference between the clocks of the provider and this server, 0 ... 300 seconds. It applies to
   * id_tokens. Default 60.
   */
  readonly leewaySeconds?: number | undefined;
}

type Defaulted =
  | 'scopes'
  | 'idTokenAlgorithms'
  | 'tokenTypes'
  | 'tokenAnswer'
  | 'acceptsPostedName'
  | 'mapUser'
  | 'authorizeParams'
  | 'usesNonce'
  | 'usesPkce'
  | 'clientIdName'
  | 'postLogoutName'
  | 'requireSameSite'
  | 'allowInsecure'
  | 'timeoutMs'
  | 'leewaySeconds';

export type ResolvedProviderOptions = Resolved<
  Omit<OAuthProviderOptions, 'caFile' | 'acceptsTextVerified' | 'clientKey'>,
  Defaulted
> & {
  readonly assertions: ClientAssertions | undefined;
  readonly usesOpenId: boolean;
  /** Maximum age of the user's authentication in seconds, from `max_age` in `authorizeParams`. */
  readonly maxAgeSeconds: number | undefined;
  readonly ca: string | undefined;
};

/** Parameters of an authorization URL that only the plugin may set. */
export const PROTOCOL_PARAMETERS: ReadonlySet<string> = new Set([
  'response_type',
  'response_mode',
  'client_id',
  'client_secret',
  'redirect_uri',
  'scope',
  'state',
  'nonce',
  'code_challenge',
  'code_challenge_method',
  'code_verifier',
  'request',
  'request_uri',
]);
/** Placeholder for the id of a tenant in an issuer. */
export const TENANT = '{tenantid}';
export const GUID: RegExp = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/;

/** Names of the options that are URLs. */
export const URLS = [
  'authorizeUrl',
  'tokenUrl',
  'userinfoUrl',
  'jwksUrl',
  'emailsUrl',
  'endSessionUrl',
  'discoveryUrl',
] as const;
/** Path of the discovery document, relative to the issuer (OpenID Connect Discovery §4). */
export const WELL_KNOWN = '/.well-known/openid-configuration';
