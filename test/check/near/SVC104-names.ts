/** Names are similar but different, one route of two methods has a name, and one name of a link is computed. */
import { Field, RedirectResponse, Schema, SecurityHeadersMiddleware, Svc, int, str } from 'svc';

class Film extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { maxLength: 120 });
}

const pages: Readonly<Record<string, string>> = { newest: 'film', all: 'films' };

export const app: Svc = new Svc({ title: 'Films', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/films', { name: 'films', response: Film }, () => ({ id: 1, title: 'Metropolis' }));
app.get('/films/{id:int}', { name: 'film', response: Film }, ({ params }) => ({ id: params.id, title: 'Metropolis' }));
app.get('/films/{id:int}/poster', { name: 'film-poster', response: Film }, ({ params }) => ({ id: params.id, title: 'Metropolis' }));
app.get('/newest', () => new RedirectResponse(app.urlFor('film', { id: 9 })));
app.get('/go/{page}', ({ params }) => new RedirectResponse(app.urlFor(pages[params.page] ?? 'films', { id: 9 })));
