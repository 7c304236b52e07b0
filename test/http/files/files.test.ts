import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Svc } from '../../../src/app/svc.ts';
import { FileResponse } from '../../../src/http/files/files.ts';
import { discard } from '../../../src/http/chunks.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient } from '../../support/raw-http.ts';
import { serve, type Serving } from '../../support/serve.ts';
import type { Chunks } from '../../../src/http/chunks.ts';

/** Serves the responses of a function at `/`. */
const served = (make: () => unknown): Promise<Serving> => serve((app) => app.get('/', make));

const directory = mkdtempSync(join(tmpdir(), 'svc-files-'));
after(() => rmSync(directory, { recursive: true }));
const big = Buffer.alloc(600_001, 'abcdefg');
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
};
const hello = file('hello.txt', 'hello');
const GET = { method: 'GET', headers: {} };

/** Returns how many descriptors of a file this process has open. */
function openPaths(path: string): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path);
    } catch {
      return false; // the one that reads the folder
    }
  }).length;
}

test('FileResponse sends a file with Content-Length and its media type; HEAD gets no body', async () => {
  await using it = await served(() => new FileResponse(hello));
  const answer = await it.client.get('/').answer();
  assert.deepEqual(
    [answer.status, answer.text(), answer.field('content-length'), answer.field('content-type')],
    [200, 'hello', '5', 'text/plain; charset=utf-8'],
  );
  const head = await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.deepEqual([head.status, head.field('content-length')], [200, '5']);
  assert.equal((await it.client.get('/').answer()).text(), 'hello');
});

test('FileResponse sends a file of several blocks, and an empty file', async () => {
  const path = file('big.bin', big);
  await using it = await served(() => new FileResponse(path));
  assert.ok((await it.client.get('/').answer()).body.equals(big));
  const none = file('none.json', '');
  await using empty = await served(() => new FileResponse(none));
  const answer = await empty.client.get('/').answer();
  assert.deepEqual(
    [answer.status, answer.field('content-length'), answer.field('content-type')],
    [200, '0', 'application/json'],
  );
});

test('one FileResponse object can be returned for many requests, also for concurrent requests and for HEAD', async () => {
  const kept = new FileResponse(hello);
  await using it = await served(() => kept);
  await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  for (let round = 0; round < 3; round++) assert.equal((await it.client.get('/').answer()).text(), 'hello');
  it.client.get('/').get('/').get('/');
  for (let round = 0; round < 3; round++) assert.equal((await it.client.answer()).text(), 'hello');
});

test('FileResponse answers 404 when its path is not a regular file', async () => {
  for (const path of [
    join(directory, 'absent'),
    join(hello, 'below'),
    directory,
    join(directory, 'x'.repeat(300)),
    '/dev/null',
  ]) {
    await assert.rejects(async () => await new FileResponse(path).settle(GET), { status: 404 });
  }
  await assert.rejects(async () => await new FileResponse('a\0b').settle(GET), {
    code: 'ERR_INVALID_ARG_VALUE',
  });
});

test('FileResponse.settle() looks up the file for one request; calling settle() on the returned response does not look it up again', async () => {
  const path = file('once.txt', 'once');
  const response = new FileResponse(path);
  const answer = await response.settle(GET);
  rmSync(path);
  assert.equal(await answer.settle(GET), answer);
  assert.equal(answer.contentLength, 4);
  await assert.rejects(async () => await response.settle(GET), { status: 404 });
});

test('FileResponse cuts the connection if its file was shortened or changed before it is sent', async () => {
  for (const spoil of [
    (path: string) => truncateSync(path, 300_000),
    (path: string) => appendFileSync(path, 'more'),
  ]) {
    const path = file('spoilt.bin', big);
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    app.use(async (_req, next) => {
      const response = await next();
      spoil(path);
      return response;
    });
    app.get('/', () => new FileResponse(path));
    const server = await app.run({ port: 0, handleSignals: false });
    const client = await RawClient.open(server.port);
    const bytes = await client.get('/').ended();
    await server.close();
    for (
      let turns = 0;
      turns < 1_000 && events.every((event) => event['event'] !== 'response_failed');
      turns++
    )
      await new Promise((resolve) => setImmediate(resolve)); // the file is closed first
    assert.ok(bytes.length < 600_000 && bytes.includes('Content-Length: 600001'));
    assert.ok(events.some((event) => event['event'] === 'response_failed'));
  }
});

test('FileResponse closes its file when the response is discarded', async () => {
  const path = file('discarded.txt', big);
  const response = new FileResponse(path);
  const answer = await response.settle(GET);
  assert.equal(openPaths(path), 1);
  await discard(answer.body as Chunks);
  assert.equal(openPaths(path), 0);
});

test('FileResponse accepts a status, header fields, a media type and a download name', async () => {
  const response = new FileResponse(hello, {
    filename: '../up/b\u00e9"\r\n.csv',
    status: 203,
    headers: { 'X-A': '1' },
  });
  assert.equal(response.status, 203);
  assert.deepEqual(
    [...response.headers],
    [
      ['Content-Type', 'text/csv; charset=utf-8'],
      ['X-A', '1'],
      ['Content-Disposition', `attachment; filename="b____.csv"; filename*=UTF-8''b%C3%A9%22%0D%0A.csv`],
    ],
  );
  assert.equal(new FileResponse(hello, { mediaType: 'a/b' }).headers.get('content-type'), 'a/b');
});

/** Writes a file that counts as old, so that its validators are strong. */
function old(name: string, content: string | Uint8Array): string {
  const path = file(name, content);
  utimesSync(path, 784_111_777, 784_111_777);
  return path;
}
const THEN = 'Sun, 06 Nov 1994 08:49:37 GMT';
const digits = '0123456789';
const smallAndLarge = [
  ['small', old('digits.txt', digits), 10],
  ['large', old('large.bin', big), big.length],
] as const;

for (const [size, path, length] of smallAndLarge) {
  const content = size === 'small' ? Buffer.from(digits) : big;

  test(`FileResponse sends validators, and answers 304 to a client that has the current content (${size} file)`, async () => {
    await using it = await served(
      () => new FileResponse(path, { headers: { 'Cache-Control': 'no-cache', 'X-Own': '1' } }),
    );
    const answer = await it.client.get('/').answer();
    const etag = answer.field('etag')!;
    assert.match(etag, /^"[0-9a-z]+-[0-9a-z]+"$/);
    assert.deepEqual(
      [
        answer.status,
        answer.field('last-modified'),
        answer.field('accept-ranges'),
        answer.field('content-length'),
      ],
      [200, THEN, 'bytes', String(length)],
    );
    assert.ok(answer.body.equals(content));
    for (const fields of [
      `If-None-Match: ${etag}\r\n`,
      `If-None-Match: W/${etag}\r\n`,
      `If-None-Match: "a", ${etag}\r\nIf-Modified-Since: Sun, 06 Nov 1990 08:49:37 GMT\r\n`,
      `If-Modified-Since: ${THEN}\r\n`,
      `If-None-Match: ${etag}\r\nRange: bytes=0-1\r\n`,
    ]) {
      const same = await it.client.get('/', fields).answer();
      assert.deepEqual(
        [same.status, same.body.length, same.field('etag'), same.field('cache-control'), same.field('x-own')],
        [304, 0, etag, 'no-cache', '1'],
      );
      for (const name of ['content-type', 'content-length', 'last-modified', 'accept-ranges'])
        assert.equal(same.field(name), undefined, name);
    }
    assert.equal(
      (
        await it.client
          .get('/', 'If-None-Match: "other"\r\nIf-Modified-Since: Sun, 06 Nov 2050 08:49:37 GMT\r\n')
          .answer()
      ).status,
      200,
    );
    const head = await it.client
      .send(`HEAD / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n`)
      .answer('HEAD');
    assert.deepEqual(
      [head.status, head.field('content-length'), head.field('etag')],
      [200, String(length), etag],
    ); // ranges are for GET alone, RFC 9110 §14.2
    assert.equal(
      (await it.client.send(`HEAD / HTTP/1.1\r\nHost: a\r\nIf-None-Match: ${etag}\r\n\r\n`).answer('HEAD'))
        .status,
      304,
    );
  });

  test(`FileResponse answers a request for one range with status 206 and the bytes of the range (${size} file)`, async () => {
    await using it = await served(() => new FileResponse(path));
    for (const [range, start, end] of [
      ['0-3', 0, 4],
      ['-4', length - 4, length],
      [`${length - 1}-`, length - 1, length],
      ['2-', 2, length],
      [`0-1, ${length}-`, 0, 2],
    ] as const) {
      const answer = await it.client.get('/', `Range: bytes=${range}\r\n`).answer();
      assert.deepEqual(
        [
          answer.status,
          answer.field('content-range'),
          answer.field('content-length'),
          answer.field('content-type'),
        ],
        [
          206,
          `bytes ${start}-${end - 1}/${length}`,
          String(end - start),
          size === 'small' ? 'text/plain; charset=utf-8' : 'application/octet-stream',
        ],
      );
      assert.ok(answer.body.equals(content.subarray(start, end)), range);
    }
  });

  test(`FileResponse answers a request for several ranges with a multipart/byteranges body (${size} file)`, async () => {
    await using it = await served(() => new FileResponse(path));
    const last = length - 1;
    const answer = await it.client.get('/', `Range: bytes=0-1,4-6,-1\r\n`).answer();
    const boundary = /^multipart\/byteranges; boundary=(\S+)$/.exec(answer.field('content-type')!)![1]!;
    const type = size === 'small' ? 'text/plain; charset=utf-8' : 'application/octet-stream';
    const part = (start: number, end: number): string =>
      `--${boundary}\r\nContent-Type: ${type}\r\nContent-Range: bytes ${start}-${end}/${length}\r\n\r\n${content.toString('latin1', start, end + 1)}\r\n`;
    assert.deepEqual([answer.status, answer.field('content-range'), answer.isWhole], [206, undefined, true]);
    assert.equal(answer.text(), `${part(0, 1)}${part(4, 6)}${part(last, last)}--${boundary}--\r\n`);
  });

  test(`FileResponse answers unsatisfiable ranges with 416 and failed preconditions with 412, as problem+json (${size} file)`, async () => {
    await using it = await served(() => new FileResponse(path));
    const outside = await it.client.get('/', `Range: bytes=${length}-\r\n`).answer();
    assert.deepEqual(
      [outside.status, outside.field('content-range'), outside.field('content-type')],
      [416, `bytes */${length}`, 'application/problem+json'],
    );
    for (const fields of [
      'If-Match: "other"\r\n',
      'If-Unmodified-Since: Sun, 06 Nov 1990 08:49:37 GMT\r\n',
    ]) {
      const failed = await it.client.get('/', fields).answer();
      assert.deepEqual([failed.status, failed.field('content-type')], [412, 'application/problem+json']);
    }
    for (const range of ['bytes=5-4', 'lines=1-2', 'bytes=0-5,3-8', 'bytes='])
      assert.equal((await it.client.get('/', `Range: ${range}\r\n`).answer()).status, 200, range);
  });

  test(`FileResponse sends a range only if If-Range matches the current content (${size} file)`, async () => {
    await using it = await served(() => new FileResponse(path));
    const etag = (await it.client.get('/').answer()).field('etag')!;
    for (const [condition, status] of [
      [etag, 206],
      [`W/${etag}`, 200],
      ['"other"', 200],
      [THEN, 206],
      ['Sun, 06 Nov 1994 08:49:38 GMT', 200],
    ] as const) {
      const answer = await it.client.get('/', `Range: bytes=1-2\r\nIf-Range: ${condition}\r\n`).answer();
      assert.deepEqual([answer.status, answer.body.length], [status, status === 206 ? 2 : length], condition);
    }
    assert.equal(
      (await it.client.get('/', `Range: bytes=${length}-\r\nIf-Range: "other"\r\n`).answer()).status,
      200,
    );
  });
}

test('FileResponse sends weak validators for a file modified within the last second, and ignores If-Range for such a file', async () => {
  const path = file('young.txt', digits);
  const inAMinute = Date.now() / 1_000 + 60; // stays new on a slow machine
  utimesSync(path, inAMinute, inAMinute);
  await using it = await served(() => new FileResponse(path));
  const answer = await it.client.get('/').answer();
  assert.match(answer.field('etag')!, /^W\/"/);
  assert.equal(
    (await it.client.get('/', `If-None-Match: ${answer.field('etag')!}\r\n`).answer()).status,
    304,
  );
  for (const condition of [answer.field('etag')!, answer.field('last-modified')!])
    assert.equal(
      (await it.client.get('/', `Range: bytes=1-2\r\nIf-Range: ${condition}\r\n`).answer()).status,
      200,
    );
  utimesSync(path, 4_102_444_800, 4_102_444_800); // Last-Modified must not be in the future (RFC 9110 §8.8.2.1)
  assert.ok(Date.parse((await it.client.get('/').answer()).field('last-modified')!) <= Date.now());
});

test('FileResponse compares If-None-Match and If-Unmodified-Since with the ETag and Last-Modified that the handler has set', async () => {
  await using it = await served(
    () =>
      new FileResponse(smallAndLarge[0][1], {
        headers: { ETag: '"mine"', 'Last-Modified': 'Mon, 07 Nov 1994 08:49:37 GMT' },
      }),
  );
  assert.equal((await it.client.get('/').answer()).field('etag'), '"mine"');
  assert.equal((await it.client.get('/', 'If-None-Match: "mine"\r\n').answer()).status, 304);
  assert.equal((await it.client.get('/', `If-Unmodified-Since: ${THEN}\r\n`).answer()).status, 412);
});

test('FileResponse ignores ranges and conditions if its status is not 200, or if the method is not GET or HEAD', async () => {
  const path = smallAndLarge[0][1];
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/missing', () => new FileResponse(path, { status: 404 })).post('/', () => new FileResponse(path));
  const server = await app.run({ port: 0, handleSignals: false });
  await using client = await RawClient.open(server.port);
  const fields = 'Range: bytes=0-1\r\nIf-Match: "other"\r\nIf-None-Match: *\r\n';
  const missing = await client.get('/missing', fields).answer();
  assert.deepEqual([missing.status, missing.text(), missing.field('etag')], [404, digits, undefined]);
  const posted = await client
    .send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n${fields}\r\n`)
    .answer();
  assert.deepEqual([posted.status, posted.text(), posted.field('accept-ranges')], [200, digits, undefined]);
  await server.close();
});

test('FileResponse closes its file after a full response, a range, a 304 or a HEAD, and when middleware replaces the response', async () => {
  const path = old('closed.bin', big);
  const app = new Svc({ logger: collectedLog().logger });
  app.use(async (req, next) => {
    const answer = await next();
    return req.query.get('other') === undefined ? answer : 'other';
  });
  app.get('/', () => new FileResponse(path));
  const server = await app.run({ port: 0, handleSignals: false });
  await using client = await RawClient.open(server.port);
  for (const fields of [
    '',
    'Range: bytes=100-400000\r\n',
    'Range: bytes=0-1,5-6\r\n',
    'If-None-Match: *\r\n',
    'If-Match: "x"\r\n',
    'Range: bytes=999999-\r\n',
  ])
    await client.get('/', fields).answer();
  await client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.equal((await client.get('/?other=1').answer()).text(), 'other');
  const response = await app.fetch(new Request('http://a.example/'));
  await response.body!.cancel();
  assert.ok(Buffer.from(await (await app.fetch(new Request('http://a.example/'))).arrayBuffer()).equals(big));
  await server.close();
  assert.equal(openPaths(path), 0);
});

test('FileResponse closes its file when the client leaves during the response, and when the client never reads the response', async () => {
  const path = old('left.bin', Buffer.alloc(40_000_000));
  await using it = await served(() => new FileResponse(path));
  for (let round = 0; round < 5; round++) {
    const client = await RawClient.open(it.port);
    client.socket.pause();
    client.get('/');
    while (openPaths(path) === 0) await new Promise((resolve) => setImmediate(resolve));
    client.socket.destroy();
    while (openPaths(path) > 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error'),
    [],
  );
});

test('for generated ranges, FileResponse sends exactly the requested bytes, both through app.fetch() and over a socket', async () => {
  const random = seeded(206);
  for (const [size, path, length] of smallAndLarge) {
    const content = size === 'small' ? Buffer.from(digits) : big;
    const app = new Svc({ logger: collectedLog().logger }).get(
      '/',
      () => new FileResponse(pathToFileURL(path)),
    );
    const server = await app.run({ port: 0, handleSignals: false });
    await using client = await RawClient.open(server.port);
    for (let round = 0; round < 60; round++) {
      const cuts = Array.from({ length: 2 * (1 + random(3)) }, () => random(length)).sort(
        (left, right) => left - right,
      );
      const wanted = cuts.flatMap((start, index) =>
        index % 2 === 0 && start <= cuts[index + 1]! && start > (cuts[index - 1] ?? -1)
          ? [[start, cuts[index + 1]!] as const]
          : [],
      );
      const range = `bytes=${wanted.map(([first, last]) => `${first}-${last}`).join(', ')}`;
      const inMemory = await app.fetch(new Request('http://a.example/', { headers: { range } }));
      const answer = await client.get('/', `Range: ${range}\r\n`).answer();
      const bodies = [
        [Buffer.from(await inMemory.arrayBuffer()), inMemory.headers.get('content-type')!],
        [answer.body, answer.field('content-type')!],
      ] as const;
      for (const [body, type] of bodies) {
        const boundary = /boundary=(\S+)/.exec(type)?.[1];
        const parts =
          boundary === undefined
            ? [body.toString('latin1')]
            : body
                .toString('latin1')
                .split(`--${boundary}`)
                .slice(1, -1)
                .map((part) => part.slice(part.indexOf('\r\n\r\n') + 4, -2));
        assert.deepEqual(
          parts.map((part) => part.length),
          wanted.map(([first, last]) => last - first + 1),
          range,
        );
        assert.ok(
          parts.every(
            (part, index) => part === content.toString('latin1', wanted[index]![0], wanted[index]![1] + 1),
          ),
          range,
        );
      }
      assert.deepEqual([inMemory.status, answer.status, answer.isWhole], [206, 206, true]);
    }
    await server.close();
  }
});

test('curl reads a FileResponse completely and in ranges, and resumes an interrupted download', async (t) => {
  if (spawnSync('curl', ['--version']).status !== 0) return t.skip('no curl');
  const path = old('curl.bin', big);
  await using it = await served(() => new FileResponse(path));
  const url = `${it.url}/`;
  const curl = (...args: string[]): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      execFile(
        'curl',
        ['-sS', '--max-time', '20', ...args, url],
        { encoding: 'buffer', maxBuffer: 10_000_000 },
        (error, stdout) => {
          if (error === null) resolve(stdout);
          else reject(error);
        },
      );
    });
  assert.ok((await curl()).equals(big));
  assert.ok((await curl('-r', '100-300000')).equals(big.subarray(100, 300_001)));
  assert.ok((await curl('-r', '-500')).equals(big.subarray(-500)));
  assert.match(
    (await curl('-r', '0-1,5-6')).toString(),
    /^--\S+\r\nContent-Type: application\/octet-stream\r\nContent-Range: bytes 0-1\/600001\r\n\r\nab\r\n--/,
  );
  const half = join(directory, 'half');
  writeFileSync(half, big.subarray(0, 250_000));
  await curl('-C', '-', '-o', half);
  assert.ok(readFileSync(half).equals(big));
  assert.equal(
    String(await curl('-o', '/dev/null', '-w', '%{http_code}', '-z', 'Mon, 07 Nov 1994 08:49:37 GMT')),
    '304',
  );
  const web = await fetch(url, { headers: { range: 'bytes=5-9' } });
  assert.deepEqual(
    [web.status, await web.text(), web.headers.get('content-range')],
    [206, 'fgabc', 'bytes 5-9/600001'],
  );
});
