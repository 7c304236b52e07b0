// env: SVC_ENV=development
/** The application declares `/docs`, where the framework serves its documentation outside production. */
import { Field, HTMLResponse, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Word extends Schema {
  text = Field(str, { maxLength: 60 });
}

export const app: Svc = new Svc({ title: 'Words', trustProxy: 1, enableDocs: true });
app.use(new SecurityHeadersMiddleware());
app.get('/words/{text}', { response: Word }, ({ params }) => ({ text: params.text }));
app.get('/docs/{page}', () => new HTMLResponse('<h1>How to</h1>'));
app.get('/docs', () => new HTMLResponse('<h1>Documentation</h1>')); // SVC102
