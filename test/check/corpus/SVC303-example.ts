/** The example of a field does not match its schema. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Sensor extends Schema {
  name = Field(str, { maxLength: 40, example: 'cellar' });
  percent = Field(int, { ge: 0, le: 100, example: 40 });
}
class Reading extends Schema {
  unit = Field(str, { minLength: 1, maxLength: 3, example: 'percent' });
  value = Field(int, { ge: 0, le: 100, example: 40 });
}

export const app: Svc = new Svc({ title: 'Sensors', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/sensors/{name}', { response: Sensor }, ({ params }) => ({ name: params.name, percent: 40 }));
app.get('/sensors/{name}/reading', { response: Reading }, ({ params }) => ({ unit: '%', value: params.name.length })); // SVC303
