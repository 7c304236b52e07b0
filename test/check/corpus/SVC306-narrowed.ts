// args: --baseline SVC306-narrowed.json
/** A parameter accepts fewer values than in the baseline. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', version: '1.1.0', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/newest', { query: { size: Field(int, { default: 10, ge: 1, le: 200 }) }, response: list(Hit) }, ({ query }) => [{ title: String(query.size) }]);
app.get('/search', { query: { q: Field(int, { ge: 0 }) }, response: list(Hit) }, ({ query }) => [{ title: String(query.q) }]); // SVC306
