// env: SVC_AUTH_SECRET={secret}
/** The session authenticates writes, and no CSRF protection is registered. */
import { Depends, Field, HTMLResponse, RedirectResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Profile', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.get('/profile', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${encodeURIComponent(me)}</h1>`));
app.post('/profile', { me: Depends(requireSession(user)), form: { name: Field(str, { minLength: 1, maxLength: 60 }) }, description: 'Changes the name.' }, ({ req, form }) => { // SVC202
  req.session.set(user, form.name);
  return new RedirectResponse('/profile', { status: 303 });
});
