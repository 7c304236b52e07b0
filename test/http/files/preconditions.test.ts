/**
 * Preconditions (RFC 9110 §13): each field, their order, and malformed values.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { isSameForRange, judge } from '../../../src/http/files/preconditions.ts';
import type { Validators } from '../../../src/http/files/preconditions.ts';

const THEN = 'Sat, 29 Oct 1994 19:43:31 GMT'; // the example of §8.8.2
const BEFORE = 'Sat, 29 Oct 1994 19:43:30 GMT';
const AFTER = 'Sat, 29 Oct 1994 19:43:32 GMT';
const STRONG: Validators = { etag: '"xyzzy"', lastModified: THEN };
const WEAK: Validators = { etag: 'W/"xyzzy"', lastModified: THEN };
const NONE: Validators = { etag: undefined, lastModified: undefined };

for (const [fields, validators, expected, why] of [
  [{}, STRONG, 'send', 'no condition'],
  [{ 'if-match': '"xyzzy"' }, STRONG, 'send', '§13.1.1, first example'],
  [{ 'if-match': '"xyzzy", "r2d2xxxx", "c3piozzzz"' }, STRONG, 'send', 'second example'],
  [{ 'if-match': '*' }, STRONG, 'send', 'third example'],
  [{ 'if-match': '"other"' }, STRONG, 'failed', 'another tag'],
  [{ 'if-match': 'W/"xyzzy"' }, STRONG, 'failed', 'compared strongly, a weak tag matches nothing'],
  [{ 'if-match': '"xyzzy"' }, WEAK, 'failed', 'ours is weak'],
  [{ 'if-match': 'xyzzy' }, STRONG, 'failed', 'malformed: nothing shows that it is the same'],
  [{ 'if-match': '"xyzzy"' }, NONE, 'failed', 'we have no tag'],
  [{ 'if-none-match': '"xyzzy"' }, STRONG, 'not-modified', '§13.1.2, first example'],
  [{ 'if-none-match': 'W/"xyzzy"' }, STRONG, 'not-modified', 'second example: compared weakly'],
  [{ 'if-none-match': '"xyzzy"' }, WEAK, 'not-modified', 'and the other way round'],
  [{ 'if-none-match': '"xyzzy", "r2d2xxxx", "c3piozzzz"' }, STRONG, 'not-modified', 'third example'],
  [
    { 'if-none-match': 'W/"r2d2xxxx" ,\tW/"xyzzy" ,' },
    STRONG,
    'not-modified',
    'white space and empty members',
  ],
  [{ 'if-none-match': '*' }, STRONG, 'not-modified', 'fifth example'],
  [{ 'if-none-match': '"a,b", "xyzzy"' }, STRONG, 'not-modified', 'a comma within a tag'],
  [{ 'if-none-match': '"xyzzy,"' }, STRONG, 'send', 'another tag'],
  [{ 'if-none-match': 'w/"xyzzy"' }, STRONG, 'send', 'W has a case'],
  [{ 'if-none-match': '"xy"zzy"' }, STRONG, 'send', 'malformed'],
  [{ 'if-none-match': '"a" "xyzzy"' }, STRONG, 'send', 'no comma'],
  [{ 'if-none-match': '' }, STRONG, 'send', 'empty'],
  [
    { 'if-none-match': '"a"', 'if-modified-since': THEN },
    STRONG,
    'send',
    'the date does not count beside a tag, §13.1.3',
  ],
  [{ 'if-modified-since': THEN }, STRONG, 'not-modified', 'the very date'],
  [{ 'if-modified-since': AFTER }, STRONG, 'not-modified', 'a later one'],
  [{ 'if-modified-since': BEFORE }, STRONG, 'send', 'an earlier one'],
  [{ 'if-modified-since': 'Saturday, 29-Oct-94 19:43:31 GMT' }, STRONG, 'not-modified', 'an obsolete form'],
  [{ 'if-modified-since': 'yesterday' }, STRONG, 'send', 'no date'],
  [{ 'if-modified-since': THEN }, NONE, 'send', 'we have no date'],
  [{ 'if-unmodified-since': THEN }, STRONG, 'send', 'unmodified since'],
  [{ 'if-unmodified-since': BEFORE }, STRONG, 'failed', 'modified since'],
  [{ 'if-unmodified-since': 'yesterday' }, STRONG, 'send', 'no date'],
  [
    { 'if-match': '"xyzzy"', 'if-unmodified-since': BEFORE },
    STRONG,
    'send',
    'the date does not count beside a tag, §13.1.4',
  ],
  [{ 'if-match': '"a"', 'if-none-match': '"xyzzy"' }, STRONG, 'failed', 'If-Match comes first, §13.2.2'],
  [{ 'if-match': '"xyzzy"', 'if-none-match': '"xyzzy"' }, STRONG, 'not-modified', 'then If-None-Match'],
] as const) {
  test(`judge() evaluates the preconditions of a GET or HEAD request as RFC 9110 §13.2.2 requires (${JSON.stringify(fields)}, result: ${expected}, reason: ${why})`, () => {
    for (const method of ['GET', 'HEAD'])
      assert.equal(judge({ method, headers: fields }, validators), expected);
  });
}

for (const [condition, validators, isDateStrong, expected, why] of [
  [undefined, NONE, false, true, 'no condition'],
  ['"xyzzy"', STRONG, false, true, 'the same strong tag'],
  ['"other"', STRONG, true, false, 'another tag'],
  ['W/"xyzzy"', WEAK, true, false, 'a weak tag says nothing of bytes, §13.1.5'],
  ['"xyzzy"', WEAK, true, false, 'ours is weak'],
  ['"xyzzy", "b"', STRONG, true, false, 'one tag is allowed'],
  ['*', STRONG, true, false, 'no tag'],
  [THEN, STRONG, true, true, 'the very date'],
  [THEN, STRONG, false, false, 'a date within whose second more may have been written'],
  [AFTER, STRONG, true, false, 'a later date: it must be the same'],
  ['', STRONG, true, false, 'empty'],
] as const) {
  test(`isSameForRange() compares If-Range with the current ETag and date as RFC 9110 §13.1.5 requires (${JSON.stringify(condition)}, result: ${expected}, reason: ${why})`, () => {
    assert.equal(
      isSameForRange({ method: 'GET', headers: { 'if-range': condition } }, validators, isDateStrong),
      expected,
    );
  });
}

test('judge() takes linear time for a long list of entity tags', () => {
  const long = '"a", '.repeat(3_000);
  assert.equal(
    judge({ method: 'GET', headers: { 'if-none-match': `${long}"xyzzy"` } }, STRONG),
    'not-modified',
  );
  assert.equal(
    judge({ method: 'GET', headers: { 'if-none-match': `${' ,\t'.repeat(30_000)}x` } }, STRONG),
    'send',
  );
});
