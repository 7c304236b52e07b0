// imports: slowly // SVC503
/** The import takes nearly two seconds. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export let sum = 0;
const before = process.cpuUsage(); // the process itself starts more slowly beside others
while (process.cpuUsage(before).user < 1_900_000) for (let number = 0; number < 1_000_000; number++) sum += Math.sqrt(number);

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
