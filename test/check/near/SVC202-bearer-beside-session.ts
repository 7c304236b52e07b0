// env: SVC_AUTH_SECRET={secret}
/** Reads use the session. Writes require a token that browsers do not send by themselves. */
import { BearerAuth, CSRFMiddleware, Depends, Field, HTMLResponse, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Name extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Names', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] }));
app.get('/', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${encodeURIComponent(me)}</h1>`));
app.get('/api/session', { me: Depends(requireSession(user)), response: Name }, ({ me }) => ({ name: me }));
app.put('/api/name', { me: Depends(BearerAuth()), body: Name, response: Name, description: 'Changes the name.' }, ({ me, body }) => ({ name: me.sub + body.name }));
app.put('/name', { me: Depends(requireSession(user)), body: Name, response: Name, description: 'Changes the name of the logged-in user.' }, ({ me, body }) => ({ name: me + body.name }));
