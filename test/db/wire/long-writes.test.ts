/**
 * Long writes to a server: the client writes no further bytes while the socket is full, so that its memory does not
 * grow with the values.
 */
import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '../../../src/db/index.ts';
import { fakePostgres } from '../../support/fake-postgres.ts';
import { acceptingMySql } from '../../support/mysql-bytes.ts';

const TEXT = 25;
/** Values of one megabyte of text, in total more than a socket buffers. */
const VALUE = 'x'.repeat(1_000_000);
const ROWS = Array.from({ length: 100 }, () => [VALUE.slice(0, 250_000)]);

const mySql = async (t: TestContext): Promise<string> => (await acceptingMySql(t)).url;

async function postgres(t: TestContext): Promise<string> {
  const { port } = await fakePostgres(t, {
    'select c.relkind': { columns: [['can', TEXT]], rows: [] },
    'insert into "item"': { columns: [], rows: [], parameters: [TEXT], tag: 'INSERT 0 1' },
    'update item': { columns: [], rows: [], parameters: [TEXT], tag: 'UPDATE 1' },
    copy: { columns: [], rows: [], copy: 'in', tag: 'COPY 100' },
  });
  return `postgres://u@127.0.0.1:${port}/d`;
}

for (const [what, address, write] of [
  ['MySQL: a large value', mySql, (db) => db.execute('update item set a = ?', [VALUE.repeat(8)])],
  ['MySQL: executeMany()', mySql, (db) => db.executeMany('update item set a = ?', ROWS)],
  ['PostgreSQL: executeMany()', postgres, (db) => db.executeMany('update item set a = ?', ROWS)],
  ['PostgreSQL: insertMany() of many rows', postgres, (db) => db.insertMany('item', ['a'], ROWS)],
] as readonly (readonly [string, (t: TestContext) => Promise<string>, (db: Database) => Promise<unknown>])[])
  test(`${what} waits while the socket is full`, async (t) => {
    await using db = await openDatabase(await address(t), { pool: { max: 1 } });
    let [most, writes] = [0, 0];
    const original = Socket.prototype.write;
    t.mock.method(Socket.prototype, 'write', function (this: Socket, ...args: [Buffer]) {
      if (args[0].length > 1_000) {
        most = Math.max(most, this.writableLength);
        writes++;
      }
      return original.apply(this, args);
    });
    await write(db);
    assert.ok(writes > 4, String(writes));
    assert.ok(most < 300_000, `${most} bytes were waiting when the client wrote more`);
  });
