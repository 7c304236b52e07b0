// env: SVC_AUTH_SECRET={secret}
/** Two routes differ only in a slash at the end of their paths. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Team extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Teams', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/teams', { response: list(Team) }, () => [{ name: 'Red' }]);
app.get('/teams/{name}', { response: Team }, ({ params }) => ({ name: params.name }));
app.get('/teams/', { response: list(Team) }, () => [{ name: 'Blue' }]); // SVC103
app.post('/teams', { me: Depends(BearerAuth()), body: Team, response: Team, description: 'Creates a team.' }, ({ me, body }) => ({ name: `${me.sub}/${body.name}` }));
