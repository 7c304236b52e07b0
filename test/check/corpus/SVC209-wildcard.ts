// env: SVC_AUTH_SECRET={secret} GOOGLE_SECRET={secret2}
/** The list of redirect URIs has a wildcard, so any subdomain can receive the authorization code. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireScopes, str } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin, googleProvider } from 'svc/oauth';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Tenants', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./tenants.db'));
app.register(new OAuthPlugin({ // SVC209
  provider: googleProvider('tenants', process.env['GOOGLE_SECRET'] ?? ''),
  onUser: (_provider, info) => `google:${info.subject}`,
  allowedRedirectUris: ['https://*.tenants.example/oauth/callback'],
}));
app.get('/me', { me: Depends(requireScopes('read')), response: Me }, ({ me }) => ({ id: me.sub }));
