import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  gunzipSync,
  zstdDecompressSync,
} from 'node:zlib';
import {
  CSRFMiddleware,
  CompressionMiddleware,
  ETagMiddleware,
  EventBroadcast,
  EventStreamResponse,
  FileResponse,
  HttpResponse,
  IdempotencyMiddleware,
  MemoryRecordStore,
  NDJSONResponse,
  SessionMiddleware,
  StreamingResponse,
  Svc,
  TextResponse,
} from 'svc';
import { TestClient } from 'svc/testing';
import { codersOf, negotiateEncoding } from '../../../src/http/content-codings.ts';
import { CompressedChunks } from '../../../src/http/middleware/compression.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import type { ContentCoding, HttpRequest } from 'svc';
import type { Coder } from '../../../src/http/content-codings.ts';

const DECODE: Readonly<Record<ContentCoding, (bytes: Uint8Array) => Buffer>> = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};
const CODINGS = ['zstd', 'br', 'gzip'] as const;
const TEXT = 'All work and no play. '.repeat(100);

function site(declare: (app: Svc) => void, middleware = new CompressionMiddleware()): TestClient {
  const app = new Svc().use(middleware);
  declare(app);
  return new TestClient(app);
}

const get = (
  client: TestClient,
  path: string,
  accept?: string,
  more: Record<string, string> = {},
): ReturnType<TestClient['get']> =>
  client.get(path, { headers: { ...(accept === undefined ? {} : { 'accept-encoding': accept }), ...more } });

for (const coding of CODINGS) {
  for (const [size, text] of [
    ['in place', TEXT],
    ['in another thread', TEXT.repeat(200)],
  ] as const) {
    test(`CompressionMiddleware compresses a body, and sends it with Content-Length and Vary (${coding}, ${size})`, async () => {
      await using client = site((app) =>
        app
          .get('/text', () => text)
          .get('/bytes', () => new HttpResponse(Buffer.from(text), { mediaType: 'text/css' })),
      );
      for (const path of ['/text', '/bytes']) {
        const answer = await get(client, path, coding);
        const bytes = Buffer.from(await answer.arrayBuffer());
        assert.equal(answer.headers.get('content-encoding'), coding);
        assert.equal(answer.headers.get('vary'), 'Accept-Encoding');
        assert.equal(answer.headers.get('content-length'), String(bytes.length));
        assert.equal(DECODE[coding](bytes).toString(), text);
      }
    });
  }

  test(`CompressionMiddleware compresses streams of text and bytes with ${coding}`, async () => {
    await using client = site((app) =>
      app
        .get(
          '/',
          () =>
            new StreamingResponse(
              (async function* (): AsyncGenerator<string | Uint8Array> {
                yield 'é';
                yield '';
                yield Buffer.from('bytes');
                await turn();
                await turn();
                for (let n = 0; n < 300; n++) yield `${n} ${TEXT}`;
                yield 'end';
              })(),
              { mediaType: 'text/plain', contentLength: undefined },
            ),
        )
        .get('/none', () => new StreamingResponse([], { mediaType: 'text/plain' })),
    );
    const expected = `ébytes${Array.from({ length: 300 }, (_, n) => `${n} ${TEXT}`).join('')}end`;
    const answer = await get(client, '/', coding);
    assert.equal(answer.headers.get('content-encoding'), coding);
    assert.equal(DECODE[coding](Buffer.from(await answer.arrayBuffer())).toString(), expected);
    assert.equal(
      DECODE[coding](Buffer.from(await (await get(client, '/none', coding)).arrayBuffer())).length,
      0,
    );
  });
}

test('CompressionMiddleware compresses a short stream as a whole if the stream declares its length', async () => {
  const app = new Svc({ logger: collectedLog().logger }).use(new CompressionMiddleware());
  const half = TEXT.slice(0, 1_000);
  for (const [path, contentLength] of [
    ['/right', 2_000],
    ['/less', 2_001],
    ['/more', 1_999],
  ] as const) {
    app.get(
      path,
      () =>
        new StreamingResponse(
          (async function* (): AsyncGenerator<string | Uint8Array> {
            yield half;
            yield new Uint8Array(Buffer.from(half));
          })(),
          { mediaType: 'text/plain', contentLength },
        ),
    );
  }
  app.get('/file', () => new FileResponse(new URL(import.meta.url).pathname, { mediaType: 'text/plain' }));
  await using client = new TestClient(app, { raiseErrors: false });
  const right = await get(client, '/right', 'gzip');
  const bytes = Buffer.from(await right.arrayBuffer());
  assert.equal(right.headers.get('content-length'), String(bytes.length));
  assert.equal(gunzipSync(bytes).toString(), half + half);
  for (const path of ['/less', '/more']) assert.equal((await get(client, path, 'gzip')).status, 500);
  const file = await get(client, '/file', 'gzip');
  assert.equal(file.headers.get('content-encoding'), 'gzip');
  assert.match(file.headers.get('etag') ?? 'W/', /^W\//);
  assert.equal(
    gunzipSync(Buffer.from(await file.arrayBuffer())).toString(),
    await readFile(new URL(import.meta.url), 'utf8'),
  );
  assert.equal(
    (
      await client.get('/file', {
        headers: { 'accept-encoding': 'gzip', 'if-none-match': file.headers.get('etag')! },
      })
    ).status,
    304,
  );
});

for (const [accept, expected] of [
  [undefined, null],
  ['', null],
  ['identity', null],
  ['compress', null],
  ['gzip', 'gzip'],
  ['gzip, br', 'br'],
  ['gzip, br, zstd', 'zstd'],
  ['*', 'zstd'],
  ['gzip;q=1, br;q=0.5', 'gzip'],
  ['br;q=0, *', 'zstd'],
  ['gzip;q=0.5, identity', null],
  ['identity;q=0', null],
  ['identity;q=0, gzip;q=0.1', 'gzip'],
  ['*;q=0', null],
  ['GZIP', 'gzip'],
  ['x-gzip', 'gzip'],
  ['zstd;q=0, br;q=0, gzip;q=0.001', 'gzip'],
] as const) {
  test(`CompressionMiddleware chooses the coding by Accept-Encoding, and always sends Vary (Accept-Encoding: ${accept ?? 'none'}, result: ${expected ?? 'no coding'})`, async () => {
    await using client = site((app) => app.get('/', () => TEXT));
    const answer = await get(client, '/', accept);
    assert.deepEqual(
      [answer.headers.get('content-encoding'), answer.headers.get('vary')],
      [expected, 'Accept-Encoding'],
    );
  });
}

for (const [what, response] of [
  ['below the threshold', () => new TextResponse('x'.repeat(1_023))],
  ['an image', () => new HttpResponse(Buffer.alloc(5_000), { mediaType: 'image/png' })],
  ['of no media type', () => new HttpResponse(TEXT)],
  ['already encoded', () => new TextResponse(TEXT, { headers: { 'Content-Encoding': 'br' } })],
  [
    'marked no-transform',
    () => new TextResponse(TEXT, { headers: { 'Cache-Control': 'public, No-Transform' } }),
  ],
  ['partial', () => new TextResponse(TEXT, { status: 206 })],
  ['sent with a digest', () => new TextResponse(TEXT, { headers: { 'Content-Digest': 'sha-256=:x:' } })],
  ['sent with a cookie', () => new TextResponse(TEXT).setCookie('a', 'b')],
  [
    'a stream with a declared length below the threshold',
    () => new StreamingResponse(['x'], { mediaType: 'text/plain', contentLength: 1 }),
  ],
  ['an event stream', () => new EventStreamResponse([TEXT])],
] as const) {
  test(`CompressionMiddleware does not compress a response that gains nothing or must not change, and adds no Vary: ${what}`, async () => {
    await using client = site((app) => app.get('/', response));
    const answer = await get(client, '/', 'gzip');
    assert.ok(answer.headers.get('content-encoding') !== 'gzip');
    assert.equal(answer.headers.get('vary'), null);
  });
}

for (const mediaType of [
  'text/html; charset=utf-8',
  'application/json',
  'application/problem+json',
  'image/svg+xml',
  'application/javascript',
  'application/x-ndjson',
  'TEXT/CSS',
  'application/wasm',
  'font/ttf',
  'application/xml',
]) {
  test(`CompressionMiddleware compresses ${mediaType}`, async () => {
    await using client = site((app) => app.get('/', () => new HttpResponse(TEXT, { mediaType })));
    assert.equal((await get(client, '/', 'gzip')).headers.get('content-encoding'), 'gzip');
  });
}

test('the option meta.compress of a route can forbid compression, or allow it even for responses with cookies', async () => {
  await using client = site((app) =>
    app
      .get('/never', { meta: { compress: false } }, () => TEXT)
      .get('/cookie', { meta: { compress: true } }, () => new TextResponse(TEXT).setCookie('a', 'b')),
  );
  assert.deepEqual(
    [
      (await get(client, '/never', 'gzip')).headers.get('content-encoding'),
      (await get(client, '/never', 'gzip')).headers.get('vary'),
    ],
    [null, null],
  );
  assert.equal((await get(client, '/cookie', 'gzip')).headers.get('content-encoding'), 'gzip');
});

test('CompressionMiddleware sends a response uncompressed when compression would not make it smaller', async () => {
  await using client = site(
    (app) => app.get('/', () => 'ab'),
    new CompressionMiddleware({ thresholdBytes: 0 }),
  );
  assert.equal((await get(client, '/', 'gzip')).headers.get('content-encoding'), null);
});

test('CompressionMiddleware makes a strong ETag weak, and a 304 response repeats the tag that the client sent', async () => {
  await using client = site((app) =>
    app.get('/', ({ req }) =>
      req.headers['if-none-match'] === undefined
        ? new TextResponse(TEXT, { headers: { ETag: '"a"', 'Accept-Ranges': 'bytes', Vary: 'Cookie' } })
        : new HttpResponse(null, { status: 304, headers: { ETag: '"a"' } }),
    ),
  );
  const coded = await get(client, '/', 'br');
  assert.deepEqual(
    ['etag', 'accept-ranges', 'vary'].map((name) => coded.headers.get(name)),
    ['W/"a"', null, 'Cookie, Accept-Encoding'],
  );
  assert.equal((await get(client, '/')).headers.get('etag'), '"a"');
  assert.equal((await get(client, '/', 'br', { 'if-none-match': 'W/"a"' })).headers.get('etag'), 'W/"a"');
  assert.equal((await get(client, '/', 'br', { 'if-none-match': '"a"' })).headers.get('etag'), '"a"');
});

test('a 304 response has the same Vary as the 200 response, for every Accept-Encoding (RFC 9110 §15.4.5)', async () => {
  await using client = site((app) =>
    app.get(
      '/',
      () =>
        new HttpResponse(null, {
          status: 304,
          headers: { 'Last-Modified': 'Sat, 21 Nov 2026 00:00:00 GMT' },
        }),
    ),
  );
  for (const headers of [
    { 'if-modified-since': 'Sat, 21 Nov 2026 00:00:00 GMT' },
    { 'if-none-match': '"a"' },
  ]) {
    assert.equal((await client.get('/', { headers })).headers.get('vary'), 'Accept-Encoding');
  }
});

test('HEAD has the same Content-Encoding and Vary as GET', async () => {
  await using client = site((app) =>
    app
      .get('/', () => TEXT)
      .get('/long', () => TEXT.repeat(500))
      .get('/pieces', () => new StreamingResponse([TEXT], { mediaType: 'text/plain' })),
  );
  for (const path of ['/', '/long', '/pieces']) {
    const [head, whole] = [
      await client.request('HEAD', path, { headers: { 'accept-encoding': 'gzip' } }),
      await get(client, path, 'gzip'),
    ];
    assert.deepEqual(
      ['content-encoding', 'vary', 'content-type'].map((name) => head.headers.get(name)),
      ['content-encoding', 'vary', 'content-type'].map((name) => whole.headers.get(name)),
      path,
    );
    assert.equal(head.headers.get('content-length'), null); // its length is not known without the work
  }
});

test('a HEAD response for a file has Vary, and has Content-Length only if the GET response has the same length', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-compression-'));
  t.after(() => rm(folder, { recursive: true }));
  for (const [name, text] of [
    ['small.txt', TEXT],
    ['large.txt', TEXT.repeat(500)],
  ] as const)
    await writeFile(`${folder}/${name}`, text);
  await using client = site((app) =>
    app.get('/file', () => new FileResponse(join(folder, 'large.txt'))).mountStatic('/static', folder),
  );
  for (const path of ['/file', '/static/small.txt', '/static/large.txt']) {
    for (const coding of ['gzip', 'identity']) {
      const [head, whole] = [
        await client.request('HEAD', path, { headers: { 'accept-encoding': coding } }),
        await get(client, path, coding),
      ];
      const said = (answer: Response): unknown =>
        ['content-encoding', 'vary', 'etag', 'accept-ranges', 'last-modified'].map((name) =>
          answer.headers.get(name),
        );
      assert.deepEqual(said(head), said(whole), `${path} ${coding}`);
      assert.equal(
        head.headers.get('content-length'),
        coding === 'gzip' ? null : whole.headers.get('content-length'),
        path,
      );
      await whole.arrayBuffer();
    }
  }
});

test('a 206 response has the same Vary as the 200 response (RFC 9110 §15.3.7)', async () => {
  const file = new URL('compression.test.ts', import.meta.url);
  await using client = site((app) =>
    app
      .get('/file', () => new FileResponse(file, { mediaType: 'text/plain' }))
      .get('/image', () => new FileResponse(file, { mediaType: 'image/png' }))
      .get(
        '/plain',
        { meta: { compress: false } },
        () => new FileResponse(file, { mediaType: 'text/plain' }),
      ),
  );
  for (const [path, range, vary] of [
    ['/file', 'bytes=0-9', 'Accept-Encoding'],
    ['/file', 'bytes=0-9,20-29', 'Accept-Encoding'],
    ['/image', 'bytes=0-9', null],
    ['/plain', 'bytes=0-9', null],
  ] as const) {
    const answer = await get(client, path, 'gzip', { range });
    assert.deepEqual(
      [answer.status, answer.headers.get('vary'), answer.headers.get('content-encoding')],
      [206, vary, null],
      `${path} ${range}`,
    );
    await answer.arrayBuffer();
  }
});

test('CompressionMiddleware compresses at most maxConcurrent responses at the same time', async () => {
  const app = new Svc().use(new CompressionMiddleware({ maxConcurrent: 1 }));
  const more = Promise.withResolvers<void>();
  let ended = 0;
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (async function* (): AsyncGenerator<string> {
          yield 'a';
          await more.promise;
          yield 'b';
        })(),
        { mediaType: 'text/plain' },
      ),
  );
  app.get(
    '/never',
    () =>
      new StreamingResponse(
        {
          [Symbol.asyncIterator]: () => {
            let first = true;
            return {
              next: () => {
                if (!first) return new Promise<never>(() => undefined);
                first = false;
                return Promise.resolve({ done: false as const, value: 'x' });
              },
              return: async () => {
                ended++;
                return { done: true as const, value: undefined };
              },
            };
          },
        },
        { mediaType: 'text/plain' },
      ),
  );
  app.get('/long', () => TEXT.repeat(500));
  const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  const [first, second] = [await RawClient.open(port), await RawClient.open(port)];
  const codingOf = async (client: RawClient, path: string): Promise<string | undefined> =>
    (await client.get(path, 'Accept-Encoding: gzip\r\n').answer()).field('content-encoding');
  first.get('/', 'Accept-Encoding: gzip\r\n');
  await once(first.socket, 'data');
  assert.equal(await codingOf(second, '/long'), undefined);
  more.resolve();
  assert.equal(gunzipSync((await first.answer()).body).toString(), 'ab');
  assert.equal(await codingOf(second, '/long'), 'gzip');
  await first.send('HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n').answer('HEAD');
  assert.equal(await codingOf(second, '/long'), 'gzip');
  first.get('/never', 'Accept-Encoding: gzip\r\n');
  await once(first.socket, 'data');
  first.socket.destroy();
  while (ended === 0) await turn();
  assert.equal(await codingOf(second, '/long'), 'gzip');
  await second[Symbol.asyncDispose]();
  await close();
});

/** A body that yields one chunk and then none. Counts how often it was ended. */
function endless(): { body: AsyncIterable<string>; ended: () => number } {
  let ended = 0;
  let isFirst = true;
  const iterator: AsyncIterator<string> = {
    next: () => {
      if (!isFirst) return new Promise<never>(() => undefined);
      isFirst = false;
      return Promise.resolve({ done: false, value: 'x' });
    },
    return: async () => {
      ended++;
      return { done: true, value: undefined };
    },
  };
  return { body: { [Symbol.asyncIterator]: () => iterator }, ended: () => ended };
}

for (const listen of [true, false])
  test(`if middleware sends another response instead of a compressed stream, the stream ends, and no longer counts for maxConcurrent (${listen ? 'over a socket' : 'in memory'})`, async () => {
    const { body, ended } = endless();
    const app = new Svc({ logger: collectedLog().logger });
    app.use(async ({ path }, next) => {
      const response = await next();
      return path === '/replaced' ? 'other' : response;
    });
    app.use(new CompressionMiddleware({ maxConcurrent: 1 }));
    app.get('/replaced', () => new StreamingResponse(body, { mediaType: 'text/plain' }));
    app.get('/long', () => new StreamingResponse([TEXT], { mediaType: 'text/plain' }));
    await using client = new TestClient(app, { listen });
    assert.equal(await (await get(client, '/replaced', 'gzip')).text(), 'other');
    while (ended() === 0) await turn();
    assert.equal((await get(client, '/long', 'gzip')).headers.get('content-encoding'), 'gzip');
    assert.equal(ended(), 1);
  });

test('CompressionMiddleware.handle() accepts a request that is an object of another class', async () => {
  const req = { method: 'GET', headers: { 'accept-encoding': 'gzip' } } as unknown as HttpRequest;
  const response = await new CompressionMiddleware().handle(
    req,
    () => new StreamingResponse([TEXT], { mediaType: 'text/plain' }),
  );
  assert.equal(response.headers.get('content-encoding'), 'gzip');
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) chunks.push(chunk);
  assert.equal(gunzipSync(Buffer.concat(chunks)).toString(), TEXT);
});

for (const coding of CODINGS) {
  test(`each server-sent event and each NDJSON line reaches the client as soon as it is sent, also when compressed with ${coding}`, async () => {
    const news = new EventBroadcast();
    const more = Promise.withResolvers<void>();
    const app = new Svc().use(new CompressionMiddleware());
    app.get('/events', () => news.stream([], { headers: { 'Cache-Control': 'no-cache' } }));
    app.get(
      '/lines',
      () =>
        new NDJSONResponse(
          (async function* () {
            yield 1;
            await more.promise;
            yield 2;
          })(),
        ),
    );
    const { url, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
    const decoders = { gzip: createGunzip, br: createBrotliDecompress, zstd: createZstdDecompress };
    const open = async (path: string): Promise<{ seen(): string; until(text: string): Promise<void> }> => {
      const { Agent, request } = await import('node:http');
      const sent = request(url + path, { agent: new Agent(), headers: { 'Accept-Encoding': coding } }).end();
      const [answer] = (await once(sent, 'response')) as [import('node:http').IncomingMessage];
      assert.equal(answer.headers['content-encoding'], coding);
      let seen = '';
      const decoder = answer.pipe(
        decoders[coding]({ ...(coding === 'gzip' ? { finishFlush: constants.Z_SYNC_FLUSH } : {}) }),
      );
      decoder.on('data', (chunk: Buffer) => {
        seen += chunk.toString();
      });
      return {
        seen: () => seen,
        async until(text) {
          while (!seen.includes(text)) await turn();
        },
      };
    };
    const events = await open('/events');
    await events.until(':\n\n');
    for (const text of ['one', 'two', 'three']) {
      news.send(text);
      await events.until(`data: ${text}\n\n`);
    }
    const lines = await open('/lines');
    await lines.until('1\n');
    more.resolve();
    await lines.until('2\n');
    await close(); // the stream of events ends with the server
    assert.equal(news.size, 0);
  });
}

test('if the source of a compressed stream fails during the response, the connection is cut', async () => {
  const app = new Svc().use(new CompressionMiddleware());
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (async function* (): AsyncGenerator<string> {
          yield TEXT;
          await turn();
          await turn();
          throw new Error('source');
        })(),
        { mediaType: 'text/plain' },
      ),
  );
  const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  await using client = await RawClient.open(port);
  const answer = await client.get('/', 'Accept-Encoding: gzip\r\n').answer();
  assert.equal(answer.isWhole, false);
  await close();
});

test('with each coding, CompressedChunks yields the whole content however its source is split, and calls onEnd() once', async () => {
  const coders = codersOf({ zstd: 1, br: 1, gzip: 1 });
  for (const coding of CODINGS) {
    for (const size of [1, 7, 1_000, 100_000]) {
      const whole = TEXT.repeat(50).slice(0, size === 1 ? 200 : undefined);
      const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, index) =>
        whole.slice(index * size, (index + 1) * size),
      );
      let over = 0;
      const compressed = new CompressedChunks(pieces, {
        coder: coders[coding] as Coder,
        isEager: size === 7,
        onEnd: () => {
          over++;
        },
      });
      const chunks: Uint8Array[] = [];
      for await (const chunk of compressed) chunks.push(chunk as Uint8Array);
      assert.equal(DECODE[coding](Buffer.concat(chunks)).toString(), whole, `${coding} ${size}`);
      assert.equal(over, 1);
    }
  }
});

test('if CompressedChunks is closed while it awaits a chunk, it ends without an error, whenever the chunk arrives', async () => {
  const coders = codersOf({ zstd: 3, br: 4, gzip: 6 });
  for (const coding of CODINGS) {
    for (const last of [
      { done: false, value: TEXT },
      { done: true, value: undefined },
    ] as const) {
      const step = Promise.withResolvers<IteratorResult<string, undefined>>();
      const steps = [Promise.resolve({ done: false, value: TEXT }), step.promise];
      const source = {
        [Symbol.asyncIterator]: () => ({
          next: () => steps.shift()!,
          return: () => Promise.resolve({ done: true as const, value: undefined }),
        }),
      };
      const compressed = new CompressedChunks(source, {
        coder: coders[coding] as Coder,
        isEager: true,
        onEnd: () => undefined,
      });
      while ((await compressed.next()).done !== true && steps.length > 0);
      const awaited = compressed.next();
      await turn();
      await compressed.return();
      await turn();
      step.resolve(last);
      assert.deepEqual(await awaited, { done: true, value: undefined }, coding);
    }
  }
});

test('CompressionMiddleware refuses options that are unknown or out of range', () => {
  for (const options of [
    { encodings: [] },
    { encodings: ['gzip', 'gzip'] },
    { encodings: ['deflate'] },
    { gzipLevel: 0 },
    { brotliQuality: 12 },
    { zstdLevel: 20 },
    { thresholdBytes: -1 },
    { maxConcurrent: 0 },
  ]) {
    assert.throws(() => new CompressionMiddleware(options as object), { code: 'E_OPTION_RANGE' });
  }
  assert.throws(() => new CompressionMiddleware({ level: 5 } as object), { code: 'E_OPTION_UNKNOWN' });
});

test('svc check reports CompressionMiddleware inside middleware that sets cookies, stores responses or compresses (SVC121)', () => {
  for (const [outer, isRight] of [
    [new SessionMiddleware({ secrets: 'x'.repeat(40) }), false],
    [new CompressionMiddleware(), false],
    [new IdempotencyMiddleware({ store: new MemoryRecordStore() }), false],
  ] as const) {
    const app = new Svc({ authSecret: 'y'.repeat(43) }).use(outer).use(new CompressionMiddleware());
    assert.equal(
      app
        .check()
        .findings.some(
          (finding) => finding.rule === 'SVC121' && finding.subject === 'middleware compression',
        ),
      !isRight,
    );
  }
  const right = new Svc({ authSecret: 'y'.repeat(43) })
    .use(new CompressionMiddleware())
    .use(new SessionMiddleware())
    .use(new CSRFMiddleware());
  assert.deepEqual(
    right.check().findings.filter((finding) => finding.subject === 'middleware compression'),
    [],
  );
});

test('svc check warns when CompressionMiddleware is inside ETagMiddleware, because it then compresses content that a 304 omits (SVC121)', () => {
  const severities = (app: Svc): string[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity }) => severity);
  assert.deepEqual(severities(new Svc().use(new ETagMiddleware()).use(new CompressionMiddleware())), [
    'warning',
  ]);
  assert.deepEqual(
    severities(
      new Svc({ authSecret: 'y'.repeat(43) })
        .use(new ETagMiddleware())
        .use(new SessionMiddleware())
        .use(new CompressionMiddleware()),
    ),
    ['error', 'warning'],
  );
  assert.deepEqual(severities(new Svc().use(new CompressionMiddleware()).use(new ETagMiddleware())), []);
});

test('for generated Accept-Encoding fields, the response has a content coding that the client accepts', async () => {
  await using client = site((app) => app.get('/', () => TEXT));
  const parts = [
    'gzip',
    'br',
    'zstd',
    '*',
    'identity',
    ';',
    'q=',
    'q=0',
    'q=1',
    '0.5',
    '=',
    ',',
    ' ',
    '\t',
    '"',
    'GZIP',
    ';q=0.0001',
    ';q=2',
    'é',
    '%',
  ];
  for (let round = 0; round < 1_000; round++) {
    const accept = Array.from(
      { length: 1 + (round % 9) },
      () => parts[Math.floor(Math.random() * parts.length)]!,
    )
      .join('')
      .trim();
    const answer = await get(client, '/', accept);
    const coding = answer.headers.get('content-encoding') as ContentCoding | null;
    assert.equal(coding ?? undefined, negotiateEncoding(accept, CODINGS), accept);
    const bytes = Buffer.from(await answer.arrayBuffer());
    assert.equal((coding === null ? bytes : DECODE[coding](bytes)).toString(), TEXT);
  }
});

test('curl --compressed and fetch() decode compressed responses', async (t) => {
  const app = new Svc()
    .use(new CompressionMiddleware())
    .get('/', () => TEXT)
    .get(
      '/pieces',
      () =>
        new StreamingResponse(
          (function* (): Generator<string> {
            for (let n = 0; n < 50; n++) yield TEXT;
          })(),
          { mediaType: 'text/plain' },
        ),
    );
  const { url, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  try {
    for (const accept of CODINGS) {
      assert.equal(await (await fetch(url, { headers: { 'Accept-Encoding': accept } })).text(), TEXT);
      assert.equal(
        await (await fetch(`${url}/pieces`, { headers: { 'Accept-Encoding': accept } })).text(),
        TEXT.repeat(50),
      );
    }
    const run = promisify(execFile);
    if (
      !(await run('curl', ['--version']).then(
        () => true,
        () => false,
      ))
    )
      return t.diagnostic('there is no curl');
    for (const path of ['/', '/pieces'])
      assert.equal(
        (await run('curl', ['--silent', '--fail', '--compressed', url + path], { maxBuffer: 1e7 })).stdout,
        path === '/' ? TEXT : TEXT.repeat(50),
      );
  } finally {
    await close();
  }
});
