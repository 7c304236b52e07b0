/** A dependency with the scope of the application needs one with the scope of a request. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, provide, str } from 'svc';
import type { Context } from 'svc';

class Hello extends Schema {
  text = Field(str, { maxLength: 200 });
}

function language({ req }: Context): string { return req.headers['accept-language'] ?? 'en'; }
const clock = (): Date => new Date(0);
const phrases = provide({ language: Depends(language) }, ({ language }) => new Map([['hello', language]]));
const started = provide({ clock: Depends(clock, { scope: 'app' }) }, ({ clock }) => clock.toISOString());

export const app: Svc = new Svc({ title: 'Phrases', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/started', { started: Depends(started, { scope: 'app' }), response: Hello }, ({ started }) => ({ text: started }));
app.get('/hello', { phrases: Depends(phrases, { scope: 'app' }), response: Hello }, ({ phrases }) => ({ text: phrases.get('hello') ?? '' })); // SVC112
