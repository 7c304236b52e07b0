/** Two paths differ only in upper and lower case. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Page extends Schema {
  title = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Wiki', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const pages = new Router({ tags: ['pages'] });
pages.get('/pages/{name}', { response: Page }, ({ params }) => ({ title: params.name }));
pages.get('/pages/{name}/history', { response: Page }, ({ params }) => ({ title: params.name }));
pages.get('/Pages/{name}', { response: Page }, ({ params }) => ({ title: params.name.toUpperCase() })); // SVC103
app.includeRouter(pages, '/wiki');
