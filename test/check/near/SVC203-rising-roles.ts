// env: SVC_AUTH_SECRET={secret}
/** Methods that change more require stronger roles, and every route below /admin requires a role. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, requireRoles, requireScopes, str } from 'svc';

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
const deleting = { me: Depends(requireRoles('admin')), status: 204, description: 'Deletes an article.' };
app.delete('/articles/{id:int}', deleting, ({ me }) => app.log.info('deleted', { by: me.sub }));
const writing = { me: Depends(requireScopes('tags:write')), status: 204, description: 'Adds a tag.' };
app.put('/tags/{id:int}', writing, ({ me }) => app.log.info('tagged', { by: me.sub }));
const removing = { me: Depends(requireScopes('tags:delete')), status: 204, description: 'Removes a tag.' };
app.delete('/tags/{id:int}', removing, ({ me }) => app.log.info('untagged', { by: me.sub }));
