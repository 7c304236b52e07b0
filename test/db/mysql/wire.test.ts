import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as read from '../../../src/db/mysql/messages.ts';
import { MAX_PAYLOAD, PacketReader } from '../../../src/db/mysql/wire.ts';
import { PacketWriter } from '../../../src/db/mysql/writer.ts';
import { ProtocolViolation } from '../../../src/db/errors.ts';
import { seeded } from '../../support/random.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function packet(sequence: number, body: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from([body.length & 0xff, (body.length >> 8) & 0xff, body.length >> 16, sequence]),
    body,
  ]);
}

/** Returns numbers and copied payloads of the packets in these chunks, because the reader reuses its bytes. */
function packetsOf(chunks: readonly Buffer[], maxBytes = 1024 ** 3): [sequence: number, payload: string][] {
  const found: [number, string][] = [];
  const reader = new PacketReader((bytes, at, end, sequence) =>
    found.push([sequence, hex(bytes.subarray(at, end))]),
  );
  reader.maxBytes = maxBytes;
  for (const chunk of chunks) {
    const lent = Buffer.from(chunk);
    reader.push(lent);
    lent.fill(0xee);
  }
  return found;
}

/**
 * Packets of the server with their decoded form. The greeting is MariaDB 10.11's, shortened; the others
 * follow the manuals.
 */
const GREETING = Buffer.concat([
  Buffer.from([10]),
  Buffer.from('5.5.5-10.11.19-MariaDB\0'),
  Buffer.from([42, 0, 0, 0]),
  Buffer.from('abcdefgh\0'),
  Buffer.from([0xfe, 0xf7, 45, 2, 0, 0xff, 0x81, 21]),
  Buffer.alloc(6),
  Buffer.from([0x1d, 0, 0, 0]),
  Buffer.from('ijklmnopqrst\0'),
  Buffer.from('mysql_native_password\0'),
]);
const COLUMN = Buffer.concat([
  ...['def', 'shop', 'i', 'item', 'name', 'label'].map((text) =>
    Buffer.from([text.length, ...Buffer.from(text)]),
  ),
  Buffer.from([0x0c, 45, 0, 0xfc, 0xff, 3, 0, 0xfc, 0x10, 0, 0]),
]);
const EXTENDED = Buffer.concat([
  ...['def', 'shop', 'i', 'item', 'key', 'id'].map((text) =>
    Buffer.from([text.length, ...Buffer.from(text)]),
  ),
  Buffer.from([6, 0, 4, ...Buffer.from('uuid')]),
  Buffer.from([0x0c, 63, 0, 36, 0, 0, 0, 0xfe, 0, 0, 0]),
]);

const MESSAGES: readonly (readonly [
  what: string,
  body: Buffer,
  read: (bytes: Buffer, at: number, end: number) => unknown,
  expected: unknown,
])[] = [
  [
    'a greeting of MariaDB',
    GREETING,
    read.readGreeting,
    {
      version: '10.11.19-MariaDB',
      isMariaDb: true,
      connectionId: 42,
      capabilities: 0x81ff_f7fe,
      extended: 0x1d,
      nonce: Buffer.from('abcdefghijklmnopqrst'),
      plugin: 'mysql_native_password',
    },
  ],
  [
    'OK',
    Buffer.from([0, 3, 0xfc, 0x10, 0x27, 2, 0, 1, 0, 0x61]),
    read.readOk,
    { affectedRows: 3, lastInsertId: 10_000, status: 2, warnings: 1, info: Buffer.from('a') },
  ],
  [
    'OK with wide numbers',
    Buffer.from([0, 0xfd, 1, 2, 3, 0xfe, 1, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0]),
    read.readOk,
    { affectedRows: 0x03_0201, lastInsertId: 2n ** 63n + 1n, status: 2, warnings: 0, info: Buffer.alloc(0) },
  ],
  ['EOF', Buffer.from([0xfe, 1, 0, 0x22, 0]), read.readEof, { warnings: 1, status: 0x22 }],
  [
    'ERR',
    Buffer.from([0xff, 0x26, 0x04, ...Buffer.from('#23000Duplicate')]),
    read.readError,
    { errno: 1062, sqlstate: '23000', message: 'Duplicate' },
  ],
  [
    'ERR before the login',
    Buffer.from([0xff, 0x10, 0x04, ...Buffer.from('Too many connections')]),
    read.readError,
    { errno: 1040, sqlstate: '', message: 'Too many connections' },
  ],
  [
    'a column',
    COLUMN,
    (bytes, at, end) => read.readColumn(bytes, at, end, false),
    {
      schema: 'shop',
      table: 'item',
      name: 'name',
      column: 'label',
      extended: '',
      charset: 45,
      length: 262_140,
      type: 252,
      flags: 16,
      decimals: 0,
    },
  ],
  [
    'a column with its name of MariaDB',
    EXTENDED,
    (bytes, at, end) => read.readColumn(bytes, at, end, true),
    {
      schema: 'shop',
      table: 'item',
      name: 'key',
      column: 'id',
      extended: 'uuid',
      charset: 63,
      length: 36,
      type: 254,
      flags: 0,
      decimals: 0,
    },
  ],
  [
    'a prepared statement',
    Buffer.from([0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]),
    read.readPrepared,
    { id: 7, columns: 2, parameters: 1 },
  ],
];

for (const [what, body, reader, expected] of MESSAGES) {
  test(`MySQL protocol: ${what} is decoded, and each truncation of the message gives a value or throws ProtocolViolation`, () => {
    assert.deepEqual(reader(body, 0, body.length), expected);
    for (let end = 1; end < body.length; end++) {
      try {
        assert.notDeepEqual(reader(body, 0, end), undefined); // some texts may end earlier
      } catch (error) {
        assert.ok(error instanceof ProtocolViolation, `${end}: ${String(error)}`);
      }
    }
  });
}

test('PacketReader returns every packet, wherever the byte stream is split', () => {
  const bodies = MESSAGES.map(([, body]) => body);
  const bytes = Buffer.concat(bodies.map((body, index) => packet(index, body)));
  const expected = bodies.map((body, index) => [index, hex(body)]);
  for (let cut = 0; cut <= bytes.length; cut++)
    assert.deepEqual(packetsOf([bytes.subarray(0, cut), bytes.subarray(cut)]), expected, String(cut));
  assert.deepEqual(packetsOf(Array.from(bytes, (byte) => Buffer.of(byte))), expected);
  const random = seeded(7);
  for (let round = 0; round < 200; round++) {
    const chunks: Buffer[] = [];
    for (let at = 0; at < bytes.length;) {
      const to = Math.min(bytes.length, at + 1 + random(40));
      chunks.push(bytes.subarray(at, to));
      at = to;
    }
    assert.deepEqual(packetsOf(chunks), expected);
  }
});

test('PacketWriter splits a long payload into several packets, and PacketReader joins them again', () => {
  for (const extra of [-1, 0, 1, 1000]) {
    const body = Buffer.alloc(2 * MAX_PAYLOAD + extra, 'payload');
    const writer = new PacketWriter();
    writer.command(3);
    writer.raw(body.subarray(1));
    const next = writer.end();
    assert.equal(next, extra < 0 ? 2 : 3);
    const bytes = writer.take();
    const found: number[] = [];
    const reader = new PacketReader((all, at, end, sequence) => {
      found.push(sequence, end - at);
      assert.ok(all.subarray(at + 1, end).equals(body.subarray(1)));
    });
    reader.maxBytes = 1024 ** 3;
    for (let at = 0; at < bytes.length; at += 1_000_003) reader.push(bytes.subarray(at, at + 1_000_003));
    assert.deepEqual(found, [0, body.length]);
    assert.equal(reader.sequence, next);
  }
});

test('PacketReader refuses a payload above the limit before the whole payload has arrived, and refuses packets out of sequence', () => {
  assert.throws(() => packetsOf([Buffer.from([0xff, 0xff, 0, 0])], 65_534), ProtocolViolation);
  assert.throws(
    () => packetsOf([Buffer.from([0xff]), Buffer.from([0xff]), Buffer.from([0, 0])], 65_534),
    ProtocolViolation,
  );
  assert.throws(
    () => packetsOf([packet(0, Buffer.alloc(MAX_PAYLOAD)), packet(2, Buffer.alloc(1))]),
    ProtocolViolation,
  );
  assert.throws(
    () => packetsOf([packet(0, Buffer.alloc(MAX_PAYLOAD)), packet(1, Buffer.alloc(1))], MAX_PAYLOAD),
    ProtocolViolation,
  );
});

for (const [what, first] of [
  ['in the same chunk', packet(0, Buffer.of(1))],
  [
    'after a payload of several packets',
    Buffer.concat([packet(0, Buffer.alloc(MAX_PAYLOAD)), packet(1, Buffer.of(1))]),
  ],
] as const)
  test(`PacketReader reports no further packet after stop() (${what})`, () => {
    let count = 0;
    const reader = new PacketReader(() => {
      count++;
      reader.stop();
      assert.equal(reader.hasPartial, false);
    });
    reader.maxBytes = 1024 ** 3;
    reader.push(Buffer.concat([first, packet(0, Buffer.of(2))]));
    reader.push(packet(0, Buffer.of(3)));
    assert.deepEqual([count, reader.hasPartial], [1, false]);
  });

test('PacketReader.stop() discards the part of a packet or of a payload that has arrived', () => {
  for (const part of [packet(0, Buffer.alloc(9)).subarray(0, 7), packet(0, Buffer.alloc(MAX_PAYLOAD))]) {
    const reader = new PacketReader(() => assert.fail('no packet is complete'));
    reader.maxBytes = 1024 ** 3;
    reader.push(Buffer.from(part));
    assert.equal(reader.hasPartial, true);
    reader.stop();
    assert.equal(reader.hasPartial, false);
    reader.push(packet(1, Buffer.of(1)));
  }
});

test('MySQL protocol: the class Fields reads the lengths and texts that PacketWriter has written', () => {
  const writer = new PacketWriter();
  writer.begin();
  const lengths = [0, 1, 250, 251, 65_535, 65_536, 0xff_ffff, 0x100_0000, 2 ** 40];
  for (const length of lengths) writer.lengthOf(length);
  writer.end();
  const bytes = writer.take();
  const fields = new read.Fields(bytes, 4, bytes.length);
  assert.deepEqual(
    lengths.map(() => fields.length()),
    lengths,
  );
  for (const text of ['', 'short', 'grüße 漢字 😀', 'x'.repeat(84), 'ü'.repeat(300)]) {
    writer.begin();
    writer.textLength(text);
    writer.end();
    const packed = writer.take();
    assert.equal(new read.Fields(packed, 4, packed.length).textLength(), text);
  }
});

test('readGreeting() parses the greeting of MySQL, and refuses versions of MySQL that are too old', () => {
  const mysql = Buffer.concat([
    Buffer.from([10]),
    Buffer.from('9.7.4\0'),
    Buffer.from([1, 1, 0, 0]),
    Buffer.from('abcdefgh\0'),
    Buffer.from([0xff, 0xff, 255, 2, 0, 0xff, 0xdf, 21]),
    Buffer.alloc(10),
    Buffer.from('ijklmnopqrst\0'),
    Buffer.from('caching_sha2_password\0'),
  ]);
  const { version, isMariaDb, extended, plugin, nonce, connectionId } = read.readGreeting(
    mysql,
    0,
    mysql.length,
  );
  assert.deepEqual(
    [version, isMariaDb, extended, plugin, nonce.toString(), connectionId],
    ['9.7.4', false, 0, 'caching_sha2_password', 'abcdefghijklmnopqrst', 257],
  );
  assert.throws(() => read.readGreeting(Buffer.from([9, 0x33, 0]), 0, 3), ProtocolViolation);
  const old = Buffer.concat([
    Buffer.from([10]),
    Buffer.from('4.0.1\0'),
    Buffer.from([1, 0, 0, 0]),
    Buffer.from('abcdefgh\0'),
    Buffer.from([0, 0]),
  ]);
  assert.throws(() => read.readGreeting(old, 0, old.length), ProtocolViolation);
});

test('MySQL protocol: the class Fields reads integers of one to nine bytes, and refuses a length above 2^53 - 1', () => {
  for (const [hex, expected] of [
    ['00', 0],
    ['fa', 250],
    ['fcfb00', 251],
    ['fcffff', 65_535],
    ['fd000001', 65_536],
    ['fdffffff', 0xff_ffff],
    ['fe0000000100000000', 0x100_0000],
    ['feffffffffffff1f00', Number.MAX_SAFE_INTEGER],
    ['fe0000000000002000', 2n ** 53n],
    ['feffffffffffffffff', 2n ** 64n - 1n],
  ] as const) {
    const bytes = Buffer.from(hex, 'hex');
    const fields = (): read.Fields => new read.Fields(bytes, 0, bytes.length);
    assert.equal(fields().integer(), expected, hex);
    if (typeof expected === 'number') assert.equal(fields().length(), expected, hex);
    else
      assert.throws(
        () => fields().length(),
        (error) => error instanceof ProtocolViolation && /a length above 2\^53/.test(error.message),
      );
  }
});
