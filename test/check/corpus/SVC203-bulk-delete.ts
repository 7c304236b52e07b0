// env: SVC_AUTH_SECRET={secret}
/** Deleting one user requires an administrator. Deleting every user requires only a user. */
import { Depends, SecurityHeadersMiddleware, Svc, requireRoles } from 'svc';

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const one = { me: Depends(requireRoles('admin')), status: 204, description: 'Deletes a user.' };
app.delete('/users/{id:int}', one, ({ me }) => app.log.info('deleted', { by: me.sub }));
const all = { me: Depends(requireRoles('user')), status: 204, description: 'Deletes every user.' };
app.delete('/users', all, ({ me }) => app.log.info('deleted', { by: me.sub })); // SVC203
