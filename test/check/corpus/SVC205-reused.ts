// env: JWT_SECRET={secret} COOKIE_SECRET={secret}
/** Two variables hold one secret, so a leak of either compromises both. */
import { BearerAuth, CSRFMiddleware, Depends, Field, HTMLResponse, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Twice', trustProxy: 1, authSecret: process.env['JWT_SECRET'] });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ secrets: process.env['COOKIE_SECRET'] })); // SVC205
app.use(new CSRFMiddleware());
app.get('/', { user: Depends(requireSession(user)) }, ({ user }) => new HTMLResponse(`<h1>${user.length}</h1>`));
app.get('/api/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
