import assert from 'node:assert/strict';
import test from 'node:test';
import { ClientDisconnected } from '../../../src/base/errors.ts';
import { fakeRequest } from '../../support/transport.ts';
import type { CompiledRoute } from '../../../src/http/contracts.ts';

for (const [url, path, query] of [
  ['/', '/', {}],
  ['/a/b', '/a/b', {}],
  ['/a?b=c&d=%20', '/a', { b: 'c', d: ' ' }],
  ['/a?', '/a', {}],
  ['/?a?b=c', '/', { 'a?b': 'c' }],
  ['//a//?x=1', '//a//', { x: '1' }],
  ['/%2e%2e/', '/../', {}],
  ['', '/', {}],
  ['?a=b', '/', { a: 'b' }],
  ['*', '*', {}],
  ['http://h', '/', {}],
  ['http://h/', '/', {}],
  ['https://h:1/a?b=c', '/a', { b: 'c' }],
  ['HTTP://h?b=c', '/', { b: 'c' }],
  ['ftp://h/a', 'ftp://h/a', {}],
  ['h:443', 'h:443', {}],
] as const) {
  test(`TransportRequest splits the request target into path and query: ${JSON.stringify(url)}`, () => {
    const { req } = fakeRequest({ url });
    assert.equal(req.target, url);
    assert.equal(req.path, path);
    assert.deepEqual<unknown>(
      Object.fromEntries([...req.query.keys()].map((name) => [name, req.query.get(name)])),
      query,
    );
  });
}

test('TransportRequest returns the scheme, host and address of the request', () => {
  const plain = fakeRequest({ headers: ['Host', 'a.example:8000'] }).req;
  assert.deepEqual(
    [plain.scheme, plain.host, plain.ip, plain.method],
    ['http', 'a.example:8000', '10.0.0.1', 'GET'],
  );
  const secure = fakeRequest({
    url: 'http://other.example/x',
    headers: ['Host', 'a.example'],
    socket: { encrypted: true },
    method: 'PURGE',
  }).req;
  assert.deepEqual(
    [secure.scheme, secure.host, secure.ip, secure.method],
    ['https', 'other.example', '', 'PURGE'],
  );
  assert.equal(fakeRequest().req.host, '');
});

test('TransportRequest parses headers, cookies and query only once', () => {
  const { req } = fakeRequest({ url: '/?a=1', headers: ['Cookie', 'a=1', 'cookie', 'b=2', 'X-A', '1'] });
  assert.equal(req.headers, req.headers);
  assert.equal(req.cookies, req.cookies);
  assert.equal(req.query, req.query);
  assert.equal(req.state, req.state);
  assert.equal(req.signal, req.signal);
  assert.equal(req.id, req.id);
  assert.deepEqual({ ...req.cookies }, { a: '1', b: '2' });
  assert.equal(req.headers['x-a'], '1');
});

test('once a route has matched, TransportRequest returns this route and its path parameters, and applies its maxBodyBytes', async () => {
  const { req } = fakeRequest();
  assert.equal(req.route, undefined);
  assert.deepEqual(req.pathParams, {});
  const route = { template: '/{a}' } as CompiledRoute;
  const other = fakeRequest({ body: '1234' }).req;
  other.match = {
    kind: 'found',
    captures: ['x'],
    endpoint: {
      route,
      bodyRules: { maxBodyBytes: 3 },
      readParams: ([a]) => ({ a }),
      run: () => {
        throw new Error('not run');
      },
    },
  };
  assert.equal(other.route, route);
  assert.deepEqual(other.pathParams, { a: 'x' });
  assert.equal(other.pathParams, other.pathParams);
  await assert.rejects(other.body({ maxBytes: 100 }), { status: 413 });
});

test('TransportRequest.session throws if the application has no session middleware', () => {
  assert.throws(() => fakeRequest().req.session, { code: 'E_SESSION_ABSENT' });
});

test('TransportRequest.json() accepts any JSON media type, and without strictContentType also a request without Content-Type', async () => {
  for (const type of [
    undefined,
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/problem+json',
    'application/vnd.api+json;v=1',
  ]) {
    const { req } = fakeRequest({
      body: '{"a":[1]}',
      headers: type === undefined ? [] : ['Content-Type', type],
    });
    assert.deepEqual(await req.json(), { a: [1] });
    assert.equal(await req.text(), '{"a":[1]}');
    assert.notEqual(await req.json(), await req.json());
  }
});

test('TransportRequest.json() answers a body without Content-Type with 415 if strictContentType is true', async () => {
  const defaults = { strictContentType: true };
  await assert.rejects(fakeRequest({ body: '{}', defaults }).req.json(), { status: 415 });
  await assert.rejects(fakeRequest({ body: '', defaults }).req.json(), { status: 400 });
  assert.equal(await fakeRequest({ body: '{}', defaults }).req.text(), '{}');
});

test('TransportRequest.json() answers media types other than JSON with 415, and invalid JSON with 400', async () => {
  for (const type of [
    'text/plain',
    'application/jsonx',
    'application/x-www-form-urlencoded',
    '',
    'text/json',
    'application/+json x',
  ]) {
    await assert.rejects(fakeRequest({ body: '{}', headers: ['Content-Type', type] }).req.json(), {
      status: 415,
    });
  }
  for (const body of ['', '{', 'undefined', "{'a':1}", '\ufeff', '{"a":1}x', 'NaN'])
    await assert.rejects(fakeRequest({ body }).req.json(), { status: 400, code: 'json' });
  await assert.rejects(fakeRequest({ body: Buffer.from([0x22, 0xff, 0x22]) }).req.json(), {
    status: 400,
    code: 'utf8',
  });
});

test('TransportRequest.json() skips a byte order mark, and does not change a prototype', async () => {
  assert.deepEqual(await fakeRequest({ body: '\ufeff{"a":1}' }).req.json(), { a: 1 });
  const value = (await fakeRequest({ body: '{"__proto__":{"polluted":1}}' }).req.json()) as object;
  assert.ok(Object.hasOwn(value, '__proto__'));
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
});

test('TransportRequest.json() refuses bodies nested deeper than 1,000 levels, because writing them again could overflow the stack', async () => {
  const lists = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  const mixed = (levels: number): string =>
    `${'{"a":0,"b":[1,"c",'.repeat(levels / 2)}null${']}'.repeat(levels / 2)}`;
  for (const body of [
    lists(1_000),
    mixed(1_000),
    `[${Array.from({ length: 50 }, () => lists(900)).join()}]`,
  ]) {
    const { req } = fakeRequest({ body });
    assert.deepEqual(await req.json(), JSON.parse(body));
    assert.equal(await req.text(), body);
  }
  for (const body of [lists(1_001), lists(50_000), mixed(1_002), `{"a":[${lists(10)},${lists(999)}]}`])
    await assert.rejects(fakeRequest({ body }).req.json(), { status: 400, code: 'depth' });
});

test('TransportRequest.text() decodes a UTF-8 character that is split between two chunks', async () => {
  const { req, incoming } = fakeRequest();
  const text = req.text();
  const bytes = Buffer.from('\ufeffh\u00e9😀');
  await incoming.pushAll([...bytes].map((byte) => Buffer.of(byte)));
  assert.equal(await text, 'hé😀');
});

test('TransportRequest.form() reads urlencoded fields, and limits their number', async () => {
  const type = ['Content-Type', 'application/x-www-form-urlencoded; charset=UTF-8'];
  const form = await fakeRequest({ body: 'a=1&a=2&b=%C3%A9+x&__proto__=p', headers: type }).req.form();
  assert.deepEqual(
    [form.get('a'), form.getAll('a'), form.get('b'), form.has('c'), [...form.keys()]],
    ['1', ['1', '2'], 'é x', false, ['a', 'b', '__proto__']],
  );
  assert.equal(form.file('a'), undefined);
  assert.deepEqual(form.files('a'), []);
  assert.equal(
    (await fakeRequest({ body: 'a&'.repeat(1_000), headers: type }).req.form()).getAll('a').length,
    1_000,
  );
  await assert.rejects(fakeRequest({ body: 'a&'.repeat(1_001), headers: type }).req.form(), { status: 413 });
  await assert.rejects(fakeRequest({ body: Buffer.from([0x61, 0xff]), headers: type }).req.form(), {
    status: 400,
  });
  for (const headers of [[], ['Content-Type', 'text/plain']])
    await assert.rejects(fakeRequest({ body: 'a=1', headers }).req.form(), { status: 415 });
});

test('TransportRequest limits json(), text() and form() to 10 MB by default, and does not limit body()', async () => {
  const body = Buffer.alloc(10_000_001, 0x31);
  const headers = ['Content-Length', String(body.length)];
  await assert.rejects(fakeRequest({ body, headers }).req.json(), { status: 413 });
  await assert.rejects(fakeRequest({ body }).req.text(), { status: 413 });
  assert.equal((await fakeRequest({ body: body.subarray(1) }).req.text()).length, 10_000_000);
  assert.equal((await fakeRequest({ body, headers }).req.text({ maxBytes: Infinity })).length, body.length);
  assert.equal((await fakeRequest({ body }).req.body()).length, body.length);
});

test('TransportRequest never reads more than the "maxBodyBytes" of its application', async () => {
  const defaults = { maxBodyBytes: 5 };
  await assert.rejects(fakeRequest({ body: '123456', defaults }).req.body(), { status: 413 });
  await assert.rejects(fakeRequest({ body: '123456', defaults }).req.body({ maxBytes: 100 }), {
    status: 413,
  });
  await assert.rejects(
    async () => {
      for await (const chunk of fakeRequest({ body: '123456', defaults }).req.stream({ maxBytes: 100 }))
        assert.fail(String(chunk));
    },
    { status: 413 },
  );
  assert.equal((await fakeRequest({ body: '12345', defaults }).req.body()).length, 5);
  await assert.rejects(fakeRequest({ body: '12345', defaults }).req.body({ maxBytes: 4 }), { status: 413 });
});

test('TransportRequest.body() can be called repeatedly, each time with its own limit', async () => {
  const { req } = fakeRequest({ body: '[1,2]' });
  assert.equal(await req.body(), await req.body());
  assert.deepEqual(await req.json(), [1, 2]);
  await assert.rejects(req.body({ maxBytes: 4 }), { status: 413 });
  assert.equal((await req.body({ maxBytes: 5 })).length, 5);
});

test('TransportRequest.body() can be called twice at the same time', async () => {
  const { req, incoming } = fakeRequest();
  const both = Promise.all([req.text(), req.json()]);
  await incoming.pushAll(['[', ']']);
  assert.deepEqual(await both, ['[]', []]);
});

test('TransportRequest allows reading a body either as a stream or as a whole, but not both', async () => {
  const streamed = fakeRequest({ body: 'x' }).req;
  assert.equal((await streamed.stream()[Symbol.asyncIterator]().next()).value?.length, 1);
  for (const read of [
    () => streamed.body(),
    () => streamed.text(),
    () => streamed.json(),
    async () => streamed.stream(),
  ])
    await assert.rejects(read, { code: 'E_BODY_CONSUMED' });
  const whole = fakeRequest({ body: 'x' }).req;
  await whole.body();
  assert.throws(() => whole.stream(), { code: 'E_BODY_CONSUMED' });
});

test('TransportRequest refuses a maxBytes that is not a number of bytes', async () => {
  for (const maxBytes of [-1, NaN, '5' as unknown as number, null as unknown as number]) {
    await assert.rejects(async () => fakeRequest({ body: 'x' }).req.body({ maxBytes }), {
      code: 'E_OPTION_RANGE',
    });
    await assert.rejects(fakeRequest({ body: 'x' }).req.text({ maxBytes }), { code: 'E_OPTION_RANGE' });
    assert.throws(() => fakeRequest({ body: 'x' }).req.stream({ maxBytes }), { code: 'E_OPTION_RANGE' });
  }
  await assert.rejects(fakeRequest({ body: 'x' }).req.body({ maxBytes: 0 }), { status: 413 });
});

test('TransportRequest.signal aborts when the response is interrupted, even if the signal is first read afterwards', () => {
  const early = fakeRequest();
  const { signal } = early.req;
  early.outgoing.close(false);
  assert.ok(signal.aborted);
  assert.ok(signal.reason instanceof ClientDisconnected);
  const late = fakeRequest();
  late.outgoing.close(false);
  assert.ok(late.req.signal.aborted);
});

test('TransportRequest.signal does not abort when the response is complete, or when the source of the response failed', () => {
  const finished = fakeRequest();
  const { signal } = finished.req;
  finished.outgoing.close(true);
  const late = fakeRequest();
  late.outgoing.close(true);
  const failed = fakeRequest();
  const failedSignal = failed.req.signal;
  failed.req.failure = new Error('source');
  failed.outgoing.close(false);
  assert.deepEqual([signal.aborted, late.req.signal.aborted, failedSignal.aborted], [false, false, false]);
});

test('TransportRequest.takeAfterwards() returns the functions given to afterwards(), and passes functions given to afterwards() later to its second argument', () => {
  const { req } = fakeRequest();
  const fn = (): void => undefined;
  const late: unknown[] = [];
  req.afterwards(fn);
  const runner = { runLate: (...reported: unknown[]) => void late.push(...reported) };
  const outcome = new Error('left');
  assert.deepEqual(req.takeAfterwards(outcome, runner), [fn]);
  req.afterwards(fn);
  assert.deepEqual(late, [req, fn, outcome]);
  assert.equal(req.takeAfterwards(undefined, runner), undefined);
});
