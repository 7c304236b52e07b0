// env: SVC_AUTH_SECRET={secret}
/** Two routes want to be the tool of one name. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Reminder extends Schema {
  text = Field(str, { minLength: 1, maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Reminders', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
const me = BearerAuth();
app.get('/reminders/{id:int}', { me: Depends(me), mcp: { name: 'read_reminder' }, response: Reminder }, ({ me, params }) => ({ text: me.sub + params.id }));
app.get('/old/{id:int}', { me: Depends(me), mcp: { name: 'read_reminder' }, response: Reminder }, ({ me, params }) => ({ text: me.sub + params.id })); // SVC305
