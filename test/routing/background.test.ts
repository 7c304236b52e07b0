import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import { BackgroundTasks, Depends, NotFound, Svc, provide } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { FakeTracer } from '../support/fake-tracer.ts';
import { served } from '../support/served.ts';
import { RawClient } from '../support/raw-http.ts';
import type { Context, HttpRequest } from '../../src/index.ts';

/** Returns an application, its log, and a client that gets unhandled errors as a 500. */
function setUp(
  declare: (app: Svc) => void,
): { app: Svc; client: TestClient; events: Record<string, unknown>[] } & AsyncDisposable {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  declare(app);
  const client = new TestClient(app, { raiseErrors: false });
  return { app, client, events, [Symbol.asyncDispose]: () => client.close() };
}

/** Returns the value of a metric without labels. */
function metric(app: Svc, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(app.metrics.render())?.[1]);
}
const tasks = Depends(BackgroundTasks);

test('BackgroundTasks run one after another in the order of add(), after the response is sent and the dependencies are cleaned up', async () => {
  const steps: string[] = [];
  const db = function* (): Generator<number, void> {
    yield 1;
    steps.push('clean-up');
  };
  await using it = setUp((app) => {
    app.use(async (_req, next) => {
      const response = await next();
      steps.push('answer');
      return response;
    });
    app.get(
      '/',
      { db: Depends(db), tasks, tx: Depends(db, { scope: 'handler', cache: false }) },
      ({ tasks: given }) => {
        given
          .add(
            async (name: string, count: number) => {
              await null;
              steps.push(`${name} ${count}`);
            },
            'first',
            1,
          )
          .add(() => steps.push('second'));
        assert.equal(given.size, 2);
        steps.push('handler');
        return 'x';
      },
    );
  });
  assert.equal((await it.client.get('/')).status, 200);
  assert.deepEqual(steps, ['handler', 'clean-up', 'answer', 'clean-up', 'first 1', 'second']);
  assert.equal(metric(it.app, 'svc_background_waiting'), 0);
});

test('a dependency can add BackgroundTasks, and they run even if no dependency needs a clean-up', async () => {
  const ran: string[] = [];
  const audit = provide({ tasks }, ({ tasks: given, req }) => {
    given.add(() => ran.push(`audit ${req.path}`));
  });
  await using it = setUp((app) =>
    app.get('/{n}', { audit: Depends(audit), tasks }, ({ tasks: given }) => {
      given.add(() => ran.push('own'));
    }),
  );
  assert.equal((await it.client.get('/a')).status, 204);
  assert.deepEqual(ran, ['audit /a', 'own']);
});

test('if a background task fails, the failure is logged with its request and counted, and the other tasks run', async () => {
  const ran: string[] = [];
  await using it = setUp((app) =>
    app.get('/{n:int}', { tasks }, ({ tasks: given }) => {
      given
        .add(() => {
          throw new RangeError('sync failure');
        })
        .add(() => ran.push('second'))
        .add(async () => {
          throw new RangeError('async failure');
        })
        .add(() => ran.push('fourth'));
      return 'x';
    }),
  );
  assert.equal((await it.client.get('/7', { headers: { 'x-request-id': 'abc' } })).status, 200);
  assert.deepEqual(ran, ['second', 'fourth']);
  const lines = it.events.filter((line) => line['event'] === 'background_task_failed');
  assert.deepEqual(
    lines.map((line) => [line['route'], line['method'], line['request_id']]),
    [
      ['/{n:int}', 'GET', 'abc'],
      ['/{n:int}', 'GET', 'abc'],
    ],
  );
  assert.match(JSON.stringify(lines), /sync failure.*async failure/);
  assert.equal(metric(it.app, 'svc_background_failures_total'), 2);
  assert.equal(metric(it.app, 'svc_background_waiting'), 0);
});

test('BackgroundTasks run even if the clean-up of a dependency of scope "request" fails', async () => {
  const ran: string[] = [];
  const db = function* (): Generator<number, void> {
    yield 1;
    throw new Error('release');
  };
  await using it = setUp((app) =>
    app.get('/', { db: Depends(db), tasks }, ({ tasks: given }) => {
      given.add(() => ran.push('task'));
      return 'x';
    }),
  );
  assert.equal((await it.client.get('/')).status, 200);
  assert.deepEqual(ran, ['task']);
});

const FAILURES: Readonly<Record<string, (context: Context) => unknown>> = {
  throws: () => {
    throw new NotFound();
  },
  rejects: async () => {
    throw new Error('no');
  },
  'returns a value that cannot be sent': () => new Map(),
};
for (const [what, end] of Object.entries(FAILURES)) {
  test(`if the handler ${what}, BackgroundTasks do not run, refuse further tasks, and do not count as waiting`, async () => {
    const ran: string[] = [];
    let kept: BackgroundTasks | undefined;
    await using it = setUp((app) =>
      app.get('/', { tasks }, (context) => {
        kept = context.tasks.add(() => ran.push('task'));
        return end(context);
      }),
    );
    assert.ok((await it.client.get('/')).status >= 400);
    assert.deepEqual(ran, []);
    assert.equal(metric(it.app, 'svc_background_waiting'), 0);
    assert.throws(() => kept!.add(() => 1), { code: 'E_BACKGROUND_OVER' });
  });
}

test('BackgroundTasks do not run if a dependency throws after they were added, or if the input is refused', async () => {
  const ran: string[] = [];
  const { Field, Router } = await import('../../src/index.ts');
  const audit = provide({ tasks }, ({ tasks: given }) => {
    given.add(() => ran.push('task'));
  });
  const router = new Router({ deps: { audit: Depends(audit) } });
  router.get('/input', { query: { n: Field(1) } }, () => 1);
  router.get(
    '/dependency',
    {
      fails: Depends(() => {
        throw new NotFound();
      }),
    },
    () => 1,
  );
  await using it = setUp((app) => app.includeRouter(router));
  assert.equal((await it.client.get('/input?n=x')).status, 400);
  assert.equal((await it.client.get('/dependency')).status, 404);
  assert.deepEqual(ran, []);
  assert.equal(metric(it.app, 'svc_background_waiting'), 0);
});

test('a background task may add further tasks, which run after the tasks that were added before', async () => {
  const ran: string[] = [];
  let kept: BackgroundTasks | undefined;
  await using it = setUp((app) =>
    app.get('/', { tasks }, ({ tasks: given }) => {
      kept = given;
      given
        .add(() => {
          ran.push('first');
          given.add(() => ran.push('added'));
        })
        .add(() => ran.push('second'));
      return 'x';
    }),
  );
  await it.client.get('/');
  assert.deepEqual(ran, ['first', 'second', 'added']);
  assert.equal(metric(it.app, 'svc_background_waiting'), 0);
  assert.throws(() => kept!.add(() => 1), { code: 'E_BACKGROUND_OVER' });
});

test('the 1,001st background task of a request is refused with E_BACKGROUND_FULL, and no task of this request runs', async () => {
  let ran = 0;
  await using it = setUp((app) =>
    app.get('/{n:int}', { tasks }, ({ tasks: given, params }) => {
      for (let index = 0; index < params.n; index++) given.add(() => ran++);
      return 'x';
    }),
  );
  assert.equal((await it.client.get('/1000')).status, 200);
  assert.equal(ran, 1_000);
  assert.equal((await it.client.get('/1001')).status, 500);
  assert.equal(ran, 1_000);
  assert.match(
    JSON.stringify(it.events.find((line) => line['event'] === 'unhandled_error')),
    /E_BACKGROUND_FULL/,
  );
});

test('while 10,000 background tasks of all requests wait, a further task is refused', async () => {
  const gate = Promise.withResolvers<void>();
  let ran = 0;
  await using it = setUp((app) =>
    app.get('/{n:int}', { tasks }, ({ tasks: given, params }) => {
      for (let index = 0; index < params.n; index++)
        given.add(async () => {
          await gate.promise;
          ran++;
        });
      return 'x';
    }),
  );
  await it.client.get('/0'); // the task has started
  const held = Array.from({ length: 10 }, () => it.client.get('/1000'));
  while (metric(it.app, 'svc_background_waiting') < 10_000)
    await new Promise((resolve) => setImmediate(resolve));
  assert.equal((await it.client.get('/1')).status, 500);
  gate.resolve();
  await Promise.all(held);
  assert.equal(ran, 10_000);
  assert.equal((await it.client.get('/1')).status, 200);
  assert.equal(metric(it.app, 'svc_background_waiting'), 0);
});

test('Svc.shutdown() waits for background tasks', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const steps: string[] = [];
  app.onShutdown(() => {
    steps.push('shutdown hook');
  });
  app.get('/', { tasks }, ({ tasks: given }) => {
    given.add(async () => {
      started.resolve();
      await gate.promise;
      steps.push('task');
    });
    return 'x';
  });
  const running = await app.run({ port: 0, handleSignals: false });
  assert.equal(await (await fetch(running.url)).text(), 'x'); // the response does not wait for the task
  await started.promise;
  const closing = running.close().then(() => steps.push('closed'));
  gate.resolve();
  await closing;
  assert.deepEqual(steps, ['task', 'shutdown hook', 'closed']);
});

for (const [what, body, read] of [
  ['body()', 'Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody', (req) => req.body()],
  ['json()', 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}', (req) => req.json()],
  ['stream()', 'Content-Length: 4\r\n\r\nbody', (req) => text(req.stream())],
] as [string, string, (req: HttpRequest) => Promise<unknown>][]) {
  test(`if a background task reads the body by ${what} after the response, the read fails with E_BODY_DISCARDED, even while the client is connected`, async () => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    app.post('/', { tasks }, ({ tasks: given, req }) => {
      given.add(() => read(req));
      return 'done';
    });
    const server = await served(app);
    await using client = await RawClient.open(server.port);
    for (const _ of [1, 2]) {
      client.send(`POST / HTTP/1.1\r\nHost: a\r\n${body}`);
      assert.equal((await client.answer()).text(), 'done');
    }
    await server[Symbol.asyncDispose](); // shutdown() waits for the tasks
    const failures = events.filter(({ event }) => event === 'background_task_failed');
    assert.deepEqual(
      failures.map(({ error }) => (error as { code?: unknown }).code),
      ['E_BODY_DISCARDED', 'E_BODY_DISCARDED'],
    );
  });
}

test('with a tracer, each background task has a span below the span that was active at add(), also if the task fails or adds another', async (t) => {
  const tracer = new FakeTracer();
  const { logger } = collectedLog();
  const app = new Svc({ logger, tracer });
  async function mail(): Promise<void> {
    await null;
    tracer.start('own', { kind: 'internal', attributes: {} }).end();
    throw new RangeError('no');
  }
  app.get('/', { tasks }, function order({ tasks: given }) {
    given.add(function first() {
      given.add(mail);
    });
    return 'x';
  });
  app.get('/fails', { tasks }, function fails({ tasks: given }) {
    given.add(mail);
    throw new NotFound();
  });
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  await client.get('/');
  await client.get('/fails');
  const name = 'dependency BackgroundTasks';
  assert.deepEqual(tracer.tree(), [
    'GET /',
    `  ${name}`,
    '  handler order',
    '    task first',
    '      task mail',
    '        own',
    'GET /fails',
    `  ${name}`,
    '  handler fails',
  ]);
  assert.equal(tracer.span('task mail').attributes['error.type'], 'RangeError');
  tracer.assertEnded();
});
