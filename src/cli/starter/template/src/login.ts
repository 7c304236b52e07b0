/** Login with GitHub if configured; else, outside of production, test providers ask for no password. */
import { OAuthPlugin, githubProvider } from 'svc/oauth';
import { personOf, unlink } from './accounts.ts';
import type { Svc } from 'svc';
import type { OAuthProvider } from 'svc/oauth';

/** Scopes of a logged-in person in the JSON API. */
export const SCOPES: readonly string[] = ['notes:read', 'notes:write'];

export interface Login {
  readonly login: OAuthPlugin | undefined;
  /** Names of the providers. */
  readonly providers: readonly string[];
  /** Whether the providers are those of `developmentProviders()`. */
  readonly isDevelopment: boolean;
}

/** Registers the login, except in production without settings. */
export async function addLogin(app: Svc): Promise<Login> {
  const id = app.config.get('githubClientId', '');
  const secret = app.config.get('githubClientSecret', '');
  const baseUrl = app.config.get('baseUrl', undefined, {
    cast: (text) => new URL(text),
    needs: 'an address such as https://notes.example',
  });
  const isConfigured = id !== '' || secret !== ''; // githubProvider() throws if only one of the two is set
  if (!isConfigured && app.env === 'production') {
    const remedy = 'For the login, set SVC_GITHUB_CLIENT_ID, SVC_GITHUB_CLIENT_SECRET and SVC_BASE_URL';
    app.onStartup(() => app.log.warn('login_missing', { remedy }));
    return { login: undefined, providers: [], isDevelopment: false };
  }
  const urls = (...paths: string[]): string[] =>
    baseUrl === undefined ? [] : paths.map((path) => new URL(path, baseUrl).href);
  const providers = isConfigured ? [githubProvider(id, secret)] : await developmentProviders(app);
  const others = providers.slice(1).map(({ name }) => `/oauth/${name}/callback`);
  const plugin = new OAuthPlugin({
    providers,
    // an empty list allows only callbacks on this machine, and none in production
    allowedRedirectUris: urls('/oauth/callback', ...others),
    postLogoutRedirectUris: urls('/'),
    mode: 'cookie',
    errorPath: '/login', // after a failed login, and to log in again before accounts are linked
    refreshIdleTtlSeconds: 30 * 86_400, // as long as a session: the pages do not refresh tokens
    enforceValidAfter: true, // with this option, revokeAll() also revokes access tokens
    scopes: SCOPES,
    // tests log in more often than the limits allow
    limits: app.env === 'test' ? { login: false, callback: false } : {},
    onUser: (provider, info) => personOf(app.state.db, provider, info),
    // false if the account belongs to another person
    onLink: async (sub, provider, info) => (await personOf(app.state.db, provider, info, sub)) === sub,
    onUnlink: (sub, provider, subject) => unlink(app.state.db, sub, provider, subject),
  });
  app.register(plugin);
  return { login: plugin, providers: providers.map(({ name }) => name), isDevelopment: !isConfigured };
}

/** Providers that let everyone log in as any user. Imported here, so that production does not load them. */
async function developmentProviders(app: Svc): Promise<OAuthProvider[]> {
  const { DevProvider } = await import('svc/testing');
  const redirectUris = ['/oauth/callback', '/oauth/other/callback'];
  const options = { env: app.env, redirectUris, postLogoutRedirectUris: ['/'] };
  return ['dev', 'other'].map((name) => new DevProvider({ ...options, name }).mount(app, `/_dev/${name}`));
}
