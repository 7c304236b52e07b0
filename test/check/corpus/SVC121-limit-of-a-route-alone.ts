/** A route has a limit, and no middleware enforces it. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Word extends Schema {
  text = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Words', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/words', { rateLimit: { perMinute: 5 }, response: Word }, () => ({ text: 'a' })); // SVC121
