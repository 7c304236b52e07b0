/** A dependency returns its connection only when the request succeeds. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Count extends Schema {
  rows = Field(int, { ge: 0 });
}

const pool = { async acquire(): Promise<{ rows: number }> { return { rows: 1 }; }, async release(connection: { rows: number }): Promise<void> { connection.rows = 0; } };
async function* careful(): AsyncGenerator<{ rows: number }> {
  const connection = await pool.acquire();
  try { yield connection; } finally { await pool.release(connection); }
}
async function* careless(): AsyncGenerator<{ rows: number }> {
  const connection = await pool.acquire();
  yield connection;
  await pool.release(connection);
}

export const app: Svc = new Svc({ title: 'Rows', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/orders', { connection: Depends(careful), response: Count }, ({ connection }) => ({ rows: connection.rows }));
app.get('/customers', { connection: Depends(careless), response: Count }, ({ connection }) => ({ rows: connection.rows })); // SVC502
