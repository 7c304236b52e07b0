/** HEAD has no GET beside it, and OPTIONS has no other handler. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, TextResponse, str } from 'svc';

class Item extends Schema {
  name = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Items', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/items/{name}', { response: Item }, ({ params }) => ({ name: params.name }));
app.route('/locks/{name}', ['HEAD'], { status: 204 }, () => null);
app.route('/items', ['OPTIONS'], () => new TextResponse('', { headers: { Allow: 'OPTIONS' } }));
