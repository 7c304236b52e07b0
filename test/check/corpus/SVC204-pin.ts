/** A client may try any number of PINs. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Pin extends Schema {
  pin = Field(str, { minLength: 4, maxLength: 6, secret: true });
}

export const app: Svc = new Svc({ title: 'Doors', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/doors/{id:int}/unlock', { public: 'the PIN is the credential', body: Pin, status: 204, description: 'Unlocks a door.' }, ({ body }) => { body.pin.trim(); }); // SVC204
