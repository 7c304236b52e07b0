// env: SVC_AUTH_SECRET={secret}
/** A client may try any number of passwords. */
import { CSRFMiddleware, Depends, Field, HTMLResponse, RedirectResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, Unauthorized, checkPassword, csrfField, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
const accounts = new Map<string, string>();

export const app: Svc = new Svc({ title: 'Members', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
app.get('/', ({ req }) => new HTMLResponse(`<form method="post" action="/login">${csrfField(req)}<input name="name"><input name="password" type="password"></form>`));
app.post('/login', { public: 'it is the way in', form: { name: Field(str, { maxLength: 80 }), password: Field(str, { maxLength: 200, secret: true }) }, description: 'Logs in.' }, async ({ req, form }) => { // SVC204
  if (!await checkPassword(form.password, accounts.get(form.name) ?? '')) throw new Unauthorized();
  req.session.regenerate();
  req.session.set(user, form.name);
  return new RedirectResponse('/members', { status: 303 });
});
app.get('/members', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${encodeURIComponent(me)}</h1>`));
