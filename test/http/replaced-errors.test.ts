/**
 * An error that replaces another one keeps it as its cause, and the log shows both.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorAfter } from '../../src/base/errors.ts';
import { Depends, HTTPException, StreamingResponse, Svc } from '../../src/index.ts';
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

for (const [name, first] of [
  ['an error of the server', () => Promise.reject(new Root('root'))],
  ['an HTTPException', () => Promise.reject(new HTTPException(500))],
] as const)
  test(`if two dependencies fail at the same time, the log shows both errors (the first is ${name})`, async () => {
    const line = await logged('dependency_failed', (app) => {
      const second = async (): Promise<never> => {
        await Promise.resolve();
        throw new Error('second');
      };
      app.get('/', { first: Depends(first), second: Depends(second) }, () => 'never');
    });
    assert.match(line, /second/);
    assert.match(line, /"dependency":"second"/);
    assert.match(line, /"request_id"/);
  });

test('if two dependencies refuse a request at the same time, the first in the declared order wins, and nothing is logged', async () => {
  const { logger, events } = collectedLog();
  const refuse = (status: number) => () => Promise.reject(new HTTPException(status));
  const app = new Svc({ logger }).get(
    '/',
    { a: Depends(refuse(401)), b: Depends(refuse(403)) },
    () => 'never',
  );
  await using client = new TestClient(app);
  assert.equal((await client.get('/')).status, 401);
  assert.deepEqual(
    events.filter(({ level }) => level === 'error'),
    [],
  );
});

test('if a dependency fails beside one that refuses the request, a test client rejects with its error', async () => {
  const app = new Svc({ logger: collectedLog().logger }).get(
    '/',
    {
      login: Depends(() => Promise.reject(new HTTPException(401))),
      database: Depends(() => Promise.reject(new Root('root'))),
    },
    () => 'never',
  );
  const client = new TestClient(app);
  await assert.rejects(client.get('/'), { message: 'root' });
  await client.close();
});

test('if dependencies of scope "app" fail at the start, the log shows the errors that startup() does not throw', async () => {
  const { logger, events } = collectedLog();
  const pool = function* pool(): Generator<number> {
    try {
      yield 1;
    } catch {
      throw new Error('still in use');
    }
  };
  const app = new Svc({ logger }).get(
    '/',
    {
      pool: Depends(pool, { scope: 'app' }),
      first: Depends(() => Promise.reject(new Root('root')), { scope: 'app' }),
      second: Depends(() => Promise.reject(new Error('second')), { scope: 'app' }),
    },
    () => 'never',
  );
  await assert.rejects(app.startup(), { message: 'root' });
  const found = events.map(({ event, error }) => [event, (error as Error | undefined)?.message]);
  assert.deepEqual(
    found.filter(([event]) => event === 'dependency_failed' || event === 'cleanup_failed'),
    [
      ['dependency_failed', 'second'],
      ['cleanup_failed', 'still in use'],
    ],
  );
});

test('if onError of a WebSocket throws, the log shows its error, and the error that it has handled as the cause', async () => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  app
    .websocket('/ws')
    .onMessage(() => {
      throw new Root('root');
    })
    .onError(() => {
      throw new Error('second');
    });
  await using client = new TestClient(app, { raiseErrors: false });
  const socket = await client.websocket('/ws');
  socket.send('x');
  await socket.closed;
  const line = JSON.stringify(events.find(({ event }) => event === 'unhandled_error'));
  assert.match(line, /second/);
  assert.match(line, /root/);
});

for (const [name, first] of [
  ['the first chunk', []],
  ['a later chunk', ['text']],
] as const)
  test(`if a body yields an invalid chunk, and its end fails, the log shows both errors (${name})`, async () => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    app.get('/', () => {
      const chunks = async function* (): AsyncGenerator<string> {
        try {
          yield* first;
          yield 1 as never;
        } finally {
          throw new Error('second');
        }
      };
      return new StreamingResponse(chunks());
    });
    await using client = new TestClient(app, { raiseErrors: false, listen: true });
    await client
      .get('/')
      .then((response) => response.text())
      .catch(() => undefined);
    const line = JSON.stringify(events.find(({ level }) => level === 'error'));
    assert.match(line, /second/);
    assert.match(line, /E_STREAM/);
  });

test('if a response is abandoned, and its body cannot end, the log shows this error', async () => {
  const line = await logged('response_failed', (app) => {
    const transaction = async function* (): AsyncGenerator<number> {
      yield 1;
      throw new Root('commit failed');
    };
    app.get('/', { tx: Depends(transaction, { scope: 'handler' }) }, () => {
      const body = {
        next: () => Promise.resolve({ done: false, value: 'text' }),
        return: () => Promise.reject(new Error('second')),
        [Symbol.asyncIterator]() {
          return this;
        },
      };
      return new StreamingResponse(body as AsyncIterable<string>);
    });
  });
  assert.match(line, /second/);
});
