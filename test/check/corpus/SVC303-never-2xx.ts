/** A route declares only error statuses. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Notice extends Schema {
  text = Field(str, { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Notices', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/notices', { response: list(Notice) }, () => [{ text: 'Closed on Monday' }]);
app.get('/notices/newest', { response: { 200: Notice, 404: Notice } }, () => ({ text: 'Closed on Monday' }));
app.get('/notices/oldest', { response: Notice, status: 500 }, () => ({ text: 'Open' })); // SVC303
