/** The secret is too short. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Short', trustProxy: 1, authSecret: 'hunter2hunter2' }); // SVC205
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
app.get('/version', { response: Me }, () => ({ id: '1' }));
