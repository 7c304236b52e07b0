// env: SVC_PAGE_SZIE=50 // SVC401
/** The name of a variable is misspelt. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const pageSize = app.config.get('pageSize', 20);
app.get('/hits', { response: list(Hit) }, () => Array.from({ length: pageSize }, () => ({ title: 'Lamp' })));
app.get('/footer', { response: str }, () => app.config.get('footer', ''));
