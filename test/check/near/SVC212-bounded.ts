// env: SVC_AUTH_SECRET={secret} HOOK_SECRET={secret2}
/** Raw bodies and files have limits, and long uploads have long timeouts. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { BearerAuth, Depends, Field, Forbidden, Schema, SecurityHeadersMiddleware, Svc, file, int } from 'svc';

class Stored extends Schema {
  bytes = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Drive', trustProxy: 1, headersTimeoutMs: 5_000, requestTimeoutMs: 20_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/documents', { me: Depends(BearerAuth()), requestTimeoutMs: 600_000, maxBodyBytes: 60_000_000, form: { document: Field(file, { maxLength: 50_000_000 }) }, response: Stored, description: 'Keeps a document.' }, ({ me, form }) => ({ bytes: form.document.size + me.sub.length }));
app.post('/hooks', { public: 'the body is signed', allow: [{ rule: 'SVC301', reason: 'the signature is over the bytes as they came' }], status: 204, description: 'Receives an event.' }, async ({ req }) => {
  const digest = createHmac('sha256', process.env['HOOK_SECRET'] ?? '').update(await req.body({ maxBytes: 100_000 })).digest();
  const shown = Buffer.from(req.headers['x-signature'] ?? '', 'hex');
  if (shown.length !== digest.length || !timingSafeEqual(shown, digest)) throw new Forbidden();
});
