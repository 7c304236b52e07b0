/**
 * The tracer for OpenTelemetry in the manual, with the SDK and the packages that the manual names, and with a
 * collector that receives OTLP: all spans of a request are in one trace, and log lines have its ids.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { manual } from '../support/manuals.ts';
import { project, start } from '../support/run.ts';
import { scratch } from '../support/scratch.ts';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Running, Scope } from '../support/run.ts';

before(build);

const PACKAGES = {
  '@opentelemetry/api': '1.9.1',
  '@opentelemetry/sdk-node': '0.223.0',
};
const SERVER_KIND = 2;
const FAILED = 2;
const TRACE = '12345678901234567890123456789012';
const CALLER = '1234567890123456';

const APP = `
import { trace } from '@opentelemetry/api';
import { Depends, StreamingResponse, Svc, traceHeaders } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { telemetry, tracer } from './telemetry.js';

export const app = new Svc({ tracer, accessLog: true });
app.register(telemetry());
app.register(new DatabasePlugin('sqlite::memory:'));
const own = trace.getTracer('shop');
const look = (db, name) => own.startActiveSpan(name, async (span) => {
  await db.scalar('select 1');
  span.end();
});

app.get('/books/{id:int}', { db: Depends(db) }, async function show({ db, req }) {
  await look(db, 'own');
  return { id: req.trace.spanId, sent: traceHeaders(req) };
});
app.get('/stream', { db: Depends(db) }, ({ db }) => new StreamingResponse((async function* () {
  yield 'a';
  await look(db, 'own of stream');
  yield 'b';
})()));
app.get('/fails', () => { throw new RangeError('broken'); });
app.websocket('/echo', { allowMissingOrigin: true, db: Depends(db) }).onMessage(async (socket, message, { db }) => {
  await look(db, 'own of message');
  socket.send(message);
});
`;

interface ExportedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
  readonly events: readonly { readonly name: string }[];
}

/** A collector of OpenTelemetry, and the spans that it has received. */
async function collector(t: Scope): Promise<{ url: string; spans: ExportedSpan[] }> {
  const spans: ExportedSpan[] = [];
  const server = createServer((req, res) => {
    let text = '';
    req.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    req.on('end', () => {
      if (req.url === '/v1/traces') {
        const { resourceSpans } = JSON.parse(text) as {
          resourceSpans: { scopeSpans: { spans: ExportedSpan[] }[] }[];
        };
        spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)));
      }
      res.setHeader('Content-Type', 'application/json').end('{}');
    });
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', () => listening.resolve());
  await listening.promise;
  t.after(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans };
}

interface Site {
  readonly base: string;
  /** Stops the application, and returns the exported spans and the log lines. */
  stop(): Promise<{ spans: readonly ExportedSpan[]; lines: readonly Record<string, unknown>[] }>;
}

/** Serves the application with the tracer of the manual. Returns undefined without a registry. */
async function site(t: TestContext, ...options: readonly string[]): Promise<Site | undefined> {
  const packages = scratch(t, 'opentelemetry', PACKAGES);
  if (packages === undefined) return undefined;
  const [, bridge] =
    /```js\n(\/\/ src\/telemetry\.js\n[^]*?)```/.exec(manual('src/operations/README.md')) ??
    assert.fail('the manual has lost the tracer');
  const cwd = project(t, { 'telemetry.js': bridge!, 'app.js': APP });
  symlinkSync(join(packages, 'node_modules', '@opentelemetry'), join(cwd, 'node_modules', '@opentelemetry'));
  const { url, spans } = await collector(t);
  const args = [BIN, 'run', 'app.js', '--no-check', '--port', '0', ...options];
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_SERVICE_NAME: 'books',
  };
  const running: Running = start(t, process.execPath, args, { cwd, env });
  const [, base] = await running.printed(/"url":"(http[^"]+)"/);
  return {
    base: base!,
    async stop() {
      running.child.kill('SIGTERM');
      const { status, stderr } = await running.ended;
      assert.equal(status, 0, stderr);
      const lines = stderr.split('\n').filter((line) => line.startsWith('{'));
      return { spans, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
    },
  };
}

/** Returns the names of the spans of a trace as lines, each indented below its parent. */
function tree(spans: readonly ExportedSpan[], parentId: string | undefined, indent = ''): string[] {
  return spans
    .filter((span) => (span.parentSpanId || undefined) === parentId)
    .flatMap((span) => [indent + span.name, ...tree(spans, span.spanId, `${indent}  `)]);
}

function attributesOf({ attributes }: ExportedSpan): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

const BOOK = ['GET /books/{id:int}', '  dependency db', '  handler show', '    own', '      SELECT :memory:'];

test('with the tracer of the manual, all spans of a request are in one trace: that of traceparent, or a new one', async (t) => {
  const it = await site(t);
  if (it === undefined) return;
  const sent: Record<string, string>[] = [
    {},
    { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: 'foo=1' },
    { traceparent: `00-${TRACE.replace('1', '2')}-${CALLER}-00` },
    { traceparent: `00-${TRACE}-${CALLER}` },
  ];
  const bodies: { id: string; sent: Record<string, string> }[] = [];
  for (const headers of sent)
    bodies.push((await (await fetch(`${it.base}/books/7`, { headers })).json()) as (typeof bodies)[0]);
  const { spans, lines } = await it.stop();
  const requests = spans.filter(({ kind, name }) => kind === SERVER_KIND && name === BOOK[0]);
  assert.equal(requests.length, 3, 'the request that is not sampled has no span');
  const [fresh, continued, invalid] = [0, 1, 3].map(
    (at) =>
      requests.find(({ spanId }) => spanId === bodies[at]!.id) ?? assert.fail('the span is not exported'),
  ) as [ExportedSpan, ExportedSpan, ExportedSpan];
  for (const { traceId, parentSpanId } of requests)
    assert.deepEqual(
      tree(
        spans.filter((span) => span.traceId === traceId),
        parentSpanId || undefined,
      ),
      BOOK,
    );
  assert.deepEqual(
    [continued.traceId, continued.parentSpanId, continued.traceState],
    [TRACE, CALLER, 'foo=1'],
  );
  assert.deepEqual(
    [fresh.parentSpanId || undefined, invalid.parentSpanId || undefined],
    [undefined, undefined],
  );
  assert.equal(new Set([TRACE, fresh.traceId, invalid.traceId]).size, 3);
  // the calls of the handler to other services
  const handlers = spans.filter(({ name }) => name === 'handler show');
  for (const [at, { sent }] of bodies.entries()) {
    const [, traceId, spanId, flags] = sent['traceparent']!.split('-');
    assert.equal(flags, at === 2 ? '00' : '01');
    if (at !== 2) assert.ok(handlers.some((span) => span.traceId === traceId && span.spanId === spanId));
    assert.equal(sent['tracestate'], at === 1 ? 'foo=1' : undefined);
  }
  // the access log
  const logged = lines.filter(({ event }) => event === 'request');
  assert.deepEqual(
    logged.map((line) => line['span_id']),
    bodies.map(({ id }) => id),
  );
  assert.deepEqual(
    [0, 1, 3].map((at) => logged[at]!['trace_id']),
    [fresh.traceId, TRACE, invalid.traceId],
  );
  const { 'http.route': route, 'http.response.status_code': status } = attributesOf(fresh);
  assert.deepEqual([route, Number(status)], ['/books/{id:int}', 200]);
});

test('with the tracer of the manual, spans of streams, errors and WebSockets are in the trace of their request', async (t) => {
  const it = await site(t);
  if (it === undefined) return;
  assert.equal(await (await fetch(`${it.base}/stream`)).text(), 'ab');
  assert.equal((await fetch(`${it.base}/fails`)).status, 500);
  assert.equal((await fetch(`${it.base}/none`)).status, 404);
  const socket = new WebSocket(`${it.base.replace('http', 'ws')}/echo`);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error('the handshake was refused')), { once: true });
  });
  const echo = new Promise((resolve) => socket.addEventListener('message', resolve, { once: true }));
  socket.send('hello');
  await echo;
  const closed = new Promise((resolve) => socket.addEventListener('close', resolve, { once: true }));
  socket.close();
  await closed;
  const { spans, lines } = await it.stop();
  const traceOf = (name: string): readonly ExportedSpan[] => {
    const { traceId } = spans.find((span) => span.name === name) ?? assert.fail(`no span "${name}"`);
    return spans.filter((span) => span.traceId === traceId);
  };
  const stream = tree(traceOf('GET /stream'), undefined);
  assert.deepEqual(
    stream.map((line) => line.trim()),
    ['GET /stream', 'dependency db', 'handler', 'own of stream', 'SELECT :memory:'],
  );
  const [failed] = traceOf('GET /fails') as [ExportedSpan];
  const server = traceOf('GET /fails').find(({ kind }) => kind === SERVER_KIND)!;
  assert.deepEqual(
    [failed.traceId, server.status.code, server.events.map(({ name }) => name)],
    [server.traceId, FAILED, ['exception']],
  );
  assert.equal(attributesOf(server)['error.type'], 'RangeError');
  const line = lines.find(({ event }) => event === 'unhandled_error')!;
  assert.deepEqual([line['trace_id'], line['span_id']], [server.traceId, server.spanId]);
  assert.notEqual(traceOf('GET')[0]!.status.code, FAILED);
  assert.deepEqual(tree(traceOf('GET /echo'), undefined), [
    'GET /echo',
    '  dependency db',
    '  message /echo',
    '    own of message',
    '      SELECT :memory:',
  ]);
});

test('with the tracer of the manual, each worker exports complete traces before it ends', async (t) => {
  const it = await site(t, '--workers', '2');
  if (it === undefined) return;
  const COUNT = 12;
  const headers = { connection: 'close' };
  await Promise.all(
    Array.from({ length: COUNT }, async () => (await fetch(`${it.base}/books/7`, { headers })).text()),
  );
  const { spans } = await it.stop();
  const roots = spans.filter(({ name }) => name === BOOK[0]);
  assert.equal(roots.length, COUNT);
  for (const { traceId } of roots)
    assert.deepEqual(
      tree(
        spans.filter((span) => span.traceId === traceId),
        undefined,
      ),
      BOOK,
    );
});
