// env: SVC_AUTH_SECRET={secret}
/** A route of several methods repeats a method that its path already has. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Profile extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
  motto = Field('', { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Profiles', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());

app.get('/profile', { me: Depends(BearerAuth()), response: Profile }, ({ me }) => ({ name: me.sub, motto: '' }));
app.patch('/profile', { me: Depends(BearerAuth()), body: Profile, response: Profile, description: 'Changes the profile of the logged-in user.' }, ({ me, body }) => ({ name: me.sub, motto: body.motto }));
app.route('/profile', ['PUT', 'PATCH'], { me: Depends(BearerAuth()), body: Profile, response: Profile, description: 'Replaces the profile of the logged-in user.' }, ({ me, body }) => ({ name: me.sub, motto: body.motto })); // SVC101
