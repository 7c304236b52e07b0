// env: SVC_AUTH_SECRET={secret}
/** A tool that writes has no description. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Reminder extends Schema {
  text = Field(str, { minLength: 1, maxLength: 200 });
  minutes = Field(int, { ge: 1, le: 10_000 });
}

export const app: Svc = new Svc({ title: 'Reminders', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
const me = BearerAuth();
app.get('/reminders', { me: Depends(me), mcp: true, response: list(Reminder) }, ({ me }) => [{ text: me.sub, minutes: 1 }]);
app.post('/reminders', { me: Depends(me), mcp: true, body: Reminder, response: Reminder }, ({ me, body }) => ({ text: body.text + me.sub, minutes: body.minutes })); // SVC305
app.put('/reminders/{id:int}', { me: Depends(me), mcp: true, description: 'Changes a reminder.', body: Reminder, response: Reminder }, ({ me, body }) => ({ text: body.text + me.sub, minutes: body.minutes }));
