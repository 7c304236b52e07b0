/** Resources that a module leaves open: requests of handles that existed before do not count. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { watch as watchFolder } from 'node:fs';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { HandleWatch } from '../../src/cli/quarantine.ts';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';

/** Returns both ends of a connection. */
async function connection(t: TestContext): Promise<readonly [Socket, Socket]> {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const writer = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[reader]] = (await Promise.all([once(server, 'connection'), once(writer, 'connect')])) as [
    [Socket],
    unknown,
  ];
  t.after(async () => {
    writer.destroy();
    reader.destroy();
    await once(server.close(), 'close');
  });
  return [writer, reader];
}

test('HandleWatch reports a file watcher that is opened while it watches', async (t) => {
  const watch = new HandleWatch();
  const watcher = watchFolder(import.meta.dirname);
  t.after(() => watcher.close());
  const found = (await watch.leftOpen()).map(({ what }) => what);
  assert.deepEqual(found, ['leaves a file watcher open (fseventwrap)']);
});

test('HandleWatch reports nothing for a write that waits for a slow reader, if its stream existed before', async (t) => {
  const [writer] = await connection(t);
  const watch = new HandleWatch();
  writer.write(Buffer.alloc(64_000_000));
  assert.ok(
    process.getActiveResourcesInfo().some((type) => /WriteWrap$/.test(type)),
    'the write has ended already',
  );
  assert.deepEqual([await watch.leftOpen(), watch.runningNow()], [[], []]);
});
