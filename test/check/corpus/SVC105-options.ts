/** The application handles OPTIONS where the CORS middleware answers preflights. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, TextResponse, list, str } from 'svc';

class Item extends Schema {
  name = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Items', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://shop.example'] }));
app.get('/items', { response: list(Item) }, () => [{ name: 'Lamp' }]);
app.route('/items', ['OPTIONS'], () => new TextResponse('', { headers: { 'Access-Control-Allow-Methods': 'DELETE' } })); // SVC105
