/**
 * Statements of public bug reports, and right ones: each wrong one is found at its word, and right ones have no
 * finding.
 */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { CHINOOK_TABLES, openChinook } from '../../support/chinook.ts';
import { ROOT } from '../../support/build.ts';
import { folder } from '../../support/run.ts';
import { describerOf, describerOn, judged, linesOf, sourcesOf, textsOf } from '../../support/statements.ts';
import { CORPUS_SCHEMA, PROGRAM_HEAD, WRONG_STATEMENTS, chinookProgram, programOf } from './corpus.ts';

test('svc check finds the statements of public bug reports that SQLite refuses, each at its word', async (t) => {
  assert.ok(WRONG_STATEMENTS.length >= 20);
  const describer = await describerOf(t, CORPUS_SCHEMA);
  for (const { from, sql, at } of WRONG_STATEMENTS) {
    const program = programOf(sql);
    const [finding, ...more] = await judged(sourcesOf(t, { 'app.ts': program }), describer);
    assert.deepEqual([finding?.rule, finding?.place?.line, more], ['SVC411', 3, []], from);
    const found = program.split('\n')[2]!.slice(finding!.place!.column - 1);
    assert.ok(found.startsWith(at), `${from}: ${finding!.message}: ${found}`);
  }
});

/** Returns statements of usual forms for each table of Chinook. */
function usualStatements(): string[] {
  return Object.entries(CHINOOK_TABLES).flatMap(([table, columns]) => {
    const [key, second = key] = columns as [string, ...string[]];
    const list = columns.join(', ');
    const marks = columns.map(() => '?').join(', ');
    return [
      `select ${list} from ${table} where ${key} = ?`,
      `select t.${key}, upper(t.${second}) as name from ${table} as t order by t.${key} desc limit ? offset ?`,
      `select count(*) as number, max(${second}) from ${table} group by ${key} having count(*) > ?`,
      `insert into ${table} (${list}) values (${marks})`,
      `insert into ${table} (${list}) values (${marks}), (${marks}) on conflict do nothing returning ${key}`,
      `insert or replace into ${table} values (${marks})`,
      `update ${table} set ${second} = ? where ${key} in (?, ?)`,
      `update ${table} set ${second} = coalesce(?, ${second}) where ${key} = ? returning ${list}`,
      `delete from ${table} where ${key} = ? and ${second} is not null`,
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < 9) select i, ${second} from n left join ${table} on ${key} = i`,
      `select ${key}, row_number() over (partition by ${second} order by ${key}) as place from ${table}`,
      `select exists (select 1 from ${table} where ${second} like ? escape '!') as found`,
      `select case when ${second} is null then 'none' else cast(${second} as text) end as ${second} from ${table} union select 'x' order by 1`,
      `select distinct ${second} from ${table} t where not exists (select 1 from ${table} u where u.${key} < t.${key})`,
      `select json_group_array(json_object('key', ${key})) as keys from ${table}`,
      `select * from (select ${key} as k from ${table}) as inner_one where k between ? and ?`,
      `select (select ${second} from ${table} order by ${key} limit 1) as first, ${key} from ${table} indexed by missing`.replace(
        ' indexed by missing',
        '',
      ),
      `update ${table} set ${second} = other.${second} from ${table} as other where other.${key} = ${table}.${key} + 1`,
    ];
  });
}

test('svc check finds nothing in 200 right statements', async (t) => {
  const statements = usualStatements();
  assert.ok(statements.length >= 180);
  await using database = await openDatabase('sqlite::memory:');
  await openChinook(database);
  const describer = await describerOn(database);
  const calls = statements.map((text) => `  await db.fetchAll(${JSON.stringify(text)}, await values());`);
  const files = {
    'app.ts': `${PROGRAM_HEAD}app.get('/', used, async ({ db }) => {\n${calls.join('\n')}\n});\n`,
  };
  const sources = sourcesOf(t, files);
  assert.equal(textsOf(sources).length, statements.length);
  const found = await judged(sources, describer);
  assert.deepEqual(
    found.map(({ message, place }) => `${statements[place!.line - 3]}: ${message}`),
    [],
  );
});

test('svc check finds nothing in the 28 queries of Chinook', async (t) => {
  const sources = sourcesOf(t, { 'app.ts': chinookProgram() });
  await using database = await openDatabase('sqlite::memory:');
  await openChinook(database);
  assert.deepEqual(
    (await judged(sources, await describerOn(database))).map(
      ({ message, place }) => `${place?.line}: ${message}`,
    ),
    [],
  );
  assert.ok(textsOf(sources).length >= 30);
});

test('svc check finds nothing in the statements of a new project', async (t) => {
  const starter = folder(t);
  const template = join(ROOT, 'src/cli/starter/template');
  cpSync(template, starter, { recursive: true });
  const migrations = readdirSync(join(template, 'migrations')).filter((name) => name.endsWith('.up.sql'));
  const schema = migrations
    .map((name) => readFileSync(join(template, 'migrations', name), 'utf8'))
    .join('\n');
  const files = Object.fromEntries(
    readdirSync(join(template, 'src')).map((name) => [
      name,
      readFileSync(join(template, 'src', name), 'utf8'),
    ]),
  );
  const sources = sourcesOf(t, files);
  assert.ok(sources.statements.calls.length >= 4);
  assert.deepEqual(linesOf(await judged(sources, await describerOf(t, schema))), []);
});
