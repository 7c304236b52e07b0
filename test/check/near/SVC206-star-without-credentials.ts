// env: SVC_ENV=production
/** Every origin is allowed for public data, without cookies. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware({ crossOriginResourcePolicy: 'cross-origin' }));
app.use(new CORSMiddleware({ origins: '*', credentials: false, methods: ['GET'] }));
app.get('/weather', { response: Weather }, () => ({ text: 'rain' }));
