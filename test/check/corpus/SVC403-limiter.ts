/** Four processes each count requests in their own memory, so the limit is four times too high. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1, config: { workers: 4 } });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 })); // SVC403
app.get('/status', { response: Status }, () => ({ state: 'green' }));

if (import.meta.main) await app.run({ workers: app.config.get('workers', 1) });
