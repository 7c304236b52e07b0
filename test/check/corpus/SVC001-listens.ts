// imports: listens
/** The module listens at import instead of leaving the start to `svc run`. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));

await app.run({ host: '127.0.0.1', port: 0 }); // SVC001
