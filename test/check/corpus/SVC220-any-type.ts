/** An API accepts every token of its issuer, and so an id_token, too. */
import { Depends, Field, IssuerAuth, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str);
}

const token = IssuerAuth([ // SVC220
  { issuer: 'https://login.example', audience: 'https://api.example' },
  { issuer: 'https://shop.okta.example/oauth2/default', audience: 'api://default', requireType: false },
]);

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(token), response: Me, description: 'Shows the client.' }, ({ me }) => ({
  id: me.principal,
}));
