/** The clean-up of a dependency does not await close(), so its errors are lost. */
import { Depends, Field, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Count extends Schema {
  files = Field(int, { ge: 0 });
}

interface Handle { close(): Promise<void> }
const open = async (): Promise<Handle[]> => [{ close: async () => { /* nothing is open */ } }];
async function* handles(): AsyncGenerator<Handle[]> {
  const opened = await open();
  try { yield opened; } finally { await Promise.all(opened.map((handle) => handle.close())); }
}
async function* leaking(): AsyncGenerator<Handle[]> {
  const opened = await open();
  try { yield opened; } finally { Promise.all(opened.map((handle) => handle.close())); }
}

export const app: Svc = new Svc({ title: 'Files', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/files', { handles: Depends(handles), response: Count }, ({ handles }) => ({ files: handles.length }));
app.get('/folders', { handles: Depends(leaking), response: Count }, ({ handles }) => ({ files: handles.length })); // SVC502
