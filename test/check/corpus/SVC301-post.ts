// env: SVC_AUTH_SECRET={secret}
/** A handler reads JSON without a schema. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Ticket extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120 });
}

export const app: Svc = new Svc({ title: 'Tickets', trustProxy: 1, maxBodyBytes: 20_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/tickets', { me: Depends(BearerAuth()), body: Ticket, response: Ticket, description: 'Opens a ticket.' }, ({ me, body }) => ({ title: `${me.sub}: ${body.title}` }));
app.post('/tickets/import', { me: Depends(BearerAuth()), response: Ticket, description: 'Imports a ticket from another system.' }, async ({ me, req }) => { // SVC301
  const { subject } = await req.json() as { subject: string };
  return { title: `${me.sub}: ${subject}` };
});
