/** Three dependencies form a cycle. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context, Dependency } from 'svc';

class Price extends Schema {
  text = Field(str, { maxLength: 40 });
}

type Source = (context: Context) => string;
const currency: Source = provide({ get rate(): Dependency<string> { return Depends(rate); } }, ({ rate }) => `EUR ${rate}`);
const region: Source = provide({ currency: Depends(currency) }, ({ currency }) => `PT ${currency}`);
const rate: Source = provide({ region: Depends(region) }, ({ region }) => `1.1 ${region}`);
const format: Source = provide({ currency: Depends(currency) }, ({ currency }) => `${currency} 12`);
const clock: Source = () => 'noon';

export const app: Svc = new Svc({ title: 'Prices', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/noon', { clock: Depends(clock), response: Price }, ({ clock }) => ({ text: clock }));
app.get('/price', { text: Depends(format), response: Price }, ({ text }) => ({ text })); // SVC111
