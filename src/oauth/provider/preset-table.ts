/** Addresses and peculiarities of known identity providers. */
import { textOr } from './user-info.ts';
import type { OAuthProviderOptions } from './options.ts';
import type { MappedUser } from './user-info.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

/** Options of a known provider, without name and credentials. */
export type Preset = Omit<OAuthProviderOptions, 'name' | 'clientId' | 'clientSecret'>;

function inside(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as JsonObject)[name] : undefined;
}

function idOf(value: unknown): string | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? String(value) : undefined;
}

export type PresetName =
  | 'apple'
  | 'discord'
  | 'facebook'
  | 'github'
  | 'gitlab'
  | 'google'
  | 'linkedin'
  | 'slack'
  | 'spotify'
  | 'twitch'
  | 'x';

export const PRESETS: Readonly<Record<PresetName, Preset>> = {
  /** GitHub sends errors with the status 200, and issues no id_token. */
  github: {
    // the value of `iss` in GitHub's authorization responses (RFC 9207)
    issuer: 'https://github.com/login/oauth',
    authorizeUrl: 'https://github.com/login/oauth/authorize',
    tokenUrl: 'https://github.com/login/oauth/access_token',
    userinfoUrl: 'https://api.github.com/user',
    emailsUrl: 'https://api.github.com/user/emails',
    scopes: ['read:user', 'user:email'],
    clientAuth: 'post',
    mapUser: (raw): MappedUser => ({
      subject: idOf(raw['id']),
      // GitHub does not verify this public address; client.ts replaces it by an address from `emailsUrl`
      email: textOr(raw['email'], null),
      name: textOr(raw['name'], textOr(raw['login'], null)),
      picture: textOr(raw['avatar_url'], null),
    }),
  },
  /** With `access_type=online`, Google issues no refresh token. Applications can override this parameter. */
  google: {
    issuer: 'https://accounts.google.com',
    authorizeUrl: 'https://accounts.google.com/o/oauth2/v2/auth',
    tokenUrl: 'https://oauth2.googleapis.com/token',
    userinfoUrl: 'https://openidconnect.googleapis.com/v1/userinfo',
    jwksUrl: 'https://www.googleapis.com/oauth2/v3/certs',
    clientAuth: 'post',
    authorizeParams: { access_type: 'online' },
  },
  /**
   * Apple makes the browser post the authorization response as a form, with the user's name only at the first
   * login. It sends `email_verified` as text.
   */
  apple: {
    issuer: 'https://appleid.apple.com',
    authorizeUrl: 'https://appleid.apple.com/auth/authorize',
    tokenUrl: 'https://appleid.apple.com/auth/token',
    jwksUrl: 'https://appleid.apple.com/auth/keys',
    scopes: ['openid', 'name', 'email'],
    clientAuth: 'post',
    authorizeParams: { response_mode: 'form_post' },
    acceptsTextVerified: true,
    acceptsPostedName: true,
  },
  gitlab: {
    issuer: 'https://gitlab.com',
    clientAuth: 'post',
  },
  /** Discord has no OpenID Connect. `avatar` is a hash, from which the picture's URL is built. */
  discord: {
    authorizeUrl: 'https://discord.com/oauth2/authorize',
    tokenUrl: 'https://discord.com/api/oauth2/token',
    userinfoUrl: 'https://discord.com/api/users/@me',
    scopes: ['identify', 'email'],
    clientAuth: 'post',
    mapUser: (raw): MappedUser => {
      const [subject, avatar] = [textOr(raw['id'], undefined), textOr(raw['avatar'], undefined)];
      return {
        subject,
        email: textOr(raw['email'], null),
        emailVerified: raw['verified'] === true,
        name: textOr(raw['global_name'], textOr(raw['username'], null)),
        picture:
          subject === undefined || avatar === undefined || !/^\w+$/.test(avatar)
            ? null
            : `https://cdn.discordapp.com/avatars/${encodeURIComponent(subject)}/${avatar}.png`,
      };
    },
  },
  /** Facebook has no OpenID Connect for servers, and does not say whether the e-mail is verified. */
  facebook: {
    authorizeUrl: 'https://www.facebook.com/v23.0/dialog/oauth',
    tokenUrl: 'https://graph.facebook.com/v23.0/oauth/access_token',
    userinfoUrl: 'https://graph.facebook.com/v23.0/me?fields=id,name,email,picture',
    scopes: ['email', 'public_profile'],
    clientAuth: 'post',
    mapUser: (raw): MappedUser => ({
      subject: textOr(raw['id'], undefined),
      email: textOr(raw['email'], null),
      emailVerified: false,
      name: textOr(raw['name'], null),
      picture: textOr(inside(inside(raw['picture'], 'data'), 'url'), null),
    }),
  },
  /** LinkedIn supports neither a nonce nor PKCE for clients with a secret. `email_verified` may be text. */
  linkedin: {
    issuer: 'https://www.linkedin.com/oauth',
    authorizeUrl: 'https://www.linkedin.com/oauth/v2/authorization',
    tokenUrl: 'https://www.linkedin.com/oauth/v2/accessToken',
    userinfoUrl: 'https://api.linkedin.com/v2/userinfo',
    jwksUrl: 'https://www.linkedin.com/oauth/openid/jwks',
    clientAuth: 'post',
    usesNonce: false,
    usesPkce: false,
    acceptsTextVerified: true,
  },
  /** X has no OpenID Connect. E-mails, always verified, need the scope `users.email`. */
  x: {
    authorizeUrl: 'https://x.com/i/oauth2/authorize',
    tokenUrl: 'https://api.x.com/2/oauth2/token',
    userinfoUrl: 'https://api.x.com/2/users/me?user.fields=confirmed_email,profile_image_url',
    scopes: ['tweet.read', 'users.read'],
    clientAuth: 'basic',
    mapUser: ({ data }): MappedUser => {
      const email = textOr(inside(data, 'confirmed_email'), null);
      return {
        subject: textOr(inside(data, 'id'), undefined),
        email,
        emailVerified: email !== null,
        name: textOr(inside(data, 'name'), textOr(inside(data, 'username'), null)),
        picture: textOr(inside(data, 'profile_image_url'), null),
      };
    },
  },
  slack: {
    issuer: 'https://slack.com',
    authorizeUrl: 'https://slack.com/openid/connect/authorize',
    tokenUrl: 'https://slack.com/api/openid.connect.token',
    userinfoUrl: 'https://slack.com/api/openid.connect.userInfo',
    jwksUrl: 'https://slack.com/openid/connect/keys',
    clientAuth: 'post',
  },
  /**
   * Twitch sends most claims only on request, has the name in `preferred_username`, and sends scopes as a
   * list.
   */
  twitch: {
    issuer: 'https://id.twitch.tv/oauth2',
    authorizeUrl: 'https://id.twitch.tv/oauth2/authorize',
    tokenUrl: 'https://id.twitch.tv/oauth2/token',
    userinfoUrl: 'https://id.twitch.tv/oauth2/userinfo',
    jwksUrl: 'https://id.twitch.tv/oauth2/keys',
    scopes: ['openid', 'user:read:email'],
    clientAuth: 'post',
    authorizeParams: {
      claims:
        '{"id_token":{"email":null,"email_verified":null},"userinfo":{"email":null,"email_verified":null,"picture":null,"preferred_username":null}}',
    },
    mapUser: (raw): MappedUser => ({
      subject: textOr(raw['sub'], undefined),
      email: textOr(raw['email'], null),
      emailVerified: raw['email_verified'] === true,
      name: textOr(raw['preferred_username'], null),
      picture: textOr(raw['picture'], null),
    }),
  },
  /** Spotify has no OpenID Connect, and does not verify the e-mail. */
  spotify: {
    authorizeUrl: 'https://accounts.spotify.com/authorize',
    tokenUrl: 'https://accounts.spotify.com/api/token',
    userinfoUrl: 'https://api.spotify.com/v1/me',
    scopes: ['user-read-email'],
    clientAuth: 'basic',
    mapUser: (raw): MappedUser => ({
      subject: textOr(raw['id'], undefined),
      email: textOr(raw['email'], null),
      emailVerified: false,
      name: textOr(raw['display_name'], null),
      picture: textOr(inside(Array.isArray(raw['images']) ? raw['images'][0] : undefined, 'url'), null),
    }),
  },
};
