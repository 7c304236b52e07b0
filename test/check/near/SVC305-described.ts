// env: SVC_AUTH_SECRET={secret}
/** Tools that write have descriptions, other routes have none, and two routes share one schema. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Reminder extends Schema {
  text = Field(str, { minLength: 1, maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Reminders', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
const me = BearerAuth();
app.get('/reminders', { me: Depends(me), mcp: true, response: list(Reminder) }, ({ me }) => [{ text: me.sub }]);
app.get('/reminders/{id:int}', { me: Depends(me), mcp: true, response: Reminder }, ({ me }) => ({ text: me.sub }));
app.post('/reminders', { me: Depends(me), mcp: true, summary: 'Add a reminder', description: 'Adds a reminder for the logged-in user.', body: Reminder, response: Reminder }, ({ me, body }) => ({ text: body.text + me.sub }));
app.put('/reminders/{id:int}', { me: Depends(me), mcp: false, body: Reminder, response: Reminder }, ({ me, body }) => ({ text: body.text + me.sub }));
