/** The handler sends pages to browsers and throws its errors again, so that the document has no content for errors. */
import { Field, HTMLResponse, HTTPException, NotFound, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Ticket extends Schema {
  seat = Field(str, { maxLength: 5 });
}

export const app: Svc = new Svc({ title: 'Tickets', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.exceptionHandler(HTTPException, (error, req) => { // SVC305
  if (req.headers['accept']?.includes('text/html') !== true) throw error;
  return new HTMLResponse('<h1>Error</h1>', { status: error.status });
});
app.exceptionHandler(NotFound, { response: 'application/problem+json' }, (error, req) => {
  if (req.headers['accept']?.includes('text/html') !== true) throw error;
  return new HTMLResponse('<h1>Not found</h1>', { status: 404 });
});
app.get('/tickets/next', { response: Ticket }, () => { throw new NotFound('Sold out'); });
