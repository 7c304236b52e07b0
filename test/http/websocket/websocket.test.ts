/**
 * A WebSocket stops and continues reading from its client, depending on the messages that wait for its handler.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createLogger } from '../../../src/observability/log.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { WebSocketMeter } from '../../../src/http/websocket/meter.ts';
import { openOnStream, socketDeps } from '../../support/memory-websocket.ts';
import { turn } from '../../support/turn.ts';
import { frame } from '../../support/ws-frames.ts';

// A waiting message takes its length (text: twice its length) and 128 bytes. The handler runs for the first
// message, which no longer waits. Reading stops above 65,536 bytes, and continues at 32,768 bytes or less.
for (const [what, options, received] of [
  // 8 messages are 65,536 bytes: one more is too many; 4 messages are exactly half
  [
    'bytes, at the limit',
    { opcode: 2, payload: Buffer.alloc(8_064) },
    [10, 10, 10, 10, 10, 15, 15, 15, 15, 15, 20],
  ],
  ['text, at the limit', { payload: 'x'.repeat(4_032) }, [10, 10, 10, 10, 10, 15, 15, 15, 15, 15, 20]],
  // 8 messages are 65,544 bytes, 4 messages are 32,772 bytes
  [
    'bytes, above the limit',
    { opcode: 2, payload: Buffer.alloc(8_065) },
    [9, 9, 9, 9, 9, 14, 14, 14, 14, 14, 19],
  ],
  ['one long message', { opcode: 2, payload: Buffer.alloc(65_409) }, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]],
] as const)
  describe(`a WebSocket stops reading when more than 64 KiB wait, and continues when half of them were handled (${what})`, () => {
    const bytes = Buffer.concat(Array.from({ length: 40 }, () => frame(options)));
    for (const [how, chunks] of [
      ['in one chunk', [bytes]],
      [
        'in chunks of 1,000 bytes',
        Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, index) =>
          bytes.subarray(1_000 * index, 1_000 * (index + 1)),
        ),
      ],
    ] as const)
      test(`received messages after each call of the handler, if they arrive ${how}`, async () => {
        const metrics = createMetrics({ log: createLogger({ sink: () => undefined }) });
        const count = (): number =>
          Number(/^svc_websocket_messages_total\{direction="in"\} (\d+)$/m.exec(metrics.render())?.[1]);
        const running: (() => void)[] = [];
        const stream = openOnStream(
          socketDeps(() => new Promise<void>((resolve) => running.push(resolve)), {
            meter: new WebSocketMeter(metrics),
          }),
        );
        await turn();
        for (const chunk of chunks) stream.push(Buffer.from(chunk));
        const counts: number[] = [];
        while (counts.length < received.length) {
          await turn();
          counts.push(count());
          running.shift()!();
        }
        assert.deepEqual(counts, received);
        while (running.length > 0 || count() < 40) {
          await turn();
          running.shift()?.();
        }
        assert.equal(count(), 40);
      });
  });
