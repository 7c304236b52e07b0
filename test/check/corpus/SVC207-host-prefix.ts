// env: SVC_AUTH_SECRET={secret}
// imports: throws
/** A cookie with the prefix `__Host-` has another path than `/`. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ cookie: { name: '__Host-shop', path: '/shop' } })); // SVC207
app.use(new CSRFMiddleware());
app.get('/shop', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
