import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { RunningServer } from '../../../src/app/lifecycle.ts';

let server: RunningServer;
let events: readonly Record<string, unknown>[];
/** Number of requests that have reached the application. */
let served = 0;

before(async () => {
  const collected = collectedLog();
  events = collected.events;
  const app = new Svc({ logger: collected.logger });
  app.use((_, next) => {
    served++;
    return next();
  });
  app
    .route(
      '/{rest:path}',
      ['GET', 'POST', 'DELETE'],
      async ({ req }) => `${req.method} ${req.host} ${req.path} ${(await req.body()).length}`,
    )
    .get('/', ({ req }) => `root ${req.host}`);
  server = await app.run({ port: 0, handleSignals: false });
});
after(() => server.close());

const HOST = 'Host: a\r\n';
const get = (target: string, fields = HOST): string => `GET ${target} HTTP/1.1\r\n${fields}\r\n`;
const chunked = (fields: string, version = '1.1'): string =>
  `POST /x HTTP/${version}\r\n${HOST}${fields}\r\n0\r\n\r\n`;

/** Bytes of a request, and the status of its refusal. Each refusal is a problem, and ends the connection. */
const REFUSED: readonly (readonly [what: string, bytes: string, status: number])[] = [
  // the request line, RFC 9112 §3
  ['an unknown method', `FROB /x HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['a method in lower case', `get /x HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['CONNECT', 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', 501],
  ['no HTTP at all', '\x16\x03\x01\x02\r\n\r\n', 400],
  ['HTTP/2.0', `GET /x HTTP/2.0\r\n${HOST}\r\n`, 505],
  ['HTTP/0.9 with fields', `GET /x HTTP/0.9\r\n${HOST}\r\n`, 505],
  ['HTTP/1.2', `GET /x HTTP/1.2\r\n${HOST}\r\n`, 505],
  ['HTTP/3.0', `GET /x HTTP/3.0\r\n${HOST}\r\n`, 505],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
  ['http/1.1 in lower case', `GET /x http/1.1\r\n${HOST}\r\n`, 400],
  ['a space before the method', ` GET /x HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['a space in the target', `GET /x y HTTP/1.1\r\n${HOST}\r\n`, 400],
  // targets, RFC 9112 §3.2
  ['a fragment', get('/x#y'), 400],
  ['an absolute target with a fragment', get('http://a/x#y'), 400],
  ['a control character in the target', get('/x\x01'), 400],
  ['NUL in the target', get('/x\0'), 400],
  ['a tab in the target', get('/x\ty'), 400],
  ['DEL in the target', get('/x\x7f'), 400],
  ['a byte above 0x7f in the target', get('/\xe9'), 400],
  ['GET *', get('*'), 400],
  ['authority-form with GET', get('a:80'), 400],
  ['another scheme', get('ftp://a/x'), 400],
  ['an absolute target without a host', get('http:///x'), 400],
  ['an absolute target with a port alone', get('http://:80/x'), 400],
  ['an absolute target with a user', get('http://u@a/x'), 400],
  ['an absolute target with user and password', get('http://u:p@a/x'), 400],
  ['an absolute target with a port beyond 65535', get('http://a:65536/x'), 400],
  ['an absolute target with a port that is none', get('http://a:8o/x'), 400],
  ['an absolute target with half an address', get('http://[::1/x'), 400],
  // Host, RFC 9112 §3.2
  ['HTTP/1.1 without Host', get('/x', ''), 400],
  ['two Host fields', get('/x', 'Host: a\r\nhost: b\r\n'), 400],
  ['two equal Host fields', get('/x', 'Host: a\r\nHost: a\r\n'), 400],
  ['two Host fields in HTTP/1.0', 'GET /x HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n', 400],
  ['two Host fields beside an absolute target', get('http://a/x', 'Host: a\r\nHost: b\r\n'), 400],
  ...[
    'a b',
    'a,b',
    'a/b',
    'a?b',
    'a@b',
    'a\\b',
    '"a"',
    'a:b',
    'a:80:80',
    'a:65536',
    'a:-1',
    'a:+1',
    'a: 1',
    ':80',
    '::1',
    '[',
    '[]',
    '[::1',
    '[::1]x',
    '[a]',
    '[1.2.3.4]',
    '[::1%25eth0]',
    '[v1.x]',
    'a%00',
    'a\xe9',
    'a<b',
    'a;b',
    'http://a',
  ].map((host) => [`Host: ${host}`, get('/x', `Host: ${host}\r\n`), 400] as const),
  // framing, RFC 9112 §6
  [
    'Content-Length beside Transfer-Encoding',
    chunked('Content-Length: 3\r\nTransfer-Encoding: chunked\r\n'),
    400,
  ],
  [
    'Transfer-Encoding before Content-Length',
    chunked('Transfer-Encoding: chunked\r\nContent-Length: 3\r\n'),
    400,
  ],
  ['two lengths', `POST /x HTTP/1.1\r\n${HOST}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`, 400],
  ['two equal lengths', `POST /x HTTP/1.1\r\n${HOST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`, 400],
  ...['3, 3', '+3', '-3', '0x3', '3 3', '', 'three', '99999999999999999999'].map(
    (length) =>
      [
        `Content-Length: ${length}`,
        `POST /x HTTP/1.1\r\n${HOST}Content-Length: ${length}\r\n\r\nabc`,
        400,
      ] as const,
  ),
  ['Transfer-Encoding in HTTP/1.0', chunked('Transfer-Encoding: chunked\r\n', '1.0'), 400],
  ['gzip, chunked', chunked('Transfer-Encoding: gzip, chunked\r\n'), 501],
  [
    'gzip and chunked in two fields',
    chunked('Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n'),
    400,
  ],
  ['an empty coding before chunked', chunked('Transfer-Encoding: , chunked\r\n'), 501],
  ...[
    'gzip',
    'identity',
    'chunked, identity',
    'chunked, chunked',
    'xchunked',
    'chunkedx',
    '"chunked"',
    'chunked;q=1',
    '',
    '\x0bchunked',
  ].map(
    (coding) =>
      [
        `Transfer-Encoding: ${JSON.stringify(coding)}`,
        chunked(`Transfer-Encoding: ${coding}\r\n`),
        400,
      ] as const,
  ),
  ['chunked twice', chunked('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'), 400],
  // fields, RFC 9112 §5
  ['a space before the colon', get('/x', 'Host : a\r\n'), 400],
  ['a field without a name', get('/x', `${HOST}: x\r\n`), 400],
  ['a line without a colon', get('/x', `${HOST}xyz\r\n`), 400],
  ['obs-fold', get('/x', `${HOST}X: a\r\n b\r\n`), 400],
  ['a folded first field', get('/x', ` ${HOST}`), 400],
  ['a bare LF in a field', get('/x', `${HOST}X: a\nY: b\r\n`), 400],
  ['a bare LF behind the request line', `GET /x HTTP/1.1\n${HOST}\r\n`, 400],
  ['a bare LF at the end', `GET /x HTTP/1.1\r\n${HOST}\n`, 400],
  ['a bare CR in a field', get('/x', `${HOST}X: a\rY: b\r\n`), 400],
  ['two CR', `GET /x HTTP/1.1\r\r\n${HOST}\r\n`, 400],
  ...['\0', '\x01', '\x08', '\x0b', '\x1b', '\x7f'].map(
    (control) =>
      [`${JSON.stringify(control)} in a value`, get('/x', `${HOST}X: a${control}b\r\n`), 400] as const,
  ),
  ['a name that is no token', get('/x', `${HOST}X@Y: a\r\n`), 400],
  ['a byte above 0x7f in a name', get('/x', `${HOST}X\xe9: a\r\n`), 400],
  ['__proto__', get('/x', `${HOST}__proto__: x\r\n`), 400],
  ['__PROTO__', get('/x', `${HOST}__PROTO__: x\r\n`), 400],
  ...['Content-Type', 'Authorization', 'Range', 'If-Range', 'Origin'].map(
    (name) => [`${name} twice`, get('/x', `${HOST}${name}: a\r\n${name.toLowerCase()}: a\r\n`), 400] as const,
  ),
  ['fields of 17 KiB', get('/x', `${HOST}X: ${'x'.repeat(17_000)}\r\n`), 431],
  ['a target of 17 KiB', get(`/${'x'.repeat(17_000)}`), 431],
  ['201 fields', get('/x', HOST + 'a: b\r\n'.repeat(200)), 431],
  [
    '2,100 fields, of which the last is a second Host',
    get('/x', `${HOST}${'a:\r\n'.repeat(2_100)}Host: b\r\n`),
    431,
  ],
  ['another expectation', `POST /x HTTP/1.1\r\n${HOST}Expect: a-miracle\r\nContent-Length: 0\r\n\r\n`, 417],
  [
    'two expectations',
    `POST /x HTTP/1.1\r\n${HOST}Expect: a-miracle, 100-continue\r\nContent-Length: 0\r\n\r\n`,
    417,
  ],
  [
    'two fields of expectations',
    `POST /x HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nExpect: a-miracle\r\nContent-Length: 0\r\n\r\n`,
    417,
  ],
  ['an empty expectation', `POST /x HTTP/1.1\r\n${HOST}Expect:\r\nContent-Length: 0\r\n\r\n`, 417],
];

for (const [what, bytes, status] of REFUSED) {
  test(`HttpServer answers an invalid request with a problem and a request id, and closes the connection (${what}: ${status})`, async () => {
    const before = served;
    await using client = await RawClient.open(server.port);
    const answer = await client.send(bytes + get('/behind')).answer();
    assert.equal(answer.status, status);
    assert.equal(answer.field('content-type'), 'application/problem+json');
    assert.equal(answer.json()['status'], status);
    assert.equal(answer.json()['request_id'], answer.field('x-request-id'));
    assert.equal(answer.field('connection'), 'close');
    assert.equal((await client.ended()).length, 0);
    assert.equal(served, before);
  });
}

for (const [what, bytes, text] of [
  [
    'an absolute target, whose host counts (RFC 9112 §3.2.2)',
    get('http://b:81/x', 'Host: a\r\n'),
    'GET b:81 /x 0',
  ],
  ['an absolute target in capitals', get('HTTPS://B/x'), 'GET B /x 0'],
  ['an absolute target without a path', get('http://b?x'), 'root b'],
  ['an absolute target with an IPv6 address', get('http://[::1]:80/x'), 'GET [::1]:80 /x 0'],
  ...[
    'a',
    'a.example',
    'A-b_c~d.',
    '127.0.0.1',
    '127.0.0.1:8000',
    '[::1]',
    '[::1]:80',
    '[::ffff:1.2.3.4]',
    'a:',
    'a:0',
    'a:65535',
    'xn--bcher-kva.example',
    '',
  ].map((host) => [`Host: ${host}`, get('/x', `Host: ${host}\r\n`), `GET ${host} /x 0`] as const),
  ['white space around Host', get('/x', 'Host:  \t a \t \r\n'), 'GET a /x 0'],
  [
    '"Chunked" with a capital letter',
    `POST /x HTTP/1.1\r\n${HOST}transfer-encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
    'POST a /x 3',
  ],
  [
    'chunk extensions and trailer fields, which are ignored',
    `POST /x HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nHost: evil\r\n\r\n`,
    'POST a /x 3',
  ],
  ['empty lines before a request (RFC 9112 §2.2)', `\r\n\r\n${get('/x')}`, 'GET a /x 0'],
  ['a value with bytes above 0x7f', get('/x', `${HOST}X: caf\xe9\r\n`), 'GET a /x 0'],
  ['200 fields', get('/x', HOST + 'a: b\r\n'.repeat(199)), 'GET a /x 0'],
  [
    'repeated fields whose values form a list',
    get('/x', `${HOST}Accept: a/b\r\nAccept: c/d\r\nCookie: a=b\r\nCookie: c=d\r\n`),
    'GET a /x 0',
  ],
  ['a percent escape of a control character', get('/%00'), 'GET a /%00 0'],
] as const) {
  test(`HttpServer serves an unusual but valid request, and the connection stays usable: ${what}`, async () => {
    await using client = await RawClient.open(server.port);
    for (let round = 0; round < 2; round++) assert.equal((await client.send(bytes).answer()).text(), text);
  });
}

test('HttpServer answers OPTIONS * without calling a handler (RFC 9110 §9.3.7)', async () => {
  await using client = await RawClient.open(server.port);
  assert.equal((await client.send(`OPTIONS * HTTP/1.1\r\n${HOST}\r\n`).answer()).status, 204);
});

test('HttpServer refuses malformed requests with the same response if their bytes arrive one by one', async () => {
  const random = seeded(1);
  const pick = Array.from({ length: 12 }, () => REFUSED[random(REFUSED.length)]!);
  await Promise.all(
    pick
      .filter(([, bytes]) => bytes.length < 500)
      .map(async ([what, bytes, status]) => {
        await using client = await RawClient.open(server.port);
        client.socket.setNoDelay(true);
        for (const byte of bytes) {
          client.send(byte);
          await new Promise((resolve) => setImmediate(resolve));
        }
        assert.equal((await client.answer()).status, status, what);
      }),
  );
});

test('HttpServer sends either nothing or a valid status line in response to random bytes, and continues to serve', async () => {
  const random = seeded(2);
  const parts = [
    'GET ',
    '/x',
    ' HTTP/1.1',
    '\r\n',
    '\r',
    '\n',
    'Host: a',
    'Host',
    ':',
    ' ',
    '\t',
    '\0',
    '\xff',
    'Content-Length: 3',
    'Transfer-Encoding: chunked',
    'Upgrade: h2c',
    'Connection: upgrade',
    'POST ',
    '0',
    'http://',
    '[',
    '#',
    '*',
  ];
  await Promise.all(
    Array.from({ length: 150 }, async () => {
      await using client = await RawClient.open(server.port);
      client.send(Array.from({ length: 1 + random(14) }, () => parts[random(parts.length)]!).join(''));
      client.socket.end();
      const bytes = (await client.ended()).toString('latin1');
      if (bytes !== '') assert.match(bytes, /^HTTP\/1\.1 [1-5]\d\d /);
    }),
  );
  await using client = await RawClient.open(server.port);
  assert.equal((await client.send(get('/x')).answer()).status, 200);
  assert.deepEqual(
    events.filter((event) => event['level'] === 'error'),
    [],
  );
});

for (const [what, version, field] of [
  ['a client that wants its connection closed', '1.1', 'Connection: close\r\n'],
  ['a client of HTTP/1.0', '1.0', ''],
] as const) {
  test(`if a body is too large, HttpServer lets the client send the rest, so the client receives the response (RFC 9112 §9.6): ${what}`, async () => {
    const app = new Svc({ logger: collectedLog().logger }).post(
      '/',
      { public: true, maxBodyBytes: 1_000 },
      async ({ req }) => (await req.json()) as object,
    );
    const strict = await app.run({ port: 0, handleSignals: false });
    await using stack = new AsyncDisposableStack();
    stack.defer(() => strict.close());
    const client = stack.use(await RawClient.open(strict.port));
    client.socket.pause();
    client.send(
      `POST / HTTP/${version}\r\n${HOST}${field}Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n`,
    );
    await new Promise<void>((resolve, reject) => {
      client.socket.write(Buffer.alloc(4_000_000), (error) => (error == null ? resolve() : reject(error)));
    });
    client.socket.resume();
    assert.equal((await client.answer()).status, 413);
    await client.ended();
  });
}

test('if a head is refused, HttpServer lets the client finish sending the body, so the client receives the response (RFC 9112 §9.6)', async () => {
  for (let round = 0; round < 5; round++) {
    await using client = await RawClient.open(server.port);
    client.socket.pause();
    client.send(
      `POST /x HTTP/1.1\r\n${HOST}Content-Type: a/b\r\nContent-Type: a/b\r\nContent-Length: 4000000\r\n\r\n`,
    );
    await new Promise((resolve) => {
      client.socket.write(Buffer.alloc(4_000_000), resolve);
    }); // a reset would have ended it, and unread bytes would be lost
    client.socket.resume();
    assert.equal((await client.answer()).status, 400);
    await client.ended();
  }
});
