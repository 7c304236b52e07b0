// env: SVC_AUTH_SECRET={secret}
/** The CORS middleware is registered after the session and its CSRF check. */
import { CORSMiddleware, CSRFMiddleware, Depends, Field, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Name extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Names', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ trustedOrigins: ['https://names.example'] }));
app.use(new CORSMiddleware({ origins: ['https://names.example'], credentials: true })); // SVC121
app.get('/name', { me: Depends(requireSession(user)), response: Name }, ({ me }) => ({ name: me }));
app.put('/name', { me: Depends(requireSession(user)), body: Name, response: Name, description: 'Changes the name.' }, ({ me, body }) => ({ name: me + body.name }));
