/**
 * What a session of MySQL or MariaDB is set up with: times in UTC, text in UTF-8, values that do not fit refused.
 */
import type { MySqlConnectionOptions } from './mysql-options.ts';

/** What newer servers have by themselves: MySQL 5.6, for one, cuts what is too long, and stores 0 for what is no number. And a key of 0 is 0. */
const STRICT = 'NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';

/** The statements that set it up. `isReset`: also what the log-in has brought. */
export function sessionTexts({ isStrict, isReadOnly, parameters }: MySqlConnectionOptions, isReset: boolean): readonly string[] {
  const settings = [
    "time_zone = '+00:00'", 'autocommit = 1', ...isStrict && parameters['sql_mode'] === undefined ? [`sql_mode = concat(@@sql_mode, ',${STRICT}')`] : [],
    ...Object.entries(parameters).map(([name, value]) => `${name} = ${/^-?\d+(?:\.\d+)?$/.test(value) ? value : `'${value}'`}`), // no quotes in it: mysql-url.ts
  ];
  return [
    ...isReset ? ['set names utf8mb4 collate utf8mb4_general_ci'] : [],
    `set ${settings.map((setting) => `session ${setting}`).join(', ')}`,
    ...isReadOnly ? ['set session transaction read only'] : [],
  ];
}
