/**
 * Parses the addresses of databases, and hides the password of an address in messages. Addresses:
 *   sqlite:./data.db   sqlite:data.db       relative to the working directory
 *   sqlite:///abs/path.db                   an absolute path; percent-encoding is decoded
 *   sqlite::memory:                         in memory, lost when the process ends
 *   ...?mode=ro&synchronous=normal          ro: reads only, like the option readOnly
 *   postgres://user:password@host/database  see db/postgres/url.ts
 *   mysql://... mariadb://...               see db/mysql/url.ts
 */
import { resolve } from 'node:path';
import { SvcError } from '../base/errors.ts';
import { didYouMean, shown } from '../base/options.ts';
import { parseMySqlUrl, type MySqlUrl } from './mysql/url.ts';
import { parsePostgresUrl, type PostgresUrl } from './postgres/url.ts';
import { MEMORY } from './sqlite/connection.ts';
import type { Dialect } from './driver.ts';

export type DatabaseUrl = SqliteUrl | PostgresUrl | MySqlUrl;

export interface SqliteUrl {
  readonly dialect: 'sqlite';
  /** Absolute path of the file, or `:memory:`. */
  readonly path: string;
  readonly isReadOnly: boolean;
  readonly synchronous: 'full' | 'normal' | undefined;
}

const SCHEMES: Readonly<Record<string, Dialect>> = {
  sqlite: 'sqlite',
  sqlite3: 'sqlite',
  file: 'sqlite',
  postgres: 'postgres',
  postgresql: 'postgres',
  mysql: 'mysql',
  mariadb: 'mariadb',
};
const SQLITE_KEYS: Readonly<Record<string, readonly string[]>> = {
  mode: ['ro', 'rw'],
  synchronous: ['full', 'normal'],
};

export function parseDatabaseUrl(url: string): DatabaseUrl {
  const problem = textIssue(url);
  if (problem !== undefined)
    throw new SvcError('E_DB_URL', [typeof url === 'string' ? shownUrl(url) : shown(url), problem]);
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z\d+.-]*):(.*)$/s.exec(url) ?? [];
  if (url === '')
    refuse(url, 'the address is empty: set SVC_DATABASE_URL, or the setting that the program reads');
  if (scheme === '')
    refuse(url, 'the address does not begin with "sqlite:", "postgres:", "mysql:" or "mariadb:"');
  const dialect = Object.hasOwn(SCHEMES, scheme.toLowerCase()) ? SCHEMES[scheme.toLowerCase()] : undefined;
  if (dialect === undefined)
    refuse(
      url,
      `the scheme "${scheme}" is not supported${didYouMean(scheme.toLowerCase(), Object.keys(SCHEMES))}`,
    );
  if (dialect === 'postgres') return parsePostgresUrl(rest, (problem) => refuse(url, problem));
  if (dialect === 'mysql' || dialect === 'mariadb')
    return parseMySqlUrl(dialect, rest, (problem) => refuse(url, problem));
  if (scheme !== 'sqlite') refuse(url, `the scheme must be "sqlite", found "${scheme}"`);
  const [place, query] = rest.split(/\?(.*)/s);
  const keys = queryOf(url, query);
  return {
    dialect,
    path: pathOf(url, place!),
    isReadOnly: keys.get('mode') === 'ro',
    synchronous: keys.get('synchronous') as 'full' | 'normal' | undefined,
  };
}

/**
 * Returns the reason why a value cannot be an address, for example because an environment variable is not
 * set. Otherwise returns undefined.
 */
export function textIssue(url: unknown): string | undefined {
  if (typeof url !== 'string')
    return 'the address is not text: perhaps it comes from a variable that is not set';
  return /\s$/.test(url)
    ? 'it ends with white space: perhaps it comes from a file, whose last line has an end'
    : undefined;
}

/** Returns an address for logs and messages: without its password, and without the values of its query. */
export function shownUrl(url: string): string {
  return url.replace(/^([^:]*:\/\/[^/@:]*):[\s\S]*@/, '$1:…@').replace(/([?&][^=&]*=)[^&]*/g, '$1…');
}

/** Returns the address of another database on the same server. */
export function withDatabase(url: string, database: string): string {
  const [place, query] = url.split(/\?(.*)/s);
  const settings = (query ?? '').split('&').filter((part) => part !== '' && !part.startsWith('dbname='));
  // a valid address of a server has two slashes before its host
  const server = /^[^:]*:\/\/[^/]*/.exec(place!)![0];
  return `${server}/${database}${settings.length === 0 ? '' : `?${settings.join('&')}`}`;
}

/**
 * Returns an address with the settings of another one that decide what the text of a statement means: the schemas of
 * PostgreSQL, and the mode of MySQL and MariaDB. Settings of the address itself stay.
 */
export function withMeaning(url: string, other: string): string {
  for (const [, setting, name] of other.matchAll(/[?&]((set\.(?:search_path|sql_mode))=[^&]*)/g))
    if (!url.includes(`${name}=`)) return `${url}${url.includes('?') ? '&' : '?'}${setting}`;
  return url;
}

/** Returns an address whose session may be read-only. `read-write` in the address contradicts that. */
export function readingAddress(url: string, dialect: Dialect): string {
  return url.replace(
    /([?&]target_session_attrs=)read-write\b/,
    `$1${dialect === 'postgres' ? 'primary' : 'any'}`,
  );
}

function pathOf(url: string, place: string): string {
  if (place === MEMORY) return MEMORY;
  if (place === '' || place === '/' || place.endsWith('/'))
    refuse(url, 'the address does not name a file: write an address such as sqlite:./data.db');
  if (place.startsWith('//') && !place.startsWith('///'))
    refuse(
      url,
      'an address of SQLite has no host, but "//" begins a host: write sqlite:./path or sqlite:///path',
    );
  let path: string;
  try {
    path = decodeURIComponent(place.replace(/^\/\//, ''));
  } catch {
    refuse(url, 'the percent-encoding of the address is invalid: write "%" as %25');
  }
  if (path.includes('\0')) refuse(url, 'the path contains a NUL character');
  return resolve(path);
}

function queryOf(url: string, query: string | undefined): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const [key, value] of new URLSearchParams(query ?? '')) {
    if (!Object.hasOwn(SQLITE_KEYS, key))
      refuse(url, `unknown setting "${key}"${didYouMean(key, Object.keys(SQLITE_KEYS))}`);
    if (!SQLITE_KEYS[key]!.includes(value))
      refuse(url, `"${key}" must be one of ${SQLITE_KEYS[key]!.map((word) => `"${word}"`).join(', ')}`);
    if (keys.has(key)) refuse(url, `"${key}" appears twice`);
    keys.set(key, value);
  }
  return keys;
}

function refuse(url: string, problem: string): never {
  throw new SvcError('E_DB_URL', [shownUrl(url), problem]);
}
