// env: SVC_AUTH_SECRET={secret} GITHUB_SECRET={secret2}
/** The rate limits of the OAuth plugin are switched off. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireScopes, str } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin, githubProvider } from 'svc/oauth';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Gallery', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./gallery.db'));
app.register(new OAuthPlugin({ // SVC204
  provider: githubProvider('gallery', process.env['GITHUB_SECRET'] ?? ''),
  onUser: (_provider, info) => `github:${info.subject}`,
  allowedRedirectUris: ['https://gallery.example/oauth/callback'],
  scopes: ['read'],
  limits: { login: false, token: false },
}));
app.get('/me', { me: Depends(requireScopes('read')), response: Me }, ({ me }) => ({ id: me.sub }));
