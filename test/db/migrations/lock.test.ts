import assert from 'node:assert/strict';
import { test } from 'node:test';
import { remainsOf } from '../../../src/db/migrations/lock.ts';
import type { Dialect } from '../../../src/db/driver.ts';

const INDEX = /invalid index/;
const PROCEDURE = /procedure may have committed/;
const OBJECTS = /some of the objects/;

test('remainsOf() names what a failed statement may leave outside of a transaction, and nothing for a statement that is undone as a whole', () => {
  const cases: readonly (readonly [Dialect, string, RegExp | undefined])[] = [
    ['postgres', 'create index concurrently a on b (c)', INDEX],
    ['postgres', '/* x */ Create Unique Index -- y\n Concurrently if not exists a on b (c)', INDEX],
    ['postgres', 'drop index concurrently if exists a', INDEX],
    ['postgres', 'reindex (verbose, tablespace x) table concurrently b', INDEX],
    [
      'postgres',
      'alter table if exists only b detach partition s.p concurrently',
      /detach partition … finalize/,
    ],
    ['postgres', 'call fill()', PROCEDURE],
    ['postgres', 'do $$ begin commit; end $$', PROCEDURE],
    ['postgres', 'create index "concurrently" on b (c)', undefined],
    ['postgres', 'refresh materialized view concurrently b', undefined],
    ['postgres', "insert into b values ('create index concurrently')", undefined],
    ['postgres', 'vacuum b', undefined],
    ['sqlite', 'vacuum', undefined],
    ['sqlite', 'create table concurrently (id)', undefined],
  ];
  const mysql: readonly (readonly [string, RegExp | undefined])[] = [
    ['call fill()', PROCEDURE],
    ['begin not atomic insert into a values (1); end', PROCEDURE],
    ['drop table a, b', OBJECTS],
    ['drop database c', OBJECTS],
    ['drop table `a,b`', undefined],
    ['create table a (b int, c int)', undefined],
    ['do sleep(1)', undefined],
  ];
  for (const [dialect, text, expected] of [
    ...cases,
    ...mysql.flatMap(([text, expected]) =>
      (['mysql', 'mariadb'] as const).map((dialect) => [dialect, text, expected] as const),
    ),
  ]) {
    const remains = remainsOf(dialect, text);
    if (expected === undefined) assert.equal(remains, undefined, text);
    else assert.match(remains ?? '', expected, text);
  }
});
