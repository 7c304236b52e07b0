/** HEAD replies with 204 where GET sends a report. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Summary extends Schema {
  text = Field(str, { maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Reports', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/reports/{day}', { response: Summary }, ({ params }) => ({ text: params.day }));
app.route('/reports/{day}', ['HEAD'], { status: 204 }, () => null); // SVC105
app.get('/reports/{day}/notes', { response: Summary }, ({ params }) => ({ text: params.day }));
