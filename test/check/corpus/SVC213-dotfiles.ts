// files: files/a.txt=
/** The static folder serves files whose names begin with a dot. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Files', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mountStatic('/files', 'files', { dotfiles: 'allow' }); // SVC213
