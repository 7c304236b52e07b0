// env: SVC_ENV=production SVC_AUTH_SECRET={secret}
/** Production allows an origin without TLS, so attackers on the network can change its scripts. */
import { BearerAuth, CORSMiddleware, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://weather.example', 'http://old.weather.example'] })); // SVC206
app.get('/weather', { response: Weather }, () => ({ text: 'rain' }));
app.put('/weather', { me: Depends(BearerAuth()), body: Weather, response: Weather, description: 'Changes the weather report.' }, ({ me, body }) => ({ text: `${body.text} (${me.sub})` }));
