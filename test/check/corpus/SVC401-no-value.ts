/** A required setting has no value. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Price extends Schema {
  cents = Field(int, { ge: 0 });
  currency = Field(str, { maxLength: 3 });
}

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1, config: { currency: 'EUR' } });
app.use(new SecurityHeadersMiddleware());
const currency = app.config.get('currency', 'USD');
const timeoutMs = app.config.get('paymentTimeoutMs', 5_000);
const merchant = app.config.get('merchantId'); // SVC401
app.get('/prices/{id:int}', { response: Price }, ({ params }) => ({ cents: params.id + timeoutMs + String(merchant).length, currency }));
