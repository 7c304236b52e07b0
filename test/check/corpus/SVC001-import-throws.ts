// imports: throws
/** The import throws: the module reads its price list, which is empty. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Article extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { minLength: 1, maxLength: 120 });
}

export const app: Svc = new Svc({ title: 'Catalogue', version: '1.2.0', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());

const prices = new Map<number, number>();
if (prices.size === 0) throw new Error('the price list is empty'); // SVC001

app.get('/articles', { response: list(Article) }, () => [{ id: 1, title: 'Lamp' }]);
app.get('/articles/{id:int}', { response: Article }, ({ params }) => ({ id: params.id, title: 'Lamp' }));
