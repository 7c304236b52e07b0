// env: SVC_AUTH_SECRET=changeme-changeme-changeme-changeme // SVC205
/** The environment variable holds the placeholder of the example. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Example', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
