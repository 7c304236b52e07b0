// env: SVC_AUTH_SECRET={secret}
/** Changing requires an administrator. Deleting requires only a login. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class Rule extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'House rules', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
const rules = new Map<number, string>();
app.get('/rules/{id:int}', { response: Rule }, ({ params }) => ({ text: rules.get(params.id) ?? '' }));
app.put('/rules/{id:int}', { me: Depends(requireRoles('admin')), body: Rule, response: Rule, description: 'Changes a rule.' }, ({ me, params, body }) => {
  rules.set(params.id, `${body.text} (${me.sub})`);
  return body;
});
app.delete('/rules/{id:int}', { me: Depends(BearerAuth()), status: 204, description: 'Removes a rule.' }, ({ me, params }) => { if (me.sub !== '') rules.delete(params.id); }); // SVC203
