// args: --env production
// env: SVC_AUTH_SECRET={secret}
/** A reply of which the code names each member needs no response schema. */
import { BearerAuth, Depends, SecurityHeadersMiddleware, Svc, reply } from 'svc';

export const app: Svc = new Svc({ title: 'Counts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const counts = new Map<number, number>([[1, 1]]);
app.get('/counts/{id:int}', { me: Depends(BearerAuth()) }, ({ params }) => ({
  id: params.id,
  count: counts.get(params.id) ?? 0,
}));
app.get('/counts', { me: Depends(BearerAuth()) }, () => reply({ size: counts.size }, 200));
