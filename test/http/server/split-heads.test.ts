/**
 * Heads in several chunks: the value of a field does not depend on where its bytes were split.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { CompressionMiddleware, FileResponse, Svc } from 'svc';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient } from '../../support/raw-http.ts';

/** Texts for each part of a head: valid ones, and similar invalid ones. */
const PARTS = {
  target: [
    'a=1',
    '&',
    '=',
    '%',
    '%41',
    '%zz',
    '+',
    'a',
    '%00',
    '%C3%A9',
    '%ff',
    '?',
    '&&',
    '__proto__=x',
    'é',
  ],
  Cookie: ['a=1', '; ', ';', '=', 'a', '"b"', ',', ' ', '__proto__=x', '%41', '\xe9', '"'],
  Range: [
    'bytes=',
    '0-9',
    '-5',
    '5-',
    ',',
    ' ',
    '0-0',
    '9-1',
    '99999999999999999999-',
    'bytes',
    '=',
    '-',
    'items=0-1',
  ],
  'X-Forwarded-For': ['203.0.113.7', ', ', ',', '10.0.0.1', '[::1]', ':80', 'unknown', '"', 'x', '::1', ' '],
  Forwarded: [
    'for=203.0.113.7',
    'for="[2001:db8::1]:80"',
    ';',
    ',',
    'proto=https',
    'host=a',
    '"',
    '\\',
    '=',
    'by=_x',
    ' ',
  ],
  'Accept-Encoding': [
    'gzip',
    'br',
    'zstd',
    ';q=0',
    ';q=0.5',
    ';q=2',
    ',',
    ' ',
    '*',
    'identity',
    ';',
    '=',
    '"',
  ],
} as const;

function site(forwardedHeader: 'x-forwarded' | 'forwarded'): Svc {
  const app = new Svc({ logger: collectedLog().logger, trustProxy: ['loopback'], forwardedHeader });
  app.use(new CompressionMiddleware());
  app.get('/read', ({ req }) => ({
    query: [...req.query.keys()].map((name) => [name, req.query.getAll(name)]),
    cookies: Object.entries(req.cookies),
    ip: req.ip,
    scheme: req.scheme,
    text: 'x'.repeat(1_024),
  }));
  app.get('/file', () => new FileResponse(import.meta.filename));
  return app;
}

/** Returns a response without its request id and date. */
async function answerTo(client: RawClient): Promise<unknown> {
  const { status, fields, body } = await client.answer();
  const boundary = /boundary=(.*)/.exec(fields.get('content-type')?.[0] ?? '')?.[1];
  const reported = ['content-encoding', 'content-range', 'content-length'].map((name) => fields.get(name));
  const content =
    boundary === undefined
      ? body.toString('latin1')
      : body.toString('latin1').replaceAll(boundary, 'boundary');
  return { status, told: reported, content: status < 400 ? content : JSON.parse(body.toString()).detail };
}

test('the target, Cookie, Range, Forwarded, X-Forwarded-For and Accept-Encoding are parsed the same wherever the request head is split', async (t) => {
  const random = seeded(5);
  const text = (parts: readonly string[]): string =>
    Array.from({ length: 1 + random(6) }, () => parts[random(parts.length)]!).join('');
  for (const family of ['x-forwarded', 'forwarded'] as const) {
    const server = await site(family).run({ port: 0, handleSignals: false });
    t.after(() => server.close());
    for (let round = 0; round < 8; round++) {
      const { target, ...fields } = PARTS;
      const lines = Object.entries(fields)
        .map(([name, parts]) => `${name}: ${text(parts)}\r\n`)
        .join('');
      const query = text(target).replaceAll(/[^\x21-\x7e]/g, '%C3%A9'); // other bytes are refused: refusals.test.ts
      const head = `GET /${round % 2 === 0 ? 'read' : 'file'}?${query} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`;
      await using whole = await RawClient.open(server.port);
      const expected = await answerTo(whole.send(head));
      await using client = await RawClient.open(server.port);
      client.socket.setNoDelay(true);
      for (let at = 1; at < head.length; at++) {
        client.send(head.slice(0, at));
        await new Promise((resolve) => setImmediate(resolve));
        assert.deepEqual(await answerTo(client.send(head.slice(at))), expected, `${head} cut at ${at}`);
      }
    }
  }
});
