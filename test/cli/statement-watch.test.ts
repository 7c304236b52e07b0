/** Findings about SQL statements while `svc run --reload` serves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatementWatch } from '../../src/cli/statement-watch.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { Finding } from '../../src/base/findings.ts';

const finding = (rule: Finding['rule'], message: string, line = 1): Finding => ({
  rule,
  severity: 'error',
  subject: 'GET /notes',
  message,
  remedy: 'name a column of the table',
  place: { file: `${process.cwd()}/src/app.ts`, line, column: 9 },
});

test('StatementWatch logs a finding once, until a check no longer finds it, even if its line moves', async () => {
  const { logger, events } = collectedLog();
  const checks = [
    [finding('SVC411', 'there is no column "titel"', 7), finding('SVC201', 'the route has no guard')],
    [finding('SVC411', 'there is no column "titel"', 8), finding('SVC416', 'another', 9)],
    [],
    [finding('SVC411', 'there is no column "titel"', 8)],
  ];
  const watch = new StatementWatch(() => Promise.resolve(checks.shift() ?? []), logger);
  for (let count = 0; count < 4; count++) await watch.check();
  assert.deepEqual(
    events.map(({ event, rule, place }) => [event, rule, place]),
    [
      ['statement_finding', 'SVC411', 'src/app.ts:7:9'],
      ['statement_finding', 'SVC416', 'src/app.ts:9:9'],
      ['statement_finding', 'SVC411', 'src/app.ts:8:9'],
    ],
  );
});

test('StatementWatch runs one check at a time, and one more if files were saved meanwhile', async () => {
  const { logger, events } = collectedLog();
  const started: PromiseWithResolvers<readonly Finding[]>[] = [];
  const watch = new StatementWatch(() => {
    const next = Promise.withResolvers<readonly Finding[]>();
    started.push(next);
    return next.promise;
  }, logger);
  const first = watch.check();
  void watch.check();
  const last = watch.check();
  assert.equal(started.length, 1);
  started[0]?.resolve([]);
  while (started.length < 2) await new Promise(setImmediate);
  started[1]?.reject(new Error('the process was killed'));
  await Promise.all([first, last]);
  assert.equal(started.length, 2);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['statement_check_failed'],
  );
});
