// args: --env production
/** An asynchronous function for origins compares only the end of a host name. */
import { CORSMiddleware, Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}
const customers = (): Promise<readonly string[]> => Promise.resolve(['shop.example']);

export const app: Svc = new Svc({ title: 'Widgets', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
const allowed = async (origin: string): Promise<boolean> =>
  (await customers()).some((name) => origin.endsWith(name));
app.use(new CORSMiddleware({ origins: allowed, credentials: true })); // SVC206
app.get('/status', { response: Status }, () => ({ state: 'green' }));
