// env: SVC_AUTH_SECRET={secret}
/** Trusted proxies are named by network, and rate limits count by verified values or addresses. */
import { BearerAuth, Depends, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: ['10.0.0.0/8', 'loopback'], forwardedHeader: 'x-forwarded' });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60, key: (req) => req.ip, rules: [{ path: '/status', perMinute: 600 }] }));
app.get('/status', { response: Status }, () => ({ state: 'green' }));
app.get('/mine', { me: Depends(BearerAuth()), response: Status }, ({ me, req }) => ({ state: `${me.sub} ${req.headers['x-forwarded-for'] ?? ''}`.slice(0, 20) }));
