/** The default of a query parameter is above its maximum. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/newest', { query: { size: Field(int, { default: 20, ge: 1, le: 100 }) }, response: list(Hit) }, ({ query }) => [{ title: String(query.size) }]);
app.get('/search', { query: { q: Field(str, { maxLength: 80 }), size: Field(int, { default: 500, ge: 1, le: 100 }) }, response: list(Hit) }, ({ query }) => [{ title: query.q + query.size }]); // SVC303
