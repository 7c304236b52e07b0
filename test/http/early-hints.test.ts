import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import { fakeRequest } from '../support/transport.ts';
import type { HttpRequest } from '../../src/http/contracts.ts';

async function ask(
  bytes: string,
  hint: (req: HttpRequest) => unknown,
): Promise<{ client: RawClient } & AsyncDisposable> {
  const app = new Svc({ logger: collectedLog().logger }).get('/', ({ req }) => hint(req));
  const { port, close } = await app.run({ port: 0, handleSignals: false });
  const client = await RawClient.open(port);
  client.send(bytes);
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await close();
    },
  };
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

test('req.earlyHints() sends status 103 with Link fields before the response (RFC 8297)', async () => {
  await using it = await ask(GET, (req) =>
    req.earlyHints([
      '</app.css>; rel=preload; as=style',
      '<https://cdn.example>; rel="preconnect"; crossorigin',
    ]),
  );
  const hints = await it.client.answer();
  assert.equal(hints.status, 103);
  assert.equal(
    hints.field('link'),
    '</app.css>; rel=preload; as=style, <https://cdn.example>; rel="preconnect"; crossorigin',
  );
  assert.equal((await it.client.answer()).text(), 'true');
});

test('req.earlyHints() sends the hints for each pipelined request directly before the response to that request', async () => {
  let count = 0;
  await using it = await ask(GET.repeat(2), async (req) => {
    req.earlyHints(`</${++count}>; rel=preload`);
    return 'answer';
  });
  for (const n of [1, 2]) {
    assert.equal((await it.client.answer()).field('link'), `</${n}>; rel=preload`);
    assert.equal((await it.client.answer()).text(), 'answer');
  }
});

test('req.earlyHints() sends nothing if the client uses HTTP/1.0, the list of links is empty, or the request has no socket', async () => {
  await using it = await ask('GET / HTTP/1.0\r\n\r\n', (req) => req.earlyHints('</a>; rel=preload'));
  assert.equal((await it.client.answer()).text(), 'false');
  await using empty = await ask(GET, (req) => req.earlyHints([]));
  assert.equal((await empty.client.answer()).text(), 'false');
  assert.equal(fakeRequest().req.earlyHints('</a>; rel=preload'), false);
});

test('req.earlyHints() refuses invalid links and header injection with E_HEADER', () => {
  const { req } = fakeRequest();
  for (const bad of [
    '',
    '/a',
    '</a>',
    '</a>; rel=preload\r\nX: y',
    '</a>; rel=preload\n',
    '</a b>; rel=preload',
    '<>; rel=preload',
    '</a>; rel="a b"',
    '</a>; rel=a, </b>; rel=b',
    '</\u00e9>; rel=preload',
    `</a>${'; a'.repeat(20_000)}!"`,
  ]) {
    assert.throws(() => req.earlyHints(bad), { code: 'E_HEADER' }, bad.slice(0, 40));
  }
  assert.throws(() => req.earlyHints([5 as unknown as string]), { code: 'E_HEADER' });
});
