/** The keys of an issuer come through the cluster without TLS. */
import { Depends, Field, IssuerAuth, Schema, SecurityHeadersMiddleware, Svc, requireScopes, str } from 'svc';

class Me extends Schema {
  id = Field(str);
}

const issuer = 'https://login.example/realms/shop';
const jwksUri = 'http://keycloak:8080/realms/shop/protocol/openid-connect/certs';
const token = IssuerAuth({ issuer, audience: 'https://api.example', jwksUri, allowInsecure: ['keycloak'] }); // SVC220

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get(
  '/me',
  { me: Depends(requireScopes({ scopes: ['profile'], auth: token })), response: Me, description: 'Shows the client.' },
  ({ me }) => ({ id: me.principal }),
);
