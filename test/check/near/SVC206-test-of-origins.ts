// env: SVC_AUTH_SECRET={secret}
/** A function tests the origin, with credentials. */
import { BearerAuth, CORSMiddleware, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

const customers = new Set(['https://one.example', 'https://two.example']);

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: (origin) => customers.has(origin), credentials: true }));
app.get('/weather', { me: Depends(BearerAuth()), response: Weather }, ({ me }) => ({ text: me.sub }));
