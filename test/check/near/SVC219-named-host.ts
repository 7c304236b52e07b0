/** The application names the host for which it makes a link. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, TrustedHostMiddleware, str } from 'svc';

class Link extends Schema {
  address = Field(str, { maxLength: 300 });
}

export const app: Svc = new Svc({ title: 'Invitations', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new TrustedHostMiddleware({ hosts: ['invitations.example'] }));
app.get('/link', { response: Link }, ({ req }) => ({ address: `https://${req.host}/join` }));
