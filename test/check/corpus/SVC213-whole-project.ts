// files: package.json=SVC404-engines.json
/** The folder of the project itself is served, with its settings. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Pages', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mountStatic('/files', '.'); // SVC213
