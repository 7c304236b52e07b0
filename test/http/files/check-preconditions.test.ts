import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc, SvcError, checkPreconditions } from 'svc';
import { collectedLog } from '../../support/collected-log.ts';
import { served } from '../../support/served.ts';
import type { CurrentState, PreconditionOptions } from 'svc';

const THEN = new Date('1994-11-06T08:49:37.900Z');
const THE_SECOND = 'Sun, 06 Nov 1994 08:49:37 GMT';
const BEFORE = 'Sun, 06 Nov 1994 08:49:36 GMT';
const BOTH: CurrentState = { etag: '"a"', lastModified: THEN };

const CASES: readonly (readonly [
  current: CurrentState | undefined,
  fields: string,
  status: number,
  options?: PreconditionOptions,
])[] = [
  [BOTH, '', 204],
  [BOTH, 'If-Match: "a"', 204],
  [BOTH, 'If-Match: "b", "a"', 204],
  [BOTH, 'If-Match: *', 204],
  [BOTH, 'If-Match: "b"', 412],
  [BOTH, 'If-Match: W/"a"', 412],
  [{ etag: 'W/"a"' }, 'If-Match: W/"a"', 412],
  [{ lastModified: THEN }, 'If-Match: "a"', 412],
  [BOTH, `If-Match: "b"\r\nIf-Unmodified-Since: ${THE_SECOND}`, 412],
  [BOTH, `If-Match: "a"\r\nIf-Unmodified-Since: ${BEFORE}`, 204],
  [BOTH, `If-Unmodified-Since: ${THE_SECOND}`, 204],
  [BOTH, `If-Unmodified-Since: ${BEFORE}`, 412],
  [BOTH, 'If-Unmodified-Since: yesterday', 204],
  [{ etag: '"a"' }, `If-Unmodified-Since: ${BEFORE}`, 204],
  [BOTH, 'If-None-Match: "a"', 412],
  [BOTH, 'If-None-Match: W/"a"', 412],
  [BOTH, 'If-None-Match: *', 412],
  [BOTH, 'If-None-Match: "b"', 204],
  [undefined, '', 204],
  [undefined, 'If-None-Match: *', 204],
  [undefined, 'If-Match: *', 412],
  [undefined, 'If-Match: "a"', 412],
  [undefined, `If-Unmodified-Since: ${BEFORE}`, 204],
  [BOTH, '', 428, { isRequired: true }],
  [BOTH, 'If-None-Match: "b"', 428, { isRequired: true }],
  [BOTH, 'If-None-Match: *', 412, { isRequired: true }],
  [BOTH, 'If-None-Match: "a"', 412, { isRequired: true }],
  [BOTH, 'If-Match: "b"', 412, { isRequired: true }],
  [BOTH, 'If-Match: "a"', 204, { isRequired: true }],
  [BOTH, `If-Unmodified-Since: ${THE_SECOND}`, 204, { isRequired: true }],
  [undefined, 'If-None-Match: *', 204, { isRequired: true }],
];

test('checkPreconditions() answers 412 if a precondition of a write fails, and 428 if a required precondition is missing (RFC 9110 §13.2.2, RFC 6585 §3)', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  CASES.forEach(([current, , , options], index) => {
    app.route(`/${index}`, ['PUT', 'PATCH', 'DELETE'], ({ req }) =>
      checkPreconditions(req, current, options),
    );
  });
  await using server = await served(app);
  for (const [index, [, fields, status]] of CASES.entries()) {
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const answer = await server.ask(method, `/${index}`, `${fields === '' ? '' : `${fields}\r\n`}\r\n`);
      assert.equal(answer.status, status, `${method} ${fields}`);
    }
  }
});

test('checkPreconditions() ignores If-None-Match of a GET request, because ETagMiddleware evaluates this field', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', ({ req }) => checkPreconditions(req, BOTH));
  await using server = await served(app);
  assert.equal((await server.ask('GET', '/', 'If-None-Match: "a"\r\n\r\n')).status, 204);
  assert.equal((await server.ask('GET', '/', 'If-Match: "b"\r\n\r\n')).status, 412);
});

test('checkPreconditions() refuses an entity tag without quotes', async () => {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const app = new Svc({ logger: collectedLog().logger });
  app.put('/', ({ req }) => {
    try {
      checkPreconditions(req, { etag: 'v3' });
    } catch (error) {
      resolve(error);
    }
  });
  await app.fetch(new Request('http://a.example/', { method: 'PUT' }));
  const error = await promise;
  assert.ok(error instanceof SvcError && error.code === 'E_HEADER');
});
