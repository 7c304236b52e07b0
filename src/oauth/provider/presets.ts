/**
 * Identity providers by name: two presets, whose quirks are data here and nowhere else.
 *
 *   GitHub   numeric id; e-mail addresses at an endpoint of their own; errors with status 200; no id_token
 *   Google   OpenID Connect with published endpoints; `access_type` says whether a refresh token is wanted: it is not
 */
import { OAuthProvider } from './options.ts';
import { textOr } from './user-info.ts';
import type { OAuthProviderOptions } from './options.ts';
import type { MappedUser } from './user-info.ts';

export { OAuthProvider, type IdTokenAlgorithm, type OAuthProviderOptions } from './options.ts';
export { type MappedUser, type UserInfo } from './user-info.ts';

/** What a preset may be given beside its credentials: any option, in place of the preset's own. */
export type PresetOptions = Omit<Partial<OAuthProviderOptions>, 'clientId' | 'clientSecret'>;

/**
 * GitHub, as `github`. Subject: the numeric id as text, for logins can be renamed and taken by others. E-mail: the primary
 * one if GitHub has verified it. Server installations: give `issuer`, `authorizeUrl`, `tokenUrl`, `userinfoUrl`, `emailsUrl`.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an empty id or secret
 */
export function githubProvider(
  clientId: string,
  clientSecret: string,
  options: PresetOptions = {},
): OAuthProvider {
  return new OAuthProvider({
    name: 'github',
    issuer: 'https://github.com/login/oauth', // what GitHub sends as `iss` when it does (RFC 9207)
    authorizeUrl: 'https://github.com/login/oauth/authorize',
    tokenUrl: 'https://github.com/login/oauth/access_token',
    userinfoUrl: 'https://api.github.com/user',
    emailsUrl: 'https://api.github.com/user/emails',
    scopes: ['read:user', 'user:email'],
    clientAuth: 'post',
    mapUser: githubUser,
    ...defined(options),
    clientId,
    clientSecret,
  });
}

/**
 * Google, as `google`. Subject: `sub`. Its endpoints are Google's published ones, so that only the keys are fetched besides
 * the login itself.
 *
 * @throws SvcError `E_OAUTH_PROVIDER` for an empty id or secret
 */
export function googleProvider(
  clientId: string,
  clientSecret: string,
  options: PresetOptions = {},
): OAuthProvider {
  return new OAuthProvider({
    name: 'google',
    issuer: 'https://accounts.google.com',
    authorizeUrl: 'https://accounts.google.com/o/oauth2/v2/auth',
    tokenUrl: 'https://oauth2.googleapis.com/token',
    userinfoUrl: 'https://openidconnect.googleapis.com/v1/userinfo',
    jwksUrl: 'https://www.googleapis.com/oauth2/v3/certs',
    scopes: ['openid', 'email', 'profile'],
    clientAuth: 'post',
    authorizeParams: { access_type: 'online' },
    ...defined(options),
    clientId,
    clientSecret,
  });
}

function githubUser(raw: Readonly<Record<string, unknown>>): MappedUser {
  const id = raw['id'];
  return {
    subject: Number.isSafeInteger(id) && (id as number) > 0 ? String(id) : undefined,
    email: textOr(raw['email'], null), // the public one, if any: not vouched for, and replaced by the e-mail endpoint's
    name: textOr(raw['name'], textOr(raw['login'], null)),
    picture: textOr(raw['avatar_url'], null),
  };
}

/** Without members that are undefined, which mean not given. */
function defined(options: PresetOptions): PresetOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
