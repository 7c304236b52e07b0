/** The pattern of allowed origins has no anchor at its end. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: (origin) => /^https:..(www.)?shop\.example/.test(origin), credentials: true, exposeHeaders: ['X-Request-Id'] })); // SVC206
app.get('/weather', { response: Weather }, () => ({ text: 'rain' }));
app.get('/weather/{city}', { response: Weather }, ({ params }) => ({ text: `rain in ${params.city}` }));
