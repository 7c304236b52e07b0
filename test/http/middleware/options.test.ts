/** Options of middleware that are not numbers or booleans: the error says which values are accepted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CORSMiddleware,
  CSRFMiddleware,
  CompressionMiddleware,
  ConcurrencyLimitMiddleware,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  RequestIDMiddleware,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  TrustedHostMiddleware,
} from 'svc';

const FUNCTION_OF_REQUEST = 'a function of the request that returns text or undefined, not a promise';

for (const [Middleware, option, values, accepted] of [
  [
    CompressionMiddleware,
    'encodings',
    ['gzip', [], ['gzip', 'gzip'], ['deflate']],
    'a list of "zstd", "br" and "gzip", each once',
  ],
  [RateLimitMiddleware, 'key', ['x', async () => 'x'], FUNCTION_OF_REQUEST],
  [RateLimitMiddleware, 'store', ['x', {}, { take: 1 }], 'a RateLimitStore'],
  [RateLimitMiddleware, 'rules', ['x', {}], 'a list of { path, perMinute }'],
  [
    ConcurrencyLimitMiddleware,
    'maxEventLoopDelayMs',
    [true, 0, 60_001, 1.5, '5'],
    'false or an integer 1 … 60000',
  ],
  [RequestIDMiddleware, 'generate', ['x', {}], 'a function'],
  [CORSMiddleware, 'origins', ['x', {}, 5], "'*', a list of origins or a function"],
  [CORSMiddleware, 'methods', ['GET', ['a b'], [5], {}], "'*' or a list of methods"],
  [CORSMiddleware, 'headers', ['X-A', ['a b'], {}], "'*' or a list of field names"],
  [CORSMiddleware, 'exposeHeaders', ['*', ['a b'], {}], 'a list of field names'],
  [IdempotencyMiddleware, 'principal', ['x', {}], 'a function'],
  [IdempotencyMiddleware, 'store', ['x', {}, { add: 1 }], 'a RecordStore'],
  [IdempotencyMiddleware, 'methods', ['POST', [], ['post'], [5]], 'a list of methods in capitals'],
  [IdempotencyMiddleware, 'header', ['a b'], 'the name of a header field'],
  [TrustedHostMiddleware, 'hosts', ['x', {}], 'a list of names'],
  [
    SecurityHeadersMiddleware,
    'contentSecurityPolicy',
    [true, 5, []],
    'directives, a policy as text, or false',
  ],
  [
    SecurityHeadersMiddleware,
    'strictTransportSecurity',
    [true, 5],
    '{ maxAgeSeconds, includeSubDomains, preload } or false',
  ],
  [SecurityHeadersMiddleware, 'permissionsPolicy', [true, '', 'a\n'], 'a policy as text, or false'],
  [SessionMiddleware, 'secrets', [5, [5], {}], 'a string or a list of strings'],
  [SessionMiddleware, 'cookie', ['x', 5], 'an object'],
  [SessionMiddleware, 'store', ['x', {}], 'a record store'],
  [CSRFMiddleware, 'exempt', ['/x', {}], 'a list of path templates'],
  [CSRFMiddleware, 'cookie', ['x', 5], 'an object'],
] as readonly (readonly [new (options: never) => unknown, string, readonly unknown[], string])[])
  test(`${Middleware.name} accepts only ${accepted} as its option "${option}"`, () => {
    for (const value of values)
      assert.throws(
        () => new Middleware({ [option]: value } as never),
        (error: Error & { code?: unknown }) => {
          assert.equal(error.code, 'E_OPTION_RANGE');
          assert.ok(
            error.message
              .replace(' must be ', ' needs ')
              .includes(`option "${option}" needs ${accepted}, found`),
            error.message,
          );
          return true;
        },
        String(value),
      );
  });

test('a rule of RateLimitMiddleware accepts only a list of methods in capitals as its option "methods"', () => {
  for (const methods of ['POST', [], ['post']])
    assert.throws(
      () => new RateLimitMiddleware({ rules: [{ path: '/', methods: methods as never, perMinute: 1 }] }),
      {
        code: 'E_OPTION_RANGE',
        message:
          /RateLimitMiddleware rules\[0\]: option "methods" needs a list of methods in capitals, found/,
      },
    );
});
