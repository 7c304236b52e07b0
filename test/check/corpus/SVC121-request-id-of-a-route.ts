/** A route has its own middleware for request ids, which come before routing. */
import { Field, RequestIDMiddleware, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Word extends Schema {
  text = Field(str, { maxLength: 20 });
}

export const app: Svc = new Svc({ title: 'Words', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/words', { use: [new RequestIDMiddleware()], response: Word }, () => ({ text: 'a' })); // SVC121
