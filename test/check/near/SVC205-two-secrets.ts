// env: SVC_AUTH_SECRET={secret} COOKIE_SECRET={secret2}
/** Each purpose has its own secret from the environment, and one secret is a list for rotation. */
import { BearerAuth, CSRFMiddleware, Depends, Field, HTMLResponse, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Me extends Schema {
  id = Field(str, { maxLength: 80, example: 'changeme' });
}

export const app: Svc = new Svc({ title: 'Two', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ secrets: [process.env['COOKIE_SECRET'] ?? ''] }));
app.use(new CSRFMiddleware());
app.get('/', { user: Depends(requireSession(user)) }, ({ user }) => new HTMLResponse(`<h1>${user.length}</h1>`));
app.get('/api/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
