/** A handler reads a file synchronously. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Text extends Schema {
  text = Field(str, { maxLength: 100_000 });
}

const imprint = readFileSync(import.meta.filename, 'utf8').slice(0, 100);

export const app: Svc = new Svc({ title: 'Texts', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/imprint', { response: Text }, () => ({ text: imprint }));
app.get('/terms', { response: Text }, async () => ({ text: await readFile('terms.txt', 'utf8') }));
app.get('/privacy', { response: Text }, () => ({ text: readFileSync('privacy.txt', 'utf8') })); // SVC501
