import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { FileBody } from '../../../src/http/files/body.ts';
import type { ServerResponse } from 'node:http';
import type { OpenFile } from '../../../src/http/files/body.ts';

/** A file of ten bytes; `onStat` runs while its state is read, which fails as for a closed file. */
function fileThatIsClosed(onStat: () => void): OpenFile {
  const file = {
    size: 10,
    isClosed: false,
    read: async (_block: Uint8Array, length: number) => length,
    close: async () => {
      file.isClosed = true;
    },
    async isUnchanged() {
      onStat();
      throw Object.assign(new Error('file closed'), { code: 'EBADF' });
    },
  };
  return file as unknown as OpenFile; // the part of a file handle that FileBody uses
}

test('if reading a file fails after the client has left, FileBody reports no error', async () => {
  const outgoing = new PassThrough();
  const body = new FileBody(
    fileThatIsClosed(() => {
      outgoing.destroy();
    }),
    [{ start: 0, end: 10 }],
  );
  await body.sendTo(outgoing as unknown as ServerResponse);
  assert.equal(outgoing.destroyed, true);
});

test('if reading a file fails while the client is connected, FileBody cuts the connection', async () => {
  const outgoing = new PassThrough();
  const body = new FileBody(
    fileThatIsClosed(() => undefined),
    [{ start: 0, end: 10 }],
  );
  await assert.rejects(body.sendTo(outgoing as unknown as ServerResponse), { code: 'EBADF' });
  assert.equal(outgoing.destroyed, true);
});

test('if the file is closed during a read, the iterator of FileBody rejects with ClientDisconnected', async () => {
  const file = fileThatIsClosed(() => void file.close());
  await assert.rejects(new FileBody(file, [{ start: 0, end: 10 }])[Symbol.asyncIterator]().next(), {
    name: 'ClientDisconnected',
  });
  await assert.rejects(
    new FileBody(
      fileThatIsClosed(() => undefined),
      [{ start: 0, end: 10 }],
    )
      [Symbol.asyncIterator]()
      .next(),
    { code: 'EBADF' },
  );
});
