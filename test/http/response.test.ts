import assert from 'node:assert/strict';
import test from 'node:test';
import {
  HTMLResponse,
  HttpResponse,
  JSONResponse,
  RedirectResponse,
  StreamingResponse,
  TextResponse,
} from '../../src/http/response.ts';

test('each response class has its own default status, media type and body', () => {
  const read = ({ status, headers, body }: HttpResponse): unknown[] => [
    status,
    headers.get('content-type'),
    body,
  ];
  assert.deepEqual(read(new HttpResponse()), [200, undefined, null]);
  assert.deepEqual(read(new HttpResponse('x', { status: 201, mediaType: 'a/b', headers: { 'X-A': '1' } })), [
    201,
    'a/b',
    'x',
  ]);
  assert.deepEqual(read(new JSONResponse({ a: 1n })), [200, 'application/json', '{"a":"1"}']);
  assert.deepEqual(read(new JSONResponse(null, { mediaType: 'application/hal+json', status: undefined })), [
    200,
    'application/hal+json',
    'null',
  ]);
  assert.deepEqual(read(new TextResponse('t')), [200, 'text/plain; charset=utf-8', 't']);
  assert.deepEqual(read(new HTMLResponse('<p>', { status: 404 })), [404, 'text/html; charset=utf-8', '<p>']);
  const source = ['a'];
  assert.deepEqual(read(new StreamingResponse(source, { contentLength: 1 })), [
    200,
    'application/octet-stream',
    source,
  ]);
  assert.throws(() => new JSONResponse(undefined), { code: 'E_REPLY' });
});

test('HttpResponse uses the media type of a given Content-Type field instead of its own', () => {
  assert.equal(
    new TextResponse('x', { headers: { 'content-type': 'text/csv' } }).headers.get('Content-Type'),
    'text/csv',
  );
});

test('HttpResponse refuses a status outside 200 to 599, both in the constructor and in an assignment', () => {
  for (const status of [
    0,
    99,
    100,
    101,
    199,
    600,
    200.5,
    NaN,
    '200' as unknown as number,
    null as unknown as number,
  ]) {
    assert.throws(() => new HttpResponse('x', { status }), RangeError);
    const response = new HttpResponse('x', { status: 404 });
    assert.throws(() => {
      response.status = status;
    }, RangeError);
    assert.equal(response.status, 404);
  }
  const response = new JSONResponse({});
  response.status = 599;
  assert.equal(response.status, 599);
});

test('HttpResponse refuses header fields with line breaks, which would split the response head', () => {
  assert.throws(() => new HttpResponse('x', { headers: { X: 'a\r\nb' } }), { code: 'E_HEADER' });
  assert.throws(() => new HttpResponse('x', { mediaType: 'a/b\n' }), { code: 'E_HEADER' });
  assert.throws(() => new HttpResponse('x', { headers: { 'Content-Length': '1' } }), {
    code: 'E_HEADER_OWNED',
  });
});

test('HttpResponse sends a header named __proto__ in its options like any other header', () => {
  const response = new HttpResponse('x', {
    headers: JSON.parse('{"__proto__":"1"}') as Record<string, string>,
  });
  assert.deepEqual([...response.headers], [['__proto__', '1']]);
});

test('RedirectResponse encodes its location, and accepts only the five statuses for redirects', () => {
  const response = new RedirectResponse('/caf\u00e9?x=1\r\nSet-Cookie: a=b');
  assert.equal(response.status, 307);
  assert.equal(response.body, null);
  assert.equal(response.headers.get('location'), '/caf%C3%A9?x=1%0D%0ASet-Cookie:%20a=b');
  for (const status of [301, 302, 303, 307, 308])
    assert.equal(new RedirectResponse('/', { status }).status, status);
  for (const status of [200, 300, 304, 305, 306, 309, 400])
    assert.throws(() => new RedirectResponse('/', { status }), RangeError);
  assert.equal(
    new RedirectResponse('/b', { headers: { 'X-A': '1', Location: '/a' } }).headers.get('location'),
    '/b',
  );
});

test('StreamingResponse accepts iterables, async iterables and streams, and refuses other values', () => {
  for (const source of [
    [],
    new Set(['a']),
    (function* () {
      yield 'a';
    })(),
    (async function* () {
      yield 'a';
    })(),
    new Blob(['a']).stream(),
  ])
    assert.equal(new StreamingResponse(source).body, source);
  for (const source of [null, undefined, 5, 'text', {}, () => []])
    assert.throws(() => new StreamingResponse(source as unknown as string[]), { code: 'E_STREAM' });
  for (const contentLength of [-2, 1.5, NaN, '5' as unknown as number])
    assert.throws(() => new StreamingResponse([], { contentLength }), { code: 'E_STREAM' });
});

test('HttpResponse.setCookie() adds a Set-Cookie field, and deleteCookie() adds a field that lets the cookie expire', () => {
  const response = new HttpResponse()
    .setCookie('a', '1')
    .setCookie('b', 'x y', { sameSite: 'strict', secure: true })
    .deleteCookie('c', { path: '/p' });
  assert.deepEqual(response.headers.getSetCookie(), [
    'a=1; Path=/; HttpOnly; SameSite=Lax',
    'b=x%20y; Path=/; HttpOnly; SameSite=Strict; Secure',
    'c=; Path=/p; Max-Age=0; HttpOnly; SameSite=Lax',
  ]);
  assert.throws(() => new HttpResponse().setCookie('a;', '1'), { code: 'E_COOKIE' });
});

test('HttpResponse.setCookie() and deleteCookie() replace a cookie with the same name, domain and path (RFC 6265 §4.1.1)', () => {
  const PLAIN = '; HttpOnly; SameSite=Lax';
  const cases: readonly (readonly [
    set: (response: HttpResponse) => HttpResponse,
    cookies: readonly string[],
  ])[] = [
    [(r) => r.setCookie('a', '1').setCookie('a', '2'), [`a=2; Path=/${PLAIN}`]],
    [(r) => r.setCookie('a', '1').deleteCookie('a'), [`a=; Path=/; Max-Age=0${PLAIN}`]],
    [(r) => r.deleteCookie('a').setCookie('a', '1', { httpOnly: false }), ['a=1; Path=/; SameSite=Lax']],
    [
      (r) => r.setCookie('a', '1').setCookie('b', '1').setCookie('c', '1').setCookie('b', '2'),
      [`a=1; Path=/${PLAIN}`, `c=1; Path=/${PLAIN}`, `b=2; Path=/${PLAIN}`],
    ],
    // browsers keep these cookies beside each other
    [(r) => r.setCookie('a', '1').setCookie('A', '2'), [`a=1; Path=/${PLAIN}`, `A=2; Path=/${PLAIN}`]],
    [
      (r) => r.setCookie('a', '1').setCookie('a', '2', { path: '/x' }),
      [`a=1; Path=/${PLAIN}`, `a=2; Path=/x${PLAIN}`],
    ],
    [
      (r) => r.setCookie('a', '1').setCookie('a', '2', { domain: 'a.example' }),
      [`a=1; Path=/${PLAIN}`, `a=2; Path=/; Domain=a.example${PLAIN}`],
    ],
    [
      (r) => r.setCookie('a', '1', { domain: '.A.example' }).setCookie('a', '2', { domain: 'a.example' }),
      [`a=2; Path=/; Domain=a.example${PLAIN}`],
    ],
    [
      (r) => (r.headers.append('Set-Cookie', 'a=1; Path=/; Secure; Partitioned'), r.deleteCookie('a')),
      ['a=1; Path=/; Secure; Partitioned', `a=; Path=/; Max-Age=0${PLAIN}`],
    ],
    // fields that are not from setCookie(): only a later setCookie() replaces them
    [
      (r) => (r.headers.append('Set-Cookie', 'a=1;path=/x; PATH=/'), r.setCookie('a', '2')),
      [`a=2; Path=/${PLAIN}`],
    ],
    [
      (r) => (r.headers.append('Set-Cookie', ' a = 1'), r.setCookie('a', '2')),
      [' a = 1', `a=2; Path=/${PLAIN}`],
    ],
    [
      (r) => (r.setCookie('a', '1').headers.append('Set-Cookie', 'a=2; Path=/'), r),
      [`a=1; Path=/${PLAIN}`, 'a=2; Path=/'],
    ],
  ];
  for (const [set, cookies] of cases)
    assert.deepEqual(set(new HttpResponse()).headers.getSetCookie(), cookies);
  const decided = new HttpResponse().setCookie('a', '1').setCookie('a', '1', { secure: false });
  assert.deepEqual(decided.fields(true), ['Set-Cookie', `a=1; Path=/${PLAIN}`]);
});

test('HttpResponse.fields() adds Secure only to cookies that do not specify it, and returns the same fields when it is called again', () => {
  const response = new HttpResponse()
    .setCookie('open', '1')
    .setCookie('never', '1', { secure: false })
    .setCookie('always', '1', { secure: true })
    .setCookie('__Host-h', '1')
    .setCookie('none', '1', { sameSite: 'none' });
  const isSecured = (isSecure: boolean): boolean[] =>
    response
      .fields(isSecure)
      .filter((_, index) => index % 2 === 1)
      .map((field) => field.endsWith('; Secure'));
  assert.deepEqual(isSecured(true), [true, false, true, true, true]);
  assert.deepEqual(isSecured(true), [true, false, true, true, true]);
  assert.deepEqual(isSecured(false), [false, false, true, true, true]);
  assert.throws(() => new HttpResponse().setCookie('__Host-h', '1', { secure: false }), { code: 'E_COOKIE' });
});

test('HttpResponse has no method then(), but a subclass may define one', async () => {
  const response = new TextResponse('x');
  assert.equal((response as { then?: unknown }).then, undefined);
  assert.ok(Object.hasOwn(HttpResponse.prototype, 'then'));
  assert.equal(await response, response);
  assert.deepEqual(
    Object.keys(response).filter((key) => key === 'then'),
    [],
  );
  class Later extends HttpResponse {
    then(use: (value: number) => void): void {
      use(1);
    }
  }
  assert.equal((await new Later()) as unknown, 1);
});

test('HttpResponse.settle() returns a copy of a response; settle() of the copy returns the copy itself', async () => {
  const response = new HttpResponse('x', { headers: { 'X-A': '1' } });
  const answer = await response.settle({ method: 'GET', headers: {} });
  assert.notEqual(answer, response);
  assert.deepEqual([answer.body, answer.status, [...answer.headers]], ['x', 200, [['X-A', '1']]]);
  assert.equal(await answer.settle({ method: 'GET', headers: {} }), answer);
});
