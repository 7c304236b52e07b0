// args: --baseline SVC306-new-required.json
// env: SVC_AUTH_SECRET={secret}
/** A field is required that the baseline does not have. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Film extends Schema {
  title = Field(str, { minLength: 1, maxLength: 100 });
  year = Field(int, { ge: 1888, le: 2200 });
}
class Review extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
  stars = Field(int, { default: 3, ge: 1, le: 5 });
}

export const app: Svc = new Svc({ title: 'Films', version: '1.1.0', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/films', { me: Depends(BearerAuth()), body: Film, status: 204, description: 'Adds a film.' }, ({ me, body }) => { me.sub.concat(body.title); }); // SVC306
app.post('/reviews', { me: Depends(BearerAuth()), body: Review, status: 204, description: 'Adds a review.' }, ({ me, body }) => { me.sub.concat(body.text); });
