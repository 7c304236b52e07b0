// env: SVC_AUTH_SECRET={secret}
/** The layers of routes and routers always run inside those of the application, whose order cannot be changed for one route. */
import { CORSMiddleware, CSRFMiddleware, Field, RateLimitMiddleware, Router, Schema, SecurityHeadersMiddleware, SessionMiddleware, Svc, str } from 'svc';

class Mail extends Schema {
  text = Field(str, { maxLength: 64 });
}

export const app: Svc = new Svc({ title: 'Contact', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new SessionMiddleware()).use(new CSRFMiddleware());
const limit = (name: string) => new RateLimitMiddleware({ name, perMinute: 5 });
app.post('/contact', { body: Mail, public: 'anyone may write', status: 204, use: [limit('contact')] }, ({ body }) => { app.log.info('mail', { length: body.text.length }); });
app.get('/embed', { response: Mail, use: [new CORSMiddleware({ origins: '*' })] }, () => ({ text: 'Hello' }));
const widgets = new Router();
widgets.use(new CORSMiddleware({ origins: '*' })).use(limit('widgets'));
widgets.get('/first', { response: Mail }, () => ({ text: 'Widget' }));
app.includeRouter(widgets, '/widgets');
