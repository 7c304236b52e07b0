// env: SVC_AUTH_SECRET={secret}
/** Fields contain words such as "token" but hold no secret, one secret field is marked, and some replies are not JSON. */
import { BearerAuth, Depends, Field, FileResponse, HTMLResponse, RedirectResponse, Schema, SecurityHeadersMiddleware, Svc, TextResponse, bool, datetime, int, list, str } from 'svc';

class Account extends Schema {
  name = Field(str, { maxLength: 80 });
  tokenCount = Field(int, { ge: 0 });
  passwordChangedAt = Field(datetime);
  hashtags = Field(list(str, { maxLength: 40 }), { maxLength: 20 });
  isSecretary = Field(bool);
}
class Login extends Schema {
  name = Field(str, { maxLength: 80 });
  password = Field(str, { minLength: 12, maxLength: 200, secret: true });
}

export const app: Svc = new Svc({ title: 'Accounts', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/account', { me: Depends(BearerAuth()), response: Account }, ({ me }) => ({ name: me.sub, tokenCount: 1, passwordChangedAt: new Date(0), hashtags: [], isSecretary: false }));
app.post('/accounts', { me: Depends(BearerAuth()), body: Login, status: 204, description: 'Opens an account.' }, ({ me, body }) => { me.sub.concat(body.name); });
app.get('/', () => new HTMLResponse('<h1>Accounts</h1>'));
app.get('/home', () => new RedirectResponse('/'));
app.get('/robots.txt', () => new TextResponse('User-agent: *'));
app.get('/site.css', () => new FileResponse(new URL('../public/site.css', import.meta.url)));
