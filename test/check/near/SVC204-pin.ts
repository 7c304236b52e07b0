/** Codes have a rate limit, and verifying an invoice takes no code. */
import { Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Code extends Schema {
  code = Field(str, { minLength: 4, maxLength: 6 });
}

export const app: Svc = new Svc({ title: 'Doors', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
const limit = new RateLimitMiddleware({ perMinute: 5 });
app.post('/doors/{id:int}/unlock', { public: 'the code is the credential', use: [limit], body: Code, status: 204, description: 'Unlocks a door.' }, ({ body }) => { body.code.trim(); });
app.post('/invoices/verify', { public: 'for every customer', body: Code, status: 204, description: 'Verifies an invoice.' }, ({ body }) => { body.code.trim(); });
