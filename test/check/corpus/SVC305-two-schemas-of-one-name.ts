/** Two schema classes in one document have one name. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

const shop = {
  Item: class Item extends Schema { title = Field(str, { maxLength: 80 }); cents = Field(int, { ge: 0 }); },
};
const stock = {
  Item: class Item extends Schema { shelf = Field(str, { maxLength: 8 }); pieces = Field(int, { ge: 0 }); },
};

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/shop/{id:int}', { response: shop.Item }, ({ params }) => ({ title: 'Lamp', cents: params.id }));
app.get('/shop/newest', { response: shop.Item }, () => ({ title: 'Lamp', cents: 100 }));
app.get('/stock/{id:int}', { response: stock.Item }, ({ params }) => ({ shelf: 'A1', pieces: params.id })); // SVC305
