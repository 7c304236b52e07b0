// env: SVC_AUTH_SECRET={secret}
/** Sessions are read and verified before the rate limit counts the request. */
import { CSRFMiddleware, Depends, Field, HTMLResponse, RateLimitMiddleware, RedirectResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, csrfField, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Guest book', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 })); // SVC121
app.get('/', ({ req }) => new HTMLResponse(`<form method="post" action="/entries">${csrfField(req)}<input name="text"></form>`));
app.post('/entries', { me: Depends(requireSession(user)), form: { text: Field(str, { maxLength: 300 }) }, description: 'Adds an entry.' }, ({ me, form }) => new RedirectResponse(`/#${me.length + form.text.length}`, { status: 303 }));
