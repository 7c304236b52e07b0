// args: --skip SVC404
/** A variable decides the environment, so production may have another one. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const isProduction = process.env['NODE_ENV'] === 'production';
const settings = { env: isProduction ? 'production' : 'development', debug: showsTraces() } as const;

function showsTraces(): boolean {
  return process.env['NODE_ENV'] !== 'production';
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1, env: settings.env, debug: settings.debug });
app.use(new SecurityHeadersMiddleware());
app.get('/status', { response: Status }, () => ({ state: 'green' }));
