/** Fifty routes do not make the import slow. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Page extends Schema {
  title = Field(str, { maxLength: 100 });
}

const pages = new Router();
for (let page = 1; page <= 50; page++) pages.get(`/chapter-${page}/{section:int}` as '/chapter-1/{section:int}', { response: Page }, ({ params }) => ({ title: `${page}.${params.section}` }));

export const app: Svc = new Svc({ title: 'Book', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(pages, '/book');
