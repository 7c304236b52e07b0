// env: SVC_AUTH_SECRET={secret}
/** A response of status 204 has a schema. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Label extends Schema {
  text = Field(str, { minLength: 1, maxLength: 40 });
}

export const app: Svc = new Svc({ title: 'Labels', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.put('/labels/{id:int}', { me: Depends(BearerAuth()), body: Label, response: Label, description: 'Changes a label.' }, ({ me, body }) => ({ text: body.text + me.sub }));
app.delete('/labels/{id:int}', { me: Depends(BearerAuth()), status: 204, description: 'Removes a label.' }, ({ me }) => { me.sub.trim(); });
app.patch('/labels/{id:int}', { me: Depends(BearerAuth()), body: Label, response: Label, status: 204, description: 'Changes a part of a label.' }, ({ me, body }) => ({ text: body.text + me.sub })); // SVC303
