/**
 * Functions that create providers: one for each entry of preset-table.ts, and one for each product with
 * installations at own addresses.
 */
import { createPrivateKey } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { signedToken } from './client-assertion.ts';
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
export type { ClientKey } from './client-assertion.ts';
export { type MappedUser, type UserInfo } from './user-info.ts';

/** Options that override a preset's own. */
export type PresetOptions = Omit<Partial<OAuthProviderOptions>, 'clientId' | 'clientSecret'>;

/**
 * Creates a provider from client id, client secret and options that override the preset's own.
 * @throws SvcError `E_OAUTH_PROVIDER`
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
  // an option that is undefined counts as not given
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return new OAuthProvider({ name, ...preset, ...given, clientId, clientSecret });
}

function presetOf(name: PresetName): ProviderPreset {
  return (clientId, clientSecret, options) => made(name, PRESETS[name], clientId, clientSecret, options);
}

/**
 * GitHub, as `github`. Subject: the numeric id as text, because login names can change owners. E-mail: the
 * primary address if GitHub has verified it. Server installations: give `issuer`, `authorizeUrl`, `tokenUrl`,
 * `userinfoUrl`, `emailsUrl`.
 */
export const githubProvider: ProviderPreset = presetOf('github');
/** Google, as `google`. Subject: `sub`. Only the keys are fetched besides the login itself. */
export const googleProvider: ProviderPreset = presetOf('google');
/** GitLab, as `gitlab`. For your own installation give `issuer`. */
export const gitlabProvider: ProviderPreset = presetOf('gitlab');
/** Discord, as `discord`. `emailVerified` as Discord says. */
export const discordProvider: ProviderPreset = presetOf('discord');
/** Facebook, as `facebook`. E-mails are never verified, and users may have none. */
export const facebookProvider: ProviderPreset = presetOf('facebook');
/** LinkedIn, as `linkedin`. It supports neither nonce nor PKCE, which is a finding. */
export const linkedinProvider: ProviderPreset = presetOf('linkedin');
/** X, formerly Twitter, as `x`. Without the scope `users.email` there is no e-mail. */
export const xProvider: ProviderPreset = presetOf('x');
/** Slack, as `slack` (Sign in with Slack). */
export const slackProvider: ProviderPreset = presetOf('slack');
/** Twitch, as `twitch`. */
export const twitchProvider: ProviderPreset = presetOf('twitch');
/** Spotify, as `spotify`. E-mails are never verified. */
export const spotifyProvider: ProviderPreset = presetOf('spotify');

/**
 * Any OpenID Connect provider, by its issuer; the endpoints are discovered. `options.name` is its name, by
 * default `oidc`.
 * @throws SvcError `E_OAUTH_PROVIDER`
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
 * Auth0, as `auth0`. `domain`: `tenant.eu.auth0.com`, or your own domain. The issuer ends in a slash.
 * @throws SvcError `E_OAUTH_PROVIDER`
 */
export function auth0Provider(
  domain: string,
  clientId: string,
  clientSecret: string,
  options?: PresetOptions,
): OAuthProvider {
  return made('auth0', { issuer: `https://${hostOf('auth0', domain)}/` }, clientId, clientSecret, options);
}

/**
 * Keycloak, as `keycloak`. `baseUrl`: `https://id.example`; for old versions with `/auth`.
 * @throws SvcError `E_OAUTH_PROVIDER`
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
 * Okta, as `okta`. `server`: id of the authorization server, by default `default`; empty for the
 * organization's own.
 * @throws SvcError `E_OAUTH_PROVIDER`
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
 * Amazon Cognito, as `cognito`. `poolId`: `eu-central-1_AbCdEfGhI`, which starts with the region.
 * `email_verified` is text.
 * @throws SvcError `E_OAUTH_PROVIDER`
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
      'the poolId is not of the form eu-central-1_AbCdEfGhI',
    ]);
  const issuer = `https://cognito-idp.${region}.amazonaws.com/${poolId}`;
  return made('cognito', { issuer, acceptsTextVerified: true }, clientId, clientSecret, options);
}

/** Account types: work and school, personal, or both. */
const AUDIENCES: ReadonlySet<string> = new Set(['common', 'organizations', 'consumers']);
/** Tenant of all personal accounts. */
const PERSONAL = '9188040d-6c67-4c5b-b112-36a304b66dad';

/**
 * Microsoft Entra, as `microsoft`. `tenant`: the GUID of one tenant; or `organizations`, `consumers` or
 * `common` for many, which `tenants` may restrict. Subject: `sub`, which is specific to this client;
 * `raw.tid` and `raw.oid` identify the user elsewhere. An e-mail is verified only if the claim `xms_edov`
 * says so: an administrator of any tenant can write any address.
 *
 * @throws SvcError `E_OAUTH_PROVIDER`
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
      'the tenant is neither a lower-case GUID nor common, organizations or consumers',
    ]);
  const base = `https://login.microsoftonline.com/${tenant}`;
  const preset: Preset = {
    issuer: `https://login.microsoftonline.com/${!isOne ? TENANT : tenant === 'consumers' ? PERSONAL : tenant}/v2.0`,
    authorizeUrl: `${base}/oauth2/v2.0/authorize`,
    tokenUrl: `${base}/oauth2/v2.0/token`,
    jwksUrl: `${base}/discovery/v2.0/keys`,
    userinfoUrl: 'https://graph.microsoft.com/oidc/userinfo',
    scopes: ['openid', 'email', 'profile'],
    clientAuth: 'post',
    mapUser: microsoftUser,
  };
  return made('microsoft', preset, clientId, clientSecret, options);
}

/** The picture needs an access token, so it is omitted. */
function microsoftUser(raw: Readonly<Record<string, unknown>>): MappedUser {
  const verified = raw['xms_edov'];
  return {
    subject: textOr(raw['sub'], undefined),
    email: textOr(raw['email'], null),
    emailVerified: verified === true || verified === 1 || verified === '1' || verified === 'true',
    name: textOr(raw['name'], null),
  };
}

/** Key of Sign in with Apple. */
export interface AppleKey {
  readonly teamId: string;
  readonly keyId: string;
  /** Content of the `.p8` file: PKCS #8 in PEM, on P-256. */
  readonly privateKey: string;
}

/** Lifetime of a client secret for Apple. Each call makes a new one. */
const APPLE_SECRET_SECONDS = 300;

/**
 * Sign in with Apple, as `apple`. Each call makes its client secret from the key, so no secret has to be
 * renewed. `clientId`: the Services ID. The name comes only with a user's first login: store it in `onUser`,
 * and do not match users by it.
 *
 * @throws SvcError `E_OAUTH_PROVIDER`
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
    throw new SvcError('E_OAUTH_PROVIDER', ['apple', 'the teamId or keyId is not ten letters and digits']);
  let key: KeyObject | undefined;
  try {
    key = createPrivateKey(privateKey);
  } catch {
    /* without the cause, whose message may contain the key */
  }
  if (key?.asymmetricKeyDetails?.namedCurve !== 'prime256v1')
    throw new SvcError('E_OAUTH_PROVIDER', [
      'apple',
      'the privateKey is not the text of a .p8 file: a key on P-256',
    ]);
  return key;
}

/** @throws SvcError `E_OAUTH_PROVIDER` for an invalid host name */
function hostOf(name: string, domain: string): string {
  if (!/^[a-z\d-]+(?:\.[a-z\d-]+)+$/.test(domain))
    throw new SvcError('E_OAUTH_PROVIDER', [
      name,
      'the domain is not a host name such as tenant.example.com',
    ]);
  return domain;
}
