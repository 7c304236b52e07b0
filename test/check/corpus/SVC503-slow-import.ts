// imports: slowly // SVC503
/** The import takes nearly two seconds. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const table: number[] = [];
while (process.cpuUsage().user < 1_900_000) table.push(Math.sqrt(table.length));

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
