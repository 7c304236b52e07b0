// args: --baseline SVC306-additions.json
// env: SVC_AUTH_SECRET={secret}
/** The application adds a route, an optional field, a wider bound and a response field to its baseline. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Film extends Schema {
  title = Field(str, { minLength: 1, maxLength: 200 });
  stars = Field(int, { default: 3, ge: 1, le: 5 });
}
class Stored extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Films', version: '1.1.0', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/films/{number:int}', { response: Stored }, ({ params }) => ({ id: params.number, title: 'Metropolis' }));
app.get('/films/newest', { query: { year: Field(int, { default: 2026, ge: 1888, le: 2200 }) }, response: Stored }, ({ query }) => ({ id: query.year, title: 'Metropolis' }));
app.post('/films', { me: Depends(BearerAuth()), body: Film, status: 204, description: 'Adds a film.' }, ({ me, body }) => { me.sub.concat(body.title); });
