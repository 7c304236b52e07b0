// env: SVC_ENV=production
/** The application sends HSTS, but has neither a certificate nor a trusted proxy. */
import { HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Site' });
app.use(new SecurityHeadersMiddleware({ strictTransportSecurity: { maxAgeSeconds: 63_072_000, preload: true } })); // SVC211
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
app.get('/about', () => new HTMLResponse('<h1>About us</h1>'));
