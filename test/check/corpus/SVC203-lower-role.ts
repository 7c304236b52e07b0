// env: SVC_AUTH_SECRET={secret}
/** PUT requires the role of an editor, and DELETE only that of a reader. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, str } from 'svc';

class Article extends Schema {
  title = Field(str, { minLength: 1, maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Articles', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.put(
  '/articles/{id:int}',
  { me: Depends(requireRoles('editor')), body: Article, response: Article, description: 'Changes an article.' },
  ({ body, me }) => ({ title: `${body.title} (${me.sub})`.slice(0, 200) }),
);
const deleting = { me: Depends(requireRoles('reader')), status: 204, description: 'Deletes an article.' };
app.delete('/articles/{id:int}', deleting, ({ me }) => app.log.info('deleted', { by: me.sub })); // SVC203
