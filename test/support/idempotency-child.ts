/**
 * One of several processes that serve the same application over one database. Arguments: address of the
 * database, and a name. `POST /orders` counts its executions in the table `executions`, then responds as soon
 * as the table `gate` has a row. Prints its port.
 */
import { IdempotencyMiddleware, Svc, createLogger } from '../../src/index.ts';
import { DatabaseRecordStore, openDatabase, sql } from '../../src/db/index.ts';
import { patient } from './patient.ts';

const [url, name] = process.argv.slice(2);
const db = await openDatabase(url!, patient(url!));
const app = new Svc({ env: 'test', logger: createLogger({ level: 'error' }) });
app.use(
  new IdempotencyMiddleware({
    store: new DatabaseRecordStore(db),
    leaseSeconds: 3,
    principal: (req) => req.headers['x-user'],
  }),
);
app.post('/orders', async ({ req }) => {
  const { item } = (await req.json()) as { item: string };
  await db.execute(sql`insert into executions (name, item) values (${name!}, ${item})`);
  while ((await db.scalar(sql`select count(*) from gate`)) === 0)
    await new Promise((resolve) => setImmediate(resolve));
  return [{ item, by: name }, 201, { Location: `/orders/${item}` }];
});
const { port } = await app.run({ port: 0 });
console.log(port);
