/** Message and remedy of findings about the owner of a row (SVC640). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { folder } from '../../support/run.ts';

const TABLES = `create table person (id text primary key);
create table doc (id integer primary key, owner text not null references person, title text);
create table attachment (id text primary key, doc integer not null references doc, name text);`;

const LIST = `app.get('/docs', { me: Depends(me), db: Depends(db) }, ({ me, db }) =>
  db.fetchAll('select id, title from doc where owner = ?', [me.sub]));`;

const ROUTES: Readonly<Record<string, string>> = {
  read: `app.get('/docs/{id:int}', { me: Depends(me), db: Depends(db) }, ({ db, params }) =>
  db.fetchOne('select title from doc where id = ?', [params.id]));`,
  change: `app.patch('/docs/{id:int}', { doc: Depends(mine), db: Depends(db), status: 204 }, async ({ db, doc }) => {
  await db.execute('update doc set title = ? where id = ?', ['new', doc.id]);
});`,
  deletion: `app.delete('/docs/{id:int}', { doc: Depends(mine), db: Depends(db), status: 204 }, async ({ db, doc }) => {
  await db.execute('delete from doc where id = ?', [doc.id]);
});`,
  'row below a row': `app.get('/files/{id}', { me: Depends(me), db: Depends(db) }, ({ db, params }) =>
  db.fetchOne('select name from attachment where id = ?', [params.id]));`,
};

for (const [name, verb, remedy] of [
  ['read', 'reads any row of the table "doc"', 'where id = ? and owner = ?'],
  ['change', 'changes any row of the table "doc"', 'where id = ? and owner = ?'],
  ['deletion', 'deletes any row of the table "doc"', 'where id = ? and owner = ?'],
  ['row below a row', 'reads any row of the table "attachment"', 'where id = ? and doc = ?'],
] as const) {
  test(`for a ${name} without the owner, svc check says "${verb}" and names the column to compare (SVC640)`, (t) => {
    const cwd = folder(t, {
      'app.ts': `import { BearerAuth, Depends, NotFound, Svc, provide } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
const app = new Svc();
app.register(new DatabasePlugin('sqlite::memory:'));
app.onStartup(({ state }) => state.db.script(\`${TABLES}\`));
const me = BearerAuth();
const mine = provide({ me: Depends(me), db: Depends(db) }, async ({ db, req }) => {
  const doc = await db.fetchOne('select id, title from doc where id = ?', [Number(req.pathParams['id'])]);
  if (doc === undefined) throw new NotFound();
  return doc;
});
${LIST}
${ROUTES[name]}
`,
    });
    const { findings } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
    const [finding] = findings.filter(({ rule }) => rule === 'SVC640');
    assert.ok(finding !== undefined);
    assert.ok(finding.message.includes(`every authenticated client ${verb}`), finding.message);
    assert.ok(finding.remedy.includes(`too: ${remedy}. If`), finding.remedy);
  });
}
