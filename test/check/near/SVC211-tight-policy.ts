// env: SVC_ENV=production
/** A policy of its own, and a long promise about TLS, which the proxy in front speaks. */
import { HTMLResponse, SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Site', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { defaultSrc: "'none'", imgSrc: "'self'" }, strictTransportSecurity: { maxAgeSeconds: 63_072_000, preload: true } }));
app.get('/', () => new HTMLResponse('<h1>Welcome</h1>'));
