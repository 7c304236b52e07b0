/** The handler of a class of the application responds with JSON that the document does not describe. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, reply, str } from 'svc';

class SoldOut extends Error {}
class Closed extends Error {}
class Refusal extends Schema {
  problem = Field(str, { maxLength: 100 });
}
class Ticket extends Schema {
  seat = Field(str, { maxLength: 5 });
}

export const app: Svc = new Svc({ title: 'Tickets', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.exceptionHandler(Closed, { response: { 503: Refusal } }, () => reply({ problem: 'closed' }, 503));
app.exceptionHandler(SoldOut, () => reply({ problem: 'sold out' }, 409)); // SVC305
app.get('/tickets/next', { response: Ticket }, () => { throw new SoldOut(); });
