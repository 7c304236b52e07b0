/**
 * Every figure that is aimed at, as one Markdown table: what must be, what was measured, whether it holds.
 *
 *   npm run build && node test/bench/table.ts [--only=router,jwt] [--rounds=2] [--results=FILE] [--harness=DIR]
 *
 * Topics of the harness (`../shared/bench` beside the repository, or `--harness`) compare with peers, which it installs into
 * PEERS_DIR; the scripts of this folder compare with bare node:http. What is measured is kept in the results file, `--only=`
 * several topics at a time, and the table shows whatever is there: `--only=` nothing measures nothing. A row that was not
 * measured, for want of a peer or of the part itself, has no figure.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const HERE = import.meta.dirname;
/** As candidate.mjs, which has no types, calls it. */
const US = 'svc';
const ROOT = resolve(HERE, '../..');
const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    rounds: { type: 'string' },
    results: { type: 'string', default: join(tmpdir(), 'svc-bench-results.json') },
    harness: { type: 'string', default: resolve(ROOT, '../shared/bench') },
  },
});

// ── what is measured ──

/** How a topic is run: by the harness, or by a script of this folder whose Markdown tables are read. */
interface Topic {
  readonly harness?: readonly string[];
  readonly script?: readonly string[];
}
const TOPICS: Readonly<Record<string, Topic>> = {
  'http-inject': { harness: ['http-inject', '--only=raw,fastify,svc'] },
  http: {
    harness: ['http', '--only=raw,fastify,hono,koa,svc', '--scenarios=json,text,param,post', '--pipeline=1'],
  },
  router: { harness: ['router', '--only=find-my-way,svc', '--sizes=200,5000'] },
  validate: { harness: ['validate'] },
  noeval: { harness: ['validate', '--noeval', '--only=zod 4 jitless,valibot,svc'] },
  jwt: { harness: ['jwt', '--only=fast-jwt (cache off),svc'] },
  cookies: { harness: ['cookie-cache', '--groups=cookie', '--only=cookie,svc'] },
  cache: { harness: ['cookie-cache', '--groups=cache', '--only=lru-cache,svc'] },
  metrics: { harness: ['cookie-cache', '--groups=metrics', '--only=prom-client,svc'] },
  multipart: { harness: ['multipart', '--only=busboy,svc'] },
  websocket: { harness: ['websocket', '--only=ws + bufferutil,svc', '--skipmask'] },
  sse: { harness: ['sse', '--only=raw: res.write(string),hono streamSSE,svc'] },
  static: { harness: ['static', '--only=sirv,svc'] },
  sqlite: { harness: ['sqlite', '--only=better-sqlite3,node:sqlite,svc'] },
  startup: { harness: ['startup', '--only=raw,fastify,svc', '--no-cache-run'] },
  bare: { script: ['http.ts'] },
  browser: { script: ['http.ts', '--only=json', '--headers=browser'] },
  dependencies: { script: ['--conditions=svc-source', 'dependencies.ts'] },
};

/** What one run left: the harness's record, or the text that a script printed. */
interface Saved {
  readonly topic: string;
  readonly node: string;
  readonly title?: string;
  readonly values?: Readonly<Record<string, Readonly<Record<string, number | null>>>>;
  readonly data?: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;
  readonly text?: string;
}

function measure(name: string, { harness, script }: Topic): Saved[] {
  const rounds = values.rounds === undefined ? [] : [`--rounds=${values.rounds}`];
  if (harness !== undefined) {
    if (!existsSync(join(values.harness, 'run.sh'))) return [];
    const file = join(tmpdir(), `svc-bench-${process.pid}-${name}.json`);
    const env = { ...process.env, NODE_BIN: process.execPath, CANDIDATE: join(HERE, 'candidate.mjs') };
    spawnSync('sh', [join(values.harness, 'run.sh'), ...harness, ...rounds, `--json=${file}`], {
      env,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    return existsSync(file)
      ? (JSON.parse(readFileSync(file, 'utf8')) as Omit<Saved, 'topic'>[]).map((saved) => ({
          ...saved,
          topic: name,
        }))
      : [];
  }
  const [first, ...others] = script!;
  const args = first!.startsWith('--')
    ? [first!, join(HERE, others[0]!), ...others.slice(1)]
    : [join(HERE, first!), ...others];
  const { stdout } = spawnSync(process.execPath, [...args, ...rounds], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  console.log(stdout);
  return [{ topic: name, node: process.version, text: stdout }];
}

// ── the rows ──

type Bound = readonly ['≤' | '≥', number];
interface Row {
  readonly item: string;
  readonly against: string;
  readonly bound: Bound;
  read(saved: readonly Saved[]): number | undefined;
}
const found = (saved: readonly Saved[], topic: string, title = ''): Saved | undefined =>
  saved.findLast((one) => one.topic === topic && (one.title ?? '').startsWith(title));

/** ns of ours, × those of `base` (its own, for another operation). */
function micro(
  item: string,
  topic: string,
  operation: string,
  base: string,
  bound: number,
  title = '',
  baseOperation: string = operation,
): Row {
  return {
    item,
    against: base === US ? `its ${baseOperation}` : base,
    bound: ['≤', bound],
    read(saved) {
      const run = found(saved, topic, title);
      const [ours, theirs] = [run?.values?.[US]?.[operation], run?.values?.[base]?.[baseOperation]];
      return typeof ours === 'number' && typeof theirs === 'number' ? ours / theirs : undefined;
    },
  };
}

/** How much more a server does with the same CPU than `base`: the best rounds of both. */
function faster(item: string, topic: string, step: string, base: string, bound: number): Row {
  return {
    item,
    against: base,
    bound: ['≥', bound],
    read(saved) {
      const data = found(saved, topic)?.data;
      const best = (who: string): number =>
        Math.min(...(data?.[who] ?? []).map((round) => cpuOf(step === '' ? round : round[step])));
      const ratio = best(base) / best(US);
      return Number.isFinite(ratio) ? ratio : undefined;
    },
  };
}
function cpuOf(step: unknown): number {
  const { cpuUs } = (step ?? {}) as { cpuUs?: number };
  return cpuUs ?? NaN;
}

/** A number out of the tables that a script prints: by the first cell of its row and the head of its column. */
function printed(
  item: string,
  topic: string,
  row: string,
  column: string,
  against: string,
  bound: number,
): Row {
  return {
    item,
    against,
    bound: ['≤', bound],
    read(saved) {
      let heads: string[] = [];
      for (const line of (found(saved, topic)?.text ?? '').split('\n')) {
        const cells = line
          .split(/[|│]/)
          .slice(1, -1)
          .map((cell) => cell.trim().replaceAll("'", ''));
        if (cells.includes(column)) heads = cells;
        const cell = cells[0] === row ? cells[heads.indexOf(column)] : undefined;
        const number = /\(([\d.]+) ×/.exec(cell ?? '')?.[1] ?? cell; // "114 ns (1.36 × ajv)"
        if (number !== undefined && number !== '') return Number(number);
      }
      return undefined;
    },
  };
}

/** A median of the start-up rounds, put together by `of`. */
function startUp(
  item: string,
  against: string,
  bound: number,
  of: (median: (who: string, what: string) => number) => number,
): Row {
  return {
    item,
    against,
    bound: ['≤', bound],
    read(saved) {
      const data = found(saved, 'startup')?.data;
      const result = of((who, what) => middle((data?.[who] ?? []).map((round) => Number(round[what]))));
      return Number.isNaN(result) ? undefined : result;
    },
  };
}
function middle(samples: readonly number[]): number {
  return samples.toSorted((left, right) => left - right)[samples.length >> 1] ?? NaN;
}

/** {@link micro} of several operations, each with its bound. */
function micros(
  item: string,
  topic: string,
  base: string,
  bounds: Readonly<Record<string, number>>,
  title = '',
): Row[] {
  return Object.entries(bounds).map(([operation, bound]) =>
    micro(`${item}: ${operation}`, topic, operation, base, bound, title),
  );
}

/** {@link faster} of several steps, each with its bound. */
function fasters(item: string, topic: string, base: string, bounds: Readonly<Record<string, number>>): Row[] {
  return Object.entries(bounds).map(([step, bound]) => faster(`${item}: ${step}`, topic, step, base, bound));
}

const ROUTER_BOUNDS = {
  static: 0.3,
  '1 param': 1,
  '3 params': 1,
  405: 0.7,
  '404 deep': 0.3,
  '404 root': 0.3,
  'build+first, µs': 0.3,
};
const CACHE_BOUNDS = {
  'get hit': 0.8,
  'set existing': 0.5,
  'get or set, 25% hits': 1,
  'set with eviction': 1.5,
};
const MULTIPART_BOUNDS = {
  '1 file, 50 MiB': 0.55,
  '200 fields': 0.6,
  '20 files of 1 KiB': 0.3,
  '1 file of CR LF only': 1,
};
const WEBSOCKET_BOUNDS = {
  '64 B, 1 in flight': 1,
  '64 B, 16 in flight': 5,
  '4 KiB, 4 in flight': 1.8,
  '1 MiB, 1 in flight': 0.9,
  'broadcast to 1000': 0.95,
};
const PLAIN = ['json', 'text', 'param', 'param x2 + query', '404'];
/** Of bare node:http, which needs less on Node 26. */
const PLAIN_BOUND = Number.parseInt(process.versions.node) >= 26 ? 1.03 : 0.95;
const ROWS: readonly Row[] = [
  ...PLAIN.flatMap((step) => [
    micro(`${step}, in process`, 'http-inject', step, 'raw', PLAIN_BOUND),
    micro(`${step}, in process`, 'http-inject', step, 'fastify', 0.92),
  ]),
  ...['json', 'text', 'param', 'param2', 'notFound', 'wrongMethod'].map((step) =>
    printed(`${step}, beside the same bytes by hand`, 'bare', step, 'ratio', 'bare', 1),
  ),
  ...['json', 'text', 'param'].flatMap((step) =>
    Object.entries({ raw: 1.05, fastify: 1.05, hono: 1.1, koa: 2 }).map(([who, bound]) =>
      faster(`${step}, sockets`, 'http', `${step}/1`, who, bound),
    ),
  ),
  micro('POST validated, in process', 'http-inject', 'post', 'raw', 1.05),
  micro('POST validated, in process', 'http-inject', 'post', 'fastify', 1),
  printed('POST validated, beside the same checks by hand', 'bare', 'validated', 'ratio', 'bare', 1.05),
  micro('POST invalid', 'http-inject', 'post invalid', US, 1.1, '', 'post'),
  micro('POST invalid', 'http-inject', 'post invalid', 'fastify', 0.6),
  micro('404', 'http-inject', '404', US, 1.1, '', 'json'),
  printed('401 early', 'bare', 'unauthorized', 'ratio', 'its 200', 1.1),
  printed('413 early', 'bare', 'tooLarge', 'ratio', 'its 201', 1.1),
  micro('5 async middlewares', 'http-inject', 'mw5', 'raw', 0.92),
  printed('reference stack', 'bare', 'stack', 'ratio', 'bare', 1.3),
  printed('13 request fields, none read', 'browser', 'json', 'ratio', 'bare', 0.85),
  ...Object.entries({ sync: 30, async: 80, generator: 200 }).map(([kind, bound]) =>
    printed(`dependency, ${kind}, ns`, 'dependencies', kind, 'ns each', '', bound),
  ),
  ...micros('router, 200 routes', 'router', 'find-my-way', ROUTER_BOUNDS, 'router, 200'),
  {
    item: 'router, 5,000 routes: 3 params',
    against: 'its 200',
    bound: ['≤', 1.5],
    read: (saved) => growth(saved, '3 params'),
  },
  {
    item: 'router, 5,000 routes: build, ms',
    against: '',
    bound: ['≤', 50],
    read: (saved) => thousandths(found(saved, 'router', 'router, 5000')?.values?.[US]?.['build+first, µs']),
  },
  micro('validation: 8 fields', 'validate', 'valid 8', 'ajv compiled', 1.5),
  micro('validation: nested', 'validate', 'nested + 5 lines', 'ajv compiled', 2.5),
  micro('validation: invalid', 'validate', 'invalid last', 'ajv compiled, allErrors', 0.5),
  micro('validation: invalid', 'validate', 'invalid last', 'zod 4', 0.2),
  ...(['valid 8', 'nested + 5 lines'] as const).flatMap((kind) => [
    micro(`validation, no eval: ${kind}`, 'noeval', kind, 'zod 4 jitless', 0.15),
    micro(`validation, no eval: ${kind}`, 'noeval', kind, 'valibot', 0.3),
  ]),
  ...micros('HS256', 'jwt', 'fast-jwt (cache off)', { sign: 0.75, verify: 0.8, 'verify forged': 0.35 }),
  ...micros('cookies', 'cookies', 'cookie', { 'parse 1': 1.1, 'parse 13': 1.1, serialize: 0.6 }),
  ...micros('cache', 'cache', 'lru-cache', CACHE_BOUNDS),
  ...micros('metrics', 'metrics', 'prom-client', { 'counter with 2 labels': 0.1, observe: 0.1 }),
  ...micros('multipart', 'multipart', 'busboy', MULTIPART_BOUNDS),
  ...fasters('WebSocket', 'websocket', 'ws + bufferutil', WEBSOCKET_BOUNDS),
  faster('server-sent events, 1,000 streams', 'sse', '', 'raw: res.write(string)', 0.95),
  faster('server-sent events, 1,000 streams', 'sse', '', 'hono streamSSE', 2),
  ...fasters('static', 'static', 'sirv', { '1 KiB': 3.3, '1 MiB': 1.1, 304: 0.9 }),
  ...micros('SQLite, sync part', 'sqlite', 'better-sqlite3', {
    'get by id': 1 / 0.75,
    'begin, 10 inserts, rollback': 1 / 1.3,
  }),
  startUp('start-up beyond raw, ms', 'raw', 15, (median) => median(US, 'first') - median('raw', 'first')),
  startUp(
    'start-up beyond raw',
    "fastify's",
    0.25,
    (median) =>
      (median(US, 'first') - median('raw', 'first')) / (median('fastify', 'first') - median('raw', 'first')),
  ),
  startUp('CPU of a start', 'raw', 1.2, (median) => median(US, 'cpuMs') / median('raw', 'cpuMs')),
  startUp('idle memory beyond raw, MiB', 'raw', 3, (median) => median(US, 'rss') - median('raw', 'rss')),
  { item: 'installed, MiB', against: '', bound: ['≤', 1.5], read: () => packed().unpackedSize / 1_048_576 },
  { item: 'installed, files', against: '', bound: ['≤', 150], read: () => packed().entryCount },
];

function growth(saved: readonly Saved[], operation: string): number | undefined {
  const [few, many] = ['router, 200', 'router, 5000'].map(
    (title) => found(saved, 'router', title)?.values?.[US]?.[operation],
  );
  return typeof few === 'number' && typeof many === 'number' ? many / few : undefined;
}
function thousandths(value: number | null | undefined): number | undefined {
  return typeof value === 'number' ? value / 1_000 : undefined;
}

interface Packed {
  readonly unpackedSize: number;
  readonly entryCount: number;
}
let weighed: Packed | undefined;
function packed(): Packed {
  const { stdout } =
    weighed === undefined
      ? spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT, encoding: 'utf8' })
      : { stdout: '' };
  return (weighed ??= Object.values(JSON.parse(stdout) as Record<string, Packed>)[0]!); // an array, or an object by name: npm 12
}

function print(saved: readonly Saved[]): void {
  console.log(
    `\n### Figures aimed at, ${process.version}\n\n| | against | must be | measured | |\n|---|---|---:|---:|---|`,
  );
  for (const {
    item,
    against,
    bound: [sign, limit],
    read,
  } of ROWS) {
    const value = read(saved);
    const shown =
      value === undefined ? '–' : value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
    const verdict =
      value === undefined
        ? 'not measured'
        : (sign === '≤' ? value <= limit : value >= limit)
          ? 'holds'
          : '**misses**';
    console.log(`| ${item} | ${against} | ${sign} ${Number(limit.toFixed(2))} | ${shown} | ${verdict} |`);
  }
}

const kept = existsSync(values.results) ? (JSON.parse(readFileSync(values.results, 'utf8')) as Saved[]) : [];
const names =
  values.only === undefined ? Object.keys(TOPICS) : values.only.split(',').filter((name) => name !== '');
for (const name of names) {
  const topic = TOPICS[name];
  if (topic === undefined) throw new Error(`There is no topic "${name}": ${Object.keys(TOPICS).join(', ')}`);
  const made = measure(name, topic);
  if (made.length === 0) continue;
  kept.splice(0, kept.length, ...kept.filter((saved) => saved.topic !== name), ...made);
  writeFileSync(values.results, JSON.stringify(kept));
}
print(kept);
