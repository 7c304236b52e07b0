/** Types of a provider's options, and constants of the protocol with a provider. */
import type { ClientAssertions, ClientKey } from './client-assertion.ts';
import type { MappedUser } from './user-info.ts';

/**
 * Signature algorithms of id_tokens; never `none` (RFC 8725 §3.1). `HS256` is keyed by the client secret, and
 * must be the only one in a list.
 */
export type IdTokenAlgorithm =
  'HS256' | 'RS256' | 'RS384' | 'RS512' | 'PS256' | 'PS384' | 'PS512' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

/** Function that creates a client secret. The argument is the time in seconds since the epoch. */
export type ClientSecretMaker = (nowSeconds: number) => string;

/** Options of {@link OAuthProvider}. `undefined` means not given. */
export interface OAuthProviderOptions {
  /** Short name for routes, logs and metrics: `[a-z][a-z0-9-]*`, at most 32 characters. */
  readonly name: string;
  readonly clientId: string;
  /**
   * Client secret, from the environment. Required unless `clientAuth` is `none` or `private_key_jwt`. A
   * function makes one for each call, as Sign in with Apple needs.
   */
  readonly clientSecret?: string | ClientSecretMaker | undefined;
  /**
   * Client authentication at the token endpoint: in the form, by HTTP Basic, by a signed assertion (RFC
   * 7523), or `none` for a public client with PKCE only. Default: the first of `post` and `basic` that the
   * provider's metadata list; without metadata `post`.
   */
  readonly clientAuth?: 'post' | 'basic' | 'private_key_jwt' | 'none' | undefined;
  /** The key for `clientAuth: 'private_key_jwt'`, instead of a clientSecret. */
  readonly clientKey?: ClientKey | undefined;
  /** The provider's issuer, compared byte for byte. `{tenantid}` in it matches any GUID (see `tenants`). */
  readonly issuer?: string | undefined;
  /**
   * URL of the discovery document. It is read if an endpoint below is missing. Default: `issuer` +
   * `/.well-known/openid-configuration`.
   */
  readonly discoveryUrl?: string | undefined;
  /**
   * Content of the discovery document (OpenID Connect Discovery §3, RFC 8414 §2). With it nothing is fetched
   * at start-up.
   */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Endpoints of the provider. Each takes precedence over the discovery document. */
  readonly authorizeUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  readonly userinfoUrl?: string | undefined;
  readonly jwksUrl?: string | undefined;
  /** Page that ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0). */
  readonly endSessionUrl?: string | undefined;
  /** Endpoint with the user's e-mail addresses in GitHub's form, `[{ email, primary, verified }]`. */
  readonly emailsUrl?: string | undefined;
  /**
   * Keys of the provider, `{ keys: [ ... ] }` (RFC 7517 §5). With them nothing is fetched to verify an
   * id_token.
   */
  readonly jwks?: { readonly keys: readonly unknown[] } | undefined;
  /**
   * Scopes to request. `openid` makes the login use a nonce and an id_token. Default `['openid', 'email',
   * 'profile']` with an issuer or discovery URL; otherwise none.
   */
  readonly scopes?: readonly string[] | undefined;
  /** Accepted signature algorithms of id_tokens. Default `['RS256']`. */
  readonly idTokenAlgorithms?: readonly IdTokenAlgorithm[] | undefined;
  /** Tenants accepted for `{tenantid}`, as lower-case GUIDs. Default: every tenant. */
  readonly tenants?: readonly string[] | undefined;
  /** Accepted values of `token_type`, in any case. Default `['bearer']`. */
  readonly tokenTypes?: readonly string[] | undefined;
  /** Format of token responses. Default `json`; `form` is for providers older than RFC 6749. */
  readonly tokenAnswer?: 'json' | 'form' | undefined;
  /** Accepts the text "true" for the claim `email_verified`. Default false. */
  readonly acceptsTextVerified?: boolean | undefined;
  /**
   * Accepts a name from the form field `user` if nothing else names the user. Sign in with Apple posts it,
   * only with a user's first login. The browser sends it, so users can choose any name. Default false.
   */
  readonly acceptsPostedName?: boolean | undefined;
  /** Maps the data of the provider to a user. Default: by the standard claims. */
  readonly mapUser?: ((raw: Readonly<Record<string, unknown>>) => MappedUser) | undefined;
  /**
   * Parameters that are added to every authorization URL, for example `{ access_type: 'online' }`. `max_age`,
   * in whole seconds, is enforced: the id_token needs an `auth_time` that is not older.
   */
  readonly authorizeParams?: Readonly<Record<string, string>> | undefined;
  /**
   * True when id_tokens contain the nonce of the login. `false` is for providers that omit it: a stolen
   * id_token cannot be distinguished from a new one then. Default true.
   */
  readonly usesNonce?: boolean | undefined;
  /**
   * True when PKCE binds the login to its code (RFC 7636). `false` is for providers that refuse PKCE. Default
   * true.
   */
  readonly usesPkce?: boolean | undefined;
  /** Name of the parameter `client_id` at a provider that calls it otherwise. Default `client_id`. */
  readonly clientIdName?: string | undefined;
  /** True when discovered endpoints must be at the issuer's host or below it. Default false. */
  readonly requireSameSite?: boolean | undefined;
  /** PEM file with the certificate authorities of the provider. They replace those of Node.js. */
  readonly caFile?: string | undefined;
  /**
   * `true` allows `http://` to the loopback interface. A list of hosts allows `http://` to them as well, for
   * example `['keycloak']` in a network of containers. Production allows only the loopback interface. Default
   * false.
   */
  readonly allowInsecure?: boolean | readonly string[] | undefined;
  /**
   * Time limit in milliseconds, 100 ... 60_000, for each stage of a call: connect, TLS, first byte, whole
   * body. Default 10_000.
   */
  readonly timeoutMs?: number | undefined;
  /** Tolerated difference of the clocks for id_tokens in seconds, 0 ... 300. Default 60. */
  readonly leewaySeconds?: number | undefined;
}

/** Names of options with a default. */
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
  | 'requireSameSite'
  | 'allowInsecure'
  | 'timeoutMs'
  | 'leewaySeconds';

/** All options with defaults. Contains the client secret. */
export type ResolvedProviderOptions = {
  readonly [
    Name in Exclude<keyof OAuthProviderOptions, 'caFile' | 'acceptsTextVerified' | 'clientKey'>
  ]-?: Name extends Defaulted ? NonNullable<OAuthProviderOptions[Name]> : OAuthProviderOptions[Name];
} & {
  readonly assertions: ClientAssertions | undefined;
  readonly usesOpenId: boolean;
  /** Maximum age of the user's authentication in seconds: `max_age` of `authorizeParams`. */
  readonly maxAgeSeconds: number | undefined;
  /** Content of `caFile`. */
  readonly ca: string | undefined;
};

/** Parameters of an authorization URL that only the plugin sets. */
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
/** Path of the discovery document below an issuer (OpenID Connect Discovery §4). */
export const WELL_KNOWN = '/.well-known/openid-configuration';
