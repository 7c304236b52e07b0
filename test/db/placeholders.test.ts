import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../src/base/errors.ts';
import { checkedStatement, scanned } from '../../src/db/placeholders.ts';
import { plainCount, plainTranslation } from '../support/placeholders-reference.ts';
import { seeded } from '../support/random.ts';

for (const [what, source, text, placeholders] of [
  ['no placeholder', 'select 1', 'select 1', 0],
  ['one placeholder', 'select ?', 'select $1', 1],
  ['several placeholders', 'insert into t values (?,?, ?)', 'insert into t values ($1,$2, $3)', 3],
  ['a placeholder at either end', '?+?', '$1+$2', 2],
  ['a cast', 'select ?::int', 'select $1::int', 1],
  ['eleven placeholders', `select ${'?,'.repeat(10)}?`, 'select $1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11', 11],
  ['a question mark in text', "select '?', ?", "select '?', $1", 1],
  ['text with a doubled quote', "select 'it''s ?', ?", "select 'it''s ?', $1", 1],
  ['text that ends with a backslash, which is not an escape', "select '\\', ?", "select '\\', $1", 1],
  ['text with escapes', "select E'\\'?', ?", "select E'\\'?', $1", 1],
  ['text with escapes after a lower-case e', "select e'\\\\', ?", "select e'\\\\', $1", 1],
  ['text with escapes and doubled quotes', "select E'a''\\'?''', ?", "select E'a''\\'?''', $1", 1],
  [
    'text with escapes that continues on the next line',
    "select E'a'\n  '\\'?', ?",
    "select E'a'\n  '\\'?', $1",
    1,
  ],
  [
    'a comment of many dashes after text with escapes',
    `select E'a' ${'-'.repeat(5_000)} ?\n, ?`,
    `select E'a' ${'-'.repeat(5_000)} ?\n, $1`,
    1,
  ],
  [
    'text with escapes that continues after a comment',
    "select E'a' -- '\n'\\'?', ?",
    "select E'a' -- '\n'\\'?', $1",
    1,
  ],
  [
    'text with escapes, followed by a text without escapes on the same line',
    "select E'a' '\\', ?",
    "select E'a' '\\', $1",
    1,
  ],
  ['text after a name that ends with e', "select name'\\', ?", "select name'\\', $1", 1],
  ['text after the letter e and a space', "select e '\\', ?", "select e '\\', $1", 1],
  ['text with Unicode escapes', "select U&'\\?', ?", "select U&'\\?', $1", 1],
  ['bit strings', "select B'1', x'?', ?", "select B'1', x'?', $1", 1],
  ['a quoted name', 'select "?" from "a""?" where b = ?', 'select "?" from "a""?" where b = $1', 1],
  ['a comment', 'select 1 -- ?\n, ?', 'select 1 -- ?\n, $1', 1],
  ['a comment that a carriage return ends', 'select 1 -- ?\r, ?', 'select 1 -- ?\r, $1', 1],
  ['a comment at the end', 'select ? -- ?', 'select $1 -- ?', 1],
  ['a minus sign before a placeholder', 'select 1 -?', 'select 1 -$1', 1],
  ['two minus signs, which are a comment', 'select 1 --?', 'select 1 --?', 0],
  ['a block comment', 'select /* ? */ ?', 'select /* ? */ $1', 1],
  ['a block comment in a block comment', 'select /* /* ? */ ? */ ?', 'select /* /* ? */ ? */ $1', 1],
  ['a block comment with a quote', "select /* ' */ ?, '*/ ?'", "select /* ' */ $1, '*/ ?'", 1],
  ['a block comment that looks open', 'select /*/ ? */ ?', 'select /*/ ? */ $1', 1],
  ['an operator beside a block comment', 'select 1 +/**/ ?', 'select 1 +/**/ $1', 1],
  [
    'an executable comment of MySQL, which is a comment in PostgreSQL',
    'select /*! ? */ ?',
    'select /*! ? */ $1',
    1,
  ],
  ['dollar quotes', 'select $$ ? $$, ?', 'select $$ ? $$, $1', 1],
  ['dollar quotes with a tag', 'select $a$ ? $b$ ? $$ ? $a$, ?', 'select $a$ ? $b$ ? $$ ? $a$, $1', 1],
  [
    'a tag with digits and letters of all kinds',
    'select $größe_1$ ? $größe_1$, ?',
    'select $größe_1$ ? $größe_1$, $1',
    1,
  ],
  ['dollar signs in a name', 'select a$b$c, ?, d$b$', 'select a$b$c, $1, d$b$', 1],
  ['a dollar sign alone', 'select $, ?', 'select $, $1', 1],
  [
    'a function with a body',
    "create function f() returns int as $$ begin return '?'; end $$ language plpgsql",
    "create function f() returns int as $$ begin return '?'; end $$ language plpgsql",
    0,
  ],
  ['the operator ?', 'select a ?? ?', 'select a ? $1', 1],
  ['the operators ?| and ?&', "select a ??| ?, b ??& array['?']", "select a ?| $1, b ?& array['?']", 1],
  ['the operator @?', 'select a @?? ?', 'select a @? $1', 1],
  [
    'geometric operators',
    'select a ??- b, a ??# b, a ??|| b, a ??-| b, ?',
    'select a ?- b, a ?# b, a ?|| b, a ?-| b, $1',
    1,
  ],
  ['an operator and a placeholder with nothing between', 'select a ???', 'select a ?$1', 1],
  ['two operators with nothing between', 'select ????', 'select ??', 0],
  ['a numbered placeholder beside the operator ?', 'select payload ? $1', 'select payload ? $1', 1],
  ['numbered placeholders beside ?| and ?&', 'select a ?| $2, b ?& $1', 'select a ?| $2, b ?& $1', 2],
  [
    'numbered placeholders beside ??, which is translated to the operator ?',
    'select a ?? $1, b ? $1',
    'select a ? $1, b ? $1',
    1,
  ],
  ['$1 after the operator ?', "select a ? 'x' where b = $1", "select a ? 'x' where b = $1", 1],
  ['an operator in text', "select '??', ?", "select '??', $1", 1],
  ['numbered placeholders', 'select $1, $2, $1', 'select $1, $2, $1', 2],
  ['numbered placeholders that skip a number', 'select $3', 'select $3', 3],
  ['a numbered placeholder and an operator', 'select a ?? $1', 'select a ? $1', 1],
  ['$1 in text, and a placeholder ?', "select '$1', ?", "select '$1', $1", 1],
  ['a hash, which is an operator in PostgreSQL', 'select a #> ?, b # ?', 'select a #> $1, b # $2', 2],
  ['numerals', 'select 1.5e3, .5, 0x1f, ?', 'select 1.5e3, .5, 0x1f, $1', 1],
  ['a semicolon at the end', 'select ? ; -- and no more', 'select $1 ; -- and no more', 1],
  ['characters that are not ASCII', "select größe, ?, '😀?'", "select größe, $1, '😀?'", 1],
  ['a slice of an array', 'select a[?:?]', 'select a[$1:$2]', 2],
  [
    'a placeholder after the closing parenthesis of IN',
    'select 1 where a in (?) and b=?',
    'select 1 where a in ($1) and b=$2',
    2,
  ],
] as const) {
  test(`scanned() translates the placeholders of a PostgreSQL statement that contains ${what}`, () => {
    const { kind: _, ...found } = scanned(source, 'postgres');
    assert.deepEqual(found, { text, placeholders, problem: undefined });
    assert.equal(scanned(source, 'postgres'), scanned(source, 'postgres'));
  });
}

for (const source of [
  "select '?",
  "select E'\\'?",
  'select "?',
  'select $a$ ?',
  'select /* ?',
  'select /* /* */ ?',
  "select E'a\\",
]) {
  test(`scanned() returns a statement with an unclosed quote or comment unchanged, so that the server refuses the statement: ${source}`, () => {
    const { kind: _, ...found } = scanned(source, 'postgres');
    assert.deepEqual(found, { text: source, placeholders: 0, problem: undefined });
  });
}

for (const [what, source] of [
  ['no text', ''],
  ['space', ' \n'],
  ['a comment only', '-- select ?'],
  ['a semicolon only', ';;'],
  ['two statements', 'select 1; select 2'],
  ['two statements and a comment between', 'select 1; /* ; */ drop table t'],
  ['BEGIN', 'begin'],
  ['START TRANSACTION', ' START TRANSACTION read only'],
  ['COMMIT', '/* x */ Commit;'],
  ['END', 'end'],
  ['ROLLBACK', 'rollback to a'],
  ['ABORT', 'abort'],
  ['SAVEPOINT', 'savepoint a'],
  ['RELEASE', 'release a'],
  ['PREPARE TRANSACTION', "prepare transaction 'x'"],
  ['a NUL', 'select \0'],
  ['half a surrogate pair', 'select \ud800'],
  ['a number that is too large', 'select $65536'],
  ['too many placeholders', `select ${'?,'.repeat(65_535)}?`],
] as const) {
  test(`checkedStatement() refuses a text that is not exactly one allowed statement: ${what}`, () =>
    assert.throws(
      () => checkedStatement(source, 'postgres'),
      (error) => error instanceof SvcError && error.code === 'E_DB_STATEMENT',
    ));
}

for (const [what, source] of [
  ['that has begin as a name', 'select begin from t'],
  ['that is prepared by name', 'prepare p as select 1'],
  [
    'that creates a function with a body',
    'create function f() returns int begin atomic select 1; select 2; end',
  ],
  [
    'that creates a rule with several statements',
    'create rule r as on insert to t do also (insert into a values (1); insert into b values (2))',
  ],
  ['with the greatest allowed number of placeholders', `select ${'?,'.repeat(65_534)}?`],
  ['with a semicolon in front', '; select 1'],
] as const) {
  test(`checkedStatement() accepts a statement ${what}`, () =>
    assert.equal(checkedStatement(source, 'postgres').problem, undefined));
}

test('scanned() for postgres gives the same results as a simple reference implementation, for 100,000 generated texts', () => {
  const pieces = [
    "'",
    "''",
    '"',
    '?',
    '??',
    '$1',
    '$$',
    '$a$',
    '$',
    'a',
    'e',
    'E',
    "E'",
    "e'",
    '\\',
    "\\'",
    '--',
    '\n',
    '\r',
    '/*',
    '*/',
    '/',
    '*',
    ' ',
    ';',
    '(',
    'ä',
    '😀',
    '1',
    '1.',
    '-',
    'a$b$',
    "U&'",
    '_',
    '|',
    '@',
  ];
  const random = seeded(31);
  let translated = 0;
  for (let run = 0; run < 100_000; run++) {
    const source = Array.from({ length: random(14) }, () => pieces[random(pieces.length)]!).join('');
    // a string literal that continues on the next line: the cases above cover it
    if (/[eE]'[\s\S]*'[ \t]*(?:--[^\n\r]*)?[\n\r]/.test(source)) continue;
    const { text, placeholders } = scanned(source, 'postgres');
    const plain = plainTranslation(source);
    assert.equal(text, plain.text, JSON.stringify(source));
    if (plain.placeholders > 0) {
      translated++;
      assert.ok(placeholders >= plain.placeholders, JSON.stringify(source));
    }
  }
  assert.ok(translated > 5_000, String(translated));
});

for (const dialect of ['mysql', 'sqlite'] as const) {
  test(`scanned() for ${dialect} gives the same results as a simple reference implementation, for 100,000 generated texts`, () => {
    const pieces = [
      "'",
      "''",
      '"',
      '`',
      '[',
      ']',
      '?',
      '?',
      'a',
      '\\',
      "\\'",
      '--',
      '-- ',
      '#',
      '\n',
      '/*',
      '/*!',
      '*/',
    ];
    pieces.push('/', '*', ' ', ';', '(', 'ä', '😀', '1', '-', '$', '_', '?1', '?2');
    const random = seeded(32);
    let counted = 0;
    for (let run = 0; run < 100_000; run++) {
      const source = Array.from({ length: random(14) }, () => pieces[random(pieces.length)]!).join('');
      const plain = plainCount(source, dialect);
      assert.equal(scanned(source, dialect).placeholders, plain, JSON.stringify(source));
      if (plain > 0) counted++;
    }
    assert.ok(counted > 5_000, String(counted));
  });
}

for (const [dialect, source, problem] of [
  ['mysql', 'select 1; select 2', /more than one/],
  ['mysql', '/*! ; */', /no statement/],
  ['mysql', 'xa start 1', /XA would begin or end/],
  ['mysql', 'select \ud800', /surrogate/],
  ['sqlite', 'select ?1', /"\?1" has a name or number/],
  ['sqlite', 'select :a', /":a" has a name or number/],
  ['sqlite', "explain create trigger t after insert on u begin select ';'; end; select 1", /more than one/],
  ['sqlite', 'select 1 \0', /NUL/],
] as const) {
  test(`checkedStatement() for ${dialect} refuses the statement ${JSON.stringify(source)}`, () =>
    assert.throws(
      () => checkedStatement(source, dialect),
      (error) => error instanceof SvcError && error.code === 'E_DB_STATEMENT' && problem.test(error.message),
    ));
}

for (const [dialect, source, placeholders, kind] of [
  ['mysql', 'select 2*/* ? */3 + ?', 1, 'select'],
  ['mysql', 'select /*!80000 ? , */ ?', 2, 'select'],
  ['mysql', 'create procedure p() begin select 1; select 2; end', 0, 'other'],
  ['mysql', 'alter event e do begin select 1; end', 0, 'other'],
  ['mariadb', 'select /*M!100100 ? , */ ?', 2, 'select'],
  ['sqlite', 'insert into t values (?) on conflict do update set a = ?', 2, 'update'],
  ['sqlite', "insert into t values ('do update')", 0, 'insert'],
  ['sqlite', 'create temp trigger t after insert on u begin select 1; select 2; end;', 0, 'other'],
  ['sqlite', '; values (?)', 1, 'select'],
  ['sqlite', 'with a as (select ?) select * from a', 1, 'with'],
] as const) {
  test(`checkedStatement() for ${dialect} accepts the statement ${JSON.stringify(source)}`, () => {
    const found = checkedStatement(source, dialect);
    assert.deepEqual([found.text, found.placeholders, found.kind], [source, placeholders, kind]);
  });
}
