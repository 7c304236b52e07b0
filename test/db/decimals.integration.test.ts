/** The type `decimal` binds and reads every digit, on each engine. */
import assert from 'node:assert/strict';
import { Field, Schema, decimal, int, nullable } from '../../src/index.ts';
import { fault } from '../contract/database.ts';
import { onEveryDatabase } from '../support/every-database.ts';

class Account extends Schema {
  id = Field(int);
  balance = Field(decimal, { digits: 20, places: 4 });
  limit = Field(nullable(decimal), { digits: 20, places: 4 });
}
const AMOUNTS = ['1234567890123456.7891', '-0.0001', '0.1000', '9999999999999999.9999'];

onEveryDatabase('`decimal` binds and reads exact text, and adds amounts without rounding', async (db) => {
  const type = db.dialect === 'sqlite' ? 'text' : 'numeric(20, 4)';
  await db.script(
    `create table account (id integer, balance ${type}, ${db.dialect === 'mysql' || db.dialect === 'mariadb' ? '`limit`' : '"limit"'} ${type})`,
  );
  const accounts = AMOUNTS.map((balance, id) =>
    Account.parse({ id, balance, limit: id === 0 ? null : balance }),
  );
  await db.insertMany(
    'account',
    ['id', 'balance', 'limit'],
    accounts.map(({ id, balance, limit }) => [id, balance, limit]),
  );
  const rows = await db.fetchAll('select * from account order by id', [], { as: Account });
  assert.deepEqual(
    rows.map(({ balance, limit }) => [balance, limit]),
    AMOUNTS.map((text, id) => [text, id === 0 ? null : text]),
  );
  const found = await db.fetchOne('select * from account where balance = ?', [AMOUNTS[0]!], {
    as: Account,
  });
  assert.equal(found?.id, 0);
  await db.execute('update account set balance = ? where id = 2', ['12']);
  const whole = await db.fetchOne('select * from account where id = 2', [], { as: Account });
  assert.equal(whole?.balance, db.dialect === 'sqlite' ? '12' : '12.0000');
  class Narrow extends Schema {
    balance = Field(decimal, { digits: 4, places: 2 });
  }
  await assert.rejects(
    db.fetchAll('select balance from account where id = 0', [], { as: Narrow }),
    fault('E_DB_ROW'),
  );
  if (db.dialect !== 'sqlite') {
    const total = await db.fetchOne(
      'select 5 as id, sum(balance) as balance, null as `limit` from account where id <> 3'.replaceAll(
        '`',
        db.dialect === 'postgres' ? '"' : '`',
      ),
      [],
      { as: Account },
    );
    assert.equal(total?.balance, '1234567890123468.7890');
  }
});
