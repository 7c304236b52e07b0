/** Types of the options of IssuerAuth(), and of what it makes of them. */
import type { Resolved } from '../../base/options.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { Awaitable, Context } from '../../http/contracts.ts';
import type { SchemaClass } from '../../schema/schema.ts';

/** Signature algorithms that IssuerAuth() can accept. `none` and HMAC are never accepted (RFC 8725 §3.1). */
export type IssuerAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA' | 'Ed25519';

/** Claims of an access token of an authorization server. */
export interface IssuerClaims extends Claims {
  iss: string;
  /**
   * Identifies the client over all issuers: `iss`, a space, and `sub`. Two issuers may use the same `sub` for
   * different users.
   */
  principal: string;
  /** Scopes of the token, from its claim `scope` or `scp`, as a string with spaces or a list of strings. */
  scopes: string[];
  /** Roles of the token, from the claims that the option `roles` names. */
  roles: string[];
}

/** An authorization server whose access tokens are accepted. An option that is `undefined` has its default. */
export interface TrustedIssuer {
  /**
   * The claim `iss` of the tokens, compared byte for byte. It is also the URL of the discovery document, unless
   * `jwksUri` or `jwks` is set.
   */
  readonly issuer: string;
  /** Accepted values of the claim `aud`. A token needs at least one of them. They name this API. */
  readonly audience: string | readonly string[];
  /** URL of the keys (RFC 7517). With this option, no discovery document is fetched. */
  readonly jwksUri?: string | undefined;
  /** Keys of the issuer, `{ keys: [ ... ] }`. With this option, nothing is fetched. */
  readonly jwks?: { readonly keys: readonly unknown[] } | undefined;
  /** Accepted signature algorithms. Default: all six. The type of a key limits them further. */
  readonly algorithms?: readonly IssuerAlgorithm[] | undefined;
  /**
   * Whether a token needs the header `typ: at+jwt` (RFC 9068 §4). If false, `typ` may also be `JWT` or absent.
   * Then give `requiredClaims` that only access tokens have, because an id_token of the issuer might be
   * accepted. Default true.
   */
  readonly requireType?: boolean | undefined;
  /**
   * Claim that is compared with `audience`. `client_id` is for issuers that send no `aud`, such as Cognito.
   * Default `aud`.
   */
  readonly audienceClaim?: 'aud' | 'client_id' | undefined;
  /** Claims that each token must have, with these values, such as `{ token_use: 'access' }`. */
  readonly requiredClaims?: Readonly<Record<string, string | number | boolean>> | undefined;
  /**
   * Claims with the roles, such as `'groups'`, or paths such as `'realm_access.roles'`; or a function that
   * returns the roles. Only lists of strings are read. A claim whose name contains dots takes precedence over a
   * path. Default `'roles'`.
   */
  readonly roles?: string | readonly string[] | ((claims: Claims) => readonly string[]) | undefined;
  /** Allows the issuer and its keys to have private addresses, for example inside a cluster. Default false. */
  readonly allowPrivate?: boolean | undefined;
  /**
   * Allows `http:` to the loopback interface, or also to the hosts in a list, such as `['keycloak']`. Anyone in
   * between can then replace the keys, so `svc check` reports a list (SVC220). Default false.
   */
  readonly allowInsecure?: boolean | readonly string[] | undefined;
  /** Trusted certificate authorities in PEM. Default: the authorities of Node.js. */
  readonly ca?: string | undefined;
  /**
   * Proxy for the fetches: `http://` or `https://`, host and port, also with user name and password. Default:
   * with `NODE_USE_ENV_PROXY=1`, the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; otherwise none.
   */
  readonly proxy?: string | undefined;
}

/** Options of IssuerAuth(). An option that is `undefined` has its default. */
export interface IssuerAuthOptions<C = unknown> {
  /** Realm in the `WWW-Authenticate` header of a 401: printable ASCII without `"` and `\`. Default: none. */
  readonly realm?: string | undefined;
  /** Schema for the claims. A token whose claims do not match is refused. */
  readonly schema?: SchemaClass<C & object> | undefined;
  /**
   * Called for a token that has passed all other checks. The token is accepted only if the function returns
   * true. Exceptions of the function are not caught.
   */
  readonly verify?: ((claims: IssuerClaims & C, context: Context) => Awaitable<boolean>) | undefined;
  /** Accepts a request without a token; the value is then `undefined`. Default false. */
  readonly optional?: boolean | undefined;
  /** Accepted difference between the clocks of issuer and verifier, 0 ... 300 seconds. Default 60. */
  readonly leewaySeconds?: number | undefined;
  /** Maximum length of a token, 64 ... 65_536 characters. Default 16_384. */
  readonly maxLength?: number | undefined;
  /**
   * Store of used DPoP proofs (RFC 9449 §11.1). Give a shared store if there are several processes. Default:
   * the memory of this process.
   */
  readonly records?: RecordStore | undefined;
}

export type ResolvedIssuer = Resolved<
  Omit<TrustedIssuer, 'requiredClaims' | 'roles'>,
  'algorithms' | 'requireType' | 'audienceClaim' | 'allowPrivate' | 'allowInsecure'
> & {
  readonly requiredClaims: Readonly<Record<string, unknown>>;
  readonly roles: (claims: Claims) => readonly string[];
};

export type ReaderOptions = Resolved<IssuerAuthOptions, 'optional' | 'leewaySeconds' | 'maxLength'>;
