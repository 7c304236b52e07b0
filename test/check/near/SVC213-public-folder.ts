/** The static folder holds only public files. */
import { join } from 'node:path';
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Pages', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mountStatic('/files', join(import.meta.dirname, '../public'));
