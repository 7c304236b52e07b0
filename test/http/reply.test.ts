import assert from 'node:assert/strict';
import test from 'node:test';
import { DEFAULT_PLAN, Reply, fromWeb, reply, toResponse } from '../../src/http/reply.ts';
import { HttpResponse, JSONResponse, StreamingResponse } from '../../src/http/response.ts';
import { viewsOf } from '../support/views.ts';
import type { ReplyPlan } from '../../src/http/reply.ts';

function read(value: unknown, plan: ReplyPlan = DEFAULT_PLAN): unknown[] {
  const { status, body, headers } = toResponse(value, plan);
  return [
    status,
    headers.get('content-type'),
    body instanceof Uint8Array ? Buffer.from(body).toString() : body,
  ];
}
const JSON_ = 'application/json',
  TEXT = 'text/plain; charset=utf-8',
  BYTES = 'application/octet-stream';
class Point {
  readonly x = 1;
  readonly #secret = 2;
  get sum(): number {
    return this.x + this.#secret;
  }
}

for (const [what, value, expected] of [
  ['a string', 'hé', [200, TEXT, 'hé']],
  ['an empty string', '', [200, TEXT, '']],
  ['bytes', Buffer.from('b'), [200, BYTES, 'b']],
  ['a subarray', new Uint8Array([65, 66]).subarray(1), [200, BYTES, 'B']],
  ['undefined', undefined, [204, undefined, null]],
  ['null', null, [204, undefined, null]],
  ['an object', { a: 1 }, [200, JSON_, '{"a":1}']],
  ['an object without prototype', Object.assign(Object.create(null), { a: 1 }), [200, JSON_, '{"a":1}']],
  ['a class instance', new Point(), [200, JSON_, '{"x":1}']],
  ['a list', [1, 2, 3], [200, JSON_, '[1,2,3]']],
  ['an empty list', [], [200, JSON_, '[]']],
  ['a number', 5, [200, JSON_, '5']],
  ['zero', 0, [200, JSON_, '0']],
  ['false', false, [200, JSON_, 'false']],
  ['a bigint', 5n, [200, JSON_, '"5"']],
  ['a date', new Date(0), [200, JSON_, '"1970-01-01T00:00:00.000Z"']],
  ['[body, status]', [{ a: 1 }, 201], [201, JSON_, '{"a":1}']],
  ['[text, status]', ['no', 404], [404, TEXT, 'no']],
  ['[null, status]', [null, 204], [204, undefined, null]],
  ['[undefined, 200]', [undefined, 200], [200, undefined, null]],
  ['[body, status, headers]', ['x', 202, { 'Content-Type': 'a/b' }], [202, 'a/b', 'x']],
  ['[body, 200]', ['x', 200], [200, TEXT, 'x']],
  ['[body, 599]', ['x', 599], [599, TEXT, 'x']],
  ['a list whose status is too low', ['x', 199], [200, JSON_, '["x",199]']],
  ['a list whose status is too high', ['x', 600], [200, JSON_, '["x",600]']],
  ['a list whose status is a fraction', ['x', 200.5], [200, JSON_, '["x",200.5]']],
  ['a list of two numbers', [200, 404], [200, JSON_, '[200,404]']],
  ['a list with a status', [[1, 2], 201], [201, JSON_, '[1,2]']],
  ['a list that looks like a tuple, with a status', [['x', 404], 201], [201, JSON_, '["x",404]']],
  ['an empty list with a status and fields', [[], 404, {}], [404, JSON_, '[]']],
  ['two lists', [[1], [200]], [200, JSON_, '[[1],[200]]']],
  ['a list with what is no status', [[1], 199], [200, JSON_, '[[1],199]']],
  ['a list with a list for headers', ['x', 200, []], [200, JSON_, '["x",200,[]]']],
  ['a list with null for headers', ['x', 200, null], [200, JSON_, '["x",200,null]']],
  ['a list with an instance for headers', ['x', 200, new Point()], [200, JSON_, '["x",200,{"x":1}]']],
  ['a list of four', ['x', 200, {}, 1], [200, JSON_, '["x",200,{},1]']],
  ['a list of one', ['x'], [200, JSON_, '["x"]']],
  ['a list with a text for status', ['x', '200'], [200, JSON_, '["x","200"]']],
  ['reply(body)', reply({ a: 1 }), [200, JSON_, '{"a":1}']],
  ['reply(list, status)', reply([1, 200], 201), [201, JSON_, '[1,200]']],
  ['reply(tuple)', reply(['x', 404]), [200, JSON_, '["x",404]']],
  ['reply(null, 200)', reply(null, 200), [200, undefined, null]],
  ['reply of a reply', reply(reply('x', 404), 410), [404, TEXT, 'x']],
] as const) {
  test(`toResponse() converts a return value of a handler: ${what}`, () => {
    if (what === 'reply of a reply') assert.equal(toResponse(value, DEFAULT_PLAN).body, 'x');
    else assert.deepEqual(read(value), expected);
  });
}

test('toResponse() uses the status of the route for values that have no status of their own', () => {
  const plan = { ...DEFAULT_PLAN, status: 201 };
  assert.deepEqual(
    [{}, 'x', null, undefined, Buffer.from(''), [1], reply('x')].map(
      (value) => toResponse(value, plan).status,
    ),
    [201, 201, 201, 201, 201, 201, 201],
  );
  assert.deepEqual(
    [['x', 404], reply('x', 409), new JSONResponse({}), new Response('x', { status: 418 })].map(
      (value) => toResponse(value, plan).status,
    ),
    [404, 409, 200, 418],
  );
});

test('toResponse() sends the bytes of every kind of ArrayBuffer and ArrayBuffer view, also of views that start at an offset', () => {
  for (const [what, view] of viewsOf(Uint8Array.of(1, 2, 3, 4))) {
    for (const value of [view, reply(view), [view, 200]]) {
      const response = toResponse(value, DEFAULT_PLAN);
      assert.deepEqual(
        [response.status, response.headers.get('content-type'), [...(response.body as Uint8Array)]],
        [200, 'application/octet-stream', [1, 2, 3, 4]],
        what,
      );
    }
  }
});

test('if readsTuples is false, toResponse() sends a list as JSON, and never reads it as a tuple of body and status', () => {
  assert.deepEqual(read(['x', 404], { ...DEFAULT_PLAN, readsTuples: false }), [200, JSON_, '["x",404]']);
  assert.deepEqual(read(reply('x', 404), { ...DEFAULT_PLAN, readsTuples: false }), [404, TEXT, 'x']);
});

test('toResponse() serialises a body with the serialiser for its status, and never serialises response objects', () => {
  const plan: ReplyPlan = {
    status: 201,
    readsTuples: true,
    encode: (body, status) => (status === 404 ? undefined : JSON.stringify({ body, status })),
  };
  assert.deepEqual(read('x', plan), [201, JSON_, '{"body":"x","status":201}']);
  assert.deepEqual(read(null, plan), [201, JSON_, '{"body":null,"status":201}']);
  assert.deepEqual(read(['x', 202, { 'X-A': '1' }], plan), [202, JSON_, '{"body":"x","status":202}']);
  assert.deepEqual(read(reply({ a: 1 }, 203), plan), [203, JSON_, '{"body":{"a":1},"status":203}']);
  assert.deepEqual(read(reply('x', 404), plan), [404, TEXT, 'x']);
  assert.deepEqual(read([null, 204], plan), [204, undefined, null]);
  assert.deepEqual(read(['x', 202], { ...plan, readsTuples: false }), [
    201,
    JSON_,
    '{"body":["x",202],"status":201}',
  ]);
  assert.equal(toResponse(reply('x', 202, { 'X-A': '1' }), plan).headers.get('x-a'), '1');
  assert.deepEqual(
    [
      new HttpResponse('x'),
      new Response('x'),
      reply(new HttpResponse('x'), 202),
      reply(new Response('x'), 202),
    ].map((value) => toResponse(value, plan).status),
    [200, 200, 202, 202],
  );
});

test('toResponse() returns a response object unchanged; if a reply contains it, a copy gets the status and header fields of the reply', () => {
  const response = new HttpResponse('x', { status: 202, headers: { 'X-A': '1' } });
  assert.equal(toResponse(response, { ...DEFAULT_PLAN, status: 201 }), response);
  assert.equal(response.status, 202);
  assert.equal(toResponse(reply(response), DEFAULT_PLAN).status, 202);
  const changed = toResponse([response, 404, { 'X-A': '2' }], DEFAULT_PLAN);
  assert.deepEqual([response.status, response.headers.get('x-a')], [202, '1']);
  assert.deepEqual([changed.status, changed.headers.get('x-a')], [404, '2']);
  assert.equal(toResponse(reply(new Response('x'), 201), DEFAULT_PLAN).status, 201);
  assert.equal(toResponse([new Response('x', { status: 404 }), 201], DEFAULT_PLAN).status, 201);
});

test('toResponse() prefers the header fields of a reply to the defaults for the kind of body', () => {
  const response = toResponse(reply('<p>', 200, { 'content-type': 'text/html', 'X-A': '1' }), DEFAULT_PLAN);
  assert.deepEqual(
    [...response.headers],
    [
      ['content-type', 'text/html'],
      ['X-A', '1'],
    ],
  );
});

for (const [what, make] of [
  ['a symbol', () => Symbol('x')],
  ['a function', () => () => 1],
  ['a class', () => Point],
  ['a Map', () => new Map()],
  ['a Set', () => new Set()],
  ['a Blob', () => new Blob(['x'])],
  ['a File', () => new File(['x'], 'x.txt')],
  ['FormData', () => new FormData()],
  ['URLSearchParams', () => new URLSearchParams('a=b')],
  ['an Error', () => new Error('x')],
  [
    'a generator',
    () =>
      (function* () {
        yield 1;
      })(),
  ],
  [
    'an async generator',
    () =>
      (async function* () {
        yield 1;
      })(),
  ],
  ['a web stream', () => new Blob(['x']).stream()],
  [
    'a cycle',
    () => {
      const it: Record<string, unknown> = {};
      it['it'] = it;
      return it;
    },
  ],
] as const) {
  test(`toResponse() refuses a value that cannot be sent, both alone and inside a reply: ${what}`, () => {
    assert.throws(() => toResponse(make(), DEFAULT_PLAN), { code: 'E_REPLY' });
    assert.throws(() => toResponse(reply(make(), 201), DEFAULT_PLAN), { code: 'E_REPLY' });
  });
}

test('toResponse() refuses header fields with line breaks, which would split the response head', () => {
  assert.throws(() => toResponse(['x', 200, { X: 'a\r\nb' }], DEFAULT_PLAN), { code: 'E_HEADER' });
  assert.throws(() => toResponse(['x', 200, { 'Content-Length': '5' }], DEFAULT_PLAN), {
    code: 'E_HEADER_OWNED',
    remedy: /contentLength/,
  });
  assert.throws(() => toResponse(['x', 200, { X: 5 }], DEFAULT_PLAN), { code: 'E_HEADER' });
});

test('reply() refuses a status outside 200 to 599', () => {
  for (const status of [0, 100, 199, 600, 200.5, NaN, '200' as unknown as number])
    assert.throws(() => reply('x', status), RangeError);
  assert.ok(reply('x') instanceof Reply);
});

test('fromWeb() copies status, header fields, cookies and length of a web Response, but not its connection fields', async () => {
  const headers = new Headers({
    'X-A': '1',
    'Content-Length': '4',
    'Transfer-Encoding': 'chunked',
    Connection: 'x',
    'Keep-Alive': 'timeout=5',
    'Content-Encoding': 'gzip',
  });
  headers.append('Set-Cookie', 'a=1');
  headers.append('Set-Cookie', 'b=2');
  const response = fromWeb(new Response('body', { status: 418, headers }));
  assert.equal(response.status, 418);
  assert.equal(response.contentLength, 4);
  assert.deepEqual(response.headers.getSetCookie(), ['a=1', 'b=2']);
  assert.deepEqual(
    [...response.headers]
      .map(([name]) => name)
      .filter((name) => name !== 'set-cookie')
      .sort(),
    ['content-encoding', 'content-type', 'x-a'],
  );
  assert.equal(await new Response(response.body as ReadableStream<Uint8Array>).text(), 'body');
  assert.equal(fromWeb(new Response(null, { status: 204 })).body, null);
  assert.equal(
    fromWeb(new Response('x', { headers: { 'content-length': 'many' } })).contentLength >= 0,
    false,
  );
});

test('fromWeb() refuses Response.error(), because it has no status', () => {
  assert.throws(() => fromWeb(Response.error()), RangeError);
});

test('toResponse() returns a StreamingResponse before the source of the stream is read', () => {
  const response = new StreamingResponse(
    (function* () {
      throw new Error('pulled');
    })(),
  );
  assert.equal(toResponse(response, DEFAULT_PLAN), response);
});
