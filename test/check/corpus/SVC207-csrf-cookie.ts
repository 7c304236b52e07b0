// env: SVC_ENV=production SVC_AUTH_SECRET={secret}
/** The session cookie is secure. The CSRF cookie of visitors without a session is not. */
import { CSRFMiddleware, Depends, Field, HTMLResponse, RedirectResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, csrfField, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Wall', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ cookie: { sameSite: 'strict' } }));
app.use(new CSRFMiddleware({ cookie: { secure: false } })); // SVC207
app.get('/', ({ req }) => new HTMLResponse(`<form method="post" action="/notes">${csrfField(req)}<input name="text"></form>`));
app.post('/notes', { me: Depends(requireSession(user)), form: { text: Field(str, { maxLength: 200 }) }, description: 'Pins a note.' }, ({ me, form }) => new RedirectResponse(`/#${me.length + form.text.length}`, { status: 303 }));
