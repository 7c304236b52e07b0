/**
 * 200,000 requests of forty kinds, valid and invalid, against a server in its own process over real sockets.
 * Afterwards nothing may be left open.
 *
 *   node --conditions=svc-source test/soak/mixed.ts
 *
 *   SOAK_SECONDS    ends after so long, whatever is left to send; default 60
 *   SOAK_SEED       repeats what each connection sends; default from the time, and printed
 *
 * Asserted: each complete request has the answer of its kind, each 4xx and 5xx is a problem, no 5xx but the
 * planned ones, every dependency that was entered is left, every background task of a handler that succeeded
 * has run, the heap is flat, and at the end no socket, request or handle is left and SIGTERM ends the process
 * with 0.
 *
 * The heap: measured after gc sixteen times, when nothing is in flight; the least of the last quarter against
 * the least of the second. Half of all requests lie between the two, so that 1 MiB, the slack, is some 10
 * bytes for each of them: less than the smallest object that could be left behind. The server keeps its
 * bytecode: V8 lets go of 5 MiB of it at a moment of its own, which would hide as much.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  BackgroundTasks,
  BadRequest,
  Depends,
  Field,
  HTTPException,
  NotFound,
  Schema,
  StreamingResponse,
  Svc,
  bool,
  float,
  int,
  list,
  provide,
  str,
} from 'svc';
import { seeded } from '../support/random.ts';
import { RawClient, requestOf } from '../support/raw-http.ts';
import { held, mib, resources, SECONDS, SEED, serving, soak, SoakServer } from '../support/soak.ts';
import type { ChildProcess } from 'node:child_process';
import type { Held } from '../support/soak.ts';
import type { RawAnswer } from '../support/raw-http.ts';

const TOTAL = 200_000;
const CONNECTIONS = 48;
const STEPS = 16;
const SLACK_BYTES = 1_048_576;
/** Milliseconds that a complete request may wait for its response. */
const ANSWER_MS = 10_000;
const MOST_FAILURES = 20;

// ── the server ──

const COUNTS = {
  ...{ entered: 0, left: 0, streamsBegun: 0, streamsEnded: 0 },
  ...{ tasksAdded: 0, tasksRun: 0, wrongTasks: 0 },
};
type Inside = Held & Readonly<typeof COUNTS> & { readonly resources: ReturnType<typeof resources> };

const BLOCK = Buffer.alloc(4_096, 'b');
const BLOCKS = 256;

class Size extends Schema {
  width = Field(float, { ge: 0 });
  height = Field(float, { ge: 0 });
}
class Item extends Schema {
  name = Field(str, { minLength: 1, maxLength: 40 });
  price = Field(float, { ge: 0 });
  isNew = Field(bool, { default: true });
  tags = Field(list(str), { default: () => [], maxLength: 10 });
  size = Field(Size, { optional: true });
}
class Saved extends Schema {
  id = Field(int);
  name = Field(str);
}
class Teapot extends Error {}

async function serve(): Promise<void> {
  const counts = { ...COUNTS };
  function* enter(): Generator<number> {
    counts.entered++;
    try {
      yield counts.entered;
    } finally {
      counts.left++;
    }
  }
  async function* connect(): AsyncGenerator<number> {
    counts.entered++;
    await sleep(0);
    try {
      yield counts.entered;
    } finally {
      await sleep(0);
      counts.left++;
    }
  }
  const [unit, connection, tasks] = [Depends(enter), Depends(connect), Depends(BackgroundTasks)];
  const size = Field(int, { default: 20, ge: 1, le: 100 });
  const paging = provide({ query: { page: Field(1, { ge: 1 }), size }, unit }, ({ query }) => ({
    offset: (query.page - 1) * query.size,
    limit: query.size,
  }));
  async function* chunks<T extends string | Buffer>(
    count: number,
    chunk: (n: number) => T,
  ): AsyncGenerator<T> {
    counts.streamsBegun++;
    try {
      for (let n = 0; n < count; n++) {
        if (n % 16 === 15) await sleep(0);
        yield chunk(n);
      }
    } finally {
      counts.streamsEnded++;
    }
  }
  let lastId = 0;
  const app = new Svc({ title: 'Soak' });
  app.use(async (_req, next) => {
    const response = await next();
    response.headers.set('X-Soak', '1');
    return response;
  });
  app.exceptionHandler(Teapot, () => ['short and stout', 418]);
  app.get('/', () => 'hello');
  app.get('/items/{id:int}', { unit }, ({ params }) => {
    if (params.id > 1_000) throw new NotFound('There is no such item');
    return { id: params.id, name: `item ${params.id}` };
  });
  const again = Depends(enter, { cache: false });
  const needs = { unit, connection, again, tasks };
  app.post('/items', { body: Item, ...needs, response: Saved, status: 201 }, ({ body, tasks: later }) => {
    counts.tasksAdded++;
    later.add(async () => {
      await sleep(0);
      counts.tasksRun++;
    });
    return { id: ++lastId, name: body.name };
  });
  const search = { q: Field(str, { maxLength: 20 }) };
  app.get('/search', { query: search, page: Depends(paging) }, ({ query: { q }, page }) => ({ q, ...page }));
  const short = Depends(connect, { scope: 'handler' });
  app.post('/form', { form: Item, short }, ({ form: { name, price } }) => ({ name, price }));
  app.post('/json', async ({ req }) => ({ got: await req.json({ maxBytes: 100_000 }) }));
  app.post('/bytes', { unit }, async ({ req }) => ({
    length: (await req.body({ maxBytes: 200_000 })).length,
  }));
  app.post('/chunks', { connection }, async ({ req }) => {
    let length = 0;
    for await (const chunk of req.stream({ maxBytes: 200_000 })) length += chunk.length;
    return { length };
  });
  app.get('/stream/{n:int}', { connection }, ({ params: { n: count } }) => {
    return new StreamingResponse(chunks(count, (n) => `line ${n}\n`));
  });
  app.get('/big', { unit }, () => {
    return new StreamingResponse(
      chunks(BLOCKS, () => BLOCK),
      { contentLength: BLOCKS * BLOCK.length },
    );
  });
  app.get('/slow/{ms:int}', { unit, connection }, async ({ params, signal }) => {
    await sleep(params.ms, undefined, params.ms % 2 === 0 ? { signal } : {});
    return 'at last';
  });
  const fail = (error: Error) => (): never => {
    throw error;
  };
  app.get('/teapot', { unit }, () => fail(new Teapot())());
  app.get('/boom', { connection }, () => fail(new Error('planned'))());
  app.get('/down', async () => fail(new HTTPException(503, 'planned'))());
  app.post('/fails', { unit, tasks }, ({ tasks: later }) => {
    later.add(() => void counts.wrongTasks++);
    throw new BadRequest('planned');
  });
  const { port } = await app.run({ port: 0 });
  serving(port, async (): Promise<Inside> => ({ ...counts, ...(await held()), resources: resources() }));
}

// ── the clients ──

/** A client that sends one request after the other, and keeps its connection while responses allow it. */
class Line {
  readonly random: (below: number) => number;
  readonly #port: number;
  #client: RawClient | undefined;

  constructor(port: number, seed: number) {
    this.#port = port;
    this.random = seeded(seed);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.random(items.length)]!;
  }

  async client(): Promise<RawClient> {
    return (this.#client ??= await RawClient.open(this.#port));
  }

  /** Closes the connection, gracefully or with a reset. */
  async leave(hasReset = this.random(2) === 0): Promise<void> {
    const client = this.#client;
    if (client === undefined) return;
    this.#client = undefined;
    if (hasReset) client.socket.resetAndDestroy();
    await client[Symbol.asyncDispose]();
  }

  /** Waits until the server has closed the connection, as expected. */
  async closed(): Promise<void> {
    await within((await this.client()).ended(), 'the end of the connection');
    await this.leave(false);
  }

  /** Sends bytes, sometimes in two chunks, as networks do. */
  async send(bytes: string | Uint8Array): Promise<void> {
    const client = await this.client();
    const whole = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    if (this.random(4) > 0) return void client.send(whole);
    const cut = this.random(whole.length + 1);
    client.send(whole.subarray(0, cut));
    await new Promise((resolve) => setImmediate(resolve));
    client.send(whole.subarray(cut));
  }

  async answer(method = 'GET'): Promise<RawAnswer> {
    return within((await this.client()).answer(method), 'an answer');
  }

  /** Sends a request, and checks its response. */
  async ask(head: string, status: number, { fields = '', body }: Sent = {}): Promise<RawAnswer> {
    const method = head.slice(0, head.indexOf(' '));
    const isChunked = body !== undefined && this.random(4) === 0;
    await this.send(requestOf(head, fields, body, isChunked ? this.random : undefined));
    return checked(await this.answer(method), status, method);
  }
}

async function within<T>(pending: Promise<T>, what: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const error = new Error(`${what} did not come within ${ANSWER_MS} ms`);
  const timer = setTimeout(() => late.reject(error), ANSWER_MS);
  return Promise.race([pending, late.promise]).finally(() => clearTimeout(timer));
}

function assertThat(is: boolean, what: string): void {
  if (!is) throw new Error(what);
}

/**
 * Checks a response of the application: it is complete, marked by its middleware, and a problem document for
 * an error.
 */
function checked(answer: RawAnswer, status: number, method = 'GET'): RawAnswer {
  const shown = `${answer.status} ${answer.text().slice(0, 200)}`;
  assertThat(answer.status === status, `expected ${status}, found ${shown}`);
  assertThat(answer.isWhole, `an answer that is not whole: ${shown}`);
  const isMarked = answer.field('x-soak') === '1' || status === 417;
  assertThat(isMarked, `an answer that did not pass the middleware: ${shown}`);
  if (status >= 400 && status !== 418 && method !== 'HEAD') problemIn(answer, shown);
  return answer;
}

/** Checks a response of the HTTP parser, which never became a request. */
function refused(answer: RawAnswer, status: number): void {
  const shown = `${answer.status} ${answer.text().slice(0, 200)}`;
  assertThat(answer.status === status && answer.isWhole, `expected ${status}, found ${shown}`);
  problemIn(answer, shown);
}

function problemIn(answer: RawAnswer, shown: string): void {
  const type = answer.field('content-type');
  assertThat(type === 'application/problem+json', `no problem: ${type} ${shown}`);
  const { status, title, request_id } = answer.json();
  const isOwn = status === answer.status && request_id === answer.field('x-request-id');
  assertThat(isOwn && typeof title === 'string', `a problem that is not its answer's: ${shown}`);
}

const JSON_FIELD = 'Content-Type: application/json\r\n';
const FORM_FIELD = 'Content-Type: application/x-www-form-urlencoded\r\n';
const ITEM = '{"name":"Teacup ☕","price":3.5,"tags":["a","b"],"size":{"width":1,"height":2}}';
const INVALID_ITEMS = [
  ...['null', '3', '"x"', '[]', '{}', '{"name":5,"price":1}', '{"name":"","price":1}'],
  ...['{"name":"a","price":"1"}', '{"name":"a","price":-1}', '{"name":"a","price":1,"tags":[1]}'],
  ...['{"name":"a","price":1,"size":{"width":1}}', '{"name":"a","price":1e400}'],
  ...['{"__proto__":{"name":"a"},"price":1}', '{"name":"\\ud800","price":1}'],
  `{"name":"a","price":1,"tags":[${'"t",'.repeat(10)}"t"]}`,
  `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
  `{"name":"${'n'.repeat(50_000)}","price":1}`,
];
const MISSING = [
  ...['/nowhere', '/items/x', '/items/1.5', '/items/99999999999999999999', '/ITEMS/1', '/items/1/', '//'],
  ...['/stream/', '/../etc/passwd', '/.env', '/wp-login.php', '/a/b/c/d/e/f/g', `/${'long'.repeat(500)}`],
];
const INVALID_FORMS = ['', 'name=a', 'name=a&price=x', 'price=%zz&name=', 'name=a&price=1&isNew=maybe'];
const LONG_QUERY = `q=${'a'.repeat(21)}`;
const INVALID_QUERIES = ['', 'x=1', 'q=a&page=0', 'q=a&page=x', 'q=a&size=101', LONG_QUERY, 'q=a&page=1.5'];
const BAD_ESCAPES = ['/items/%', '/items/%zz', '/%c3%28', '/items/%e2%82', '/%ff', '/a%0', '/items/1%'];
const TWO_LENGTHS = 'Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd';
const BAD_HEADS = [
  ...['Bad Field: x', 'X: a\0b', 'X: a\r\n folded', 'no colon'].map((field) =>
    requestOf('GET /', `${field}\r\n`).toString('latin1'),
  ),
  ...['Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0', TWO_LENGTHS, 'Content-Length: -1'].map(
    (rest) => `POST /bytes HTTP/1.1\r\nHost: a\r\n${rest}\r\n\r\n`,
  ),
  ...['GET /\r\n\r\n', 'GET / HTTP/9.1\r\nHost: a\r\n\r\n', 'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n'],
  '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
];
const SENDERS = ['/items', '/bytes', '/chunks', '/json', '/form', '/nowhere', '/'];

/**
 * A kind of request. `weight`: how many of a thousand requests are of this kind. `run` returns the number of
 * requests that it has sent, by default 1.
 */
type Kind = readonly [weight: number, run: (line: Line) => Promise<number | void>];

interface Sent {
  readonly fields?: string;
  readonly body?: string | Uint8Array;
}
type Check = (answer: RawAnswer) => boolean;
/** A request with its expected status, and a check of the response. */
type Exchange = readonly [head: string, status: number, sent?: Sent, isRight?: Check];

/** Returns a kind with a single request, or with several in a row. */
function one(weight: number, exchange: (line: Line) => Exchange, times = 1): Kind {
  return [
    weight,
    async (line) => {
      for (let n = 0; n < times; n++) {
        const [head, status, sent, isRight] = exchange(line);
        const answer = await line.ask(head, status, sent);
        assertThat(isRight?.(answer) ?? true, `another answer: ${answer.text().slice(0, 200)}`);
      }
      return times;
    },
  ];
}

/** Returns a kind with bytes that the HTTP parser refuses on a new connection, which it then closes. */
function bad(weight: number, bytes: (line: Line) => string, status: (sent: string) => number): Kind {
  return [
    weight,
    async (line) => {
      await line.leave(false);
      const sent = bytes(line);
      await line.send(sent);
      refused(await line.answer(), status(sent));
      await line.closed();
    },
  ];
}

const json = (body: string | Uint8Array): Sent => ({ fields: JSON_FIELD, body });
const form = (body: string): Sent => ({ fields: FORM_FIELD, body });
const has =
  (name: string, value: unknown): Check =>
  (answer) =>
    answer.json()[name] === value;
const isText =
  (text: string): Check =>
  (answer) =>
    answer.text() === text;

const KINDS: Readonly<Record<string, Kind>> = {
  plain: one(120, () => ['GET /', 200, {}, isText('hello')]),
  'path parameter, generator': one(110, (line) => {
    const id = line.random(1_000);
    return [`GET /items/${id}`, 200, {}, has('id', id)];
  }),
  'query, nested dependency': one(60, (line) => {
    const page = 1 + line.random(50);
    return [`GET /search?q=a%20b&page=${page}&size=10`, 200, {}, has('offset', (page - 1) * 10)];
  }),
  'validated body, dependencies, task': one(100, () => {
    return ['POST /items', 201, json(ITEM), has('name', 'Teacup ☕')];
  }),
  form: one(30, () => {
    return ['POST /form', 200, form('name=a%20b&price=2.5&isNew=false&tags=x&tags=y'), has('price', 2.5)];
  }),
  'json()': one(30, (line) => {
    const given = { n: line.random(1_000), list: Array.from({ length: line.random(100) }, (_, n) => n) };
    const text = JSON.stringify(given);
    return ['POST /json', 200, json(text), (answer) => JSON.stringify(answer.json()['got']) === text];
  }),
  upload: one(30, (line) => {
    const length = line.random(line.random(8) === 0 ? 200_000 : 4_000);
    const body = Buffer.alloc(length, 'u');
    return [`POST ${line.pick(['/bytes', '/chunks'])}`, 200, { body }, has('length', length)];
  }),
  'upload after 100 Continue': [
    5,
    async (line) => {
      const client = await line.client();
      client.send('POST /bytes HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n');
      assertThat((await line.answer()).status === 100, 'no 100');
      client.send('abcde');
      assertThat(checked(await line.answer(), 200).json()['length'] === 5, 'another length');
    },
  ],
  'streamed answer': one(30, (line) => {
    const count = line.random(60);
    const text = Array.from({ length: count }, (_, n) => `line ${n}\n`).join('');
    return [`GET /stream/${count}`, 200, {}, isText(text)];
  }),
  HEAD: one(20, (line) => [`HEAD ${line.pick(['/', '/items/1', '/stream/3', '/big'])}`, 200]),
  OPTIONS: one(5, () => ['OPTIONS /items/1', 204, {}, (answer) => answer.field('allow')!.includes('GET')]),
  pipelined: [
    20,
    async (line) => {
      const ids = Array.from({ length: 2 + line.random(7) }, () => line.random(2_000));
      const isBad = ids.map(() => line.random(5) === 0);
      const requests = ids.map((id, n) =>
        isBad[n]! ? requestOf('POST /items', JSON_FIELD, '{"name":') : requestOf(`GET /items/${id}`, ''),
      );
      await line.send(Buffer.concat(requests));
      for (const [n, id] of ids.entries()) {
        const answer = checked(await line.answer(), isBad[n]! ? 400 : id > 1_000 ? 404 : 200);
        assertThat(answer.status !== 200 || answer.json()['id'] === id, 'answers out of order');
      }
      return ids.length;
    },
  ],
  'slow handler': one(8, (line) => [`GET /slow/${line.random(20)}`, 200, {}, isText('at last')]),
  'exception handler': one(8, () => ['GET /teapot', 418, {}, isText('short and stout')]),
  'Connection: close': [
    8,
    async (line) => {
      const answer = await line.ask('GET /', 200, { fields: 'Connection: close\r\n' });
      assertThat(answer.field('connection') === 'close', 'no Connection: close');
      await line.closed();
    },
  ],
  'HTTP/1.0': [
    5,
    async (line) => {
      await line.send('GET /items/7 HTTP/1.0\r\n\r\n');
      checked(await line.answer(), 200);
      await line.closed();
    },
  ],
  '404 storm': one(20, (line) => [`GET ${line.pick(MISSING)}`, 404], 8),
  '405 storm': one(
    20,
    (line) => {
      const method = line.pick(['PUT', 'PATCH', 'DELETE', 'PROPFIND', 'PURGE']);
      const path = line.pick(['/', '/items', '/items/3', '/bytes', '/search']);
      return [`${method} ${path}`, 405, {}, (answer) => answer.field('allow') !== undefined];
    },
    8,
  ),
  '404 of a handler': one(15, () => ['GET /items/5000', 404]),
  'malformed JSON': one(50, (line) => {
    const text = ITEM.replace('☕', 'c');
    return [`POST ${line.pick(['/items', '/json'])}`, 400, json(text.slice(0, line.random(text.length)))];
  }),
  'wrong types': one(60, (line) => {
    const sent = json(line.pick(INVALID_ITEMS));
    return ['POST /items', 400, sent, (answer) => Array.isArray(answer.json()['errors'])];
  }),
  'wrong form': one(10, (line) => ['POST /form', 400, form(line.pick(INVALID_FORMS))]),
  'wrong query': one(30, (line) => [`GET /search?${line.pick(INVALID_QUERIES)}`, 400]),
  'bad escape': one(30, (line) => [`GET ${line.pick(BAD_ESCAPES)}`, 400]),
  'invalid UTF-8': one(8, () => ['POST /json', 400, json(Buffer.of(0x22, 0xff, 0xfe, 0x22))]),
  'wrong media type': one(8, (line) => {
    const sent = { fields: 'Content-Type: text/csv\r\n', body: 'a,b' };
    return [`POST ${line.pick(['/json', '/items', '/form'])}`, 415, sent];
  }),
  'no Host, or two': [
    8,
    async (line) => {
      await line.send(line.pick(['GET / HTTP/1.1\r\n\r\n', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n']));
      refused(await line.answer(), 400);
      await line.leave();
    },
  ],
  'planned 500': one(10, () => ['GET /boom', 500]),
  'planned 503': one(5, () => ['GET /down', 503]),
  'handler that fails after adding a task': one(8, () => ['POST /fails', 400, { body: '' }]),
  'unknown expectation': [
    4,
    async (line) => {
      await line.ask('GET /', 417, { fields: 'Expect: a miracle\r\n' });
      await line.leave();
    },
  ],
  'unknown method': bad(
    8,
    (line) => `${line.pick(['BREW', 'get', 'FOO', '\x01', 'GETT'])} / HTTP/1.1\r\nHost: a\r\n\r\n`,
    () => 400,
  ),
  'invalid head': bad(
    16,
    (line) => line.pick(BAD_HEADS),
    (head) => (/^GET \/\r\n| HTTP\/9/.test(head) ? 505 : 400), // 0.9 and 9.1 are other versions
  ),
  'fields too large': bad(
    3,
    () => `GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(17_000)}\r\n\r\n`,
    () => 431,
  ),
  'huge body announced': [
    8,
    async (line) => {
      const path = line.pick(['/items', '/json', '/bytes', '/chunks']);
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\n${JSON_FIELD}Content-Length: 5000000000\r\n\r\n`;
      (await line.client()).send(head).send(Buffer.alloc(line.random(70_000), 'h'));
      checked(await line.answer(), 413);
      await line.leave();
    },
  ],
  'huge body in chunks': [
    3,
    async (line) => {
      const path = line.pick(['/json', '/bytes', '/chunks']);
      const client = await line.client();
      client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\n${JSON_FIELD}Transfer-Encoding: chunked\r\n\r\n`);
      const answer = line.answer();
      for (let n = 0; n < 20; n++) client.send(`4000\r\n${'h'.repeat(0x4000)}\r\n`);
      checked(await answer, 413);
      if (line.random(2) === 0) return line.leave();
      client.send('0\r\n\r\n');
      await line.ask('GET /', 200); // the server has read the rest, so the connection is still usable
    },
  ],
  'aborted upload': [
    20,
    async (line) => {
      const body = Buffer.alloc(1 + line.random(100_000), 'a');
      const chunked = line.random(2) === 0 ? line.random : undefined;
      const whole = requestOf(`POST ${line.pick(SENDERS)}`, JSON_FIELD, body, chunked);
      (await line.client()).send(whole.subarray(0, line.random(whole.length)));
      await sleep(line.random(4));
      await line.leave();
    },
  ],
  'half a request': [
    15,
    async (line) => {
      const whole = requestOf('POST /items', JSON_FIELD, ITEM);
      const client = (await line.client()).send(whole.subarray(0, 1 + line.random(whole.length - 1)));
      if (line.random(2) > 0) return line.leave();
      client.socket.end(); // the request cannot continue, so the server must send an error or close
      await line.closed();
    },
  ],
  'left before the answer': [
    20,
    async (line) => {
      const slow = `GET /slow/${10 + line.random(20)}`;
      const heads = [slow, 'GET /big', 'GET /stream/500'].map((head) => requestOf(head, ''));
      (await line.client()).send(line.pick([...heads, requestOf('POST /items', JSON_FIELD, ITEM)]));
      await sleep(line.random(12));
      await line.leave();
    },
  ],
  'left within the answer': [
    8,
    async (line) => {
      const client = (await line.client()).get(line.pick(['/big', '/stream/2000']));
      await within(once(client.socket, 'data'), 'the first bytes');
      await line.leave();
    },
  ],
  'slow reader': [
    2,
    async (line) => {
      const client = (await line.client()).get('/big');
      for (let n = 0; n < 5; n++) {
        client.socket.pause();
        await sleep(20);
        client.socket.resume();
        await sleep(1);
      }
      assertThat(checked(await line.answer(), 200).body.length === BLOCKS * BLOCK.length, 'another length');
    },
  ],
};

// ── the run ──

class Run {
  readonly #lines: Line[];
  readonly tallies = new Map(Object.keys(KINDS).map((name) => [name, { requests: 0, failures: 0 }]));
  readonly failures: string[] = [];
  sent = 0;

  constructor(port: number) {
    this.#lines = Array.from({ length: CONNECTIONS }, (_, n) => new Line(port, SEED + n));
  }

  get isOver(): boolean {
    return this.failures.length >= MOST_FAILURES;
  }

  /** Sends requests until `count` were sent in all, or until `endMs`. Afterwards no request is in flight. */
  async sendUntil(count: number, endMs: number): Promise<void> {
    await Promise.all(
      this.#lines.map(async (line) => {
        while (this.sent < count && performance.now() < endMs && !this.isOver) await this.#one(line);
        await line.leave(false);
      }),
    );
  }

  async #one(line: Line): Promise<void> {
    let at = line.random(WEIGHTS);
    const [name, [, send]] = Object.entries(KINDS).find(([, [weight]]) => (at -= weight) < 0)!;
    const tally = this.tallies.get(name)!;
    try {
      const requests = (await send(line)) ?? 1;
      tally.requests += requests;
      this.sent += requests;
    } catch (error) {
      tally.failures++;
      this.failures.push(`${name}: ${String(error)}`);
      await line.leave();
    }
  }
}

const WEIGHTS = Object.values(KINDS).reduce((sum, [weight]) => sum + weight, 0);

/** Events of the server's log, by event and route, and its other output. */
interface Log {
  readonly events: Map<string, number>;
  readonly others: string[];
  drainedWith: unknown;
}

function watch(child: ChildProcess, seen: Log): void {
  createInterface({ input: child.stderr! }).on('line', (text) => {
    try {
      const { level, event, route = '', in_flight } = JSON.parse(text) as Record<string, unknown>;
      const key = level === 'error' || level === 'warn' ? `${event} ${route}`.trim() : String(event);
      seen.events.set(key, (seen.events.get(key) ?? 0) + 1);
      if (event === 'draining') seen.drainedWith = in_flight;
    } catch {
      if (seen.others.length < MOST_FAILURES) seen.others.push(text);
    }
  });
}

/** Counts that are equal when nothing is in flight. */
const PAIRS = [
  ['entered', 'left'],
  ['streamsBegun', 'streamsEnded'],
  ['tasksAdded', 'tasksRun'],
] as const;
const isAtRest = (inside: Inside): boolean =>
  inside.sockets === 0 && PAIRS.every(([one, other]) => inside[one] === inside[other]);
/** Returns the open handles without timers, whose number changes with the connection of this check. */
const handles = (inside: Inside): string =>
  Object.entries(inside.resources)
    .filter(([kind]) => kind !== 'Timeout' && kind !== 'Immediate')
    .sort()
    .join(' ');

async function main(): Promise<readonly string[]> {
  console.log(`mixed: up to ${TOTAL} requests in ${SECONDS} s over ${CONNECTIONS} connections, seed ${SEED}`);
  const log: Log = { events: new Map(), others: [], drainedWith: undefined };
  const server = await SoakServer.start<Inside>(import.meta.filename, [], (child) => watch(child, log));
  const { child, port } = server;
  const run = new Run(port);
  const fail = (what: string): void => void run.failures.push(what);
  const startMs = performance.now();
  const before = await server.settled(isAtRest);
  const samples: Inside[] = [];
  for (let step = 1; step <= STEPS && !run.isOver && child.exitCode === null; step++) {
    await run.sendUntil((TOTAL * step) / STEPS, startMs + (SECONDS * 1_000 * step) / STEPS);
    if (child.exitCode === null) samples.push(await server.settled(isAtRest));
  }
  const seconds = (performance.now() - startMs) / 1_000;

  const after = samples.at(-1) ?? before;
  for (const [one, other] of PAIRS)
    if (after[one] !== after[other]) fail(`${one} ${after[one]}, ${other} ${after[other]}`);
  if (after.wrongTasks !== 0) fail(`${after.wrongTasks} background tasks of handlers that had failed ran`);
  if (handles(after) !== handles(before))
    fail(`open handles: ${handles(before)} before, ${handles(after)} after`);
  const least = (from: number, to: number): number =>
    Math.min(...samples.slice((STEPS * from) / 4, (STEPS * to) / 4).map(({ heapUsed }) => heapUsed));
  const growth = samples.length < STEPS ? Number.NaN : least(3, 4) - least(1, 2);
  if (growth > SLACK_BYTES) fail(`the heap has grown by ${mib(growth)} between the second and last quarter`);

  for (const what of await server.terminated()) fail(what);
  if (log.drainedWith !== 0) fail(`${String(log.drainedWith)} requests were in flight at the end`);
  const expected = new Map([
    ['unhandled_error /boom', run.tallies.get('planned 500')!.requests],
    ['unhandled_error /down', run.tallies.get('planned 503')!.requests],
  ]);
  for (const [key, count] of expected) {
    const found = log.events.get(key) ?? 0;
    if (found !== count) fail(`${count} requests, and ${found} lines "${key}" in the log`);
  }
  for (const [key, count] of log.events)
    if (!expected.has(key) && !['listening', 'signal', 'draining', 'stopped'].includes(key))
      fail(`${count} × "${key}" in the log`);
  for (const line of log.others) fail(`printed by the server: ${line}`);

  for (const [name, { requests, failures }] of run.tallies)
    console.log(`${String(requests).padStart(8)}  ${name}${failures === 0 ? '' : `  ${failures} FAILED`}`);
  console.log(
    `${run.sent} requests in ${seconds.toFixed(1)} s; ${after.entered} dependencies entered, ${after.tasksRun} tasks run, ${after.streamsEnded} streams`,
  );
  console.log(`heap after gc: ${samples.map(({ heapUsed }) => mib(heapUsed)).join(' ')}`);
  console.log(
    `growth second to last quarter ${mib(growth)} (slack ${mib(SLACK_BYTES)}); external ${mib(before.external)} → ${mib(after.external)}; rss ${mib(before.rss)} → ${mib(after.rss)}`,
  );
  return run.failures;
}

await soak(main, serve);
