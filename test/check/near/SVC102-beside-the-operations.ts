/** Paths begin like those of the framework, one template matches many paths, and a static folder has routes beside it. */
import { Field, HTMLResponse, Schema, SecurityHeadersMiddleware, Svc, TextResponse, str } from 'svc';

class Health extends Schema {
  status = Field(str, { maxLength: 10 });
}

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1, enableDocs: false });
app.use(new SecurityHeadersMiddleware());
app.get('/healthz/database', { response: Health }, () => ({ status: 'ok' }));
app.get('/health', { response: Health }, () => ({ status: 'ok' }));
app.get('/metrics-of-the-shop', { response: Health }, () => ({ status: 'ok' }));
app.get('/docs', () => new HTMLResponse('<h1>Our own documentation</h1>'));
app.get('/assets/version', () => new TextResponse('17'));
app.mountStatic('/assets', new URL('../public', import.meta.url));
app.get('/pages/{name}', () => new HTMLResponse('<h1>Page</h1>'));
app.get('/pages/{rest:path}', () => new HTMLResponse('<h1>Pages</h1>'));
