/**
 * Ranges: the examples of RFC 9110 §14.1.2 for 10,000 bytes, the refusals, and generated fields against a plain reading.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { contentRange, FileBody, layOut, readRanges } from '../../../src/http/files/body.ts';
import { seeded } from '../../support/random.ts';

const SIZE = 10_000;
/** Returns ranges as the RFC writes them: first and last byte, both included. */
const shown = (field: string, size = SIZE): unknown => {
  const ranges = readRanges(field, size);
  return typeof ranges === 'string' ? ranges : ranges.map(({ start, end }) => `${start}-${end - 1}`).join();
};

for (const [field, expected, why] of [
  ['bytes=0-499', '0-499', 'the first 500 bytes'],
  ['bytes=500-999', '500-999', 'the second 500 bytes'],
  ['bytes=-500', '9500-9999', 'the final 500 bytes'],
  ['bytes=9500-', '9500-9999', 'the final 500 bytes, by position'],
  ['bytes=0-0,-1', '0-0,9999-9999', 'the first and last bytes only'],
  ['bytes= 0-999, 4500-5499, -1000', '0-999,4500-5499,9000-9999', 'the first, middle, and last 1000 bytes'],
  ['bytes=500-600,601-999', '500-600,601-999', 'the second 500 bytes, in two ranges'],
  ['bytes=500-700,601-999', 'whole', 'overlapping ranges may be ignored, §14.2'],
  ['bytes=0-', '0-9999', 'all bytes'],
  ['bytes=-20000', '0-9999', 'a suffix longer than the file'],
  ['bytes=9999-20000', '9999-9999', 'an end beyond the last byte'],
  ['BYTES=0-1', '0-1', 'the unit is case-insensitive, §14.1'],
  ['bytes=5000-5001,0-1', '5000-5001,0-1', 'the requested order is kept'],
  ['bytes=0-1,20000-20001', '0-1', 'one of two ranges is satisfiable'],
  ['bytes=,0-1,,', '0-1', 'empty list members'],
  ['bytes=000000000000000000001-2', '1-2', 'leading zeros'],
  ['bytes=0-99999999999999999999999999', '0-9999', 'a very long number'],
  ['bytes=10000-', 'unsatisfiable', 'a start beyond the last byte'],
  ['bytes=10000-20000', 'unsatisfiable', 'a start beyond the last byte'],
  ['bytes=99999999999999999999999999-', 'unsatisfiable', 'a very long number'],
  ['bytes=-0', 'unsatisfiable', 'a suffix of 0 bytes'],
  ['bytes=20000-20001,-0', 'unsatisfiable', 'neither of two ranges is satisfiable'],
  ['bytes=5-4', 'whole', 'malformed: the end is before the start'],
  ['bytes=0-1,5-4', 'whole', 'one malformed range makes the field invalid'],
  ['bytes=9007199254740993-9007199254740992', 'whole', 'the end is before the start, above 2^53'],
  ['bytes=', 'whole', 'no range'],
  ['bytes=-', 'whole', 'no start and no end'],
  ['bytes=a-b', 'whole', 'letters instead of numbers'],
  ['bytes=1', 'whole', 'no dash'],
  ['bytes=+1-2', 'whole', 'a sign is malformed'],
  ['bytes=1 -2', 'whole', 'white space inside a range'],
  ['bytes=0x1-2', 'whole', 'hexadecimal digits'],
  ['bytes=1-2-3', 'whole', 'two dashes'],
  ['items=0-1', 'whole', 'a unit other than bytes'],
  ['bytes 0-1', 'whole', 'no equals sign'],
  [
    `bytes=${Array.from({ length: 16 }, (_, n) => `${n * 10}-${n * 10}`).join()}`,
    Array.from({ length: 16 }, (_, n) => `${n * 10}-${n * 10}`).join(),
    'sixteen ranges are allowed',
  ],
  [
    `bytes=${Array.from({ length: 17 }, (_, n) => `${n * 10}-${n * 10}`).join()}`,
    'whole',
    'seventeen are too many',
  ],
  [`bytes=0-1${','.repeat(2_000)}`, 'whole', 'the field is too long'],
] as const) {
  test(`readRanges() reads a Range field for 10,000 bytes as RFC 9110 §14.2 requires (${field.slice(0, 60)}, result: ${expected.length > 40 ? 'sixteen ranges' : expected}, reason: ${why})`, () =>
    assert.equal(shown(field), expected));
}

test('for an empty file, readRanges() returns the whole file for a suffix range, and "unsatisfiable" for any other range', () => {
  assert.equal(shown('bytes=-5', 0), 'whole');
  for (const field of ['bytes=0-', 'bytes=0-0', 'bytes=-0']) assert.equal(shown(field, 0), 'unsatisfiable');
});

/** Reference implementation: the set of bytes that each range contains. */
function reference(field: string, size: number): unknown {
  const specs = field
    .slice('bytes='.length)
    .split(',')
    .map((spec) => spec.trim())
    .filter((spec) => spec !== '');
  const sets: number[][] = [];
  for (const spec of specs) {
    const [first, last, ...more] = spec.split('-');
    if (
      more.length > 0 ||
      last === undefined ||
      (first === '' && last === '') ||
      ![first, last].every((digits) => [...digits!].every((char) => '0123456789'.includes(char)))
    )
      return 'whole';
    if (first !== '' && last !== '' && Number(first) > Number(last)) return 'whole';
    const named = Array.from({ length: size }, (_, at) => at).filter((at) =>
      first === '' ? at >= size - Number(last) : at >= Number(first) && (last === '' || at <= Number(last)),
    );
    if (named.length > 0) sets.push(named);
  }
  if (specs.length === 0) return 'whole';
  if (sets.length === 0) return 'unsatisfiable';
  return new Set(sets.flat()).size < sets.flat().length
    ? 'whole'
    : sets.map((set) => `${set[0]}-${set.at(-1)}`).join();
}

test('for generated Range fields, readRanges() returns the same ranges as a simple reference implementation', () => {
  const random = seeded(7233);
  const parts = ['0', '1', '5', '9', '12', '19', '20', '25', '-', '-', '-', ',', ',', ' ', '', 'x'];
  let partial = 0;
  for (let round = 0; round < 30_000; round++) {
    const field = `bytes=${Array.from({ length: random(10) }, () => parts[random(parts.length)]!).join('')}`;
    const expected = reference(field, 20);
    if (expected !== 'whole' && expected !== 'unsatisfiable') partial++;
    assert.equal(shown(field, 20), expected, field);
  }
  assert.ok(partial > 1_500);
});

test('layOut() writes a multipart/byteranges body (RFC 9110 §14.6), whose length FileBody computes', () => {
  const { mediaType, parts } = layOut(
    [
      { start: 500, end: 1_000 },
      { start: 7_000, end: 8_000 },
    ],
    8_000,
    'application/pdf',
  );
  const boundary = /^multipart\/byteranges; boundary=(\S+)$/.exec(mediaType)![1]!;
  const text = parts
    .map((part) => (part instanceof Uint8Array ? part.toString() : `{${part.end - part.start} bytes}`))
    .join('');
  assert.equal(
    text,
    [
      `--${boundary}`,
      'Content-Type: application/pdf',
      'Content-Range: bytes 500-999/8000',
      '',
      '{500 bytes}',
      `--${boundary}`,
      'Content-Type: application/pdf',
      'Content-Range: bytes 7000-7999/8000',
      '',
      '{1000 bytes}',
      `--${boundary}--`,
      '',
    ].join('\r\n'),
  );
  const bytesOfSlices = 500 + 1_000;
  const textOfSlices = '{500 bytes}{1000 bytes}';
  assert.equal(
    new FileBody(undefined as never, parts).length,
    text.length - textOfSlices.length + bytesOfSlices,
  );
  assert.notEqual(layOut([{ start: 0, end: 1 }], 1, undefined).mediaType, mediaType);
  assert.equal(contentRange(undefined, 47_022), 'bytes */47022'); // §14.4
});
