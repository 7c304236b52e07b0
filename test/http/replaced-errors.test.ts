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

/** Returns the log line of an event in an application whose only request has failed. */
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
  test(`if an exception handler fails, the log still shows the original error (the handler ${name})`, async () => {
    const line = await logged('unhandled_error', (app) => {
      app.exceptionHandler(Root, handler as () => never);
      app.get('/', () => {
        throw new Root('root');
      });
    });
    assert.match(line, name === 'returns nothing' ? /exception handler returned undefined/ : /second/);
    assert.match(line, /root/);
  });

test('if a clean-up fails after the handler has failed, the log still shows the error of the handler', async () => {
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

test('errorAfter(error, replaced) adds the replaced error only once, at the end of the chain of causes of the error', () => {
  const root = new Root('root');
  const second = new Error('second', { cause: new Error('first cause') });
  assert.equal(errorAfter(second, root), second);
  assert.equal((second.cause as Error).cause, root);
  assert.equal(errorAfter(second, root), second);
  assert.equal(((second.cause as Error).cause as Error).cause, undefined);
  assert.equal(errorAfter(root, root), root);
});

test('errorAfter() wraps a thrown value that is not an Error in an AggregateError', () => {
  const root = new Root('root');
  for (const error of ['text', undefined]) {
    const both = errorAfter(error, root);
    assert.ok(both instanceof AggregateError);
    assert.deepEqual(both.errors, [error, root]);
  }
});

test('if one error object is thrown repeatedly, errorAfter() replaces its cause each time', () => {
  const shared = new Error('shared');
  for (let round = 0; round < 3; round++) {
    const root = new Root(`root ${round}`);
    assert.equal(errorAfter(shared, root), shared);
    assert.equal(shared.cause, root);
    assert.equal(root.cause, undefined);
  }
});

test('errorAfter() creates no cycle of causes, and does not change an error that cannot have a cause', () => {
  const inner = new HTTPException(404);
  const wrapper = new Error('wrapper', { cause: inner });
  assert.equal(errorAfter(inner, wrapper), inner); // a handler that throws the cause of its error
  assert.equal(inner.cause, undefined);
  const [left, right] = [new Error('left'), new Error('right')];
  left.cause = right;
  right.cause = left;
  assert.equal(errorAfter(left, new Root('root')), left);
  const frozen = Object.freeze(new HTTPException(400));
  assert.equal(errorAfter(frozen, new Root('root')), frozen);
});
