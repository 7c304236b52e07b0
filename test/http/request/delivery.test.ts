import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { CountedChunks } from '../../../src/http/request/delivery.ts';
import { iterate } from '../../../src/http/chunks.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { Chunks } from '../../../src/http/chunks.ts';

const SOURCES: Readonly<Record<string, () => Chunks>> = {
  'a list': () => ['é', '', Buffer.from('xyz')],
  'an async generator': async function* () {
    yield 'é';
    yield Buffer.from('xyz');
  },
  'a web stream': () => ReadableStream.from(['é', Buffer.from('xyz')]),
  'a Node stream': () => Readable.from(['é', Buffer.from('xyz')]),
};

for (const [name, source] of Object.entries(SOURCES)) {
  test(`CountedChunks yields the chunks of its source, and counts their bytes (source: ${name})`, async () => {
    let bytes = 0;
    const parts: Buffer[] = [];
    for await (const chunk of new CountedChunks(source(), (more) => {
      bytes += more;
    }))
      parts.push(Buffer.from(chunk));
    assert.equal(Buffer.concat(parts).toString(), 'éxyz');
    assert.equal(bytes, 5);
  });

  test(`if a loop over CountedChunks ends early, the iterator is closed, unless its source is a list (source: ${name})`, async () => {
    let bytes = 0;
    const chunks = iterate(
      new CountedChunks(source(), (more) => {
        bytes += more;
      }),
    );
    await chunks.next();
    await chunks.return?.();
    assert.equal((await chunks.next()).done, name === 'a list' ? false : true); // a list has nothing to end
    assert.equal(bytes >= 2, true);
  });
}

test('the access log has the number of bytes of a streamed response, both over a socket and for a TestClient without a socket', async (t) => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, accessLog: true });
  app.get('/', () => new StreamingResponse(['é', 'xyz']));
  app.get('/nothing', () => new StreamingResponse([], { status: 204 }));
  for (const listen of [false, true]) {
    const client = new TestClient(app, { listen });
    t.after(() => client.close());
    assert.equal(await (await client.get('/')).text(), 'éxyz');
    await client.head('/');
    await client.get('/nothing');
  }
  while (events.filter((line) => line['logger'] === 'svc_access').length < 6)
    await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    events.filter((line) => line['logger'] === 'svc_access').map((line) => line['bytes']),
    [5, 0, 0, 5, 0, 0],
  );
});
