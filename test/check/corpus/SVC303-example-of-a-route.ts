/** The example of a route has a text where the handler returns a Date, so the document leaves it out. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, datetime, str } from 'svc';

class Reading extends Schema {
  unit = Field(str, { maxLength: 3 });
  at = Field(datetime);
}

export const app: Svc = new Svc({ title: 'Sensors', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/first', { response: Reading, examples: { 200: { usual: { unit: '%', at: new Date(0) } } } }, () => ({ unit: '%', at: new Date() }));
app.get('/last', { response: Reading, examples: { 200: { usual: { unit: '%', at: '2026-01-01T00:00:00Z' } } } }, () => ({ unit: '%', at: new Date() })); // SVC303
