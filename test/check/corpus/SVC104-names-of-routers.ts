/** Two routers each have a route with one name. */
import { Field, Router, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Author extends Schema {
  name = Field(str, { maxLength: 80 });
}
class Book extends Schema {
  title = Field(str, { maxLength: 80 });
}

const authors = new Router({ prefix: '/authors' });
authors.get('/', { name: 'author-list', response: list(Author) }, () => [{ name: 'Woolf' }]);
authors.get('/{id:int}', { name: 'show', response: Author }, () => ({ name: 'Woolf' }));
const books = new Router({ prefix: '/books' });
books.get('/', { name: 'book-list', response: list(Book) }, () => [{ title: 'Orlando' }]);
books.get('/{id:int}', { name: 'show', response: Book }, () => ({ title: 'Orlando' })); // SVC104

export const app: Svc = new Svc({ title: 'Library', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(authors).includeRouter(books);
