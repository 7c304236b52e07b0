/** A middleware starts a program for each request and waits for it synchronously. */
import { execSync } from 'node:child_process';
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Status page', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(async (_req, next) => {
  const response = await next();
  response.headers.set('X-Build', '17');
  return response;
});
app.use(async (_req, next) => { // SVC501
  const response = await next();
  response.headers.set('X-Revision', execSync('git rev-parse --short HEAD').toString().trim());
  return response;
});
app.get('/status', { response: Status }, () => ({ state: 'green' }));
