// env: SVC_AUTH_SECRET={secret}
/** Pages are sent without security headers. */
import { Depends, HTMLResponse, Svc, requireRoles } from 'svc';

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1 }); // SVC211
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
app.get('/about', () => new HTMLResponse('<h1>About us</h1>'));
app.get('/intern', { me: Depends(requireRoles('staff')) }, ({ me }) => new HTMLResponse(`<h1>${me.sub.length}</h1>`));
