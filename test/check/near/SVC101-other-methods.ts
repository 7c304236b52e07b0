// env: SVC_AUTH_SECRET={secret}
/** One path has several methods, two routes have different converters, and two routers share a path under different prefixes. */
import { BearerAuth, Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Part extends Schema {
  label = Field(str, { minLength: 1, maxLength: 40 });
}

const parts = new Router();
parts.get('/parts/{id:int}', { response: Part }, ({ params }) => ({ label: `number ${params.id}` }));
parts.get('/parts/{id:uuid}', { response: Part }, ({ params }) => ({ label: params.id }));
parts.get('/parts/{label}', { response: Part }, ({ params }) => ({ label: params.label }));
parts.route('/parts/{key:int}', ['PUT', 'PATCH'], { me: Depends(BearerAuth()), body: Part, response: Part, description: 'Changes a part.' }, ({ me, body }) => ({ label: me.sub + body.label }));

export const app: Svc = new Svc({ title: 'Parts', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(parts, '/v1').includeRouter(parts, '/v2');
