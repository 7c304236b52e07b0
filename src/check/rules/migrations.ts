/**
 * Rule about migrations (SVC423): columns that give rights by default, and changes that fail or wait on a table with rows. The
 * texts of statements in the sources count, too.
 */
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';
import { isMigratable } from '../../db/migrations/start.ts';
import { partsIn } from '../reader/nodes.ts';
import { createsIndex, declaredColumns } from '../statements/written-schema.ts';
import type { ApplicationView, CoreRule, ReportFinding } from '../check.ts';
import type { Migratable } from '../../db/migrations/start.ts';
import type { ReportAt, SourcePart, Sources } from '../sources.ts';
import type { Token } from '../statements/outline.ts';

/** Rules about migrations. */
export const MIGRATION_RULES: readonly CoreRule[] = [
  {
    id: 'SVC423',
    severity: 'warning',
    phase: 'environment',
    cwe: [1188, 276],
    sources: ['PostgreSQL: ALTER TABLE, Building Indexes Concurrently'],
    why: 'A default applies to each row that a statement inserts without the column, and to all rows that are there. A change of a large table fails, or keeps all writers waiting',
    remedy:
      'Give rights by a statement of their own, and let the default be the least: is_admin boolean not null default false',
    wrong: 'alter table person add column is_admin boolean not null default true;',
    right: 'alter table person add column is_admin boolean not null default false;',
    run: findMigrations,
  },
];

/** Searches of the sources about migrations. */
export const MIGRATION_PARTS: readonly SourcePart[] = [{ id: 'SVC423', find: findTexts }];

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
function rightsIn(text: string): readonly Risk[] {
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

function findMigrations({ plugins }: ApplicationView, report: ReportFinding): void {
  for (const plugin of plugins.filter(isMigratable)) {
    const old = new Set<string>();
    for (const { isContributed, up } of migrationsOf(plugin)) {
      const made = up.statements
        .flatMap(({ text }) => declaredColumns(text))
        .filter(({ isAdded }) => !isAdded);
      for (const { text, line } of isContributed ? [] : up.statements)
        for (const { token, message, remedy } of [
          ...rightsIn(text),
          ...delaysIn(text, old, plugin.dialect),
        ]) {
          const file = pathToFileURL(resolve(up.origin)).href;
          const at = line + text.slice(0, token.start).split('\n').length - 1;
          report(
            `database ${plugin.name}`,
            message,
            { file, line: at, column: 1 },
            remedy === undefined ? {} : { remedy },
          );
        }
      for (const { table } of made) old.add(table);
    }
  }
}

function migrationsOf(plugin: Migratable): ReturnType<NonNullable<Migratable['migrationsFor']>> {
  try {
    return plugin.migrationsFor?.() ?? [];
  } catch {
    return []; // SVC402 reports migrations that cannot be read
  }
}

/** SVC423: statements in the sources that make tables. */
function findTexts({ project }: Sources, report: ReportAt): void {
  for (const module of project.modules)
    for (const node of partsIn(module.body)) {
      const text = node.type === 'text' ? node.value : node.type === 'template' ? node.texts.join(' ') : '';
      for (const { token, message } of /\bcreate\s+table|\balter\s+table/i.test(text) ? rightsIn(text) : [])
        report({ module, node: { ...node, start: node.start + 1 + token.start } }, message);
    }
}
