// env: SVC_PAGE_SIZE=twenty SVC_MAX_AGE=60
// imports: throws
/** The variable of a numeric setting holds a word. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const maxAge = app.config.get('maxAge', 10);
const pageSize = app.config.get('pageSize', 20); // SVC401
app.get('/hits', { response: list(Hit) }, () => Array.from({ length: pageSize }, () => ({ title: `Lamp ${maxAge}` })));
