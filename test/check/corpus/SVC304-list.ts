/** A list of as many items as one likes, each of them short. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Basket extends Schema {
  articles = Field(list(int, { ge: 1 }));
  voucher = Field('', { maxLength: 20 });
}
class Route extends Schema {
  stops = Field(list(str, { maxLength: 80 }), { maxLength: 20 });
}
class Price extends Schema {
  cents = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Prices', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.post('/prices/route', { public: 'a calculation that keeps nothing', body: Route, response: Price, description: 'What a journey costs.' }, ({ body }) => ({ cents: body.stops.length }));
app.post('/prices/basket', { public: 'a calculation that keeps nothing', body: Basket, response: Price, description: 'What a basket costs.' }, ({ body }) => ({ cents: body.articles.length })); // SVC304
