// env: SVC_AUTH_SECRET={secret}
/** Two routes differ only in the names of their parameters. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Order extends Schema {
  id = Field(int, { ge: 1 });
  state = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Orders', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());

app.get('/orders', { me: Depends(BearerAuth()), response: list(Order) }, ({ me }) => [{ id: me.sub.length, state: 'open' }]);
app.get('/orders/{id:int}', { me: Depends(BearerAuth()), response: Order }, ({ me, params }) => ({ id: params.id, state: me.sub }));
app.get('/orders/{id:int}/lines', { me: Depends(BearerAuth()), response: list(str) }, ({ me }) => [me.sub]);
app.delete('/orders/{id:int}', { me: Depends(BearerAuth()), status: 204, description: 'Cancels an order.' }, ({ me }) => { me.sub.trim(); });
app.get('/orders/{orderId:int}', { me: Depends(BearerAuth()), response: Order }, ({ me, params }) => ({ id: params.orderId, state: me.sub })); // SVC101
