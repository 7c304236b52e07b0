// args: --skip SVC404
/** The sources set the environment, so production has it, too. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const settings = { env: 'development' } as const;
export const app: Svc = new Svc({ title: 'Status page', env: settings.env }); // SVC208
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
