/** A list has no maximum length, but its texts have one. */
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
app.post('/prices/route', { public: 'a calculation that keeps nothing', body: Route, response: Price, description: 'Returns the price of a journey.' }, ({ body }) => ({ cents: body.stops.length }));
app.post('/prices/basket', { public: 'a calculation that keeps nothing', body: Basket, response: Price, description: 'Returns the price of a basket.' }, ({ body }) => ({ cents: body.articles.length })); // SVC304
