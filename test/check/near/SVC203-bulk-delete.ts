// env: SVC_AUTH_SECRET={secret}
/** Deleting every note requires a stronger role than deleting one. Clients may end their own sessions. */
import { Depends, SecurityHeadersMiddleware, Svc, requireRoles } from 'svc';

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const byUser = { me: Depends(requireRoles('user')), status: 204, description: 'Deletes with the role user.' };
const byAdmin = { me: Depends(requireRoles('admin')), status: 204, description: 'Deletes with the role admin.' };
app.delete('/notes/{id:int}', byUser, ({ me }) => app.log.info('deleted', { by: me.sub }));
app.delete('/notes', byAdmin, ({ me }) => app.log.info('deleted', { by: me.sub }));
app.delete('/sessions/{id:int}', byAdmin, ({ me }) => app.log.info('ended', { by: me.sub }));
app.delete('/sessions', byUser, ({ me }) => app.log.info('ended', { by: me.sub }));
