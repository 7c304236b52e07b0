/** The application serves business figures at `/metrics`, which belongs to the framework. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Figures extends Schema {
  orders = Field(int, { ge: 0 });
  customers = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Figures', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/figures', { response: Figures }, () => ({ orders: 10, customers: 3 }));
app.get('/metrics', { summary: 'Figures of the day', response: Figures }, () => ({ orders: 10, customers: 3 })); // SVC102
