// env: SVC_AUTH_SECRET={secret}
/** A route accepts pictures of 5 MB, also with an idempotency key. */
import { BearerAuth, Depends, Field, IdempotencyMiddleware, SecurityHeadersMiddleware, Svc, file } from 'svc';

export const app: Svc = new Svc({ title: 'Uploads', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new IdempotencyMiddleware({ maxBodyBytes: 5_100_000 }));
const spec = { me: Depends(BearerAuth()), form: { picture: Field(file, { maxLength: 5_000_000 }) }, maxBodyBytes: 5_100_000, status: 204, description: 'Keeps a picture.' };
app.post('/pictures', spec, ({ form, me }) => app.log.info('picture', { bytes: form.picture.size, by: me.sub }));
app.post('/videos', { ...spec, maxBodyBytes: 50_000_000, meta: { idempotency: false } }, ({ form, me }) => app.log.info('video', { bytes: form.picture.size, by: me.sub }));
