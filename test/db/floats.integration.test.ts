/** The type `float` reads the nearest number of any decimal, and exact types refuse to lose a digit. */
import assert from 'node:assert/strict';
import { Field, Schema, float, int } from '../../src/index.ts';
import { fault } from '../contract/database.ts';
import { onEveryDatabase } from '../support/every-database.ts';

class Average extends Schema {
  value = Field(float);
}

onEveryDatabase('`float` reads averages, sums and decimals of any number of digits', async (db) => {
  const wide = db.dialect === 'sqlite' ? 'text' : 'numeric(40, 20)';
  await db.script(`create table vote (stars integer, big bigint, wide ${wide})`);
  const digits = '12345678901234567890.12345678901234567891';
  await db.insertMany(
    'vote',
    ['stars', 'big', 'wide'],
    [
      [4, 2n ** 62n + 1n, digits],
      [5, 1, '0.1'],
      [4, 1, '-1'],
    ],
  );
  const read = async (expression: string): Promise<number | undefined> => {
    const text = `select ${expression} as value from vote where wide is not null`;
    const row = await db.fetchOne(`${text} order by stars limit 1`, [], { as: Average });
    assert.equal(
      await db.scalar(`${text} order by stars limit 1`, [], { as: float }),
      row?.value,
      expression,
    );
    return row?.value;
  };
  assert.ok(Math.abs((await read('(select avg(stars) from vote)'))! - 13 / 3) < 1e-4);
  assert.equal(await read('(select max(big) from vote)'), 2 ** 62);
  assert.equal(await read(`(select wide from vote where stars = 4 and big > 1)`), Number(digits));
  assert.equal(await read(`(select wide from vote where stars = 5)`), 0.1);
  for (const expression of ['max(big)', "max(case when wide = '0.1' then wide end)"])
    await assert.rejects(db.scalar(`select ${expression} from vote`, [], { as: int }), fault('E_DB_ROW'));
});
