// env: SVC_AUTH_SECRET={secret}
/** Logins have rate limits, by their own options or by a rule of the middleware. The path "authors" is not a login. */
import { BearerAuth, Depends, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Address extends Schema {
  email = Field(str, { email: true, maxLength: 254 });
}

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 600, rules: [{ path: '/password/reset', methods: ['POST'], perMinute: 3 }] }));
app.post('/login', { public: 'it is the way in', rateLimit: { perMinute: 5 }, body: Address, status: 204, description: 'Sends a link for the login.' }, ({ body }) => { body.email.trim(); });
app.post('/password/reset', { public: 'who has forgotten it cannot log in', body: Address, status: 204, description: 'Sends a link for a new password.' }, ({ body }) => { body.email.trim(); });
app.get('/authors/{name}', { response: Address }, ({ params }) => ({ email: `${params.name}@books.example` }));
app.post('/authors', { me: Depends(BearerAuth()), body: Address, status: 204, description: 'Adds an author.' }, ({ me, body }) => { me.sub.concat(body.email); });
