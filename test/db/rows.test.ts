/**
 * Rows as instances of a schema: each form in which an engine returns a value, and the values that are
 * refused.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../src/base/errors.ts';
import { openDatabase } from '../../src/db/index.ts';
import { RowDecoder, valueAs } from '../../src/db/rows.ts';
import { snakeCased } from '../../src/schema/rows.ts';
import {
  Field,
  Schema,
  any,
  bool,
  bytes,
  date,
  datetime,
  file,
  float,
  int,
  lazy,
  list,
  literal,
  nullable,
  record,
  str,
  union,
  uuid,
} from '../../src/schema/schema.ts';
import type { Dialect } from '../../src/db/index.ts';
import type { TypeSource } from '../../src/schema/schema.ts';

const ID = '0190b6a3-5d2c-7c3e-8a55-0a1b2c3d4e5f';
const AT = new Date('2024-02-29T12:30:15.250Z');

class Point extends Schema {
  kind = Field(literal('point'));
  isExact = Field(bool, { default: false });
  madeAt = Field(datetime, { alias: 'made', optional: true });
}

function refusal(run: () => unknown): SvcError {
  let found: unknown;
  assert.throws(run, (error) => {
    found = error;
    return error instanceof SvcError && error.code === 'E_DB_ROW';
  });
  return found as SvcError;
}

const TEXT_JSON = ['sqlite', 'mysql', 'mariadb'] as const;
const ALL = [...TEXT_JSON, 'postgres'] as const;

test('a schema reads each form in which a database engine may return a value, such as 1 and "1" for true', () => {
  const cases: readonly (readonly [TypeSource, unknown, unknown, (Dialect | readonly Dialect[])?])[] = [
    [bool, true, true],
    [bool, 1, true],
    [bool, 0n, false],
    [bool, '1', true],
    [int, 5, 5],
    [int, 5n, 5],
    [int, '5', 5],
    [int, '-5.00', -5],
    [float, 1.5, 1.5],
    [float, '1.50', 1.5],
    [float, '-0.000123456789012345', -0.000123456789012345],
    [float, 2n ** 60n, 2 ** 60],
    [str, 'a', 'a'],
    [str, 5, '5'],
    [str, 2n ** 63n - 1n, '9223372036854775807'],
    [str, '12.50', '12.50'],
    [datetime, AT, AT],
    [datetime, '2024-02-29T12:30:15.250Z', AT],
    [datetime, '2024-02-29T12:30:15.250999Z', AT],
    [datetime, '2024-02-29 12:30:15.25', AT],
    [datetime, '2024-02-29T14:30:15.250+02:00', AT],
    [datetime, '0000-01-01T00:00:00Z', new Date('0000-01-01T00:00:00Z')],
    [datetime, '9999-12-31 23:59:59', new Date('9999-12-31T23:59:59Z')],
    [date, '2024-02-29', '2024-02-29'],
    [date, '2024-02-29T00:00:00.000Z', '2024-02-29'],
    [date, new Date('2024-02-29T00:00:00Z'), '2024-02-29'],
    [uuid, ID.toUpperCase(), ID],
    [uuid, new Uint8Array(Buffer.from(ID.replaceAll('-', ''), 'hex')), ID],
    [bytes, new Uint8Array([1, 2]), new Uint8Array([1, 2])],
    [float, '4.3333333333333333', 13 / 3],
    [float, '12345678901234567890.1', 12345678901234567890],
    [float, 2n ** 53n + 1n, 2 ** 53],
    [float, '1e-400', 0],
    [literal('a', 1, true, null), 'a', 'a'],
    [literal('a', 1), 1n, 1],
    [literal(1.5), '1.50', 1.5],
    [literal(true), 1, true],
    [literal('a', null), null, null],
    [nullable(int), null, null],
    [nullable(int), '7', 7],
    [nullable(list(int)), 'null', null, TEXT_JSON],
    [nullable(lazy(() => list(int))), 'null', null, TEXT_JSON],
    [list(int), [1, 2], [1, 2]],
    [list(int), '[1,2]', [1, 2], TEXT_JSON],
    [list(bool), '[0,1,true]', [false, true, true], TEXT_JSON],
    [list(datetime), [AT], [AT]],
    [list(datetime), '["2024-02-29T12:30:15.250Z"]', [AT], TEXT_JSON],
    [list(list(float)), [['1.50']], [[1.5]]],
    [list(bytes), '["AQI="]', [new Uint8Array([1, 2])], TEXT_JSON],
    [record(int), '{"a":1}', { a: 1 }, TEXT_JSON],
    [lazy(() => int), 1n, 1],
    [any, '{"a":1}', { a: 1 }, 'sqlite'],
    [any, 5, 5, 'sqlite'],
    [any, AT, AT],
    [any, 'text', 'text', 'postgres'],
    [nullable(any), 'null', null, 'sqlite'],
  ];
  for (const [type, found, expected, dialects = ALL] of cases)
    for (const each of [dialects].flat())
      assert.deepEqual(valueAs(found, type, each), expected, `${each} ${String(found)}`);
  const point = valueAs('{"kind":"point","isExact":1,"made":null}', Point, 'mariadb');
  assert.ok(point instanceof Point);
  assert.deepEqual({ ...point }, { kind: 'point', isExact: true, madeAt: undefined });
  assert.ok(valueAs({ kind: 'point' }, union('kind', Point), 'postgres') instanceof Point);
});

test('a schema refuses a row if a value has a wrong type or would lose digits, and the error does not contain the value', () => {
  const cases: readonly (readonly [TypeSource, unknown, RegExp, Dialect?])[] = [
    [bool, 2, /true or false, found an integer/],
    [bool, 'true', /found a string/],
    [int, 1.5, /an integer, found a number/],
    [int, '1.5', /an integer/],
    [int, 2n ** 53n, /between/],
    [int, '9007199254740992', /between/],
    [int, null, /found NULL/],
    [float, 'NaN', /finite number/],
    [float, 'Infinity', /finite number/],
    [float, NaN, /finite number/],
    [float, -Infinity, /finite number/],
    [float, '1e400', /finite number/],
    [float, `-1${'0'.repeat(400)}`, /finite number/],
    [float, '0x10', /finite number/],
    [float, '', /finite number/],
    [str, 1.5, /a string, found a number/],
    [str, AT, /a string, found a Date/],
    [str, new Uint8Array(3), /found 3 bytes/],
    [str, true, /found true/],
    [datetime, '2024-02-30T00:00:00Z', /date and time/],
    [datetime, '2023-02-29 00:00:00', /date and time/],
    [datetime, '2024-02-29T24:00:00Z', /date and time/],
    [datetime, '2024-02-29', /date and time/],
    [datetime, 'infinity', /date and time/],
    [datetime, new Date(NaN), /date and time/],
    [datetime, 1_700_000_000, /found an integer/],
    [date, AT, /a date such as/],
    [date, '2024-02-29T12:00:00Z', /a date such as/],
    [date, '2023-02-29', /a date such as/],
    [uuid, 'no', /a UUID/],
    [uuid, new Uint8Array(15), /found 15 bytes/],
    [bytes, 'AQI=', /must be bytes, found a string/],
    [literal('a'), 'secret', /must be "a"/],
    [literal(1), '2', /must be 1/],
    [literal(1), '1.00000000000000000001', /must be 1/],
    [literal(2 ** 53), 2n ** 53n + 1n, /must be/],
    [literal(true), 2, /must be true/],
    [list(int), '[1,', /must be JSON, found a string/],
    [list(int), '5', /must be a list/],
    [list(int), '[1,"secret"]', /it\[1\] must be an integer, found a string of 6/],
    [record(int), '[]', /must be an object/],
    [Point, '{"kind":"secret"}', /it\["kind"\] must be "point"/],
    [union('kind', Point), '{"kind":"secret"}', /it\["kind"\]/],
    [union('kind', Point), '{}', /it\["kind"\] must be "point", found nothing/],
    [union('kind', Point), '[]', /must be an object/],
    [file, 'x', /as a file/],
    [any, 'secret', /must be JSON/, 'sqlite'],
    // the driver has parsed the JSON of a column already: this is the JSON text "[1,2]" with its quotes
    [list(int), '[1,2]', /must be a list, found a string/, 'postgres'],
    [nullable(list(int)), 'null', /must be a list, found a string/, 'postgres'],
    [record(int), '{"a":1}', /must be an object, found a string/, 'postgres'],
    [Point, '{"kind":"point"}', /must be an object, found a string/, 'postgres'],
    [union('kind', Point), '{"kind":"point"}', /must be an object, found a string/, 'postgres'],
  ];
  for (const [type, found, problem, dialect = 'mysql'] of cases) {
    const { message } = refusal(() => valueAs(found, type, dialect));
    assert.match(message, problem);
    assert.doesNotMatch(message, /secret|Invalid|AQI/);
  }
  assert.match(
    refusal(() => valueAs(`${'['.repeat(100)}${']'.repeat(100)}`, lazyList(), 'sqlite')).message,
    /deeper/,
  );
});

function lazyList(): TypeSource {
  const deep: TypeSource = list(lazy(() => deep));
  return deep;
}

test('a schema reads columns by name, whatever their order and letter case, and ignores additional columns', () => {
  class Author extends Schema {
    username = Field(str);
    homeTown = Field(nullable(str));
  }
  class Note extends Schema {
    id = Field(int, { readOnly: true });
    createdAt = Field(datetime, { alias: 'created-at' });
    authorId = Field(int);
    author = Field(Author);
    editor = Field(nullable(Author));
    owner = Field(Author, { optional: true });
    size = Field(3);
    hint = Field(str, { optional: true });
  }
  const row = {
    author_home_town: 'Bern',
    author_username: 'ada',
    created_at: AT,
    author_id: 7,
    ID: 1,
    editor_username: null,
    editor_home_town: null,
    owner_username: null,
    owner_home_town: null,
    other: 'dropped',
  };
  const decoder = new RowDecoder({ as: Note, snakeCase: true }, 'postgres', false);
  const expected = {
    id: 1,
    createdAt: AT,
    authorId: 7,
    author: { username: 'ada', homeTown: 'Bern' },
    editor: null,
    owner: undefined,
    size: 3,
    hint: undefined,
  };
  for (const each of [
    row,
    Object.fromEntries(Object.entries(row).reverse()),
    { ...row, size: 3, hint: null },
  ]) {
    const note = decoder.one(each as never);
    assert.ok(note instanceof Note && note.author instanceof Author);
    assert.deepEqual({ ...note, author: { ...note.author } }, expected);
  }
  assert.match(
    refusal(() => decoder.one({ ...row, author_username: null } as never)).message,
    /row 4 as Note: column "author_username"/,
  );
  const { editor_username: _, ...partial } = { ...row };
  assert.match(refusal(() => decoder.one(partial as never)).message, /no column "editor_username"/);
  assert.match(
    refusal(() => new RowDecoder({ as: Note }, 'mysql', false).one({ id: 1, created_at: AT } as never))
      .message,
    /"createdAt", "authorId", "author", "editor", found "id", "created_at" \(set snakeCase: true to use the column "created_at"\)$/,
  );
  assert.ok(
    new RowDecoder({ as: Author }, 'mysql', true).one({ username: 'ada', home_town: null }) instanceof Author,
  );
});

test('snakeCase converts acronyms and digits in member names to the expected column names', () => {
  const names = ['id', 'createdAt', 'userID', 'HTTPStatus', 'line2Text', 'already_there'];
  assert.deepEqual(names.map(snakeCased), [
    'id',
    'created_at',
    'user_id',
    'http_status',
    'line2_text',
    'already_there',
  ]);
});

test('RowDecoder parses JSON text for SQLite and not for PostgreSQL, even if each row has a column that no other row has', () => {
  class Small extends Schema {
    a = Field(any);
  }
  const [sqlite, postgres] = [
    new RowDecoder({ as: Small }, 'sqlite', false),
    new RowDecoder({ as: Small }, 'postgres', false),
  ];
  for (let index = 0; index < 250; index++) {
    const row = { a: '[1]', [`b${index}`]: 1 };
    assert.deepEqual(sqlite.one({ ...row }).a, [1]);
    assert.equal(postgres.one({ ...row }).a, '[1]');
  }
  assert.deepEqual(postgres.all([]), []);
});

test('the option "snakeCase" of fetchOne() overrides the option "snakeCase" of openDatabase()', async () => {
  await using db = await openDatabase('sqlite::memory:', { snakeCase: true });
  class Made extends Schema {
    madeAt = Field(datetime);
  }
  const text = 'select 1 as id, current_timestamp as made_at';
  assert.ok((await db.fetchOne(text, [], { as: Made })) instanceof Made);
  assert.ok((await db.transaction((tx) => tx.fetchOne(text, [], { as: Made }))) instanceof Made);
  await assert.rejects(db.fetchOne(text, [], { as: Made, snakeCase: false }), { code: 'E_DB_ROW' });
  await assert.rejects(db.fetchOne(text, [], { as: Made, snakeCase: 1 as never }), {
    code: 'E_OPTION_RANGE',
  });
  await assert.rejects(openDatabase('sqlite::memory:', { snakeCase: 'yes' as never }), {
    code: 'E_OPTION_RANGE',
  });
});

test('instances of a schema class that are read from rows are validated, and have the getters and private members of the class', async () => {
  class Named extends Schema {
    name = Field(str, { minLength: 2, maxLength: 4 });
    readonly #secret = 'kept';
    get shown(): string {
      return `${this.name} ${this.#secret}`;
    }
  }
  const decoder = new RowDecoder({ as: Named }, 'sqlite', false);
  assert.equal(decoder.one({ name: 'ada' }).shown, 'ada kept');
  assert.match(
    refusal(() => decoder.one({ name: 'a' })).message,
    /row 2 as Named: column "name" must have at least 2/,
  );
});
