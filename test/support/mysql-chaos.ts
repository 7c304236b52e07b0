/**
 * MariaDB and MySQL for server-chaos.ts: statements, and errors that are allowed.
 *
 * The mark of a transaction is a session variable that its first statement sets. If another transaction ran
 * in between, it would have changed the variable.
 */
import { DatabaseError } from '../../src/db/index.ts';
import type { Engine } from './mysql-database.ts';
import { Written, type ServerKind } from './server-chaos.ts';

const MARKED = 'tx, step, value, cast(@mark as char) as mark';
/** Error number: the thread does not exist. */
const NO_SUCH_THREAD = 1094;

const BOTH: Omit<ServerKind, 'insert'> = {
  table:
    'drop table if exists nonce; create table nonce (id bigint primary key auto_increment, tx integer not null, step integer not null, value varchar(100) not null, key nonce_tx (tx))',
  mark: async (handle, tx) => {
    await handle.execute('set @mark = ?', [`tx ${tx}`]);
    return `tx ${tx}`;
  },
  isCutOff: ({ code, sqlstate }) =>
    code === 'connection_lost' ||
    code === 'transaction_aborted' ||
    code === 'canceled' ||
    // 1317 is an error that a connection may give while it is being closed
    /^(?:08|53300)/.test(sqlstate ?? ''),
  connections: async (admin) =>
    (
      await admin.fetchAll(
        'select id as id from information_schema.processlist where db = database() and id <> connection_id()',
      )
    ).map(({ id }) => Number(id)),
  end: async (admin, id) => {
    try {
      await admin.execute(`kill connection ${id}`);
      return true;
    } catch (error) {
      if (error instanceof DatabaseError && error.errno === NO_SUCH_THREAD) return false;
      throw error;
    }
  },
  echo: 'select ?',
  slowEcho:
    'select ? as nonce, sleep(?) as slept from (select 1 as n union all select 2 union all select 3) as numbers where n <= ?',
};

/** MariaDB and MySQL; see {@link ServerKind}. */
export const MYSQL_KINDS: Readonly<Record<Engine, ServerKind>> = {
  mariadb: {
    ...BOTH,
    insert: async (handle, tx, step, value) =>
      (await handle.fetchOne(
        `insert into nonce (tx, step, value) values (?, ?, ?) returning ${MARKED}`,
        [tx, step, value],
        { as: Written },
      ))!,
  },
  mysql: {
    ...BOTH,
    insert: async (handle, tx, step, value) => {
      const { lastInsertId } = await handle.execute('insert into nonce (tx, step, value) values (?, ?, ?)', [
        tx,
        step,
        value,
      ]);
      return (await handle.fetchOne(`select ${MARKED} from nonce where id = ?`, [lastInsertId!], {
        as: Written,
      }))!; // the table has this key
    },
  },
};
