// env: SVC_AUTH_SECRET={secret}
/** A nested schema of the response has the hash of a password. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, requireRoles, str } from 'svc';

class Credential extends Schema {
  kind = Field(str, { maxLength: 20 });
  hash = Field(str, { maxLength: 200 });
}
class Member extends Schema {
  name = Field(str, { maxLength: 80 });
  credentials = Field(list(Credential), { maxLength: 5 });
}
class Count extends Schema {
  members = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Club', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/members/count', { response: Count }, () => ({ members: 2 }));
app.get('/members', { me: Depends(requireRoles('board')), response: list(Member) }, ({ me }) => [{ name: me.sub, credentials: [] }]); // SVC302
