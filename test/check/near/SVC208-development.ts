// env: SVC_ENV=development
/** Stack traces and documents are shown in development. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1, debug: true, enableDocs: true });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
