// env: SVC_AUTH_SECRET={secret}
/** A list that every member may read has the tokens of invitations. */
import { BearerAuth, Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Invitation extends Schema {
  email = Field(str, { email: true, maxLength: 254 });
  token = Field(str, { maxLength: 64 });
}
class Member extends Schema {
  email = Field(str, { email: true, maxLength: 254 });
}

const team = new Router({ deps: { me: Depends(BearerAuth()) } });
team.get('/members', { response: list(Member) }, ({ me }) => [{ email: `${me.sub}@team.example` }]);
team.get('/invitations', { response: list(Invitation) }, ({ me }) => [{ email: `${me.sub}@team.example`, token: me.sub }]); // SVC302

export const app: Svc = new Svc({ title: 'Team', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(team, '/team');
