// env: SVC_AUTH_SECRET={secret}
/** Reading the list requires a login. Adding to the list requires none. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Guest extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Guests', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/guests', { me: Depends(BearerAuth()), response: list(Guest) }, ({ me }) => [{ name: me.sub }]);
app.post('/guests', { public: 'guests put themselves on the list', body: Guest, response: Guest, status: 201, description: 'Adds a guest.' }, ({ body }) => ({ name: body.name })); // SVC203
app.post('/wishes', { public: 'everybody may wish', body: Guest, response: Guest, status: 201, description: 'Adds a wish.' }, ({ body }) => ({ name: body.name }));
