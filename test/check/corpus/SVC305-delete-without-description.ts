// env: SVC_AUTH_SECRET={secret}
/** A tool that deletes has no description. The route beside it is excluded from MCP. */
import { Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, requireScopes, str } from 'svc';

class Key extends Schema {
  label = Field(str, { maxLength: 40 });
}

const keys = new Router({ prefix: '/keys', tags: ['keys'], deps: { me: Depends(requireScopes('keys')) } });
keys.get('/{id:uuid}', { response: Key }, ({ me }) => ({ label: me.sub }));
keys.delete('/{id:uuid}', { mcp: true, status: 204 }, ({ me }) => { me.sub.trim(); }); // SVC305
keys.put('/{id:uuid}', { mcp: false, body: Key, response: Key }, ({ me, body }) => ({ label: body.label + me.sub }));

export const app: Svc = new Svc({ title: 'Keys', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(keys);
