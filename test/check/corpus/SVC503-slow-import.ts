// imports: slowly // SVC503
/** Two seconds of work before the first line can be served. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000);

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
