/** `app.route` declares a list of methods, and one of them writes without a guard. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Level extends Schema {
  percent = Field(int, { ge: 0, le: 100 });
}

export const app: Svc = new Svc({ title: 'Heating', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
let percent = 20;
app.route('/levels/current', ['GET'], { response: Level }, () => ({ percent }));
app.route('/levels/target', ['PUT'], { body: Level, response: Level, description: 'Sets the level.' }, ({ body }) => ({ percent: percent = body.percent })); // SVC201
