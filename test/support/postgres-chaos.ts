/**
 * PostgreSQL for server-chaos.ts: statements, and errors that are allowed.
 */
import { Written, type ServerKind } from './server-chaos.ts';

/** PostgreSQL; see {@link ServerKind}. */
export const POSTGRES: ServerKind = {
  table:
    'drop table if exists nonce; create table nonce (id bigint generated always as identity, tx integer not null, step integer not null, value text not null); create index nonce_tx on nonce (tx)',
  mark: async (handle) => String(await handle.scalar('select txid_current()::text')),
  insert: async (handle, tx, step, value) =>
    (await handle.fetchOne(
      'insert into nonce (tx, step, value) values (?, ?, ?) returning tx, step, value, txid_current()::text as mark',
      [tx, step, value],
      { as: Written },
    ))!,
  isCutOff: ({ sqlstate }) => /^(?:57P0|08|25P02|53300)/.test(sqlstate ?? ''),
  connections: async (admin) =>
    (
      await admin.fetchAll(
        "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
      )
    ).map(({ pid }) => Number(pid)),
  end: async (admin, id) => (await admin.scalar('select pg_terminate_backend(?)', [id])) === true,
  echo: 'select ?::int',
  slowEcho: 'select ?::int as nonce, pg_sleep(?::float8) from generate_series(1, ?::int)',
};
