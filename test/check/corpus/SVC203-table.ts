// env: SVC_AUTH_SECRET={secret}
/** A loop over a table declares the routes. One of them requires no role. */
import { BearerAuth, Depends, SecurityHeadersMiddleware, Svc, requireRoles } from 'svc';

const editor = Depends(requireRoles('billing'));
const ROUTES = [
  { method: 'POST', path: '/plans', guard: editor, description: 'Adds a plan' },
  { method: 'PUT', path: '/plans/{id:int}', guard: editor, description: 'Changes a plan' },
  { method: 'DELETE', path: '/plans/{id:int}', guard: editor, description: 'Removes a plan' },
  { method: 'POST', path: '/refunds', guard: Depends(BearerAuth()), description: 'Pays a sum back' }, // SVC203
];

export const app: Svc = new Svc({ title: 'Plans', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
const log: string[] = [];
for (const { method, path, guard, description } of ROUTES)
  app.route(path, [method], { guard, status: 204, description }, ({ guard: me }) => {
    log[0] = me.sub;
  });
