/**
 * An error that replaces another one keeps it as its cause, and the log shows both.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorAfter } from '../../src/base/errors.ts';
import { Depends, HTTPException, Svc } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';

class Root extends Error {}

/** The line of an event in the log of an application whose only request failed. */
async function logged(event: string, declare: (app: Svc) => void): Promise<string> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  declare(app);
  await using client = new TestClient(app, { raiseErrors: false });
  assert.equal((await client.get('/')).status, 500);
  const line = events.find((entry) => entry['event'] === event);
  assert.ok(line !== undefined, `the log has no ${event}`);
  return JSON.stringify(line);
}

for (const [name, handler] of [
  [
    'throws',
    () => {
      throw new Error('second');
    },
  ],
  ['rejects', () => Promise.reject(new Error('second'))],
  ['returns nothing', () => undefined],
] as const)
  test(`an exception handler that ${name} does not hide the error that it was to handle`, async () => {
    const line = await logged('unhandled_error', (app) => {
      app.exceptionHandler(Root, handler as () => never);
      app.get('/', () => {
        throw new Root('root');
      });
    });
    assert.match(line, name === 'returns nothing' ? /exception handler returned nothing/ : /second/);
    assert.match(line, /root/);
  });

test('an error of a clean-up does not hide the error of the handler', async () => {
  const line = await logged('unhandled_error', (app) => {
    const transaction = async function* (): AsyncGenerator<number> {
      try {
        yield 1;
      } catch {
        throw new Error('rollback failed');
      }
    };
    app.get('/', { tx: Depends(transaction, { scope: 'handler' }) }, () => {
      throw new Root('root');
    });
  });
  assert.match(line, /rollback failed/);
  assert.match(line, /root/);
});

test('errorAfter() puts the replaced error at the end of the chain of causes, once', () => {
  const root = new Root('root');
  const second = new Error('second', { cause: new Error('first cause') });
  assert.equal(errorAfter(second, root), second);
  assert.equal((second.cause as Error).cause, root);
  assert.equal(errorAfter(second, root), second);
  assert.equal(((second.cause as Error).cause as Error).cause, undefined);
  assert.equal(errorAfter(root, root), root);
});

test('errorAfter() keeps both in an AggregateError when the new error cannot have a cause', () => {
  const root = new Root('root');
  for (const error of ['text', undefined, Object.freeze(new HTTPException(400))]) {
    const both = errorAfter(error, root);
    assert.ok(both instanceof AggregateError);
    assert.deepEqual(both.errors, [error, root]);
  }
});
