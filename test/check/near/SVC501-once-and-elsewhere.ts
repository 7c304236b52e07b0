/** Blocking calls run once at import or in a hook, and another function only has the name of a blocking one. */
import { readFileSync } from 'node:fs';
import { pbkdf2 } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Text extends Schema {
  text = Field(str, { maxLength: 100_000 });
}

const imprint = readFileSync(import.meta.filename, 'utf8').slice(0, 100);
const derive = promisify(pbkdf2);
const lastSync = { at: 'noon', isInSync: true };
let terms = '';

export const app: Svc = new Svc({ title: 'Texts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.onStartup(() => { terms = readFileSync(import.meta.filename, 'utf8'); });
app.get('/imprint', { response: Text }, () => ({ text: imprint + terms.length }));
app.get('/terms', { response: Text }, async () => ({ text: await readFile('terms.txt', 'utf8') }));
app.get('/sync', { response: Text }, () => ({ text: lastSync.isInSync ? lastSync.at : 'never' })); // not readFileSync
app.get('/key/{name}', { response: Text }, async ({ params }) => ({ text: (await derive(params.name, 'salt', 600_000, 32, 'sha256')).toString('hex') }));
