// files: files/a.txt=
/** The static folder follows links, also to files outside of it. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Files', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mountStatic('/files', 'files', { followSymlinks: true }); // SVC213
