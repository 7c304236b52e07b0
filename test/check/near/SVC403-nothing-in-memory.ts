// env: SVC_AUTH_SECRET={secret} SVC_WORKERS=4
/** Four processes keep sessions in cookies and rows in a database server. */
import { CSRFMiddleware, Depends, HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';
import { DatabasePlugin, db } from 'svc/db';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Members', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware());
app.use(new CSRFMiddleware());
app.register(new DatabasePlugin('postgres://members@db.internal.example/members?sslmode=verify-full'));
app.get('/', { me: Depends(requireSession(user)), db: Depends(db) }, async ({ me, db }) => new HTMLResponse(`<h1>${me.length + Number(await db.scalar('select 1'))}</h1>`));

const workers = app.config.get('workers', 1);
if (import.meta.main) await app.run({ workers });
