// env: SVC_AUTH_SECRET={secret}
/** One of two routes that issue tokens switches off the rate limit of the application. */
import { BearerAuth, Depends, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Code extends Schema {
  code = Field(str, { minLength: 6, maxLength: 6, pattern: '^[0-9]{6}$' });
}
class Answer extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Devices', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 30 }));
app.get('/device', { me: Depends(BearerAuth()), response: Answer }, ({ me }) => ({ state: me.sub.slice(0, 20) }));
app.post('/token', { public: 'it is the way in', body: Code, response: Answer, description: 'Accepts a code.' }, ({ body }) => ({ state: body.code }));
app.post('/device/token', { public: 'it is the way in of devices', rateLimit: false, body: Code, response: Answer, description: 'Accepts the code of a device.' }, ({ body }) => ({ state: body.code })); // SVC204
