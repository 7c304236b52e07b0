// env: SVC_ENV=production SVC_AUTH_SECRET={secret}
/** Production sends the session cookie without the attribute Secure. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Pages', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ cookie: { name: 'sid', secure: false } })); // SVC207
app.use(new CSRFMiddleware());
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
app.get('/mine', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));
