/**
 * test/types holds enough: that it compiles with the sources is a matter of `tsc`, that it does with the package of package.test.ts.
 * The types of a route stay cheap to compile.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ROOT } from './support/build.ts';
import { folder, run, type Ended } from './support/run.ts';
import { TYPE_ASSERTIONS } from './support/type-assertions.ts';

test('test/types contains at least 60 type assertions and at least 20 expected type errors', () => {
  const count = (pattern: RegExp): number =>
    Object.values(TYPE_ASSERTIONS).reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);
  assert.ok(count(/^\s*(?:is|same)<.*>\(.*\);|\{ is<.*>\(\); \}/gm) >= 60);
  assert.ok(count(/\/\/ @ts-expect-error \S/g) >= 20);
});

const SCHEMAS = (n: number): string =>
  `class Made${n} extends Schema { a${n} = Field(str); b = Field(int); }\nclass Missing${n} extends Schema { id${n} = Field(int); }\n`;
/** Routes of each kind, and the most type instantiations that one of them may cost. Measured: 58, 253 and 504. */
const ROUTES: Readonly<Record<string, readonly [most: number, route: (n: number) => string]>> = {
  'without a spec': [62, (n) => `app.get('/p${n}/{id:int}', ({ params }) => ({ id: params.id }));\n`],
  'with a body and a response': [
    270,
    (n) => `${SCHEMAS(n)}app.post('/q${n}', { body: Made${n}, response: Made${n} }, ({ body }) => body);\n`,
  ],
  'with a body and a response for each status': [
    535,
    (n) =>
      `${SCHEMAS(n)}app.post('/k${n}/{id:int}', { body: Made${n}, response: { 201: Made${n}, 404: Missing${n} } }, ({ body, params }) => params.id > 0 ? reply(body, 201) : reply({ id${n}: params.id }, 404));\n`,
  ],
};
const FLAGS =
  '--ignoreConfig --noEmit --extendedDiagnostics --strict --exactOptionalPropertyTypes --target es2023 --lib esnext --module nodenext --types node --allowImportingTsExtensions --skipLibCheck';

/** Compiles a program. */
function compiled(t: TestContext, program: string): Promise<Ended> {
  const cwd = folder(t, { 'app.ts': program });
  return run(
    process.execPath,
    [
      join(ROOT, 'node_modules/typescript/bin/tsc'),
      ...FLAGS.split(' '),
      '--typeRoots',
      join(ROOT, 'node_modules/@types'),
      'app.ts',
    ],
    { cwd, env: { NODE_V8_COVERAGE: '' } },
  );
}

/** Returns the number of type instantiations with which a program compiles. */
async function instantiations(t: TestContext, program: string): Promise<number> {
  const { status, stdout, stderr } = await compiled(
    t,
    `import { Field, Schema, Svc, int, reply, str } from ${JSON.stringify(join(ROOT, 'src/index.ts'))};\nconst app = new Svc();\n${program}`,
  );
  assert.equal(status, 0, stdout + stderr);
  return Number(/^Instantiations: +(\d+)$/m.exec(stdout)?.[1]);
}

for (const [kind, [most, route]] of Object.entries(ROUTES)) {
  test(`the TypeScript compiler creates at most ${most} type instantiations for each route ${kind}`, async (t) => {
    const [few, many] = [20, 70];
    const costs = [few, many].map((count) =>
      instantiations(t, Array.from({ length: count }, (_, n) => route(n)).join('')),
    );
    const [before, after] = (await Promise.all(costs)) as [number, number];
    const each = (after - before) / (many - few);
    assert.ok(each > 0 && each <= most, `${each} instantiations`);
  });
}

test('the error of the TypeScript compiler for a statement names the value that is wrong', async (t) => {
  const methods = ['execute', 'fetchOne', 'fetchAll', 'fetchSets', 'fetchArrays', 'scalar', 'stream'];
  const values = methods.flatMap((method) => [
    `export const ${method}1 = session.${method}('select ?', [undefined]);`,
    `export const ${method}2 = session.${method}('select ?', [undefined], { timeoutMs: 5 });`,
  ]);
  const { stdout } = await compiled(
    t,
    `import type { Session } from ${JSON.stringify(join(ROOT, 'src/db/index.ts'))};\ndeclare const session: Session;\n${values.join('\n')}\n`,
  );
  const found = stdout.match(/Type 'undefined' is not assignable to type 'Parameter'/g) ?? [];
  assert.equal(found.length, values.length, stdout);
  assert.doesNotMatch(stdout, /'Sql'/);
});
