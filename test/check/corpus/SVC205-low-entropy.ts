// env: SVC_AUTH_SECRET=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa // SVC205
/** The secret is long, but repeats one letter. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class Figures extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Figures', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/figures', { me: Depends(requireRoles('board')), response: Figures }, ({ me }) => ({ text: me.sub }));
