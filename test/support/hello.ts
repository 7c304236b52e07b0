/**
 * The application of `npm start`: small, but with real features.
 */
import { HTMLResponse, NotFound, Svc, reply } from 'svc';

interface Note {
  readonly id: number;
  readonly text: string;
}

export const app: Svc = new Svc({ title: 'Notes', version: '1.0.0' });
const notes = new Map<number, Note>();
let lastId = 0;

app.get(
  '/',
  () =>
    new HTMLResponse(`<!doctype html><html lang="en"><title>svc</title><h1>It works</h1>
<p>Try <a href="/notes">/notes</a>, or: <code>curl -d '{"text":"hello"}' -H 'content-type: application/json' http://127.0.0.1:8000/notes</code></p></html>`),
);
app.get('/notes', () => [...notes.values()]);
app.get('/notes/{id:int}', { name: 'note' }, ({ params }) => notes.get(params.id) ?? missing());
app.post('/notes', async ({ req }) => {
  const { text } = (await req.json()) as { text?: unknown };
  const note = { id: ++lastId, text: String(text).slice(0, 1_000) };
  notes.set(note.id, note);
  return reply(note, 201, { Location: app.urlFor('note', { id: note.id }) });
});
app.delete('/notes/{id:int}', ({ params }) => (notes.delete(params.id) ? undefined : missing()));

function missing(): never {
  throw new NotFound('There is no such note');
}
