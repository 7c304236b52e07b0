/** A handler compresses an export synchronously. */
import { gzipSync } from 'node:zlib';
import { Field, HttpResponse, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Row extends Schema {
  text = Field(str, { maxLength: 100 });
}

const rows = ['a', 'b'];

export const app: Svc = new Svc({ title: 'Export', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/rows', { response: list(Row) }, () => rows.map((text) => ({ text })));
app.get('/export', () => { // SVC501
  const packed = gzipSync(rows.join('\n'));
  return new HttpResponse(packed, { mediaType: 'application/gzip' });
});
