import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as read from '../../../src/db/postgres/messages.ts';
import { MAX_MESSAGE_BYTES, MessageReader } from '../../../src/db/postgres/messages.ts';
import { ProtocolViolation } from '../../../src/db/errors.ts';
import { MessageWriter, PROTOCOL_3_0, PROTOCOL_3_2 } from '../../../src/db/postgres/writer.ts';
import * as write from '../../support/postgres-bytes.ts';
import { seeded } from '../../support/random.ts';

const MAX_LOGIN_BYTES = 65_536;

const MAX_PARAMETERS = 65_535;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Returns types and copied bodies of the messages in these chunks, because the reader reuses its bytes. */
function messagesOf(
  chunks: readonly Buffer[],
  maxBytes: number = MAX_MESSAGE_BYTES,
): [type: string, body: string][] {
  const found: [string, string][] = [];
  const reader = new MessageReader((type, bytes, at, end) =>
    found.push([String.fromCharCode(type), hex(bytes.subarray(at, end))]),
  );
  reader.maxBytes = maxBytes;
  for (const chunk of chunks) {
    const lent = Buffer.from(chunk);
    reader.push(lent);
    lent.fill(0xee);
  }
  return found;
}

/** Each message of the server, with its decoded form. */
const MESSAGES: readonly (readonly [
  what: string,
  bytes: Buffer,
  read: (bytes: Buffer, at: number, end: number) => unknown,
  expected: unknown,
])[] = [
  ['AuthenticationOk', write.authentication(0), read.readAuthentication, { kind: 'ok' }],
  [
    'AuthenticationCleartextPassword',
    write.authentication(3),
    read.readAuthentication,
    { kind: 'cleartext' },
  ],
  [
    'AuthenticationMD5Password',
    write.authentication(5, Buffer.from('salt')),
    read.readAuthentication,
    { kind: 'md5', salt: Buffer.from('salt') },
  ],
  [
    'AuthenticationKerberosV5',
    write.authentication(2),
    read.readAuthentication,
    { kind: 'unsupported', what: 'Kerberos V5' },
  ],
  [
    'AuthenticationGSS',
    write.authentication(7),
    read.readAuthentication,
    { kind: 'unsupported', what: 'GSSAPI' },
  ],
  [
    'AuthenticationGSSContinue',
    write.authentication(8, Buffer.from('x')),
    read.readAuthentication,
    { kind: 'unsupported', what: 'GSSAPI' },
  ],
  [
    'AuthenticationSSPI',
    write.authentication(9),
    read.readAuthentication,
    { kind: 'unsupported', what: 'SSPI' },
  ],
  [
    'an unknown authentication',
    write.authentication(99),
    read.readAuthentication,
    { kind: 'unsupported', what: 'method 99' },
  ],
  [
    'AuthenticationSASL',
    write.authenticationSasl('SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'),
    read.readAuthentication,
    { kind: 'sasl', mechanisms: ['SCRAM-SHA-256-PLUS', 'SCRAM-SHA-256'] },
  ],
  [
    'AuthenticationSASLContinue',
    write.authentication(11, Buffer.from('r=x,s=y,i=1')),
    read.readAuthentication,
    { kind: 'sasl-continue', data: 'r=x,s=y,i=1' },
  ],
  [
    'AuthenticationSASLFinal',
    write.authentication(12, Buffer.from('v=z')),
    read.readAuthentication,
    { kind: 'sasl-final', data: 'v=z' },
  ],
  [
    'BackendKeyData of 3.0',
    write.backendKey(42, Buffer.from('0badcafe', 'hex')),
    read.readBackendKey,
    { processId: 42, key: Buffer.from('0badcafe', 'hex') },
  ],
  [
    'BackendKeyData of 3.2',
    write.backendKey(42, Buffer.alloc(256, 7)),
    read.readBackendKey,
    { processId: 42, key: Buffer.alloc(256, 7) },
  ],
  [
    'NegotiateProtocolVersion',
    write.message('v', write.int32(PROTOCOL_3_0), write.int32(2), write.text('_pq_.a'), write.text('_pq_.b')),
    read.readNegotiation,
    { version: PROTOCOL_3_0, unknown: ['_pq_.a', '_pq_.b'] },
  ],
  [
    'ParameterStatus',
    write.parameterStatus('TimeZone', 'UTC'),
    read.readParameterStatus,
    ['TimeZone', 'UTC'],
  ],
  ['ReadyForQuery', write.ready('E'), read.readStatus, 'E'],
  ['CommandComplete', write.commandComplete('INSERT 0 3'), read.readCommandTag, 'INSERT 0 3'],
  [
    'NotificationResponse',
    write.message('A', write.int32(9), write.text('news'), write.text('grüße')),
    read.readNotification,
    { processId: 9, channel: 'news', payload: 'grüße' },
  ],
  [
    'ParameterDescription',
    write.message('t', write.int16(2), write.int32(23), write.int32(-1)),
    read.readParameterDescription,
    [23, 4_294_967_295],
  ],
  [
    'RowDescription',
    write.rowDescription(['id', 23, 16_384], ['', 25]),
    read.readRowDescription,
    [
      { name: 'id', tableOid: 16_384, attribute: 0, typeOid: 23, typeModifier: -1 },
      { name: '', tableOid: 0, attribute: 0, typeOid: 25, typeModifier: -1 },
    ],
  ],
  ['a RowDescription of no columns', write.rowDescription(), read.readRowDescription, []],
  [
    'ErrorResponse',
    write.failure({
      S: 'FEHLER',
      V: 'ERROR',
      C: '23505',
      M: 'no',
      D: 'Key (a)=(1)',
      H: 'hint',
      P: '7',
      s: 'public',
      t: 'item',
      c: 'a',
      d: 'int4',
      n: 'item_pkey',
      R: 'f',
      F: 'x.c',
      L: '1',
      W: 'where',
      p: '1',
      q: 'select',
    }),
    read.readErrorFields,
    {
      severity: 'ERROR',
      sqlstate: '23505',
      message: 'no',
      detail: 'Key (a)=(1)',
      hint: 'hint',
      where: 'where',
      position: 7,
      schema: 'public',
      table: 'item',
      column: 'a',
      type: 'int4',
      constraint: 'item_pkey',
      routine: 'f',
    },
  ],
  [
    'a NoticeResponse of 9.5 without fields',
    write.failure({ S: 'NOTICE', M: 'm' }, 'N'),
    read.readErrorFields,
    {
      severity: 'NOTICE',
      sqlstate: 'XX000',
      message: 'm',
      detail: undefined,
      hint: undefined,
      where: undefined,
      position: undefined,
      schema: undefined,
      table: undefined,
      column: undefined,
      type: undefined,
      constraint: undefined,
      routine: undefined,
    },
  ],
];

for (const [what, bytes, reader, expected] of MESSAGES) {
  test(`PostgreSQL protocol: ${what} is decoded, and each truncation of the message gives a value or throws ProtocolViolation`, () => {
    assert.deepEqual(reader(bytes, 5, bytes.length), expected);
    for (let end = 5; end < bytes.length; end++) {
      try {
        reader(bytes, 5, end); // some bodies may end earlier: a SASL message is the rest of its body
      } catch (error) {
        assert.ok(error instanceof ProtocolViolation, String(error));
      }
    }
  });
}

test('MessageReader returns the same messages wherever the byte stream is split, even if each byte arrives separately', () => {
  const all = Buffer.concat([
    ...MESSAGES.map(([, bytes]) => bytes),
    write.message('1'),
    write.dataRow('x'.repeat(3_000), null),
    write.message('3'),
  ]);
  const whole = messagesOf([all]);
  assert.equal(whole.length, MESSAGES.length + 3);
  for (let at = 0; at <= all.length; at++)
    assert.deepEqual(messagesOf([all.subarray(0, at), all.subarray(at)]), whole, `split at ${at}`);
  assert.deepEqual(messagesOf(Array.from(all, (_, at) => all.subarray(at, at + 1))), whole);
  const random = seeded(9);
  for (let run = 0; run < 200; run++) {
    const chunks: Buffer[] = [];
    for (let at = 0; at < all.length;) chunks.push(all.subarray(at, (at += 1 + random(60))));
    assert.deepEqual(messagesOf(chunks), whole, `run ${run}`);
  }
});

test('MessageReader does not copy a message that arrives in one chunk', () => {
  const chunk = Buffer.concat([write.ready(), write.commandComplete('BEGIN')]);
  const reader = new MessageReader((_type, bytes) => assert.equal(bytes, chunk));
  reader.push(chunk);
});

for (const [what, length] of [
  ['shorter than its length field', 3],
  ['of length 0', 0],
  ['of a negative length', -1],
  ['longer than a login needs', MAX_LOGIN_BYTES + 1],
  ['of 2 GiB', 2 ** 31 - 1],
] as const) {
  test(`MessageReader refuses a message ${what} as soon as its header has arrived, in one chunk or in two`, () => {
    const header = Buffer.concat([Buffer.from('D'), write.int32(length)]);
    for (let at = 0; at <= header.length; at++)
      assert.throws(
        () => messagesOf([header.subarray(0, at), header.subarray(at)], MAX_LOGIN_BYTES),
        ProtocolViolation,
      );
  });
}

test('MessageReader allocates no memory for a message body before the body arrives', () => {
  const reader = new MessageReader(() => assert.fail('no message is complete'));
  reader.maxBytes = MAX_MESSAGE_BYTES;
  const before = process.memoryUsage().arrayBuffers;
  reader.push(Buffer.concat([Buffer.from('D'), write.int32(MAX_MESSAGE_BYTES)]));
  for (let index = 0; index < 1_000; index++) reader.push(Buffer.from([index & 0xff]));
  assert.ok(process.memoryUsage().arrayBuffers - before < 1024 * 1024);
  assert.ok(reader.hasPartial);
});

test('MessageReader reports no further message after stop(), even if the current chunk contains one', () => {
  let count = 0;
  const reader: MessageReader = new MessageReader(() => {
    count++;
    reader.stop();
  });
  reader.push(Buffer.concat([write.ready(), write.ready()]));
  reader.push(write.ready());
  assert.equal(count, 1);
});

test('decoding a message with random changes gives a value or throws ProtocolViolation, and never throws another error', () => {
  const random = seeded(47);
  for (let run = 0; run < 20_000; run++) {
    const [what, bytes, reader] = MESSAGES[run % MESSAGES.length]!;
    const mutated = Buffer.from(bytes);
    for (let count = 1 + random(4); count > 0; count--)
      mutated[5 + random(Math.max(1, mutated.length - 5))] = random(256);
    const end = 5 + random(mutated.length - 4);
    try {
      reader(mutated, 5, end);
    } catch (error) {
      assert.ok(error instanceof ProtocolViolation, `${what}: ${String(error)}`);
    }
  }
});

test('for random bytes, MessageReader returns messages or throws ProtocolViolation, and never throws another error', () => {
  const random = seeded(48);
  for (let run = 0; run < 2_000; run++) {
    const chunks = Array.from({ length: 1 + random(6) }, () =>
      Buffer.from(Array.from({ length: random(40) }, () => (random(4) === 0 ? random(256) : 0))),
    );
    try {
      messagesOf(chunks, 64);
    } catch (error) {
      assert.ok(error instanceof ProtocolViolation, String(error));
    }
  }
});

/** Returns the bytes of a writer as hexadecimal digits. */
function written(work: (writer: MessageWriter) => void): string {
  const writer = new MessageWriter();
  work(writer);
  return hex(writer.take());
}

for (const [what, work, expected] of [
  ['SSLRequest', (w) => w.sslRequest(), '0000000804d2162f'],
  [
    'CancelRequest of 3.0',
    (w) => w.cancelRequest(42, Buffer.from('0badcafe', 'hex')),
    '0000001004d2162e0000002a0badcafe',
  ],
  [
    'CancelRequest of 3.2',
    (w) => w.cancelRequest(42, Buffer.alloc(6, 1)),
    '0000001204d2162e0000002a010101010101',
  ],
  [
    'StartupMessage',
    (w) => w.startUp(PROTOCOL_3_0, { user: 'u', database: 'd' }),
    hex(
      Buffer.concat([
        write.int32(27),
        write.int32(PROTOCOL_3_0),
        write.text('user'),
        write.text('u'),
        write.text('database'),
        write.text('d'),
        Buffer.alloc(1),
      ]),
    ),
  ],
  ['StartupMessage of 3.2', (w) => w.startUp(PROTOCOL_3_2, {}), '000000090003000200'],
  ['PasswordMessage', (w) => w.password('pä'), '7000000008' + '70c3a400'],
  [
    'SASLInitialResponse',
    (w) => w.saslInitial('M', 'n,,n=,r=a'),
    hex(write.message('p', write.text('M'), write.int32(9), Buffer.from('n,,n=,r=a'))),
  ],
  ['SASLResponse', (w) => w.saslResponse('c=biws'), hex(write.message('p', Buffer.from('c=biws')))],
  ['Query', (w) => w.query('select 1'), hex(write.message('Q', write.text('select 1')))],
  [
    'Parse',
    (w) => w.parse('s', 'select $1'),
    hex(write.message('P', write.text('s'), write.text('select $1'), write.int16(0))),
  ],
  [
    'Describe of a statement',
    (w) => w.describe('statement', 's'),
    hex(write.message('D', Buffer.from('S'), write.text('s'))),
  ],
  [
    'Describe of a portal',
    (w) => w.describe('portal', ''),
    hex(write.message('D', Buffer.from('P'), write.text(''))),
  ],
  [
    'Close of a statement',
    (w) => w.close('statement', 's'),
    hex(write.message('C', Buffer.from('S'), write.text('s'))),
  ],
  [
    'Close of a portal',
    (w) => w.close('portal', 'p'),
    hex(write.message('C', Buffer.from('P'), write.text('p'))),
  ],
  ['Execute', (w) => w.execute('p', 256), hex(write.message('E', write.text('p'), write.int32(256)))],
  ['Sync', (w) => w.sync(), '5300000004'],
  ['Flush', (w) => w.flush(), '4800000004'],
  ['Terminate', (w) => w.terminate(), '5800000004'],
  ['CopyDone', (w) => w.copyDone(), '6300000004'],
  ['CopyFail', (w) => w.copyFail('no'), '66000000076e6f00'],
  ['CopyData', (w) => w.copyData(Buffer.from('a\tb\n')), '6400000008' + '6109620a'],
  [
    'Bind without values',
    (w) => {
      w.beginBind('', 's', 0);
      w.endBind(new Uint8Array(0));
    },
    hex(write.message('B', write.text(''), write.text('s'), write.int16(0), write.int16(0), write.int16(0))),
  ],
  [
    'Bind with values of every kind',
    (w) => {
      w.beginBind('p', '', 9);
      w.valueNull();
      w.valueText('grüße');
      w.valueBytes(Buffer.from([0, 255]));
      for (let index = 2; index < 9; index++) w.binary(index);
      w.valueByte(1);
      w.valueInt16(-2);
      w.valueInt32(-3);
      w.valueInt64(-1, 0xfffffffc);
      w.valueFloat64(1.5);
      w.valueText('x'.repeat(30));
      w.endBind(Buffer.from([0, 0, 0, 1]));
    },
    hex(
      write.message(
        'B',
        write.text('p'),
        write.text(''),
        write.int16(9),
        ...[0, 0, 1, 1, 1, 1, 1, 1, 1].map(write.int16),
        write.int16(9),
        write.int32(-1),
        write.int32(7),
        Buffer.from('grüße'),
        write.int32(2),
        Buffer.from([0, 255]),
        write.int32(1),
        Buffer.from([1]),
        write.int32(2),
        write.int16(-2),
        write.int32(4),
        write.int32(-3),
        write.int32(8),
        write.int32(-1),
        write.int32(-4),
        write.int32(8),
        Buffer.from('3ff8000000000000', 'hex'),
        write.int32(30),
        Buffer.from('x'.repeat(30)),
        write.int16(2),
        write.int16(0),
        write.int16(1),
      ),
    ),
  ],
] as readonly (readonly [string, (writer: MessageWriter) => void, string])[]) {
  test(`MessageWriter writes the expected bytes of the message ${what}`, () =>
    assert.equal(written(work), expected));
}

test('MessageWriter refuses a value that its field cannot contain, and can be used again after rewind()', () => {
  const writer = new MessageWriter();
  writer.sync();
  for (const work of [
    () => writer.beginBind('', '', MAX_PARAMETERS + 1),
    () => writer.parse('', 'select \0'),
    () => writer.query('a\0b'),
    () => writer.startUp(PROTOCOL_3_0, { user: 'a\0database\0b' }),
    () => writer.close('statement', '\0'),
  ]) {
    const before = writer.length;
    assert.throws(work, ProtocolViolation);
    writer.rewind(before);
  }
  for (const work of [
    () => writer.execute('', 2 ** 31),
    () => writer.cancelRequest(2 ** 32, Buffer.alloc(4)),
  ]) {
    const before = writer.length;
    assert.throws(work, RangeError);
    writer.rewind(before);
  }
  writer.beginBind('', '', MAX_PARAMETERS);
  for (let index = 0; index < MAX_PARAMETERS; index++) writer.valueNull();
  writer.endBind(new Uint8Array(0));
  const bytes = writer.take();
  assert.deepEqual(
    [hex(bytes.subarray(0, 5)), bytes.length],
    ['5300000004', 5 + 1 + 4 + 2 + 2 + MAX_PARAMETERS * 6 + 2 + 2],
  );
  assert.equal(writer.length, 0);
});

test('MessageWriter writes a short message unchanged after a message of 4 MiB', () => {
  const writer = new MessageWriter();
  writer.copyData(Buffer.alloc(4 * 1024 * 1024));
  assert.equal(writer.take().length, 4 * 1024 * 1024 + 5);
  writer.sync();
  assert.equal(hex(writer.take()), '5300000004');
});

test('MessageWriter writes each value unchanged, wherever its buffer ends', () => {
  for (const [write1, expected] of [
    [(writer: MessageWriter) => writer.valueNull(), 'ffffffff'],
    [(writer: MessageWriter) => writer.valueByte(7), '0000000107'],
    [(writer: MessageWriter) => writer.valueInt16(-2), '00000002fffe'],
    [(writer: MessageWriter) => writer.valueInt32(-2), '00000004fffffffe'],
    [(writer: MessageWriter) => writer.valueInt64(-1, 2), '00000008ffffffff00000002'],
    [(writer: MessageWriter) => writer.valueFloat64(1.5), '000000083ff8000000000000'],
    [(writer: MessageWriter) => writer.valueText('ü€'), '00000005c3bce282ac'],
    [(writer: MessageWriter) => writer.valueBytes(Buffer.of(1, 2)), '000000020102'],
  ] as const)
    // the capacities of the buffer are powers of two
    for (const capacity of [1_024, 2_048, 4_096, 8_192, 16_384])
      for (let length = capacity - 16; length <= capacity; length++) {
        const writer = new MessageWriter();
        writer.raw(Buffer.alloc(length));
        write1(writer);
        assert.equal(hex(writer.take().subarray(length)), expected, `${length}`);
      }
});
