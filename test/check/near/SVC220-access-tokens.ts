/** The keys come by TLS from inside the cluster, and a claim tells access tokens from others. */
import { Depends, Field, IssuerAuth, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str);
}

const token = IssuerAuth([
  {
    issuer: 'https://login.example/realms/shop',
    audience: 'https://api.example',
    jwksUri: 'https://keycloak:8443/realms/shop/protocol/openid-connect/certs',
    allowPrivate: true,
    requireType: false,
    requiredClaims: { typ: 'Bearer' },
  },
  // the keys are known, so nothing comes by http
  {
    issuer: 'https://robots.example',
    audience: 'https://api.example',
    jwks: { keys: [] },
    allowInsecure: ['robots'],
  },
  // only the machine itself may answer by http
  { issuer: 'https://other.example', audience: 'https://api.example', allowInsecure: true },
]);

export const app: Svc = new Svc({ title: 'Shop', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(token), response: Me, description: 'Shows the client.' }, ({ me }) => ({
  id: me.principal,
}));
