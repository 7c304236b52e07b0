/**
 * Login of a new project: the OAuth plugin with GitHub and Google, or with the development provider.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `src/login.ts`. */
export const LOGIN: Template = () => `/**
 * Logging in: at GitHub and Google where these are configured, in development and tests at a provider that asks for no password.
 */
import { OAuthPlugin, githubProvider, googleProvider } from 'svc/oauth';
import { People } from './people.ts';
import type { HttpRequest, Svc } from 'svc';
import type { OAuthProvider } from 'svc/oauth';
import type { Client, Settings } from './settings.ts';

/** What whoever has logged in may do at the JSON interface. */
export const SCOPES: readonly string[] = ['notes:read', 'notes:write'];

/** How people log in. */
export interface Login {
  readonly plugin: OAuthPlugin;
  /** Where they can, for a page. */
  choices(req: HttpRequest): readonly LoginChoice[];
}

/** A way to log in. */
export interface LoginChoice {
  readonly name: string;
  readonly address: string;
}

/** Lets people log in. Undefined when nobody can: in production, without settings. */
export async function addLogin(app: Svc, settings: Settings): Promise<Login | undefined> {
  const { baseUrl, github, google } = settings;
  const configured = [...given(github) ? [githubProvider(github.id, github.secret)] : [], ...given(google) ? [googleProvider(google.id, google.secret)] : []];
  if (configured.length === 0 && app.env === 'production') {
    app.onStartup(() => app.log.warn('login_missing', { remedy: 'Set SVC_GITHUB_CLIENT_ID, SVC_GITHUB_CLIENT_SECRET and SVC_BASE_URL' }));
    return undefined;
  }
  const callback = (path: string): string => baseUrl === undefined ? path : new URL(path, baseUrl).href;
  const providers = configured.length > 0 ? configured : [await developmentProvider(app, callback('/oauth/callback'))];
  const paths = providers.length === 1 ? ['/oauth'] : providers.map(({ name }) => \`/oauth/\${name}\`);
  const plugin = new OAuthPlugin({
    providers,
    allowedRedirectUris: baseUrl === undefined ? [] : paths.map((path) => callback(\`\${path}/callback\`)), // without any: 127.0.0.1 and localhost, and none in production
    mode: 'cookie',
    afterLogin: '/welcome',
    scopes: SCOPES,
    enforceValidAfter: true, // revokeAll() ends access tokens, too, and those that the page has made
    limits: app.env === 'test' ? { login: false, callback: false } : {}, // tests log in more often than people
    onUser: (name, info) => new People(app.state.db).meet(name, info),
  });
  app.register(plugin);
  return {
    plugin,
    choices: (req) => providers.map(({ name }, index) => {
      const path = paths[index]!; // there is one for each
      const back = new URL(\`\${path}/callback\`, baseUrl ?? \`\${req.scheme}://\${req.host}\`).href;
      return { name, address: \`\${path}/login\${providers.length === 1 ? '' : \`?redirect_uri=\${encodeURIComponent(back)}\`}\` };
    }),
  };
}

function given({ id, secret }: Client): boolean {
  return id !== '' || secret !== ''; // one without the other is a mistake, which the provider tells of
}

/** Anybody logs in as anybody. It is imported here, so that production has no such thing. */
async function developmentProvider(app: Svc, callback: string): Promise<OAuthProvider> {
  const { DevProvider } = await import('svc/testing');
  return new DevProvider({ env: app.env, redirectUris: [callback] }).mount(app); // below /_dev/provider
}
`;
