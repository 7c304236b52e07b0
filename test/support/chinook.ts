/**
 * The schema of the public Chinook database (a music shop), with one text for all engines, and rows for it.
 * The rows are generated, so that the tests need no download. CHINOOK_SQL names the public script for SQLite,
 * whose rows are used instead.
 */
import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { seeded } from './random.ts';
import type { Database, Dialect, Parameter } from '../../src/db/index.ts';

type Rows = readonly (readonly Parameter[])[];

/** Tables with their columns, in the order of their foreign keys. TYPES has the type `at`. */
const TABLES: Readonly<Record<string, string>> = {
  artist: 'artist_id integer primary key, name varchar(120)',
  album:
    'album_id integer primary key, title varchar(160) not null, artist_id integer not null references artist (artist_id)',
  employee:
    'employee_id integer primary key, last_name varchar(20) not null, first_name varchar(20) not null, title varchar(30), reports_to integer, city varchar(40), country varchar(40), email varchar(60)',
  customer:
    'customer_id integer primary key, first_name varchar(40) not null, last_name varchar(20) not null, company varchar(80), city varchar(40), state varchar(40), country varchar(40), email varchar(60) not null, support_rep_id integer references employee (employee_id)',
  genre: 'genre_id integer primary key, name varchar(120)',
  media_type: 'media_type_id integer primary key, name varchar(120)',
  playlist: 'playlist_id integer primary key, name varchar(120)',
  track:
    'track_id integer primary key, name varchar(200) not null, album_id integer references album (album_id), media_type_id integer not null references media_type (media_type_id), genre_id integer references genre (genre_id), composer varchar(220), milliseconds integer not null, bytes integer, unit_price numeric(10,2) not null',
  playlist_track:
    'playlist_id integer not null references playlist (playlist_id), track_id integer not null references track (track_id), primary key (playlist_id, track_id)',
  invoice:
    'invoice_id integer primary key, customer_id integer not null references customer (customer_id), invoice_date at not null, billing_city varchar(40), billing_country varchar(40), total numeric(10,2) not null',
  invoice_line:
    'invoice_line_id integer primary key, invoice_id integer not null references invoice (invoice_id), track_id integer not null references track (track_id), unit_price numeric(10,2) not null, quantity integer not null',
};
const CONSTRAINT = new Set(['primary']);

/** Returns the column names of a table. */
function columnsOf(table: string): string[] {
  return TABLES[table]!.split(/, (?![^(]*\))/)
    .map((column) => column.split(' ')[0]!)
    .filter((name) => !CONSTRAINT.has(name));
}

/** Type of a date with time, and a collation in which text has the order of its bytes. */
const TYPES: Readonly<Record<Dialect, readonly [at: string, collation: string]>> = {
  sqlite: ['text', ''],
  postgres: ['timestamp', 'collate "C"'],
  mysql: ['datetime', 'character set utf8mb4 collate utf8mb4_bin'],
  mariadb: ['datetime', 'character set utf8mb4 collate utf8mb4_bin'],
};

/** Columns of each table. */
export const CHINOOK_TABLES: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.keys(TABLES).map((table) => [table, columnsOf(table)]),
);

/** Creates the tables, and fills them. */
export async function openChinook(db: Database): Promise<void> {
  const [at, collation] = TYPES[db.dialect];
  const script = process.env['CHINOOK_SQL'];
  const rows = script === undefined ? generated() : published(script);
  for (const [table, columns] of Object.entries(TABLES)) {
    const typed = columns.replace(' at ', ` ${at} `).replaceAll(/varchar\(\d+\)/g, `$& ${collation}`);
    await db.execute(`create table ${table} (${typed})`);
    await db.insertMany(table, columnsOf(table), rows[table]!);
  }
}

/** Returns the rows of the public script. Its names are in CamelCase: `invoice_line` is `InvoiceLine`. */
function published(script: string): Readonly<Record<string, Rows>> {
  using database = new DatabaseSync(':memory:');
  database.exec(readFileSync(script, 'utf8'));
  const camel = (name: string): string =>
    name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(
    Object.keys(TABLES).map((table) => {
      const columns = columnsOf(table).map(camel);
      const rows = database.prepare(`select ${columns.join(', ')} from ${camel(table)}`).all();
      return [table, rows.map((row) => columns.map((name) => row[name] as Parameter))];
    }),
  );
}

const COUNTRIES = ['USA', 'Canada', 'Brazil', 'France', 'Germany', 'Norway', 'Österreich', "Côte d'Ivoire"];
const WORDS = [
  'Black',
  'Água',
  'Love',
  '100%',
  "Rock'n'Roll",
  'a_b',
  'Śpiew',
  'Sun "live"',
  'Back\\slash',
  'Blue',
];

/** Generates rows of the same kind as the public ones, with NULL, quotes and letters beyond ASCII. */
function generated(): Readonly<Record<string, Rows>> {
  const random = seeded(1954);
  const list = <T>(count: number, make: (id: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index + 1));
  const pick = <T>(values: readonly T[]): T => values[random(values.length)]!;
  const words = (): string => `${pick(WORDS)} ${pick(WORDS)}`;
  const prices = list(300, () => pick(['0.99', '0.99', '1.99']));
  const lines: Parameter[][] = [];
  const invoice = list(180, (id): Parameter[] => {
    const country = pick(COUNTRIES);
    let cents = 0;
    for (let left = 1 + random(6); left > 0; left--) {
      const track = 1 + random(300);
      const quantity = 1 + random(2);
      lines.push([lines.length + 1, id, track, prices[track - 1]!, quantity]);
      cents += Number(prices[track - 1]!.replace('.', '')) * quantity;
    }
    const two = (value: number): string => String(value).padStart(2, '0');
    const date = `${2021 + random(5)}-${two(1 + random(12))}-${two(1 + random(28))} ${two(random(24))}:00:00`;
    return [id, 1 + random(40), date, words(), country, `${Math.floor(cents / 100)}.${two(cents % 100)}`];
  });
  const inPlaylists = new Map(
    list(400, () => [1 + random(6), 1 + random(300)] as const).map((pair) => [pair.join(), pair]),
  );
  return {
    artist: list(25, (id) => [id, `${words()} ${id}`]),
    album: list(50, (id) => [id, words(), 1 + random(25)]),
    employee: list(8, (id) => [
      id,
      `Last${id}`,
      pick(WORDS),
      id < 3 ? 'Sales Manager' : id < 7 ? 'Sales Support Agent' : 'IT Staff',
      id === 1 ? null : 1,
      'Calgary',
      'Canada',
      `e${id}@example.com`,
    ]),
    customer: list(40, (id) => [
      id,
      pick(WORDS),
      `Last${id}`,
      random(3) === 0 ? 'Company & Söhne' : null,
      words(),
      null,
      pick(COUNTRIES),
      `c${id}@example.com`,
      3 + random(4),
    ]),
    genre: list(10, (id) => [id, `Genre ${id}`]),
    media_type: list(4, (id) => [id, `Media ${id}`]),
    playlist: list(8, (id) => [id, `${pick(WORDS)} list ${id}`]),
    track: list(300, (id) => [
      id,
      words(),
      random(10) === 0 ? null : 1 + random(50),
      1 + random(4),
      1 + random(10),
      random(3) === 0 ? null : pick(WORDS),
      100_000 + random(400_000),
      random(9) === 0 ? null : random(9_000_000),
      prices[id - 1]!,
    ]),
    playlist_track: [...inPlaylists.values()],
    invoice,
    invoice_line: lines,
  };
}
