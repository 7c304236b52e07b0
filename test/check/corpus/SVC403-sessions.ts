// env: SVC_AUTH_SECRET={secret} SVC_WORKERS=4
/** Four processes each keep sessions in their own memory. */
import { CSRFMiddleware, Depends, HTMLResponse, MemoryRecordStore, SecurityHeadersMiddleware, SessionMiddleware, Svc, requireSession, sessionKey } from 'svc';

const user = sessionKey<string>('user');

export const app: Svc = new Svc({ title: 'Members', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware({ store: new MemoryRecordStore({ maxRecords: 10_000 }) })); // SVC403
app.use(new CSRFMiddleware());
app.get('/', { me: Depends(requireSession(user)) }, ({ me }) => new HTMLResponse(`<h1>${me.length}</h1>`));

const workers = app.config.get('workers', 1);
if (import.meta.main) await app.run({ workers });
