// imports: stays-open // SVC001
/** A timer that starts at import keeps the process alive forever. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Visits extends Schema {
  today = Field(int, { ge: 0 });
}

let today = 0;
setInterval(() => { today = 0; }, 86_400_000);

export const app: Svc = new Svc({ title: 'Counter', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/visits', { response: Visits }, () => ({ today: ++today }));
