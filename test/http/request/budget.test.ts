/**
 * The budget of received bytes that are held: by itself, and with all kinds of bodies and all ends of requests.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { constants, deflateRawSync, gzipSync } from 'node:zlib';
import { HTTPException, Schema, Svc, Field, str } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { ByteBudget, usualBudgetBytes } from '../../../src/http/request/budget.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient, requestOf } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import { frame } from '../../support/ws-frames.ts';
import { messagesOf, openRaw, portOf } from '../../support/raw-websocket.ts';
import type { HttpRequest, SvcOptions } from 'svc';
import type { TestRequest } from 'svc/testing';
import type { Holder } from '../../../src/http/request/budget.ts';

const holderOf = (budget: ByteBudget, client = ''): Holder => ({
  budget,
  client,
  heldBytes: 0,
  holderIndex: 0,
});

const sumOf = (holders: readonly Holder[]): number =>
  holders.reduce((sum, { heldBytes }) => sum + heldBytes, 0);

test('ByteBudget refuses bytes beyond it, and more than half of it for one client, and changes nothing then', () => {
  const budget = new ByteBudget(100);
  const [a, b, c] = ['a', 'a', 'c'].map((client) => holderOf(budget, client)) as [Holder, Holder, Holder];
  assert.ok(budget.hold(a, 40));
  assert.ok(!budget.hold(b, 11)); // the client a holds 40
  assert.equal(b.heldBytes, 0);
  assert.ok(budget.hold(b, 10));
  assert.ok(budget.hold(c, 50));
  assert.equal(budget.heldBytes, 100);
  const d = holderOf(budget, 'd');
  assert.ok(!budget.hold(d, 1));
  assert.ok(budget.hold(c, 40)); // a holder may hold less at any time
  assert.ok(budget.hold(d, 10));
  for (const holder of [a, b, c, d]) budget.release(holder);
  assert.equal(budget.heldBytes, 0);
  assert.equal(a.budget, undefined);
});

test('ByteBudget always has room for a single holder: of its client beyond the share, of all beyond the budget', () => {
  const budget = new ByteBudget(100);
  const [a, other, b] = ['a', 'a', 'b'].map((client) => holderOf(budget, client)) as [Holder, Holder, Holder];
  assert.ok(budget.hold(a, 60) && budget.hold(a, 500));
  assert.ok(!budget.hold(other, 1) && !budget.hold(b, 1));
  budget.release(a);
  assert.ok(budget.hold(b, 10) && budget.hold(other, 90));
  assert.ok(!budget.hold(other, 91));
});

test('ByteBudget counts many small holders of a client like one large one, also when they come and go', () => {
  const budget = new ByteBudget(1_000_000);
  const held: Holder[] = [];
  for (let round = 0; round < 3; round++) {
    let refused = 0;
    for (let index = 0; index < 100_000; index++) {
      const holder = holderOf(budget, 'many');
      if (budget.hold(holder, 10)) held.push(holder);
      else refused++;
    }
    assert.deepEqual([held.length, refused, budget.heldBytes], [50_000, 50_000, 500_000]);
    const other = holderOf(budget, `other ${round}`);
    assert.ok(budget.hold(other, 400_000));
    budget.release(other);
    for (const holder of held.splice(0)) budget.release(holder);
    assert.equal(budget.heldBytes, 0);
  }
});

test('ByteBudget decides like a plain count of all holders, whatever the order in which they begin and end', () => {
  const random = seeded(20_261_129);
  const budget = new ByteBudget(1_000);
  const holders = Array.from({ length: 12 }, (_, index) => holderOf(budget, `client ${index % 4}`));
  let refused = 0;
  for (let step = 0; step < 20_000; step++) {
    const holder = holders[random(holders.length)]!;
    const bytes = random(3) === 0 ? 0 : random(400);
    const others = holders.filter((other) => other !== holder && other.heldBytes > 0);
    const all = sumOf(others) + bytes;
    const ofClient = others.filter(({ client }) => client === holder.client);
    const isOver = all > 1_000 && others.length > 0;
    const isOverShare = all > 500 && sumOf(ofClient) + bytes > 500 && ofClient.length > 0;
    const isAllowed = bytes <= holder.heldBytes || !(isOver || isOverShare);
    assert.equal(budget.hold(holder, bytes), isAllowed, `step ${step}`);
    assert.equal(budget.heldBytes, sumOf(holders));
    if (!isAllowed) refused++;
  }
  assert.ok(refused > 1_000);
});

test('the default budget has room for at least one body of the default limit', () => {
  assert.ok(usualBudgetBytes() >= 10_000_000);
});

/** The smallest budget. One client may hold 32,768 bytes of it. */
const LEAST = 65_536;
const TEXT = 'x'.repeat(20_000);

class Note extends Schema {
  text = Field(str);
}

/** An application whose handlers wait, after they have read the body, until `release` is called. */
function waiting(options: SvcOptions = {}): {
  app: Svc;
  entered: () => Promise<void>;
  release: () => void;
  held: () => number;
} {
  const { logger } = collectedLog();
  const app = new Svc({ logger, env: 'test', maxHeldBytes: LEAST, decompressBodies: true, ...options });
  let entered = Promise.withResolvers<void>();
  let released = Promise.withResolvers<void>();
  const wait = async (): Promise<string> => {
    entered.resolve();
    await released.promise;
    return 'read';
  };
  const reading = (path: string, read: (req: HttpRequest) => Promise<unknown>): void => {
    app.post(path, async ({ req }) => {
      await read(req);
      return wait();
    });
  };
  reading('/json', (req) => req.json());
  reading('/text', (req) => req.text());
  reading('/body', (req) => req.body());
  reading('/form', (req) => req.form());
  reading('/parts', async (req) => {
    for await (const part of req.parts()) await part.text();
  });
  reading('/stream', async (req) => {
    for await (const chunk of req.stream()) assert.ok(chunk.length > 0);
  });
  app.post('/declared', { body: Note, mcp: true }, wait);
  app.post('/fails', async ({ req }) => {
    await req.body();
    throw new Error('failed');
  });
  app.post('/small', async ({ req }) => (await req.body({ maxBytes: 10 })).length);
  return {
    app,
    entered: async () => {
      await entered.promise;
      entered = Promise.withResolvers();
    },
    release: () => {
      released.resolve();
      released = Promise.withResolvers();
    },
    held: () => app.defaults.budget!.heldBytes,
  };
}

function multipart(text: string, filename?: string): FormData {
  const form = new FormData();
  if (filename === undefined) form.set('text', text);
  else form.set('text', new Blob([text]), filename);
  return form;
}

for (const [what, path, request, expected] of [
  ['JSON', '/json', { json: { text: TEXT } }, 20_011],
  ['a declared body', '/declared', { json: { text: TEXT } }, 20_011],
  ['text', '/text', { body: TEXT }, 20_000],
  ['bytes', '/body', { body: TEXT }, 20_000],
  ['an urlencoded form', '/form', { form: { text: TEXT } }, 20_005],
  ['fields of a multipart form, and their names', '/form', { form: multipart(TEXT) }, 20_004],
  ['files of a multipart form that are in memory', '/form', { form: multipart(TEXT, 'a.txt') }, 20_009],
  ['the text of parts', '/parts', { form: multipart(TEXT) }, 20_000],
  ['an inflated body', '/text', { body: gzipSync(TEXT), headers: { 'content-encoding': 'gzip' } }, 20_000],
] as readonly (readonly [string, string, TestRequest, number])[]) {
  test(`a request holds the bytes of its body until its reply, and another body of the client gets 503 (${what})`, async () => {
    const { app, entered, release, held } = waiting();
    await using client = new TestClient(app);
    const first = client.post(path, request);
    await entered();
    assert.equal(held(), expected);
    const metrics = await (await client.get('/metrics')).text();
    assert.match(metrics, new RegExp(`^svc_buffered_bytes ${expected}$`, 'm'));
    const refused = await client.post(path, request);
    assert.deepEqual(
      [refused.status, refused.headers.get('retry-after'), ((await refused.json()) as { code: string }).code],
      [503, '1', 'body_budget'],
    );
    assert.equal(held(), expected);
    const small = client.post('/text', { body: 'small' });
    await entered();
    assert.equal(held(), expected + 5);
    release();
    assert.deepEqual([(await first).status, (await small).status], [200, 200]);
    assert.equal(held(), 0);
  });
}

test('streams and spooled files do not count', async () => {
  const { app, entered, release, held } = waiting();
  app.post('/spooled', async ({ req }) => {
    const form = await req.form({ memoryBytes: 0 });
    return `${form.file('text')!.size} ${held()}`;
  });
  await using client = new TestClient(app);
  const long = 'x'.repeat(1_000_000);
  const stream = client.post('/stream', { body: long });
  await entered();
  assert.equal(held(), 0);
  release();
  assert.equal((await stream).status, 200);
  const spooled = await client.post('/spooled', { form: multipart(long, 'a.txt') });
  assert.equal(await spooled.text(), '1000000 9'); // the names of field and file
});

test('a body is refused while it arrives, and before it is read if the budget is held', async () => {
  const { app, entered, release, held } = waiting({ trustProxy: 1 });
  await using client = new TestClient(app, { listen: true });
  const from = (ip: string): { headers: Record<string, string> } => ({ headers: { 'x-forwarded-for': ip } });
  const first = client.post('/text', { ...from('192.0.2.1'), body: 'x'.repeat(40_000) });
  await entered();
  const raw = await RawClient.open(Number(new URL(client.baseUrl).port));
  const post = (length: number, ip: string, more = ''): string =>
    `POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\nX-Forwarded-For: ${ip}\r\n${more}\r\n`;
  raw.send(post(30_000, '192.0.2.2', 'Expect: 100-continue\r\n'));
  const early = await raw.answer(); // no 100, because the declared length has no room
  assert.deepEqual([early.status, early.field('retry-after')], [503, '1']);
  raw.socket.destroy();
  const later = await RawClient.open(Number(new URL(client.baseUrl).port));
  later.send(
    `POST /text HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n7530\r\n${'x'.repeat(30_000)}`,
  );
  assert.equal((await later.answer()).status, 503);
  later.socket.destroy();
  const fits = client.post('/text', { ...from('192.0.2.3'), body: TEXT });
  await entered();
  release();
  assert.deepEqual([(await first).status, (await fits).status], [200, 200]);
  assert.equal(held(), 0);
});

test('after every end of a request, no bytes are held', async () => {
  const clock = new ManualClock();
  const { app, entered, release, held } = waiting({ clock, maxBodyBytes: 50_000 });
  const late = Promise.withResolvers<void>();
  app.post('/late', { timeoutMs: 50 }, async ({ req }) => {
    await req.body();
    await late.promise;
  });
  await using client = new TestClient(app, { listen: true, raiseErrors: false });
  assert.equal((await client.post('/fails', { body: TEXT })).status, 500);
  assert.equal((await client.post('/small', { body: TEXT })).status, 413);
  assert.equal(
    (await client.post('/json', { body: TEXT, headers: { 'content-type': 'application/json' } })).status,
    400,
  );
  assert.equal(held(), 0);

  const raw = await RawClient.open(Number(new URL(client.baseUrl).port));
  raw.send(`POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n${TEXT}`);
  while (held() === 0) await turn();
  raw.socket.resetAndDestroy(); // during the body
  while (held() > 0) await turn();

  const gone = await RawClient.open(Number(new URL(client.baseUrl).port));
  gone.send(`POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n${TEXT}`);
  await entered();
  gone.socket.resetAndDestroy(); // while the handler runs
  await once(gone.socket, 'close');
  assert.equal(held(), 20_000);
  release();
  while (held() > 0) await turn();

  const timedOut = client.post('/late', { body: TEXT });
  while (held() === 0) await turn();
  await clock.advance(50);
  assert.equal((await timedOut).status, 503);
  assert.equal(held(), 20_000); // the handler still runs
  late.resolve();
  while (held() > 0) await turn();
});

test('an aborted call in the process holds its body until its handler ends', async () => {
  const { app, entered, release, held } = waiting();
  await using client = new TestClient(app);
  const abort = new AbortController();
  const call = client.post('/text', { body: TEXT, signal: abort.signal });
  await entered();
  abort.abort();
  await assert.rejects(call, { name: 'AbortError' });
  assert.equal(held(), 20_000);
  release();
  while (held() > 0) await turn();
});

test('a body that is first read after the end of its request is not held', async () => {
  const { app, held } = waiting();
  const ended = Promise.withResolvers<void>();
  const read = Promise.withResolvers<number>();
  app.post('/late', ({ req }) => {
    void ended.promise.then(() => req.body()).then((bytes) => read.resolve(bytes.length), read.reject);
    return 'early';
  });
  await using client = new TestClient(app); // a server discards such a body, but a call in the process has it
  assert.equal(await (await client.post('/late', { body: TEXT })).text(), 'early');
  ended.resolve();
  assert.equal(await read.promise, TEXT.length);
  assert.equal(held(), 0);
});

test('bodies count while they are inflated, so that many at once cannot fill the memory', async () => {
  const { app, held } = waiting({ maxHeldBytes: 2_000_000 });
  app.post('/size', async ({ req }) => (await req.body()).length);
  await using client = new TestClient(app);
  const budget = app.defaults.budget!;
  const hold = budget.hold.bind(budget);
  let step = 0;
  budget.hold = (holder, bytes) => {
    step = Math.max(step, bytes - holder.heldBytes);
    return hold(holder, bytes);
  };
  const body = gzipSync('x'.repeat(900_000));
  const calls = Array.from({ length: 10 }, () =>
    client.post('/size', { body, headers: { 'content-encoding': 'gzip' } }),
  );
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  assert.ok(statuses.includes(200) && statuses.includes(503), String(statuses));
  assert.ok(step <= 65_536, `${step} bytes were inflated before they counted`);
  assert.equal(held(), 0);
});

test('a call of an MCP tool over HTTP holds its bytes once', async () => {
  const { app, entered, release, held } = waiting();
  app.mountMcp('/mcp', { sessions: false });
  await using client = new TestClient(app);
  const params = { name: 'post_declared', arguments: { text: TEXT } };
  const call = client.post('/mcp', {
    headers: { accept: 'application/json, text/event-stream' },
    json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
  });
  await entered();
  assert.ok(held() < 1.1 * TEXT.length, String(held()));
  release();
  assert.match(await (await call).text(), /"text":"read"/);
  assert.equal(held(), 0);
});

test('the addresses of one IPv6 network are one client', async () => {
  const { app, entered, release, held } = waiting({ trustProxy: 1 });
  await using client = new TestClient(app);
  const post = (ip: string): Promise<Response> =>
    client.post('/text', { headers: { 'x-forwarded-for': ip }, body: TEXT });
  const first = post('2001:db8::1');
  await entered();
  assert.equal((await post('2001:db8:0:0:ffff::2')).status, 503);
  const other = post('2001:db8:0:1::1');
  await entered();
  assert.equal(held(), 2 * TEXT.length);
  release();
  assert.deepEqual([(await first).status, (await other).status], [200, 200]);
});

test('an exception handler can answer the refusal of a body, and no failure is logged', async () => {
  const { events, logger } = collectedLog();
  const { app, entered, release } = waiting({ logger });
  app.exceptionHandler(HTTPException, (error) => [`try ${error.code!}`, error.status]);
  await using client = new TestClient(app);
  const first = client.post('/text', { body: TEXT });
  await entered();
  const refused = await client.post('/text', { body: TEXT });
  assert.deepEqual([refused.status, await refused.text()], [503, 'try body_budget']);
  release();
  await first;
  assert.ok(!JSON.stringify(events).includes('unhandled_error'));
});

test('a WebSocket holds the messages that are incomplete, wait or are being handled, and closes with 1013 beyond the budget', async (t) => {
  const { app, held } = waiting();
  const handled = Promise.withResolvers<void>();
  app.websocket('/slow').onMessage(() => handled.promise);
  app.websocket('/each', async (socket) => {
    for await (const message of socket) {
      assert.ok(message);
      await handled.promise;
    }
  });
  const port = await portOf(t, app);
  const slow = await openRaw(t, port, '/slow');
  const text = 'x'.repeat(10_000);
  const long = frame({ payload: text });
  slow.send(long.subarray(0, 5_000));
  while (held() === 0) await turn();
  assert.ok(held() > 4_900 && held() <= 5_000, String(held()));
  slow.send(long.subarray(5_000)); // the handler of the message runs until the end of the test
  while (held() <= 2 * text.length) await turn();
  const before = held();

  const other = await openRaw(t, port, '/each');
  other.send(frame({ payload: 'short' }));
  while (held() === before) await turn();
  other.send(frame({ payload: TEXT }).subarray(0, 15_000)); // beyond the share of the client
  assert.deepEqual(messagesOf(await other.ended()), ['CLOSE 1013 the server holds too many messages']);
  handled.resolve();
  while (held() > 0) await turn();

  slow.send(long.subarray(0, 5_000));
  while (held() === 0) await turn();
  slow.socket.resetAndDestroy();
  while (held() > 0) await turn();
});

test('a WebSocket holds a message that is inflated later, while its handler runs', async (t) => {
  const { app, held } = waiting({ maxHeldBytes: 20_000_000 });
  const handled = Promise.withResolvers<void>();
  app.websocket('/slow', { compression: true, maxMessageBytes: 2_000_000 }).onMessage(() => handled.promise);
  const raw = await openRaw(t, await portOf(t, app), '/slow', 'permessage-deflate');
  const long = deflateRawSync('x'.repeat(1_500_000), { finishFlush: constants.Z_SYNC_FLUSH });
  raw.send(frame({ rsv: 4, payload: long.subarray(0, -4) })); // a thread inflates such a long message
  while (held() < 1_500_000) await turn();
  handled.resolve();
  while (held() > 0) await turn();
});

/** Ways to read a body, and what a handler does besides. */
const READERS: Readonly<Record<string, (req: HttpRequest) => Promise<unknown>>> = {
  json: (req) => req.json(),
  text: (req) => Promise.all([req.text(), req.body()]),
  small: (req) => req.body({ maxBytes: 100 }),
  form: (req) => req.form(),
  spooled: (req) => req.form({ memoryBytes: 0 }),
  leading: async (req) => [await req.leadingFields(), await req.form()],
  part: async (req) => {
    for await (const part of req.parts()) return part.text();
    return undefined;
  },
  stream: async (req) => {
    for await (const chunk of req.stream()) if (chunk.length > 9_999) break;
  },
  nothing: () => Promise.resolve(),
};
const ENDINGS = [
  'reply',
  'fail',
  'wait',
  'wait first',
  'stream',
  'leave reading',
  'read afterwards',
] as const;
const LAYERS = ['', '', '', 'throw', 'throw afterwards', 'answer early', 'read'];

/** An application with a route for each reader and ending. Handlers that wait continue at `open()`. */
function randomSite(clock: ManualClock): { app: Svc; open: () => void } {
  const { logger } = collectedLog();
  const app = new Svc({
    clock,
    logger,
    env: 'test',
    maxHeldBytes: LEAST,
    maxBodyBytes: 50_000,
    decompressBodies: true,
    trustProxy: 1,
  });
  let gate = Promise.withResolvers<void>();
  app.use(async (req, next) => {
    const layer = req.headers['x-layer'];
    if (layer === 'throw') throw new Error('layer');
    if (layer === 'read') await req.body();
    if (layer === 'answer early') return Promise.race([next(), turn().then(() => ['early'] as never)]);
    const response = await next();
    if (layer === 'throw afterwards') throw new Error('layer');
    return response;
  });
  for (const [name, read] of Object.entries(READERS))
    ENDINGS.forEach((ending, index) => {
      app.post(`/${name}/${index}`, { timeoutMs: 50 }, async ({ req }) => {
        if (ending === 'wait first') await gate.promise;
        const reading = (ending === 'read afterwards' ? gate.promise : turn()).then(() => read(req));
        if (ending === 'read afterwards' || ending === 'leave reading') {
          reading.catch(() => undefined);
          return 'early';
        }
        await reading;
        if (ending === 'fail') throw new Error('failed');
        if (ending === 'wait') await gate.promise;
        return ending === 'stream' ? streamUntil(gate.promise) : 'read';
      });
    });
  app.mount(
    '/mounted',
    async (request) => new Response(request.url.endsWith('0') ? '' : await request.text()),
  );
  app.websocket('/socket', { compression: true }).onMessage(async (socket, message) => {
    await gate.promise;
    if (String(message).length < 10) socket.close();
  });
  return {
    app,
    open: () => {
      gate.resolve();
      gate = Promise.withResolvers();
    },
  };
}

async function* streamUntil(end: Promise<void>): AsyncGenerator<string, void, undefined> {
  yield 'begun';
  await end;
}

/** Returns a random request of a reader and an ending: its path, its fields, and its body. */
function randomRequest(random: (below: number) => number): {
  path: string;
  fields: Record<string, string>;
  bytes: Buffer;
} {
  const text = 'x'.repeat([10, 20_000, 30_000, 60_000][random(4)]!);
  const [bytes, fields] = (
    [
      [JSON.stringify({ text }), { 'content-type': 'application/json' }],
      [`{"text":${text}`, { 'content-type': 'application/json' }],
      [`a=${text}`, { 'content-type': 'application/x-www-form-urlencoded' }],
      [gzipSync(text), { 'content-encoding': 'gzip' }],
      [
        `--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n${text}\r\n--b\r\nContent-Disposition: form-data; name="b"; filename="b"\r\n\r\n${text}\r\n--b--`,
        { 'content-type': 'multipart/form-data; boundary=b' },
      ],
    ] as const
  )[random(5)]!;
  const readers = Object.keys(READERS);
  const reader = random(9) === 0 ? 'mounted' : readers[random(readers.length)]!;
  return {
    path: `/${reader}/${random(ENDINGS.length)}`,
    fields: {
      ...fields,
      'x-layer': LAYERS[random(LAYERS.length)]!,
      'x-forwarded-for': `192.0.2.${random(3)}`,
    },
    bytes: Buffer.from(bytes as string),
  };
}

for (let seed = 1; seed <= 8; seed++) {
  test(`after random requests, WebSockets and calls with random ends, no bytes are held (${seed})`, async (t) => {
    const random = seeded(seed);
    const clock = new ManualClock();
    const { app, open } = randomSite(clock);
    const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
    const { port } = server;
    const held = (): number => app.defaults.budget!.heldBytes;
    const calls: Promise<unknown>[] = [];
    const clients: RawClient[] = [];
    const leave = ({ socket }: RawClient): unknown =>
      [() => socket.resetAndDestroy(), () => socket.end(), () => socket][random(3)]!();
    const turns = async (most: number): Promise<void> => {
      for (let left = random(most); left > 0; left--) await turn();
    };
    const acts = [
      async () => {
        const raw = await RawClient.open(port);
        clients.push(raw);
        for (let left = random(3); left >= 0; left--) {
          const { path, fields, bytes } = randomRequest(random);
          const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
          if (random(6) === 0) lines.push('Expect: 100-continue\r\n');
          const whole = requestOf(
            `POST ${path}`,
            lines.join(''),
            bytes,
            random(2) === 0 ? random : undefined,
          );
          const cut = random(2) === 0 ? whole.length : random(whole.length);
          raw.send(whole.subarray(0, cut));
          await turns(6);
          if (random(2) === 0) raw.send(whole.subarray(cut));
          else if (cut < whole.length) break;
        }
        await turns(6);
        leave(raw);
      },
      async () => {
        const raw = await openRaw(t, port, '/socket', 'permessage-deflate');
        clients.push(raw);
        for (let left = random(4); left >= 0; left--) {
          const payload = 'x'.repeat([5, 10_000, 30_000][random(3)]!);
          const deflated = deflateRawSync(payload, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4);
          const sent = random(2) === 0 ? frame({ rsv: 4, payload: deflated }) : frame({ payload });
          raw.send(random(3) === 0 ? sent.subarray(0, random(sent.length)) : sent);
          await turns(3);
        }
        leave(raw);
      },
      async () => {
        const { path, fields, bytes } = randomRequest(random);
        const abort = new AbortController();
        const init = { method: 'POST', headers: fields, body: new Uint8Array(bytes), signal: abort.signal };
        const call = app.fetch(new Request(`http://a.example${path}`, init));
        calls.push(call.then((response) => response.text()).catch(() => undefined));
        await turns(6);
        if (random(2) === 0) abort.abort();
      },
      open,
      () => clock.advance(50),
      () => clients.at(-1 - random(3))?.socket.destroy(),
    ];
    for (let step = 0; step < 40; step++) await acts[random(9) % acts.length]!();
    for (const { socket } of clients) socket.destroy();
    let isOver = false;
    void Promise.all([...calls, server.close()]).then(() => (isOver = true));
    while (!isOver || held() > 0) {
      open();
      await clock.advance(10);
      await turn();
    }
  });
}
