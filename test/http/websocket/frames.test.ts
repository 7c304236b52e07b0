import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MessageDeflater, MessageInflater } from '../../../src/http/websocket/deflate.ts';
import { CLOSE, OPCODE, isCloseCode } from '../../../src/http/websocket/codes.ts';
import { FrameReader } from '../../../src/http/websocket/frames.ts';
import { closePayload, encodeFrame, encodeMaskedFrame } from '../../../src/http/websocket/encode.ts';
import { seeded } from '../../support/random.ts';
import { closing, everySplit, frame, read } from '../../support/ws-frames.ts';
import { readFrames } from '../../support/ws-reference.ts';
import type { FrameOptions } from '../../support/ws-frames.ts';
import type { FrameEvent } from '../../support/ws-reference.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const frames = (...parts: FrameOptions[]): Buffer => Buffer.concat(parts.map(frame));
const text = (payload: string | Uint8Array, more: FrameOptions = {}): FrameOptions => ({
  opcode: OPCODE.text,
  payload,
  ...more,
});
const more = (payload: string | Uint8Array, rest: FrameOptions = {}): FrameOptions => ({
  opcode: OPCODE.continuation,
  payload,
  ...rest,
});
const start = (payload: string | Uint8Array, rest: FrameOptions = {}): FrameOptions => ({
  opcode: OPCODE.text,
  isFinal: false,
  payload,
  ...rest,
});
const ping = (payload: string | Uint8Array = '', rest: FrameOptions = {}): FrameOptions => ({
  opcode: OPCODE.ping,
  payload,
  ...rest,
});
const close = (payload: string | Uint8Array = ''): FrameOptions => ({ opcode: OPCODE.close, payload });
const hexOf = (payload: string | Uint8Array): string => Buffer.from(payload as string).toString('hex');

type Case = readonly [what: string, bytes: Buffer, told: readonly FrameEvent[], isLong?: boolean];

const BAD: FrameEvent = ['violation', CLOSE.protocolError];
const NOT_TEXT: FrameEvent = ['violation', CLOSE.invalidData];
const TOO_BIG: FrameEvent = ['violation', CLOSE.messageTooBig];

/**
 * Bytes, and the events that a reader reports. Each case is read in one chunk, in two chunks split at every
 * position, and byte by byte.
 */
const CASES: readonly Case[] = [
  // RFC 6455 §5.7
  ['the masked "Hello" of RFC 6455 §5.7', hex('81 85 37fa213d 7f9f4d5158'), [['text', 'Hello']]],
  ['the masked pong of RFC 6455 §5.7', hex('8a 85 37fa213d 7f9f4d5158'), [['pong', hexOf('Hello')]]],
  // framing: sizes
  ['an empty text', frames(text('')), [['text', '']]],
  ['an empty binary message', frames({ opcode: OPCODE.binary }), [['binary', '']]],
  ...[1, 2, 3, 4, 47, 48, 49, 95, 96, 97, 124, 125, 126, 127, 128, 255, 256].map((length): Case => [
    `a text of ${length} bytes`,
    frames(text('*'.repeat(length))),
    [['text', '*'.repeat(length)]],
  ]),
  ...[65_535, 65_536].map((length): Case => [
    `a binary message of ${length} bytes`,
    frames({ opcode: OPCODE.binary, payload: Buffer.alloc(length, 0xfe) }),
    [['binary', 'fe'.repeat(length)]],
    true,
  ]),
  [
    'two messages behind each other',
    frames(text('one'), { opcode: OPCODE.binary, payload: 'two' }),
    [
      ['text', 'one'],
      ['binary', hexOf('two')],
    ],
  ],
  ['a payload masked with zeros', frames(text('plain', { key: [0, 0, 0, 0] })), [['text', 'plain']]],
  ['a length of 16 bits that needs 7', frames(text('short', { lengthBits: 16 })), [BAD]],
  ['a length of 64 bits that needs 7', frames(text('short', { lengthBits: 64 })), [BAD]],
  ['a length of 64 bits that needs 16', frames(text('*'.repeat(200), { lengthBits: 64 })), [BAD], true],
  ['a length with its first bit set', frames(text('', { lengthBits: 64, length: 1n << 63n })), [BAD]],
  ['a length beyond every number', frames(text('', { lengthBits: 64, length: (1n << 63n) - 1n })), [TOO_BIG]],
  // masking, §5.1
  ['a frame that is not masked', frames(text('bare', { key: undefined })), [BAD]],
  ['a control frame that is not masked', frames(ping('bare', { key: undefined })), [BAD]],
  // reserved bits, §5.2
  ...[1, 2, 3, 4, 5, 6, 7].map((rsv): Case => [
    `reserved bits ${rsv} on a text`,
    frames(text('good'), text('bad', { rsv })),
    [['text', 'good'], BAD],
  ]),
  ...[1, 2, 4].map((rsv): Case => [`reserved bits ${rsv} on a ping`, frames(ping('x', { rsv })), [BAD]]),
  ...[1, 2, 4].map((rsv): Case => [
    `reserved bits ${rsv} on a continuation`,
    frames(start('a'), more('b', { rsv })),
    [BAD],
  ]),
  // opcodes
  ...[3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map((opcode): Case => [
    `the opcode ${opcode}`,
    frames(text('good'), { opcode, payload: 'bad' }),
    [['text', 'good'], BAD],
  ]),
  // control frames, §5.5
  ['a ping without a payload', frames(ping()), [['ping', '']]],
  ['a ping of 125 bytes', frames(ping(Buffer.alloc(125, 0xfe))), [['ping', 'fe'.repeat(125)]]],
  ['a ping of 126 bytes', frames(ping(Buffer.alloc(126))), [BAD], true],
  ['a ping in fragments', frames(ping('a', { isFinal: false }), more('b')), [BAD]],
  ['a close frame in fragments', frames({ ...close(), isFinal: false }), [BAD]],
  [
    'a pong that nobody asked for',
    frames({ opcode: OPCODE.pong, payload: 'x' }, text('on')),
    [
      ['pong', hexOf('x')],
      ['text', 'on'],
    ],
  ],
  [
    'ten pings',
    frames(...Array.from({ length: 10 }, (_, index) => ping(String(index)))),
    Array.from({ length: 10 }, (_, index): FrameEvent => ['ping', hexOf(String(index))]),
  ],
  // fragmentation, §5.4
  ['a text in two fragments', frames(start('frag'), more('ment')), [['text', 'fragment']]],
  [
    'a text in fragments of which some are empty',
    frames(start(''), more('', { isFinal: false }), more('x', { isFinal: false }), more('')),
    [['text', 'x']],
  ],
  ['a text in empty fragments', frames(start(''), more('', { isFinal: false }), more('')), [['text', '']]],
  [
    'a binary message in three fragments',
    frames({ opcode: OPCODE.binary, isFinal: false, payload: 'a' }, more('b', { isFinal: false }), more('c')),
    [['binary', hexOf('abc')]],
  ],
  [
    'a ping between fragments',
    frames(start('a'), ping('p'), more('b', { isFinal: false }), ping('q'), more('c')),
    [
      ['ping', hexOf('p')],
      ['ping', hexOf('q')],
      ['text', 'abc'],
    ],
  ],
  [
    'a close frame between fragments',
    frames(start('a'), close(closing(1000)), more('b')),
    [['close', 1000, '']],
  ],
  ['a continuation of nothing', frames(more('x')), [BAD]],
  ['a continuation of nothing that goes on', frames(more('x', { isFinal: false }), text('y')), [BAD]],
  ['a continuation behind a message that is whole', frames(text('x'), more('y')), [['text', 'x'], BAD]],
  ['a text within a message', frames(start('a'), text('b')), [BAD]],
  ['a binary frame within a message', frames(start('a'), { opcode: OPCODE.binary, isFinal: false }), [BAD]],
  [
    'messages in fragments behind each other',
    frames(start('a'), more('b'), start('c'), more('d')),
    [
      ['text', 'ab'],
      ['text', 'cd'],
    ],
  ],
  // UTF-8, §8.1
  ...[
    'κόσμε',
    '\u0000\u007f',
    '\u0080\u07ff',
    '\u0800\uffff',
    '\u{10000}\u{10ffff}',
    '\ud7ff\ue000',
    '\ufffd',
    '\ufffe\uffff',
    '\ufeffmark',
    'Hello-µ@ßöäüàá-UTF-8!!',
  ].flatMap((valid): Case[] => [
    [`the text ${JSON.stringify(valid)}`, frames(text(valid)), [['text', valid]]],
    [
      `the text ${JSON.stringify(valid)} with a fragment for each byte`,
      frames(
        start(''),
        ...[...Buffer.from(valid)].map((byte) => more(Uint8Array.of(byte), { isFinal: false })),
        more(''),
      ),
      [['text', valid]],
    ],
    [
      `the long text of ${JSON.stringify(valid)}`,
      frames(text(`${'-'.repeat(130)}${valid}`)),
      [['text', `${'-'.repeat(130)}${valid}`]],
    ],
  ]),
  ...(
    [
      ['80', 'a continuation byte'],
      ['bf', 'the last continuation byte'],
      ['c0af', 'a long form of 2 bytes'],
      ['c1bf', 'another long form of 2'],
      ['e080af', 'a long form of 3 bytes'],
      ['e09fbf', 'the longest long form of 3'],
      ['f08080af', 'a long form of 4 bytes'],
      ['f08fbfbf', 'the longest long form of 4'],
      ['eda080', 'a high surrogate'],
      ['edbfbf', 'a low surrogate'],
      ['eda080edb080', 'a pair of surrogates'],
      ['f4908080', 'above U+10FFFF'],
      ['f5808080', 'a byte that never occurs'],
      ['f888808080', '5 bytes'],
      ['fc8480808080', '6 bytes'],
      ['fe', '0xfe'],
      ['ff', '0xff'],
      ['c3', 'half a character'],
      ['e282', 'two thirds of a character'],
      ['f09f98', 'three quarters of a character'],
      ['c341', 'a character that breaks off'],
      ['e28241', 'one that breaks off later'],
      ['f09f9841', 'one that breaks off last'],
      ['cebae1bdb9cf83cebcceb5eda080656469746564', 'a surrogate in the middle'],
    ] as const
  ).flatMap(([bytes, what]): Case[] => [
    [`no text: ${what}`, frames(text(hex(bytes))), [NOT_TEXT]],
    [
      `no text, in fragments: ${what}`,
      frames(start('good '), more(hex(bytes), { isFinal: false }), more('')),
      [NOT_TEXT],
    ],
    [
      `no text, behind much: ${what}`,
      frames(text(Buffer.concat([Buffer.alloc(100, 0x61), hex(bytes)]))),
      [NOT_TEXT],
    ],
  ]),
  [
    'a character cut by fragments',
    frames(start(hex('e2')), more(hex('82'), { isFinal: false }), more(hex('ac'))),
    [['text', '€']],
  ],
  [
    'a character cut by fragments, with a ping between',
    frames(start(hex('f09f')), ping(), more(hex('9880'))),
    [
      ['ping', ''],
      ['text', '😀'],
    ],
  ],
  [
    'a binary message that is no text',
    frames({ opcode: OPCODE.binary, payload: hex('fffe80') }),
    [['binary', 'fffe80']],
  ],
  // closing, §5.5.1 and §7.4
  ['a close frame', frames(close()), [['close', 1005, '']]],
  ['a close frame with half a code', frames(close('x')), [BAD]],
  ['a close frame with a reason', frames(close(closing(1000, 'ok 😀'))), [['close', 1000, 'ok 😀']]],
  [
    'a close frame with the longest reason',
    frames(close(closing(1000, 'r'.repeat(123)))),
    [['close', 1000, 'r'.repeat(123)]],
  ],
  ['a close frame that is too long', frames(close(closing(1000, 'r'.repeat(124)))), [BAD], true],
  ['a reason that is no text', frames(close(closing(1000, hex('c0af')))), [NOT_TEXT]],
  ...[1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999].map(
    (code): Case => [`the close code ${code}`, frames(close(closing(code))), [['close', code, '']]],
  ),
  ...[0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535].map((code): Case => [
    `the close code ${code}`,
    frames(close(closing(code))),
    [BAD],
  ]),
  [
    'what comes behind a close frame',
    frames(close(closing(1000)), text('late'), ping()),
    [['close', 1000, '']],
  ],
  ['what comes behind a violation', frames(text('x', { rsv: 7 }), text('late')), [BAD]],
];

describe('FrameReader', () => {
  for (const [what, bytes, reported, isLong = false] of CASES) {
    test(`FrameReader reads valid frames and refuses invalid frames, however the bytes are split: ${what}`, () => {
      for (const [how, chunks] of isLong ? heads(bytes) : everySplit(bytes))
        assert.deepEqual(read(chunks), reported, how);
      assert.deepEqual(readFrames(bytes, 1_048_576), reported, 'the reference');
    });
  }

  /** Yields the bytes in two chunks, split within the first or the last bytes. */
  function* heads(bytes: Buffer): ReturnType<typeof everySplit> {
    yield ['whole', [bytes]];
    for (const at of [1, 2, 3, 4, 8, 9, 10, 13, 14, 15, 16, 17, bytes.length - 1])
      yield [`cut at ${at}`, [bytes.subarray(0, at), bytes.subarray(at)]];
    yield [
      'in chunks of 1000',
      Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, index) =>
        bytes.subarray(index * 1000, (index + 1) * 1000),
      ),
    ];
  }

  test('FrameReader refuses a text message at its first invalid UTF-8 byte, before the frame or the character is complete', () => {
    const long = frame({
      opcode: OPCODE.text,
      payload: Buffer.concat([Buffer.from('good'), hex('eda080'), Buffer.alloc(100)]),
    });
    assert.deepEqual(read([long.subarray(0, 6 + 4 + 1)]), []);
    assert.deepEqual(read([long.subarray(0, 6 + 4 + 2)]), [NOT_TEXT], 'ED A0 can begin nothing');
    const outside = frames(start('good'), more(hex('f490'), { isFinal: false }));
    assert.deepEqual(read([outside]), [NOT_TEXT], 'F4 90 can begin nothing');
    assert.deepEqual(read([outside.subarray(0, -1)]), []);
  });

  for (const [what, bytes, reported] of [
    ['a message of exactly the limit', frames(text('12345678')), [['text', '12345678']]],
    ['a message above the limit', frames(text('123456789')), [TOO_BIG]],
    ['fragments that are together above the limit', frames(start('12345'), more('6789')), [TOO_BIG]],
    ['an announced length above the limit', frames(text('', { length: 9n })), [TOO_BIG]],
    ['an announced 64-bit length above the limit', frames(text('', { length: 70_000n })), [TOO_BIG]],
    [
      'messages that are only together above the limit',
      frames(text('12345678'), text('12345678')),
      [
        ['text', '12345678'],
        ['text', '12345678'],
      ],
    ],
    [
      'control frames of any size',
      frames(ping('p'.repeat(100)), text('x')),
      [
        ['ping', hexOf('p'.repeat(100))],
        ['text', 'x'],
      ],
    ],
  ] as const) {
    test(`FrameReader enforces maxMessageBytes: ${what}`, () => {
      for (const [how, chunks] of everySplit(bytes))
        assert.deepEqual(read(chunks, { maxMessageBytes: 8 }), reported, how);
    });
  }

  test('FrameReader counts each fragment as at least 64 bytes, so that empty fragments are limited', () => {
    const empty = frame(more('', { isFinal: false }));
    const most = [frame(start('')), ...Array.from({ length: 16_384 / 64 - 1 }, () => empty)];
    assert.deepEqual(read([Buffer.concat(most)], { maxMessageBytes: 100 }), []);
    assert.deepEqual(read([Buffer.concat([...most, empty])], { maxMessageBytes: 100 }), [TOO_BIG]);
    assert.deepEqual(read([Buffer.concat([...most, frame(more('end'))])], { maxMessageBytes: 100_000 }), [
      ['text', 'end'],
    ]);
  });

  test('FrameReader keeps the bytes of small fragments of a message, but not the large chunks that contained the fragments', async () => {
    const reader = new FrameReader({ isMasked: true, maxMessageBytes: 1_048_576 }, SILENT);
    reader.push(frame(start('')));
    const padding = Buffer.concat(Array.from({ length: 400 }, () => frame(ping('*'.repeat(120)))));
    gc();
    const before = process.memoryUsage().arrayBuffers;
    for (let count = 0; count < 200; count++)
      reader.push(Buffer.concat([frame(more('*'.repeat(600), { isFinal: false })), padding])); // chunks of 50 KB, each with 600 bytes to be kept
    let kept = Infinity;
    for (let round = 0; round < 50 && kept >= 1_000_000; round++) {
      // waits for the garbage collector, which works in another thread
      await new Promise((resolve) => setImmediate(resolve));
      gc();
      kept = process.memoryUsage().arrayBuffers - before;
    }
    assert.ok(kept < 1_000_000, `${kept} bytes are kept for 120,000`);
    assert.equal(reader.isOver, false);
  });

  for (const ownsChunks of [false, true]) {
    test(`FrameReader reads a long message from chunks of any size, and ${ownsChunks ? 'frees' : 'keeps'} their memory with ownsChunks: ${ownsChunks}`, () => {
      const random = seeded(131_072);
      const words = Array.from({ length: 60_000 }, (_, index) => `${index} \u20ac `).join('');
      const bytes = Buffer.from(words);
      const reported: (string | Buffer)[] = [];
      const reader = new FrameReader(
        { isMasked: true, maxMessageBytes: 2 ** 21, ownsChunks },
        {
          ...SILENT,
          onText: (message) => void reported.push(message),
          onBinary: (message) => void reported.push(message),
        },
      );
      const stream = frames(
        text(words, { key: [1, 2, 3, 4] }),
        { opcode: OPCODE.binary, payload: 'short' },
        { opcode: OPCODE.binary, payload: bytes, key: [0x80, 0, 9, 255] },
        text('end'),
      );
      const chunks: Buffer[] = [];
      for (let at = 0; at < stream.length;) {
        const size = random(4) === 0 ? 1 + random(40) : 20_000 + random(45_536);
        const chunk = Buffer.allocUnsafeSlow(Math.min(size, stream.length - at));
        stream.copy(chunk, 0, at);
        chunks.push(chunk);
        at += chunk.length;
      }
      const sizes = chunks.map(({ length }) => length);
      for (const chunk of chunks) reader.push(chunk);
      assert.equal(reported.length, 4);
      assert.equal(reported[0], words);
      assert.equal(String(reported[1]), 'short'); // lies in a chunk that is not given back
      assert.ok(bytes.equals(reported[2] as Buffer));
      assert.equal(reported[3], 'end');
      const kept = chunks.filter((chunk, index) => chunk.length === sizes[index]);
      if (ownsChunks) assert.ok(kept.length < chunks.length / 2, `${kept.length} of ${chunks.length}`);
      else assert.equal(kept.length, chunks.length);
    });
  }

  test('FrameReader frees the memory of a long chunk of text, unless the chunk is still in use or belongs to the caller', () => {
    const words = 'word '.repeat(600);
    const whole = frame(text(words));
    const own = (...parts: Uint8Array[]): Buffer => {
      const chunk = Buffer.allocUnsafeSlow(parts.reduce((sum, part) => sum + part.length, 0));
      let at = 0;
      for (const part of parts) {
        chunk.set(part, at);
        at += part.length;
      }
      return chunk;
    };
    const cases: readonly (readonly [
      what: string,
      chunk: Buffer,
      isGivenBack: boolean,
      ownsChunks?: boolean,
    ])[] = [
      ['one text', own(whole), true],
      ['two texts', own(whole, whole), true],
      ['a ping besides', own(whole, frame({ opcode: OPCODE.ping, payload: 'x' })), true],
      ['the head of the next', own(whole, whole.subarray(0, 3)), true],
      ['the start of the next, which is copied', own(whole, whole.subarray(0, 500)), true],
      ['most of the next', own(frame(text('a')), whole.subarray(0, 2_900)), false],
      ['a binary message', own(frame({ opcode: OPCODE.binary, payload: words })), false],
      ['a binary message besides', own(whole, frame({ opcode: OPCODE.binary, payload: 'x' })), false],
      ['a short text', own(frame(text('word'))), false], // costs less than to give it back
      ['a part of larger memory', own(whole, whole).subarray(0, whole.length), false],
      ['memory of somebody else', own(whole), false, false],
    ];
    for (const [what, chunk, isGivenBack, ownsChunks = true] of cases) {
      const reported: string[] = [];
      const reader = new FrameReader(
        { isMasked: true, maxMessageBytes: 2 ** 20, ownsChunks },
        {
          ...SILENT,
          onText: (message) => void reported.push(message),
          onBinary: (bytes) => void reported.push(String(bytes)),
        },
      );
      reader.push(chunk);
      assert.equal(chunk.length === 0, isGivenBack, what);
      if (what.includes('next'))
        reader.push(own(whole.subarray(what.includes('head') ? 3 : what.includes('most') ? 2_900 : 500)));
      assert.deepEqual(
        reported.filter((message) => message.length > 5),
        (what.includes('next') && !what.includes('most')) || what.startsWith('two')
          ? [words, words]
          : what === 'a short text'
            ? []
            : [words],
        what,
      );
    }
  });

  test('FrameReader refuses a long text message at its first invalid byte, before the message is complete', () => {
    const long = frame(
      text(Buffer.concat([Buffer.alloc(150_000, 'a'), hex('eda080'), Buffer.alloc(50_000, 'a')])),
    );
    assert.deepEqual(read([long.subarray(0, 100_000), long.subarray(100_000, 150_020)]), [NOT_TEXT]);
  });

  test('FrameReader allocates memory when bytes arrive, not for the announced length of a message', () => {
    const before = process.memoryUsage().arrayBuffers;
    const readers = Array.from(
      { length: 20 },
      () => new FrameReader({ isMasked: true, maxMessageBytes: 2 ** 24, ownsChunks: true }, SILENT),
    );
    for (const reader of readers)
      reader.push(frame(text('x'.repeat(200), { lengthBits: 64, length: 2n ** 24n })));
    assert.ok(process.memoryUsage().arrayBuffers - before < 2_000_000);
    assert.ok(readers.every(({ isOver }) => !isOver));
  });

  test('with isMasked: false, FrameReader reads unmasked frames of a server', () => {
    for (const [how, chunks] of everySplit(
      Buffer.concat([encodeFrame(OPCODE.text, 'Hello'), encodeFrame(OPCODE.binary, Buffer.alloc(200, 1))]),
    )) {
      assert.deepEqual(
        read(chunks, { isMasked: false }),
        [
          ['text', 'Hello'],
          ['binary', '01'.repeat(200)],
        ],
        how,
      );
    }
    assert.deepEqual(read([frame(text('x'))], { isMasked: false }), [BAD]);
  });

  test('FrameReader can stop in the middle of a chunk and continue at the same position', () => {
    const reported: string[] = [];
    const reader: FrameReader = new FrameReader(
      { isMasked: true, maxMessageBytes: 100 },
      {
        ...SILENT,
        onText: (message) => {
          reported.push(message);
          reader.stop();
        },
      },
    );
    reader.push(frames(text('a'), text('b')));
    reader.push(frames(text('c')));
    assert.deepEqual(reported, ['a']);
    reader.resume();
    assert.deepEqual(reported, ['a', 'b']);
    reader.resume();
    reader.resume();
    assert.deepEqual(reported, ['a', 'b', 'c']);
    reader.push(frames(text('d')));
    assert.deepEqual(reported, ['a', 'b', 'c', 'd']);
    for (let count = 0; count < 3; count++) reader.resume();
    reader.push(frames(text('e')));
    assert.deepEqual(reported, ['a', 'b', 'c', 'd', 'e']);
  });

  test('FrameReader reports nothing after end(), even if end() is called during a message', () => {
    const reported: string[] = [];
    const reader: FrameReader = new FrameReader(
      { isMasked: true, maxMessageBytes: 100 },
      {
        ...SILENT,
        onText: (message) => {
          reported.push(message);
          reader.end();
        },
      },
    );
    reader.push(frames(text('a'), text('b')));
    reader.push(frames(text('c')));
    assert.deepEqual(reported, ['a']);
    assert.equal(reader.isOver, true);
  });

  test('FrameReader returns the same as a simple implementation of RFC 6455 for 10,000 mutated streams', () => {
    const random = seeded(6455);
    const pick = <T>(items: readonly T[]): T => items[random(items.length)]!;
    const payloads = [
      '',
      'a',
      'hello',
      'wörld €',
      '😀',
      '*'.repeat(125),
      '*'.repeat(126),
      '€'.repeat(60),
      hex('eda080'),
      hex('c3'),
      hex('fffefd'),
    ];
    const opcodes = [0, 0, 1, 1, 1, 2, 2, 8, 9, 9, 10];
    for (let round = 0; round < 10_000; round++) {
      const stream = Buffer.concat(
        Array.from({ length: 1 + random(6) }, () => {
          const opcode = pick(opcodes);
          return frame({
            opcode,
            isFinal: random(3) > 0,
            payload:
              opcode === 8
                ? closing(pick([1000, 1001, 1005, 3000, 4999, 5000]), pick(['', 'bye', hex('c0')]))
                : pick(payloads),
            key: [random(256), random(256), random(256), random(256)],
          });
        }),
      );
      for (let changes = random(4); changes > 0; changes--) stream[random(stream.length)]! ^= 1 << random(8);
      const chunks: Buffer[] = [];
      for (let at = 0; at < stream.length;)
        chunks.push(stream.subarray(at, (at += 1 + random(pick([1, 4, 40, 400])))));
      assert.deepEqual(
        read(chunks, { maxMessageBytes: 300 }),
        readFrames(stream, 300),
        `round ${round}: ${stream.toString('hex')}`,
      );
    }
  });
});

describe('FrameReader decompresses messages', () => {
  const inflate = (): {
    inflate: (bytes: Uint8Array, most: number) => ReturnType<MessageInflater['inflate']>;
  } => {
    const inflater = new MessageInflater(15, true);
    return { inflate: (bytes, most) => inflater.inflate(bytes, most) };
  };
  const deflated = (message: string): Buffer =>
    new MessageDeflater(15, 6, false).deflate(Buffer.from(message))!;

  for (const [what, bytes, reported] of [
    [
      'the compressed "Hello" of RFC 7692 §7.2.3.1',
      frames({ rsv: 4, payload: hex('f248cdc9c90700') }),
      [['text', 'Hello']],
    ],
    [
      'the compressed "Hello" of §7.2.3.1 in two fragments',
      frames({ rsv: 4, isFinal: false, payload: hex('f248cd') }, more(hex('c9c90700'))),
      [['text', 'Hello']],
    ],
    [
      'the two messages of §7.2.3.2, the second one out of the window',
      frames({ rsv: 4, payload: hex('f248cdc9c90700') }, { rsv: 4, payload: hex('f200110000') }),
      [
        ['text', 'Hello'],
        ['text', 'Hello'],
      ],
    ],
    [
      'the block without compression of §7.2.3.3',
      frames({ rsv: 4, payload: hex('000500faff48656c6c6f00') }),
      [['text', 'Hello']],
    ],
    [
      'the final block of §7.2.3.4',
      frames({ rsv: 4, payload: hex('f348cdc9c9070000') }),
      [['text', 'Hello']],
    ],
    [
      'the two blocks of §7.2.3.5',
      frames({ rsv: 4, payload: hex('f248050000 00ffff cac9c90700') }),
      [['text', 'Hello']],
    ],
    ['an empty message', frames({ rsv: 4, payload: hex('00') }), [['text', '']]],
    [
      'messages of both kinds',
      frames({ rsv: 4, payload: deflated('a'.repeat(50)) }, text('plain')),
      [
        ['text', 'a'.repeat(50)],
        ['text', 'plain'],
      ],
    ],
    [
      'a ping between fragments',
      frames({ rsv: 4, isFinal: false, payload: hex('f248cd') }, ping('p'), more(hex('c9c90700'))),
      [
        ['ping', hexOf('p')],
        ['text', 'Hello'],
      ],
    ],
    [
      'a continuation frame with the RSV1 bit',
      frames({ rsv: 4, isFinal: false, payload: hex('f248cd') }, more(hex('c9c90700'), { rsv: 4 })),
      [BAD],
    ],
    ['a ping with the RSV1 bit', frames(ping('x', { rsv: 4 })), [BAD]],
    ['another reserved bit', frames({ rsv: 6, payload: hex('f248cdc9c90700') }), [BAD]],
    ['data that cannot be inflated', frames({ rsv: 4, payload: hex('ffffffff') }), [NOT_TEXT]],
    [
      'a text message that inflates to invalid UTF-8',
      frames({ rsv: 4, payload: new MessageDeflater(15, 6, false).deflate(Buffer.alloc(30, 0xff))! }),
      [NOT_TEXT],
    ],
    [
      'a binary message',
      frames({
        opcode: OPCODE.binary,
        rsv: 4,
        payload: new MessageDeflater(15, 6, false).deflate(Buffer.alloc(30, 0xff))!,
      }),
      [['binary', 'ff'.repeat(30)]],
    ],
  ] as const) {
    test(`FrameReader inflates valid messages and refuses invalid messages, however the bytes are split: ${what}`, () => {
      for (const [how, chunks] of everySplit(bytes)) assert.deepEqual(read(chunks, inflate()), reported, how);
    });
  }

  test('FrameReader with compression refuses a text longer than the longest possible string, even if maxMessageBytes allows it', () => {
    const reported: unknown[] = [];
    const tell = (what: unknown): void => void reported.push(what);
    new FrameReader(
      {
        isMasked: true,
        maxMessageBytes: 2 ** 30,
        inflate: () => Buffer.alloc(constants.MAX_STRING_LENGTH + 1),
      },
      {
        onText: tell,
        onBinary: tell,
        onPing: tell,
        onPong: tell,
        onClose: tell,
        onViolation: tell,
      },
    ).push(frame({ rsv: 4, payload: 'x' }));
    assert.deepEqual(reported, [CLOSE.messageTooBig]);
  });

  test('FrameReader with compression never inflates more than maxMessageBytes', () => {
    const bomb = new MessageDeflater(15, 9, false).deflate(Buffer.alloc(20_000_000))!;
    assert.ok(bomb.length < 25_000);
    const before = process.memoryUsage().arrayBuffers;
    assert.deepEqual(read([frame({ rsv: 4, payload: bomb })], { ...inflate(), maxMessageBytes: 1_000_000 }), [
      TOO_BIG,
    ]);
    assert.ok(process.memoryUsage().arrayBuffers - before < 4_000_000);
    assert.deepEqual(
      read([frame({ rsv: 4, payload: deflated('a'.repeat(100)) })], { ...inflate(), maxMessageBytes: 100 }),
      [['text', 'a'.repeat(100)]],
    );
    assert.deepEqual(
      read([frame({ rsv: 4, payload: deflated('a'.repeat(101)) })], { ...inflate(), maxMessageBytes: 100 }),
      [TOO_BIG],
    );
  });
});

describe('encodeFrame() and encodeMaskedFrame() encode WebSocket frames', () => {
  test('encodeFrame() writes the examples of RFC 6455 §5.7', () => {
    assert.deepEqual(encodeFrame(OPCODE.text, 'Hello'), hex('8105 48656c6c6f'));
    assert.deepEqual(
      encodeMaskedFrame(OPCODE.text, 'Hello', hex('37fa213d')),
      hex('8185 37fa213d 7f9f4d5158'),
    );
    assert.deepEqual(encodeFrame(OPCODE.binary, Buffer.alloc(256)).subarray(0, 4), hex('827e0100'));
    assert.deepEqual(
      encodeFrame(OPCODE.binary, Buffer.alloc(65_536)).subarray(0, 10),
      hex('827f0000000000010000'),
    );
  });

  test('FrameReader reads frames that encodeMaskedFrame() has written, for every size and masking key', () => {
    const random = seeded(7);
    for (const length of [0, 1, 3, 4, 5, 47, 48, 51, 125, 126, 1000, 65_535, 65_536, 200_001]) {
      const payload = Buffer.from(Array.from({ length }, () => random(256)));
      const key = Uint8Array.from([random(256), random(256), random(256), random(256)]);
      const sent = encodeMaskedFrame(OPCODE.binary, payload, key);
      for (const offset of [0, 1, 2, 3, 4, 5, 6, 7]) {
        // an offset in memory, because masking by words needs aligned memory
        const memory = Buffer.alloc(sent.length + offset);
        sent.copy(memory, offset);
        let got: Buffer | undefined;
        new FrameReader(
          { isMasked: true, maxMessageBytes: 1_000_000 },
          {
            ...SILENT,
            onBinary: (bytes) => {
              got = bytes;
            },
          },
        ).push(memory.subarray(offset));
        assert.ok(got?.equals(payload), `${length} bytes at ${offset}`);
      }
    }
  });

  test('closePayload() shortens the reason to 123 bytes without splitting a character', () => {
    for (const [reason, expected] of [
      ['bye', 'bye'],
      ['r'.repeat(200), 'r'.repeat(123)],
      ['€'.repeat(41), '€'.repeat(41)],
      [`x${'€'.repeat(41)}`, `x${'€'.repeat(40)}`],
      [`xy${'😀'.repeat(31)}`, `xy${'😀'.repeat(30)}`],
    ] as const) {
      const payload = closePayload(4000, reason);
      assert.equal(payload.readUInt16BE(0), 4000);
      assert.equal(payload.subarray(2).toString(), expected);
      assert.deepEqual(read([frame(close(payload))]), [['close', 4000, expected]]);
    }
  });

  test('isCloseCode() accepts exactly the codes that RFC 6455 allows in a close frame', () => {
    const allowed = Array.from({ length: 6000 }, (_, code) => code).filter(isCloseCode);
    assert.deepEqual(
      allowed.filter((code) => code < 3000),
      [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014],
    );
    assert.equal(allowed.length, 12 + 2000);
  });
});

/** Lets the collector free unreferenced memory. */
function gc(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

const SILENT = {
  onText: () => undefined,
  onBinary: () => undefined,
  onPing: () => undefined,
  onPong: () => undefined,
  onClose: () => undefined,
  onViolation: () => undefined,
};

for (const [payload, code, reason] of [
  [Buffer.of(3), 1002, 'a close frame has a code of one byte'],
  [closing(1005), 1002, 'the close code must not be sent'],
  [closing(999), 1002, 'the close code must not be sent'],
  [closing(1000, Uint8Array.of(0xff)), 1007, 'the reason for closing is not UTF-8'],
] as const)
  test(`the answer to an invalid close frame names the problem: ${reason} (${payload.toString('hex')})`, () => {
    const found: unknown[] = [];
    const unexpected = (): void => assert.fail('the frame was accepted');
    new FrameReader(
      { isMasked: true, maxMessageBytes: 1_000 },
      {
        onText: unexpected,
        onBinary: unexpected,
        onPing: unexpected,
        onPong: unexpected,
        onClose: unexpected,
        onViolation: (...violation) => found.push(violation),
      },
    ).push(frame({ opcode: OPCODE.close, payload }));
    assert.deepEqual(found, [[code, reason]]);
  });
