// env: SVC_ENV=production METRICS_KEY={secret}
/** In production the metrics require a key, and traces and documents are off. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1, debug: false, enableDocs: false, ops: { metrics: { auth: process.env['METRICS_KEY'] } } });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
