/**
 * Runtime of generated clients: requests and responses, without a network.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCookies } from '../../../src/http/cookies.ts';
import {
  HttpError,
  UnexpectedResponse,
  events,
  functionsOf,
  jsonLines,
  unwrap,
} from '../../../src/openapi/client/runtime.ts';
import type { BaseOptions, Operation, Scheme, ServerSentEvent } from '../../../src/openapi/client/runtime.ts';

const JSON_200 = { responses: { 200: ['application/json'] } };

interface Sent {
  readonly url: string;
  readonly init: RequestInit;
  readonly headers: Headers;
}

/**
 * Returns a function for one operation, and the requests that it has sent. Each call gets the given response.
 */
function one(
  operation: Partial<Operation>,
  {
    answer = () => Response.json({}),
    schemes = {},
    ...options
  }: {
    readonly answer?: () => Response;
    readonly schemes?: Record<string, Scheme>;
  } & Partial<BaseOptions> = {},
): { readonly call: (input?: object, given?: object) => Promise<unknown>; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  const fetch = ((url: string, init: RequestInit) => {
    sent.push({ url, init, headers: init.headers as Headers });
    return Promise.resolve(answer());
  }) as typeof globalThis.fetch;
  const functions = functionsOf({ op: { method: 'GET', path: '/', ...JSON_200, ...operation } }, schemes, {
    baseUrl: 'http://a.example/v1/',
    fetch,
    ...options,
  });
  return { call: functions['op']! as (input?: object, given?: object) => Promise<unknown>, sent };
}

test('a generated client percent-encodes parameters, repeats list parameters in the query, and joins lists with the separator ","', async () => {
  const { call, sent } = one({ path: '/x/{a}/{b}', joined: ['ids'] });
  await call({
    params: { a: 'a/b ?#', b: 5 },
    query: {
      q: 'ü&',
      tag: ['x', 'y'],
      ids: [1, 'a', 'b&'],
      none: undefined,
      empty: [],
      at: new Date(0),
      days: [new Date(0)],
      like: { a: 1 },
    },
  });
  assert.equal(
    sent[0]!.url,
    'http://a.example/v1/x/a%2Fb%20%3F%23/5?q=%C3%BC%26&tag=x&tag=y&ids=1,a,b%26&at=1970-01-01T00%3A00%3A00.000Z&days=1970-01-01T00%3A00%3A00.000Z&like=%7B%22a%22%3A1%7D',
  );
});

test('a generated client refuses an item that would not arrive as one item of a list that is sent as one text', async () => {
  const { call, sent } = one({ joined: ['ids'] });
  await assert.rejects(call({ query: { ids: ['a,b'] } }), TypeError);
  await assert.rejects(call({ query: { ids: ['"a,b"'] } }), TypeError);
  await assert.rejects(call({ cookies: { ids: ['a', 'b,c'] } }), TypeError);
  for (const items of [['a,b'], ['5"', '6"'], ['"a', 'b"'], ['"a\\"', 'b"'], ['"a"b"']])
    await assert.rejects(call({ headers: { 'X-Ids': items } }), TypeError);
  assert.equal(sent.length, 0);
  await call({
    headers: { 'X-Ids': ['"a,b"', 'W/"c"', '"\\","'], 'X-One': 'a,b' },
    query: { tag: ['a,b'], ids: ['5"'] },
  });
  const [{ headers, url }] = sent as [Sent];
  assert.deepEqual(
    [headers.get('x-ids'), headers.get('x-one'), url],
    ['"a,b",W/"c","\\","', 'a,b', 'http://a.example/v1/?tag=a%2Cb&ids=5%22'],
  );
});

test('values of a generated client are one cookie each, and svc reads them unchanged', async () => {
  const schemes: Record<string, Scheme> = { key: { in: 'cookie', name: 'key' } };
  for (const value of ['plain', '', 'a; admin=1', ' b ', '"q"', '100%25', 'a,b', 'é€😀', 'a=b', '\r\n\0']) {
    const { call, sent } = one({ security: [['key']] }, { schemes, auth: { key: value } });
    await call({ cookies: { own: value } });
    const field = sent[0]!.headers.get('cookie')!;
    assert.deepEqual({ ...parseCookies(field) }, { own: value, key: value }, field);
  }
});

test('a generated client refuses path parameters such as ".." that would lead to another path', async () => {
  const { call, sent } = one({ path: '/x/{a}' });
  for (const a of ['', '.', '..', undefined]) await assert.rejects(call({ params: { a } }), TypeError);
  assert.equal(sent.length, 0);
});

test('a generated client uses the first security alternative for which it has all credentials, and sends each where its scheme declares', async () => {
  const schemes: Record<string, Scheme> = {
    bearer: { in: 'bearer' },
    basic: { in: 'basic' },
    key: { in: 'header', name: 'X-Key' },
    asked: { in: 'query', name: 'k' },
    session: { in: 'cookie', name: 'sid' },
  };
  const security = [
    ['bearer', 'key'],
    ['basic', 'asked', 'session'],
  ];
  const first = one({ security }, { schemes, auth: { bearer: () => Promise.resolve('t'), key: 'K' } });
  await first.call();
  const { headers } = first.sent[0]!;
  assert.deepEqual([headers.get('authorization'), headers.get('x-key')], ['Bearer t', 'K']);
  const second = one({ security }, { schemes, auth: { key: 'K', basic: 'ä:b', asked: 'a&b', session: 's' } });
  await second.call({ cookies: { taste: 'sweet' } });
  const [{ headers: own, url }] = second.sent as [Sent];
  assert.equal(own.get('authorization'), `Basic ${Buffer.from('ä:b').toString('base64')}`);
  assert.deepEqual(
    [url, own.get('cookie'), own.get('x-key')],
    ['http://a.example/v1/?k=a%26b', 'taste=sweet; sid=s', null],
  );
  const none = one({}, { schemes, auth: { bearer: 't' } });
  await none.call();
  assert.equal(none.sent[0]!.headers.get('authorization'), null, 'the operation needs none');
});

test('a generated client sends all credentials that it has for optional guards, and calls a function for one once', async () => {
  const schemes: Record<string, Scheme> = { bearer: { in: 'bearer' }, key: { in: 'header', name: 'X-Key' } };
  const security = [['key', 'bearer'], ['key'], ['bearer'], []]; // an API key and a bearer token, both optional
  const cases: readonly (readonly [given: readonly string[], sent: readonly (string | null)[]])[] = [
    [[], [null, null]],
    [['key'], ['K', null]],
    [['bearer'], [null, 'Bearer T']],
    [
      ['key', 'bearer'],
      ['K', 'Bearer T'],
    ],
  ];
  for (const [given, expected] of cases) {
    const asked: string[] = [];
    const credential = (name: string, text: string) => () => {
      asked.push(name);
      return given.includes(name) ? text : undefined;
    };
    const auth = { key: credential('key', 'K'), bearer: credential('bearer', 'T') };
    const { call, sent } = one({ security }, { schemes, auth });
    await call();
    const { headers } = sent[0]!;
    assert.deepEqual([headers.get('x-key'), headers.get('authorization')], expected);
    assert.deepEqual(asked, ['key', 'bearer']);
  }
});

test('a generated client sends no parameter, and no item of a list, that is undefined or null', async () => {
  const values = { a: null, b: undefined, c: [null], d: [1, null, undefined, 2], e: '', f: 0, g: false };
  const cases: readonly (readonly [operation: Partial<Operation>, input: object, sent: unknown])[] = [
    [{}, { query: values }, ['/?d=1&d=2&e=&f=0&g=false', null, null, undefined]],
    [{ joined: ['c', 'd'] }, { query: values }, ['/?d=1,2&e=&f=0&g=false', null, null, undefined]],
    [
      {},
      { headers: { 'x-a': null, 'x-b': undefined, 'x-c': [null], 'x-d': [1, null, 2] } },
      ['/', '1,2', null, undefined],
    ],
    [{}, { cookies: { a: null, b: undefined, d: 1 } }, ['/', null, 'd=1', undefined]],
    [
      { method: 'POST', body: 'application/x-www-form-urlencoded' },
      { form: values },
      ['/', null, null, 'd=1&d=2&e=&f=0&g=false'],
    ],
  ];
  for (const [operation, input, expected] of cases) {
    const { call, sent } = one(operation);
    await call(input);
    const { url, headers, init } = sent[0]!;
    assert.deepEqual(
      [url.slice('http://a.example/v1'.length), headers.get('x-d'), headers.get('cookie'), init.body],
      expected,
    );
  }
  const upload = one({ method: 'POST', body: 'multipart/form-data' });
  await upload.call({ form: { ...values, files: [null, new File([], 'x')] } });
  assert.deepEqual(
    [...(upload.sent[0]!.init.body as FormData)].map(([name, one]) => [
      name,
      one instanceof File ? one.name : one,
    ]),
    [
      ['d', '1'],
      ['d', '2'],
      ['e', ''],
      ['f', '0'],
      ['g', 'false'],
      ['files', 'x'],
    ],
  );
});

test('a generated client does not follow redirects, because it would send API keys in headers to another site', async () => {
  const { call, sent } = one({});
  await call();
  assert.equal(sent[0]!.init.redirect, 'manual');
});

test('a generated client encodes a body as JSON, a form, a file or raw bytes, depending on the media type in the document', async () => {
  const json = one({ method: 'POST', body: 'application/json' });
  await json.call({ body: { a: 1 } });
  assert.deepEqual(
    [json.sent[0]!.init.body, json.sent[0]!.headers.get('content-type')],
    ['{"a":1}', 'application/json'],
  );
  const form = one({ method: 'POST', body: 'application/x-www-form-urlencoded' });
  await form.call({ form: { a: 'x y', b: [1, 2] } });
  assert.equal(form.sent[0]!.init.body, 'a=x%20y&b=1&b=2');
  const upload = one({ method: 'POST', body: 'multipart/form-data' });
  await upload.call({
    form: { note: 'n', files: [new File(['1'], 'a.txt'), new Blob(['22'])], left: undefined },
  });
  const data = upload.sent[0]!.init.body as FormData;
  assert.deepEqual(
    [data.get('note'), (data.getAll('files') as File[]).map(({ name, size }) => [name, size])],
    [
      'n',
      [
        ['a.txt', 1],
        ['blob', 2],
      ],
    ],
  );
  assert.deepEqual(
    [data.has('left'), upload.sent[0]!.headers.get('content-type')],
    [false, null],
    'fetch adds the boundary',
  );
  const raw = one({ method: 'POST', body: 'image/png' });
  const stream = new Blob(['x']).stream();
  await raw.call({ body: stream });
  assert.deepEqual(
    [raw.sent[0]!.init.body, (raw.sent[0]!.init as { duplex?: string }).duplex],
    [stream, 'half'],
  );
});

test('a generated client merges the headers of client, input and call, and headers of the call take precedence', async () => {
  const { call, sent } = one({}, { headers: { a: '1', b: '1', c: '1' } });
  const { signal } = new AbortController();
  await call({ headers: { b: ['2', '3'], c: 2 } }, { headers: { c: '3' }, signal });
  const { headers, init } = sent[0]!;
  assert.deepEqual(
    [headers.get('a'), headers.get('b'), headers.get('c'), init.signal],
    ['1', '2,3', '3', signal],
  );
});

test('each result of a generated client has the response and either data or an error, depending on the status', async () => {
  const responses = {
    200: ['application/json'],
    204: [],
    '4XX': ['application/problem+json'],
    202: ['text/plain'],
    203: ['*/*'],
    206: ['image/*'],
  };
  const result = async (
    status: number,
    body: string | null,
    type?: string,
  ): Promise<Record<string, unknown>> =>
    (await one(
      { responses },
      {
        answer: () =>
          new Response(body, { status, headers: type === undefined ? {} : { 'Content-Type': type } }),
      },
    ).call()) as Record<string, unknown>;
  assert.deepEqual((await result(200, '{"a":1}', 'application/json; charset=utf-8'))['data'], { a: 1 });
  const { ok, status, error } = await result(404, '{"status":404}', 'application/problem+json');
  assert.deepEqual([ok, status, error], [false, 404, { status: 404 }]);
  assert.equal((await result(204, null))['data'], undefined);
  assert.equal((await result(202, 'x', 'text/plain'))['data'], 'x');
  assert.equal(((await result(206, 'x', 'image/png'))['data'] as Blob).size, 1);
  const plain = await result(203, 'x', 'text/plain');
  assert.equal(plain['data'], plain['response'], 'it is not read');
});

test('a generated client reads the content of an error that the document leaves open', async () => {
  for (const [content, type, error] of [
    ['{"own":true}', 'application/json', { own: true }],
    ['refused', 'text/plain', 'refused'],
    ['{', 'application/json', '{'],
    ['', 'text/plain', undefined],
  ] as const) {
    const answer = (): Response => new Response(content, { status: 409, headers: { 'Content-Type': type } });
    const { call } = one({ responses: { 204: [], '4XX': [] } }, { answer });
    const result = (await call()) as { readonly ok: boolean; readonly error: unknown };
    assert.deepEqual([result.ok, result.error], [false, error]);
  }
});

test('a generated client rejects with UnexpectedResponse for an undocumented status or media type, and for invalid JSON', async () => {
  for (const response of [
    new Response('', { status: 502 }),
    new Response('<h1>', { headers: { 'Content-Type': 'text/html' } }),
    new Response('{', { headers: { 'Content-Type': 'application/json' } }),
  ])
    await assert.rejects(one({}, { answer: () => response }).call(), UnexpectedResponse);
});

test('unwrap() returns the data of a successful result of a generated client, and throws an HttpError for an error result', async () => {
  const response = new Response();
  assert.equal(await unwrap({ ok: true, status: 200, data: 5, response }), 5);
  const failure = Promise.resolve({ ok: false, status: 410, error: { id: 1 }, response } as const);
  await assert.rejects(unwrap(failure), (error) => {
    assert.ok(error instanceof HttpError);
    assert.deepEqual([error.status, error.body], [410, { id: 1 }]);
    return true;
  });
});

/** Returns a response whose body arrives in these chunks. */
function streamed(chunks: readonly (string | Uint8Array)[], onCancel?: () => void): Response {
  const encoder = new TextEncoder();
  const rest = chunks.map((chunk) => (typeof chunk === 'string' ? encoder.encode(chunk) : chunk));
  return new Response(
    new ReadableStream({
      pull(controller) {
        const chunk = rest.shift();
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: () => onCancel?.(),
    }),
  );
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

test('events() parses a stream of server-sent events according to WHATWG HTML §9.2.6, however the bytes are split into chunks', async () => {
  const text =
    '\ufeffid: 7\r\nevent: tick\ndata: é1\ndata:2\r\r: comment\nretry: 5\ndata\n\nunknown: x\n\ndata: not complete';
  const expected: ServerSentEvent[] = [
    { event: 'tick', data: 'é1\n2', id: '7' },
    { event: 'message', data: '', id: '7' },
  ];
  assert.deepEqual(await all(events(streamed([text]))), expected);
  const bytes = new TextEncoder().encode(text);
  assert.deepEqual(await all(events(streamed([...bytes].map((byte) => Uint8Array.of(byte))))), expected);
});

test('events() closes the connection when its "for await" loop ends early, and rejects if a line exceeds the limit', async () => {
  let isClosed = false;
  for await (const _ of events(streamed(['data: a\n\n', 'data: b\n\n', 'c'], () => (isClosed = true)))) break;
  assert.equal(isClosed, true);
  const endless = Array.from({ length: 18 }, () => new Uint8Array(1024 * 1024).fill(97));
  await assert.rejects(all(events(streamed(endless))), UnexpectedResponse);
});

test('jsonLines() yields the JSON value of each complete line of a stream', async () => {
  assert.deepEqual(await all(jsonLines(streamed(['{"a"', ':1}\n\n[2]\r\n3']))), [{ a: 1 }, [2]]);
});

/** Responses in turn; the last one again and again. */
function inTurn(...makers: readonly (() => Response)[]): () => Response {
  let calls = 0;
  return () => makers[Math.min(calls++, makers.length - 1)]!();
}
const busy = (status: number, retryAfter?: string) => (): Response =>
  Response.json(
    { status },
    { status, headers: retryAfter === undefined ? {} : { 'Retry-After': retryAfter } },
  );
const RETRIED = {
  responses: { 200: ['application/json'], '4XX': ['application/json'], '5XX': ['application/json'] },
};
const fine = (): Response => Response.json({});

test('a generated client with the option retry repeats idempotent calls after the time that Retry-After names', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.parse('2026-01-01T00:00:00Z') });
  const cases: readonly (readonly [
    string,
    object,
    readonly (() => Response)[],
    waitsMs: readonly number[],
    status: number,
  ])[] = [
    ['GET', {}, [busy(429, '2'), busy(503, '1'), fine], [2_000, 1_000], 200],
    ['PUT', {}, [busy(503, 'Thu, 01 Jan 2026 00:00:07 GMT'), fine], [7_000], 200],
    ['DELETE', {}, [busy(503, '1'), busy(503, '1'), busy(503, '1')], [1_000, 1_000], 503],
    ['GET', {}, [busy(429, '31'), fine], [], 429],
    ['GET', {}, [busy(429), fine], [], 429],
    ['GET', {}, [busy(429, 'soon'), fine], [], 429],
    ['GET', {}, [busy(500, '1'), fine], [], 500],
    ['POST', {}, [busy(429, '1'), fine], [], 429],
    ['POST', { headers: { 'Idempotency-Key': '"a"' } }, [busy(429, '1'), fine], [1_000], 200],
    ['GET', { retry: false }, [busy(429, '1'), fine], [], 429],
    ['GET', { retry: { times: 1 } }, [busy(429, '1'), busy(429, '1'), fine], [1_000], 429],
  ];
  for (const [method, given, answers, waitsMs, status] of cases) {
    const { call, sent } = one({ method, ...RETRIED }, { retry: {}, answer: inTurn(...answers) });
    const result = call({}, given) as Promise<{ status: number }>;
    for (const [index, ms] of waitsMs.entries()) {
      await settled();
      assert.equal(sent.length, index + 1, `${method}: the client waits`);
      t.mock.timers.tick(ms - 1);
      await settled();
      assert.equal(sent.length, index + 1, `${method}: not before its time`);
      t.mock.timers.tick(1);
    }
    assert.equal((await result).status, status, `${method} ${JSON.stringify(given)}`);
    assert.equal(sent.length, waitsMs.length + 1);
    t.mock.timers.setTime(Date.parse('2026-01-01T00:00:00Z'));
  }
});

/** Lets all promises settle. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a generated client ends the wait for a repetition when the call is aborted, and does not repeat without the option', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { call, sent } = one(RETRIED, { retry: {}, answer: busy(503, '5') });
  const controller = new AbortController();
  const result = call({}, { signal: controller.signal });
  await settled();
  controller.abort(new Error('enough'));
  await assert.rejects(result, /enough/);
  assert.equal(sent.length, 1);
  const plain = one(RETRIED, { answer: busy(503, '0') });
  await plain.call();
  assert.equal(plain.sent.length, 1);
});
