/** The prefix of a router leads to a path that the application already has. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class City extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Places', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/v1/cities', { response: list(City) }, () => [{ name: 'Porto' }]);
app.get('/v1/cities/{name}', { response: City }, ({ params }) => ({ name: params.name }));

const cities = new Router({ prefix: '/cities', tags: ['cities'] });
cities.get('/{name}/districts', { response: list(City) }, ({ params }) => [{ name: params.name }]);
cities.get('/{slug}', { response: City }, ({ params }) => ({ name: params.slug })); // SVC101

app.includeRouter(cities, '/v1');
app.includeRouter(new Router().get('/cities/{name}', { response: City }, ({ params }) => ({ name: params.name })), '/v2');
