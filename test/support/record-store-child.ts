/**
 * One of several processes that compete for the same records. Arguments: address of the database, number of
 * the process, number of keys.
 */
import { DatabaseRecordStore, openDatabase } from '../../src/db/index.ts';
import { patient } from './patient.ts';

const [url, id, keys] = process.argv.slice(2);
await using db = await openDatabase(url!, patient(url!));
const store = new DatabaseRecordStore(db);
const won = { add: 0, replace: 0, delete: 0 };
for (let key = 0; key < Number(keys); key++) {
  if (await store.add(`add ${key}`, id!, 600_000)) won.add++;
  if (await store.replace(`swap ${key}`, 'old', id!, 600_000)) won.replace++;
}
for (let key = 0; key < Number(keys); key++) {
  while ((await store.get(`swap ${key}`)) === 'old'); // wait until another process replaces the value
  if (await store.delete(`swap ${key}`)) won.delete++;
}
console.log(JSON.stringify(won));
