/**
 * What the compiler pays for a typed route: type instantiations per route of a generated application with 300 of them, each
 * with a spec object, beyond those of the same file without routes. Figures of one compiler version compare; times do not.
 *
 *   node --conditions=svc-source test/bench/types.ts        exits 1 above 600, or at 10 % above RECORDED
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, build } from '../support/build.ts';

const ROUTES = 300;
const MOST = 600;
/** Instantiations per route when this was last looked at, by TypeScript 7.0.2. */
const RECORDED = 566;

const HEAD = `import { BackgroundTasks, Depends, Field, Router, Schema, Svc, int, list, literal, nullable, provide, reply, str } from 'svc';
class Pool { readonly size = 1; query(sql: string): number { return sql.length; } }
function* connection(): Generator<Pool, void> { yield new Pool(); }
const paging = provide({ query: { page: Field(1, { ge: 1 }), size: Field(int, { default: 20, le: 100 }) } }, ({ query }) => ({ offset: query.page * query.size, limit: query.size }));
const repository = provide({ db: Depends(connection), page: Depends(paging) }, ({ db, page }) => ({ find: (id: number) => db.query(String(id)) + page.offset }));
const app = new Svc();
const router = new Router({ prefix: '/admin', deps: { me: Depends(async () => ({ sub: 'x', roles: ['a'] })) } });
app.includeRouter(router);
`;

/** The route of an index: five kinds in turn, names and schemas of its own. */
function routeOf(index: number): string {
  const schemas = `class Address${index} extends Schema { city = Field(str, { minLength: 1 }); zip = Field(str, { optional: true }); }
class User${index} extends Schema { name = Field(str, { minLength: 2 }); age = Field(int, { ge: 0 }); role = Field(literal('admin', 'user'), { default: 'user' }); tags = Field(list(str), { default: () => [] }); home = Field(Address${index}); }
`;
  const kinds = [
    `app.get('/r${index}/{id:int}', { response: User${index}, db: Depends(connection), summary: 'One' }, ({ params, db }) => ({ name: db.query(String(params.id)).toFixed(), age: 1, role: 'user', tags: [], home: { city: 'x' } }));`,
    `app.post('/r${index}', { body: User${index}, query: { dry: Field(false) }, repo: Depends(repository), tasks: Depends(BackgroundTasks), response: Address${index}, status: 201 }, async ({ body, query, repo, tasks }) => { tasks.add((n: number) => n, repo.find(body.age)); return { city: query.dry ? body.home.city : body.name }; });`,
    `app.get('/r${index}', { query: { q: Field(''), n: Field(int, { optional: true }) }, page: Depends(paging), headers: { userAgent: Field('') }, response: list(User${index}) }, async ({ query, page, headers }) => [{ name: query.q + headers.userAgent, age: page.limit, role: 'admin' as const, tags: [], home: { city: 'x' } }]);`,
    `router.delete('/r${index}/{id:uuid}/{n:float}', { response: { 200: Address${index}, 404: nullable(Address${index}) } }, ({ me, params }) => me.sub === params.id ? reply(null, 404) : { city: 'x' });`,
    `router.put('/r${index}/{id}', { body: list(Address${index}), cookies: { sid: Field(str) }, db: Depends(connection) }, ({ me, body, cookies, params }) => [me.sub, body[0]?.city, cookies.sid, params.id]);`,
  ];
  return schemas + kinds[index % kinds.length]!;
}

/** Instantiations that the compiler reports for this program. @throws Error when it does not compile */
function instantiations(folder: string, name: string, text: string): number {
  const options = {
    target: 'es2024',
    lib: ['es2024', 'esnext.disposable'],
    module: 'nodenext',
    types: ['node'],
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
  };
  writeFileSync(join(folder, `${name}.ts`), text);
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, files: [`${name}.ts`] }),
  );
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [compiler, '-p', '.', '--extendedDiagnostics'],
    { cwd: folder, encoding: 'utf8' },
  );
  const count = /^Instantiations:\s+(\d+)/m.exec(stdout);
  if (status !== 0 || count === null) throw new Error(stdout + stderr);
  return Number(count[1]);
}

build();
const folder = mkdtempSync(join(tmpdir(), 'svc-types-'));
try {
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
  mkdirSync(join(folder, 'node_modules'));
  for (const [name, target] of [
    ['svc', ROOT],
    ['@types', join(ROOT, 'node_modules/@types')],
  ] as const)
    symlinkSync(target, join(folder, 'node_modules', name), 'dir');
  const schemasAlone = Array.from({ length: ROUTES }, (_, index) =>
    routeOf(index).split('\n').slice(0, 2).join('\n'),
  ).join('\n');
  const none = instantiations(folder, 'none', HEAD);
  const schemas = instantiations(folder, 'schemas', `${HEAD}${schemasAlone}\n`);
  const all = instantiations(
    folder,
    'all',
    HEAD + Array.from({ length: ROUTES }, (_, index) => routeOf(index)).join('\n'),
  );
  const perRoute = (all - none) / ROUTES;
  console.log(
    `instantiations: ${none} without routes; ${ROUTES} routes: ${perRoute.toFixed(0)} each (${((schemas - none) / ROUTES).toFixed(0)} of them its two schemas); most ${MOST}, recorded ${RECORDED}`,
  );
  if (perRoute > MOST || perRoute >= RECORDED * 1.1) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
