// env: SVC_AUTH_SECRET={secret} SVC_WORKERS=4
/** Each of four processes sends events only to its own listeners. */
import { BearerAuth, Depends, EventBroadcast, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Notice extends Schema {
  text = Field(str, { maxLength: 100 });
}
const notices = new EventBroadcast(); // SVC403

export const app: Svc = new Svc({ title: 'Notices', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/notices', () => notices.stream());
app.post('/notices', { me: Depends(BearerAuth()), body: Notice, status: 204, description: 'Sends a notice.' }, ({ body, me }) => { notices.send({ data: { text: body.text, by: me.sub } }); });
