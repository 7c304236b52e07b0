/**
 * The recipe for OpenTelemetry in the manual, with the packages that it names: spans and metrics have the
 * route, and are exported before the process ends.
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
import type { Scope } from '../support/run.ts';

before(build);

const PACKAGES = {
  '@opentelemetry/api': '1.9.1',
  '@opentelemetry/core': '2.12.1',
  '@opentelemetry/instrumentation-http': '0.223.0',
  '@opentelemetry/sdk-node': '0.223.0',
};

const APP = `
import { Svc } from 'svc';
import { telemetry } from './telemetry.js';

export const app = new Svc();
app.register(telemetry());
app.get('/books/{id:int}', ({ params }) => ({ id: params.id }));
`;

/** Returns the code block of the manual that begins with this comment. */
function recipe(): string {
  const block = /```js\n(\/\/ src\/telemetry\.js\n[^]*?)```/.exec(manual('src/operations/README.md'));
  assert.ok(block, 'the manual has the recipe');
  return block[1]!;
}

/** A collector of OpenTelemetry, and the bodies that it has received, by path. */
async function collector(t: Scope): Promise<{ url: string; received: Map<string, string> }> {
  const received = new Map<string, string>();
  const server = createServer((req, res) => {
    let text = '';
    req.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    req.on('end', () => {
      received.set(req.url!, (received.get(req.url!) ?? '') + text);
      res.setHeader('Content-Type', 'application/json').end('{}');
    });
  });
  const listening = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', () => listening.resolve());
  await listening.promise;
  t.after(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

test('with the OpenTelemetry code in the manual, spans and metrics have http.route, and are exported before the process ends', async (t) => {
  const packages = scratch(t, 'opentelemetry', PACKAGES);
  if (packages === undefined) return;
  const cwd = project(t, { 'telemetry.js': recipe(), 'app.js': APP });
  symlinkSync(join(packages, 'node_modules', '@opentelemetry'), join(cwd, 'node_modules', '@opentelemetry'));
  const { url, received } = await collector(t);
  const running = start(t, process.execPath, [BIN, 'run', 'app.js', '--no-check', '--port', '0'], {
    cwd,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_SERVICE_NAME: 'books',
    },
  });
  const [, base] = await running.printed(/"url":"([^"]+)"/);
  for (const path of ['/books/7', '/books/8', '/none']) await (await fetch(base! + path)).arrayBuffer();
  running.child.kill('SIGTERM');
  assert.equal((await running.ended).status, 0);

  const traces = received.get('/v1/traces') ?? '';
  const names = [...traces.matchAll(/"name":"(GET[^"]*)"/g)].map(([, name]) => name).sort();
  assert.deepEqual(names, ['GET', 'GET /books/{id:int}', 'GET /books/{id:int}']);
  const route = '{"key":"http.route","value":{"stringValue":"/books/{id:int}"}}';
  assert.equal(traces.split(route).length - 1, 2);
  const metrics = received.get('/v1/metrics') ?? '';
  assert.match(metrics, /"name":"http\.server\.request\.duration"/);
  assert.ok(metrics.includes(route));
});
