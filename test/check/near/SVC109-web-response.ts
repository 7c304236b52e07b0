/** A route returns a web Response, but is a route of svc. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

export const app: Svc = new Svc({ title: 'Recipes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/old', () => new Response('recipes'));
