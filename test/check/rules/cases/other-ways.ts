/** Applications that make a known mistake in a less usual way, and the same ways without the mistake (SVC604). */
export const OTHER_WAYS: Readonly<Record<string, string>> = {
  'patterns that methods of texts make': `
import { db as database } from 'svc/db';
import { Depends, Field, Schema, Svc, str } from 'svc';
const app = new Svc();
class Search extends Schema { q = Field(str, { maxLength: 80 }); text = Field(str, { maxLength: 2_000 }); }
app.post('/search', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.search(body.q) })); // SVC604
app.get('/words', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => ({ words: 'one two three'.match(query.q)?.length ?? 0 })); // SVC604
app.get('/titles', { db: Depends(database), query: { q: Field(str, { maxLength: 80 }) } }, async ({ db, query }) => {
  const rows = await db.fetchAll('select id, title from note order by id limit 50');
  return rows.filter((row) => row.title.toLowerCase().search(query.q) >= 0).map(({ id }) => id); // SVC604
});
app.post('/found', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.indexOf(body.q), words: body.text.match(/\\w+/g) }));
app.post('/escaped', { public: 'all', body: Search }, ({ body }) => ({ at: body.text.search(RegExp.escape(body.q)) }));
const index = { search: (words) => [words.length] };
app.get('/index', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => index.search(query.q));
app.get('/elsewhere', { query: { q: Field(str, { maxLength: 80 }) } }, ({ query }) => globalThis.engine.search(query.q));
`,
};
