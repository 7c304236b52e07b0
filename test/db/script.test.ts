import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ScriptIssue, splitScript } from '../../src/db/script.ts';
import { seeded } from '../support/random.ts';
import type { Dialect } from '../../src/db/driver.ts';

const texts = (script: string, dialect: Dialect = 'sqlite'): string[] =>
  splitScript(script, dialect).statements.map(({ text }) => text);

for (const [what, dialect, script, expected] of [
  ['an empty script', 'sqlite', '', []],
  ['only comments and semicolons', 'sqlite', ' ;; -- a;\n/* b; */ ;\n', []],
  ['one statement without a semicolon', 'sqlite', '\n select 1\n', ['select 1']],
  ['two statements in a line', 'sqlite', 'select 1;select 2;', ['select 1', 'select 2']],
  [
    'semicolons in text',
    'sqlite',
    "insert into t values ('a;''b;'); select 1",
    ["insert into t values ('a;''b;')", 'select 1'],
  ],
  [
    'semicolons in quoted names',
    'sqlite',
    'select "a;""b", `c;``d`, [e;]; select 2',
    ['select "a;""b", `c;``d`, [e;]', 'select 2'],
  ],
  [
    'semicolons in comments within a statement',
    'sqlite',
    'select 1 -- a;\n, 2 /* b; */ , 3; select 4',
    ['select 1 -- a;\n, 2 /* b; */ , 3', 'select 4'],
  ],
  [
    'quotes in comments',
    'sqlite',
    "select 1; -- it's\nselect 2 /* don't */; select 3",
    ['select 1', 'select 2', 'select 3'],
  ],
  ['comments in text', 'sqlite', "select '--', '/*'; select 2", ["select '--', '/*'", 'select 2']],
  ['a comment that does not nest', 'sqlite', '/* /* */ select 1; select 2', ['select 1', 'select 2']],
  [
    'a trigger',
    'sqlite',
    'create trigger t after insert on a begin update b set x = 1; delete from c; end; select 1',
    ['create trigger t after insert on a begin update b set x = 1; delete from c; end', 'select 1'],
  ],
  [
    'a temporary trigger with case, and a column called end',
    'sqlite',
    'CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN\nUPDATE b SET x = CASE WHEN new.end THEN 1 ELSE 2 END;\nEND;\nselect 1',
    [
      'CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN\nUPDATE b SET x = CASE WHEN new.end THEN 1 ELSE 2 END;\nEND',
      'select 1',
    ],
  ],
  [
    'a trigger with comments before its end',
    'sqlite',
    'create temporary trigger t after insert on a begin select 1; /* ; */ -- ;\n end -- ;\n; select 2',
    ['create temporary trigger t after insert on a begin select 1; /* ; */ -- ;\n end', 'select 2'],
  ],
  [
    'a table called trigger',
    'sqlite',
    'create table trigger (a); select 1',
    ['create table trigger (a)', 'select 1'],
  ],
  [
    'a trigger at the end of the script',
    'sqlite',
    'create trigger t after insert on a begin select 1; end',
    ['create trigger t after insert on a begin select 1; end'],
  ],
  ['backslashes, which are not escapes', 'sqlite', "select 'a\\'; select 2", ["select 'a\\'", 'select 2']],
  [
    'dollar quotes',
    'postgres',
    'do $$ begin; end $$; do $x_1$ $$; $y$; $x_1$; select $1',
    ['do $$ begin; end $$', 'do $x_1$ $$; $y$; $x_1$', 'select $1'],
  ],
  [
    'comments that nest',
    'postgres',
    '/* /* ; */ ; */ select 1; select 2 /* a /* b */ */',
    ['select 1', 'select 2'],
  ],
  [
    'escaped text',
    'postgres',
    "select E'\\';', e'\\\\'; select 'a\\'; select name'x'",
    ["select E'\\';', e'\\\\'", "select 'a\\'", "select name'x'"],
  ],
  [
    'a function with a BEGIN ATOMIC body',
    'postgres',
    'create function f() returns int begin atomic select 1; select case when true then 1 end; end; select 2',
    [
      'create function f() returns int begin atomic select 1; select case when true then 1 end; end',
      'select 2',
    ],
  ],
  [
    'a rule of several statements',
    'postgres',
    'create rule r as on insert to t do also (delete from a; delete from b where (c)); select 1',
    ['create rule r as on insert to t do also (delete from a; delete from b where (c))', 'select 1'],
  ],
  [
    'unbalanced parentheses in text and in an earlier statement',
    'postgres',
    "select '('; select 1); select 2",
    ["select '('", 'select 1)', 'select 2'],
  ],
  ['brackets, which are arrays', 'postgres', "select a[1]; select ']'", ['select a[1]', "select ']'"]],
  [
    'backslash escapes in both kinds of quotes',
    'mysql',
    'select \'a\\\';b\', "c\\";d", `e\\`; select 2',
    ['select \'a\\\';b\', "c\\";d", `e\\`', 'select 2'],
  ],
  ['comments with #', 'mariadb', '# a;\nselect 1; select 2 # b;', ['select 1', 'select 2']],
  [
    'two minus signs without a space after them, which are not a comment',
    'mysql',
    'update t set a = a--1;\nselect 2 --\tb;\n; select 3--',
    ['update t set a = a--1', 'select 2', 'select 3'],
  ],
  [
    'a line that begins with two minus signs and no space, which the mysql client skips',
    'mariadb',
    '--svc\nselect 1;\n--;\nselect 2',
    ['select 1', 'select 2'],
  ],
  [
    'executable comments with a version, as mysqldump writes them',
    'mysql',
    "/*!40101 SET NAMES utf8 */;\ncreate table t (a int) /*!50100 PARTITION BY HASH (a) */; /* a; */ /*!50001 CREATE VIEW v AS select ';' */; select 1 /* b */",
    [
      '/*!40101 SET NAMES utf8 */',
      'create table t (a int) /*!50100 PARTITION BY HASH (a) */',
      "/*!50001 CREATE VIEW v AS select ';' */",
      'select 1',
    ],
  ],
  [
    'a comment that only MariaDB executes',
    'mariadb',
    '/*M!100100 set @a = 1 */; select 1',
    ['/*M!100100 set @a = 1 */', 'select 1'],
  ],
  [
    'a comment that only MariaDB executes',
    'mysql',
    "/*M!100100 it's; */ select 1; select 2",
    ['select 1', 'select 2'],
  ],
  [
    'an asterisk right after an executable comment',
    'mysql',
    'select /*!50000 3 */*2; select 2',
    ['select /*!50000 3 */*2', 'select 2'],
  ],
  [
    'nested CASE expressions that end together',
    'mysql',
    'create procedure p() begin select case when 1 then case when 1 then 2 end end; end; select 2',
    ['create procedure p() begin select case when 1 then case when 1 then 2 end end; end', 'select 2'],
  ],
  [
    'nested CASE expressions that end together',
    'postgres',
    'create function f() returns int begin atomic select case when a then case when b then 1 end end; end; select 2',
    [
      'create function f() returns int begin atomic select case when a then case when b then 1 end end; end',
      'select 2',
    ],
  ],
  [
    'columns called begin',
    'mysql',
    'create table event (begin int); create or replace view v as select begin from event; create index begin on event (begin); select 2',
    [
      'create table event (begin int)',
      'create or replace view v as select begin from event',
      'create index begin on event (begin)',
      'select 2',
    ],
  ],
  [
    'bodies after a DEFINER clause',
    'mariadb',
    'create definer=view@localhost event e on schedule every 1 day do begin select 1; end; create or replace aggregate function f() returns int begin return 1; end; select 2',
    [
      'create definer=view@localhost event e on schedule every 1 day do begin select 1; end',
      'create or replace aggregate function f() returns int begin return 1; end',
      'select 2',
    ],
  ],
  ['comments that only MySQL executes', 'sqlite', '/*! a; */ select 1', ['select 1']],
  [
    'a procedure with blocks',
    'mysql',
    'create procedure p() begin if 1 then select 1; end if; case 1 when 1 then select 2; end case; while 0 do begin select 3; end; end while; select t.begin; end; select 4',
    [
      'create procedure p() begin if 1 then select 1; end if; case 1 when 1 then select 2; end case; while 0 do begin select 3; end; end while; select t.begin; end',
      'select 4',
    ],
  ],
] as const satisfies readonly (readonly [string, Dialect, string, readonly string[]])[]) {
  test(`splitScript() for ${dialect} splits a script into its statements: ${what}`, () =>
    assert.deepEqual(texts(script, dialect), expected));
}

for (const body of [
  'create trigger t before insert on a for each row if new.b is null then if new.c then set new.b = 1; elseif 1 then set new.b = 2; else if 1 then set new.b = 3; end if; end if; end if',
  'create trigger t before insert on a for each row follows `u` case new.b when 1 then if new.c then set new.c = 2; end if; else set new.c = 3; end case',
  'create trigger t before insert on a for each row set new.b = case when new.c then if(1, 2, 3) else if (2, 3, 4) end, new.c = if(new.b, 1, 2)',
  'create function f(a int) returns int if a then return 1; else return 2; end if',
  "create function f(a int) returns varchar(10) charset utf8mb4 comment 'a;' no sql case a when 1 then return 'b'; else return 'c'; end case",
  'create function f(a int) returns int deterministic return if(a, 1, 2)',
  'create procedure if not exists p(a int unsigned) l: loop leave l; end loop l',
  'create procedure p(a int) begin do if(a, 1, 2); do repeat(a, 2); if a then do if(a, 1, 2); end if; while a do do if(a, 1, 2); if a then set a = 0; end if; end while; end',
  'create procedure p(a int) modifies sql data while a do if a then set a = a - 1; end if; end while',
  "create procedure p(a int) repeat set a = length(repeat('b', a)); repeat set a = 1; until 1 end repeat; until a end repeat",
  "create procedure p(a int) select case a when 1 then if(a, 1, 2) end, repeat ('b', 3) from t where (a) for update",
  'create procedure p() begin declare continue handler for not found if 1 then set @a = 1; end if; repeat set @a = 1; until 1 end repeat; end',
  'create procedure p() begin for i in 1..3 do insert into t values (i); end for; end',
  'create procedure p() for r in (select a from t) do insert into u values (r.a); end for',
  'create procedure p() as begin for i in 1..3 loop while 1 loop select i; end loop; end loop; end',
  'create event e on schedule every 1 day do if 1 then delete from a; else delete from b; end if',
  'alter event e do begin delete from a; delete from b; end',
]) {
  test(`splitScript() for mariadb finds the end of the statement: ${body}`, () =>
    assert.deepEqual(texts(`select 1;\n${body};\nselect 2`, 'mariadb'), ['select 1', body, 'select 2']));
}

test('for each statement, splitScript() returns its line and its first words', () => {
  const { statements } = splitScript(
    '-- one\n\ncreate\n  TABLE "x" t (a);\n\n  select 1; insert\ninto t values (1)',
    'sqlite',
  );
  assert.deepEqual(
    statements.map(({ line, words }) => [line, words]),
    [
      [3, ['create', 'table', 't', 'a']],
      [6, ['select']],
      [6, ['insert', 'into', 't', 'values']],
    ],
  );
});

for (const [script, dialect, line, message] of [
  ["select 1;\nselect 'a;\n", 'sqlite', 2, /the quote ' has no end/],
  ['"', 'sqlite', 1, /the quote " has no end/],
  ['[a', 'sqlite', 1, /the quote \[ has no end/],
  ['`a``', 'mysql', 1, /the quote ` has no end/],
  ['\n/* a', 'sqlite', 2, /a comment \/\* has no end/],
  ['/* /* */', 'postgres', 1, /a comment/],
  ['do $a$ $b$', 'postgres', 1, /the quote \$a\$ has no end/],
  ["select E'\\'", 'postgres', 1, /the quote '/],
] as const) {
  test(`splitScript() for ${dialect} refuses the script ${JSON.stringify(script)}`, () => {
    assert.throws(
      () => splitScript(script, dialect).statements,
      (error) => error instanceof ScriptIssue && error.line === line && message.test(error.message),
    );
  });
}

test('splitScript() finds all statements of random scripts, whatever comments and spaces separate the statements', () => {
  const random = seeded(3);
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  for (let round = 0; round < 500; round++) {
    const expected = Array.from(
      { length: 1 + random(4) },
      () =>
        `select ${Array.from({ length: 1 + random(4) }, () => pick(["';'", '";"', '`;`', '[;]', "''''", '1', 'end', '-- ;\n', '/* ; */ 1', "'--'", "'/*'"])).join(', ')}, 1`,
    );
    const script =
      pick(['', '-- a;b\n', '/*;*/ ']) +
      expected
        .map((text) => `${text}${pick(['', ' ', '\n', ' /* ; */'])};${pick(['', ' ', '\n', ' -- ;\n', ';'])}`)
        .join('');
    assert.deepEqual(texts(script), expected);
  }
});
