// args: --env production
/** An asynchronous function compares whole host names. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}
const customers = (): Promise<readonly string[]> => Promise.resolve(['https://shop.example']);

export const app: Svc = new Svc({ title: 'Widgets', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const allowed = async (origin: string): Promise<boolean> => (await customers()).includes(origin);
app.use(new CORSMiddleware({ origins: allowed, credentials: true }));
app.get('/status', { response: Status }, () => ({ state: 'green' }));
