/** A dependency that is cleaned up after the reply needs one that is cleaned up before it. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int, provide } from 'svc';

class Count extends Schema {
  rows = Field(int, { ge: 0 });
}

class Unit { rows = 0; commit(): void { this.rows = 0; } }
function* unit(): Generator<Unit> {
  const work = new Unit();
  try { yield work; work.commit(); } finally { work.rows = -1; }
}
const counter = provide({ unit: Depends(unit, { scope: 'handler' }) }, ({ unit }) => ({ count: () => unit.rows }));

export const app: Svc = new Svc({ title: 'Rows', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/units', { unit: Depends(unit, { scope: 'handler' }), response: Count }, ({ unit }) => ({ rows: unit.rows }));
app.get('/rows', { counter: Depends(counter, { scope: 'request' }), response: Count }, ({ counter }) => ({ rows: counter.count() })); // SVC112
