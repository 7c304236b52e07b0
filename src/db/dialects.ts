/**
 * SQL that this library writes itself and that differs between engines: quoted names, and the statements that
 * begin a transaction.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { BeginOptions, Dialect } from './driver.ts';

/**
 * Length in bytes of the longest name that no engine shortens: PostgreSQL allows 63 bytes, MySQL 64
 * characters.
 */
const MAX_NAME_BYTES = 63;

/**
 * Returns a table or column name quoted for the dialect. A dot is part of the name: use
 * `sql.identifier('main', 'users')` for a schema and a table.
 *
 * @throws SvcError `E_DB_IDENTIFIER` for a name that is empty, longer than 63 bytes, or contains NUL or half
 * a surrogate pair
 */
export function quotedName(dialect: Dialect, name: string): string {
  if (
    typeof name !== 'string' ||
    name === '' ||
    name.includes('\0') ||
    !name.isWellFormed() ||
    Buffer.byteLength(name) > MAX_NAME_BYTES
  ) {
    throw new SvcError('E_DB_IDENTIFIER', [shown(name)]);
  }
  return isMySql(dialect) ? `\`${name.replaceAll('`', '``')}\`` : `"${name.replaceAll('"', '""')}"`;
}

/** Returns whether the dialect is `mysql` or `mariadb`. Both use the SQL of MySQL. */
export function isMySql(dialect: Dialect): dialect is 'mysql' | 'mariadb' {
  return dialect === 'mysql' || dialect === 'mariadb';
}

/** Pattern of one name: plain, in backticks or in double quotes. */
const NAME = '(?:`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|(\\w+))';
const WRITES = new RegExp(
  `^\\s*(?:insert|replace|update)\\s+(?:(?:low_priority|delayed|high_priority|ignore|into|or\\s+\\w+)\\s+)*(?:${NAME}\\s*\\.\\s*)?${NAME}`,
  'i',
);

/**
 * Returns the table, and the schema if given, into which an `insert`, `replace` or `update` writes. Returns
 * undefined for other statements.
 */
export function writtenTable(
  sql: string | undefined,
): { readonly schema: string | undefined; readonly table: string } | undefined {
  const found = WRITES.exec(sql ?? '');
  if (found === null) return undefined;
  const [, ...names] = found;
  const [schema, table] = [names.slice(0, 3), names.slice(3)].map((quoted) =>
    quoted.find((name) => name !== undefined)?.replaceAll(/``|""/g, (pair) => pair[0]!),
  );
  return { schema, table: table! };
}

/** Returns the statements that begin a transaction, in the order in which they run. */
export function beginTexts(dialect: Dialect, { isolation, isReadOnly }: BeginOptions): readonly string[] {
  switch (dialect) {
    // `begin deferred` is only for transactions that read: if such a transaction wrote after another
    // connection had written, SQLite would refuse the write at once, without waiting for the lock
    case 'sqlite':
      return [isReadOnly ? 'begin deferred' : 'begin immediate'];
    case 'postgres':
      return [
        `begin${isolation === undefined ? '' : ` isolation level ${isolation}`}${isReadOnly ? ' read only' : ''}`,
      ];
    default:
      return [
        ...(isolation === undefined ? [] : [`set transaction isolation level ${isolation}`]),
        `start transaction${isReadOnly ? ' read only' : ''}`,
      ];
  }
}
