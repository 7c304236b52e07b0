/**
 * Negotiation of content codings: the examples of RFC 9110 §12.5.3, malformed fields, and generated fields against a plain parser.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { negotiateEncoding } from '../../src/http/content-codings.ts';
import { seeded } from '../support/random.ts';

const ALL = ['zstd', 'br', 'gzip'] as const;

for (const [header, expected, why] of [
  [undefined, undefined, 'no field: nothing was asked for'],
  ['', undefined, 'an empty field wants no coding'],
  ['compress, gzip', 'gzip', 'RFC 9110 §12.5.3, first example'],
  ['*', 'zstd', 'the server prefers zstd'],
  ['compress;q=0.5, gzip;q=1.0', 'gzip', 'fourth example'],
  ['gzip;q=1.0, identity; q=0.5, *;q=0', 'gzip', 'fifth example'],
  ['gzip, deflate, br, zstd', 'zstd', 'for equal weights, the server prefers zstd'],
  ['gzip;q=0.9, br;q=0.8', 'gzip', 'the greater weight wins'],
  ['gzip;q=0.001', 'gzip', 'the smallest weight above 0'],
  ['gzip;q=0', undefined, 'gzip is refused'],
  ['gzip;q=0.000, *', 'zstd', 'only gzip is refused'],
  ['*;q=0', undefined, 'every coding is refused'],
  ['identity;q=0', undefined, 'nothing is accepted, so nothing is encoded'],
  ['identity;q=0, *', 'zstd', 'only identity is refused'],
  ['identity, gzip;q=0.5', undefined, 'identity has the greater weight'],
  ['identity;q=0.5, gzip;q=0.5', 'gzip', 'for equal weights, compression is preferred'],
  ['identity;q=0.6, gzip;q=0.5', undefined, 'identity has the slightly greater weight'],
  ['GZIP', 'gzip', 'names are case-insensitive'],
  ['x-gzip', 'gzip', 'an old name of gzip, §8.4.1.3'],
  ['\tbr\t;\tq=1.000\t', 'br', 'white space around each part'],
  ['br;Q=1', 'br', 'the name q is case-insensitive'],
  ['br;q=0.', undefined, 'a point without decimals is allowed: none'],
  [',, ,br,', 'br', 'empty members are skipped, §5.6.1.2'],
  ['br;q=1.1', undefined, 'a weight above 1 is malformed'],
  ['br;q=0.1234', undefined, 'four decimals are malformed'],
  ['br;q=-1', undefined, 'a sign is malformed'],
  ['br;level=4', undefined, 'q is the only parameter allowed'],
  ['br;q=0.5;q=1', undefined, 'two weights are malformed'],
  ['br gzip', undefined, 'two names in one member are malformed'],
  ['gzip;q=0, gzip;q=1', undefined, 'the first of two weights counts'],
  ['"br"', undefined, 'a quoted name is malformed'],
] as const) {
  test(`negotiateEncoding() chooses the content coding as RFC 9110 §12.5.3 requires (Accept-Encoding: ${JSON.stringify(header)}, result: ${String(expected)}, reason: ${why})`, () => {
    assert.equal(negotiateEncoding(header, ALL), expected);
  });
}

test('negotiateEncoding() returns only codings from the given list', () => {
  assert.equal(negotiateEncoding('zstd, br, gzip;q=0.1', ['gzip']), 'gzip');
  assert.equal(negotiateEncoding('gzip', []), undefined);
  assert.equal(negotiateEncoding('*;q=0.5, zstd;q=0', ['zstd', 'br']), 'br');
});

test('negotiateEncoding() reads only the first 32 codings of the Accept-Encoding field', () => {
  assert.equal(negotiateEncoding(`${'a,'.repeat(31)}gzip`, ALL), 'gzip');
  assert.equal(negotiateEncoding(`${'a,'.repeat(32)}gzip`, ALL), undefined);
  assert.equal(negotiateEncoding(`gzip${';'.repeat(50_000)}${' \t'.repeat(50_000)}`, ALL), undefined);
});

/** Reference implementation: every offer with its weight, sorted. */
function reference(header: string, offered: readonly string[]): string | undefined {
  const said = header
    .split(',')
    .map((member) => member.split(';').map((part) => part.trim().toLowerCase()))
    .filter(
      ([name = '', weight, ...more]) =>
        /^[\w*-]+$/.test(name) &&
        more.length === 0 &&
        (weight === undefined || /^q=(1(\.0{0,3})?|0(\.\d{0,3})?)$/.test(weight)),
    )
    .map(([name, weight]) => [name, weight === undefined ? 1 : Number(weight.slice(2))] as const);
  const weightOf = (coding: string): number | undefined => said.find(([name]) => name === coding)?.[1];
  const offers = offered.map((coding, rank) => ({
    coding,
    rank,
    weight: weightOf(coding) ?? weightOf('*') ?? 0,
  }));
  const [best] = offers
    .filter(({ weight }) => weight > 0 && weight >= (weightOf('identity') ?? 0))
    .sort((left, right) => right.weight - left.weight || left.rank - right.rank);
  return best?.coding;
}

test('for generated Accept-Encoding fields, negotiateEncoding() returns the same coding as a simple reference implementation', () => {
  const random = seeded(9110);
  const parts = [
    'gzip',
    'br',
    'zstd',
    'identity',
    '*',
    'deflate',
    ',',
    ',',
    ', ',
    ';',
    ';q=',
    ';q=0',
    ';q=1',
    '; q=0.5',
    ';q=0.75',
    ';q=1.001',
    ' ',
    '.5',
    'q',
    '0',
  ];
  for (let round = 0; round < 20_000; round++) {
    const header = Array.from({ length: 1 + random(12) }, () => parts[random(parts.length)]!).join('');
    const offered = ALL.filter(() => random(3) > 0);
    assert.equal(
      negotiateEncoding(header, offered),
      reference(header, offered),
      JSON.stringify({ header, offered, round }),
    );
  }
});
