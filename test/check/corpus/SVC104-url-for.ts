/** A handler asks for the URL of a route by a name that no route has. */
import { Field, RedirectResponse, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Invoice extends Schema {
  id = Field(int, { ge: 1 });
  cents = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Invoices', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/invoices/{id:int}', { name: 'invoice', response: Invoice }, ({ params }) => ({ id: params.id, cents: 1_999 }));
app.get('/invoices/newest', () => new RedirectResponse(app.urlFor('invoice', { id: 12 })));
app.get('/invoices/oldest', () => new RedirectResponse(app.urlFor('invoise', { id: 1 }))); // SVC104
