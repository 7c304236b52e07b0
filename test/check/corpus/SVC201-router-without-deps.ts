// env: SVC_AUTH_SECRET={secret}
/** One router has a guard. The router beside it has none. */
import { Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, requireRoles, requireScopes, str } from 'svc';

class Setting extends Schema {
  value = Field(str, { maxLength: 200 });
}

const admin = new Router({ deps: { me: Depends(requireRoles('admin')) } });
admin.put('/settings/{key}', { body: Setting, response: Setting, description: 'Changes a setting.' }, ({ me, body }) => ({ value: `${body.value} by ${me.sub}` }));
const reports = new Router({ tags: ['reports'] });
reports.get('/daily', { me: Depends(requireScopes('reports')), response: Setting }, ({ me }) => ({ value: me.sub }));
reports.patch('/recipients', { body: Setting, response: Setting, description: 'Changes who gets the reports.' }, ({ body }) => ({ value: body.value })); // SVC201

export const app: Svc = new Svc({ title: 'Backoffice', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(admin, '/admin').includeRouter(reports, '/reports');
