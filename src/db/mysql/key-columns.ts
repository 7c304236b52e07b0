/**
 * Finds the columns of a violated unique key. The error message has only the name of the key, so the server
 * is queried.
 */
import { UniqueViolation } from '../errors.ts';
import { writtenTable } from '../dialects.ts';
import type { Params } from '../values.ts';

const COLUMNS = `select column_name from information_schema.statistics
  where table_schema = coalesce(?, database()) and table_name = ? and index_name = ? order by seq_in_index`;

/** Returns the error of a statement. An error of a unique key gets the columns of the key, if the server reports them. */
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
    // NULL for an expression
    const columns = rows.map(([name]) => name).filter((name) => typeof name === 'string');
    const { message, errno, sqlstate, sql } = error;
    return new UniqueViolation(message, { errno, sqlstate, sql, table, constraint, columns });
  } catch {
    return error; // the original error is more important
  }
}
