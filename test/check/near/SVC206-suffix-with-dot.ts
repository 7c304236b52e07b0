// env: SVC_AUTH_SECRET={secret}
/** Functions compare whole origins, or the end of an origin after a dot. */
import { BearerAuth, CORSMiddleware, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Weather extends Schema {
  text = Field(str, { maxLength: 80 });
}


export const app: Svc = new Svc({ title: 'Weather', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: (origin) => origin === 'https://one.example' || origin.endsWith('.two.example') || /^https:..[a-z]+[.]three[.]example$/.test(origin), credentials: true }));
app.get('/weather', { me: Depends(BearerAuth()), response: Weather }, ({ me }) => ({ text: me.sub }));
