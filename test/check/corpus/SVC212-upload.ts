// env: SVC_AUTH_SECRET={secret}
/** A form accepts files of any size. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, file, int, str } from 'svc';

class Stored extends Schema {
  bytes = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Drive', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.post('/pictures', { me: Depends(BearerAuth()), form: { picture: Field(file, { maxLength: 5_000_000, contentTypes: ['image/png'] }) }, response: Stored, description: 'Keeps a picture.' }, ({ me, form }) => ({ bytes: form.picture.size + me.sub.length }));
app.post('/documents', { me: Depends(BearerAuth()), form: { title: Field(str, { maxLength: 100 }), document: Field(file) }, response: Stored, description: 'Keeps a document.' }, ({ me, form }) => ({ bytes: form.document.size + me.sub.length })); // SVC212
