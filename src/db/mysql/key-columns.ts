/**
 * The columns of a key that must be unique: the message of a violation has the name of the key only, so that the server is asked for them.
 */
import { UniqueViolation } from '../errors.ts';
import { writtenTable } from '../dialects.ts';
import type { Params } from '../values.ts';

const COLUMNS = `select column_name from information_schema.statistics
  where table_schema = coalesce(?, database()) and table_name = ? and index_name = ? order by seq_in_index`;

/** Returns the error of a statement; one of a key that must be unique with the columns of the key, where the server tells them. */
export async function withKeyColumns(
  error: unknown,
  ask: (sql: string, params: Params) => Promise<readonly (readonly unknown[])[]>,
): Promise<unknown> {
  if (!(error instanceof UniqueViolation) || error.columns.length > 0) return error;
  const { table, constraint } = error;
  if (table === undefined || constraint === undefined) return error;
  try {
    const schema = writtenTable(error.sql)?.schema ?? null;
    const rows = await ask(COLUMNS, [schema, table, constraint]);
    const columns = rows.map(([name]) => name).filter((name) => typeof name === 'string'); // NULL for an expression
    const { message, errno, sqlstate, sql } = error;
    return new UniqueViolation(message, { errno, sqlstate, sql, table, constraint, columns });
  } catch {
    return error; // why the statement failed matters more
  }
}
