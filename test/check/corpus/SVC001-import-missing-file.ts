// imports: throws
/** The import fails: the settings file that the module reads does not exist. */
import { readFileSync } from 'node:fs';
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Greeting extends Schema {
  text = Field(str, { maxLength: 80 });
}

const settings = JSON.parse(readFileSync(new URL('./settings-that-are-not-here.json', import.meta.url), 'utf8')) as { greeting: string }; // SVC001

export const app: Svc = new Svc({ title: 'Greeter', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/greeting', { response: Greeting }, () => ({ text: settings.greeting }));
