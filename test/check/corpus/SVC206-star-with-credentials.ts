// imports: throws
/** Every origin may send requests with cookies. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: '*', credentials: true })); // SVC206
app.get('/weather', { response: Weather }, () => ({ text: 'rain' }));
