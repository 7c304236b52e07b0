import assert from 'node:assert/strict';
import { request } from 'node:https';
import { describe, test } from 'node:test';
import {
  BearerAuth,
  CORSMiddleware,
  ConcurrencyLimitMiddleware,
  Depends,
  Field,
  Forbidden,
  JSONResponse,
  RateLimitMiddleware,
  Router,
  Schema,
  SessionMiddleware,
  Svc,
  TextResponse,
  TimeoutMiddleware,
  createLogger,
  createToken,
  int,
  requireRoles,
  rooms,
  sessionKey,
  str,
} from 'svc';
import { ManualClock, TestClient, TestWebSocket, WebSocketRefused } from 'svc/testing';
import { isPublic } from '../../src/check/check.ts';
import { FIRST } from '../support/certificates.ts';
import { FakeTracer } from '../support/fake-tracer.ts';
import { gateOf, until } from '../support/endings.ts';
import { RawClient } from '../support/raw-http.ts';
import { frame } from '../support/ws-frames.ts';
import type { HttpRequest, Next, SvcOptions, WebSocketClose } from 'svc';
import type { TestClientOptions, TestWebSocketOptions } from 'svc/testing';
import type { TestContext } from 'node:test';
import type { RawAnswer } from '../support/raw-http.ts';

const SECRET = '5d0f3b6a91c7e2840d6f5b3a19c8e7f2';

interface Line {
  readonly event: string;
  readonly [key: string]: unknown;
}

/** Returns an application and its log events. */
function make(options: SvcOptions = {}): { readonly app: Svc; readonly lines: () => Line[] } {
  const lines: string[] = [];
  const app = new Svc({
    logger: createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) }),
    ...options,
  });
  return { app, lines: () => lines.map((line) => JSON.parse(line) as Line) };
}

/** Moves the clock until a promise settles. */
async function advancedUntil(clock: ManualClock, work: Promise<unknown>): Promise<void> {
  let isSettled = false;
  const settled = work.finally(() => {
    isSettled = true;
  });
  while (!isSettled) await clock.advance(100);
  await settled;
}

function clientOf(t: TestContext, app: Svc, options: TestClientOptions = {}): TestClient {
  const client = new TestClient(app, { raiseErrors: false, ...options });
  t.after(() => client.close());
  return client;
}

/** Returns the response to a refused handshake. */
async function refusal(client: TestClient, path: string, options?: TestWebSocketOptions): Promise<Response> {
  const error = await client.websocket(path, options).then(
    () => assert.fail('it was opened'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof WebSocketRefused, String(error));
  return error.response;
}

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const HANDSHAKE: Readonly<Record<string, string>> = {
  Host: 'a.example',
  Upgrade: 'websocket',
  Connection: 'Upgrade',
  'Sec-WebSocket-Key': KEY,
  'Sec-WebSocket-Version': '13',
  Origin: 'http://a.example',
};

/** Sends a handshake; `undefined` omits a field. */
async function shake(
  t: TestContext,
  app: Svc,
  changes: Readonly<Record<string, string | undefined>> = {},
  line = 'GET /chat HTTP/1.1',
): Promise<{ raw: RawClient; answer: RawAnswer }> {
  const raw = await rawClient(t, app);
  const fields = Object.entries({ ...HANDSHAKE, ...changes }).filter(([, value]) => value !== undefined);
  raw.send(`${line}\r\n${fields.map(([name, value]) => `${name}: ${value!}\r\n`).join('')}\r\n`);
  return { raw, answer: await raw.answer() };
}

/** Serves the application until the test is over, and opens a connection. */
async function rawClient(t: TestContext, app: Svc): Promise<RawClient> {
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  const raw = await RawClient.open(server.port);
  t.after(async () => {
    await raw[Symbol.asyncDispose]();
    await server.close();
  });
  return raw;
}

function chat(options: SvcOptions = {}): Svc {
  const { app } = make(options);
  app
    .websocket('/chat', { protocols: ['chat.v2', 'chat.v1'] })
    .onMessage((socket, message) => socket.send(message));
  return app;
}

describe('WebSocket handshakes are accepted or refused as RFC 6455 §4.2 defines', () => {
  test('the answer to a WebSocket handshake equals the example of RFC 6455 §1.3', async (t) => {
    const { answer, raw } = await shake(t, chat(), { 'Sec-WebSocket-Protocol': 'chat.v1, chat.v2' });
    assert.equal(answer.status, 101);
    assert.equal(answer.field('upgrade'), 'websocket');
    assert.equal(answer.field('connection'), 'Upgrade');
    assert.equal(answer.field('sec-websocket-accept'), 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
    assert.equal(
      answer.field('sec-websocket-protocol'),
      'chat.v1',
      'the first of the client that the server speaks',
    );
    assert.equal(answer.field('sec-websocket-extensions'), undefined);
    assert.equal(answer.field('content-length'), undefined);
    assert.match(answer.field('x-request-id') ?? '', /^[\da-f]{32}$/);
    raw.send(frame({ payload: 'Hello' }));
    await until(() => raw.unread >= 7);
    raw.send(frame({ opcode: 8 }));
    assert.deepEqual(await raw.ended(), Buffer.from('810548656c6c6f8800', 'hex'));
  });

  for (const [what, changes] of [
    ['field values in another letter case', { Upgrade: 'WebSocket', Connection: 'keep-alive, UPGRADE' }],
    ['several protocols to upgrade to', { Upgrade: 'h2c, websocket' }],
    ['no subprotocol', {}],
    ['a subprotocol that the route does not declare', { 'Sec-WebSocket-Protocol': 'soap' }],
    ['unknown extensions', { 'Sec-WebSocket-Extensions': 'x-other; a=1' }],
    ['an empty body', { 'Content-Length': '0' }],
  ] as const) {
    test(`a WebSocket handshake that has ${what} is accepted`, async (t) => {
      const { answer } = await shake(t, chat(), changes);
      assert.equal(answer.status, 101);
      assert.equal(answer.field('sec-websocket-protocol'), undefined);
    });
  }

  for (const [what, status, changes, line] of [
    ['no Upgrade', 426, { Upgrade: undefined }],
    ['another Upgrade', 426, { Upgrade: 'h2c' }],
    ['no Connection', 400, { Connection: undefined }],
    ['a Connection without Upgrade', 400, { Connection: 'keep-alive' }],
    ['no key', 400, { 'Sec-WebSocket-Key': undefined }],
    ['a key of 15 bytes', 400, { 'Sec-WebSocket-Key': Buffer.alloc(15).toString('base64') }],
    ['a key of 17 bytes', 400, { 'Sec-WebSocket-Key': Buffer.alloc(17).toString('base64') }],
    ['a key that is not base64', 400, { 'Sec-WebSocket-Key': '!!!!!!!!!!!!!!!!!!!!!!==' }],
    ['two keys', 400, { 'Sec-WebSocket-Key': KEY, 'sec-websocket-key': KEY }],
    ['no version', 400, { 'Sec-WebSocket-Version': undefined }],
    ['a version that is not a number', 400, { 'Sec-WebSocket-Version': 'x' }],
    ['two versions', 400, { 'Sec-WebSocket-Version': '13', 'sec-websocket-version': '13' }],
    ['version 8', 426, { 'Sec-WebSocket-Version': '8' }],
    ['version 14', 426, { 'Sec-WebSocket-Version': '14' }],
    ['a subprotocol that is not a token', 400, { 'Sec-WebSocket-Protocol': 'a b' }],
    ['a subprotocol twice', 400, { 'Sec-WebSocket-Protocol': 'chat.v1, chat.v1' }],
    ['an empty subprotocol', 400, { 'Sec-WebSocket-Protocol': '' }],
    ['no Host', 400, { Host: undefined }],
    ['two Hosts', 400, { Host: 'a.example', host: 'b.example' }],
    ['HTTP/1.0', 426, {}, 'GET /chat HTTP/1.0'],
    ['a body', 400, { 'Content-Length': '5' }],
    ['a body in chunks', 400, { 'Transfer-Encoding': 'chunked' }],
    ['no Origin', 403, { Origin: undefined }],
    ['an Origin of another host', 403, { Origin: 'http://b.example' }],
    ['an Origin of another port', 403, { Origin: 'http://a.example:8080' }],
    ['two Origins', 400, { Origin: 'http://a.example', origin: 'http://b.example' }],
    ['the Origin null', 403, { Origin: 'null' }],
    ['a path without a route', 404, {}, 'GET /other HTTP/1.1'],
    ['the method POST', 405, {}, 'POST /chat HTTP/1.1'],
  ] as [what: string, status: number, changes: Record<string, string | undefined>, line?: string][]) {
    test(`a WebSocket handshake is refused with ${status} if it has ${what}`, async (t) => {
      const { raw, answer } = await shake(t, chat(), changes, line);
      assert.equal(answer.status, status);
      assert.equal(answer.field('content-type'), 'application/problem+json');
      if (status === 426) {
        assert.equal(answer.field('upgrade'), 'websocket');
        assert.equal(answer.field('sec-websocket-version'), '13');
        assert.match(answer.field('connection') ?? '', /Upgrade/);
      }
      assert.equal(answer.field('sec-websocket-accept'), undefined);
      raw.socket.end();
      assert.deepEqual(await raw.ended(), Buffer.alloc(0));
    });
  }

  test('a WebSocket route does not affect a GET route of the same path', async (t) => {
    const { app } = make();
    app.get('/both', () => 'page');
    app.websocket('/both').onOpen((socket) => socket.send('socket'));
    const client = clientOf(t, app, { listen: true });
    assert.equal(await (await client.get('/both')).text(), 'page');
    const socket = await client.websocket('/both');
    assert.equal(await socket.receive(), 'socket');
  });

  test('a WebSocket handshake that is pipelined after a running request is refused with 426, after the response to this request', async (t) => {
    const { app } = make();
    const gate = gateOf(t, 'over');
    app.get('/slow', () => gate.promise);
    app.websocket('/chat').onOpen(() => undefined);
    const raw = await rawClient(t, app);
    raw.get('/slow').send(
      `GET /chat HTTP/1.1\r\n${Object.entries(HANDSHAKE)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n`,
    );
    setImmediate(() => gate.resolve('first'));
    assert.equal((await raw.answer()).text(), 'first');
    assert.equal((await raw.answer()).status, 426);
  });

  test('if a client sends WebSocket frames in the same packet as its handshake, the frames are received', async (t) => {
    const app = chat();
    const raw = await rawClient(t, app);
    const head = Buffer.from(
      `GET /chat HTTP/1.1\r\n${Object.entries(HANDSHAKE)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('')}\r\n`,
    );
    raw.send(Buffer.concat([head, frame({ payload: 'early' }), frame({ opcode: 8 })]));
    assert.equal((await raw.answer()).status, 101);
    assert.deepEqual(
      await raw.ended(),
      Buffer.concat([Buffer.from('8105', 'hex'), Buffer.from('early'), Buffer.from('8800', 'hex')]),
    );
  });
});

describe('the server refuses a WebSocket handshake whose Origin is not allowed', () => {
  const origin = (value: string): TestWebSocketOptions => ({ headers: { origin: value } });

  test("by default, the Origin of a WebSocket handshake must be the application's own origin", async (t) => {
    const { app } = make();
    app.websocket('/own').onOpen((socket) => socket.send('in'));
    const client = clientOf(t, app, { baseUrl: 'https://app.example:443' });
    for (const own of ['https://app.example']) await (await client.websocket('/own', origin(own))).close();
    for (const other of [
      'http://app.example',
      'https://app.example.evil',
      'https://evil.example',
      'https://app.example:444',
      'null',
      'https://app.example/path',
      'junk',
    ])
      assert.equal((await refusal(client, '/own', origin(other))).status, 403, other);
  });

  test("the Origin of a WebSocket handshake may be in a list, be accepted by a function, or be the application's own", async (t) => {
    const { app } = make();
    app.websocket('/list', { origins: ['https://app.example'] }).onOpen(() => undefined);
    app.websocket('/fn', { origins: async (name) => name.endsWith('.example') }).onOpen(() => undefined);
    app.websocket('/any', { origins: '*' }).onOpen(() => undefined);
    const client = clientOf(t, app);
    for (const path of ['/list', '/fn', '/any']) {
      await (await client.websocket(path, origin('https://app.example'))).close();
      await (await client.websocket(path, origin('http://localhost'))).close();
    }
    for (const path of ['/list', '/fn']) {
      assert.equal((await refusal(client, path, origin('https://app.test'))).status, 403);
      assert.equal((await refusal(client, path, origin(''))).status, 403);
    }
    await (await client.websocket('/any', origin('https://app.test'))).close();
    await (await client.websocket('/any', origin(''))).close();
  });

  test('a WebSocket handshake may omit Origin only if the option "allowMissingOrigin" is true', async (t) => {
    const { app } = make();
    app.websocket('/device', { allowMissingOrigin: true }).onOpen(() => undefined);
    const client = clientOf(t, app);
    await (await client.websocket('/device', origin(''))).close();
    assert.equal((await refusal(client, '/device', origin('https://evil.example'))).status, 403);
  });

  test('a WebSocket handshake may have an Origin that CORSMiddleware allows with credentials, but not an Origin that it allows without credentials', async (t) => {
    for (const [credentials, status] of [
      [true, 101],
      [false, 403],
    ] as const) {
      const { app } = make();
      app.use(new CORSMiddleware({ origins: ['https://app.example'], credentials }));
      app.websocket('/chat').onOpen(() => undefined);
      const client = clientOf(t, app);
      if (status === 101) await (await client.websocket('/chat', origin('https://app.example'))).close();
      else assert.equal((await refusal(client, '/chat', origin('https://app.example'))).status, status);
    }
  });

  test('a WebSocket route refuses invalid values of the option "origins" with E_CORS', () => {
    const { app } = make();
    assert.throws(() => app.websocket('/x', { origins: ['https://app.example/'] }), { code: 'E_CORS' });
  });
});

for (const listen of [false, true])
  describe(`a TestClient with listen: ${listen} connects to WebSocket routes`, () => {
    test('a WebSocket route converts path parameters, validates inputs and resolves dependencies like any other route', async (t) => {
      const { app } = make();
      class Query extends Schema {
        since = Field(int, { ge: 0 });
      }
      const user = ({ req }: { req: HttpRequest }): string => req.headers['x-user'] ?? 'nobody';
      const routed = new Router({ prefix: '/v1', deps: { outer: Depends(() => 'outer') } });
      routed
        .websocket('/rooms/{room}/{n:int}', { query: Query, user: Depends(user) })
        .onOpen((socket, { params, query, user: name, outer }) =>
          socket.sendJson([params.room, params.n, query.since, name, outer]),
        );
      app.includeRouter(routed);
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/v1/rooms/caf%C3%A9/7?since=3', {
        headers: { 'x-user': 'ada' },
      });
      assert.deepEqual(await socket.receiveJson(), ['café', 7, 3, 'ada', 'outer']);
      assert.equal((await refusal(client, '/v1/rooms/x/notanumber?since=3')).status, 404);
      const invalid = await refusal(client, '/v1/rooms/x/7?since=-1');
      assert.equal(invalid.status, 400);
      assert.deepEqual(((await invalid.json()) as { errors: { loc: unknown }[] }).errors[0]!.loc, [
        'query',
        'since',
      ]);
    });

    test('a WebSocket route with guards answers 401 without a token, and 403 without the role', async (t) => {
      const { app } = make({ authSecret: SECRET });
      app
        .websocket('/admin', { auth: Depends(BearerAuth()), role: Depends(requireRoles('admin')) })
        .onOpen((socket, { auth }) => socket.send(auth.sub));
      const client = clientOf(t, app, { listen });
      const missing = await refusal(client, '/admin');
      assert.equal(missing.status, 401);
      assert.match(missing.headers.get('www-authenticate') ?? '', /^Bearer/);
      const bearer = (roles: string[]): TestWebSocketOptions => ({
        headers: { authorization: `Bearer ${createToken('ada', SECRET, { claims: { roles } })}` },
      });
      assert.equal((await refusal(client, '/admin', bearer(['user']))).status, 403);
      assert.equal(
        (await refusal(client, '/admin', { headers: { authorization: 'Bearer junk' } })).status,
        401,
      );
      assert.equal(
        (
          await refusal(
            client,
            `/admin?access_token=${createToken('ada', SECRET, { claims: { roles: ['admin'] } })}`,
          )
        ).status,
        401,
        'a token in the query is none',
      );
      assert.equal(await (await client.websocket('/admin', bearer(['admin']))).receive(), 'ada');
    });

    test('a middleware of a WebSocket route can add header fields to the 101 response, or refuse the handshake', async (t) => {
      const { app } = make();
      const seen: string[] = [];
      app.use(async (req: HttpRequest, next: Next) => {
        seen.push(`${req.route?.method ?? ''} ${req.route?.template ?? ''}`);
        const response = await next();
        response.headers.set('X-Layer', 'outer');
        response.headers.set('Content-Type', 'text/plain');
        return response.setCookie('seen', 'yes');
      });
      const inner = (req: HttpRequest, next: Next): unknown =>
        req.headers['x-refuse'] === undefined
          ? next()
          : new JSONResponse({ no: true }, { status: 429, headers: { 'Retry-After': '7' } });
      app.websocket('/chat/{room}', { use: [inner] }).onOpen(() => undefined);
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/chat/x');
      assert.equal(socket.headers.get('x-layer'), 'outer');
      assert.equal(listen ? socket.headers.get('content-type') : null, null);
      assert.equal(client.cookies.headerFor(new URL(client.baseUrl)), 'seen=yes');
      const refused = await refusal(client, '/chat/x', { headers: { 'x-refuse': '1' } });
      assert.equal(refused.status, 429);
      assert.equal(refused.headers.get('retry-after'), '7');
      assert.equal(refused.headers.get('x-layer'), 'outer');
      assert.deepEqual(await refused.json(), { no: true });
      assert.deepEqual(seen, ['WEBSOCKET /chat/{room}', 'WEBSOCKET /chat/{room}']);
    });

    test('a WebSocket handshake can read the session, and is subject to the rate limit of its route and to TimeoutMiddleware', async (t) => {
      const { app } = make({ authSecret: SECRET });
      const name = sessionKey<string>('name');
      app
        .use(new SessionMiddleware())
        .use(new RateLimitMiddleware({ perMinute: 100 }))
        .use(new TimeoutMiddleware({ seconds: 0.05 }))
        .use(new ConcurrencyLimitMiddleware());
      app.get('/login', ({ req }) => {
        req.session.set(name, 'ada');
      });
      app
        .websocket('/me', { rateLimit: { perMinute: 60, burst: 2 } })
        .onOpen((socket, { req }) => socket.send(String(req.session.get(name))));
      app.websocket('/slow', { never: Depends(() => new Promise(() => undefined)) }).onOpen(() => undefined);
      const client = clientOf(t, app, { listen });
      await client.get('/login');
      const sockets = [await client.websocket('/me'), await client.websocket('/me')];
      for (const socket of sockets) assert.equal(await socket.receive(), 'ada');
      assert.equal((await refusal(client, '/me')).status, 429);
      assert.equal((await refusal(client, '/slow')).status, 503);
    });

    test('if a dependency of a WebSocket route throws, an exception handler of the application answers the handshake', async (t) => {
      const { app } = make();
      class Teapot extends Error {}
      app.exceptionHandler(Teapot, () => new JSONResponse({ tea: true }, { status: 418 }));
      app
        .websocket('/tea', {
          tea: Depends(() => {
            throw new Teapot();
          }),
        })
        .onOpen(() => undefined);
      app
        .websocket('/bug', {
          bug: Depends(() => {
            throw new TypeError('a bug');
          }),
        })
        .onOpen(() => undefined);
      const client = clientOf(t, app, { listen });
      const refused = await refusal(client, '/tea');
      assert.equal(refused.status, 418);
      assert.deepEqual(await refused.json(), { tea: true });
      assert.equal((await refusal(client, '/bug')).status, 500);
    });

    test('a WebSocket route cleans up dependencies of scope "handler" before the 101 response, and those of scope "request" after the socket closes', async (t) => {
      const { app } = make();
      const events: string[] = [];
      const over = Promise.withResolvers<void>();
      async function* connection(): AsyncGenerator<string> {
        try {
          events.push('enter');
          yield 'connection';
        } finally {
          events.push('leave');
          over.resolve();
        }
      }
      function* transaction(): Generator<string> {
        yield 'transaction';
        events.push('commit');
      }
      app
        .websocket('/db', { conn: Depends(connection), tx: Depends(transaction, { scope: 'handler' }) })
        .onOpen((_socket, { conn, tx }) => void events.push(`open ${conn} ${tx}`))
        .onMessage((socket, message, { conn }) => socket.send(`${String(message)} ${conn}`))
        .onClose((_socket, { code }) => void events.push(`close ${code}`));
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/db');
      socket.send('x');
      assert.equal(await socket.receive(), 'x connection');
      await socket.close(1000);
      await over.promise;
      assert.deepEqual(events, ['enter', 'commit', 'open connection transaction', 'close 1000', 'leave']);
    });

    test('if a lost connection or an error ends a WebSocket, the reason is thrown into its generator dependencies', async (t) => {
      const { app } = make();
      const thrown: unknown[] = [];
      const ends = [1, 2, 3].map(() => Promise.withResolvers<void>());
      function* resource(): Generator<number> {
        try {
          yield 1;
          thrown.push(undefined);
        } catch (error) {
          thrown.push(error);
          throw error;
        } finally {
          ends[thrown.length - 1]!.resolve();
        }
      }
      app.websocket('/x', { resource: Depends(resource) }).onMessage((_socket, message) => {
        if (message === 'fail') throw new TypeError('on purpose');
      });
      const client = clientOf(t, app, { listen });
      const [clean, failed, lost] = [
        await client.websocket('/x'),
        await client.websocket('/x'),
        await client.websocket('/x'),
      ];
      await clean.close(1000);
      await ends[0]!.promise;
      failed.send('fail');
      assert.deepEqual(await failed.closed, { code: 1011, reason: '', wasClean: true });
      await ends[1]!.promise;
      lost.terminate();
      await ends[2]!.promise;
      assert.deepEqual(
        thrown.map((error) => (error as Error | undefined)?.constructor.name),
        [undefined, 'TypeError', 'ClientDisconnected'],
      );
    });

    test('if a handler of a WebSocket fails because its client has disconnected, no error is logged', async (t) => {
      const { app, lines } = make();
      const over = Promise.withResolvers<void>();
      function* resource(): Generator<number> {
        try {
          yield 1;
        } finally {
          over.resolve();
        }
      }
      app.websocket('/x', { resource: Depends(resource) }, async (socket, { signal }) => {
        const left = new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
        socket.send('waiting');
        await left.catch((cause: unknown) => {
          throw new Error('the statement was canceled', { cause });
        });
      });
      const socket = await clientOf(t, app, { listen }).websocket('/x');
      assert.equal(await socket.receive(), 'waiting');
      socket.terminate();
      await over.promise;
      const logged = lines().filter(({ event }) => event !== 'request');
      assert.deepEqual(
        logged.filter(({ level }) => level === 'error'),
        [],
      );
      assert.ok(logged.some(({ event }) => event === 'client_disconnected'));
    });

    test('when a WebSocket closes, the signal of its request is aborted', async (t) => {
      const { app } = make();
      const aborted = gateOf(t);
      app.websocket('/x', async (socket, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve());
        socket.send('listening');
        await aborted.promise;
      });
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/x');
      await socket.receive();
      void socket.close();
      await aborted.promise;
    });

    test('a WebSocket delivers messages one at a time and in order, and calls onClose after the last message', async (t) => {
      const { app } = make();
      const events: string[] = [];
      const over = Promise.withResolvers<void>();
      app
        .websocket('/order')
        .onOpen(async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          events.push('open');
        })
        .onMessage(async (_socket, message) => {
          events.push(`begin ${String(message)}`);
          await new Promise((resolve) => setTimeout(resolve, 2));
          events.push(`end ${String(message)}`);
        })
        .onClose(() => {
          events.push('close');
          over.resolve();
        });
      const socket = await clientOf(t, app, { listen }).websocket('/order');
      for (const message of ['a', 'b', 'c']) socket.send(message);
      void socket.close();
      await over.promise;
      assert.deepEqual(events, [
        'open',
        ...['a', 'b', 'c'].flatMap((name) => [`begin ${name}`, `end ${name}`]),
        'close',
      ]);
    });

    test('if a WebSocket handler iterates over the messages and then returns, the socket closes with 1000', async (t) => {
      const { app } = make();
      app.websocket('/iter', async (socket) => {
        for await (const message of socket) {
          if (message === 'stop') break;
          socket.send(typeof message === 'string' ? message.toUpperCase() : message);
        }
      });
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/iter');
      socket.send('a');
      socket.send(Uint8Array.of(1, 2));
      assert.equal(await socket.receive(), 'A');
      assert.deepEqual(await socket.receive(), Uint8Array.of(1, 2));
      socket.send('stop');
      assert.deepEqual(await socket.closed, { code: 1000, reason: '', wasClean: true });
      const other = await client.websocket('/iter');
      for (let count = 0; count < 50; count++) other.send(`m${count}`);
      const closing = other.close(4001, 'done');
      let count = 0;
      for await (const _ of other) count++;
      assert.equal((await closing).code, 4001);
      assert.ok(count <= 50);
    });

    test('a WebSocket route with a message schema validates received messages, and sends JSON', async (t) => {
      class Say extends Schema {
        text = Field(str, { maxLength: 10 });
        times = Field(1);
      }
      const { app } = make();
      app
        .websocket('/say', { message: Say })
        .onMessage((socket, { text, times }) => socket.sendJson({ said: text.repeat(times) }));
      const errors: unknown[] = [];
      app
        .websocket('/lenient', { message: Say })
        .onMessage((socket, say) => socket.send(say.text))
        .onError((socket, error) => {
          errors.push(error);
          socket.sendJson({ error: (error as Error).constructor.name });
        });
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/say');
      socket.sendJson({ text: 'ab', times: 2 });
      assert.deepEqual(await socket.receiveJson(), { said: 'abab' });
      socket.sendJson({ text: 'much too long' });
      const { code, reason } = await socket.closed;
      assert.equal(code, 1007);
      assert.match(reason, /^message\.text /);
      for (const [bad, expected] of [
        ['{', 1007],
        [Uint8Array.of(1), 1003],
        ['[]', 1007],
      ] as const) {
        const other = await client.websocket('/say');
        other.send(bad);
        assert.equal((await other.closed).code, expected);
      }
      const lenient = await client.websocket('/lenient');
      lenient.send('junk');
      assert.deepEqual(await lenient.receiveJson(), { error: 'BadRequest' });
      lenient.sendJson({ text: 'again' });
      assert.equal(await lenient.receive(), 'again');
      assert.equal(errors.length, 1);
    });

    test('if a WebSocket handler throws, the socket closes with 1008 for an HTTP exception, and with 1011 for any other error', async (t) => {
      const { app, lines } = make();
      app.websocket('/bug').onMessage(async () => {
        await Promise.resolve();
        throw new TypeError('secret detail');
      });
      app.websocket('/no', async () => {
        throw new Forbidden('not for you');
      });
      app
        .websocket('/worse')
        .onMessage(() => {
          throw new Error('first');
        })
        .onError(() => {
          throw new Error('second');
        });
      const client = clientOf(t, app, { listen });
      const bug = await client.websocket('/bug');
      bug.send('x');
      assert.deepEqual(await bug.closed, { code: 1011, reason: '', wasClean: true });
      assert.deepEqual(await (await client.websocket('/no')).closed, {
        code: 1008,
        reason: 'not for you',
        wasClean: true,
      });
      const worse = await client.websocket('/worse');
      worse.send('x');
      assert.equal((await worse.closed).code, 1011);
      assert.deepEqual(
        lines()
          .filter(({ event }) => event === 'unhandled_error')
          .map(({ method, route }) => [method, route]),
        [
          ['GET', '/bug'],
          ['GET', '/worse'],
        ],
      );
    });

    test('onClose of a WebSocket gets the close code and the reason', async (t) => {
      const { app } = make();
      const closes: WebSocketClose[] = [];
      let reported = Promise.withResolvers<void>();
      app
        .websocket('/x')
        .onMessage((socket, message) => {
          if (message === 'close') socket.close(4000, 'ours');
        })
        .onClose((_socket, close) => {
          closes.push(close);
          reported.resolve();
        });
      const client = clientOf(t, app, { listen });
      for (const end of [
        async () => (await client.websocket('/x')).close(4321, 'theirs'),
        async () => (await client.websocket('/x')).close(),
        async () => {
          const socket = await client.websocket('/x');
          await turn();
          socket.terminate();
        },
        async () => (await client.websocket('/x')).sendRaw(Buffer.of(0xff, 0xff)),
        async () => (await client.websocket('/x')).send('close'),
      ]) {
        reported = Promise.withResolvers();
        await end();
        await reported.promise;
      }
      assert.deepEqual(closes, [
        { code: 4321, reason: 'theirs', wasClean: true },
        { code: 1005, reason: '', wasClean: true },
        { code: 1006, reason: '', wasClean: false },
        { code: 1002, reason: 'a reserved bit is set', wasClean: false },
        { code: 4000, reason: 'ours', wasClean: true },
      ]);
    });

    test('a WebSocket negotiates compression, and compresses messages in both directions', async (t) => {
      const { app } = make();
      app
        .websocket('/zip', { compression: { contextTakeover: true, thresholdBytes: 20 } })
        .onMessage((socket, message) => socket.send(message));
      app.websocket('/plain').onMessage((socket, message) => socket.send(message));
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/zip', { compression: true });
      assert.equal(socket.headers.get('sec-websocket-extensions'), 'permessage-deflate');
      for (const text of ['short', 'long '.repeat(100), 'long '.repeat(1000), '€'.repeat(100)]) {
        socket.send(text);
        assert.equal(await socket.receive(), text);
      }
      assert.equal(
        (await client.websocket('/plain', { compression: true })).headers.get('sec-websocket-extensions'),
        null,
      );
      assert.equal((await client.websocket('/zip')).headers.get('sec-websocket-extensions'), null);
      assert.equal(
        (await refusal(client, '/zip', { headers: { 'sec-websocket-extensions': 'a;' } })).status,
        400,
      );
    });

    test('a WebSocket can join rooms, broadcast to the other members of a room, and leave rooms', async (t) => {
      const { app } = make();
      app
        .websocket('/chat/{room}', { compression: true })
        .onOpen((socket, { params }) => socket.join(params.room))
        .onMessage((socket, message, { params }) =>
          message === 'leave'
            ? socket.leave(params.room)
            : socket.broadcast(params.room, `${String(message)} `.repeat(500)),
        );
      app.post('/announce', { rooms: Depends(rooms) }, ({ rooms: all }) => {
        all.broadcastJson('a', { hello: 'all' });
        return { count: all.count('a') };
      });
      const client = clientOf(t, app, { listen });
      const [one, two, other] = [
        await client.websocket('/chat/a', { compression: true }),
        await client.websocket('/chat/a'),
        await client.websocket('/chat/b'),
      ];
      one.send('hi');
      assert.equal(await two.receive(), 'hi '.repeat(500));
      two.send('ho');
      assert.equal(await one.receive(), 'ho '.repeat(500));
      assert.deepEqual(await (await client.post('/announce')).json(), { count: 2 });
      assert.deepEqual(
        [await one.receiveJson(), await two.receiveJson()],
        [{ hello: 'all' }, { hello: 'all' }],
      );
      two.send('leave');
      await one.close();
      await two.close();
      assert.deepEqual(await (await client.post('/announce')).json(), { count: 0 });
      other.send('alone');
      await other.close();
      assert.equal(app.rooms.size, 0);
    });

    test('if onClose throws, the WebSocket still leaves its rooms and cleans up its dependencies, and other sockets still close', async (t) => {
      const { app, lines } = make();
      const steps: string[] = [];
      const left = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      async function* resource({ req }: { req: HttpRequest }): AsyncGenerator<number> {
        try {
          yield 1;
        } finally {
          steps.push(`leave ${req.query.get('n')!}`);
          left[Number(req.query.get('n'))]!.resolve();
        }
      }
      app
        .websocket('/x', { resource: Depends(resource) })
        .onOpen((socket) => {
          socket.join('all');
          socket.send('open');
        })
        .onClose((_socket, { code }, { req }) => {
          steps.push(`close ${req.query.get('n')!} ${code}`);
          if (req.query.get('n') === '0') throw new Error('on purpose');
        });
      const client = clientOf(t, app, { listen });
      const sockets = [await client.websocket('/x?n=0'), await client.websocket('/x?n=1')];
      for (const socket of sockets) await socket.receive();
      await client.close();
      for (const [index, socket] of sockets.entries()) {
        assert.equal((await socket.closed).code, 1001);
        await left[index]!.promise;
      }
      for (const name of ['0', '1'])
        assert.deepEqual(
          steps.filter((step) => step.split(' ')[1] === name),
          [`close ${name} 1001`, `leave ${name}`],
        );
      assert.equal(app.rooms.size, 0);
      assert.equal(lines().filter(({ level }) => level === 'error').length, 1);
    });

    test('a WebSocket closes with 1001 when the application stops', async (t) => {
      const { app } = make();
      app.websocket('/x').onOpen((socket) => socket.send('open'));
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/x');
      await socket.receive();
      await client.close();
      assert.equal((await socket.closed).code, 1001);
    });
  });

describe('invalid declarations of WebSocket routes are refused or reported', () => {
  test('a WebSocket route refuses an unknown option, and suggests the most similar name', () => {
    const { app } = make();
    assert.throws(() => app.websocket('/x', { heartbeat: 5 } as never), {
      code: 'E_ROUTE_SPEC',
      message: /"heartbeat".*heartbeatMs/,
    });
    assert.throws(() => app.websocket('/x', { body: Depends(() => 1) } as never), { code: 'E_ROUTE_SPEC' });
    assert.throws(() => app.websocket('/x', { heartbeatMs: 5 }), { code: 'E_OPTION_RANGE' });
    assert.throws(() => app.websocket('/x', { compression: { level: 10 } }), { code: 'E_OPTION_RANGE' });
    assert.throws(() => app.websocket('/x', 'spec' as never), { code: 'E_ROUTE_HANDLER' });
    assert.throws(() => app.websocket('/x').onOpen('fn' as never), { code: 'E_ROUTE_HANDLER' });
    assert.throws(
      () =>
        app
          .websocket('/x')
          .onOpen(() => undefined)
          .onOpen(() => undefined),
      { code: 'E_ROUTE_SPEC' },
    );
  });

  test('a WebSocket route refuses changes once the application is compiled', () => {
    const { app } = make();
    const router = app.websocket('/x').onOpen(() => undefined);
    app.compileAll();
    assert.throws(() => app.websocket('/y'), { code: 'E_APP_FROZEN' });
    assert.throws(() => router.onMessage(() => undefined), { code: 'E_APP_FROZEN' });
  });

  test('check() reports a WebSocket route without handlers, and a WebSocket route with the path of another WebSocket route', () => {
    const { app } = make();
    app.websocket('/none');
    app.websocket('/twice/{a}').onOpen(() => undefined);
    app.websocket('/twice/{b}').onOpen(() => undefined);
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ rule }) => rule === 'SVC101' || rule === 'SVC107')
        .map(({ rule, subject }) => [rule, subject]),
      [
        ['SVC107', 'WEBSOCKET /none'],
        ['SVC101', 'WEBSOCKET /twice/{b}'],
      ],
    );
  });

  test('a WebSocket route that allows all origins, has neither heartbeat nor idle limit, or accepts huge messages causes the warning SVC212', () => {
    const { app } = make();
    app.websocket('/open', { origins: '*' }).onOpen(() => undefined);
    app.websocket('/endless', { heartbeatMs: false }).onOpen(() => undefined);
    app.websocket('/large', { maxMessageBytes: 2 ** 30 }).onOpen(() => undefined);
    app
      .websocket('/idle', {
        heartbeatMs: false,
        idleTimeoutMs: 60_000,
        origins: ['https://app.example'],
        allowMissingOrigin: true,
      })
      .onOpen(() => undefined);
    assert.deepEqual(
      app
        .check()
        .findings.filter(({ rule }) => rule === 'SVC212')
        .map(({ rule, severity, subject }) => `${rule} ${severity} ${subject}`),
      [
        'SVC212 warning WEBSOCKET /open',
        'SVC212 warning WEBSOCKET /endless',
        'SVC212 warning WEBSOCKET /large',
      ],
    );
  });

  test('the option "public" of a WebSocket route accepts true, false or a reason, and refuses other values', () => {
    for (const said of [true, false, 'every client may listen', '', undefined])
      make()
        .app.websocket('/x', { public: said })
        .onOpen(() => undefined);
    for (const other of [1, 0, null, {}, ['a reason']])
      assert.throws(() => make().app.websocket('/x', { public: other as never }), {
        code: 'E_OPTION_RANGE',
        message: /public.*true, false or a reason/,
      });
  });

  test('inspect() shows the option "public" of a WebSocket route exactly as it is declared', () => {
    const { app } = make();
    app.websocket('/said', { public: 'every client may listen' }).onOpen(() => undefined);
    app.websocket('/true', { public: true }).onOpen(() => undefined);
    app.websocket('/false', { public: false }).onOpen(() => undefined);
    app.websocket('/unsaid').onOpen(() => undefined);
    const said = app
      .inspect()
      .details.filter(({ route }) => route.method === 'WEBSOCKET')
      .map((detail) => [detail.route.template, detail.declared.spec.public, isPublic(detail)]);
    assert.deepEqual(said, [
      ['/said', 'every client may listen', true],
      ['/true', true, true],
      ['/false', false, false],
      ['/unsaid', undefined, false],
    ]);
  });

  test('a public WebSocket route requires credentials only if it has guards', async (t) => {
    const { app } = make({ authSecret: SECRET });
    app.websocket('/guarded', { public: true, me: Depends(BearerAuth()) }).onOpen(() => undefined);
    app.websocket('/open', { public: 'every client may listen' }).onOpen((socket) => socket.send('in'));
    const client = clientOf(t, app);
    assert.equal((await refusal(client, '/guarded')).status, 401);
    assert.equal(await (await client.websocket('/open')).receive(), 'in');
  });

  for (const said of [undefined, false, true, 'every client may listen']) {
    test(`a WebSocket route whose option "public" is ${JSON.stringify(said)} has no findings about access, and is not in the OpenAPI document`, () => {
      const { app } = make({ authSecret: SECRET });
      app.get('/chat', { me: Depends(BearerAuth()), response: str }, () => 'x');
      app.websocket('/chat', { public: said }).onOpen(() => undefined);
      assert.deepEqual(
        app.check().findings.filter(({ subject }) => subject.startsWith('WEBSOCKET')),
        [],
      );
      assert.deepEqual(Object.keys(app.openapi().paths['/chat']!), ['get']);
    });
  }

  test('a WebSocket route can have a name for urlFor(), and its method is WEBSOCKET', () => {
    const { app } = make();
    app.websocket('/chat/{room}', { name: 'chat' }).onOpen(() => undefined);
    assert.equal(app.urlFor('chat', { room: 'a b' }), '/chat/a%20b');
    assert.deepEqual(
      app.routes.filter(({ template }) => template.includes('chat')).map(({ method }) => method),
      ['WEBSOCKET'],
    );
  });
});

test('while a short WebSocket message waits for its handler, the packet in which it arrived is not kept in memory', async (t) => {
  const { app } = make();
  const gate = gateOf(t);
  const got = Promise.withResolvers<Uint8Array>();
  app.websocket('/chat').onMessage(async (_socket, message) => {
    if (typeof message !== 'string') return got.resolve(message);
    await gate.promise;
  });
  const { raw } = await shake(t, app);
  raw.send(
    Buffer.concat([
      frame({ payload: 'first' }),
      frame({ opcode: 2, payload: Uint8Array.of(7) }),
      ...Array.from({ length: 100 }, () => frame({ opcode: 9, payload: 'p'.repeat(125) })),
    ]),
  );
  await until(() => raw.unread >= 100 * 127); // the pongs show that all frames are read
  gate.resolve();
  const message = await got.promise;
  assert.deepEqual([...message], [7]);
  assert.equal(message.buffer.byteLength, 1);
});

test("a WebSocket over TLS accepts the application's https origin, and carries messages in both directions", async (t) => {
  const { app } = make();
  app.websocket('/x', { compression: true }).onMessage((socket, message) => socket.send(message));
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1, tls: FIRST });
  t.after(() => server.close());
  const shakeOver = (origin: string): Promise<TestWebSocket | number> =>
    new Promise((resolve, reject) => {
      const headers = { ...HANDSHAKE, Host: 'localhost', Origin: origin };
      request({
        port: server.port,
        host: '127.0.0.1',
        path: '/x',
        headers,
        rejectUnauthorized: false,
        agent: false,
      })
        .once('error', reject)
        .once('upgrade', (_incoming, stream, head) => resolve(new TestWebSocket(stream, new Headers(), head)))
        .once('response', (incoming) => resolve(incoming.resume().statusCode!))
        .end();
    });
  assert.equal(await shakeOver('http://localhost'), 403);
  const socket = await shakeOver('https://localhost');
  assert.ok(socket instanceof TestWebSocket);
  for (const text of ['a', 'b'.repeat(1_000), 'c'.repeat(200_000)]) {
    socket.send(text);
    assert.equal(await socket.receive(), text);
  }
  assert.equal((await socket.close(1000)).code, 1000);
});

test('a stopping server leaves WebSockets open until its deadline, and then closes them', async (t) => {
  const clock = new ManualClock();
  const { app } = make({ clock });
  const closes: WebSocketClose[] = [];
  app
    .websocket('/x', { closeTimeoutMs: 60_000 })
    .onOpen((socket) => socket.send('open'))
    .onClose((_socket, close) => void closes.push(close));
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  const raw = await RawClient.open(server.port);
  t.after(async () => {
    await raw[Symbol.asyncDispose]();
    await server.close();
  });
  raw.send(
    `GET /x HTTP/1.1\r\n${Object.entries(HANDSHAKE)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}\r\n`,
  );
  assert.equal((await raw.answer()).status, 101);
  const closing = server.close();
  await clock.advance(999);
  assert.deepEqual(closes, []);
  await clock.advance(1);
  await advancedUntil(clock, closing); // the client sends no pong
  const said = await raw.ended();
  assert.deepEqual(
    said.subarray(0, 10),
    Buffer.concat([Buffer.from('8104', 'hex'), Buffer.from('open'), Buffer.from('881203e9', 'hex')]),
  );
  assert.deepEqual(closes, [{ code: 1001, reason: 'the server stops', wasClean: false }]);
});

test('a stopping server answers a WebSocket handshake with 503', async (t) => {
  const { app } = make();
  const gate = gateOf(t);
  app.get('/slow', async () => {
    await gate.promise;
  });
  app.websocket('/x').onOpen(() => undefined);
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 5 });
  const [busy, late] = [await RawClient.open(server.port), await RawClient.open(server.port)];
  t.after(async () => {
    await busy[Symbol.asyncDispose]();
    await late[Symbol.asyncDispose]();
    await server.close();
  });
  busy.get('/slow');
  late.send('GET /x HTTP/1.1\r\n'); // a connection with a request in flight is not idle
  await until(() => app.operations.inFlight() > 0);
  const closing = server.close();
  await turn();
  late.send(
    `${Object.entries(HANDSHAKE)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')}\r\n`,
  );
  const answer = await late.answer();
  assert.equal(answer.status, 503);
  assert.equal(answer.field('retry-after'), '1');
  gate.resolve();
  await closing;
});

test('the heartbeat of a WebSocket pings an idle client, and closes the socket if no pong arrives', async (t) => {
  const { app } = make();
  const clock = new ManualClock();
  const closed = Promise.withResolvers<WebSocketClose>();
  app
    .websocket('/x', { heartbeatMs: 8_000 })
    .onClose((_socket, close) => closed.resolve(close))
    .onMessage(() => undefined);
  const client = clientOf(t, app, { clock });
  const alive = await client.websocket('/x');
  const dead = await client.websocket('/x');
  await turn();
  dead.pause();
  for (let second = 0; second < 30; second++) {
    clock.advance(1_000);
    await turn();
  }
  assert.equal((await closed.promise).code, 1006);
  assert.equal((await dead.closed).code, 1006);
  assert.equal((await alive.close(1000)).code, 1000);
});

test('a WebSocket that is idle longer than its limit is closed with 1000', async (t) => {
  const { app } = make();
  const clock = new ManualClock();
  app.websocket('/x', { idleTimeoutMs: 8_000 }).onMessage(() => undefined);
  const client = clientOf(t, app, { clock });
  const [busy, idle] = [await client.websocket('/x'), await client.websocket('/x')];
  await turn();
  for (let second = 0; second < 12; second++) {
    clock.advance(1_000);
    busy.send('x');
    await turn();
  }
  assert.equal((await idle.closed).code, 1000);
  assert.equal((await busy.close(4000)).code, 4000);
});

test('ping() of a WebSocket returns the round-trip time', async (t) => {
  const { app } = make();
  const times: (number | undefined)[] = [];
  const done = Promise.withResolvers<void>();
  app.websocket('/x', async (socket) => {
    times.push(...(await Promise.all([socket.ping(), socket.ping()])));
    socket.close();
    times.push(await socket.ping());
    done.resolve();
  });
  await clientOf(t, app).websocket('/x');
  await done.promise;
  assert.equal(times.length, 3);
  assert.ok(times[0]! >= 0 && times[1] === times[0]);
  assert.equal(times[2], undefined);
});

test("ping() of a WebSocket ignores a pong whose payload differs from the ping's (RFC 6455 §5.5.3)", async (t) => {
  const { app } = make();
  const answers: (number | undefined)[] = [];
  const answersSoFar = Promise.withResolvers<number>();
  app
    .websocket('/chat', { allowMissingOrigin: true })
    .onOpen((socket) => {
      void socket.ping().then((answer) => {
        answers.push(answer);
      });
    })
    .onMessage((socket) => {
      answersSoFar.resolve(answers.length);
      socket.close();
    });
  const { raw, answer } = await shake(t, app);
  assert.equal(answer.status, 101);
  for (const payload of ['', 'nobody asked', '\0\0\0']) raw.send(frame({ opcode: 10, payload }));
  raw.send(frame({ payload: 'and now?' })).send(frame({ opcode: 8, payload: '' }));
  assert.equal(await answersSoFar.promise, 0);
  const bytes = await raw.ended();
  assert.deepEqual([bytes[0], bytes[1]], [0x89, 4], 'a ping with a payload');
  assert.deepEqual(answers, [undefined], 'closed before it was answered');
});

test('the methods of a WebSocket throw if the handler passes an invalid message, close code or room name', async (t) => {
  const { app } = make();
  const errors: unknown[] = [];
  app.websocket('/x', { maxRooms: 2 }).onMessage((socket) => {
    const attempts: (() => unknown)[] = [
      () => socket.send(5 as never),
      () => socket.send(null as never),
      () => socket.close(1005),
      () => socket.close(999),
      () => socket.join(''),
      () => socket.join('x'.repeat(257)),
      () => socket.sendJson(undefined),
      () => {
        socket.join('a');
        socket.join('b');
        socket.join('a');
        socket.join('c');
      },
      () => socket[Symbol.asyncIterator](),
    ];
    for (const attempt of attempts)
      try {
        attempt();
      } catch (error) {
        errors.push((error as { code?: string }).code);
      }
    socket.close(4000);
    socket.send('late');
    socket.join('late');
  });
  const socket = await clientOf(t, app).websocket('/x');
  socket.send('x');
  assert.equal((await socket.closed).code, 4000);
  assert.deepEqual(errors, [
    'E_WEBSOCKET_DATA',
    'E_WEBSOCKET_DATA',
    'E_WEBSOCKET_CLOSE',
    'E_WEBSOCKET_CLOSE',
    'E_ROOM',
    'E_ROOM',
    'E_REPLY',
    'E_ROOM',
    'E_WEBSOCKET_ITERATED',
  ]);
});

/** Resolves when everything that is in flight in memory has arrived. */
async function turn(): Promise<void> {
  for (let count = 0; count < 3; count++) await new Promise((resolve) => setImmediate(resolve));
}

/** Returns the bytes of a handshake at `path`. */
function bytesOf(path: string): string {
  return `GET ${path} HTTP/1.1\r\n${Object.entries(HANDSHAKE)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;
}

test('the response that refuses a WebSocket handshake may have any length', async (t) => {
  const { app } = make();
  const text = 'x'.repeat(3_000_000);
  app.websocket('/x', { use: [() => new TextResponse(text, { status: 403 })] }).onOpen(() => undefined);
  const raw = await rawClient(t, app);
  raw.send(bytesOf('/x'));
  const answer = await raw.answer();
  assert.equal(answer.status, 403);
  assert.ok(answer.text() === text);
  assert.equal((await raw.ended()).length, 0);
});

test('a stopping server waits until its deadline for the client to read the response to a WebSocket handshake', async (t) => {
  const clock = new ManualClock();
  const { app } = make({ clock });
  app
    .websocket('/x', { use: [() => new TextResponse('x'.repeat(12_000_000), { status: 403 })] })
    .onOpen(() => undefined);
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 3 });
  const [taking, silent] = [await RawClient.open(server.port), await RawClient.open(server.port)];
  t.after(async () => {
    await taking[Symbol.asyncDispose]();
    await silent[Symbol.asyncDispose]();
    await server.close();
  });
  silent.socket.pause();
  silent.send(bytesOf('/x'));
  taking.send(bytesOf('/x'));
  await until(() => taking.unread > 0);
  let isClosed = false;
  const closing = server.close().then(() => {
    isClosed = true;
  });
  assert.equal((await taking.answer()).body.length, 12_000_000);
  await clock.advance(2_999);
  assert.equal(isClosed, false);
  await advancedUntil(clock, closing);
});

test('if a client disconnects during its WebSocket handshake, no socket is opened, unless the client has already sent a frame', async (t) => {
  const { app } = make();
  const received: unknown[] = [];
  const gate = gateOf(t);
  let left = 0;
  const scoped = Depends(
    async function* () {
      await gate.promise;
      try {
        yield 1;
      } finally {
        left++;
      }
    },
    { scope: 'request' },
  );
  app
    .websocket('/x', { scoped, heartbeatMs: false })
    .onOpen(() => void received.push('open'))
    .onMessage((_socket, message) => void received.push(message))
    .onClose((_socket, { code }) => void received.push(code));
  const server = await app.run({ port: 0, handleSignals: false, shutdownTimeoutSeconds: 60 });
  const [silent, talking] = [await RawClient.open(server.port), await RawClient.open(server.port)];
  t.after(async () => {
    await silent[Symbol.asyncDispose]();
    await talking[Symbol.asyncDispose]();
    await server.close();
  });
  silent.send(bytesOf('/x')).socket.end();
  talking
    .send(Buffer.concat([Buffer.from(bytesOf('/x'), 'latin1'), frame({ payload: 'last words' })]))
    .socket.end();
  await until(() => app.operations.inFlight() === 2);
  await new Promise((resolve) => setTimeout(resolve, 50)); // both handlers have ended
  gate.resolve();
  assert.equal((await silent.answer()).status, 101, 'it is open for its peer to read');
  assert.equal((await silent.ended()).length, 0);
  assert.equal((await talking.answer()).status, 101);
  await talking.ended();
  await until(() => left === 2);
  assert.deepEqual(received, ['open', 'last words', 1006]);
  await server.close(); // no timer is left
});

describe('with a tracer, a WebSocket has spans', () => {
  test('the span of a handshake lasts until the WebSocket has closed, and each message has a span below it', async (t) => {
    const tracer = new FakeTracer();
    const { app } = make({ tracer });
    const rooms = new Router();
    rooms
      .websocket('/chat/{room}')
      .onMessage(async (socket, message) => {
        await Promise.resolve();
        tracer.start(`own ${message as string}`, { kind: 'internal', attributes: {} }).end();
        if (message === 'b') throw new RangeError('no');
        socket.send(message);
      })
      .onError((socket) => socket.send('failed'));
    app.includeRouter(rooms, '/v1');
    for (const listen of [false, true]) {
      tracer.spans.length = 0;
      const client = clientOf(t, app, { listen });
      const socket = await client.websocket('/v1/chat/tea');
      for (const [text, reply] of [
        ['a', 'a'],
        ['b', 'failed'],
      ] as const) {
        socket.send(text);
        assert.equal(await socket.receive(), reply);
      }
      const [request] = tracer.spans;
      assert.equal(request!.isEnded, false);
      socket.close();
      await socket.closed;
      while (!request!.isEnded) await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(tracer.tree(), [
        'GET /v1/chat/{room}',
        '  message /v1/chat/{room}',
        '    own a',
        '  message /v1/chat/{room}',
        '    own b',
      ]);
      tracer.assertEnded();
      const [, first, , second] = tracer.spans;
      assert.equal(request!.attributes['http.response.status_code'], 101);
      assert.deepEqual([first!.kind, first!.errors.length], ['consumer', 0]);
      assert.equal(second!.attributes['error.type'], 'RangeError');
    }
  });

  test('the span of a refused handshake ends with its response', async (t) => {
    const tracer = new FakeTracer();
    const { app } = make({ tracer });
    app.websocket('/chat', { user: Depends(BearerAuth(SECRET)) }).onMessage(() => undefined);
    assert.equal((await refusal(clientOf(t, app), '/chat')).status, 401);
    tracer.assertEnded();
    assert.equal(tracer.span('GET /chat').attributes['http.response.status_code'], 401);
  });
});
