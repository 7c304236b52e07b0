/**
 * Where the engines' SQL differs in what we write ourselves: quoted names, and how transactions begin.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';
import type { BeginOptions, Dialect } from './driver.ts';

/** The longest name that every engine keeps whole is 63 bytes; MySQL's 64 characters are more. */
const MAX_NAME_BYTES = 63;

/**
 * A table or column name as the dialect quotes it. A dot is part of the name: `sql.identifier('main', 'users')` for two.
 *
 * @throws SvcError `E_DB_IDENTIFIER` when it is empty, longer than 63 bytes, or has NUL or half a surrogate pair
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

/** Whether a dialect is that of MySQL, which MariaDB's is, too. */
export function isMySql(dialect: Dialect): dialect is 'mysql' | 'mariadb' {
  return dialect === 'mysql' || dialect === 'mariadb';
}

/** One name, quoted in one of the engines' ways or plain. */
const NAME = '(?:`((?:[^`]|``)+)`|"((?:[^"]|"")+)"|(\\w+))';
const WRITES = new RegExp(
  `^\\s*(?:insert|replace|update)\\s+(?:(?:low_priority|delayed|high_priority|ignore|into|or\\s+\\w+)\\s+)*(?:${NAME}\\s*\\.\\s*)?${NAME}`,
  'i',
);

/** The table that an `insert`, `replace` or `update` names, where that is easily seen, and its schema. */
export function writtenTable(
  sql: string | undefined,
): { readonly schema: string | undefined; readonly table: string } | undefined {
  const found = WRITES.exec(sql ?? '');
  if (found === null) return undefined;
  const [, ...names] = found;
  const [schema, table] = [names.slice(0, 3), names.slice(3)].map((quoted) =>
    quoted.find((name) => name !== undefined)?.replaceAll(/``|""/g, (pair) => pair[0]!),
  );
  return { schema, table: table! }; // the pattern has one
}

/** The statements that begin a transaction, in their order. */
export function beginTexts(dialect: Dialect, { isolation, isReadOnly }: BeginOptions): readonly string[] {
  switch (dialect) {
    // a deferred transaction that reads and then writes fails at once when somebody else wrote: no waiting helps
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
