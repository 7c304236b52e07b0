// env: SVC_AUTH_SECRET={secret}
/** The Domain attribute shares the session cookie with every subdomain. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Town', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ maxAgeSeconds: 86_400, cookie: { domain: 'town.example', sameSite: 'strict' } })); // SVC207
app.use(new CSRFMiddleware());
app.get('/', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
