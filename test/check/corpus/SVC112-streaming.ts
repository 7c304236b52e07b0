/** A streamed reply reads rows from a transaction that has already ended. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, StreamingResponse, Svc, int } from 'svc';

class Total extends Schema {
  rows = Field(int, { ge: 0 });
}

class Reader { *rows(): Generator<string> { yield 'a\n'; yield 'b\n'; } close(): void { /* nothing is open */ } }
function* reader(): Generator<Reader> {
  const open = new Reader();
  try { yield open; } finally { open.close(); }
}

export const app: Svc = new Svc({ title: 'Export', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/total', { reader: Depends(reader, { scope: 'handler' }), response: Total }, ({ reader }) => ({ rows: [...reader.rows()].length }));
app.get('/export.csv', { reader: Depends(reader, { scope: 'handler' }) }, ({ reader }) => new StreamingResponse(reader.rows(), { mediaType: 'text/csv' })); // SVC112
