// args: --baseline SVC306-stronger-auth.json
// env: SVC_AUTH_SECRET={secret}
/** A route requires a token that the baseline does not require. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Rate extends Schema {
  text = Field(str, { maxLength: 40 });
}

export const app: Svc = new Svc({ title: 'Rates', version: '1.1.0', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/rates/today', { response: Rate }, () => ({ text: '1.08' }));
app.get('/rates/history', { me: Depends(BearerAuth()), response: Rate }, ({ me }) => ({ text: me.sub })); // SVC306
app.get('/rates/mine', { me: Depends(BearerAuth()), response: Rate }, ({ me }) => ({ text: me.sub }));
