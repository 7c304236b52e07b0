// env: SVC_AUTH_SECRET={secret}
/** Examples and defaults are exactly on their bounds, errors accompany a success, and a 204 has no content. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, nullable, reply, str } from 'svc';

class Reading extends Schema {
  unit = Field(str, { minLength: 1, maxLength: 3, example: '°C' });
  value = Field(int, { ge: 0, le: 100, example: 100 });
  remark = Field(nullable(str), { default: null, maxLength: 100, example: null });
  tags = Field(list(str, { maxLength: 20 }), { default: () => [], maxLength: 5, example: ['a', 'b'] });
}
class Missing extends Schema {
  detail = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Sensors', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/sensors/{name}', { query: { size: Field(int, { default: 100, ge: 1, le: 100 }) }, response: { 200: Reading, 404: Missing } }, ({ params, query }) => params.name === 'cellar' ? { unit: '%', value: query.size, remark: null, tags: [] } : reply({ detail: 'no such sensor' }, 404));
app.post('/sensors', { me: Depends(BearerAuth()), body: Reading, response: Reading, status: 201, description: 'Adds a sensor.' }, ({ me, body }) => ({ ...body, remark: me.sub }));
app.delete('/sensors/{name}', { me: Depends(BearerAuth()), status: 204, description: 'Removes a sensor.' }, ({ me }) => { me.sub.trim(); });
