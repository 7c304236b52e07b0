/**
 * PostgreSQL through the public verbs: the contract of every database, and what only it has.
 */
import { databaseContract } from '../contract/database.ts';
import { postgresDatabase } from '../support/postgres-database.ts';

databaseContract('PostgreSQL', (t) => postgresDatabase(t));
