// env: SVC_AUTH_SECRET={secret}
/** One response schema of several statuses has a field with a secret. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, reply, requireScopes, str } from 'svc';

class Order extends Schema {
  label = Field(str, { minLength: 1, maxLength: 40 });
}
class Queued extends Schema {
  label = Field(str, { maxLength: 40 });
}
class Client extends Schema {
  label = Field(str, { maxLength: 40 });
  secret = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Clients', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/clients/{label}', { me: Depends(requireScopes('clients')), response: Queued }, ({ me, params }) => ({ label: `${params.label} of ${me.sub}` }));
app.put('/clients/{label}', { me: Depends(requireScopes('clients')), body: Order, response: { 200: Client, 202: Queued }, description: 'Makes a client.' }, ({ me, body }) => me.sub === '' ? reply({ label: body.label }, 202) : reply({ label: body.label, secret: me.sub }, 200)); // SVC302
