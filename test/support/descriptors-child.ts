/**
 * A program that uses up its file descriptors, sends requests to an application in its own process, and writes
 * the responses.
 */
import { closeSync, openSync } from 'node:fs';
import { Field, Schema, Svc, file } from '../../src/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { DescriptorWatch } from '../../src/observability/descriptors.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from './collected-log.ts';

const { logger, events } = collectedLog();
const form = new FormData();
form.set('photo', new File(['x'], 'x.png'));

class Entry extends Schema {
  photo = Field(file);
}

const declared = new Svc({ logger, env: 'test' });
declared.post('/', { form: Entry }, ({ form: { photo } }) => photo.filename);
declared.websocket('/ws', {}).onMessage((socket, message) => void socket.send(message));
declared.mountMcp('/mcp');
const undeclared = new Svc({ logger, env: 'test' });
undeclared.post('/', async ({ req }) => String((await req.form()).files('photo').length));

/** Opens files until no descriptor is free, calls `act`, and closes the files. */
async function exhausted<T>(act: () => Promise<T>): Promise<T> {
  const held: number[] = [];
  try {
    for (;;) held.push(openSync('/dev/null', 'r'));
  } catch {
    return await act();
  } finally {
    for (const descriptor of held) closeSync(descriptor);
  }
}

const statusOf = async (response: Promise<Response>): Promise<number> => (await response).status;

await using plain = new TestClient(undeclared);
await plain.get('/healthz'); // starts the application
const first = await exhausted(async () => ({
  undeclared: await statusOf(plain.post('/', { form })),
  docs: await statusOf(plain.get('/docs')),
}));
const docsLater = await statusOf(plain.get('/docs'));

await using client = new TestClient(declared);
await client.get('/healthz');
const later = await exhausted(async () => {
  const socket = await client.websocket('/ws');
  socket.send('echo');
  return {
    form: await statusOf(client.post('/', { form })),
    ws: await socket.receive(),
    mcp: await statusOf(
      client.post('/mcp', {
        json: {
          jsonrpc: '2.0',
          id: 1,
          method: 'initialize',
          params: {
            protocolVersion: '2025-06-18',
            capabilities: {},
            clientInfo: { name: 'test', version: '1' },
          },
        },
        headers: { accept: 'application/json, text/event-stream' },
      }),
    ),
  };
});
const clock = new ManualClock();
using _watching = new DescriptorWatch(logger, createMetrics({ log: logger }), clock).watch(257);
await clock.advance(1_000);
const limit = events.find(({ event }) => event === 'descriptor_limit_low')?.['limit'];
process.stdout.write(JSON.stringify({ limit, ...first, docsLater, ...later }));
