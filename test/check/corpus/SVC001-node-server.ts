// imports: listens
/** The module starts a second HTTP server at import, beside the application. */
import { createServer } from 'node:http';
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));

createServer((_request, response) => { response.end('ok'); }).listen(0, '127.0.0.1'); // SVC001
