// env: SVC_AUTH_SECRET={secret}
/** Reads are public or require a login. Writes require more, and deletes require the most. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class Rule extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'House rules', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/rules/{id:int}', { response: Rule }, ({ params }) => ({ text: `Rule ${params.id}` }));
app.put('/rules/{id:int}', { me: Depends(BearerAuth()), body: Rule, response: Rule, description: 'Changes a rule.' }, ({ me, body }) => ({ text: me.sub + body.text }));
app.delete('/rules/{id:int}', { me: Depends(requireRoles('admin')), status: 204, description: 'Removes a rule.' }, ({ me }) => { me.sub.trim(); });
app.get('/drafts', { me: Depends(BearerAuth()), response: Rule }, ({ me }) => ({ text: me.sub }));
app.post('/drafts', { me: Depends(BearerAuth()), body: Rule, response: Rule, description: 'Adds a draft.' }, ({ me, body }) => ({ text: me.sub + body.text }));
app.post('/drafts/suggestions', { public: 'everybody may suggest', body: Rule, status: 204, description: 'Suggests a rule.' }, ({ body }) => { body.text.trim(); });
