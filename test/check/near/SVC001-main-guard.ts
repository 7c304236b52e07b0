/** The module listens and starts its timer only when it is the main program. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Visits extends Schema {
  today = Field(int, { ge: 0 });
}

let today = 0;
let timer: NodeJS.Timeout | undefined;

export const app: Svc = new Svc({ title: 'Counter', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.onStartup(() => { timer = setInterval(() => { today = 0; }, 86_400_000); });
app.onShutdown(() => clearInterval(timer));
app.get('/visits', { response: Visits }, () => ({ today: ++today }));
setTimeout(() => { today = 0; }, 60_000).unref();

if (import.meta.main) await app.run({ port: 8000 });
