// env: SVC_AUTH_SECRET={secret}
/** The response uses the schema of the stored user, with the password. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class User extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
  password = Field(str, { minLength: 12, maxLength: 200 });
}
class PublicUser extends Schema {
  name = Field(str, { maxLength: 80 });
}

export const app: Svc = new Svc({ title: 'Users', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/users/{name}', { me: Depends(BearerAuth()), response: PublicUser }, ({ me, params }) => ({ name: params.name + me.sub }));
app.post('/users', { me: Depends(requireRoles('admin')), body: User, response: PublicUser, status: 201, description: 'Creates a user.' }, ({ me, body }) => ({ name: body.name + me.sub }));
app.get('/users/{name}/record', { me: Depends(requireRoles('admin')), response: User }, ({ me, params }) => ({ name: params.name, password: me.sub })); // SVC302
