import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpResponse, StreamingResponse } from 'svc';
import {
  decodeRecord,
  encodeRecord,
  fingerprint,
  isFinal,
  readIdempotencyKey,
  recordKey,
  recordOf,
  replay,
} from '../../../src/http/middleware/idempotency.ts';
import { seeded } from '../../support/random.ts';
import type { IdempotencyRecord } from '../../../src/http/middleware/idempotency.ts';

for (const [field, key] of [
  ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'], // the draft's own, §2.1
  ['"clzAZ-Aq;0=x y"', 'clzAZ-Aq;0=x y'],
  ['  "a"  ', 'a'],
  ['"a\\"b\\\\c"', 'a"b\\c'],
  ['"a";v=1;w="x;y";z', 'a'],
  ['"a" ; b', 'a'],
  ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  ['order:17/x', 'order:17/x'],
  [`"${'k'.repeat(255)}"`, 'k'.repeat(255)],
  ['""', undefined],
  ['', undefined],
  ['"a', undefined],
  ['a"', undefined],
  ['"a"b', undefined],
  ['"a\\b"', undefined],
  ['"\u00fc"', undefined],
  ['"a\tb"', undefined],
  ['"a", "b"', undefined],
  ['a, b', undefined],
  ['a b', undefined],
  [':YWJj:', ':YWJj:'],
  ['("a")', undefined],
  [`"${'k'.repeat(256)}"`, undefined],
  ['k'.repeat(256), undefined],
  [`"a";${'x'.repeat(2_000)}`, undefined],
] as const) {
  test(`readIdempotencyKey() returns the key of a valid Idempotency-Key field, and undefined for an invalid field (${JSON.stringify(field).slice(0, 60)}: ${key === undefined ? 'no key' : 'a key'})`, () => {
    assert.equal(readIdempotencyKey(field), key);
  });
}

/** Reference implementation of a structured string (RFC 9651 §4.2.5); undefined for other text. */
function plainString(text: string): string | undefined {
  if (!text.startsWith('"')) return undefined;
  let value = '';
  for (let index = 1; index < text.length; index++) {
    const character = text[index]!;
    if (character === '"')
      return index === text.length - 1 && value.length > 0 && value.length <= 255 ? value : undefined;
    if (character === '\\') {
      const next = text[++index];
      if (next !== '"' && next !== '\\') return undefined;
      value += next;
    } else if (character < ' ' || character > '~') return undefined;
    else value += character;
  }
  return undefined;
}

test('readIdempotencyKey() returns what the algorithm of RFC 9651 returns for generated strings, and refuses hostile strings', () => {
  const below = seeded(7);
  const letters = ['"', '\\', '\\"', 'a', ' ', '~', '\x7f', '\t', '\u00e9', '-', '0'];
  let keys = 0;
  for (let round = 0; round < 40_000; round++) {
    const inner = Array.from({ length: below(9) }, () => letters[below(letters.length)]!).join('');
    const field = `"${inner}${below(8) === 0 ? '' : '"'}`;
    const key = readIdempotencyKey(field);
    assert.equal(key, plainString(field.trim()), JSON.stringify(field));
    if (key !== undefined) keys++;
  }
  assert.ok(keys > 1_000, String(keys));
  for (const hostile of [
    `"a"${' ;a'.repeat(340)}!`,
    `"a"${';a="'.repeat(250)}!`,
    `"${'\\\\'.repeat(511)}`,
    `"a";${' '.repeat(1_000)}!`,
  ])
    assert.equal(readIdempotencyKey(hostile), undefined, hostile.slice(0, 10));
});

test('recordKey() and fingerprint() return different values for different lists of parts, even if the joined parts are equal', () => {
  assert.notEqual(recordKey(['POST', '/a', 'x', 'y']), recordKey(['POST', '/a', 'xy']));
  assert.notEqual(recordKey(['POST', '/a', 'x","y']), recordKey(['POST', '/a', 'x', 'y']));
  assert.match(recordKey(['POST', '/a'.repeat(5_000)]), /^idempotency:[\w-]{43}$/);
  const body = Buffer.from('{"a":1}');
  const prints = [
    fingerprint('/a', 'x', body),
    fingerprint('/a?b', 'x', body),
    fingerprint('/a', 'y', body),
    fingerprint('/a', 'x', Buffer.from('{"a":2}')),
    fingerprint('/ax', '', body),
  ];
  assert.equal(new Set(prints).size, prints.length);
  assert.equal(fingerprint('/a', 'x', body), prints[0]);
});

test('isFinal() is false for statuses after which a client should repeat its request', () => {
  for (const status of [200, 201, 204, 303, 400, 403, 404, 409, 422, 499])
    assert.equal(isFinal(status), true, String(status));
  for (const status of [401, 408, 421, 424, 425, 428, 429, 500, 503, 599])
    assert.equal(isFinal(status), false, String(status));
});

test('recordOf() stores a response, but omits header fields that belong to one client, one moment or one connection', () => {
  const response = new HttpResponse('{"id":1}', {
    status: 201,
    headers: {
      'Content-Type': 'application/json',
      Location: '/1',
      ETag: '"x"',
      Date: 'today',
      'X-Request-Id': 'r',
      RateLimit: 'x',
      'RateLimit-Policy': 'x',
      'Access-Control-Allow-Origin': '*',
    },
  });
  response.setCookie('session', 'secret');
  const record = recordOf(response, 'p', 1_000);
  assert.deepEqual(record, {
    kind: 'answered',
    print: 'p',
    status: 201,
    fields: ['Content-Type', 'application/json', 'Location', '/1', 'ETag', '"x"'],
    body: '{"id":1}',
  });
  const again = replay(decodeRecord(encodeRecord(record)) as IdempotencyRecord & { kind: 'answered' });
  assert.deepEqual(
    [again.status, again.body, [...again.headers]],
    [
      201,
      '{"id":1}',
      [
        ['Content-Type', 'application/json'],
        ['Location', '/1'],
        ['ETag', '"x"'],
        ['Idempotency-Replayed', 'true'],
      ],
    ],
  );
});

test('recordOf() stores only the status of a large or streamed response', () => {
  const done = { kind: 'done', print: 'p', status: 200 };
  assert.equal(recordOf(new HttpResponse('x'.repeat(100)), 'p', 100).kind, 'answered');
  assert.deepEqual(recordOf(new HttpResponse('x'.repeat(101)), 'p', 100), done);
  assert.deepEqual(recordOf(new HttpResponse('\u00fc'.repeat(51)), 'p', 100), done);
  assert.deepEqual(
    recordOf(new HttpResponse(null, { headers: { 'X-Long': 'x'.repeat(100) } }), 'p', 100),
    done,
  );
  assert.deepEqual(recordOf(new StreamingResponse(['x']), 'p', 100), done);
});

test('decodeRecord() returns the bytes that were given to encodeRecord(), and refuses other input', () => {
  const all: IdempotencyRecord[] = [
    { kind: 'claimed', print: 'p', owner: 'o' },
    { kind: 'done', print: 'p', status: 201 },
    { kind: 'answered', print: 'p', status: 204, fields: [], body: null },
    { kind: 'answered', print: 'p', status: 200, fields: ['A', 'b'], body: '' },
    { kind: 'answered', print: 'p', status: 200, fields: [], body: '\ud800 \u0000 "' },
    { kind: 'answered', print: 'p', status: 200, fields: [], body: Buffer.from([0, 255, 128]) },
  ];
  for (const record of all) {
    const text = encodeRecord(record);
    assert.deepEqual(decodeRecord(text), record);
    for (let end = 0; end < text.length; end++) assert.equal(decodeRecord(text.slice(0, end)), undefined);
  }
  for (const text of [
    'null',
    '[]',
    '5',
    '{}',
    '{"k":"answered","p":"p","s":99,"f":[],"t":""}',
    '{"k":"answered","p":"p","s":200,"f":[1],"t":""}',
    '{"k":"answered","p":"p","s":200,"f":[]}',
    '{"k":"other","p":"p","s":200}',
    '{"k":"claimed","p":"p"}',
  ]) {
    assert.equal(decodeRecord(text), undefined, text);
  }
});
