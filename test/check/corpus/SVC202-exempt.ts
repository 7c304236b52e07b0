// env: SVC_AUTH_SECRET={secret}
/** The CSRF exemption for API clients also covers a route that browsers use. */
import { BearerAuth, CSRFMiddleware, Depends, Field, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Name extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Names', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] }));
app.put('/name', { me: Depends(requireSession(user)), body: Name, response: Name, description: 'Changes the name.' }, ({ me, body }) => ({ name: me + body.name }));
app.put('/api/name', { me: Depends(BearerAuth()), body: Name, response: Name, description: 'Changes the name for programs.' }, ({ me, body }) => ({ name: me.sub + body.name }));
app.put('/api/nickname', { me: Depends(requireSession(user)), body: Name, response: Name, description: 'Changes the nickname.' }, ({ me, body }) => ({ name: me + body.name })); // SVC202
