// env: SVC_AUTH_SECRET={secret} PARTNER_KEY={secret2}
/** Writes are guarded by a router, a key, a nested dependency or the route options, or are public with a reason. */
import { APIKeyAuth, BearerAuth, Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, provide, requireRoles, requireScopes, str } from 'svc';

class Note extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

const claims = provide({ claims: Depends(BearerAuth()) }, ({ claims }) => claims);
const author = provide({ claims: Depends(claims) }, ({ claims }) => ({ name: claims.sub }));

const notes = new Router({ deps: { me: Depends(requireScopes('notes')) } });
notes.post('/', { body: Note, response: Note, description: 'Adds a note.' }, ({ me, body }) => ({ text: me.sub + body.text }));

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(notes, '/notes');
app.put('/motto', { author: Depends(author), body: Note, response: Note, description: 'Changes the motto.' }, ({ author, body }) => ({ text: author.name + body.text }));
app.post('/partner/notes', { partner: Depends(APIKeyAuth({ keys: { partner: process.env['PARTNER_KEY'] ?? '' } })), body: Note, response: Note, description: 'Adds a note of a partner.' }, ({ partner, body }) => ({ text: partner + body.text }));
app.delete('/notes', { me: Depends(requireRoles({ roles: ['admin'], auth: claims })), status: 204, description: 'Deletes all notes.' }, () => undefined);
app.post('/echo', { public: 'keeps nothing', body: Note, response: Note, description: 'Replies with the note that it receives.' }, ({ body }) => body);
app.route('/state', ['GET', 'HEAD', 'OPTIONS'], { response: Note }, () => ({ text: 'open' }));
