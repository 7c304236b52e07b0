// env: SVC_ENV=production SVC_AUTH_SECRET={secret}
/** Production serves the documentation of an internal interface to every client. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Salary extends Schema {
  grade = Field(str, { maxLength: 4 });
}

export const app: Svc = new Svc({ title: 'Salaries', trustProxy: 1, enableDocs: true }); // SVC208
app.use(new SecurityHeadersMiddleware());
app.get('/salaries/{id:int}', { me: Depends(BearerAuth()), response: Salary }, ({ me, params }) => ({ grade: `${me.sub}${params.id}`.slice(0, 4) }));
