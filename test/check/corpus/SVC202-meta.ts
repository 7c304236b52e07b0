// env: SVC_AUTH_SECRET={secret}
/** One route switches off its CSRF protection. */
import { CSRFMiddleware, Depends, Router, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Mailbox', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
const mails = new Router({ deps: { me: Depends(requireSession(user)) } });
const kept = new Set<string>();
mails.delete('/{id:uuid}', { status: 204, description: 'Removes a mail.' }, ({ me, params }) => { kept.delete(me + params.id); });
mails.delete('/drafts/{id:uuid}', { status: 204, description: 'Removes a draft.', meta: { csrf: false } }, ({ me, params }) => { kept.delete(me + params.id); }); // SVC202
app.includeRouter(mails, '/mails');
