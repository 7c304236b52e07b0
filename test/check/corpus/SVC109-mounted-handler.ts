/** A handler of another framework is mounted, whose routes no rule knows. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

const old = { fetch: (request: Request): Response => new Response(new URL(request.url).pathname) };

export const app: Svc = new Svc({ title: 'Recipes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.mount('/old', (request) => old.fetch(request)); // SVC109
