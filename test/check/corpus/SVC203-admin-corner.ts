// env: SVC_AUTH_SECRET={secret}
/** One route below /admin requires no role, and the others require one. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, requireRoles } from 'svc';

class Statistics extends Schema {
  users = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Back office', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get(
  '/admin/statistics',
  { me: Depends(requireRoles('admin')), response: Statistics },
  ({ me }) => ({ users: me.sub.length }),
);
const exporting = { me: Depends(BearerAuth()), response: Statistics };
app.get('/admin/export', exporting, ({ me }) => ({ users: me.sub.length })); // SVC203
