/**
 * Ranges of versions as `engines` of package.json has them: `^24.18.1 || >=26.5`, `24.x`, `>=24 <27`, `22 - 24`, `~24.1`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

type Version = readonly [major: number, minor: number, patch: number];

/** What `engines.node` says of the package that a folder belongs to; undefined where nothing does. */
export function enginesOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'package.json');
    if (existsSync(file)) return readEngines(file);
    if (at === dirname(at)) return undefined;
  }
}

function readEngines(file: string): string | undefined {
  try {
    const { engines } = JSON.parse(readFileSync(file, 'utf8')) as { engines?: { node?: unknown } | null };
    return typeof engines?.node === 'string' ? engines.node : undefined;
  } catch {
    // it is npm's to say
    return undefined;
  }
}

/** Whether a version is in a range; undefined where the range cannot be read. What stands behind a hyphen or plus of the version does not count. */
export function satisfies(version: string, range: string): boolean | undefined {
  const own = versionOf(version.split(/[-+]/)[0]!);
  if (own === undefined) return undefined;
  const results = range.split('||').map((part) => isIn(own.from, part.trim()));
  return results.includes(true) ? true : results.includes(undefined) ? undefined : false;
}

/** All comparators of one alternative. */
function isIn(version: Version, part: string): boolean | undefined {
  const hyphen = /^(\S+)\s+-\s+(\S+)$/.exec(part);
  const comparators =
    hyphen === null
      ? part.replace(/(\^|~|[<>]=?|=)\s+/g, '$1').split(/\s+/)
      : [`>=${hyphen[1]!}`, `<=${hyphen[2]!}`];
  const results = comparators.map((comparator) => compares(version, comparator));
  return results.includes(undefined) ? undefined : results.every((result) => result === true);
}

function compares(version: Version, comparator: string): boolean | undefined {
  const [, operator = '', rest = ''] = /^(\^|~|[<>]=?|=)?v?(.*)$/.exec(comparator)!; // every part may be absent
  const wanted = versionOf(rest);
  if (wanted === undefined) return undefined;
  const { from, parts } = wanted;
  const below = nextOf(from, parts);
  switch (operator) {
    case '>=':
      return order(version, from) >= 0;
    case '>':
      return below === undefined
        ? false
        : order(version, parts === 3 ? from : below) > (parts === 3 ? 0 : -1);
    case '<':
      return order(version, from) < 0;
    case '<=':
      return below === undefined || order(version, below) < 0;
    case '~':
      return order(version, from) >= 0 && before(version, nextOf(from, Math.min(parts, 2)));
    case '^':
      return (
        order(version, from) >= 0 &&
        before(
          version,
          nextOf(from, parts === 0 ? 0 : from[0] > 0 || parts === 1 ? 1 : from[1] > 0 || parts === 2 ? 2 : 3),
        )
      );
    default:
      return order(version, from) >= 0 && before(version, below);
  }
}

function before(version: Version, limit: Version | undefined): boolean {
  return limit === undefined || order(version, limit) < 0;
}

/** The first version that is no longer described by so many parts. */
function nextOf([major, minor, patch]: Version, parts: number): Version | undefined {
  return parts === 0
    ? undefined
    : parts === 1
      ? [major + 1, 0, 0]
      : parts === 2
        ? [major, minor + 1, 0]
        : [major, minor, patch + 1];
}

function order(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** `24`, `24.x`, `24.1.0`, `*`; and how many of its parts are numbers. */
function versionOf(text: string): { readonly from: Version; readonly parts: number } | undefined {
  if (text === '' || text === '*' || /^x$/i.test(text)) return { from: [0, 0, 0], parts: 0 };
  const match = /^(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?$/.exec(text);
  if (match === null) return undefined;
  const numbers = match
    .slice(1)
    .map((part) => (part === undefined || !/^\d+$/.test(part) ? undefined : Number(part)));
  const parts = numbers[1] === undefined ? 1 : numbers[2] === undefined ? 2 : 3;
  return { from: [numbers[0]!, numbers[1] ?? 0, parts === 3 ? numbers[2]! : 0], parts };
}
