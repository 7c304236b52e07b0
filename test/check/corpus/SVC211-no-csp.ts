/** The content security policy is switched off. */
import { HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: false, frameOptions: 'SAMEORIGIN' })); // SVC211
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
app.get('/search', ({ req }) => new HTMLResponse(`<h1>${encodeURIComponent(req.query.get('q') ?? '')}</h1>`));
