/** The application declares `/healthz`, which the framework answers. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Health extends Schema {
  status = Field(str, { maxLength: 10 });
  uptimeSeconds = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Clock', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/uptime', { response: Health }, () => ({ status: 'ok', uptimeSeconds: Math.floor(process.uptime()) }));
app.get('/healthz', { response: Health }, () => ({ status: 'ok', uptimeSeconds: Math.floor(process.uptime()) })); // SVC102
app.get('/healthz/details', { response: Health }, () => ({ status: 'ok', uptimeSeconds: Math.floor(process.uptime()) }));
