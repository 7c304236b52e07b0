/**
 * MariaDB and MySQL through the public verbs: the contract of every database, and what only they have.
 */
import { databaseContract } from '../contract/database.ts';
import { mysqlDatabase } from '../support/mysql-database.ts';

for (const [name, engine] of [['MariaDB', 'mariadb'], ['MySQL', 'mysql']] as const) {
  databaseContract(name, (t) => mysqlDatabase(t, engine));
  databaseContract(`${name} without a cache of statements, reset in full`, (t) => mysqlDatabase(t, engine, { statementCache: 0, pool: { max: 3, reset: 'full' } }));
}
