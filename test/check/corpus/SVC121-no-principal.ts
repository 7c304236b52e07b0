/** Idempotency keys of clients that nothing tells apart. */
import { Field, IdempotencyMiddleware, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Order extends Schema {
  count = Field(int, { ge: 1, le: 100 });
}

export const app: Svc = new Svc({ title: 'Orders', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.use(new IdempotencyMiddleware({ ttlSeconds: 3_600 }));
app.post('/orders', { public: 'guests order without an account', body: Order, response: Order, status: 201 }, ({ body }) => ({ count: body.count })); // SVC121
