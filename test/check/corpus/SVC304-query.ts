/** A query parameter that every client may send has no maximum length. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, datetime, int, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/newest', { query: { since: Field(datetime), size: Field(int, { default: 10, ge: 1, le: 50 }) }, response: list(Hit) }, ({ query }) => [{ title: query.since.toISOString() + query.size }]);
app.get('/search', { query: { q: Field(str), size: Field(int, { default: 10, ge: 1, le: 50 }) }, response: list(Hit) }, ({ query }) => [{ title: query.q.slice(0, query.size) }]); // SVC304
