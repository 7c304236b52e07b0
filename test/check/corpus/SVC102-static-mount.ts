/** A static folder and a route have the same path. */
import { FileResponse, HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/', () => new HTMLResponse('<link rel="stylesheet" href="/assets/site.css"><h1>Welcome</h1>'));
app.mountStatic('/assets', new URL('../public', import.meta.url)).get('/assets/{file:path}', () => new FileResponse(new URL('../public/site.css', import.meta.url))); // SVC102
app.get('/about', () => new HTMLResponse('<h1>About us</h1>'));
