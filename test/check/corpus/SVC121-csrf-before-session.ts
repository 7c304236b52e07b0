// env: SVC_AUTH_SECRET={secret}
/** The CSRF middleware is registered before the session that its tokens belong to. */
import { CSRFMiddleware, Depends, Field, HTMLResponse, RedirectResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, csrfField, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Diary', trustProxy: 1, maxBodyBytes: 100_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new CSRFMiddleware()); // SVC121
app.use(new SessionMiddleware());

app.get('/', { me: Depends(requireSession(user)) }, ({ req, me }) => new HTMLResponse(`<h1>${me.length}</h1><form method="post" action="/entries">${csrfField(req)}<textarea name="text"></textarea></form>`));
app.post('/entries', { me: Depends(requireSession(user)), form: { text: Field(str, { minLength: 1, maxLength: 2_000 }) }, description: 'Adds an entry.' }, ({ me, form }) => new RedirectResponse(`/#${me.length + form.text.length}`, { status: 303 }));
