import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { describe, test } from 'node:test';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { createLogger } from '../../../src/observability/log.ts';
import { MessageDeflater, MessageInflater } from '../../../src/http/websocket/deflate.ts';
import { readCompression } from '../../../src/http/websocket/handshake.ts';
import { OPCODE } from '../../../src/http/websocket/codes.ts';
import { FrameReader } from '../../../src/http/websocket/frames.ts';
import { closePayload, encodeFrame } from '../../../src/http/websocket/encode.ts';
import { WebSocketMeter } from '../../../src/http/websocket/meter.ts';
import { FrameSender } from '../../../src/http/websocket/sender.ts';
import { SharedMessage } from '../../../src/http/websocket/rooms.ts';
import { seeded } from '../../support/random.ts';
import type { Duplex } from 'node:stream';
import type { SlowConsumerPolicy } from '../../../src/http/websocket/sender.ts';

const HIGH_WATER_BYTES = 65_536;

/** A client that reads only when a test lets it. */
class Client extends Writable {
  readonly writes: Buffer[] = [];
  readonly chunks: Buffer[] = [];
  #isReading = true;
  #waiting: (() => void) | undefined;

  constructor(highWaterMark: number) {
    super({ highWaterMark });
  }

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.#take([chunk], callback);
  }
  override _writev(chunks: { chunk: Buffer }[], callback: () => void): void {
    this.#take(
      chunks.map(({ chunk }) => chunk),
      callback,
    );
  }

  /** Stops reading. */
  stop(): void {
    this.#isReading = false;
  }

  /** Reads all waiting bytes, and those that follow. */
  async go(): Promise<void> {
    this.#isReading = true;
    await this.takeOne();
  }

  /** Reads the bytes of one write. */
  async takeOne(): Promise<void> {
    this.#waiting?.();
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Returns the messages that the client has received. */
  messages(inflater = new MessageInflater(15, true)): (string | Buffer)[] {
    const messages: (string | Buffer)[] = [];
    const take = (message: string | Buffer): void => void messages.push(message);
    new FrameReader(
      { isMasked: false, maxMessageBytes: 2 ** 30, inflate: (bytes, most) => inflater.inflate(bytes, most) },
      {
        onText: take,
        onBinary: take,
        onPing: () => take('PING'),
        onPong: (payload) => take(`PONG ${payload.toString()}`),
        onClose: (code) => take(`CLOSE ${code}`),
        onViolation: (_code, reason) => take(`VIOLATION ${reason}`),
      },
    ).push(Buffer.concat(this.writes));
    return messages;
  }

  #take(chunks: Buffer[], callback: () => void): void {
    this.chunks.push(...chunks);
    this.writes.push(Buffer.concat(chunks));
    if (this.#isReading) callback();
    else {
      this.#waiting = () => {
        this.#waiting = undefined;
        callback();
      };
    }
  }
}

interface Bench {
  readonly client: Client;
  readonly sender: FrameSender;
  readonly calls: string[];
  readonly dropped: () => number;
  /** Number of sent messages that the metrics count. */
  readonly counted: () => number;
}

function bench({
  slowConsumer = 'disconnect' as SlowConsumerPolicy,
  maxBufferedBytes = 200_000,
  compression = undefined as ReturnType<typeof readCompression> | undefined,
  takesOver = true,
  highWaterMark = 65_536,
} = {}): Bench {
  const client = new Client(highWaterMark);
  const calls: string[] = [];
  const metrics = createMetrics({ log: createLogger({ level: 'error', sink: () => undefined }) });
  const owner = {
    onTooSlow: () => void calls.push('too slow'),
    onPressure: (isHigh: boolean) => void calls.push(isHigh ? 'high' : 'low'),
  };
  const deflater =
    compression === undefined ? undefined : new MessageDeflater(15, compression.level, takesOver);
  const sender = new FrameSender(
    client as unknown as Duplex,
    { maxBufferedBytes, slowConsumer, compression, meter: new WebSocketMeter(metrics) },
    owner,
    deflater,
  );
  client.on('drain', () => sender.onDrain());
  const total = (metric: string, labels: readonly string[]): number => {
    const series = metrics.snapshot().find(({ name }) => name === metric)?.series;
    return series?.find(([values]) => values.join() === labels.join())?.[1][0] ?? 0;
  };
  return {
    client,
    sender,
    calls,
    dropped: () => total('svc_websocket_dropped_total', []),
    counted: () => total('svc_websocket_messages_total', ['out']),
  };
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('FrameSender', () => {
  test('if one FrameSender sends during the write of another FrameSender, their messages are not mixed', async () => {
    const [one, other, third] = [bench(), bench(), bench()];
    for (const isFlushed of [true, false]) {
      const write = one.client._write.bind(one.client);
      one.client._write = (chunk, encoding, callback) => {
        // a stream in memory may be answered within the write
        one.client._write = write;
        one.sender.sendText('again');
        if (isFlushed) one.sender.flush();
        write(chunk, encoding, callback);
      };
      one.sender.sendText('first');
      one.sender.flush();
      other.sender.sendText('for the other');
      third.sender.sendText('for the third');
      await tick();
    }
    assert.deepEqual(
      [one, other, third].map(({ client }) => client.messages()),
      [
        ['first', 'again', 'first', 'again'],
        ['for the other', 'for the other'],
        ['for the third', 'for the third'],
      ],
    );
  });

  test('if the buffer of a stream has room, FrameSender.drain() resolves at once, although the stream emits no drain event', async () => {
    const { client, sender, calls } = bench({ slowConsumer: 'wait', highWaterMark: 1_048_576 }); // as setDefaultHighWaterMark() makes them
    client.stop();
    sender.sendBytes(Buffer.alloc(200_000));
    await sender.drain();
    await client.go();
    assert.deepEqual([calls, sender.bufferedAmount], [[], 0]);
  });

  test('FrameSender fills the buffer of its stream, and drain() resolves when the buffer has room again', async () => {
    const { client, sender } = bench({
      slowConsumer: 'wait',
      highWaterMark: 262_144,
      maxBufferedBytes: 2 ** 20,
    });
    client.stop();
    sender.sendBytes(Buffer.alloc(300_000));
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    for (let count = 0; count < 4; count++) sender.sendBytes(Buffer.alloc(70_000));
    await client.takeOne();
    assert.equal(client.writableLength, 280_040); // 4 with their heads
    await client.go();
    assert.equal(sender.bufferedAmount, 0);
    client.stop();
    sender.sendBytes(Buffer.alloc(300_000));
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    sender.sendBytes(Buffer.alloc(100_000)); // less than the stream holds, and more than 64 KiB
    const drained = sender.drain();
    await client.takeOne();
    await drained;
    assert.ok(sender.bufferedAmount >= 100_000);
  });

  test('if the stream is destroyed, FrameSender.drain() resolves only when end() is called', async () => {
    const { client, sender } = bench({ slowConsumer: 'wait' });
    client.stop();
    sender.sendBytes(Buffer.alloc(100_000));
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    client.destroy();
    sender.sendBytes(Buffer.alloc(100_000));
    let isDrained = false;
    const drained = sender.drain().then(() => {
      isDrained = true;
    });
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    assert.equal(isDrained, false);
    sender.end();
    await drained;
  });

  for (const [what, bytes] of [
    ['text', undefined],
    ['text and bytes', Buffer.alloc(3_000)],
  ] as const) {
    test(`while a client does not read, FrameSender needs little more memory than the length of the messages (${what})`, async () => {
      const { client, sender } = bench();
      client.stop();
      for (let round = 0; round < 6; round++) {
        sender.sendText('a few');
        if (bytes !== undefined) sender.sendBytes(bytes);
        sender.flush();
      }
      const before = client.chunks.length;
      await client.go();
      const waited = client.chunks.slice(before);
      assert.ok(waited.length >= 5);
      for (const chunk of waited)
        assert.ok(
          chunk.buffer.byteLength <= Math.max(chunk.length, 8_192),
          `${chunk.length} bytes keep ${chunk.buffer.byteLength}`,
        );
    });
  }

  test('FrameSender sends all messages of one turn of the event loop in order and with one write', async () => {
    const { client, sender } = bench();
    sender.sendText('a');
    sender.sendText('wörld');
    sender.sendBytes(Uint8Array.of(1, 2, 3));
    sender.sendText('€'.repeat(100));
    await tick();
    assert.equal(client.writes.length, 1);
    assert.deepEqual(client.messages(), ['a', 'wörld', Buffer.of(1, 2, 3), '€'.repeat(100)]);
    sender.hold();
    sender.sendText('held');
    await tick();
    assert.equal(client.writes.length, 1);
    sender.flush();
    assert.equal(client.writes.length, 2);
  });

  test('FrameSender sends the frames of a turn like encodeFrame(), for all lengths, orders and other senders', async () => {
    const random = seeded(57);
    const lengths = [0, 1, 125, 126, 2_047, 2_048, 2_049, 4_096, 70_000];
    for (let round = 0; round < 40; round++) {
      const sides = [bench({ maxBufferedBytes: 10_000_000 }), bench({ maxBufferedBytes: 10_000_000 })];
      const expected: Buffer[][] = [[], []];
      if (round % 2 === 1) for (const { client } of sides) client.stop();
      for (let message = 0; message < 20; message++) {
        const side = random(2);
        const { sender } = sides[side]!;
        const length = lengths[random(lengths.length)]!;
        const payload = ['a'.repeat(length), 'é'.repeat(length >> 1), Buffer.alloc(length, message)][
          random(3)
        ]!;
        if (typeof payload === 'string') sender.sendText(payload);
        else if (random(2) === 0) sender.sendBytes(payload);
        else sender.deliver(new SharedMessage(payload, false));
        expected[side]!.push(encodeFrame(typeof payload === 'string' ? OPCODE.text : OPCODE.binary, payload));
        if (random(6) === 0) sender.flush();
      }
      await tick();
      for (const [side, { client }] of sides.entries()) {
        for (let waiting = 0; waiting < 20; waiting++) await client.go();
        assert.ok(Buffer.concat(client.writes).equals(Buffer.concat(expected[side]!)), `round ${round}`);
      }
    }
  });

  for (const length of [
    0, 1, 41, 42, 43, 124, 125, 126, 127, 1_365, 4_095, 4_096, 4_097, 32_768, 65_535, 65_536, 65_537, 200_000,
  ]) {
    for (const [what, text] of [
      ['ASCII', 'a'.repeat(length)],
      ['two bytes each', 'ä'.repeat(length)],
      ['three bytes each', '€'.repeat(length)],
    ] as const) {
      test(`FrameSender writes messages of any length as text and as bytes (${length} characters, ${what})`, async () => {
        const { client, sender } = bench({ maxBufferedBytes: 10_000_000 });
        sender.sendText(text);
        sender.sendBytes(Buffer.from(text));
        sender.sendText('end');
        await client.go();
        assert.deepEqual(client.messages(), [text, Buffer.from(text), 'end']);
      });
    }
  }

  test('FrameSender does not mix the frames of several senders, however their calls are interleaved', async () => {
    const many = Array.from({ length: 5 }, () => bench());
    for (let round = 0; round < 2_000; round++)
      many.forEach(({ sender }, index) => sender.sendText(`${index}:${round}`));
    await tick();
    for (const [index, { client }] of many.entries())
      assert.deepEqual(
        client.messages(),
        Array.from({ length: 2_000 }, (_, round) => `${index}:${round}`),
      );
  });

  test('FrameSender reports when its queue is half full and when it is empty; drain() resolves when less than 64 KiB wait', async () => {
    const { client, sender, calls } = bench();
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    assert.deepEqual(calls, []);
    assert.ok(sender.bufferedAmount >= HIGH_WATER_BYTES);
    let isDrained = false;
    const draining = sender.drain().then(() => {
      isDrained = true;
    });
    sender.sendBytes(Buffer.alloc(40_000));
    assert.deepEqual(calls, ['high']);
    await tick();
    assert.equal(isDrained, false);
    await client.go();
    await draining;
    assert.deepEqual(calls, ['high', 'low']);
    assert.equal(sender.bufferedAmount, 0);
    await sender.drain();
  });

  test('with the policy "disconnect", FrameSender closes a client whose queue exceeds maxBufferedBytes', () => {
    const { client, sender, calls } = bench();
    client.stop();
    for (let count = 0; count < 10 && !calls.includes('too slow'); count++) {
      sender.sendBytes(Buffer.alloc(50_000));
      sender.flush();
    }
    assert.ok(calls.includes('too slow'));
    assert.ok(sender.bufferedAmount <= 200_000);
  });

  test('with the policy "drop-oldest", FrameSender drops the oldest waiting messages, and reports how many', async () => {
    const { client, sender, calls, dropped } = bench({ slowConsumer: 'drop-oldest' });
    client.stop();
    for (let count = 0; count < 1_000; count++) {
      sender.sendText(`${count} ${'*'.repeat(1_000)}`);
      sender.flush();
      assert.ok(sender.bufferedAmount <= 200_000);
    }
    await client.go();
    const got = client.messages().map((message) => parseInt(String(message), 10));
    assert.equal(got.at(-1), 999);
    assert.equal(got.length + dropped(), 1_000);
    assert.deepEqual(
      got,
      got.toSorted((left, right) => left - right),
    );
    assert.ok(!calls.includes('too slow'));
    sender.sendBytes(Buffer.alloc(300_000));
    assert.equal(
      dropped(),
      1_000 - got.length,
      'one that is larger than all that may wait goes out when nothing waits',
    );
  });

  test('with the policy "wait", FrameSender sends every accepted message, and throws if its queue is full', async () => {
    const { client, sender, dropped } = bench({ slowConsumer: 'wait' });
    client.stop();
    let taken = 0;
    assert.throws(
      () => {
        for (; taken < 1_000; taken++) {
          sender.sendText(`${taken} ${'*'.repeat(1_000)}`);
          sender.flush();
        }
      },
      { code: 'E_WEBSOCKET_FULL' },
    );
    sender.deliver(new SharedMessage('x'.repeat(1_000)));
    assert.equal(dropped(), 2, 'what a room sends is left out, and so was the one before');
    await client.go();
    assert.equal(client.messages().length, taken);
    sender.sendText('again');
    await client.go();
    assert.equal(client.messages().at(-1), 'again');
  });

  test('FrameSender counts the overhead of small frames toward its queue limit', () => {
    const { client, sender, calls } = bench({ maxBufferedBytes: 100_000 });
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    let count = 0;
    for (; count < 10_000 && !calls.includes('too slow'); count++) sender.sendText('x');
    assert.ok(count < 34_464 / 128 + 2, `${count} frames of 3 bytes wait`);
  });

  test('if several pongs wait, FrameSender sends only the pong for the newest ping', async () => {
    const { client, sender } = bench();
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    for (const payload of ['one', 'two', 'three']) sender.sendControl(OPCODE.pong, Buffer.from(payload));
    sender.sendText('last');
    sender.sendControl(OPCODE.close, Buffer.of(3, 232));
    await client.go();
    assert.deepEqual(client.messages().slice(1), ['PONG three', 'last', 'CLOSE 1000']);
  });

  test('FrameSender compresses messages that reach its threshold, and compresses a shared message once for all sockets', async () => {
    const compression = readCompression('test', { thresholdBytes: 100, contextTakeover: true });
    const { client, sender } = bench({ compression });
    const shared = new SharedMessage('shared '.repeat(100));
    const expected: string[] = [];
    for (let round = 0; round < 5; round++) {
      for (const text of ['short', 'long '.repeat(50)]) {
        sender.sendText(text);
        expected.push(text);
      }
      sender.deliver(shared);
      expected.push('shared '.repeat(100));
    }
    await tick();
    assert.deepEqual(client.messages(), expected);
    assert.ok(client.writes.reduce((sum, { length }) => sum + length, 0) < 400);
    assert.equal(shared.frames?.deflated(15, 3), shared.frames?.deflated(15, 3));
    assert.ok(shared.frames?.deflated(15, 3));
  });

  for (const compression of [undefined, readCompression('test', { thresholdBytes: 100 })])
    for (const [call, send] of [
      ['sendText()', (sender: FrameSender, text: string) => sender.sendText(text)],
      ['sendBytes()', (sender: FrameSender, text: string) => sender.sendBytes(Buffer.from(text))],
      ['deliver()', (sender: FrameSender, text: string) => sender.deliver(new SharedMessage(text))],
    ] as const)
      test(`FrameSender.${call} counts each message once, whether short, compressed or compressed in a thread (compression: ${compression !== undefined})`, async () => {
        const { sender, counted, client } = bench({ compression });
        for (const [index, length] of [3, 99, 100, 131_072, 131_073].entries()) {
          send(sender, 'x'.repeat(length));
          assert.equal(counted(), index + 1, `${length} bytes`);
        }
        sender.sendControl(OPCODE.ping, Buffer.alloc(0));
        await new Promise<void>((resolve) => sender.finish(resolve));
        await tick();
        assert.equal(client.messages().filter((message) => message !== 'PING').length, 5);
        assert.equal(counted(), 5);
      });

  for (const slowConsumer of ['drop-oldest', 'wait'] as const) {
    test(`with context takeover, FrameSender sends no compressed message that depends on a dropped message (policy "${slowConsumer}")`, async () => {
      const compression = readCompression('test', { thresholdBytes: 100, contextTakeover: true });
      const { client, sender, dropped } = bench({ slowConsumer, maxBufferedBytes: 150_000, compression });
      const noise = (seed: number, length = 4_000): Buffer => {
        let state = Math.imul(seed + 1, 0x9e3779b1);
        return Buffer.from(
          Array.from({ length }, () => {
            state ^= state << 13;
            state ^= state >>> 17;
            state ^= state << 5;
            return 64 + ((state >>> 8) & 63);
          }),
        );
      };
      const message = (index: number): Buffer => Buffer.concat([noise(index), noise(index - 1)]); // its second half is the first one of the message before
      client.stop();
      sender.sendBytes(noise(1_000, 100_000));
      sender.flush(); // the stream is full
      const refused = new Set<number>();
      for (let index = 1; index <= 24; index++) {
        try {
          sender.sendBytes(message(index));
        } catch {
          refused.add(index);
        }
      }
      assert.ok(dropped() > 0);
      await client.go();
      sender.sendBytes(message(25));
      sender.sendBytes(message(26));
      await tick();
      const expected = Array.from({ length: 26 }, (_, index) => index + 1).filter((index) =>
        slowConsumer === 'wait' ? !refused.has(index) : index > dropped(),
      );
      const all = Array.from({ length: 27 }, (_, index) => message(index).toString('latin1'));
      assert.deepEqual(
        client
          .messages()
          .slice(1)
          .map((got) => all.indexOf(got.toString('latin1'))),
        expected,
      );
    });
  }

  test('if a ping had to wait, FrameSender sends it as soon as the client reads again', async () => {
    const { client, sender } = bench();
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    sender.sendControl(OPCODE.ping, Buffer.alloc(0));
    sender.sendControl(OPCODE.pong, Buffer.from('one'));
    sender.sendControl(OPCODE.ping, Buffer.alloc(0));
    await client.go();
    assert.deepEqual(client.messages().slice(1), ['PONG one', 'PING']);
  });

  test('FrameSender.end() drops waiting messages, but sends a waiting close frame', async () => {
    const { client, sender } = bench();
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    sender.sendText('waits');
    sender.sendControl(OPCODE.close, closePayload(1000, ''));
    sender.end();
    await client.go();
    assert.deepEqual(client.messages().slice(1), ['CLOSE 1000']);
  });

  test('FrameSender sends waiting messages and one close frame when the client reads again, also if end() is called afterwards', async () => {
    const { client, sender } = bench();
    client.stop();
    sender.sendBytes(Buffer.alloc(HIGH_WATER_BYTES));
    sender.flush();
    sender.sendText('waits');
    sender.sendControl(OPCODE.close, closePayload(1000, ''));
    await client.go();
    sender.end();
    await client.go();
    assert.deepEqual(client.messages().slice(1), ['waits', 'CLOSE 1000']);
  });

  test('FrameSender sends nothing after end()', async () => {
    const { client, sender } = bench();
    sender.sendText('before');
    sender.end();
    sender.deliver(new SharedMessage('after'));
    sender.sendControl(OPCODE.ping, Buffer.alloc(0));
    await tick();
    assert.deepEqual(client.messages(), ['before']);
    await sender.drain();
  });
});
