import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConstraintViolation } from '../../../src/db/index.ts';
import { mysqlError } from '../../../src/db/mysql/errors.ts';

const INSERT = 'insert into note (id, owner, title) values (?, ?, ?)';

for (const [server, errno, message, sql, expected] of [
  [
    'MySQL',
    1062,
    "Duplicate entry '1-sec'ret' for key 'note.note_title'",
    INSERT,
    ['unique', 'note', 'note_title', []],
  ],
  [
    'MariaDB',
    1062,
    "Duplicate entry '1-secret' for key 'note_title'",
    INSERT,
    ['unique', 'note', 'note_title', []],
  ],
  [
    'MariaDB',
    1062,
    "Duplicate entry 'secret' for key 'PRIMARY'",
    'call add_note(?)',
    ['unique', undefined, 'PRIMARY', []],
  ],
  [
    'MySQL',
    1452,
    'Cannot add or update a child row: a foreign key constraint fails (`shop`.`note`, CONSTRAINT `note_owner` FOREIGN KEY (`owner`, `kind`) REFERENCES `owner` (`id`, `kind`))',
    INSERT,
    ['foreign_key', 'note', 'note_owner', ['owner', 'kind']],
  ],
  [
    'MySQL',
    1451,
    'Cannot delete or update a parent row: a foreign key constraint fails (`shop`.`note`, CONSTRAINT `note_owner` FOREIGN KEY (`owner`) REFERENCES `owner` (`id`))',
    'delete from owner',
    ['foreign_key', 'note', 'note_owner', ['owner']],
  ],
  ['MySQL', 3819, "Check constraint 'note_stars' is violated.", INSERT, ['check', 'note', 'note_stars', []]],
  [
    'MariaDB',
    4025,
    'CONSTRAINT `note_stars` failed for `shop`.`note`',
    'update `shop`.`note` set stars = ?',
    ['check', 'note', 'note_stars', []],
  ],
  ['MySQL', 1048, "Column 'title' cannot be null", INSERT, ['not_null', 'note', undefined, ['title']]],
  [
    'MySQL',
    1364,
    "Field 'title' doesn't have a default value",
    'INSERT IGNORE INTO shop.`no``te` (id) values (?)',
    ['not_null', 'no`te', undefined, ['title']],
  ],
] as const)
  test(`error ${errno} of ${server} becomes a ConstraintViolation of kind "${expected[0]}": ${message.slice(0, 60)}`, () => {
    const error = mysqlError({ errno, sqlstate: '23000', message }, sql);
    assert.ok(error instanceof ConstraintViolation);
    const { kind, table, constraint, columns } = error;
    assert.deepEqual([kind, table, constraint, columns], expected);
    assert.doesNotMatch(error.message, /sec/);
  });
