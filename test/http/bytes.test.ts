import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompressionMiddleware, ETagMiddleware, HttpResponse, StreamingResponse, Svc } from 'svc';
import { collectedLog } from '../support/collected-log.ts';
import { served } from '../support/served.ts';
import { viewsOf } from '../support/views.ts';

const TEXT = 'four bytes, and more of them';
const VIEWS = viewsOf(Buffer.from(TEXT));

/** An application with a route for each kind of view and each way of sending it. */
function application(): Svc {
  const app = new Svc({ logger: collectedLog().logger });
  VIEWS.forEach(([, view], index) => {
    app.get(`/reply/${index}`, () => view);
    app.get(`/status/${index}`, () => [view, 200]);
    app.get(`/response/${index}`, () => new HttpResponse(view));
    app.get(
      `/replaced/${index}`,
      {
        use: [
          async (_req, next) => {
            const response = await next();
            response.body = view;
            return response;
          },
        ],
      },
      () => 'text',
    );
    app.get(`/chunks/${index}`, () => new StreamingResponse([view, view]));
    app.get(`/stream/${index}`, () => new StreamingResponse(ReadableStream.from([view])));
    app.get(`/counted/${index}`, () => new StreamingResponse([view], { contentLength: TEXT.length }));
  });
  return app;
}

const WAYS = ['reply', 'status', 'response', 'replaced', 'chunks', 'stream', 'counted'];

test('every kind of ArrayBuffer and ArrayBuffer view can be a reply, a response body or a chunk of a stream', async () => {
  await using server = await served(application());
  for (const [index, [what]] of VIEWS.entries()) {
    for (const way of WAYS) {
      const answer = await server.ask('GET', `/${way}/${index}`);
      assert.equal(answer.text(), way === 'chunks' ? TEXT + TEXT : TEXT, `${what}, ${way}`);
      assert.equal(answer.isWhole, true);
    }
  }
});

test('app.fetch() returns the bytes of every kind of ArrayBuffer and ArrayBuffer view, also if middleware reads the body', async () => {
  const app = application();
  app.use(new ETagMiddleware());
  app.use(new CompressionMiddleware({ thresholdBytes: 1 }));
  for (const [index, [what]] of VIEWS.entries()) {
    for (const way of WAYS) {
      const response = await app.fetch(
        new Request(`http://a.example/${way}/${index}`, { headers: { 'Accept-Encoding': 'identity' } }),
      );
      assert.equal(await response.text(), way === 'chunks' ? TEXT + TEXT : TEXT, `${what}, ${way}`);
    }
  }
});
