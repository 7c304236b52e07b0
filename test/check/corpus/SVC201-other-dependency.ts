// env: SVC_AUTH_SECRET={secret}
/** A dependency named `user` does not authenticate the client. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context } from 'svc';

class Comment extends Schema {
  text = Field(str, { minLength: 1, maxLength: 1_000 });
}

const user = ({ req }: Context): { readonly name: string } => ({ name: req.cookies['name'] ?? 'anonymous' });
const author = provide({ claims: Depends(BearerAuth()) }, ({ claims }) => ({ name: claims.sub }));

export const app: Svc = new Svc({ title: 'Comments', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.post('/reviews', { author: Depends(author), body: Comment, response: Comment, description: 'Adds a review.' }, ({ author, body }) => ({ text: `${author.name}: ${body.text}` }));
app.post('/comments', { user: Depends(user), body: Comment, response: Comment, description: 'Adds a comment.' }, ({ user, body }) => ({ text: `${user.name}: ${body.text}` })); // SVC201
