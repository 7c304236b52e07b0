// env: SVC_AUTH_SECRET={secret}
/** The rate limit runs before the CORS middleware, so scripts cannot read its 429 replies. */
import { BearerAuth, CORSMiddleware, Depends, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Task extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120 });
}

export const app: Svc = new Svc({ title: 'Tasks', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 300 }));
app.use(new CORSMiddleware({ origins: ['https://tasks.example'] })); // SVC121
app.get('/tasks', { me: Depends(BearerAuth()), response: list(Task) }, ({ me }) => [{ title: me.sub }]);
app.post('/tasks', { me: Depends(BearerAuth()), body: Task, response: Task, status: 201, description: 'Adds a task.' }, ({ me, body }) => ({ title: me.sub + body.title }));
