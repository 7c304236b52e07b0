// env: SVC_AUTH_SECRET={secret}
/** Every write is guarded except one DELETE. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class Photo extends Schema {
  caption = Field(str, { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Photos', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
const photos = new Map<string, string>();
app.get('/photos/{id:uuid}', { response: Photo }, ({ params }) => ({ caption: photos.get(params.id) ?? '' }));
app.patch('/photos/{id:uuid}/caption', { me: Depends(BearerAuth()), body: Photo, response: Photo, description: 'Changes the caption.' }, ({ me, body }) => ({ caption: me.sub + body.caption }));
app.delete('/photos/{id:uuid}', { status: 204, description: 'Removes a photo.' }, ({ params }) => { photos.delete(params.id); }); // SVC201
app.delete('/photos', { me: Depends(requireRoles('admin')), status: 204, description: 'Removes all photos.' }, ({ me }) => { if (me.sub !== '') photos.clear(); });
