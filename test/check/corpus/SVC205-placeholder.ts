/** The secret is the placeholder of the tutorial. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Tutorial', trustProxy: 1, authSecret: 'your-256-bit-secret-your-256-bit-secret' }); // SVC205
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
