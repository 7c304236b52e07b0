/** settling(), the time limit for loading and starting an application; the checks before a start. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { assertChecks, settling } from '../../src/cli/command.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { Field, Schema, str } from '../../src/schema/schema.ts';
import { collectedLog } from '../support/collected-log.ts';

test('settling() prints once, after 5 seconds, that a promise has not settled, and rejects at its deadline', async (t) => {
  const clock = new ManualClock();
  const written: unknown[] = [];
  t.mock.method(process.stderr, 'write', (text: unknown) => written.push(text) > 0);
  const pending = settling(
    new Promise(() => undefined),
    'src/app.ts',
    () => 'a top-level await',
    30_000,
    clock,
  );
  clock.advance(4_999);
  assert.deepEqual(written, []);
  clock.advance(1);
  assert.deepEqual(written, [
    'svc: still waiting for src/app.ts after 5 seconds: a top-level await has not ended\n',
  ]);
  clock.advance(25_000);
  await assert.rejects(pending, { code: 'E_LOAD' });
  assert.deepEqual([written.length, clock.pending], [1, 0]);
});

test('settling() prints nothing and starts no timer if the promise is already settled', async () => {
  const clock = new ManualClock();
  assert.equal(await settling(Promise.resolve(7), 'src/app.ts', () => 'a startup hook', undefined, clock), 7);
  assert.equal(clock.pending, 0);
});

test('in production, commands refuse errors of the declarations, and log those that the sources may answer', () => {
  class Answer extends Schema {
    token = Field(str);
  }
  const answering: readonly (readonly [string, (app: Svc) => unknown])[] = [
    ['SVC204', (app) => app.post('/login', { public: 'login' }, () => ({}))],
    ['SVC302', (app) => app.get('/csrf', { public: 'forms', response: Answer }, () => ({ token: 'a' }))],
  ];
  for (const [rule, declare] of answering) {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    declare(app);
    const errors = app.check().findings.filter(({ severity }) => severity === 'error');
    assert.deepEqual(
      errors.map((finding) => finding.rule),
      [rule],
    );
    assertChecks(app, true);
    assert.deepEqual(
      events.filter(({ event }) => event === 'check_failed').map((event) => event['rule']),
      [rule],
    );
    app.post('/open', () => ({}));
    assert.throws(() => assertChecks(app, true), { code: 'E_COMPILE' }, 'SVC201');
    events.length = 0;
    assertChecks(app, false);
    assert.deepEqual(
      events
        .filter(({ event }) => event === 'check_failed')
        .map((event) => event['rule'])
        .sort(),
      ['SVC201', rule],
    );
  }
});
