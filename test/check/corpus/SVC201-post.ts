// env: SVC_AUTH_SECRET={secret}
/** A POST route accepts every client. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Draft extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120 });
  text = Field(str, { maxLength: 5_000 });
}
class Article extends Draft {
  id = Field(int, { ge: 1 });
}

export const app: Svc = new Svc({ title: 'Articles', trustProxy: 1, maxBodyBytes: 50_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/articles', { response: list(Article) }, () => [{ id: 1, title: 'Hello', text: '…' }]);
app.post('/articles', { body: Draft, response: Article, status: 201, description: 'Publishes an article.' }, ({ body }) => ({ id: 1, title: body.title, text: body.text })); // SVC201
app.put('/articles/{id:int}', { me: Depends(BearerAuth()), body: Draft, response: Article, description: 'Changes an article.' }, ({ me, params, body }) => ({ id: params.id, title: body.title, text: `${me.sub}: ${body.text}` }));
app.post('/contact', { public: 'visitors write to us', body: Draft, status: 204, description: 'Sends a message.' }, ({ body }) => { body.text.trim(); });
