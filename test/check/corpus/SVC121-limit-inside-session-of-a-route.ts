// env: SVC_AUTH_SECRET={secret}
/** Both layers belong to one route, so their order can be changed. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, str } from 'svc';

class Mail extends Schema {
  text = Field(str, { maxLength: 64 });
}

const session = new SessionMiddleware();
const limit = new RateLimitMiddleware({ name: 'contact', perMinute: 5 });
export const app: Svc = new Svc({ title: 'Contact', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/contact', { response: Mail, use: [session, limit] }, () => ({ text: 'Write to us' })); // SVC121
