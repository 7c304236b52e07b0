/** The rate limit counts by a request header that every client can set. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60, key: (req) => req.headers['x-forwarded-for'] })); // SVC210
app.get('/status', { response: Status }, () => ({ state: 'green' }));
