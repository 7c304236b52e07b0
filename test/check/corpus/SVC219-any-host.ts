/** A link in a mail uses the host name that the request states. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Link extends Schema {
  address = Field(str, { maxLength: 300 });
}

export const app: Svc = new Svc({ title: 'Invitations', trustProxy: 1 }); // SVC219
app.use(new SecurityHeadersMiddleware());
app.get('/link', { response: Link }, ({ req }) => ({ address: `https://${req.host}/join` }));
