/**
 * Migrations that give rights by default, and those that fail or wait on a table with rows (SVC423). Reads the texts of their
 * statements only.
 */
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';
import { createsIndex, declaredColumns } from './written-schema.ts';
import type { RuleText } from '../check.ts';
import type { Finding } from '../../base/findings.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { Token } from './outline.ts';

/** Columns with rights, and the defaults that give them. */
const RIGHTS: readonly (readonly [column: RegExp, given: RegExp])[] = [
  [
    /^(?:is_?)?(?:admin|administrator|superuser|staff|moderator|owner)$/,
    /^(?:1|true|'t'|'true'|'1'|'y'|'yes')$/,
  ],
  [/^(?:is_?|e?mail_?|phone_?)?(?:verified|approved|confirmed)$/, /^(?:1|true|'t'|'true'|'1'|'y'|'yes')$/],
  [/^(?:\w+_)?roles?$/, /^'(?:admin|administrator|superuser|superadmin|owner|root|staff|moderator)'$/],
];

interface Risk {
  readonly token: Token;
  readonly message: string;
  readonly remedy?: string;
}

/** Returns the columns of statements that have rights by default. */
export function rightsIn(text: string): readonly Risk[] {
  return declaredColumns(text).flatMap(({ table, part }) => {
    const [column] = part;
    const given = part[part.findIndex(({ word }) => word === 'default') + 1];
    const isGiven = RIGHTS.some(
      ([name, value]) => name.test(column?.name ?? '') && value.test(given?.text.toLowerCase() ?? ''),
    );
    return column === undefined || given === undefined || !isGiven
      ? []
      : [
          {
            token: column,
            message: `each row of the table "${table}" has "${column.name}" by default: ${given.text}`,
          },
        ];
  });
}

/** Returns what fails or waits on a table that an earlier migration has made. */
function delaysIn(text: string, old: ReadonlySet<string>, dialect: Migratable['dialect']): readonly Risk[] {
  const absent = declaredColumns(text)
    .filter(
      ({ table, isAdded }) => isAdded && old.has(table) && /^(?:postgres|sqlite)$/.test(dialect ?? 'sqlite'),
    )
    .filter(({ part }) => {
      const isRequired = part.some(({ word }, index) => word === 'not' && part[index + 1]?.word === 'null');
      return isRequired && !part.some(({ word }) => /^(?:default|generated|serial|bigserial|as)$/.test(word));
    })
    .map(({ table, part }) => ({
      token: part[0]!, // a part has a token
      message: `the rows that are in the table "${table}" have no value for the column "${part[0]!.name}", which is not null and has no default, so the migration fails`,
      remedy:
        'Add the column with a default, or without "not null", fill it, and require it in a later migration',
    }));
  const index = dialect === 'postgres' ? createsIndex(text) : undefined;
  return index === undefined || !old.has(index.table)
    ? absent
    : [
        ...absent,
        {
          token: index.token,
          message: `all writers of the table "${index.table}" wait until the index is complete`,
          remedy: 'Write -- svc: no-transaction at the beginning of the file, and create index concurrently',
        },
      ];
}

/** Returns the findings about the migrations of databases. */
export function riskyMigrations(
  plugins: readonly Migratable[],
  { severity, remedy: usual }: Pick<RuleText, 'severity' | 'remedy'>,
): readonly Finding[] {
  return plugins.flatMap((plugin) => {
    const old = new Set<string>();
    return migrationsOf(plugin).flatMap(({ isContributed, up }) => {
      const file = pathToFileURL(resolve(up.origin)).href;
      const found = (isContributed ? [] : up.statements).flatMap(({ text, line }) =>
        [...rightsIn(text), ...delaysIn(text, old, plugin.dialect)].map(
          ({ token, message, remedy = usual }): Finding => ({
            rule: 'SVC423',
            severity,
            subject: `database ${plugin.name}`,
            message,
            remedy,
            place: { file, line: line + text.slice(0, token.start).split('\n').length - 1, column: 1 },
          }),
        ),
      );
      for (const { text } of up.statements)
        for (const { table, isAdded } of declaredColumns(text)) if (!isAdded) old.add(table);
      return found;
    });
  });
}

function migrationsOf(plugin: Migratable): ReturnType<NonNullable<Migratable['migrationsFor']>> {
  try {
    return plugin.migrationsFor?.() ?? [];
  } catch {
    return []; // SVC402 reports migrations that cannot be read
  }
}
