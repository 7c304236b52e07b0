// imports: throws
/** The origin `null` is allowed, which every sandboxed frame has. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://weather.example', 'null'] })); // SVC206
app.get('/weather', { response: Weather }, () => ({ text: 'rain' }));
