// env: HOOK_SECRET={secret}
/** A handler reads raw bodies of any length into memory. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Forbidden, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Hooks', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
app.post('/hooks/pushes', { public: 'the body is signed', allow: [{ rule: 'SVC301', reason: 'the signature is over the bytes as they came' }], status: 204, description: 'Receives an event.' }, async ({ req }) => { // SVC212
  const digest = createHmac('sha256', process.env['HOOK_SECRET'] ?? '').update(await req.body()).digest();
  const shown = Buffer.from(req.headers['x-signature'] ?? '', 'hex');
  if (shown.length !== digest.length || !timingSafeEqual(shown, digest)) throw new Forbidden();
});
