/**
 * Responses to HEAD, and 304: both have the fields of the 200, on a socket.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  CompressionMiddleware,
  ETagMiddleware,
  EventStreamResponse,
  FileResponse,
  HttpResponse,
  NDJSONResponse,
  StreamingResponse,
  Svc,
  TextResponse,
} from 'svc';
import { collectedLog } from '../support/collected-log.ts';
import { served } from '../support/served.ts';
import type { Middleware } from 'svc';
import type { RawAnswer } from '../support/raw-http.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-head-'));
after(() => rmSync(folder, { recursive: true }));
const LONG = 'All work and no play. '.repeat(200);
writeFileSync(join(folder, 'small.txt'), LONG);
writeFileSync(join(folder, 'large.txt'), LONG.repeat(40));
writeFileSync(join(folder, 'short.txt'), 'x');
writeFileSync(join(folder, 'image.png'), LONG);
// the tag of a new file is weak, and becomes strong between two requests
for (const name of ['small.txt', 'large.txt', 'short.txt', 'image.png'])
  utimesSync(join(folder, name), 784_111_777, 784_111_777);

const PATHS = [
  '/json',
  '/text',
  '/long',
  '/bytes',
  '/tagged',
  '/own-tag',
  '/nothing',
  '/file',
  '/large-file',
  '/stream',
  '/counted',
  '/lines',
  '/web',
  '/uncompressed',
  '/static/small.txt',
  '/static/large.txt',
  '/static/short.txt',
  '/static/image.png',
  '/docs',
  '/openapi.json',
  '/healthz',
  '/readyz',
  '/metrics',
  '/not-there',
];

function application(layers: readonly Middleware[]): Svc {
  const app = new Svc({ logger: collectedLog().logger, enableDocs: true, env: 'test' });
  for (const layer of layers) app.use(layer);
  app
    .get('/json', () => ({ a: 1 }))
    .get('/text', () => 'caf\u00e9')
    .get('/long', () => LONG)
    .get('/bytes', () => Buffer.from(LONG))
    .get('/nothing', () => new HttpResponse())
    .get('/tagged', { use: [new ETagMiddleware()] }, () => LONG)
    .get(
      '/own-tag',
      { use: [new ETagMiddleware()] },
      () => new TextResponse(LONG, { headers: { ETag: '"a"' } }),
    )
    .get(
      '/uncompressed',
      { meta: { compress: false }, use: [new ETagMiddleware()] },
      () => new TextResponse(LONG, { headers: { ETag: '"a"' } }),
    )
    .get('/file', () => new FileResponse(join(folder, 'small.txt')))
    .get('/large-file', () => new FileResponse(join(folder, 'large.txt')))
    .get('/stream', () => new StreamingResponse([LONG]))
    .get('/counted', () => new StreamingResponse([LONG], { contentLength: LONG.length }))
    .get('/lines', () => new NDJSONResponse([{ a: 1 }]))
    .get('/events', () => new EventStreamResponse([{ data: 'x' }]))
    .get('/web', () => new Response(LONG));
  app.mountStatic('/static', folder);
  return app;
}

/** Header fields that differ between two responses to equal requests. */
const OF_ONE: ReadonlySet<string> = new Set([
  'date',
  'x-request-id',
  'content-length',
  'transfer-encoding',
  'content-security-policy',
]);

function fieldsOf({ fields }: RawAnswer): Record<string, readonly string[]> {
  return Object.fromEntries([...fields].filter(([name]) => !OF_ONE.has(name)).sort());
}

const LAYERS: readonly (readonly [string, () => readonly Middleware[]])[] = [
  ['no layers', () => []],
  ['compression', () => [new CompressionMiddleware()]],
  ['compression and tags', () => [new CompressionMiddleware(), new ETagMiddleware()]],
];

for (const [what, layers] of LAYERS) {
  for (const accepted of ['identity', 'gzip']) {
    const asked = `Accept-Encoding: ${accepted}\r\n`;
    test(`HEAD has the same status, header fields and length as GET (RFC 9110 §9.3.2), with ${what} and Accept-Encoding: ${accepted}`, async () => {
      await using server = await served(application(layers()));
      for (const path of PATHS) {
        const get = await server.ask('GET', path, `${asked}\r\n`);
        const head = await server.ask('HEAD', path, `${asked}\r\n`);
        assert.deepEqual([head.status, head.body.length], [get.status, 0], path);
        assert.deepEqual(fieldsOf(head), fieldsOf(get), path);
        const length = head.field('content-length');
        if (length !== undefined && path !== '/metrics' && path !== '/not-there')
          assert.equal(length, String(get.body.length), path); // the other fields differ between responses
        if (accepted === 'identity' && get.field('content-length') !== undefined && path !== '/docs')
          assert.ok(length !== undefined, path);
      }
    });

    test(`a 304 has the same ETag, Vary and Cache-Control as the 200 (RFC 9110 §15.4.5), with ${what} and Accept-Encoding: ${accepted}`, async () => {
      await using server = await served(application(layers()));
      let count = 0;
      for (const path of PATHS) {
        const whole = await server.ask('GET', path, `${asked}\r\n`);
        const tag = whole.field('etag');
        if (tag === undefined) continue;
        count++;
        const opaque = tag.replace(/^W\//, '');
        for (const condition of [tag, opaque, `W/${opaque}`, '*']) {
          const known = await server.ask('GET', path, `${asked}If-None-Match: ${condition}\r\n\r\n`);
          assert.equal(known.status, 304, path);
          for (const field of ['etag', 'vary', 'cache-control'])
            assert.equal(known.field(field), whole.field(field), `${path} ${field} for ${condition}`);
        }
      }
      assert.ok(count >= 8);
    });
  }
}

test('ETagMiddleware and /openapi.json answer 412 if If-Match or If-Unmodified-Since fails (RFC 9110 §13.1.1)', async () => {
  await using server = await served(application([]));
  for (const path of ['/own-tag', '/openapi.json']) {
    const tag = (await server.ask('GET', path)).field('etag')!;
    for (const [condition, status] of [
      [`If-Match: ${tag}`, 200],
      ['If-Match: *', 200],
      ['If-Match: "other"', 412],
      [`If-Match: W/${tag}`, 412],
    ] as const)
      assert.equal((await server.ask('GET', path, `${condition}\r\n\r\n`)).status, status, condition);
  }
  const weak = (await server.ask('GET', '/tagged')).field('etag')!;
  assert.match(weak, /^W\//);
  assert.equal(
    (await server.ask('GET', '/tagged', `If-Match: ${weak}\r\n\r\n`)).status,
    412,
    'weak tags never match',
  );
});
