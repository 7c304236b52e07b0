import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  RespError,
  RespReader,
  RespWriter,
  type RespArgument,
  type RespValue,
} from '../../../src/db/redis/resp.ts';
import { ProtocolViolation } from '../../../src/db/errors.ts';
import { seeded } from '../../support/random.ts';

type Parsed = readonly [value: RespValue, isPush: boolean];

function read(chunks: readonly (string | Uint8Array)[], maxReplyBytes = 1_000_000): Parsed[] {
  const reported: Parsed[] = [];
  const reader = new RespReader((value, isPush) => reported.push([value, isPush]), { maxReplyBytes });
  for (const chunk of chunks) reader.push(Buffer.from(chunk as string));
  return reported;
}

/** Converts bytes to text. */
function shown(value: RespValue): unknown {
  if (Buffer.isBuffer(value)) return { bytes: value.toString('latin1') };
  if (value instanceof RespError) return { error: value.message };
  if (Array.isArray(value)) return value.map(shown);
  if (value instanceof Map) return new Map([...value].map(([key, each]) => [shown(key), shown(each)]));
  return typeof value === 'bigint' ? `${value}n` : value;
}

const bytes = (text: string): { bytes: string } => ({ bytes: text });

/** Replies from the specification, and edge cases. */
const REPLIES: readonly (readonly [what: string, bytes: string, value: unknown])[] = [
  ['a simple string', '+OK\r\n', 'OK'],
  ['an empty simple string', '+\r\n', ''],
  ['an error', '-WRONGTYPE Operation against a key\r\n', { error: 'WRONGTYPE Operation against a key' }],
  ['zero', ':0\r\n', 0],
  ['a negative integer', ':-123\r\n', -123],
  ['an integer with a plus', ':+5\r\n', 5],
  ['minus zero', ':-0\r\n', 0],
  ['an integer that is not a safe integer of JavaScript', ':9007199254740993\r\n', '9007199254740993n'],
  ['the least integer', ':-9223372036854775808\r\n', '-9223372036854775808n'],
  ['a bulk string', '$5\r\nhello\r\n', bytes('hello')],
  ['an empty bulk string', '$0\r\n\r\n', bytes('')],
  ['a bulk string with line ends in it', '$6\r\na\r\nb\r\n\r\n', bytes('a\r\nb\r\n')],
  ['a null bulk string', '$-1\r\n', null],
  ['an empty array', '*0\r\n', []],
  ['a null array', '*-1\r\n', null],
  [
    'an array with values of several types',
    '*4\r\n:1\r\n$1\r\na\r\n*1\r\n+b\r\n$-1\r\n',
    [1, bytes('a'), ['b'], null],
  ],
  ['null', '_\r\n', null],
  ['true', '#t\r\n', true],
  ['false', '#f\r\n', false],
  ['a double', ',1.23\r\n', 1.23],
  ['a double without a fraction', ',10\r\n', 10],
  ['a double with an exponent', ',1e-3\r\n', 0.001],
  ['infinity', ',inf\r\n', Infinity],
  ['minus infinity', ',-inf\r\n', -Infinity],
  ['NaN', ',nan\r\n', NaN],
  [
    'a big number',
    '(3492890328409238509324850943850943825024385\r\n',
    '3492890328409238509324850943850943825024385n',
  ],
  ['a bulk error', '!21\r\nSYNTAX invalid syntax\r\n', { error: 'SYNTAX invalid syntax' }],
  ['a verbatim string', '=15\r\ntxt:Some string\r\n', bytes('Some string')],
  [
    'a map',
    '%2\r\n+first\r\n:1\r\n$6\r\nsecond\r\n*1\r\n:2\r\n',
    new Map<unknown, unknown>([
      ['first', 1],
      ['second', [2]],
    ]),
  ],
  ['an empty map', '%0\r\n', new Map()],
  ['a set', '~2\r\n+a\r\n:1\r\n', ['a', 1]],
  ['a value after an attribute', '|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n', bytes('x')],
  ['an attribute inside of an array', '*2\r\n:1\r\n|1\r\n+a\r\n%1\r\n+b\r\n:2\r\n:3\r\n', [1, 3]],
  ['an empty array inside of an array', '*3\r\n*0\r\n%0\r\n:1\r\n', [[], new Map(), 1]],
];

for (const [what, text, value] of REPLIES) {
  test(`RespReader parses ${what}, wherever the bytes are split`, () => {
    const all = Buffer.from(text);
    assert.deepEqual(
      read([all]).map(([each]) => shown(each)),
      [value],
    );
    for (let at = 1; at < all.length; at++)
      assert.deepEqual(
        read([all.subarray(0, at), all.subarray(at)]).map(([each]) => shown(each)),
        [value],
        `at ${at}`,
      );
    assert.deepEqual(
      read([...all].map((byte) => Uint8Array.of(byte))).map(([each]) => shown(each)),
      [value],
      'byte by byte',
    );
  });
}

test('RespReader reports push messages separately from replies, and keeps the order of both', () => {
  const reported = read(['+a\r\n>3\r\n+message\r\n+ch\r\n$1\r\nx\r\n+b\r\n']);
  assert.deepEqual(
    reported.map(([value, isPush]) => [shown(value), isPush]),
    [
      ['a', false],
      [['message', 'ch', bytes('x')], true],
      ['b', false],
    ],
  );
});

for (const [what, text] of [
  ['an unknown type', '?3\r\n'],
  ['a web page', 'HTTP/1.1 400 Bad Request\r\n'],
  ['a line that ends without a carriage return', '+OK\n'],
  ['an empty line', '\r\n'],
  ['a length that is not a number', '$abc\r\n'],
  ['a negative length', '$-2\r\n'],
  ['an array of a negative length', '*-2\r\n'],
  ['a null map', '%-1\r\n'],
  ['a string above the limit', '$1000001\r\n'],
  ['a string of an absurd length', '$99999999999\r\n'],
  ['an array above the limit', '*1000001\r\n'],
  ['a map above the limit', '%1000001\r\n'],
  ['a string that exceeds its length', '$1\r\nab\r\n'],
  ['an invalid integer', ':1.5\r\n'],
  ['an integer of too many digits', `:${'9'.repeat(21)}\r\n`],
  ['an empty integer', ':\r\n'],
  ['an invalid boolean', '#x\r\n'],
  ['a null with content', '_x\r\n'],
  ['an invalid double', ',1.2.3\r\n'],
  ['an invalid big number', '(1e5\r\n'],
  ['a big number without an end', `(${'1'.repeat(10_001)}\r\n`],
  ['lists that are nested too deep', '*1\r\n'.repeat(33)],
  ['a push inside of a reply', '*1\r\n>1\r\n+a\r\n'],
  ['an empty push', '>0\r\n'],
  ['a verbatim string without a kind', '=3\r\nabc\r\n'],
  ['a line without an end', `+${'x'.repeat(70_000)}`],
  [
    'a reply whose parts together exceed the limit',
    `*20\r\n${`$60000\r\n${'x'.repeat(60_000)}\r\n`.repeat(20)}`,
  ],
] as const) {
  test(`RespReader refuses malformed input: ${what}`, () =>
    assert.throws(() => read([text]), ProtocolViolation));
}

test('RespReader applies "maxReplyBytes" to each reply, and not to the sum of all replies', () => {
  assert.equal(read([`$60000\r\n${'x'.repeat(60_000)}\r\n`.repeat(50)]).length, 50);
});

test('RespReader reports no further reply after stop(), even if the current chunk contains one', () => {
  const reported: unknown[] = [];
  const reader = new RespReader(
    (value) => {
      reported.push(value);
      reader.stop();
    },
    { maxReplyBytes: 1_000 },
  );
  reader.push(Buffer.from('+a\r\n+b\r\n'));
  assert.deepEqual(reported, ['a']);
});

test('for random bytes, RespReader returns values or throws ProtocolViolation', () => {
  const random = seeded(5);
  const all = Buffer.from(REPLIES.map(([, text]) => text).join(''));
  for (let run = 0; run < 2_000; run++) {
    const mutated = Buffer.from(all);
    for (let count = 1 + random(5); count > 0; count--) mutated[random(mutated.length)] = random(256);
    try {
      read([mutated]);
    } catch (error) {
      assert.ok(error instanceof ProtocolViolation, String(error));
    }
  }
});

for (const [what, command, text] of [
  ['with ASCII arguments', ['GET', 'key'], '*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n'],
  ['with characters of several bytes', ['SET', 'é', '漢😀'], '*3\r\n$3\r\nSET\r\n$2\r\né\r\n$7\r\n漢😀\r\n'],
  [
    'with numbers',
    ['X', 1, -2.5, 2n ** 63n],
    '*4\r\n$1\r\nX\r\n$1\r\n1\r\n$4\r\n-2.5\r\n$19\r\n9223372036854775808\r\n',
  ],
  ['with an empty argument', ['X', ''], '*2\r\n$1\r\nX\r\n$0\r\n\r\n'],
  [
    'with text that looks like the protocol',
    ['X', '\r\n*1\r\n$8\r\nFLUSHALL\r\n'],
    '*2\r\n$1\r\nX\r\n$20\r\n\r\n*1\r\n$8\r\nFLUSHALL\r\n\r\n',
  ],
] as const) {
  test(`RespWriter writes the expected bytes of a command ${what}`, () => {
    const writer = new RespWriter();
    writer.command(command);
    assert.equal(writer.take().toString(), text);
    assert.equal(writer.length, 0);
  });
}

test('for random text and bytes, RespReader decodes the output of RespWriter to equal values', () => {
  const random = seeded(9);
  for (let run = 0; run < 300; run++) {
    const writer = new RespWriter();
    const commands = Array.from({ length: 1 + random(4) }, () =>
      Array.from({ length: 1 + random(5) }, (): RespArgument =>
        random(2) === 0
          ? Uint8Array.from({ length: random(20) }, () => random(256))
          : 'é\r\n$'.repeat(random(4)),
      ),
    );
    for (const command of commands) writer.command(command);
    assert.deepEqual(
      read([writer.take()]).map(([value]) => shown(value)),
      commands.map((command) => command.map((part) => bytes(Buffer.from(part as string).toString('latin1')))),
    );
  }
});
