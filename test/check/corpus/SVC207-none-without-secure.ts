// env: SVC_AUTH_SECRET={secret}
// imports: throws
/** A cookie has SameSite=None without Secure, so browsers refuse it. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Widget', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ cookie: { sameSite: 'none', secure: false } })); // SVC207
app.use(new CSRFMiddleware());
app.get('/mine', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
