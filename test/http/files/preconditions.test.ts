/**
 * Preconditions (RFC 9110 §13): each field, their order, and malformed values.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { clientHas, isSameForRange } from '../../../src/http/files/preconditions.ts';
import type { HTTPException } from '../../../src/base/errors.ts';
import type { Validators } from '../../../src/http/files/preconditions.ts';

const THEN = 'Sat, 29 Oct 1994 19:43:31 GMT'; // the example of §8.8.2
const BEFORE = 'Sat, 29 Oct 1994 19:43:30 GMT';
const AFTER = 'Sat, 29 Oct 1994 19:43:32 GMT';
const STRONG: Validators = { etag: '"xyzzy"', lastModified: THEN };
const WEAK: Validators = { etag: 'W/"xyzzy"', lastModified: THEN };
const NONE: Validators = { etag: undefined, lastModified: undefined };

function outcomeOf(...given: Parameters<typeof clientHas>): 'not-modified' | 'send' | 'failed' {
  try {
    return clientHas(...given) ? 'not-modified' : 'send';
  } catch (error) {
    assert.equal((error as HTTPException).status, 412);
    return 'failed';
  }
}

for (const [fields, validators, expected, why] of [
  [{}, STRONG, 'send', 'no condition'],
  [{ 'if-match': '"xyzzy"' }, STRONG, 'send', '§13.1.1, first example'],
  [{ 'if-match': '"xyzzy", "r2d2xxxx", "c3piozzzz"' }, STRONG, 'send', '§13.1.1, second example'],
  [{ 'if-match': '*' }, STRONG, 'send', 'third example, §13.1.1'],
  [{ 'if-match': '"other"' }, STRONG, 'failed', 'the tags differ'],
  [{ 'if-match': 'W/"xyzzy"' }, STRONG, 'failed', 'a weak tag never matches in If-Match'],
  [{ 'if-match': '"xyzzy"' }, WEAK, 'failed', 'the ETag of the file is weak'],
  [{ 'if-match': 'xyzzy' }, STRONG, 'failed', 'malformed tag'],
  [{ 'if-match': '"xyzzy"' }, NONE, 'failed', 'the file has no ETag'],
  [{ 'if-none-match': '"xyzzy"' }, STRONG, 'not-modified', '§13.1.2, first example'],
  [{ 'if-none-match': 'W/"xyzzy"' }, STRONG, 'not-modified', '§13.1.2, weak comparison'],
  [{ 'if-none-match': '"xyzzy"' }, WEAK, 'not-modified', 'weak comparison'],
  [{ 'if-none-match': '"xyzzy", "r2d2xxxx", "c3piozzzz"' }, STRONG, 'not-modified', 'third example, §13.1.2'],
  [
    { 'if-none-match': 'W/"r2d2xxxx" ,\tW/"xyzzy" ,' },
    STRONG,
    'not-modified',
    'white space and empty members',
  ],
  [{ 'if-none-match': '*' }, STRONG, 'not-modified', '§13.1.2, fifth example'],
  [{ 'if-none-match': '"a,b", "xyzzy"' }, STRONG, 'not-modified', 'a comma within a tag'],
  [{ 'if-none-match': '"xyzzy,"' }, STRONG, 'send', 'the tags differ'],
  [{ 'if-none-match': 'w/"xyzzy"' }, STRONG, 'send', 'W must be in upper case'],
  [{ 'if-none-match': '"xy"zzy"' }, STRONG, 'send', 'malformed tag'],
  [{ 'if-none-match': '"a" "xyzzy"' }, STRONG, 'send', 'no comma between tags'],
  [{ 'if-none-match': '' }, STRONG, 'send', 'empty field'],
  [
    { 'if-none-match': '"a"', 'if-modified-since': THEN },
    STRONG,
    'send',
    'If-None-Match replaces the date, §13.1.3',
  ],
  [{ 'if-modified-since': THEN }, STRONG, 'not-modified', 'equal dates'],
  [{ 'if-modified-since': AFTER }, STRONG, 'not-modified', 'date after Last-Modified'],
  [{ 'if-modified-since': BEFORE }, STRONG, 'send', 'date before Last-Modified'],
  [{ 'if-modified-since': 'Saturday, 29-Oct-94 19:43:31 GMT' }, STRONG, 'not-modified', 'obsolete format'],
  [{ 'if-modified-since': 'yesterday' }, STRONG, 'send', 'invalid date'],
  [{ 'if-modified-since': THEN }, NONE, 'send', 'the file has no Last-Modified'],
  [{ 'if-unmodified-since': THEN }, STRONG, 'send', 'not modified since then'],
  [{ 'if-unmodified-since': BEFORE }, STRONG, 'failed', 'modified since'],
  [{ 'if-unmodified-since': 'yesterday' }, STRONG, 'send', 'invalid date'],
  [
    { 'if-match': '"xyzzy"', 'if-unmodified-since': BEFORE },
    STRONG,
    'send',
    'If-Match replaces the date, §13.1.4',
  ],
  [{ 'if-match': '"a"', 'if-none-match': '"xyzzy"' }, STRONG, 'failed', 'If-Match comes first, §13.2.2'],
  [{ 'if-match': '"xyzzy"', 'if-none-match': '"xyzzy"' }, STRONG, 'not-modified', 'If-None-Match is false'],
] as const) {
  test(`clientHas() evaluates the preconditions of a GET or HEAD request as RFC 9110 §13.2.2 requires (${JSON.stringify(fields)}, result: ${expected}, reason: ${why})`, () => {
    for (const method of ['GET', 'HEAD'])
      assert.equal(outcomeOf({ method, headers: fields }, validators), expected);
  });
}

for (const [condition, validators, isDateStrong, expected, why] of [
  [undefined, NONE, false, true, 'no condition'],
  ['"xyzzy"', STRONG, false, true, 'the same strong tag'],
  ['"other"', STRONG, true, false, 'the tags differ'],
  ['W/"xyzzy"', WEAK, true, false, 'a weak tag does not match, §13.1.5'],
  ['"xyzzy"', WEAK, true, false, 'the ETag of the file is weak'],
  ['"xyzzy", "b"', STRONG, true, false, 'a list of tags is not allowed'],
  ['*', STRONG, true, false, '* is not a tag'],
  [THEN, STRONG, true, true, 'equal dates'],
  [THEN, STRONG, false, false, 'the file may have changed again in that second'],
  [AFTER, STRONG, true, false, 'the dates must be equal'],
  ['', STRONG, true, false, 'empty field'],
] as const) {
  test(`isSameForRange() compares If-Range with the current ETag and date as RFC 9110 §13.1.5 requires (${JSON.stringify(condition)}, result: ${expected}, reason: ${why})`, () => {
    assert.equal(
      isSameForRange({ method: 'GET', headers: { 'if-range': condition } }, validators, isDateStrong),
      expected,
    );
  });
}

test('clientHas() reads a long list of entity tags', () => {
  const long = '"a", '.repeat(3_000);
  assert.equal(
    outcomeOf({ method: 'GET', headers: { 'if-none-match': `${long}"xyzzy"` } }, STRONG),
    'not-modified',
  );
  assert.equal(
    outcomeOf({ method: 'GET', headers: { 'if-none-match': `${' ,\t'.repeat(30_000)}x` } }, STRONG),
    'send',
  );
});
