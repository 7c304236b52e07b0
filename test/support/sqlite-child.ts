/**
 * A process that writes to a database which other processes write, too, until it is done or killed.
 * Arguments: address, number of the process, number of transactions. It prints "ready", then the number of
 * each committed transaction.
 */
import { writeSync } from 'node:fs';
import { openDatabase } from '../../src/db/index.ts';
import { patient } from './patient.ts';

const [url, id, count] = process.argv.slice(2);
await using db = await openDatabase(url!, patient(url!));
writeSync(1, 'ready\n');
for (let step = 0; step < Number(count); step++) {
  await db.transaction(async (tx) => {
    const before = Number(await tx.scalar('select total from counter'));
    await tx.execute('insert into entry (writer, step, part, seen) values (?, ?, 0, ?)', [
      Number(id),
      step,
      before,
    ]);
    if (step % 5 === 0) await new Promise(setImmediate); // let other transactions run in between
    await tx.execute('insert into entry (writer, step, part, seen) values (?, ?, 1, ?)', [
      Number(id),
      step,
      before,
    ]);
    await tx.execute('update counter set total = ?', [before + 1]);
  });
  writeSync(1, `${step}\n`); // write synchronously, so that a printed number is always committed
}
