/**
 * Login: at GitHub where that is configured, in development and tests at a provider that asks for no password.
 */
import { OAuthPlugin, githubProvider } from 'svc/oauth';
import type { Svc } from 'svc';
import type { OAuthProvider } from 'svc/oauth';

/** The rights of a person at the JSON interface. */
export const SCOPES: readonly string[] = ['notes:read', 'notes:write'];

/** Registers the login. Returns undefined in production without settings, where people cannot log in. */
export async function addLogin(app: Svc): Promise<OAuthPlugin | undefined> {
  const id = app.config.get('githubClientId', '');
  const secret = app.config.get('githubClientSecret', '');
  const baseUrl = app.config.get('baseUrl', undefined, {
    cast: (text) => new URL(text),
    needs: 'an address such as https://notes.example',
  });
  const isConfigured = id !== '' || secret !== ''; // one without the other is an error of the provider
  if (!isConfigured && app.env === 'production') {
    const remedy = 'Set SVC_GITHUB_CLIENT_ID, SVC_GITHUB_CLIENT_SECRET and SVC_BASE_URL';
    app.onStartup(() => app.log.warn('login_missing', { remedy }));
    return undefined;
  }
  const callback = baseUrl === undefined ? undefined : new URL('/oauth/callback', baseUrl).href;
  const plugin = new OAuthPlugin({
    provider: isConfigured ? githubProvider(id, secret) : await developmentProvider(app, callback),
    allowedRedirectUris: callback === undefined ? [] : [callback], // without any: this machine, and none in production
    mode: 'cookie',
    accessTtlSeconds: 86_400,
    enforceValidAfter: true, // revokeAll() ends access tokens, too
    scopes: SCOPES,
    limits: app.env === 'test' ? { login: false, callback: false } : {}, // tests log in more often than people
    onUser: (provider, { subject, name }) => ({
      sub: `${provider}:${subject}`,
      claims: { name: name ?? subject },
    }),
  });
  app.register(plugin);
  return plugin;
}

/** Lets everyone log in as anyone. It is imported here, so that production does not have it. */
async function developmentProvider(app: Svc, callback = '/oauth/callback'): Promise<OAuthProvider> {
  const { DevProvider } = await import('svc/testing');
  return new DevProvider({ env: app.env, redirectUris: [callback] }).mount(app); // below /_dev/provider
}
