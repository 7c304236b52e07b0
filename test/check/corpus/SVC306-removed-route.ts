// args: --baseline SVC306-removed-route.json // SVC306
/** A route of the baseline is missing. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Film extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Films', version: '1.1.0', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/films/{id:int}', { response: Film }, ({ params }) => ({ id: params.id, title: 'Metropolis' }));
app.get('/films/newest', { response: Film }, () => ({ id: 2, title: 'Nosferatu' }));
