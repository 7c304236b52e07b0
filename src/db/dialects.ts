/**
 * SQL that differs between database engines: quoted names, and the statements that begin a transaction.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { BeginOptions, Dialect } from './driver.ts';

/** Maximum length of a name. PostgreSQL truncates a name after 63 bytes; MySQL allows 64 characters. */
const MAX_NAME_BYTES = 63;

/** Quotes a name. A dot is part of it: `sql.identifier('main', 'users')` names a table in a schema. */
export function quotedName(dialect: Dialect, name: string): string {
  if (
    typeof name !== 'string' ||
    name === '' ||
    name.includes('\0') ||
    !name.isWellFormed() ||
    Buffer.byteLength(name) > MAX_NAME_BYTES
  ) {
    throw new SvcError('E_DB_IDENTIFIER', [
      `the name must be text of 1 to 63 bytes without NUL, found ${shown(name)}`,
    ]);
  }
  return isMySql(dialect) ? `\`${name.replaceAll('`', '``')}\`` : `"${name.replaceAll('"', '""')}"`;
}

export function isMySql(dialect: Dialect): dialect is 'mysql' | 'mariadb' {
  return dialect === 'mysql' || dialect === 'mariadb';
}

const NAME = '(?:`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|(\\w+))';
const WRITES = new RegExp(
  `^\\s*(?:insert|replace|update)\\s+(?:(?:low_priority|delayed|high_priority|ignore|into|or\\s+\\w+)\\s+)*(?:${NAME}\\s*\\.\\s*)?${NAME}`,
  'i',
);

/** Returns the table that an `insert`, `replace` or `update` changes, and its schema if named. */
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

export function beginTexts(dialect: Dialect, { isolation, isReadOnly }: BeginOptions): readonly string[] {
  switch (dialect) {
    // `begin deferred` is only for reads: after it, a write fails if another connection has written meanwhile
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
