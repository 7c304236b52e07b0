// files: package.json=SVC404-engines.json
/** The static folder is the root of the project, including its settings. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Pages', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mountStatic('/files', '.'); // SVC213
