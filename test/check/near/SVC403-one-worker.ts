// env: SVC_WORKERS=1
/** A single process may keep state in its memory. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, cached, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const state = cached(async (name: string) => `${name} is green`, { ttlSeconds: 10 });

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.get('/status', { response: Status }, async () => ({ state: await state('site') }));

const workers = app.config.get('workers', 1);
if (import.meta.main) await app.run({ workers });
