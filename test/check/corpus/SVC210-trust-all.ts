// imports: throws
/** Every peer is a trusted proxy, so each client can set its own address. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: '0.0.0.0/0' }); // SVC210
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.get('/status', { response: Status }, () => ({ state: 'green' }));
