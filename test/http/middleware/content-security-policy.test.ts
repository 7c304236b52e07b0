import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import { ContentSecurityPolicy } from '../../../src/http/middleware/security-headers.ts';

const DEFAULT =
  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

test('ContentSecurityPolicy has default directives, and options extend, replace or remove them', () => {
  assert.equal(new ContentSecurityPolicy({}).text, DEFAULT);
  assert.equal(
    new ContentSecurityPolicy({ scriptSrc: ["'self'", 'https://cdn.example'], objectSrc: undefined }).text,
    `${DEFAULT}; script-src 'self' https://cdn.example`,
  );
  assert.equal(
    new ContentSecurityPolicy({
      defaultSrc: "'none'",
      formAction: false,
      frameAncestors: "'self' https://a.example",
    }).text,
    "default-src 'none'; base-uri 'none'; frame-ancestors 'self' https://a.example; object-src 'none'",
  );
  assert.equal(
    new ContentSecurityPolicy({
      upgradeInsecureRequests: true,
      sandbox: ['allow-forms'],
      trustedTypes: [],
      reportTo: 'csp',
    }).text,
    `${DEFAULT}; upgrade-insecure-requests; sandbox allow-forms; trusted-types; report-to csp`,
  );
  assert.equal(
    new ContentSecurityPolicy({ sandbox: true, upgradeInsecureRequests: false, imgSrc: ['data:', 'https:'] })
      .text,
    `${DEFAULT}; sandbox; img-src data: https:`,
  );
});

test('ContentSecurityPolicy uses no default directives when the policy is given as text', () => {
  assert.equal(
    new ContentSecurityPolicy(" default-src 'none';Script-Src  'self' 'sha256-abc=';;").text,
    "default-src 'none'; script-src 'self' 'sha256-abc='",
  );
});

test('withNonce() adds the nonce to the directives for scripts and styles', () => {
  const noncePolicy = (given: ConstructorParameters<typeof ContentSecurityPolicy>[0]): string =>
    new ContentSecurityPolicy(given).withNonce('N');
  assert.equal(noncePolicy({}), `${DEFAULT}; script-src 'self' 'nonce-N'; style-src 'self' 'nonce-N'`);
  assert.equal(
    noncePolicy("default-src 'none'"),
    "default-src 'none'; script-src 'nonce-N'; style-src 'nonce-N'",
  );
  assert.equal(
    noncePolicy({ defaultSrc: false, styleSrc: "'self'" }),
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; style-src 'self' 'nonce-N'",
  );
  assert.equal(
    noncePolicy("script-src 'none'; style-src https://a.example; script-src-elem 'self'"),
    "script-src 'nonce-N'; style-src https://a.example 'nonce-N'; script-src-elem 'self' 'nonce-N'",
  );
});

for (const [given, pattern] of [
  [{ scriptSrcs: "'self'" }, /"scriptSrcs" is not the name of a directive: did you mean "scriptSrc"\?/],
  [{ 'script-src': "'self'" }, /"script-src" is not the name of a directive/],
  ['script-scr self', /did you mean "script-src"/],
  ['nonsense 1', /"nonsense" is not the name of a directive$/],
  [
    { scriptSrc: 'self' },
    /self, which browsers read as a host name; the keyword needs quotation marks: "'self'"/,
  ],
  [{ scriptSrc: "'unsafe-inlin'" }, /did you mean "'unsafe-inline'"/],
  [{ scriptSrc: "'qqqqqqqq'" }, /is not a keyword$/],
  [{ scriptSrc: 'nonce-abc' }, /needs quotation marks/],
  [{ scriptSrc: "'self" }, /needs quotation marks/],
  [{ scriptSrc: ["'none'", "'self'"] }, /'none', which must be the only source/],
  [{ scriptSrc: [] }, /needs a source/],
  [{ scriptSrc: '' }, /needs a source/],
  [{ scriptSrc: true }, /has the value true, but each value must be text/],
  [{ scriptSrc: 'https://a.example;' }, /contains a character that is not allowed/],
  [{ imgSrc: 'https://a.example,https://b.example' }, /contains a character that is not allowed/],
  [{ imgSrc: 'https://bücher.example' }, /contains a character that is not allowed/],
  [{ imgSrc: 'a\r\nX-Evil:1' }, /contains a character that is not allowed/],
  [{ reportTo: [5] }, /but each value must be text/],
  ["default-src 'self'; default-src 'none'", /occurs twice/],
  ['', /empty policy/],
  [' ; ', /empty policy/],
  ["default-src 'self', script-src 'none'", /contains a character that is not allowed|needs quotation marks/],
] as const) {
  test(`ContentSecurityPolicy refuses an invalid policy (E_CSP): ${JSON.stringify(given)}`, () => {
    assert.throws(
      () => new ContentSecurityPolicy(given as never),
      (error) => error instanceof SvcError && error.code === 'E_CSP' && pattern.test(error.message),
    );
  });
}

// keywords of Content Security Policy 3 and Trusted Types
for (const keyword of [
  'self',
  'none',
  'unsafe-inline',
  'unsafe-eval',
  'unsafe-hashes',
  'strict-dynamic',
  'report-sample',
  'wasm-unsafe-eval',
  'inline-speculation-rules',
  'script',
  'trusted-types-eval',
  'report-sha256',
  'report-sha384',
  'report-sha512',
  'nonce-abc',
  'sha256-abc',
  'sha384-abc',
  'sha512-abc',
])
  test(`ContentSecurityPolicy accepts '${keyword}' only in quotation marks, in small or capital letters`, () => {
    for (const written of [keyword, keyword.toUpperCase()]) {
      assert.ok(new ContentSecurityPolicy({ scriptSrc: `'${written}'` }));
      for (const bare of [written, `'${written}`, `${written}'`])
        assert.throws(() => new ContentSecurityPolicy({ scriptSrc: bare }), {
          code: 'E_CSP',
          message: /the keyword needs quotation marks/,
        });
    }
  });
