/** A nested schema has a text without a maximum length. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, nullable, str } from 'svc';

class Stop extends Schema {
  place = Field(str, { minLength: 1, maxLength: 80 });
  remark = Field(nullable(str), { default: null });
}
class Trip extends Schema {
  name = Field(str, { maxLength: 80 });
  stops = Field(list(Stop), { maxLength: 50 });
}
class Length extends Schema {
  stops = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Trips', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/trips/{id:int}/length', { response: Length }, ({ params }) => ({ stops: params.id }));
app.post('/trips/length', { public: 'a calculation that keeps nothing', body: Trip, response: Length, description: 'Returns the length of a trip.' }, ({ body }) => ({ stops: body.stops.length })); // SVC304
