import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { Socket } from 'node:net';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { ConnectionMeter } from '../../../src/http/server/connection-meter.ts';
import { Connections, connectionOf } from '../../../src/http/server/connections.ts';
import { USUAL_LIMITS } from '../../../src/http/server/options.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { Server } from 'node:http';
import type { TLSSocket } from 'node:tls';

function connectionsOf(meter: ConnectionMeter): Connections {
  const ignore = (): void => undefined;
  return new Connections({
    limits: USUAL_LIMITS,
    clock: systemClock,
    log: collectedLog().logger,
    meter,
    onSlowReader: ignore,
    onLost: ignore,
    onLateHead: ignore,
  });
}

/** Returns the value of a metric by the beginning of its line. */
function value(app: Svc, line: string): number {
  const found = app.metrics
    .render()
    .split('\n')
    .find((candidate) => candidate.startsWith(`${line} `));
  return found === undefined ? Number.NaN : Number(found.slice(line.length + 1));
}

test('svc_connections counts open connections, and svc_connection_requests counts the requests of each connection', async (t) => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', () => '');
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  assert.equal(value(app, 'svc_connections'), 0);
  const clients = await Promise.all([1, 2, 3].map(() => RawClient.open(server.port)));
  for (const client of clients.slice(0, 2)) await client.get('/').answer();
  await clients[0]!.get('/').answer();
  assert.equal(value(app, 'svc_connections') >= 2, true); // the server may not know the third one yet, which has sent nothing
  for (const client of clients) await client[Symbol.asyncDispose]();
  while (value(app, 'svc_connections') > 0 || value(app, 'svc_connection_requests_count') < 3)
    await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    ['0', '1', '2', '+Inf'].map((most) => value(app, `svc_connection_requests_bucket{le="${most}"}`)),
    [1, 2, 3, 3],
  );
  assert.equal(value(app, 'svc_connection_requests_sum'), 3);
});

test('svc_connections_refused_total counts refused connections by reason', async (t) => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', () => '');
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  for (const bytes of ['rubbish\r\n\r\n', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`]) {
    await using client = await RawClient.open(server.port);
    client.send(bytes);
    await client.ended();
  }
  assert.deepEqual(
    ['malformed', 'overflow'].map((reason) =>
      value(app, `svc_connections_refused_total{reason="${reason}"}`),
    ),
    [1, 1],
  );
  const resetting = await RawClient.open(server.port);
  await resetting.get('/').answer();
  resetting.socket.resetAndDestroy();
  while (value(app, 'svc_connections') > 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    ['malformed', 'timeout'].map((reason) => value(app, `svc_connections_refused_total{reason="${reason}"}`)),
    [1, Number.NaN],
  );
});

test('ConnectionMeter counts a request to a TLS server only once, and counts failed handshakes', async () => {
  const metrics = createMetrics({ log: collectedLog().logger });
  const meter = new ConnectionMeter(metrics);
  const server = createServer();
  meter.watch(server);
  connectionsOf(meter).watch(server as unknown as Server, 'secureConnection'); // https.Server has no other parts that count
  const [raw, secure] = [new Socket(), new Socket()];
  server.emit('connection', raw);
  assert.equal(meter.open, 0);
  server.emit('secureConnection', secure as TLSSocket);
  connectionOf(secure).requests++;
  assert.equal(meter.open, 1);
  await once(secure.destroy(), 'close');
  server.emit('tlsClientError', new Error('handshake'), secure as TLSSocket);
  server.emit('drop');
  const text = metrics.render();
  for (const line of [
    'svc_connections 0',
    'svc_connection_requests_sum 1',
    'svc_connections_refused_total{reason="tls"} 1',
    'svc_connections_refused_total{reason="limit"} 1',
  ])
    assert.ok(text.includes(`${line}\n`), line);
  raw.destroy();
});

test('if a connection is destroyed before the server receives it, ConnectionMeter does not count it', () => {
  const metrics = createMetrics({ log: collectedLog().logger });
  const meter = new ConnectionMeter(metrics);
  const server = createServer();
  connectionsOf(meter).watch(server as unknown as Server, 'secureConnection');
  const socket = new Socket();
  socket.destroy();
  server.emit('secureConnection', socket as TLSSocket);
  assert.equal(meter.open, 0);
});
