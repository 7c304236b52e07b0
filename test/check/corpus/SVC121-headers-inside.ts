/** Replies of the rate limiter have no security headers, because it is registered first. */
import { CompressionMiddleware, Field, RateLimitMiddleware, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Quote extends Schema {
  text = Field(str, { maxLength: 400 });
}

export const app: Svc = new Svc({ title: 'Quotes', trustProxy: 1 });
app.use(new RateLimitMiddleware({ perMinute: 600 }));
app.use(new SecurityHeadersMiddleware()); // SVC121
app.use(new CompressionMiddleware());
app.get('/quotes', { response: list(Quote) }, () => [{ text: 'Less, but better.' }]);
app.get('/quotes/{id:int}', { response: Quote }, ({ params }) => ({ text: `Number ${params.id}` }));
