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
import { MemoryCache } from '../../src/cache.ts';
import { cached } from '../../src/cached.ts';
import { scratch } from '../support/scratch.ts';
import { seeded } from '../support/random.ts';
import type { TestContext } from 'node:test';

const { values } = parseArgs({ options: { rounds: { type: 'string' }, who: { type: 'string' }, folder: { type: 'string' } } });
const ENTRIES = 10_000;
const TTL_MS = 60_000;
/** The most, × lru-cache: PERFORMANCE.md §5. */
const BOUNDS: Readonly<Record<string, number>> = { 'get, all hits': 0.8, 'set existing': 0.5, 'get or set, 25 % hits': 1.0, 'set with eviction': 1.5 };

interface Cache {
  get(key: string): unknown;
  set(key: string, value: unknown): unknown;
}

/** Runs both in turn and prints the tables. Answers the exit status. */
function parent(): number {
  const folder = scratch({ skip: (why: string) => console.log(why) } as unknown as TestContext, 'lru-cache', { 'lru-cache': '~11.5.0' }); // it uses nothing else
  if (folder === undefined) return 1;
  const rounds = Number(values.rounds ?? 5);
  const samples: Record<'svc' | 'lru-cache', Record<string, number>[]> = { svc: [], 'lru-cache': [] };
  for (let round = 0; round < rounds; round++) for (const who of ['svc', 'lru-cache'] as const) samples[who].push(measure(who, folder));
  const median = (who: keyof typeof samples, what: string): number => samples[who].map((each) => each[what]!).sort((left, right) => left - right)[rounds >> 1]!;
  console.log(`### ns an operation, ${process.version}, medians of ${rounds} fresh processes each\n\n| | svc | lru-cache | × | bound |\n|---|---:|---:|---:|---:|`);
  let isSlow = false;
  for (const [what, bound] of Object.entries(BOUNDS)) {
    const [ours, theirs] = [median('svc', what), median('lru-cache', what)];
    isSlow ||= ours / theirs > bound;
    console.log(`| ${what} | ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${(ours / theirs).toFixed(2)} | ${bound} |`);
  }
  const own = Object.keys(samples.svc[0]!).filter((what) => !(what in BOUNDS));
  console.log(`\n| svc alone | ns |\n|---|---:|\n${own.map((what) => `| ${what} | ${median('svc', what).toFixed(0)} |`).join('\n')}`);
  return isSlow ? 1 : 0;
}

function measure(who: string, folder: string): Record<string, number> {
  const { stdout, stderr } = spawnSync(process.execPath, ['--conditions=svc-source', fileURLToPath(import.meta.url), `--who=${who}`, `--folder=${folder}`], { encoding: 'utf8' });
  const result = /RESULT (.*)/.exec(stdout);
  if (result === null) throw new Error(`${who}: ${stderr}`);
  return JSON.parse(result[1]!) as Record<string, number>;
}

const ROUNDS = 7;
const KEYS = Array.from({ length: 40_000 }, (_, index) => `key:${index * 7_919}`);
const random = seeded(1);
const ORDER = Int32Array.from({ length: 65_536 }, () => random(40_000));

/** One process: every case, the best of several rounds. */
async function child(who: string, folder: string): Promise<void> {
  const make = who === 'svc' ? ours : await theirs(folder);
  const [warm, mixed, full] = [make(), make(), make()];
  for (let index = 0; index < 5_000; index++) warm.set(KEYS[index]!, index);
  const results: Record<string, number> = {
    'get, all hits': await time(2_000_000, (index) => warm.get(KEYS[ORDER[index & 65_535]! % 5_000]!)),
    'set existing': await time(2_000_000, (index) => warm.set(KEYS[ORDER[index & 65_535]! % 5_000]!, index)),
    'get or set, 25 % hits': await time(1_000_000, (index) => {
      const key = KEYS[ORDER[index & 65_535]!]!;
      if (mixed.get(key) === undefined) mixed.set(key, index + 1);
    }),
    'set with eviction': await time(1_000_000, (index) => full.set(KEYS[index % 40_000]!, index)),
  };
  if (who === 'svc') Object.assign(results, await alone());
  console.log(`RESULT ${JSON.stringify(results)}`);
}

function ours(): Cache {
  const cache = new MemoryCache({ maxEntries: ENTRIES });
  return { get: (key) => cache.get(key), set: (key, value) => cache.set(key, value, TTL_MS) };
}

async function theirs(folder: string): Promise<() => Cache> {
  const { LRUCache } = await import(pathToFileURL(join(folder, 'node_modules/lru-cache/dist/esm/index.js')).href) as { LRUCache: new (options: object) => Cache };
  return () => {
    const cache = new LRUCache({ max: ENTRIES, ttl: TTL_MS });
    return { get: (key) => cache.get(key), set: (key, value) => cache.set(key, value) };
  };
}

async function alone(): Promise<Record<string, number>> {
  const user = { id: 7, name: 'Ada Lovelace', email: 'ada@example.com', tags: ['one', 'two'], active: true };
  const [copies, shared] = [new MemoryCache(), new MemoryCache({ shareReferences: true })];
  for (const cache of [copies, shared]) cache.set('user', user, TTL_MS);
  const square = cached((n: number) => n * n);
  const load = cached((_id: number) => user);
  for (let n = 1; n <= 100; n++) await Promise.all([square(n), load(n)]);
  return {
    'get an object of 5 members, copied': await time(300_000, () => copies.get('user')),
    'get an object of 5 members, shared': await time(2_000_000, () => shared.get('user')),
    'set an object of 5 members, copied': await time(300_000, () => copies.set('user', user, TTL_MS)),
    'hit of cached(), number': await time(1_000_000, (index) => square(1 + index % 100)),
    'hit of cached(), awaited': await time(1_000_000, async (index) => await square(1 + index % 100), true),
    'hit of cached(), object of 5 members': await time(300_000, (index) => load(1 + index % 100)),
  };
}

async function time(count: number, run: (index: number) => unknown, waits = false): Promise<number> {
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    await new Promise((resolve) => setImmediate(resolve)); // promises of the round before are gone
    const before = process.cpuUsage();
    if (waits) for (let index = 0; index < count; index++) await run(index);
    else for (let index = 0; index < count; index++) run(index);
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) * 1_000 / count);
  }
  return best;
}

if (values.who === undefined) process.exitCode = parent();
else await child(values.who, values.folder!); // the parent names both
