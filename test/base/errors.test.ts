import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as errors from '../../src/base/errors.ts';
import {
  BadRequest,
  ClientDisconnected,
  Conflict,
  Forbidden,
  HTTPException,
  InternalError,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  statusTitle,
  SvcError,
  throwMistake,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
} from '../../src/base/errors.ts';
import { FAULTS, type FaultArguments, type FaultCode } from '../../src/base/faults.ts';
import { ValidationError } from '../../src/schema/schema.ts';
import type { Issue } from '../../src/base/errors.ts';

test('an SvcError has the message and remedy of its error code, and keeps its cause', () => {
  const cause = new Error('why');
  const error = new SvcError('E_LISTEN', ['127.0.0.1:80', 'it is taken'], { cause });
  assert.equal(error.name, 'SvcError');
  assert.equal(error.code, 'E_LISTEN');
  assert.equal(error.message, 'Cannot listen on 127.0.0.1:80: it is taken');
  assert.equal(error.remedy, FAULTS.E_LISTEN.remedy);
  assert.equal(error.cause, cause);
  assert.deepEqual(error.findings, []);
  assert.equal('cause' in new SvcError('E_LISTEN', ['a', 'b']), false);
});

test('the message of an SvcError for a failed compilation lists every finding with its source position', () => {
  const findings = [
    {
      rule: 'SVC101',
      severity: 'error',
      subject: 'GET /a',
      message: 'twice',
      remedy: 'once',
      place: { file: 'a.ts', line: 3, column: 5 },
    },
    { rule: 'x/y', severity: 'error', subject: 'b', message: 'bad', remedy: 'good' },
  ] as const;
  const error = new SvcError('E_COMPILE', [findings], { findings });
  assert.equal(
    error.message,
    'Cannot compile the application: 2 mistakes\n  SVC101 GET /a: twice (a.ts:3:5)\n  x/y b: bad',
  );
  assert.equal(error.findings, findings);
  assert.match(new SvcError('E_COMPILE', [[findings[0]]]).message, /1 mistake\n/);
});

test('throwMistake() throws mistakes in the program, also as a cause, and accepts failures of a server', () => {
  const failures = [
    new Error('connection refused'),
    'text',
    new SvcError('E_DB_CLOSED', []),
    new SvcError('E_DB_CONNECT', ['a', 'b']),
    new SvcError('E_DB_OPEN', ['a', 'b']),
    new SvcError('E_DB_STALLED', ['a', 1]),
    new SvcError('E_REDIS_CLOSED', []),
    new SvcError('E_REDIS_OPEN', ['a', 'b']),
  ];
  for (const failure of failures) {
    throwMistake(failure);
    throwMistake(new Error('wrapped', { cause: failure }));
  }
  for (const mistake of [
    new SvcError('E_DB_NESTED', ['a']),
    new SvcError('E_DB_OVER', []),
    new SvcError('E_CACHE_VALUE', []),
    new SvcError('E_OPTION_UNKNOWN', ['a', 'b', 'c', []]),
  ]) {
    for (const error of [mistake, new Error('wrapped', { cause: mistake })])
      assert.throws(() => throwMistake(error), error);
  }
});

test('the error codes of SvcError are listed in alphabetical order', () => {
  const codes = Object.keys(FAULTS);
  assert.deepEqual(codes, [...codes].sort());
  for (const code of codes) assert.match(code, /^E_[A-Z0-9_]+$/);
});

test('each error code of SvcError has a message about the failure and a remedy, both without a final full stop', () => {
  for (const code of Object.keys(FAULTS) as FaultCode[]) {
    const { message, remedy } = anyOf(code);
    assert.match(message, /^(?:Cannot|Unknown) /, code);
    assert.doesNotMatch(message, /\.$/, code);
    assert.ok(remedy.length > 10 && !remedy.endsWith('.'), code);
  }
});

/** Returns values for the texts of a fault: texts, or lists for faults that describe lists. */
function anyOf(code: FaultCode): SvcError {
  const { length } = FAULTS[code].describe;
  try {
    return new SvcError(code, Array(length).fill('thing') as unknown as FaultArguments<FaultCode>);
  } catch {
    return new SvcError(code, Array(length).fill(['thing']) as unknown as FaultArguments<FaultCode>);
  }
}

test('the message of an SvcError about an unknown name contains no suggestion if no known name is similar', () => {
  assert.match(new SvcError('E_OPTION_UNKNOWN', ['Thing', 'a', 'b', ['b']]).message, /did you mean "b"\?$/);
  assert.match(new SvcError('E_URL_NAME', ['a', 'b']).message, /did you mean "b"\?$/);
  assert.match(
    new SvcError('E_OPTION_UNKNOWN', ['Thing', 'a', undefined, ['size', 'depth']]).message,
    /unknown option "a"; the options are size, depth$/,
  );
  assert.match(new SvcError('E_URL_NAME', ['a', undefined]).message, /"a"$/);
  assert.match(
    new SvcError('E_METRIC_LABELS', ['svc_a', [], 1]).message,
    /has no labels, but the call passes 1 label values$/,
  );
});

for (const [Class, status] of [
  [BadRequest, 400],
  [Unauthorized, 401],
  [Forbidden, 403],
  [NotFound, 404],
  [MethodNotAllowed, 405],
  [PayloadTooLarge, 413],
  [InternalError, 500],
  [Conflict, 409],
  [UnprocessableContent, 422],
  [TooManyRequests, 429],
] as const) {
  test(`${Class.name} is an HTTPException with status ${status} and with its class name as property "name"`, () => {
    const error = new Class('why', { headers: { A: 'b' }, code: 'c', cause: 1 });
    assert.ok(error instanceof HTTPException);
    assert.deepEqual(
      [error.status, error.name, error.message, error.detail, error.code, error.cause],
      [status, Class.name, 'why', 'why', 'c', 1],
    );
    assert.deepEqual(error.headers, { A: 'b' });
    const bare = new Class();
    assert.deepEqual(
      [bare.message, bare.detail, bare.headers, bare.code],
      [statusTitle(status), undefined, undefined, undefined],
    );
    assert.equal('cause' in bare, false);
  });
}

test('HTTPException accepts only status codes from 400 to 599', () => {
  for (const status of [200, 399, 600, 404.5, Number.NaN])
    assert.throws(() => new HTTPException(status), RangeError);
  assert.equal(new HTTPException(599).status, 599);
  const issues = [{ loc: ['body', 'a'], code: 'min', message: 'too small' }];
  assert.deepEqual(new BadRequest('bad', { issues }).issues, issues);
});

const issue = { loc: ['body', 0], code: 'taken', message: 'is taken' };
for (const [name, make] of [
  ['ValidationError', (issues) => new ValidationError(issues)],
  ['BadRequest', (issues) => new BadRequest('bad', { issues })],
  ['Conflict', (issues) => new Conflict('taken', { issues })],
  ['UnprocessableContent', (issues) => new UnprocessableContent('no', { issues })],
  ['HTTPException', (issues) => new HTTPException(400, 'bad', { issues })],
] satisfies [string, (issues: readonly Issue[]) => HTTPException][]) {
  test(`${name} accepts only a list of issues, and never shows the value that it refuses`, () => {
    for (const [wrong, found] of [
      ['SECRETVALUE', /found a value of type string$/],
      [7, /found a value of type number$/],
      [null, /found null$/],
      [{ issues: [issue] }, /found a value of type object$/],
      [[issue, 'SECRETVALUE'], /found something else as item 1 of the list$/],
      [[null], /item 0 /],
      [[{ ...issue, loc: 'body' }], /item 0 /],
      [[{ ...issue, loc: [{}] }], /item 0 /],
      [[{ ...issue, code: undefined }], /item 0 /],
      [[{ ...issue, message: 7 }], /item 0 /],
    ] as const)
      assert.throws(
        () => make(wrong as unknown as readonly Issue[]),
        (error) => {
          assert.ok(error instanceof TypeError && error.message.startsWith(`${name} needs a list of issues`));
          assert.match(error.message, found);
          assert.doesNotMatch(error.message, /SECRETVALUE/);
          return true;
        },
      );
    assert.deepEqual(make([issue]).issues, [issue]);
    assert.deepEqual(make([]).issues, []);
  });
}

test('ValidationError refuses a missing list, and a text with options as BadRequest takes them', () => {
  const Loose = ValidationError as unknown as new (...args: readonly unknown[]) => ValidationError;
  assert.throws(() => new Loose(), /found a value of type undefined$/);
  assert.throws(() => new Loose('the name is taken', { issues: [issue] }), TypeError);
});

test('TooManyRequests sends the waiting time in the header Retry-After, in whole seconds', () => {
  const headers = { 'X-Why': 'yes' };
  assert.deepEqual(new TooManyRequests('often', { retryAfterSeconds: 1.2, headers }).headers, {
    'X-Why': 'yes',
    'Retry-After': '2',
  });
  assert.equal(new TooManyRequests('often', { retryAfterSeconds: 0 }).headers!['Retry-After'], '0');
  assert.equal(new TooManyRequests('often', { headers }).headers, headers);
  for (const retryAfterSeconds of [-1, Number.NaN, Infinity])
    assert.throws(() => new TooManyRequests('often', { retryAfterSeconds }), RangeError);
  const issues = [{ loc: ['body', 'a'], code: 'taken', message: 'is taken' }];
  assert.deepEqual(new UnprocessableContent('no', { issues }).issues, issues);
});

test('statusTitle() returns the name of a registered HTTP status, and "Client Error" or "Server Error" for an unregistered status', () => {
  assert.deepEqual([404, 418, 499, 500, 599].map(statusTitle), [
    'Not Found',
    'Client Error',
    'Client Error',
    'Internal Server Error',
    'Server Error',
  ]);
});

test('errorCode() returns the code of an error of Node.js, and undefined for any other value', () => {
  const codes = [
    Object.assign(new Error('gone'), { code: 'ENOENT' }),
    new DOMException('gone', 'AbortError'),
    new Error('gone'),
    { code: null },
    'ENOENT',
    undefined,
    null,
  ].map(errors.errorCode);
  assert.deepEqual(codes, ['ENOENT', ...Array<undefined>(6)]);
});

test('ClientDisconnected is an Error, but not an HTTPException', () => {
  const error = new ClientDisconnected();
  assert.equal(error.name, 'ClientDisconnected');
  assert.equal((error as Error) instanceof errors.HTTPException, false);
});
