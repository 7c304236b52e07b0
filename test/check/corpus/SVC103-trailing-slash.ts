// env: SVC_AUTH_SECRET={secret}
/** The same path with and without a slash at its end, each with an answer of its own. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Team extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Teams', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/teams', { response: list(Team) }, () => [{ name: 'Red' }]);
app.get('/teams/{name}', { response: Team }, ({ params }) => ({ name: params.name }));
app.get('/teams/', { response: list(Team) }, () => [{ name: 'Blue' }]); // SVC103
app.post('/teams', { me: Depends(BearerAuth()), body: Team, response: Team, description: 'Founds a team.' }, ({ me, body }) => ({ name: `${me.sub}/${body.name}` }));
