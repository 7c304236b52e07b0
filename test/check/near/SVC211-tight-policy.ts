// env: SVC_ENV=production
/** The security headers have a custom policy and HSTS, and a proxy provides TLS. */
import { HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { defaultSrc: "'none'", imgSrc: "'self'" }, strictTransportSecurity: { maxAgeSeconds: 63_072_000, preload: true } }));
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
