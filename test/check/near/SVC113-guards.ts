// env: SVC_AUTH_SECRET={secret}
/** Guards are not used by their handlers, and one handler passes its whole context on. */
import { Depends, Field, RateLimiter, Router, Schema, SecurityHeadersMiddleware, Svc, TooManyRequests, int, list, provide, requireRoles, str } from 'svc';

class Song extends Schema {
  title = Field(str, { maxLength: 100 });
}

const paging = provide({ query: { page: Field(1, { ge: 1, le: 1_000 }), size: Field(int, { default: 20, ge: 1, le: 100 }) } }, ({ query }) => ({ offset: (query.page - 1) * query.size, limit: query.size }));
const songs = (): readonly string[] => ['Gloria', 'Lola'];
const show = (context: { readonly songs: readonly string[]; readonly page: { readonly offset: number; readonly limit: number } }): { title: string }[] => context.songs.slice(context.page.offset).map((title) => ({ title }));

const admin = new Router({ deps: { me: Depends(requireRoles('admin')) } });
admin.delete('/songs/{id:int}', { status: 204, description: 'Removes a song.' }, () => undefined);
admin.get('/songs', { songs: Depends(songs), response: list(Song) }, ({ songs: all }) => all.map((title) => ({ title })));

export const app: Svc = new Svc({ title: 'Songs', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/songs', { songs: Depends(songs), page: Depends(paging), response: list(Song) }, (context) => show(context));
app.includeRouter(admin, '/admin');

// a helper refuses, and another dependency counts
const limiter = new RateLimiter({ name: 'songs', perMinute: 60 });
const refuse = (): never => { throw new TooManyRequests(); };
const quiet = provide({}, ({ req }) => (req.headers['x-quiet'] === undefined ? 'loud' : refuse()));
const counted = provide({}, async ({ req }) => { await limiter.take(req); return 1; });
app.get('/songs/loud', { quiet: Depends(quiet), counted: Depends(counted), songs: Depends(songs), response: list(Song) }, ({ songs }) => songs.map((title) => ({ title })));
