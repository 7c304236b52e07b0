// env: SVC_AUTH_SECRET={secret}
/** The idempotency middleware reads and stores whole bodies before the rate limit counts the request. */
import { BearerAuth, Depends, Field, IdempotencyMiddleware, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Payment extends Schema {
  cents = Field(int, { ge: 1, le: 10_000_000 });
}

export const app: Svc = new Svc({ title: 'Payments', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new IdempotencyMiddleware({ ttlSeconds: 3_600, principal: (req) => req.headers['authorization'] }));
app.use(new RateLimitMiddleware({ perMinute: 60 })); // SVC121
app.get('/payments/{id:int}', { me: Depends(BearerAuth()), response: Payment }, ({ me, params }) => ({ cents: me.sub.length + params.id }));
app.post('/payments', { me: Depends(BearerAuth()), body: Payment, response: Payment, status: 201, description: 'Makes a payment.' }, ({ me, body }) => ({ cents: me.sub.length + body.cents }));
