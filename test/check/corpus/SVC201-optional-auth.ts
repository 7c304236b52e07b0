// env: SVC_AUTH_SECRET={secret}
/** The guard is optional, so it accepts requests without a credential. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Vote extends Schema {
  choice = Field(str, { minLength: 1, maxLength: 20 });
}
class Result extends Schema {
  votes = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Polls', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());
app.get('/polls/{id:int}', { me: Depends(BearerAuth(undefined, { optional: true })), response: Result }, ({ me, params }) => ({ votes: params.id + (me === undefined ? 0 : 1) }));
app.post('/polls/{id:int}/votes', { me: Depends(BearerAuth(undefined, { optional: true })), body: Vote, response: Result, description: 'Adds a vote.' }, ({ me, body }) => ({ votes: me === undefined ? 0 : body.choice.length })); // SVC201
app.post('/polls/{id:int}/seals', { me: Depends(BearerAuth()), body: Vote, response: Result, description: 'Ends the poll.' }, ({ me, body }) => ({ votes: me.sub.length + body.choice.length }));
