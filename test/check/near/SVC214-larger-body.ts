// env: SVC_AUTH_SECRET={secret}
/** The limit of the body is a little above that of its file. */
import { BearerAuth, Depends, Field, SecurityHeadersMiddleware, Svc, file } from 'svc';

export const app: Svc = new Svc({ title: 'Uploads', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const spec = { me: Depends(BearerAuth()), form: { picture: Field(file, { maxLength: 50_000_000 }) }, maxBodyBytes: 51_000_000, status: 204, description: 'Keeps a picture.' };
app.post('/pictures', spec, ({ form, me }) => app.log.info('picture', { bytes: form.picture.size, by: me.sub }));
