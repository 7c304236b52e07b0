/** Times of statements, by a clock of the test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { prepareDatabase } from '../../src/db/open.ts';
import { StatementTiming, timingOf } from '../../src/db/slow-statements.ts';
import { collectedLog } from '../support/collected-log.ts';

test('a statement on SQLite is logged if it takes longer than slowStatementMs, by default 50, and never if that is 0, or in a command', async () => {
  for (const [slowStatementMs, tookMs, isLogged, isCommand = false] of [
    [undefined, 50, false],
    [undefined, 51, true],
    [100, 51, false],
    [0, 5_000, false],
    [undefined, 5_000, false, true], // svc migrate prints the time of each migration
  ] as const) {
    const { logger, events } = collectedLog();
    const clock = new ManualClock();
    const options = { slowStatementMs, log: logger, clock };
    const { database: db } = await prepareDatabase('sqlite::memory:', options, {
      name: 'db',
      isCommand,
    }).open();
    await using _open = db;
    const elapsed = clock.monotonicMs.bind(clock);
    clock.monotonicMs = () => {
      void clock.advance(tookMs); // each look at the clock takes as long as a statement
      return elapsed();
    };
    await db.fetchAll('select 1');
    const slow = events.filter(({ event }) => event === 'slow_statement');
    assert.equal(slow.length > 0, isLogged, `${slowStatementMs} ${tookMs}: ${JSON.stringify(slow)}`);
  }
});

test('StatementTiming reports the duration of each statement, and logs nothing when slowStatementMs is 0', () => {
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
});

test('StatementTiming logs a statement that takes longer than slowStatementMs, also one whose rows come in batches', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const timing = new StatementTiming({ clock, log: logger, slowStatementMs: 50 });
  for (const tookMs of [49, 50, 51]) {
    await timing.around(`took ${tookMs}`, () => clock.advance(tookMs));
    await assert.rejects(
      timing.around(`failed after ${tookMs}`, async () => {
        await clock.advance(tookMs);
        throw new RangeError();
      }),
      RangeError,
    );
    const batches = timing.batches(`batches of ${tookMs}`);
    await batches.wait(() => clock.advance(tookMs - 1));
    await clock.advance(1_000); // the reader handles the rows
    await batches.wait(() => clock.advance(1));
    batches.end();
  }
  assert.deepEqual(
    events.map(({ event, sql, took_ms }) => [event, sql, took_ms]),
    [
      ['slow_statement', 'took 51', 51],
      ['slow_statement', 'failed after 51', 51],
      ['slow_statement', 'batches of 51', 51],
    ],
  );
  events.length = 0;
  const strict = new StatementTiming({ clock, log: logger, slowStatementMs: 1 });
  await strict.around('select 1', () => clock.advance(2));
  assert.equal(events.length, 1);
});

test('a connection has a timer only for a metric, or for a log with a limit', () => {
  const clock = new ManualClock();
  const { logger: log } = collectedLog();
  const onStatement = (): void => undefined;
  for (const [isTimed, options] of [
    [true, { log, slowStatementMs: 1 }],
    [false, { log, slowStatementMs: 0 }],
    [false, { log: undefined, slowStatementMs: 1 }],
    [true, { log: undefined, slowStatementMs: 0, onStatement }],
    [true, { log, slowStatementMs: 1, onStatement }],
  ] as const)
    assert.equal(
      timingOf({ clock, ...options }) !== undefined,
      isTimed,
      JSON.stringify(options.slowStatementMs),
    );
});
