import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { StatementTiming, timingOf } from '../../src/db/slow-statements.ts';
import { collectedLog } from '../support/collected-log.ts';
import { mysqlDatabase } from '../support/mysql-database.ts';
import { postgresDatabase } from '../support/postgres-database.ts';
import type { Database, DatabaseOptions } from '../../src/db/index.ts';

for (const [name, open, text] of [
  ['PostgreSQL', postgresDatabase, 'select pg_sleep(0.2), ?::text'],
  [
    'MariaDB',
    (t: TestContext, options: DatabaseOptions) => mysqlDatabase(t, 'mariadb', options),
    'select sleep(0.2), ?',
  ],
] as const satisfies readonly (readonly [
  string,
  (t: TestContext, options: DatabaseOptions) => Promise<Database | undefined>,
  string,
])[])
  test(`${name}: a statement that takes longer than slowStatementMs is logged, without its values`, async (t) => {
    const { logger, events } = collectedLog();
    const db = await open(t, { slowStatementMs: 20, log: logger });
    if (db === undefined) return;
    for (let use = 0; use < 3; use++) await db.fetchAll(text, ['secret']);
    await db.fetchAll(text, ['secret'], { timeoutMs: 60_000 });
    await db.transaction((tx) => tx.fetchOne(text, ['secret']));
    const slow = events.filter(
      ({ event, sql }) => event === 'slow_statement' && String(sql).includes('sleep'),
    );
    assert.equal(slow.length, 5, JSON.stringify(events));
    assert.ok(!JSON.stringify(events).includes('secret'));
  });

test('StatementTiming tells seconds of each statement, and logs none when slowStatementMs is 0', () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const seconds: number[] = [];
  const timing = new StatementTiming({
    clock,
    log: logger,
    slowStatementMs: 0,
    onStatement: (each) => void seconds.push(each),
  });
  const startedMs = timing.begin();
  void clock.advance(5_000);
  timing.end(startedMs, 'select 1');
  assert.deepEqual([seconds, events], [[5], []]);
  assert.equal(timingOf({ clock, log: logger, slowStatementMs: 0 }), undefined);
  assert.equal(timingOf({ clock, log: undefined, slowStatementMs: 50 }), undefined);
});
