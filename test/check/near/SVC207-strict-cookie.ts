// env: SVC_AUTH_SECRET={secret}
/** The session cookie has a custom name, path and SameSite policy, all of them safe. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ cookie: { name: 'shop', sameSite: 'strict', secure: true } }));
app.use(new CSRFMiddleware());
app.get('/', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
