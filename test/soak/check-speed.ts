/**
 * CPU time of a check without the import, for 300 routes in 100 files, compared with the time in which the same
 * sources are only read and parsed.
 *
 *   node --conditions=svc-source test/soak/check-speed.ts
 *
 * The least of RUNS counts. SOAK_SECONDS has no effect.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, int, provide, str } from 'svc';
import { CORE_RULES } from '../../src/check/rules.ts';
import { examineSources } from '../../src/check/source/examine.ts';
import { readProject } from '../../src/check/source/modules.ts';
import { collectedLog } from '../support/collected-log.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { folder, type Scope } from '../support/run.ts';
import { scoped } from '../support/soak.ts';

const FILES = 100;
/** Maximum duration as a multiple of the time for reading; on a machine that reads in 50 ms, this is 400 ms. */
const LIMIT = 8;
const RUNS = 4;

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
  const readings: number[] = [];
  const checks: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const app = application();
    const readingMs = cpuMs();
    readProject([entry]);
    const startMs = cpuMs();
    readings.push(startMs - readingMs);
    assert.deepEqual(
      app.check().findings.filter(({ severity }) => severity === 'error'),
      [],
    );
    const { findings, project } = examineSources([entry], CORE_RULES);
    assert.equal(project.modules.length, FILES + 1);
    assert.deepEqual(findings, []);
    checks.push(cpuMs() - startMs);
  }
  const [readMs, checkMs] = [Math.min(...readings), Math.min(...checks)];
  console.log(`reading ${Math.round(readMs)} ms, check ${Math.round(checkMs)} ms`);
  assert.ok(checkMs < LIMIT * readMs, `more than ${LIMIT} times as long`);
}

await scoped(async (scope) => soak(scope));
console.log('ok');
