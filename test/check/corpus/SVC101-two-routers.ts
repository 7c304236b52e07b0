/** Two routers declare one path. A second path differs by its prefix and is correct. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Size extends Schema {
  bytes = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Sizes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());

const files = new Router();
files.get('/{name}/size', { response: Size }, ({ params }) => ({ bytes: params.name.length }));
files.get('/{name}/age', { response: Size }, ({ params }) => ({ bytes: params.name.length }));
const documents = new Router();
documents.get('/{title}/size', { response: Size }, ({ params }) => ({ bytes: params.title.length })); // SVC101
documents.get('/{title}/pages', { response: Size }, ({ params }) => ({ bytes: params.title.length }));

app.includeRouter(files, '/store').includeRouter(documents, '/store');
