/** Paths share a beginning or differ in case, but also differ in their words. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Team extends Schema {
  name = Field(str, { minLength: 1, maxLength: 60 });
}

const teams = new Router({ prefix: '/teams' });
teams.get('/', { response: list(Team) }, () => [{ name: 'Red' }]);
teams.get('/{name}', { response: Team }, ({ params }) => ({ name: params.name }));
teams.get('/{name}/members', { response: list(Team) }, () => []);
teams.get('/newest', { response: Team }, () => ({ name: 'Blue' }));

export const app: Svc = new Svc({ title: 'Teams', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/team', { response: Team }, () => ({ name: 'Red' }));
app.get('/TeamsOfTheYear', { response: list(Team) }, () => []);
app.includeRouter(teams);
