import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import test from 'node:test';
import { heldBytes } from '../../../src/http/server/slow-readers.ts';
import type { AddressInfo, Socket } from 'node:net';

const skip = process.platform === 'linux' ? false : 'Linux alone tells';

for (const [listens, connects] of [
  ['127.0.0.1', '127.0.0.1'],
  ['::1', '::1'],
  ['::', '127.0.0.1'],
] as const) {
  test(
    `heldBytes() tells what has not been read of a connection from ${connects} to ${listens}`,
    { skip },
    async (t) => {
      const server = createServer().listen(0, listens);
      t.after(() => server.close());
      await once(server, 'listening');
      const client = connect({ host: connects, port: (server.address() as AddressInfo).port });
      const [socket] = (await once(server, 'connection')) as [Socket];
      t.after(() => [client, socket].forEach((end) => end.destroy()));
      client.pause();
      const written = 3_000_000;
      socket.write(Buffer.alloc(written));
      while (heldBytes([socket]).get(socket) === 0) await new Promise((resolve) => setImmediate(resolve));
      const before = heldBytes([socket]).get(socket)!;
      assert.ok(before > 0 && before <= 2 * written, `${before}`); // what is on its way may be counted twice
      let read = 0;
      for await (const chunk of client as AsyncIterable<Buffer>)
        if ((read += chunk.length) === written) break;
      assert.ok(heldBytes([socket]).get(socket)! < before);
    },
  );
}

test('heldBytes() knows nothing of what is no connection', () => {
  assert.equal(heldBytes([]).size, 0);
  assert.equal(
    heldBytes([
      {},
      { localAddress: 'a', localPort: 1, remoteAddress: 'b', remotePort: 2 },
      { localAddress: '192.0.2.1', localPort: 1, remoteAddress: '2001:db8::1', remotePort: 2 },
    ]).size,
    0,
  );
});
