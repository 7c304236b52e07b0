/** The secret is strong, but it is written in the source, where every reader of the repository sees it. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Me extends Schema {
  id = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Open book', trustProxy: 1, authSecret: 'q7Vd2xN0sKc9TzYb4RwLh8PfJm1GuEoA6iXvBnCkSrD' }); // SVC205
app.use(new SecurityHeadersMiddleware());
app.get('/me', { me: Depends(BearerAuth()), response: Me }, ({ me }) => ({ id: me.sub }));
