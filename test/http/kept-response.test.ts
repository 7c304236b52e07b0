/** Responses that a program keeps and returns for many requests, and responses that come before the handler's. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import {
  BackgroundTasks,
  Depends,
  FileResponse,
  JSONResponse,
  NotFound,
  Svc,
  TextResponse,
  any,
  createLogger,
  reply,
} from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { folder } from '../support/run.ts';

const make = (): Svc => new Svc({ env: 'test', logger: createLogger({ level: 'silent' }) });

/** Returns all bytes that the server sends until it closes the connection. */
async function exchange(url: string, ...chunks: readonly string[]): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const answer = text(socket);
  for (const chunk of chunks) {
    socket.write(chunk);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  return answer;
}

test('if a handler returns one response object for many requests, the object does not collect the cookies that middleware adds', async () => {
  const app = make();
  const kept = new JSONResponse({ a: 1 }).setCookie('own', '1');
  let user = 0;
  app.use(async (_req, next) => (await next()).setCookie('sid', `user${++user}`));
  app.get('/', () => kept).get('/reply', () => reply(kept, 201));
  await using client = new TestClient(app);
  for (const path of ['/', '/', '/reply', '/']) {
    const response = await client.get(path);
    assert.equal(response.status, path === '/reply' ? 201 : 200);
    assert.deepEqual(
      response.headers.getSetCookie().map((field) => field.split(';')[0]),
      ['own=1', `sid=user${user}`],
    );
  }
  assert.equal(kept.headers.getSetCookie().length, 1);
});

test('if a handler returns one FileResponse for many concurrent requests, each request receives the whole file', async (t) => {
  const path = join(folder(t), 'a.txt');
  writeFileSync(path, 'x'.repeat(1_000));
  const app = make();
  const kept = new FileResponse(path);
  app.get('/', () => kept).get('/reply', () => reply(kept, 203));
  await using client = new TestClient(app);
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, index) =>
      (await client.get(index % 2 === 0 ? '/' : '/reply')).text(),
    ),
  );
  assert.deepEqual(new Set(answers.map((answer) => answer.length)), new Set([1_000]));
});

test('if a middleware answers before the handler has finished, dependencies are still cleaned up, and background tasks run', async () => {
  const app = make();
  const log: string[] = [];
  const gate = Promise.withResolvers<void>();
  const done = Promise.withResolvers<void>();
  app.use((_req, next) => {
    void next();
    return new TextResponse('late', { status: 503 });
  });
  app.get(
    '/',
    {
      db: Depends(function* db() {
        try {
          yield 1;
        } finally {
          log.push('closed');
        }
      }),
      tasks: Depends(BackgroundTasks),
    },
    async ({ tasks }) => {
      tasks.add(() => {
        log.push('task');
        done.resolve();
      });
      await gate.promise;
      return 'x';
    },
  );
  await using client = new TestClient(app);
  assert.equal((await client.get('/')).status, 503);
  gate.resolve();
  await done.promise;
  await app.shutdown();
  assert.deepEqual(log, ['closed', 'task']);
  assert.match(app.metrics.render(), /^svc_background_waiting 0$/m);
});

test('an exception handler for Error does not receive HTTP exceptions, but a handler for HTTPException or a subclass does', async () => {
  const app = make();
  app.exceptionHandler(Error, (error) => [{ caught: error.message }, 500]);
  app
    .get('/boom', () => {
      throw new Error('boom');
    })
    .get('/gone', () => {
      throw new NotFound('no');
    });
  await using client = new TestClient(app);
  assert.deepEqual(await (await client.get('/boom')).json(), { caught: 'boom' });
  assert.equal((await client.get('/gone')).status, 404);
  assert.equal((await client.get('/nothing')).status, 404);
  assert.equal((await client.post('/boom')).status, 405);
});

test('a request whose Upgrade field is not accepted gets an ordinary response, and its connection is closed', async () => {
  const app = make();
  const seen: string[] = [];
  app
    .get('/u', () => {
      seen.push('u');
      return 'plain';
    })
    .get('/smuggled', () => {
      seen.push('smuggled');
      return 'x';
    })
    .post('/p', () => 'x');
  const server = await app.run({ port: 0, handleSignals: false });
  const answer = await exchange(
    server.url,
    'GET /u HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nPOST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n',
    'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n',
  );
  await server.close();
  assert.match(answer, /^HTTP\/1\.1 200 OK\r\n[\s\S]*Connection: close\r\n[\s\S]*plain$/);
  assert.equal(answer.match(/HTTP\/1\.1/g)!.length, 1);
  assert.deepEqual(seen, ['u']);
});

test('if a client sends Connection: close, its connection is closed after a 426 response', async () => {
  const app = new Svc({
    keepAliveTimeoutMs: 3_600_000, // a connection that is kept outlives the test
    logger: createLogger({ level: 'silent' }),
  }).get('/', () => new TextResponse('old', { status: 426, headers: { Upgrade: 'h2c' } }));
  const server = await app.run({ port: 0, handleSignals: false });
  const answer = await exchange(server.url, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  await server.close();
  assert.match(answer, /^HTTP\/1\.1 426 [\s\S]*Connection: Upgrade, close\r\n[\s\S]*old$/);
});

test('a malformed request does not interrupt the unfinished response to the previous request', async () => {
  const app = make();
  const entered = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  app.get('/slow', async () => {
    entered.resolve();
    await gate.promise;
    return 'done';
  });
  const server = await app.run({ port: 0, handleSignals: false });
  const socket = connect(server.port, '127.0.0.1');
  const answer = text(socket);
  socket.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n');
  await entered.promise;
  socket.write('\0\x01rubbish\r\n\r\n');
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
  gate.resolve();
  assert.match(await answer, /^HTTP\/1\.1 200 OK\r\n[\s\S]*Connection: close\r\n[\s\S]*done$/);
  await server.close();
});

for (const method of ['GET', 'POST']) {
  for (const size of [10, 1_000_000]) {
    for (const [fields, behind] of [
      ['', 'RUBBISH\r\n\r\n'],
      ['Connection: close\r\n', 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'],
    ] as const) {
      test(`if invalid bytes follow a request in one packet, the client still receives the whole response (${method}, ${fields.trim() || 'no fields'}, ${size} bytes)`, async () => {
        const app = make()
          .get('/', () => 'x'.repeat(size))
          .post('/', { body: any }, () => 'x'.repeat(size));
        const server = await app.run({ port: 0, handleSignals: false });
        const answer = await exchange(
          server.url,
          `${method} / HTTP/1.1\r\nHost: a\r\n${fields}${method === 'POST' ? 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}' : '\r\n'}${behind}`,
        );
        await server.close();
        assert.match(answer, /^HTTP\/1\.1 200 OK\r\n/);
        assert.equal(answer.split('\r\n\r\n')[1]!.length, size);
      });
    }
  }
}

test('if run() cannot open the port for metrics, it serves no requests and stops everything that it has started', async () => {
  const other = await make().run({ port: 0, handleSignals: false });
  const log: string[] = [];
  const app = new Svc({
    env: 'test',
    logger: createLogger({ level: 'silent' }),
    ops: { metrics: { port: other.port } },
  });
  app
    .onStartup(() => {
      log.push('up');
    })
    .onShutdown(() => {
      log.push('down');
    });
  await assert.rejects(app.run({ port: 0, handleSignals: false }), { code: 'E_LISTEN' });
  assert.deepEqual(log, ['up', 'down']);
  await other.close();
});
