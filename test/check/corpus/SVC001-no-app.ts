// export: app // SVC001
/** The module creates an application and does not export it. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const app = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));

export const version = '1.0.0';
