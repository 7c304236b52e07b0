// env: SVC_AUTH_SECRET={secret}
/** PATCH reads a body without a schema. The other two writes have a schema or no body. */
import { BearerAuth, Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Shelf extends Schema {
  label = Field(str, { minLength: 1, maxLength: 40 });
}

const shelves = new Router({ deps: { me: Depends(BearerAuth()) } });
shelves.put('/{id:int}', { body: Shelf, response: Shelf, description: 'Replaces a shelf.' }, ({ me, body }) => ({ label: body.label + me.sub }));
shelves.patch('/{id:int}', { response: Shelf, description: 'Changes a shelf.' }, async ({ me, req }) => ({ label: me.sub + String(await req.json()) })); // SVC301
shelves.delete('/{id:int}', { status: 204, description: 'Removes a shelf.' }, ({ me }) => { me.sub.trim(); });

export const app: Svc = new Svc({ title: 'Store', trustProxy: 1, maxBodyBytes: 20_000 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(shelves, '/shelves');
