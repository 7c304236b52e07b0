/** Methods that only one engine has, and describing statements of a plugin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { DatabasePlugin, DatabaseError, UniqueViolation, openDatabase } from '../../src/db/index.ts';
import { StalePlan, StatementError } from '../../src/db/errors.ts';
import { collectedLog } from '../support/collected-log.ts';
import { fakePostgres } from '../support/fake-postgres.ts';
import { acceptingMySql } from '../support/mysql-bytes.ts';
import { folder } from '../support/run.ts';

test('backup() is refused with PostgreSQL and MySQL, and names the engine', async (t) => {
  const { port } = await fakePostgres(t, {});
  for (const [url, name] of [
    [`postgres://u@127.0.0.1:${port}/d`, 'postgres'],
    [(await acceptingMySql(t)).url, 'mysql'],
  ] as const) {
    await using db = await openDatabase(url);
    await assert.rejects(db.backup('a.db'), {
      code: 'E_DB_OPTION',
      message: `Cannot use an option or method of the database: backup() works only with SQLite, not with ${name}: use the backup tools of the database server`,
    });
  }
});

test('a DatabaseError has the detail, hint and context of PostgreSQL, which inspect() does not show', () => {
  const error = new UniqueViolation('it exists', { detail: 'Key (a)=(7)', hint: 'no', where: 'function f' });
  assert.deepEqual([error.detail, error.hint, error.where], ['Key (a)=(7)', 'no', 'function f']);
  assert.ok(!JSON.stringify(Object.entries(error)).includes('Key (a)'));
  const plain = new DatabaseError('it failed');
  assert.deepEqual(
    [plain.detail, plain.hint, plain.where, plain.isRetryable],
    [undefined, undefined, undefined, false],
  );
  assert.deepEqual([new StalePlan('old').isRetryable, new StatementError('new').isRetryable], [true, false]);
});

for (const [url, expected] of [
  ['sqlite::memory:', undefined],
  ['postgres://u@h/d', undefined],
  ['postgres://u@h/d?set.default_transaction_isolation=serializable', 'serializable'],
  ['mysql://u@h/d?set.transaction_isolation=SERIALIZABLE', 'SERIALIZABLE'],
  ['mariadb://u@h/d?set.tx_isolation=SERIALIZABLE', 'SERIALIZABLE'],
] as const)
  test(`the isolation of DatabasePlugin for ${url} is ${expected}`, () => {
    assert.equal(new DatabasePlugin(url).isolation, expected);
  });

test('DatabasePlugin opens a describer in memory for SQLite, and none for a server without an address', async (t) => {
  const migrationDirectory = folder(t, {
    '0001_note.up.sql': 'create table note (id integer primary key);\n',
  });
  const { logger } = collectedLog();
  const pluginFor = (url: string): DatabasePlugin => {
    const plugin = new DatabasePlugin(url, { migrationDirectory });
    new Svc({ logger, env: 'test' }).register(plugin).check();
    return plugin;
  };
  assert.equal(await pluginFor('postgres://u@h/d').openDescriber(), undefined);
  for (const place of [{}, { isOwn: true }]) {
    await using describer = await pluginFor('sqlite:./missing.db').openDescriber(place);
    assert.deepEqual(
      describer?.tables.map(({ name }) => name),
      ['note'],
    );
  }
  const missing = `sqlite:${folder(t)}/missing.db`;
  await assert.rejects(pluginFor('sqlite::memory:').openDescriber({ url: missing }), { code: 'E_DB_OPEN' });
});
