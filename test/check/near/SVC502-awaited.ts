/** The clean-up of each dependency is awaited, is synchronous, or hands its promise on. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Count extends Schema {
  rows = Field(int, { ge: 0 });
}

const pool = { async acquire(): Promise<{ rows: number }> { return { rows: 1 }; }, release(connection: { rows: number }): void { connection.rows = 0; } };
async function* connection(): AsyncGenerator<{ rows: number }> {
  const acquired = await pool.acquire();
  try {
    yield acquired;
  } finally {
    pool.release(acquired);
  }
}
async function* disposed(): AsyncGenerator<{ rows: number }> {
  await using stack = new AsyncDisposableStack();
  const acquired = stack.adopt(await pool.acquire(), async (held) => { pool.release(held); });
  try { yield acquired; } finally { await stack.disposeAsync(); }
}
const ledger = { end(): number { return 0; }, rows: 3 };
async function* booked(): AsyncGenerator<{ rows: number }> {
  await pool.acquire();
  try { yield ledger; } finally { ledger.end(); }
}
function* counter(): Generator<{ rows: number }> { yield { rows: 2 }; }

export const app: Svc = new Svc({ title: 'Rows', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/orders', { connection: Depends(connection), response: Count }, ({ connection }) => ({ rows: connection.rows }));
app.get('/customers', { connection: Depends(disposed), response: Count }, ({ connection }) => ({ rows: connection.rows }));
app.get('/books', { ledger: Depends(booked), response: Count }, ({ ledger }) => ({ rows: ledger.rows }));
app.get('/visits', { counter: Depends(counter), response: Count }, ({ counter }) => ({ rows: counter.rows }));
