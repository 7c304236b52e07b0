import assert from 'node:assert/strict';
import test from 'node:test';
import { openOnStream, socketDeps } from '../../support/memory-websocket.ts';
import { frame } from '../../support/ws-frames.ts';
import { turn } from '../../support/turn.ts';

test('if frames of two WebSockets arrive in alternating parts, each WebSocket receives only its own messages', async () => {
  const received: unknown[] = [];
  const deps = socketDeps((socket, message) => {
    received.push([socket.context, message]);
    if (message === 'ask') socket.send('asked');
  });
  const [asking, one, other] = [
    openOnStream(deps, 'asking'),
    openOnStream(deps, 'one'),
    openOnStream(deps, 'other'),
  ];
  await turn(); // incoming data is passed on at once from here on
  asking.answer = frame({ payload: 'answer' });
  asking.push(frame({ payload: 'ask' }));
  const [first, second] = [frame({ payload: 'of one' }), frame({ payload: 'of the other' })];
  for (const [stream, bytes] of [
    [one, first.subarray(0, 7)],
    [other, second.subarray(0, 8)],
    [one, first.subarray(7)],
    [other, second.subarray(8)],
  ] as const) {
    stream.push(bytes);
    await turn();
  }
  assert.deepEqual(received, [
    ['asking', 'ask'],
    ['asking', 'answer'],
    ['one', 'of one'],
    ['other', 'of the other'],
  ]);
  assert.deepEqual(
    [asking, one, other].map(({ written }) => Buffer.concat(written).toString('latin1')),
    ['\x81\x05asked', '', ''],
  );
});
