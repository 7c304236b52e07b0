// env: SVC_AUTH_SECRET={secret}
/** The form has a schema, and DELETE reads no body. */
import { BearerAuth, Depends, Field, RedirectResponse, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Tag extends Schema {
  label = Field(str, { minLength: 1, maxLength: 40 });
}

export const app: Svc = new Svc({ title: 'Tags', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/tags', { me: Depends(BearerAuth()), form: { label: Field(str, { minLength: 1, maxLength: 40 }) }, description: 'Adds a tag.' }, ({ me, form }) => new RedirectResponse(`/tags#${me.sub.length + form.label.length}`, { status: 303 }));
app.put('/tags', { me: Depends(BearerAuth()), body: list(Tag, {}), response: list(Tag), allow: [{ rule: 'SVC304', reason: 'maxBodyBytes is its bound' }], description: 'Replaces all tags.' }, ({ me, body }) => body.filter((tag) => tag.label !== me.sub));
app.delete('/tags/{label}', { me: Depends(BearerAuth()), status: 204, description: 'Removes a tag.' }, ({ me }) => { me.sub.trim(); });
