// env: SVC_AUTH_SECRET={secret}
/** Two dependencies need each other. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context, Dependency } from 'svc';

class Account extends Schema {
  owner = Field(str, { maxLength: 80 });
}

const audit: (context: Context) => string = provide({ get account(): Dependency<string> { return Depends(account); } }, ({ account }) => `audit of ${account}`);
const account: (context: Context) => string = provide({ trail: Depends(audit) }, ({ trail }) => `account with ${trail}`);

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(BearerAuth()), response: Account }, ({ me }) => ({ owner: me.sub }));
app.get('/account', { owner: Depends(account), response: Account }, ({ owner }) => ({ owner })); // SVC111
