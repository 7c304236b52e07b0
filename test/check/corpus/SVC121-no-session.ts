/** A route requires a session that no middleware provides. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireSession, sessionKey, str } from 'svc';

class Me extends Schema {
  name = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/me', { user: Depends(requireSession(sessionKey<string>('user'))), response: Me }, ({ user }) => ({ name: user })); // SVC121
