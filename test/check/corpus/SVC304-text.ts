// env: SVC_AUTH_SECRET={secret}
/** A text that every client may send has no maximum length. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, literal, str } from 'svc';

class Feedback extends Schema {
  mood = Field(literal('good', 'bad'));
  text = Field(str, { minLength: 1 });
}
class Complaint extends Schema {
  text = Field(str, { minLength: 1, maxLength: 2_000 });
}

export const app: Svc = new Svc({ title: 'Feedback', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/feedback', { me: Depends(BearerAuth()), response: list(Complaint) }, ({ me }) => [{ text: me.sub }]);
app.post('/complaints', { public: 'visitors write to us', body: Complaint, status: 204, description: 'Accepts a complaint.' }, ({ body }) => { body.text.trim(); });
app.post('/praise', { public: 'visitors write to us', body: Feedback, status: 204, description: 'Accepts a comment.' }, ({ body }) => { body.text.trim(); }); // SVC304
