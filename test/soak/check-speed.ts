/**
 * CPU time of a check without the import, for 300 routes in 100 files, compared with the time in which the same
 * sources are only read and parsed. Then CPU time and memory of the process of `svc check` that imports and
 * checks 300 routes in 1,201 files.
 *
 *   node --conditions=svc-source test/soak/check-speed.ts
 *
 * The speed of a machine changes within seconds, so the median of pairs counts. SOAK_SECONDS has no effect.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, int, provide, str } from 'svc';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { examineSources } from '../../src/check/examine.ts';
import { readProject } from '../../src/check/reader/modules.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { collectedLog } from '../support/collected-log.ts';
import { threadCpuMs } from '../support/cpu-time.ts';
import { folder, project, run, type Scope } from '../support/run.ts';
import { median, scoped } from '../support/soak.ts';

const FILES = 100;
/** Maximum duration as a multiple of the time for reading; on a machine that reads in 25 ms, this is 300 ms. */
const LIMIT = 12;
const PAIRS = 15;
/** The sources are read this often in a row, because the kernel counts CPU time in steps of 4 ms. */
const READINGS = 5;

/** Modules behind each of the FILES routers of the large application. */
const DEPTH = 11;
const RUNS = 4;
/** Maximum CPU time as a multiple of that of a process that only reads the sources; 10 s where this takes 1.1 s. */
const PROCESS_LIMIT = 9;
const MOST_MEMORY_MB = 300;

const fileOf = (index: number): string => `
import { Depends, Field, Router, Schema, NotFound, int, list, str } from 'svc';
import { db } from 'svc/db';
class Note${index} extends Schema { title = Field(str, { maxLength: 200 }); size = Field(int, { ge: 0 }); }
interface Row { readonly id: number; readonly title: string }
export const router${index} = new Router({ prefix: '/r${index}' });
async function find(database: { fetchOne(text: string, values: unknown[]): Promise<Row | undefined> }, id: number): Promise<Row> {
  const row = await database.fetchOne('select id, title from notes where id = ?', [id]);
  if (row === undefined) throw new NotFound('no such note');
  return row;
}
function shorten(text: string, max = 20): string { return text.length > max ? \`\${text.slice(0, max)}...\` : text; }
router${index}.get('/', { db: Depends(db), query: { q: Field('', { maxLength: 50 }) }, response: list(Note${index}) }, async ({ db, query }) => {
  const out = [];
  for (const row of await db.fetchAll('select title from notes where title like ?', [\`%\${query.q}%\`]))
    if (row.title !== '') out.push({ title: shorten(row.title), size: row.size });
  return out;
});
router${index}.get('/{id:int}', { db: Depends(db), response: Note${index} }, async ({ db, params }) => {
  const note = await find(db, params.id);
  return { title: note.title, size: note.title.length };
});
router${index}.post('/', { me: Depends(user), db: Depends(db), body: Note${index} }, async ({ db, body, me }) => {
  await db.transaction(async (tx) => {
    await tx.execute('insert into notes (title, owner) values (?, ?)', [body.title, me.sub]);
  });
  return body;
});
`;

class Note extends Schema {
  title = Field(str, { maxLength: 200 });
  size = Field(int, { ge: 0 });
}

function application(): Svc {
  const app = new Svc({ logger: collectedLog().logger, env: 'production' }).use(
    new SecurityHeadersMiddleware(),
  );
  const store = provide({}, () => new Map<number, Note>());
  for (let index = 0; index < FILES; index++) {
    const router = new Router({ prefix: `/r${index}` });
    router.get('/', { store: Depends(store), response: Note }, ({ store }) => store.get(1)!);
    router.get('/{id:int}', { store: Depends(store), response: Note }, ({ store, params }) =>
      store.get(params.id)!,
    );
    router.post('/', { public: 'a test', body: Note, response: Note }, ({ body }) => body);
    app.includeRouter(router);
  }
  return app;
}

function soak(scope: Scope): void {
  const files = Object.fromEntries(
    Array.from({ length: FILES }, (_, index) => [`r${index}.ts`, fileOf(index)]),
  );
  const imports = Object.keys(files).map((name) => `import './${name}';\n`);
  const entry = join(folder(scope, { ...files, 'app.ts': imports.join('') }), 'app.ts');
  const checks: number[] = [];
  const ratios: number[] = [];
  for (let run = 0; run < PAIRS; run++) {
    const app = application();
    const readingMs = threadCpuMs();
    for (let time = 0; time < READINGS; time++) readProject([entry]);
    const startMs = threadCpuMs();
    const readMs = (startMs - readingMs) / READINGS;
    assert.deepEqual(
      app.check().findings.filter(({ severity }) => severity === 'error'),
      [],
    );
    const { findings, project } = examineSources(readProject([entry]), CORE_RULES);
    assert.equal(project.modules.length, FILES + 1);
    assert.deepEqual(findings, []);
    const checkMs = threadCpuMs() - startMs;
    checks.push(checkMs);
    ratios.push(checkMs / readMs);
  }
  console.log(`check ${Math.round(Math.min(...checks))} ms, ${median(ratios).toFixed(1)} times reading`);
  assert.ok(median(ratios) < LIMIT, `more than ${LIMIT} times as long`);
}

/** Module of a chain: it calls the next one. */
const moduleOf = (index: number, depth: number): string => `
${depth + 1 < DEPTH ? `import { step as next } from './m${index}-${depth + 1}.ts';` : 'const next = (value: string): string => value;'}
interface Row { readonly id: number; readonly title: string }
const LIMIT = 20;
export class Store {
  readonly #rows = new Map<number, Row>();
  find(id: number): Row | undefined { return this.#rows.get(id); }
  async load(database: { fetchOne(text: string, values: unknown[]): Promise<unknown> }, id: number): Promise<Row> {
    const row = await database.fetchOne('select id, title from notes where id = ?', [id]);
    if (row === undefined) throw new Error('no such note');
    return row as Row;
  }
}
function shorten(text: string, max = LIMIT): string { return text.length > max ? \`\${text.slice(0, max)}...\` : text; }
export function step(value: string): string {
  const out: string[] = [];
  for (const part of value.split(' ').map((part) => part.trim()).filter((part) => part !== ''))
    if (part.length > 3) out.push(shorten(part)); else out.push(part.toUpperCase());
  return next(out.join(' '));
}
`;

const routerOf = (index: number): string => `
import { Depends, Field, NotFound, Router, Schema, int, list, provide, str } from 'svc';
import { Store, step } from './m${index}-0.ts';
class Note extends Schema { title = Field(str, { maxLength: 200 }); size = Field(int, { ge: 0 }); }
export const router = new Router({ prefix: '/r${index}' });
const store = provide({}, () => new Store());
router.get('/', { query: { q: Field('', { maxLength: 50 }) }, response: list(Note) }, ({ query }) =>
  query.q.split(',').map((word) => ({ title: step(word), size: word.length })));
router.get('/{id:int}', { store: Depends(store), response: Note }, ({ store, params }) => {
  const note = store.find(params.id);
  if (note === undefined) throw new NotFound('no such note');
  return { title: step(note.title), size: note.title.length };
});
router.post('/', { public: 'keeps nothing', body: Note, response: Note, description: 'Shortens.' }, ({ body }) =>
  ({ title: step(body.title), size: body.size }));
`;

/** Preloaded module that writes the resource usage of the child process to a file when its answer is sent. */
const METER = `
import { writeFileSync } from 'node:fs';
const { send } = process;
if (send !== undefined)
  process.send = function (message, ...rest) {
    if (message?.kind === 'checked') writeFileSync(process.env.METER_FILE, JSON.stringify(process.resourceUsage()));
    return send.call(this, message, ...rest);
  };
`;

/** Module that reads the sources of `app.ts`, and prints its resource usage. */
const READER = `
import { readProject } from ${JSON.stringify(pathToFileURL(join(ROOT, 'dist/check/reader/modules.js')).href)};
if (readProject(['app.ts']).modules.length !== 1201) throw new Error('not all files were read');
console.log(JSON.stringify(process.resourceUsage()));
`;

const cpuOf = ({ userCPUTime, systemCPUTime }: NodeJS.ResourceUsage): number =>
  (userCPUTime + systemCPUTime) / 1_000;

/** Runs `svc check` on 300 routes in 1,201 files. */
async function soakCommand(scope: Scope): Promise<void> {
  build();
  const indexes = Array.from({ length: FILES }, (_, index) => index);
  const cwd = project(scope, {
    'meter.mjs': METER,
    'reader.mjs': READER,
    ...Object.fromEntries(indexes.map((index) => [`r${index}.ts`, routerOf(index)])),
    ...Object.fromEntries(
      indexes.flatMap((index) =>
        Array.from({ length: DEPTH }, (_, depth) => [`m${index}-${depth}.ts`, moduleOf(index, depth)]),
      ),
    ),
    'app.ts': [
      "import { SecurityHeadersMiddleware, Svc } from 'svc';",
      ...indexes.map((index) => `import { router as r${index} } from './r${index}.ts';`),
      'export const app = new Svc();',
      'app.use(new SecurityHeadersMiddleware());',
      ...indexes.map((index) => `app.includeRouter(r${index});`),
    ].join('\n'),
  });
  const file = join(cwd, 'usage.json');
  const usages: { readonly ratio: number; readonly cpuMs: number; readonly memoryMb: number }[] = [];
  for (let time = 0; time < RUNS; time++) {
    const reader = await run(process.execPath, ['reader.mjs'], { cwd });
    assert.equal(reader.status, 0, reader.stderr);
    const readMs = cpuOf(JSON.parse(reader.stdout) as NodeJS.ResourceUsage);
    const args = ['--import', join(cwd, 'meter.mjs'), BIN, 'check', 'app.ts', '--skip', 'SVC404'];
    const { status, stdout, stderr } = await run(process.execPath, args, { cwd, env: { METER_FILE: file } });
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /^Checked 300 routes, 0 sockets, 300 tools, 1201 files,/m);
    const usage = JSON.parse(readFileSync(file, 'utf8')) as NodeJS.ResourceUsage;
    usages.push({ ratio: cpuOf(usage) / readMs, cpuMs: cpuOf(usage), memoryMb: usage.maxRSS / 1_024 });
  }
  const ratio = median(usages.map((each) => each.ratio));
  const cpuMs = Math.min(...usages.map((each) => each.cpuMs));
  const memoryMb = Math.min(...usages.map((each) => each.memoryMb));
  console.log(
    `1,201 files: ${Math.round(cpuMs)} ms, ${ratio.toFixed(1)} times reading, ${Math.round(memoryMb)} MB`,
  );
  assert.ok(ratio < PROCESS_LIMIT, `more than ${PROCESS_LIMIT} times as long`);
  assert.ok(memoryMb < MOST_MEMORY_MB, `more than ${MOST_MEMORY_MB} MB`);
}

await scoped(async (scope) => {
  soak(scope);
  await soakCommand(scope);
});
console.log('ok');
