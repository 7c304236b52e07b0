/**
 * Reads the unique keys, the foreign keys and the triggers of all tables, in the same way for every engine. A unique index with a
 * condition or an expression is left out, because it does not make columns unique.
 */
import type { Database } from './database.ts';
import type { Dialect } from './driver.ts';

interface ForeignKey {
  readonly columns: readonly string[];
  readonly table: string;
  /** Columns of that table. Empty if the key refers to its primary key without naming it. */
  readonly references: readonly string[];
}

/** Keys of a table besides its primary key, and its triggers. */
export interface TableKeys {
  readonly uniqueKeys: readonly (readonly string[])[];
  readonly foreignKeys: readonly ForeignKey[];
  /** Whether a trigger may change a row before it is inserted. Always false in SQLite, whose triggers cannot. */
  readonly hasInsertTrigger: boolean;
}

const NONE: TableKeys = { uniqueKeys: [], foreignKeys: [], hasInsertTrigger: false };

/** A column of a key, or a trigger. Rows of a key follow each other, in the order of its columns. */
interface KeyColumn {
  readonly table: string;
  readonly key: string;
  /** Null for an expression. */
  readonly column: string | null;
  /** Null for a unique key. */
  readonly target: string | null;
  readonly targetColumn: string | null;
}

const SQLITE = `
  select m.name as "table", 'unique ' || i.name as "key", c.name as "column", null as target, null as "targetColumn",
    c.seqno as place
  from sqlite_master m join pragma_index_list(m.name) i join pragma_index_info(i.name) c
  where m.type = 'table' and i."unique" = 1 and i.partial = 0 and i.origin <> 'pk'
  union all
  select m.name, 'foreign ' || f.id, f."from", f."table", f."to", f.seq
  from sqlite_master m join pragma_foreign_key_list(m.name) f where m.type = 'table'
  order by "table", "key", place`;

const POSTGRES = `
  select c.relname::text as "table", 'unique ' || x.indexrelid as "key", a.attname::text as "column", null as target,
    null as "targetColumn", k.place
  from pg_index x join pg_class c on c.oid = x.indrelid
  cross join unnest(x.indkey::int2[]) with ordinality as k (attribute, place)
  left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attribute
  where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and x.indisunique and x.indisvalid
    and not x.indisprimary and x.indpred is null and k.place <= x.indnkeyatts
  union all
  select c.relname, 'foreign ' || f.oid, a.attname, r.relname, b.attname, k.place
  from pg_constraint f join pg_class c on c.oid = f.conrelid join pg_class r on r.oid = f.confrelid
  cross join unnest(f.conkey, f.confkey) with ordinality as k (attribute, target, place)
  join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attribute
  join pg_attribute b on b.attrelid = f.confrelid and b.attnum = k.target
  where f.contype = 'f' and c.relnamespace = to_regnamespace(quote_ident(current_schema()))
  union all
  select c.relname, 'trigger', null, null, null, 0 from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and not t.tgisinternal and t.tgtype & 6 = 6
  order by "table", "key", place`;

const MYSQL = `
  select table_name as \`table\`, concat('unique ', index_name) as \`key\`, column_name as \`column\`, null as target,
    null as targetColumn, seq_in_index as place
  from information_schema.statistics
  where table_schema = database() and non_unique = 0 and index_name <> 'PRIMARY'
  union all
  select table_name, concat('foreign ', constraint_name), column_name, referenced_table_name,
    referenced_column_name, ordinal_position
  from information_schema.key_column_usage where table_schema = database() and referenced_table_name is not null
  union all
  select event_object_table, 'trigger', null, null, null, 0 from information_schema.triggers
  where trigger_schema = database() and action_timing = 'BEFORE' and event_manipulation = 'INSERT'
  order by \`table\`, \`key\`, place`;

const QUERIES: Readonly<Record<Dialect, string>> = {
  sqlite: SQLITE,
  postgres: POSTGRES,
  mysql: MYSQL,
  mariadb: MYSQL,
};

/** Returns a function for the keys of a table of a database, by the name of the table. */
export async function readKeys(database: Database): Promise<(table: string) => TableKeys> {
  const rows = (await database.fetchAll(QUERIES[database.dialect])) as unknown as KeyColumn[];
  const tables = new Map<string, TableKeys>();
  for (const columns of Map.groupBy(rows, ({ table, key }) => `${table}\0${key}`).values()) {
    const { table, key, target } = columns[0]!; // a group has one row or more
    const keys = tables.get(table) ?? NONE;
    const names = columns.map(({ column }) => column).filter((name) => name !== null);
    const references = columns.map(({ targetColumn }) => targetColumn).filter((name) => name !== null);
    if (key === 'trigger') tables.set(table, { ...keys, hasInsertTrigger: true });
    else if (target !== null)
      tables.set(table, {
        ...keys,
        foreignKeys: [...keys.foreignKeys, { columns: names, table: target, references }],
      });
    else if (names.length === columns.length)
      tables.set(table, { ...keys, uniqueKeys: [...keys.uniqueKeys, names] });
  }
  return (table) => tables.get(table) ?? NONE;
}
