import assert from 'node:assert/strict';
import test from 'node:test';
import { readTraceContext, traceHeaders } from '../../../src/http/request-id.ts';
import { seeded } from '../../support/random.ts';
import { fakeRequest } from '../../support/transport.ts';

const TRACE = '12345678901234567890123456789012';
const SPAN = '1234567890123456';
const VALID = `00-${TRACE}-${SPAN}-01`;
const SPAN_ID = /^(?!0{16})[0-9a-f]{16}$/;
const TRACE_ID = /^(?!0{32})[0-9a-f]{32}$/;

// test cases of the W3C test suite for Trace Context, with the names that they have in it

for (const [name, field, isSampled] of [
  ['traceparent_included_tracestate_missing', VALID, true],
  ['flags of this version, not sampled', `00-${TRACE}-${SPAN}-00`, false],
  ['unknown flags beside sampled', `00-${TRACE}-${SPAN}-ff`, true],
  ['unknown flags without sampled', `00-${TRACE}-${SPAN}-fe`, false],
  ['traceparent_version_0xcc', `cc-${TRACE}-${SPAN}-01`, true],
  ['traceparent_version_0xcc with more behind', `cc-${TRACE}-${SPAN}-01-what-the-future-will-be-like`, true],
  ['version fe with a dash behind', `fe-${TRACE}-${SPAN}-00-`, false],
] as const) {
  test(`readTraceContext() continues the trace of a valid traceparent (${name})`, () => {
    const context = readTraceContext(field, undefined);
    assert.deepEqual(
      { ...context, spanId: '' },
      { traceId: TRACE, parentId: SPAN, spanId: '', isSampled, state: '' },
    );
    assert.match(context.spanId, SPAN_ID);
    assert.notEqual(context.spanId, SPAN);
  });
}

for (const [name, field] of [
  ['both_traceparent_and_tracestate_missing', undefined],
  ['empty', ''],
  ['traceparent_duplicated', `00-12345678901234567890123456789011-${SPAN}-01, ${VALID}`],
  ['traceparent_duplicated, of a later version', `cc-${TRACE}-${SPAN}-01, cc-${TRACE}-${SPAN}-01`],
  ['traceparent_version_0x00 with a character behind', `${VALID}.`],
  ['traceparent_version_0x00 with more behind', `${VALID}-what-the-future-will-be-like`],
  ['version 00 with a dash behind', `${VALID}-`],
  [
    'traceparent_version_0xcc with something else behind',
    `cc-${TRACE}-${SPAN}-01.what-the-future-will-be-like`,
  ],
  ['traceparent_version_0xff', `ff-${TRACE}-${SPAN}-01`],
  ['traceparent_version_illegal_characters', `.0-${TRACE}-${SPAN}-01`],
  ['traceparent_version_illegal_characters, second', `0.-${TRACE}-${SPAN}-01`],
  ['traceparent_version_too_long', `000-${TRACE}-${SPAN}-01`],
  ['traceparent_version_too_long, four', `0000-${TRACE}-${SPAN}-01`],
  ['traceparent_version_too_short', `0-${TRACE}-${SPAN}-01`],
  ['traceparent_trace_id_all_zero', `00-00000000000000000000000000000000-${SPAN}-01`],
  ['traceparent_trace_id_illegal_characters', `00-.2345678901234567890123456789012-${SPAN}-01`],
  ['traceparent_trace_id_illegal_characters, last', `00-1234567890123456789012345678901.-${SPAN}-01`],
  ['traceparent_trace_id_too_long', `00-${TRACE}3-${SPAN}-01`],
  ['traceparent_trace_id_too_short', `00-1234567890123456789012345678901-${SPAN}-01`],
  ['traceparent_parent_id_all_zero', `00-${TRACE}-0000000000000000-01`],
  ['traceparent_parent_id_illegal_characters', `00-${TRACE}-.234567890123456-01`],
  ['traceparent_parent_id_illegal_characters, last', `00-${TRACE}-123456789012345.-01`],
  ['traceparent_parent_id_too_long', `00-${TRACE}-${SPAN}7-01`],
  ['traceparent_parent_id_too_short', `00-${TRACE}-123456789012345-01`],
  ['traceparent_trace_flags_illegal_characters', `00-${TRACE}-${SPAN}-.0`],
  ['traceparent_trace_flags_illegal_characters, second', `00-${TRACE}-${SPAN}-0.`],
  ['traceparent_trace_flags_too_long', `00-${TRACE}-${SPAN}-001`],
  ['traceparent_trace_flags_too_short', `00-${TRACE}-${SPAN}-1`],
  ['upper case', `00-ABCDEF78901234567890123456789012-${SPAN}-01`],
  ['a line feed behind', `${VALID}\n`],
  ['other separators', VALID.replaceAll('-', '_')],
] as const) {
  test(`readTraceContext() starts a new trace and drops tracestate if traceparent is invalid: ${name}`, () => {
    const context = readTraceContext(field, 'foo=1');
    assert.match(context.traceId, TRACE_ID);
    assert.match(context.spanId, SPAN_ID);
    assert.notEqual(context.traceId, TRACE);
    assert.deepEqual([context.parentId, context.isSampled, context.state], [undefined, false, '']);
  });
}

const KEY = 'abcdefghijklmnopqrstuvwxyz0123456789_-*/';
const between = (first: number, last: number): string =>
  String.fromCharCode(...Array.from({ length: last - first + 1 }, (_, index) => first + index));
const VALUE = between(0x20, 0x2b) + between(0x2d, 0x3c) + between(0x3e, 0x7e);
const members = (count: number): string =>
  Array.from({ length: count }, (_, index) => `bar${index}=${index}`).join(',');

for (const [name, field, state] of [
  ['tracestate_included_traceparent_included', 'foo=1,bar=2', 'foo=1,bar=2'],
  ['tracestate_empty_header', '', ''],
  ['tracestate_empty_header behind another', 'foo=1, ', 'foo=1'],
  ['tracestate_empty_header before another', ', foo=1', 'foo=1'],
  [
    'tracestate_multiple_headers_different_keys',
    'foo=1,bar=2, rojo=1,congo=2, baz=3',
    'foo=1,bar=2,rojo=1,congo=2,baz=3',
  ],
  ['tracestate_duplicated_keys', 'foo=1,foo=1', ''],
  ['tracestate_duplicated_keys of other values', 'foo=1, foo=2', ''],
  ['tracestate_all_allowed_characters', `${KEY}=${VALUE}`, `${KEY}=${VALUE}`],
  [
    'tracestate_all_allowed_characters, with a system',
    `${KEY}@a-z0-9_-*/=${VALUE}`,
    `${KEY}@a-z0-9_-*/=${VALUE}`,
  ],
  ['tracestate_ows_handling', 'foo=1 \t , \t bar=2, \t baz=3', 'foo=1,bar=2,baz=3'],
  ['tracestate_ows_handling around all', '\t foo=1 \t', 'foo=1'],
  ['a space at the beginning of a value', 'foo= 1', 'foo= 1'],
  ['tracestate_key_illegal_characters: space', 'foo =1', ''],
  ['tracestate_key_illegal_characters: upper case', 'FOO=1', ''],
  ['tracestate_key_illegal_characters: dot', 'foo.bar=1', ''],
  ['tracestate_key_illegal_vendor_format', 'foo@=1,bar=2', ''],
  ['tracestate_key_illegal_vendor_format, no tenant', '@foo=1,bar=2', ''],
  ['tracestate_key_illegal_vendor_format, twice', 'foo@@bar=1,bar=2', ''],
  ['tracestate_key_illegal_vendor_format, three', 'foo@bar@baz=1,bar=2', ''],
  ['a key that begins with a digit', '1foo=1', ''],
  ['a tenant that begins with a digit', '1foo@bar=1', '1foo@bar=1'],
  ['tracestate_member_count_limit: 32', members(32), members(32)],
  ['tracestate_member_count_limit: 33', members(33), ''],
  ['tracestate_key_length_limit: 256', `foo=1,${'z'.repeat(256)}=1`, `foo=1,${'z'.repeat(256)}=1`],
  ['tracestate_key_length_limit: 257', `foo=1,${'z'.repeat(257)}=1`, ''],
  [
    'tracestate_key_length_limit: 241@14',
    `${'t'.repeat(241)}@${'v'.repeat(14)}=1`,
    `${'t'.repeat(241)}@${'v'.repeat(14)}=1`,
  ],
  ['tracestate_key_length_limit: 242@1', `foo=1,${'t'.repeat(242)}@v=1`, ''],
  ['tracestate_key_length_limit: 1@15', `foo=1,t@${'v'.repeat(15)}=1`, ''],
  ['a value of 256', `a=${'v'.repeat(256)}`, `a=${'v'.repeat(256)}`],
  ['a value of 257', `a=${'v'.repeat(257)}`, ''],
  ['tracestate_value_illegal_characters', 'foo=bar=baz', ''],
  ['tracestate_value_illegal_characters, empty', 'foo=,bar=3', ''],
  ['characters beyond ASCII', 'foo=\xe9', ''],
  ['no value', 'foo', ''],
] as const) {
  test(`readTraceContext() continues the trace, and keeps a valid tracestate or drops an invalid one as a whole: ${name}`, () => {
    const context = readTraceContext(VALID, field);
    assert.equal(context.traceId, TRACE);
    assert.equal(context.state, state);
  });
}

test('for generated input, readTraceContext() reads back what traceHeaders() writes', () => {
  const below = seeded(8);
  const chunks = [
    '00',
    'ff',
    '01',
    '-',
    '0',
    'a',
    'A',
    TRACE,
    SPAN,
    '.',
    ',',
    ' ',
    '\t',
    'foo=1',
    '=',
    '@',
    'x'.repeat(300),
  ];
  for (let round = 0; round < 5_000; round++) {
    const text = (): string =>
      Array.from({ length: below(10) }, () => chunks[below(chunks.length)]!).join('');
    const traceparent = below(3) === 0 ? VALID : text();
    const context = readTraceContext(traceparent, text());
    const { traceparent: sent, tracestate } = traceHeaders({ trace: context }) as {
      traceparent: string;
      tracestate?: string;
    };
    assert.match(sent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/);
    const again = readTraceContext(sent, tracestate);
    assert.deepEqual(
      [again.traceId, again.isSampled, again.state],
      [context.traceId, context.isSampled, context.state],
    );
  }
});

test('traceHeaders() returns a new span for each call, in the trace of the request', () => {
  const { req } = fakeRequest({
    headers: ['TraceParent', VALID, 'tracestate', 'foo=1', 'TraceState', 'bar=2'],
  });
  const sent = [traceHeaders(req), traceHeaders(req), traceHeaders(req)];
  for (const fields of sent) {
    assert.match(fields['traceparent']!, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
    assert.equal(fields['tracestate'], 'foo=1,bar=2');
  }
  assert.equal(
    new Set([SPAN, req.trace.spanId, ...sent.map((fields) => fields['traceparent']!.slice(36, 52))]).size,
    5,
  );
  assert.deepEqual(traceHeaders(req, '00f067aa0ba902b7'), {
    traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
    tracestate: 'foo=1,bar=2',
  });
});

test('if a request has no trace, traceHeaders() starts one trace for all its outgoing calls', () => {
  const { req } = fakeRequest();
  const [first, second] = [traceHeaders(req), traceHeaders(req)];
  assert.deepEqual(Object.keys(first), ['traceparent']);
  assert.equal(first['traceparent']!.slice(0, 36), `00-${req.trace.traceId}-`);
  assert.equal(first['traceparent']!.slice(0, 36), second['traceparent']!.slice(0, 36));
});

test('TransportRequest.trace returns the same object at each read, and ignores traceparent if the field occurs twice', () => {
  const { req } = fakeRequest({ headers: ['traceparent', VALID, 'traceparent', VALID] });
  assert.equal(req.trace, req.trace);
  assert.notEqual(req.trace.traceId, TRACE);
  const seen = fakeRequest({ headers: ['traceparent', VALID] }).req;
  assert.equal(seen.headers['traceparent'], VALID); // the view of all fields gives the same
  assert.equal(seen.trace.traceId, TRACE);
});

test('TransportRequest.logFields() includes the trace of the request, or a trace that was started for it', () => {
  assert.equal(fakeRequest({ headers: ['traceparent', VALID] }).req.logFields()['trace_id'], TRACE);
  const { req } = fakeRequest();
  assert.equal(req.logFields()['trace_id'], undefined);
  const { traceId } = req.trace;
  assert.equal(req.logFields()['trace_id'], traceId);
});
