// env: SVC_AUTH_SECRET={secret}
// imports: throws
/** The secret of the application is strong. The secret of its sessions is too short. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Pages', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ secrets: ['keyboard cat'] })); // SVC205
app.use(new CSRFMiddleware());
app.get('/', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
