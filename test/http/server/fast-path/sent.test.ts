import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { channel } from 'node:diagnostics_channel';
import { ServerResponse } from 'node:http';
import { PerformanceObserver } from 'node:perf_hooks';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { Depends, HttpResponse, StreamingResponse, Svc, reply } from 'svc';
import { Prepared } from '../../../../src/http/response.ts';
import { MESSAGES, USES_INTERNALS } from '../../../../src/http/server/fast-path/internals.ts';
import type { SentMessage } from '../../../../src/http/server/fast-path/internals.ts';
import { ROOT } from '../../../support/build.ts';
import { collectedLog } from '../../../support/collected-log.ts';
import { serverOf } from '../../../support/listening.ts';
import { seeded } from '../../../support/random.ts';
import { RawClient } from '../../../support/raw-http.ts';
import { turn } from '../../../support/turn.ts';
import { serve } from '../../../support/serve.ts';

/**
 * Reason to skip tests of responses that are written directly to the socket; false if this process writes
 * such.
 */
const skip = USES_INTERNALS ? false : 'SVC_NODE_INTERNALS=off';

for (const [what, body, bytes] of [
  ['text in ASCII', 'plain', 'plain'],
  ['text in Latin-1', 'café', 'café'],
  ['other text', '☕ and 🍵', '☕ and 🍵'],
  ['a lone surrogate', 'a\ud800b', 'a\ufffdb'],
  ['bytes', Buffer.from('☕'), '☕'],
  ['control characters', '\0\x7f\r\n\r\n', '\0\x7f\r\n\r\n'],
] as const) {
  test(`HttpServer sends text as UTF-8 and bytes unchanged, and Content-Length is the number of bytes: ${what}`, async () => {
    await using it = await serve((app) =>
      app.get('/', () => body).get('/fields', () => reply(body, 201, { 'X-Other': 'one' })),
    );
    for (const path of ['/', '/fields', '/']) {
      const answer = await it.client.get(path).answer();
      assert.equal(answer.text(), bytes);
      assert.equal(answer.field('content-length'), String(Buffer.byteLength(bytes)));
      assert.equal(answer.field('transfer-encoding'), undefined);
      assert.equal(answer.field('x-other'), path === '/fields' ? 'one' : undefined);
      assert.match(answer.field('x-request-id') ?? '', /^[\da-f]{32}$/);
    }
  });
}

test('HttpServer encodes Content-Disposition in the same way as other header fields, although node:http does not', async () => {
  const fields = { 'Content-Disposition': 'inline; filename="caf\xe9"', 'X-Other': 'caf\xe9' };
  await using it = await serve((app) => app.get('/', () => reply('text', 200, fields)));
  const answer = await it.client.get('/').answer();
  assert.equal(answer.field('content-disposition'), `inline; filename="${answer.field('x-other')!}"`);
  assert.equal(answer.text(), 'text');
});

for (const [what, body] of [
  ['text in ASCII', 'plain'],
  ['other text', 'café ☕'],
  ['JSON', { a: 'é' }],
  ['bytes', Buffer.from('é')],
  ['nothing', null],
  ['a long text', 'é'.repeat(100_000)],
  ['a text stream', new StreamingResponse(['é', 'b'], { headers: {} })],
  ['a text stream of known length', new StreamingResponse(['é', 'b'], { contentLength: 3 })],
] as const) {
  test(`HttpServer sends header fields as Latin-1, one byte per character, whatever the body is (${what})`, async () => {
    await using it = await serve((app) => {
      app.use(async (_req, next) => {
        const response = await next();
        response.headers.set('X-Name', 'caf\xe9');
        return response;
      });
      app.get('/', () => body);
    });
    for (const version of ['1.1', '1.0']) {
      const answer = await it.client
        .send(`GET / HTTP/${version}\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n`)
        .answer();
      assert.equal(answer.field('x-name'), 'caf\xe9', version);
      assert.ok(answer.isWhole);
      if (typeof body === 'string') assert.ok(answer.text() === body);
    }
  });
}

test('if node:http refuses header fields, HttpServer answers 500 on the same connection, and the connection stays usable', async () => {
  await using it = await serve((app) =>
    app
      .get('/', () => {
        const response = new HttpResponse('text');
        response.headers.flat.push('X-Broken', 'a\nb');
        return response;
      })
      .get('/good', () => 'good'),
  );
  const answer = await it.client.get('/').answer();
  assert.equal(answer.status, 500);
  assert.equal(answer.field('x-broken'), undefined);
  assert.equal(answer.field('content-length'), '0');
  assert.equal((await it.client.get('/good').answer()).text(), 'good');
  assert.deepEqual(
    it.events.filter(({ level }) => level === 'error').map(({ event }) => event),
    ['response_refused'],
  );
});

test('HttpServer calls writeHead() of ServerResponse, so tools that patch writeHead() see the status', async (context) => {
  const { writeHead } = ServerResponse.prototype;
  const seen: number[] = [];
  ServerResponse.prototype.writeHead = function (this: ServerResponse, ...args: never[]) {
    seen.push(args[0]!);
    return Reflect.apply(writeHead, this, args) as ServerResponse;
  } as typeof writeHead;
  context.after(() => {
    ServerResponse.prototype.writeHead = writeHead;
  });
  await using it = await serve((app) => app.get('/', () => reply({ ok: true }, 202)));
  assert.equal((await it.client.get('/').answer()).status, 202);
  assert.deepEqual(seen, [202]);
});
test('HttpServer emits the events of a response through ServerResponse.emit(), also after a tool has patched emit()', async (context) => {
  const { prototype } = ServerResponse;
  const { emit } = prototype;
  const seen: unknown[] = [];
  prototype.emit = function (this: ServerResponse, ...args: never[]) {
    seen.push(args[0]);
    return Reflect.apply(emit, this, args) as boolean;
  } as typeof emit;
  context.after(() => {
    Reflect.deleteProperty(prototype, 'emit');
  });
  await using it = await serve((app) => app.get('/', () => 'ok'));
  assert.equal((await it.client.get('/').answer()).status, 200);
  assert.ok(seen.includes('finish'), String(seen));
});

// ── responses written directly to the socket ──

/** Imitates a tool that patches node:http, so that no response is written directly to the socket. */
function watchMessages(): Disposable {
  const messages = channel('http.server.request.start');
  const ignore = (): void => undefined;
  messages.subscribe(ignore);
  return { [Symbol.dispose]: () => messages.unsubscribe(ignore) };
}

/** Counts responses that are written directly to the socket. */
function countTexts(): { count: number } & Disposable {
  const { prototype } = MESSAGES.ServerResponse;
  const { writeText } = prototype;
  const texts = {
    count: 0,
    [Symbol.dispose]() {
      prototype.writeText = writeText;
    },
  };
  prototype.writeText = function (this: SentMessage, ...args: Parameters<typeof writeText>) {
    texts.count++;
    writeText.apply(this, args);
  };
  return texts;
}

test(
  'for generated responses, SentMessage writes the same bytes directly to the socket as through node:http',
  { skip },
  async () => {
    const random = seeded(9112);
    const of = <T>(...values: readonly T[]): T => values[random(values.length)]!;
    const bodies = [
      'plain',
      '',
      'café',
      '☕ and 🍵',
      'a\ud800b',
      '\0\r\n\r\n',
      'x'.repeat(131_072),
      'é'.repeat(65_536),
      Buffer.from('bytes'),
      null,
    ];
    const fields: readonly (readonly [string, string])[] = [
      ['Content-Type', 'text/plain'],
      ['X-Other', ''],
      ['x-Other', 'a  b\t"c"'],
      ['X-Latin', 'caf\xe9'],
      ['Vary', 'Origin'],
      ['ETag', '"a"'],
      ['X-Request-Id', 'mine'],
      ['x-requEst-id', 'mine'],
      ['X-Requested-I', 'd'],
      ['Date', 'once'],
      ['date', 'once'],
      ['Keep-Alive', 'timeout=1'],
      ['Content-Disposition', 'inline; filename="caf\xe9"'],
      ['content-disposition', 'inline'],
      ['Expect', 'nothing'],
      ['Upgrade', 'h2c'],
      ['Trailer', 'X-Sum'],
      ['Cookies', 'a=b'],
    ];
    let response = new HttpResponse();
    await using it = await serve((app) =>
      app
        .get('/', () => response)
        .post('/', () => response)
        .get('/end', () => 'end'),
    );
    using texts = countTexts();
    for (let round = 0; round < 1_500; round++) {
      const given = Array.from({ length: random(4) }, () => of(...fields.slice(0, of(7, fields.length))));
      const [body, status, isPrepared, cookie] = [
        of(...bodies),
        of(200, 200, 201, 299, 404, 418, 426, 500, 599),
        random(3) === 0,
        random(5) === 0,
      ];
      const broken =
        random(12) === 0
          ? of(
              ['X-Broken', 'a\nb'],
              ['X Broken', 'a'],
              ['X-Broken', '\u0100'],
              ['', 'a'],
              ['X-Broken', undefined as never],
            )
          : [];
      const request = of(
        ...Array<string>(6).fill('GET / HTTP/1.1\r\n'),
        'HEAD / HTTP/1.1\r\n',
        'GET / HTTP/1.0\r\nConnection: keep-alive\r\n',
        'GET / HTTP/1.0\r\n',
        'GET / HTTP/1.1\r\nConnection: close\r\n',
        'POST / HTTP/1.1\r\nContent-Length: 3\r\n',
        'POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n',
      );
      const sent = `${request}Host: a\r\nX-Request-Id: theirs\r\n\r\n${request.startsWith('POST') ? 'abc' : ''}GET /end HTTP/1.1\r\nHost: a\r\nX-Request-Id: end\r\nConnection: close\r\n\r\n`;
      const answered = async (): Promise<string> => {
        response = new HttpResponse(
          body,
          isPrepared ? new Prepared(status, ['Content-Type', 'a/b']) : { status },
        );
        for (const [name, value] of given) response.headers.append(name, value);
        if (cookie) response.setCookie('a', 'b');
        if (broken.length > 0) response.headers.flat.push(...broken);
        await using client = await RawClient.open(it.port);
        return (await client.send(sent).ended())
          .toString('latin1')
          .replace(/^Date: .* GMT\r$/gm, 'Date: now\r');
      };
      const short = await answered();
      using _watching = watchMessages();
      assert.equal(
        short,
        await answered(),
        JSON.stringify({ given, status, isPrepared, cookie, broken, request }),
      );
    }
    assert.ok(texts.count > 250, `${texts.count}`);
  },
);

test(
  'a response written directly to the socket emits the same events and channel messages as a response written through node:http',
  { skip },
  async () => {
    const seen: Record<string, unknown[]> = {};
    await using it = await serve((app) =>
      app.get('/', ({ req }) => {
        req.signal.addEventListener('abort', () => (seen['aborted'] = []));
        return 'ok';
      }),
    );
    const { prototype } = MESSAGES.ServerResponse;
    const { writeText } = prototype;
    using _own = {
      [Symbol.dispose]() {
        prototype.writeText = writeText;
      },
    };
    prototype.writeText = function (this: SentMessage, ...args: Parameters<typeof writeText>) {
      const note = (event: string): void => {
        seen[event] = [
          this.headersSent,
          this.writableEnded,
          this.writableFinished,
          this.statusCode,
          this.statusMessage,
          this.socket === null,
        ];
      };
      for (const event of ['prefinish', 'finish', 'close']) this.on(event, () => note(event));
      note('before');
      writeText.apply(this, args);
      note('after');
    };
    assert.equal((await it.client.get('/').answer()).text(), 'ok');
    assert.equal((await it.client.get('/').answer()).text(), 'ok');
    assert.deepEqual(seen, {
      before: [false, false, false, 200, undefined, false],
      prefinish: [true, true, false, 200, 'OK', false],
      after: [true, true, false, 200, 'OK', false],
      finish: [true, true, true, 200, 'OK', true],
      close: [true, true, true, 200, 'OK', true],
    });
  },
);

for (const isTaken of [true, false]) {
  test(
    `if a response is written directly to the socket, its request ends when the socket has sent or lost the response (${isTaken ? 'sent' : 'lost'})`,
    { skip },
    async () => {
      const { logger } = collectedLog();
      const outcomes: unknown[] = [];
      const app = new Svc({ logger }).get(
        '/',
        {
          held: Depends(async function* () {
            try {
              yield 1;
            } catch (error) {
              outcomes.push((error as Error).name);
            }
            outcomes.push('over');
          }),
        },
        () => 'ok',
      );
      const close: (() => Promise<unknown>)[] = [];
      const server = await serverOf(async () =>
        close.push((await app.run({ port: 0, handleSignals: false, drainSeconds: 1 })).close),
      );
      using texts = countTexts();
      let take: (() => void) | undefined;
      const socket = new Duplex({
        read: () => undefined,
        write: (_chunk, _encoding, done: () => void) => {
          take = done;
        },
      });
      server.emit(
        'connection',
        Object.assign(socket, {
          setTimeout: () => socket,
          setNoDelay: () => socket,
          remoteAddress: '127.0.0.1',
        }),
      );
      socket.resume();
      const waiting = (): number => Number(/^svc_requests_in_flight (\d+)$/m.exec(app.metrics.render())?.[1]);
      socket.push('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      for (let turns = 0; turns < 20; turns++) await turn();
      assert.deepEqual([texts.count, waiting(), outcomes], [1, 1, []]);
      if (isTaken) take!();
      else socket.destroy();
      while (waiting() > 0) await turn();
      assert.deepEqual(outcomes, isTaken ? ['over'] : ['ClientDisconnected', 'over']);
      socket.destroy();
      await close[0]!();
    },
  );
}

test(
  'a header field set by a subscriber of http.server.request.start is sent, even if the subscriber has unsubscribed since then',
  { skip },
  async () => {
    const messages = channel('http.server.request.start');
    const once = (message: unknown): void => {
      (message as { response: ServerResponse }).response.setHeader('X-Tool', 'once');
      messages.unsubscribe(once);
    };
    await using it = await serve((app) =>
      app.get('/', async () => {
        await turn();
        return 'ok';
      }),
    );
    messages.subscribe(once);
    using texts = countTexts();
    assert.equal((await it.client.get('/').answer()).field('x-tool'), 'once');
    assert.equal((await it.client.get('/').answer()).field('x-tool'), undefined);
    assert.equal(texts.count, 1);
  },
);

test('HttpServer calls functions of ServerResponse that a tool has patched before svc was loaded', async () => {
  const program = `import { createRequire } from 'node:module';
    const { ServerResponse } = createRequire(import.meta.url)('node:http');
    const { writeHead } = ServerResponse.prototype;
    ServerResponse.prototype.writeHead = function (...args) { this.setHeader('X-Tool', 'yes'); return writeHead.apply(this, args); };
    const { Svc } = await import('svc');
    const { port, close } = await new Svc({ logger: undefined }).get('/', () => 'ok').run({ port: 0, handleSignals: false });
    console.error(String((await fetch('http://127.0.0.1:' + port)).headers.get('x-tool')));
    await close();`;
  const { stderr } = spawnSync(
    process.execPath,
    ['--conditions=svc-source', '--input-type=module', '-e', program],
    { cwd: ROOT, encoding: 'utf8' },
  );
  assert.match(stderr, /^yes\n/m);
});

test(
  'a response that is written directly to the socket still appears in the measurements of node:perf_hooks',
  { skip },
  async () => {
    const measured = Promise.withResolvers<string>();
    const observer = new PerformanceObserver((list) =>
      measured.resolve(
        list
          .getEntries()
          .map(({ name }) => name)
          .join(),
      ),
    );
    observer.observe({ entryTypes: ['http'] });
    using _end = { [Symbol.dispose]: () => observer.disconnect() };
    await using it = await serve((app) => app.get('/', () => 'ok'));
    using texts = countTexts();
    assert.equal((await it.client.get('/').answer()).text(), 'ok');
    assert.match(await measured.promise, /HttpRequest/);
    assert.equal(texts.count, 1);
  },
);
