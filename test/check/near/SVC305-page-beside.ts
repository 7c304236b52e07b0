/** A page for unknown paths is no loss for the document of the API. */
import { Field, HTMLResponse, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Link extends Schema {
  id = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Links', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/{id}', { response: Link }, ({ params }) => ({ id: params.id }));
app.get('/{rest:path}', () => new HTMLResponse('<h1>No such page', { status: 404 }));
