/** The route has a dependency that its handler does not use. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, list, provide, str } from 'svc';

class Song extends Schema {
  title = Field(str, { maxLength: 100 });
}

const paging = provide({ query: { page: Field(1, { ge: 1, le: 1_000 }), size: Field(int, { default: 20, ge: 1, le: 100 }) } }, ({ query }) => ({ offset: (query.page - 1) * query.size, limit: query.size }));
const songs = (): readonly string[] => ['Gloria', 'Lola'];

export const app: Svc = new Svc({ title: 'Songs', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/songs', { songs: Depends(songs), page: Depends(paging), response: list(Song) }, ({ songs, page }) => songs.slice(page.offset, page.offset + page.limit).map((title) => ({ title })));
app.get('/songs/newest', { songs: Depends(songs), page: Depends(paging), response: list(Song) }, ({ songs }) => songs.map((title) => ({ title }))); // SVC113
