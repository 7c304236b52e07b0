/**
 * Values of expressions: what a text of a client may contain after operations, tests and calls. Each program marks the
 * lines of its findings: `// SVC606`, or `// note SVC606` if a function of a package may have cleaned the text.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { DeclaredInputs } from '../../../src/check/values/inputs.ts';
import { folder, project as projectOf } from '../../support/run.ts';
import { PROGRAMS } from './programs.ts';
import type { Svc } from 'svc';

for (const [name, files] of Object.entries(PROGRAMS)) {
  test(`svc check finds exactly the marked calls in a program: ${name}`, (t) => {
    const cwd = folder(t, files);
    const { findings, project } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
    assert.deepEqual(project.unread, []);
    const found = findings
      .filter(({ rule }) => /^SVC6(?:0[1-9]|10|3[46])$/.test(rule))
      .map(({ rule, severity, place }) => {
        const file = place!.file.slice(place!.file.lastIndexOf('/') + 1);
        return `${severity === 'info' ? 'note ' : ''}${rule} ${file}:${place!.line}`;
      });
    const marks = Object.entries(files).flatMap(([file, text]) =>
      text.split('\n').flatMap((line, index) => {
        const mark = /\/\/ ((?:note )?SVC\d+)$/.exec(line)?.[1];
        return mark === undefined ? [] : [`${mark} ${file}:${index + 1}`];
      }),
    );
    assert.deepEqual([...new Set(found)].sort(), marks.sort());
  });
}

test('svc check takes the types of inputs from the compiled routes of the loaded application', async (t) => {
  const cwd = projectOf(t, {
    'package.json': '{ "type": "module" }',
    'app.ts': `import { Field, Router, Svc, int, literal, str } from 'svc'; import type { Database } from 'svc/db';
export const app = new Svc();
const typed = (type: typeof int | typeof str) => ({ value: Field(type) });
const options = { query: { ...typed(int), sort: Field(literal('a', 'b')), text: Field(str, { description: 'int' }) } };
let run: Database;
app.get('/a', options, async ({ query }) => await run.execute('select * from a order by ' + query.sort + query.value));
app.get('/b', options, async ({ query }) => await run.execute('select * from a order by ' + query.text));
const router = new Router({ prefix: '/{shop:int}' });
router.get('/c', {}, async ({ params }) => await run.execute('select * from a where id = ' + params.shop));
app.includeRouter(router);
`,
  });
  const file = join(cwd, 'app.ts');
  const { app } = (await import(pathToFileURL(file).href)) as { readonly app: Svc };
  const { details } = app.inspect();
  const lines = (inputs?: DeclaredInputs): (number | undefined)[] =>
    examineSources(readProject([file]), CORE_RULES, inputs)
      .findings.filter(({ rule }) => rule === 'SVC601')
      .map(({ place }) => place?.line)
      .sort();
  assert.deepEqual(lines(), [6, 7, 9]);
  assert.deepEqual(lines(new DeclaredInputs(details)), [7]);
});

test('svc check takes the type of a path parameter in a dependency from the routes, if all of them declare the same', async (t) => {
  for (const [other, expected] of [
    ['/records/{id:uuid}/size', []],
    ['/files/{id}/size', [5]],
  ] as const) {
    const cwd = projectOf(t, {
      'package.json': '{ "type": "module" }',
      'app.ts': `import { readFile } from 'node:fs/promises'; import { join } from 'node:path';
import { Depends, Svc, provide } from 'svc';
export const app = new Svc();
const load = (id: string): Promise<string> =>
  readFile(join('/srv/records', id + '.txt'), 'utf8');
const record = provide({}, ({ req }) => load(String(req.pathParams['id'])));
app.get('/records/{id:uuid}', { record: Depends(record) }, ({ record }) => record);
app.get('${other}', { record: Depends(record) }, ({ record }) => String(record.length));
`,
    });
    const file = join(cwd, 'app.ts');
    const { app } = (await import(pathToFileURL(file).href)) as { readonly app: Svc };
    const { findings } = examineSources(
      readProject([file]),
      CORE_RULES,
      new DeclaredInputs(app.inspect().details),
    );
    assert.deepEqual(
      findings.filter(({ rule }) => rule === 'SVC606').map(({ place }) => place?.line),
      expected,
    );
  }
});

test('svc check lists calls that look dangerous, and finds nothing, if the type of the object is not known', (t) => {
  const cwd = folder(t, {
    'app.ts': `import { Depends, Svc } from 'svc';
import { db, type Database } from 'svc/db';
export const app = new Svc();
app.get('/a', { db: Depends(db) }, ({ db, query }) => db.fetchAll('select ' + query.a));
app.get('/b', {}, ({ query }) => other.fetchAll('select ' + query.b));
app.get('/c', {}, ({ query }) => own.query('select ' + query.c));
app.get('/d', {}, ({ query }) => find(app.state.db, query.d));
const own = { query: (text) => text };
function find(store: Database, text: string) { return store.fetchAll('select ' + text); }
app.get('/e', {}, ({ query }) => ({ unit: /^\\d+(ms|s)$/.exec(query.e)?.[1] }));
`,
  });
  const { findings, sources } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
  const lines = findings.filter(({ rule }) => rule === 'SVC601').map(({ place }) => place?.line);
  assert.deepEqual(lines.sort(), [4, 9]);
  assert.deepEqual(
    sources.unjudged.map(({ place, why }) => `${String(place.line)}: ${why}`),
    ['5: other.fetchAll() gets query.b of a client, but the type of its object is not known'],
  );
});
