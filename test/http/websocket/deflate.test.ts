import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { constants, createDeflateRaw, createInflateRaw } from 'node:zlib';
import { MessageDeflater, MessageInflater, deflateMessage } from '../../../src/http/websocket/deflate.ts';
import { negotiateDeflate, parseExtensions, readCompression } from '../../../src/http/websocket/handshake.ts';
import { seeded } from '../../support/random.ts';
import type { WebSocketCompression } from '../../../src/http/websocket/handshake.ts';

const settings = (options: WebSocketCompression = {}): ReturnType<typeof readCompression> =>
  readCompression('test', options);
const TAKES_OVER = { contextTakeover: true };

describe('negotiateDeflate()', () => {
  for (const [offer, options, field] of [
    ['permessage-deflate', {}, 'permessage-deflate; server_no_context_takeover; client_no_context_takeover'],
    ['permessage-deflate', TAKES_OVER, 'permessage-deflate'],
    ['permessage-deflate; client_max_window_bits', TAKES_OVER, 'permessage-deflate'],
    [
      'permessage-deflate; client_max_window_bits',
      { ...TAKES_OVER, windowBits: 10 },
      'permessage-deflate; server_max_window_bits=10; client_max_window_bits=10',
    ],
    [
      'permessage-deflate',
      { ...TAKES_OVER, windowBits: 10 },
      'permessage-deflate; server_max_window_bits=10',
    ],
    [
      'permessage-deflate; client_max_window_bits=9',
      TAKES_OVER,
      'permessage-deflate; client_max_window_bits=9',
    ],
    [
      'permessage-deflate; server_max_window_bits=15',
      TAKES_OVER,
      'permessage-deflate; server_max_window_bits=15',
    ],
    [
      'permessage-deflate; server_max_window_bits=12; client_max_window_bits=11',
      TAKES_OVER,
      'permessage-deflate; server_max_window_bits=12; client_max_window_bits=11',
    ],
    [
      'permessage-deflate; server_max_window_bits="12"',
      TAKES_OVER,
      'permessage-deflate; server_max_window_bits=12',
    ],
    [
      'permessage-deflate; server_max_window_bits=14',
      { ...TAKES_OVER, windowBits: 11 },
      'permessage-deflate; server_max_window_bits=11',
    ],
    [
      'permessage-deflate; server_no_context_takeover',
      TAKES_OVER,
      'permessage-deflate; server_no_context_takeover',
    ],
    [
      'permessage-deflate; client_no_context_takeover',
      TAKES_OVER,
      'permessage-deflate; client_no_context_takeover',
    ],
    [
      '  x-other;a=b  ,,permessage-deflate  ;  client_no_context_takeover  ',
      TAKES_OVER,
      'permessage-deflate; client_no_context_takeover',
    ],
  ] as const)
    test(`negotiateDeflate() accepts an offer of permessage-deflate as RFC 7692 §7.1 requires (offer: ${offer}, answer: ${field}, windowBits: ${'windowBits' in options ? options.windowBits : 'default'})`, () => {
      const agreement = negotiateDeflate(offer, settings(options));
      assert.ok(typeof agreement === 'object');
      assert.equal(agreement.field, field);
    });

  for (const bad of [
    'server_max_window_bits',
    'server_max_window_bits=7',
    'server_max_window_bits=8',
    'server_max_window_bits=16',
    'server_max_window_bits=010',
    'server_max_window_bits=a',
    'client_max_window_bits=7',
    'client_max_window_bits=16',
    'server_no_context_takeover=1',
    'client_no_context_takeover=true',
    'unknown',
    'unknown=1',
    'client_max_window_bits; client_max_window_bits',
    'server_no_context_takeover; server_no_context_takeover',
  ])
    test(`negotiateDeflate() skips an invalid offer, and accepts the next offer: "${bad}"`, () => {
      assert.equal(negotiateDeflate(`permessage-deflate; ${bad}`, settings()), undefined);
      const agreement = negotiateDeflate(
        `permessage-deflate; ${bad}, permessage-deflate; client_max_window_bits=10`,
        settings(TAKES_OVER),
      );
      assert.ok(typeof agreement === 'object');
      assert.equal(agreement.clientBits, 10);
    });

  test('negotiateDeflate() negotiates no compression if it knows none of the offered extensions', () => {
    for (const offer of [
      '',
      ' ',
      'permessage-bzip2',
      'x-webkit-deflate-frame; no_context_takeover',
      'Permessage-Deflate',
    ])
      assert.equal(negotiateDeflate(offer, settings()), undefined, offer);
  });

  for (const field of [
    'permessage-deflate;',
    ';',
    'a;=1',
    'a; b=',
    'a; b="',
    'a b',
    'a; b="x y"',
    'a=1',
    'é',
    'a; "b"',
    'a, ;',
  ]) {
    test(`negotiateDeflate() reports a malformed Sec-WebSocket-Extensions field (RFC 6455 §9.1): "${field}"`, () =>
      assert.equal(negotiateDeflate(field, settings()), 'malformed'));
  }

  test('parseExtensions() does not throw for a long field', () => {
    for (const part of ['a;', 'a ', 'a; b="\\', '; ;', 'permessage-deflate; a, '])
      parseExtensions(part.repeat(16_000 / part.length));
  });

  test('options of WebSocket compression have default values, and values out of range are refused', () => {
    assert.deepEqual(settings(), { level: 3, thresholdBytes: 1_024, contextTakeover: false, windowBits: 15 });
    for (const options of [
      { level: 0 },
      { level: 10 },
      { windowBits: 8 },
      { windowBits: 16 },
      { thresholdBytes: 0 },
    ])
      assert.throws(() => settings(options), { code: 'E_OPTION_RANGE' });
    assert.throws(() => settings({ treshold: 1 } as never), { code: 'E_OPTION_UNKNOWN' });
  });
});

function noise(length: number): Buffer {
  const random = seeded(length);
  return Buffer.from(Array.from({ length }, () => random(256)));
}

/** Returns messages of many sizes that share much of their content. */
function messages(): Buffer[] {
  const random = seeded(7692);
  return Array.from({ length: 60 }, (_, index) => {
    if (index % 10 === 9) return Buffer.from(Array.from({ length: random(5_000) }, () => random(256)));
    return Buffer.from(
      JSON.stringify({
        id: index,
        user: `user${random(5)}`,
        items: Array.from({ length: random(index % 7 === 6 ? 4_000 : 40) }, () => ({
          name: 'thing',
          price: random(100),
        })),
      }),
    );
  });
}

describe('WebSocket messages can be compressed and restored (RFC 7692)', () => {
  for (const bits of [9, 10, 12, 15])
    for (const takesOver of [true, false]) {
      test(`MessageInflater restores messages that MessageDeflater has compressed: ${bits} window bits, context takeover ${takesOver}`, () => {
        const deflater = new MessageDeflater(bits, 6, takesOver),
          inflater = new MessageInflater(bits, takesOver);
        let sent = 0;
        for (const message of messages()) {
          const deflated = deflater.deflate(message);
          sent += (deflated ?? message).length;
          if (deflated !== undefined) assert.deepEqual(inflater.inflate(deflated, 1_000_000), message);
        }
        assert.ok(sent < messages().reduce((sum, { length }) => sum + length, 0) / 2);
      });

      test(`MessageDeflater and MessageInflater are compatible with one zlib stream per connection: ${bits} bits, context takeover ${takesOver}`, async () => {
        const deflater = new MessageDeflater(bits, 6, takesOver),
          inflater = new MessageInflater(bits, takesOver);
        const theirInflate = createInflateRaw({ windowBits: bits }),
          theirDeflate = createDeflateRaw({ windowBits: bits });
        const through = (stream: typeof theirInflate, bytes: Buffer): Promise<Buffer> =>
          new Promise((resolve, reject) => {
            const parts: Buffer[] = [];
            const take = (part: Buffer): void => void parts.push(part);
            stream.on('data', take).once('error', reject).write(bytes);
            stream.flush(constants.Z_SYNC_FLUSH, () => {
              stream.off('data', take).off('error', reject);
              resolve(Buffer.concat(parts));
            });
          });
        for (const message of messages()) {
          const deflated = deflater.deflate(message);
          if (deflated !== undefined) {
            if (!takesOver) theirInflate.reset();
            assert.deepEqual(
              await through(theirInflate, Buffer.concat([deflated, Buffer.of(0, 0, 255, 255)])),
              message,
            );
          }
          if (!takesOver) theirDeflate.reset();
          const theirs = await through(theirDeflate, message);
          assert.deepEqual(theirs.subarray(-4), Buffer.of(0, 0, 255, 255));
          if (message.length > 0)
            assert.deepEqual(inflater.inflate(theirs.subarray(0, -4), 1_000_000), message);
        }
      });
    }

  test('MessageInflater refuses a message that ends within a deflate block', () => {
    for (const text of [
      'hello world, this is a text that is long enough '.repeat(3),
      'a'.repeat(5_000),
      JSON.stringify({ id: 17, names: ['one', 'two', 'three'] }).repeat(9),
    ]) {
      const deflated = deflateMessage(Buffer.from(text), 15, 6);
      for (let cut = 1; cut < deflated.length; cut++)
        assert.equal(
          new MessageInflater(15, false).inflate(deflated.subarray(0, cut), 100_000),
          'corrupt',
          `${cut} of ${deflated.length} bytes`,
        );
    }
    assert.deepEqual(new MessageInflater(15, false).inflate(Buffer.of(0), 100), Buffer.alloc(0)); // RFC 7692 §7.2.3.6
    assert.deepEqual(new MessageInflater(15, false).inflate(Buffer.alloc(0), 100), Buffer.alloc(0));
  });

  test('with context takeover, MessageDeflater compresses a repeated message better than the first one', () => {
    const text = Buffer.from(
      JSON.stringify(
        Array.from({ length: 30 }, (_, index) => ({ index, name: `name ${(index * 7919) % 100}` })),
      ),
    );
    const deflater = new MessageDeflater(15, 6, true);
    const first = deflater.deflate(text)!.length;
    assert.ok(deflater.deflate(text)!.length < first / 5);
    deflater.forget();
    assert.equal(deflater.deflate(text)!.length, first);
  });

  for (const length of [100, 300, 600, 1_500, 4_000, 9_000, 16_000])
    test(`with context takeover, a repeated message of ${length} bytes is compressed to references to the earlier message`, () => {
      const deflater = new MessageDeflater(15, 6, true),
        inflater = new MessageInflater(15, true);
      const text = Buffer.from(noise(length / 2).toString('hex')); // has no repetitions of its own
      const [first, second] = [deflater.deflate(text)!, deflater.deflate(text)!];
      assert.ok(second.length < first.length / 4, `${first.length} and ${second.length} bytes`);
      for (const deflated of [first, second]) assert.deepEqual(inflater.inflate(deflated, 100_000), text);
    });

  test('MessageInflater with context takeover also accepts a message that was compressed without context takeover', () => {
    const deflater = new MessageDeflater(12, 6, true),
      inflater = new MessageInflater(12, true);
    const [one, two] = [Buffer.from('one '.repeat(50)), Buffer.from('two '.repeat(5_000))];
    assert.deepEqual(inflater.inflate(deflater.deflate(one)!, 100_000), one);
    assert.deepEqual(inflater.inflate(deflateMessage(two, 12, 6), 100_000), two);
    deflater.forget();
    assert.deepEqual(inflater.inflate(deflater.deflate(one)!, 100_000), one);
    assert.deepEqual(inflater.inflate(deflater.deflate(two)!, 100_000), two);
  });

  test('if a message would not become smaller, MessageDeflater returns undefined', () => {
    const deflater = new MessageDeflater(15, 6, true);
    assert.equal(deflater.deflate(Buffer.from('x')), undefined);
    assert.equal(deflater.deflate(noise(300)), undefined);
  });

  test('200 unused MessageDeflaters together take less than 100 kB of buffers', () => {
    const inflater = new MessageInflater(15, true),
      deflater = new MessageDeflater(15, 6, true);
    for (let count = 0; count < 50; count++)
      inflater.inflate(deflater.deflate(Buffer.from('text '.repeat(5_000)))!, 1_000_000);
    const before = process.memoryUsage().arrayBuffers;
    const idle = Array.from({ length: 200 }, () => new MessageDeflater(15, 6, true));
    assert.ok(process.memoryUsage().arrayBuffers - before < 100_000);
    assert.equal(idle.length, 200);
  });
});
