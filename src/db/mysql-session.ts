/**
 * What a session of MySQL or MariaDB is set up with: times in UTC, text in UTF-8, values that do not fit refused.
 */
import type { MySqlConnectionOptions } from './mysql-options.ts';

/** What newer servers have by themselves: MySQL 5.6, for one, cuts what is too long, and stores 0 for what is no number. And a key of 0 is 0. */
const STRICT = 'NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

/**
 * The statements that set it up. The log-in has asked for UTF-8 already, but servers have the last word: by `init_connect = 'set names …'`,
 * or skip_character_set_client_handshake. What is sent as UTF-8 would be stored as something else then, and nobody told.
 */
export function sessionTexts({ isStrict, isReadOnly, parameters }: MySqlConnectionOptions): readonly string[] {
  const settings = [
    'character_set_client = utf8mb4', 'character_set_results = utf8mb4', 'collation_connection = utf8mb4_general_ci', "time_zone = '+00:00'", 'autocommit = 1', ...isStrict && parameters['sql_mode'] === undefined ? [`sql_mode = concat(@@sql_mode, ',${STRICT}')`] : [],
    ...Object.entries(parameters).map(([name, value]) => `${name} = ${/^-?\d+(?:\.\d+)?$/.test(value) ? value : `'${value}'`}`), // no quotes in it: mysql-url.ts
  ];
  return [
    `set ${settings.map((setting) => `session ${setting}`).join(', ')}`,
    ...isReadOnly ? ['set session transaction read only'] : [],
  ];
}
