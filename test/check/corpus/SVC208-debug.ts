// env: SVC_ENV=production
/** Production sends stack traces to every client. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ // SVC208
  title: 'Status page',
  version: '2.0.0',
  debug: true,
  trustProxy: 1,
});
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
