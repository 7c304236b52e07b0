/** One rule of the rate limit counts by a request header that every client can set. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 120, rules: [{ path: '/search', perMinute: 20, key: (req) => req.headers['x-real-ip'] ?? req.ip }] })); // SVC210
app.get('/status', { response: Status }, () => ({ state: 'green' }));
app.get('/search', { query: { q: Field(str, { maxLength: 100 }) }, response: Status }, ({ query }) => ({ state: query.q.slice(0, 20) }));
