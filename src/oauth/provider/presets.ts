/**
 * Functions that create providers: one for each entry of preset-table.ts, and one for each product whose
 * address differs between customers.
 */
import { createPrivateKey } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { defined } from '../../base/options.ts';
import { signedToken } from '../../crypto/jws.ts';
import { pemText } from '../../crypto/keys.ts';
import { OAuthProvider } from './options.ts';
import { PRESETS } from './preset-table.ts';
import { GUID, TENANT } from './option-types.ts';
import { textOr } from './user-info.ts';
import type { KeyObject } from 'node:crypto';
import type { ClientSecretMaker, OAuthProviderOptions } from './options.ts';
import type { Preset, PresetName } from './preset-table.ts';
import type { MappedUser } from './user-info.ts';

export {
  OAuthProvider,
  type ClientSecretMaker,
  type IdTokenAlgorithm,
  type OAuthProviderOptions,
} from './options.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';
export type { ClientKey } from './client-assertion.ts';
export { type MappedUser, type UserInfo } from './user-info.ts';

/** Options of a function such as githubProvider(). They replace the known values of that provider. */
export type PresetOptions = Omit<Partial<OAuthProviderOptions>, 'clientId' | 'clientSecret'>;

/**
 * Function that creates a provider from a client id, a client secret and options. The options replace the
 * known values of that provider.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for options that do not fit together
 */
export type ProviderPreset = (
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
) => OAuthProvider;

function made(
  name: string,
  preset: Preset,
  clientId: string,
  clientSecret: string | ClientSecretMaker,
  options: PresetOptions = {},
): OAuthProvider {
  // an option that is undefined does not replace a known value of the provider
  return new OAuthProvider({ name, ...preset, ...defined(options), clientId, clientSecret });
}

function presetOf(name: PresetName): ProviderPreset {
  return (clientId, clientSecret, options) => made(name, PRESETS[name], clientId, clientSecret, options);
}

/**
 * GitHub, named `github`. The subject is the numeric id as text, because login names can change owners. The
 * e-mail is the primary address if GitHub has verified it. A GitHub server of your own needs the options
 * `issuer`, `authorizeUrl`, `tokenUrl`, `userinfoUrl`, `emailsUrl`.
 */
export const githubProvider: ProviderPreset = presetOf('github');
/**
 * Google, named `google`. The subject is the claim `sub`.
 */
export const googleProvider: ProviderPreset = presetOf('google');
/** GitLab, named `gitlab`. A GitLab server of your own needs the option `issuer`. */
export const gitlabProvider: ProviderPreset = presetOf('gitlab');
/** Discord, named `discord`. Discord says whether the e-mail is verified. */
export const discordProvider: ProviderPreset = presetOf('discord');
/** Facebook, named `facebook`. E-mails count as not verified, and users may have none. */
export const facebookProvider: ProviderPreset = presetOf('facebook');
/** LinkedIn, named `linkedin`. It supports neither nonce nor PKCE, which `svc check` reports. */
export const linkedinProvider: ProviderPreset = presetOf('linkedin');
/** X, formerly Twitter, named `x`. There is no e-mail without the scope `users.email`. */
export const xProvider: ProviderPreset = presetOf('x');
/** Sign in with Slack, named `slack`. */
export const slackProvider: ProviderPreset = presetOf('slack');
/** Twitch, named `twitch`. */
export const twitchProvider: ProviderPreset = presetOf('twitch');
/** Spotify, named `spotify`. E-mails count as not verified. */
export const spotifyProvider: ProviderPreset = presetOf('spotify');

/**
 * Any OpenID Connect provider. Discovery finds its endpoints by the issuer. The name of the provider is
 * `options.name`, by default `oidc`.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for options that do not fit together
 */
export function oidcProvider(
  issuer: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  return made('oidc', { issuer }, clientId, clientSecret, options);
}

/**
 * Auth0, named `auth0`. `domain` is `tenant.eu.auth0.com`, for example, or your own domain.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid domain, or for options that do not fit together
 */
export function auth0Provider(
  domain: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  const base = `https://${hostOf('auth0', domain)}`;
  // tenants of before November 2023 do not announce their logout page in discovery
  const preset = { issuer: `${base}/`, endSessionUrl: `${base}/oidc/logout` };
  return made('auth0', preset, clientId, clientSecret, options);
}

/**
 * Keycloak, named `keycloak`. `baseUrl` is `https://id.example`, for example. Before Keycloak 17, it ends in
 * `/auth`.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid URL, or for options that do not fit together
 */
export function keycloakProvider(
  baseUrl: string,
  realm: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  const issuer = `${baseUrl.replace(/\/$/, '')}/realms/${encodeURIComponent(realm)}`;
  return made('keycloak', { issuer }, clientId, clientSecret, options);
}

/**
 * Okta, named `okta`. `server` is the id of the authorization server, by default `default`. An empty text
 * means the server of the organization.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid domain, or for options that do not fit together
 */
export function oktaProvider(
  domain: string,
  clientId: string,
  clientSecret: string,
  { server = 'default', ...options }: PresetOptions & { readonly server?: string | undefined } = {},
): OAuthProvider {
  const path = server === '' ? '' : `/oauth2/${encodeURIComponent(server)}`;
  return made(
    'okta',
    { issuer: `https://${hostOf('okta', domain)}${path}` },
    clientId,
    clientSecret,
    options,
  );
}

/**
 * Amazon Cognito, named `cognito`. `poolId` is the id of the user pool, which begins with the region, such as
 * `eu-central-1_AbCdEfGhI`.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid pool id, or for options that do not fit together
 */
export function cognitoProvider(
  poolId: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  const region = /^([a-z]{2}(?:-[a-z]+)+-\d+)_[A-Za-z0-9]+$/.exec(poolId)?.[1];
  if (region === undefined)
    throw new SvcError('E_OAUTH_PROVIDER', [
      'cognito',
      'the poolId must have the form "eu-central-1_AbCdEfGhI"',
    ]);
  const issuer = `https://cognito-idp.${region}.amazonaws.com/${poolId}`;
  // Cognito sends `email_verified` as text, and its logout page has another parameter for the address
  const preset = { issuer, acceptsTextVerified: true, postLogoutName: 'logout_uri' };
  return made('cognito', preset, clientId, clientSecret, options);
}

/** Values of `tenant` for several tenants: all accounts, work and school accounts, and personal accounts. */
const AUDIENCES: ReadonlySet<string> = new Set(['common', 'organizations', 'consumers']);
/** Id of the tenant to which all personal accounts belong. */
const PERSONAL = '9188040d-6c67-4c5b-b112-36a304b66dad';

/**
 * Microsoft Entra, named `microsoft`. `tenant` is the GUID of one tenant. For many tenants, it is
 * `organizations`, `consumers` or `common`, and the option `tenants` may restrict them.
 *
 * The subject is the claim `sub`, which differs between clients. Together, `raw.tid` and `raw.oid` identify
 * the user for every client. An e-mail counts as verified only with the claim `xms_edov`, because any
 * tenant's administrator can enter any address.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid tenant, or for options that do not fit together
 */
export function microsoftProvider(
  tenant: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  const isOne = GUID.test(tenant) || tenant === 'consumers';
  if (!isOne && !AUDIENCES.has(tenant))
    throw new SvcError('E_OAUTH_PROVIDER', [
      'microsoft',
      'the tenant must be a lower-case GUID, or one of "common", "organizations" and "consumers"',
    ]);
  const base = `https://login.microsoftonline.com/${tenant}`;
  const preset: Preset = {
    issuer: `https://login.microsoftonline.com/${!isOne ? TENANT : tenant === 'consumers' ? PERSONAL : tenant}/v2.0`,
    authorizeUrl: `${base}/oauth2/v2.0/authorize`,
    tokenUrl: `${base}/oauth2/v2.0/token`,
    jwksUrl: `${base}/discovery/v2.0/keys`,
    userinfoUrl: 'https://graph.microsoft.com/oidc/userinfo',
    endSessionUrl: `${base}/oauth2/v2.0/logout`,
    clientAuth: 'post',
    mapUser: microsoftUser,
  };
  return made('microsoft', preset, clientId, clientSecret, options);
}

/** Converts the claims of Microsoft Entra. A picture would require an access token. */
function microsoftUser(raw: JsonObject): MappedUser {
  const verified = raw['xms_edov'];
  return {
    subject: textOr(raw['sub'], undefined),
    email: textOr(raw['email'], null),
    emailVerified: verified === true || verified === 1 || verified === '1' || verified === 'true',
    name: textOr(raw['name'], null),
  };
}

/** Private key for Sign in with Apple. */
export interface AppleKey {
  readonly teamId: string;
  readonly keyId: string;
  /** Content of the `.p8` file: a P-256 key in PEM (PKCS #8). The text `\n` may stand for its line breaks. */
  readonly privateKey: string;
}

/** Lifetime of a client secret for Apple in seconds. Each call creates a new secret. */
const APPLE_SECRET_SECONDS = 300;

/**
 * Sign in with Apple, named `apple`. `clientId` is the Services ID. Each call to Apple creates its client
 * secret from the key, so the secret needs no renewal.
 *
 * Apple sends the name only at a user's first login, so store it in `onUser`. Do not match users by their
 * names.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an invalid key, or for options that do not fit together
 */
export function appleProvider(clientId: string, key: AppleKey, options?: PresetOptions): OAuthProvider {
  const privateKey = appleKeyOf(key);
  const secretOf: ClientSecretMaker = (nowSeconds) =>
    signedToken(
      privateKey,
      { alg: 'ES256', kid: key.keyId },
      {
        iss: key.teamId,
        iat: nowSeconds,
        exp: nowSeconds + APPLE_SECRET_SECONDS,
        aud: PRESETS.apple.issuer,
        sub: clientId,
      },
    );
  return made('apple', PRESETS.apple, clientId, secretOf, options);
}

function appleKeyOf({ teamId, keyId, privateKey }: AppleKey): KeyObject {
  if (![teamId, keyId].every((id) => typeof id === 'string' && /^[A-Z0-9]{10}$/.test(id)))
    throw new SvcError('E_OAUTH_PROVIDER', [
      'apple',
      'the teamId and the keyId must each consist of ten capital letters and digits',
    ]);
  let key: KeyObject | undefined;
  try {
    key = createPrivateKey(pemText(privateKey));
  } catch {
    /** the error is not kept as `cause`, because its message may contain the key */
  }
  if (key?.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new SvcError('E_OAUTH_PROVIDER', [
      'apple',
      'the privateKey must be the content of a .p8 file with a P-256 key',
    ]);
  return key;
}

function hostOf(name: string, domain: string): string {
  if (!/^[a-z\d-]+(?:\.[a-z\d-]+)+$/.test(domain))
    throw new SvcError('E_OAUTH_PROVIDER', [
      name,
      'the domain must be a lower-case host name such as tenant.example.com',
    ]);
  return domain;
}
