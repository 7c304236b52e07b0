import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Field, Schema, int, list, record, str } from '../../../src/index.ts';
import { fault } from '../../contract/database.ts';
import { postgresDatabase } from '../../support/postgres-database.ts';

class Lists extends Schema {
  value = Field(list(int));
}
class Text extends Schema {
  value = Field(str);
}

test('PostgreSQL: JSON text inside a JSON string is not read as a list or an object', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  for (const type of ['jsonb', 'json']) {
    const inner = `select '"[1,2]"'::${type} as value`;
    await assert.rejects(db.fetchOne(inner, [], { as: Lists }), fault('E_DB_ROW'));
    await assert.rejects(db.fetchAll(inner, [], { as: Lists }), fault('E_DB_ROW'));
    await assert.rejects(db.scalar(inner, [], { as: list(int) }), fault('E_DB_ROW'));
    await assert.rejects(db.scalar(`select '"{}"'::${type}`, [], { as: record(int) }), fault('E_DB_ROW'));
    assert.equal((await db.fetchOne(inner, [], { as: Text }))?.value, '[1,2]');
    assert.deepEqual(
      (await db.fetchOne(`select '[1,2]'::${type} as value`, [], { as: Lists }))?.value,
      [1, 2],
    );
  }
  await assert.rejects(db.scalar("select '[1,2]'::text", [], { as: list(int) }), fault('E_DB_ROW'));
  assert.deepEqual(await db.scalar("select '[1,2]'::text::jsonb", [], { as: list(int) }), [1, 2]);
});
