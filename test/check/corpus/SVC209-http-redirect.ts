// env: SVC_ENV=production SVC_AUTH_SECRET={secret} GITHUB_SECRET={secret2}
/** The redirect URI of the login has no TLS, so other machines can read the authorization code. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireScopes, str } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin, githubProvider } from 'svc/oauth';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Gallery', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./gallery.db'));
app.register(new OAuthPlugin({ // SVC209
  provider: githubProvider('gallery', process.env['GITHUB_SECRET'] ?? ''),
  onUser: (_provider, info) => `github:${info.subject}`,
  allowedRedirectUris: ['https://gallery.example/oauth/callback', 'http://gallery.example/oauth/callback'],
  scopes: ['read'],
}));
app.get('/me', { me: Depends(requireScopes('read')), response: Me }, ({ me }) => ({ id: me.sub }));
