// env: SVC_AUTH_SECRET={secret}
/** Every middleware is in the correct place, with a custom middleware between them. */
import { CORSMiddleware, CSRFMiddleware, CompressionMiddleware, Depends, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, TimeoutMiddleware, requireSession, sessionKey, str } from 'svc';

const user = sessionKey<string>('user');
class Name extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Names', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://names.example'], credentials: true }));
app.use(new RateLimitMiddleware({ perMinute: 120 }));
app.use(new CompressionMiddleware());
app.use(new TimeoutMiddleware({ seconds: 20 }));
app.use(async (_req, next) => {
  const response = await next();
  response.headers.set('X-Served-By', 'names');
  return response;
});
app.get('/name', { me: Depends(requireSession(user)), response: Name }, ({ me }) => ({ name: me }));
app.put('/name', { me: Depends(requireSession(user)), body: Name, response: Name, description: 'Changes the name.' }, ({ me, body }) => ({ name: me + body.name }));
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware({ trustedOrigins: ['https://names.example'] }));
