/**
 * Options of a provider: as an application gives them, and with every default in place.
 */
import type { ClientAssertions, ClientKey } from './client-assertion.ts';
import type { MappedUser } from './user-info.ts';

/** Signatures that an id_token may be accepted with, never `none` (RFC 8725 §3.1). `HS256` is signed with the client secret, and stands alone. */
export type IdTokenAlgorithm =
  'HS256' | 'RS256' | 'RS384' | 'RS512' | 'PS256' | 'PS384' | 'PS512' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

/** Makes a client secret; the time is in seconds since the epoch. */
export type ClientSecretMaker = (nowSeconds: number) => string;

/** Options of an {@link OAuthProvider}. `undefined` means not given. */
export interface OAuthProviderOptions {
  /** Short name for routes, logs and metrics: `[a-z][a-z0-9-]*`, at most 32 characters. */
  readonly name: string;
  readonly clientId: string;
  /** From the environment. Needed unless `clientAuth` is `none`. A function makes one for each call, as Sign in with Apple wants it. */
  readonly clientSecret?: string | ClientSecretMaker | undefined;
  /**
   * How the token endpoint authenticates this client: in the form, by HTTP Basic, by a signed assertion (RFC 7523), or not (a public client, PKCE alone). Default: what
   * the provider's metadata name, `post` before `basic`; without metadata `post`.
   */
  readonly clientAuth?: 'post' | 'basic' | 'private_key_jwt' | 'none' | undefined;
  /** The key for `clientAuth: 'private_key_jwt'`, in place of a clientSecret. */
  readonly clientKey?: ClientKey | undefined;
  /** The provider's name of itself, compared byte for byte. With `{tenantid}` in it, any GUID may stand there (see `tenants`). */
  readonly issuer?: string | undefined;
  /** Default: `issuer` + `/.well-known/openid-configuration`, read when an endpoint below is missing. */
  readonly discoveryUrl?: string | undefined;
  /** The discovery document itself (OpenID Connect Discovery §3, RFC 8414 §2): nothing is fetched at start-up. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** The endpoints, each before what discovery says. */
  readonly authorizeUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  readonly userinfoUrl?: string | undefined;
  readonly jwksUrl?: string | undefined;
  /** Where browsers end the session at the provider (OpenID Connect RP-Initiated Logout 1.0). */
  readonly endSessionUrl?: string | undefined;
  /** Where the user's e-mail addresses are listed in GitHub's form, `[{ email, primary, verified }]`. */
  readonly emailsUrl?: string | undefined;
  /** The keys themselves, `{ keys: [ ... ] }` (RFC 7517 §5): nothing is fetched to verify an id_token. */
  readonly jwks?: { readonly keys: readonly unknown[] } | undefined;
  /** Default `['openid', 'email', 'profile']` when there is an issuer or discovery, else none. `openid` brings nonce and id_token. */
  readonly scopes?: readonly string[] | undefined;
  /** Signatures accepted. Default `['RS256']`. */
  readonly idTokenAlgorithms?: readonly IdTokenAlgorithm[] | undefined;
  /** Tenants that may stand for `{tenantid}`, as lower-case GUIDs. Default: every tenant. */
  readonly tenants?: readonly string[] | undefined;
  /** Accepted values of `token_type`, in any case. Default `['bearer']`. */
  readonly tokenTypes?: readonly string[] | undefined;
  /** How the token endpoint answers. Default `json`; `form` is for providers older than RFC 6749. */
  readonly tokenAnswer?: 'json' | 'form' | undefined;
  /** Whether `email_verified` may be the text "true". Default false. */
  readonly acceptsTextVerified?: boolean | undefined;
  /**
   * Whether a name that nothing else tells may come from the form field `user`, which Sign in with Apple posts with a person's
   * first login and never again. The browser brings it: it is what people call themselves. Default false.
   */
  readonly acceptsPostedName?: boolean | undefined;
  /** Turns what the provider says into a user. Default: the standard claims. */
  readonly mapUser?: ((raw: Readonly<Record<string, unknown>>) => MappedUser) | undefined;
  /** Added to every authorization URL, for example `{ access_type: 'online' }`. `max_age`, in whole seconds, is enforced: the id_token's `auth_time` must be there, and not be older. */
  readonly authorizeParams?: Readonly<Record<string, string>> | undefined;
  /** Whether the id_token carries the nonce of the login. `false` for providers that leave it out: then a stolen id_token is distinguished from a new one by its code alone. Default true. */
  readonly usesNonce?: boolean | undefined;
  /** Whether the login is bound to its code by PKCE (RFC 7636). `false` for providers that refuse it. Default true. */
  readonly usesPkce?: boolean | undefined;
  /** Another name of the parameter `client_id`. Default `client_id`. */
  readonly clientIdName?: string | undefined;
  /** Whether discovered endpoints must be at the issuer's host or below it. Default false. */
  readonly requireSameSite?: boolean | undefined;
  /** PEM file of the authorities that sign the provider's certificate, in place of those that Node.js knows. */
  readonly caFile?: string | undefined;
  /**
   * `true` lets `http://` through to the loopback interface; a list of hosts to these as well, for example `['keycloak']` in a
   * network of containers. Refused in production, but for the loopback interface. Default false.
   */
  readonly allowInsecure?: boolean | readonly string[] | undefined;
  /** For connecting, TLS, the first byte and the whole body each, 100 ... 60_000. Default 10_000. */
  readonly timeoutMs?: number | undefined;
  /** How far the clocks may differ when an id_token is judged, 0 ... 300. Default 60. */
  readonly leewaySeconds?: number | undefined;
}

/** Every option with its default in place. Holds the client secret. */
export interface ResolvedProviderOptions {
  readonly name: string;
  readonly clientId: string;
  readonly clientSecret: string | ClientSecretMaker | undefined;
  readonly clientAuth: 'post' | 'basic' | 'private_key_jwt' | 'none' | undefined;
  readonly assertions: ClientAssertions | undefined;
  readonly issuer: string | undefined;
  readonly discoveryUrl: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly authorizeUrl: string | undefined;
  readonly tokenUrl: string | undefined;
  readonly userinfoUrl: string | undefined;
  readonly jwksUrl: string | undefined;
  readonly endSessionUrl: string | undefined;
  readonly emailsUrl: string | undefined;
  readonly jwks: { readonly keys: readonly unknown[] } | undefined;
  readonly scopes: readonly string[];
  readonly usesOpenId: boolean;
  readonly idTokenAlgorithms: readonly IdTokenAlgorithm[];
  readonly tenants: readonly string[] | undefined;
  readonly tokenTypes: readonly string[];
  readonly tokenAnswer: 'json' | 'form';
  readonly acceptsPostedName: boolean;
  readonly mapUser: (raw: Readonly<Record<string, unknown>>) => MappedUser;
  readonly authorizeParams: Readonly<Record<string, string>>;
  /** How long ago people may have proven who they are: `max_age` of `authorizeParams`. */
  readonly maxAgeSeconds: number | undefined;
  readonly usesNonce: boolean;
  readonly usesPkce: boolean;
  readonly clientIdName: string;
  readonly requireSameSite: boolean;
  /** The text of `caFile`. */
  readonly ca: string | undefined;
  readonly allowInsecure: boolean | readonly string[];
  readonly timeoutMs: number;
  readonly leewaySeconds: number;
}
