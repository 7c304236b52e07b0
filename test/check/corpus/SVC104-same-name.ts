/** Two routes have one name. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Film extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { maxLength: 120 });
}

export const app: Svc = new Svc({ title: 'Films', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/films', { name: 'films', response: list(Film) }, () => [{ id: 1, title: 'Metropolis' }]);
app.get('/films/{id:int}', { name: 'film', response: Film }, ({ params }) => ({ id: params.id, title: 'Metropolis' }));
app.get('/films/latest', { name: 'film', response: Film }, () => ({ id: 9, title: 'Nosferatu' })); // SVC104
