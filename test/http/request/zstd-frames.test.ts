import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import { constants, zstdCompressSync } from 'node:zlib';
import { ZstdFrames } from '../../../src/http/request/body-codings.ts';

const contents: Readonly<Record<string, Buffer>> = {
  empty: Buffer.alloc(0),
  short: Buffer.from('short'),
  'of one byte, repeated': Buffer.alloc(300_000, 'x'),
  'of several blocks': Buffer.from(randomBytes(200_000).toString('hex')),
  'of 256 bytes and more': randomBytes(300),
  'of raw blocks': randomBytes(150_000),
};
const frames: readonly (readonly [what: string, bytes: Buffer])[] = [
  ...Object.entries(contents).flatMap(([what, content]) =>
    [0, 1].flatMap((flag) =>
      [0, 1].map(
        (sized) =>
          [
            `${what}${flag === 1 ? ', with checksum' : ''}${sized === 1 ? '' : ', of unknown size'}`,
            zstdCompressSync(content, {
              params: { [constants.ZSTD_c_checksumFlag]: flag, [constants.ZSTD_c_contentSizeFlag]: sized },
            }),
          ] as const,
      ),
    ),
  ),
  [
    'of empty blocks',
    Buffer.concat([Buffer.from('28b52ffd2000', 'hex'), Buffer.alloc(3_000), Buffer.from('010000', 'hex')]),
  ],
  [
    'of blocks of one byte, repeated',
    Buffer.concat([
      Buffer.from('28b52ffd0438', 'hex'),
      ...Array.from({ length: 100 }, () => Buffer.from('0a000078', 'hex')),
      Buffer.from('0b00007801020304', 'hex'),
    ]),
  ],
  ['skippable', Buffer.from('502a4d1803000000010203', 'hex')],
  ['skippable, without content', Buffer.from('5f2a4d1800000000', 'hex')],
];

for (const [what, bytes] of frames) {
  test(`ZstdFrames finds the end of a frame that is ${what}, wherever it is cut`, () => {
    const { length } = bytes;
    const all = Buffer.concat([bytes, bytes, bytes]);
    for (const cut of new Set([
      ...Array(40).keys(),
      length >> 1,
      ...Array(8)
        .keys()
        .map((back) => length - 1 - back),
    ])) {
      if (cut < 0 || cut >= length) continue;
      const frames = new ZstdFrames();
      if (cut > 0) assert.equal(frames.endIn(all.subarray(0, cut), 0), cut);
      const rest = all.subarray(cut);
      const first = frames.endIn(rest, 0);
      assert.equal(first, length - cut, `cut at ${cut}`);
      assert.equal(frames.endIn(rest, first), first + length, `cut at ${cut}`);
    }
    const bytewise = new ZstdFrames();
    for (const byte of bytes) assert.equal(bytewise.endIn(Buffer.of(byte), 0), 1);
    assert.equal(bytewise.endIn(all, 0), length);
  });
}

test('ZstdFrames finds no end in what is no frame', () => {
  for (const bytes of [Buffer.from('{"plain":"json"}'), Buffer.alloc(100), Buffer.from('28b52f', 'hex')]) {
    const frames = new ZstdFrames();
    assert.equal(frames.endIn(bytes, 0), bytes.length);
    assert.equal(frames.endIn(bytes, 0), bytes.length);
  }
});
