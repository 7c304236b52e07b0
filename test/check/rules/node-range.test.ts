/**
 * Version ranges of package.json: satisfies() is compared with the semver package of npm.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { enginesOf, satisfies } from '../../../src/check/rules/environment.ts';
import { folder } from '../../support/run.ts';
import { scratch } from '../../support/scratch.ts';

for (const [version, range, expected] of [
  ['24.21.0', '^24.18.1 || >=26.5.1', true],
  ['25.0.0', '^24.18.1 || >=26.5.1', false],
  ['24.18.0', '^24.18.1', false],
  ['24.21.0', '>=20', true],
  ['24.21.0', '>=20 <24', false],
  ['24.21.0', '24.x', true],
  ['24.21.0', '24', true],
  ['24.21.0', '22 - 24', true],
  ['24.21.0', '~24.20', false],
  ['24.21.0', '*', true],
  ['24.21.0', '', true],
  ['24.21.0', '>= 24.0.0', true],
  ['24.21.0', '>24', false],
  ['25.0.0', '>24', true],
  ['24.21.0', '<=24', true],
  ['24.21.0', '=24.21.0', true],
  ['v24.21.0-nightly', '24', undefined],
  ['24.21.0-rc.1', '24', true],
  ['24.21.0', 'lts/*', undefined],
  ['24.21.0', '24 || lts', true],
] as const) {
  test(`satisfies() returns ${expected} for the version ${version} and the range "${range}"`, () =>
    assert.equal(satisfies(version, range), expected));
}

test('satisfies() returns the same results as the npm package semver for random versions and ranges', (t) => {
  const place = scratch(t, 'semver', { semver: '^7.7.0' });
  if (place === undefined) return;
  const semver = createRequire(join(place, 'package.json'))('semver') as {
    satisfies(version: string, range: string): boolean;
  };
  let seed = 11;
  const random = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  const part = (): string => ['', String(random(4)), 'x'][random(3)]!;
  const version = (): string => {
    const [minor, patch] = [part(), part()];
    return `${random(4)}${minor === '' ? '' : `.${minor}${minor === 'x' || patch === '' ? '' : `.${patch}`}`}`;
  };
  const range = (): string =>
    random(8) === 0
      ? `${version()} - ${version()}`
      : Array.from(
          { length: 1 + random(2) },
          () => ['', '^', '~', '>=', '<=', '>', '<', '='][random(8)]! + version(),
        ).join(' ');
  for (let round = 0; round < 20_000; round++) {
    const [text, of] = [
      Array.from({ length: 1 + random(2) }, range).join(' || '),
      `${random(4)}.${random(4)}.${random(4)}`,
    ];
    assert.equal(satisfies(of, text), semver.satisfies(of, text), `${of} in ${text}`);
  }
});

test('enginesOf() reads the nearest package.json, and returns undefined if this file has no "engines"', (t) => {
  const place = folder(t, {
    'package.json': '{"engines":{"node":">=24"}}',
    'a/b/c.txt': '',
    'broken/package.json': '{',
    'odd/package.json': '{"engines":null}',
  });
  assert.deepEqual(
    [enginesOf(join(place, 'a/b')), enginesOf(join(place, 'broken')), enginesOf(join(place, 'odd'))],
    ['>=24', undefined, undefined],
  );
});
