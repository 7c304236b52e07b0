// env: SVC_AUTH_SECRET={secret}
/** A client may cause any number of password mails to any address. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Address extends Schema {
  email = Field(str, { email: true, maxLength: 254 });
}

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/account', { me: Depends(BearerAuth()), response: Address }, ({ me }) => ({ email: `${me.sub}@accounts.example` }));
app.put('/account', { me: Depends(BearerAuth()), body: Address, response: Address, description: 'Changes the address of the logged-in user.' }, ({ me, body }) => ({ email: me.sub === '' ? '' : body.email }));
app.post('/password/reset', { public: 'who has forgotten it cannot log in', body: Address, status: 204, description: 'Sends a link for a new password.' }, ({ body }) => { body.email.trim(); }); // SVC204
