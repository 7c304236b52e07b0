/** Statements of public bug reports on servers, and right ones: the cases of corpus.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { openChinook } from '../../support/chinook.ts';
import { SERVERS } from '../../support/every-database.ts';
import { describerOn, judged, sourcesOf } from '../../support/statements.ts';
import { CORPUS_SCHEMA, WRONG_STATEMENTS, chinookProgram, programOf } from './corpus.ts';

for (const { dialect, name, address } of SERVERS) {
  test(`${name}: svc check finds the statements of public bug reports that the server refuses, and nothing in the queries of Chinook`, async (t) => {
    const url = await address(t, t);
    if (url === undefined) return;
    await using database = await openDatabase(url);
    await database.script(CORPUS_SCHEMA);
    await openChinook(database);
    const describer = await describerOn(database);
    let refused = 0;
    for (const { from, sql, ...texts } of WRONG_STATEMENTS) {
      const { at, mysql = at } = texts;
      const { [dialect]: own = dialect === 'postgres' ? at : mysql } = texts;
      const program = programOf(sql);
      const [finding, ...more] = await judged(sourcesOf(t, { 'app.ts': program }), describer);
      assert.deepEqual([finding?.rule, more], [own === null ? undefined : 'SVC411', []], from);
      if (finding === undefined || own === null) continue;
      refused++;
      const found = program.split('\n')[2]!.slice(finding.place!.column - 1);
      assert.ok(found.startsWith(own), `${from}: ${finding.message}: ${found}`);
    }
    assert.ok(refused >= 20, `${refused} statements`);
    const right = await judged(sourcesOf(t, { 'app.ts': chinookProgram() }), describer);
    assert.deepEqual(
      right.map(({ message, place }) => `${place?.line}: ${message}`),
      [],
    );
  });
}
