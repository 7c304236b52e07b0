/** Two dependencies need a third one: a diamond, but no cycle. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context } from 'svc';

class Account extends Schema {
  text = Field(str, { maxLength: 200 });
}

const address = ({ req }: Context): string => req.ip;
const audit = provide({ address: Depends(address) }, ({ address }) => `audit of ${address}`);
const owner = provide({ address: Depends(address) }, ({ address }) => `owner at ${address}`);
const account = provide({ audit: Depends(audit), owner: Depends(owner), address: Depends(address) }, ({ audit, owner, address }) => `${audit}, ${owner}, ${address}`);

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/account', { account: Depends(account), audit: Depends(audit), response: Account }, ({ account, audit }) => ({ text: account + audit }));
