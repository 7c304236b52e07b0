// files: migrations/0001_notes.up.sql=SVC402-notes.up.sql migrations/0003_tags.up.sql=SVC402-notes.up.sql
/** The migration files have a gap: the second one is missing. */
import { SecurityHeadersMiddleware, Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./notes.db', { statementTimeoutMs: 1_000 })); // SVC402
