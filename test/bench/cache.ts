/**
 * MemoryCache against lru-cache, 10,000 entries of 60 s: CPU ns an operation, medians of alternating fresh processes. Text
 * keys, numbers as values: what lru-cache hands out by reference and MemoryCache without a copy. Below the ratios: what a
 * copy of an object costs, and a hit of cached(), which have no counterpart.
 *
 *   node --conditions=svc-source test/bench/cache.ts [--rounds=5]      exits 1 when one is above its bound
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { MemoryCache } from '../../src/cache/cache.ts';
import { cached } from '../../src/cache/cached.ts';
import { scratch } from '../support/scratch.ts';
import { seeded } from '../support/random.ts';
import type { TestContext } from 'node:test';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    who: { type: 'string' },
    what: { type: 'string' },
    folder: { type: 'string' },
  },
});
const ENTRIES = 10_000;
const TTL_MS = 60_000;
const KEYS = Array.from({ length: 40_000 }, (_, index) => `key:${index * 7_919}`);
const random = seeded(1);
const ORDER = Int32Array.from({ length: 65_536 }, () => random(40_000));
const HALF: readonly string[] = Array.from(ORDER, (place) => KEYS[place % 5_000]!);
const ANY: readonly string[] = Array.from(ORDER, (place) => KEYS[place]!);

interface Cache {
  get(key: string): unknown;
  set(key: string, value: unknown, ttlMs?: number): unknown;
}

/** A case, and the most that it may take, × lru-cache: PERFORMANCE.md §5. The third argument of set() means nothing to lru-cache when it is undefined. */
interface Case {
  readonly bound: number;
  readonly prepare?: (cache: Cache, ttlMs: number | undefined) => void;
  readonly run: (cache: Cache, index: number, ttlMs: number | undefined) => unknown;
}

function fill(cache: Cache, ttlMs: number | undefined): void {
  for (let index = 0; index < 5_000; index++) cache.set(KEYS[index]!, index, ttlMs);
}

const CASES: Readonly<Record<string, Case>> = {
  'get, all hits': { bound: 0.8, prepare: fill, run: (cache, index) => cache.get(HALF[index & 65_535]!) },
  'set existing': {
    bound: 0.5,
    prepare: fill,
    run: (cache, index, ttlMs) => cache.set(HALF[index & 65_535]!, index, ttlMs),
  },
  'get or set, 25 % hits': {
    bound: 1.0,
    run(cache, index, ttlMs) {
      const key = ANY[index & 65_535]!;
      if (cache.get(key) === undefined) cache.set(key, index + 1, ttlMs);
    },
  },
  'set with eviction': {
    bound: 1.5,
    run: (cache, index, ttlMs) => cache.set(KEYS[index % 40_000]!, index, ttlMs),
  },
};

const USER = { id: 7, name: 'Ada Lovelace', email: 'ada@example.com', tags: ['one', 'two'], active: true };
const square = cached((n: number) => n * n);
const load = cached((_id: number) => USER);

/** What only we have. */
const OWN: Readonly<
  Record<string, { readonly count: number; readonly run: (cache: MemoryCache, index: number) => unknown }>
> = {
  'get an object of 5 members, copied': { count: 300_000, run: (cache) => cache.get('user') },
  'set an object of 5 members, copied': { count: 300_000, run: (cache) => cache.set('user', USER, TTL_MS) },
  'hit of cached(), number': { count: 500_000, run: (_cache, index) => square(1 + (index % 100)) },
  'hit of cached(), object of 5 members': { count: 300_000, run: (_cache, index) => load(1 + (index % 100)) },
};

/** Runs both in turn and prints the tables. Answers the exit status. */
function parent(): number {
  const folder = scratch({ skip: (why: string) => console.log(why) } as unknown as TestContext, 'lru-cache', {
    'lru-cache': '~11.5.0',
  }); // it uses nothing else
  if (folder === undefined) return 1;
  const rounds = Number(values.rounds ?? 5);
  const samples = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    for (const what of Object.keys(CASES))
      for (const who of ['svc', 'lru-cache']) keep(samples, `${who} ${what}`, measure(who, what, folder));
    for (const what of Object.keys(OWN)) keep(samples, `svc ${what}`, measure('svc', what, folder));
  }
  const median = (name: string): number =>
    samples.get(name)!.toSorted((left, right) => left - right)[rounds >> 1]!;
  console.log(
    `### ns an operation, ${process.version}, medians of ${rounds} fresh processes each\n\n| | svc | lru-cache | × | bound |\n|---|---:|---:|---:|---:|`,
  );
  let isSlow = false;
  for (const [what, { bound }] of Object.entries(CASES)) {
    const [ours, theirs] = [median(`svc ${what}`), median(`lru-cache ${what}`)];
    isSlow ||= ours / theirs > bound;
    console.log(
      `| ${what} | ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${(ours / theirs).toFixed(2)} | ${bound} |`,
    );
  }
  console.log(
    `\n| svc alone | ns |\n|---|---:|\n${Object.keys(OWN)
      .map((what) => `| ${what} | ${median(`svc ${what}`).toFixed(0)} |`)
      .join('\n')}`,
  );
  return isSlow ? 1 : 0;
}

function keep(samples: Map<string, number[]>, name: string, ns: number): void {
  samples.set(name, [...(samples.get(name) ?? []), ns]);
}

function measure(who: string, what: string, folder: string): number {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--conditions=svc-source',
      fileURLToPath(import.meta.url),
      `--who=${who}`,
      `--what=${what}`,
      `--folder=${folder}`,
    ],
    { encoding: 'utf8' },
  );
  const result = /RESULT ([\d.]+)/.exec(stdout);
  if (result === null) throw new Error(`${who}: ${stderr}`);
  return Number(result[1]);
}

const ROUNDS = 7;

/** One case in a process of its own, so that each runs as if it were alone: the best of several rounds. */
async function child(who: string, what: string, folder: string): Promise<void> {
  const comparison = CASES[what];
  if (comparison === undefined) return console.log(`RESULT ${await ofOwn(what)}`);
  const { prepare, run } = comparison;
  const cache = who === 'svc' ? new MemoryCache({ maxEntries: ENTRIES }) : await theirs(folder);
  const ttlMs = who === 'svc' ? TTL_MS : undefined;
  prepare?.(cache, ttlMs);
  console.log(
    `RESULT ${await best(1_000_000, (count) => {
      for (let index = 0; index < count; index++) run(cache, index, ttlMs);
    })}`,
  );
}

async function theirs(folder: string): Promise<Cache> {
  const { LRUCache } = (await import(
    pathToFileURL(join(folder, 'node_modules/lru-cache/dist/esm/index.js')).href
  )) as { LRUCache: new (options: object) => Cache };
  return new LRUCache({ max: ENTRIES, ttl: TTL_MS });
}

async function ofOwn(what: string): Promise<number> {
  const { count, run } = OWN[what]!; // the parent names one of them
  const cache = new MemoryCache();
  cache.set('user', USER, TTL_MS);
  for (let n = 1; n <= 100; n++) await Promise.all([square(n), load(n)]);
  return best(count, (times) => {
    for (let index = 0; index < times; index++) run(cache, index);
  });
}

async function best(count: number, work: (count: number) => void): Promise<number> {
  let leastNs = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    await new Promise((resolve) => setImmediate(resolve)); // promises of the round before are gone
    const before = process.cpuUsage();
    work(count);
    const { user, system } = process.cpuUsage(before);
    leastNs = Math.min(leastNs, ((user + system) * 1_000) / count);
  }
  return leastNs;
}

if (values.who === undefined) process.exitCode = parent();
else await child(values.who, values.what!, values.folder!); // the parent names all three
