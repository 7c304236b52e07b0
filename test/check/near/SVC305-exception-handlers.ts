/** Exception handlers declare their responses, or send no JSON. */
import { Field, HTMLResponse, HTTPException, NotFound, RedirectResponse, Schema, SecurityHeadersMiddleware, Svc, ValidationError, reply, str } from 'svc';

class SoldOut extends Error {}
class Moved extends Error {}
class Refusal extends Schema {
  problem = Field(str, { maxLength: 100 });
}
class Ticket extends Schema {
  seat = Field(str, { maxLength: 5 });
}

export const app: Svc = new Svc({ title: 'Tickets', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.exceptionHandler(HTTPException, { response: Refusal }, (error) => reply({ problem: error.detail }, error.status));
app.exceptionHandler(ValidationError, { response: Refusal, status: 422 }, () => ({ problem: 'invalid' }));
app.exceptionHandler(SoldOut, { response: { 409: Refusal } }, () => [{ problem: 'sold out' }, 409]);
app.exceptionHandler(Moved, () => new RedirectResponse('/tickets/next', { status: 303 }));
app.exceptionHandler(NotFound, () => new HTMLResponse('<h1>No such page', { status: 404 }));
app.get('/tickets/next', { response: Ticket }, () => { throw new SoldOut(); });
