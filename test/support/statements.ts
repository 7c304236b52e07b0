/**
 * Finds the SQL statements of a program, and judges them by a database in memory. Lines of the program are marked with
 * the rules of their findings: `// SVC411`, or `-- SVC411` inside of a statement.
 */
import { basename, join } from 'node:path';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { examineSources } from '../../src/check/examine.ts';
import { findStatements } from '../../src/check/statements/judge.ts';
import { readProject } from '../../src/check/reader/modules.ts';
import { DatabaseDescriber } from '../../src/db/describe/describer.ts';
import { openDatabase } from '../../src/db/index.ts';
import { fileOfPlace } from '../../src/base/findings.ts';
import { folder } from './run.ts';
import type { TestContext } from 'node:test';
import type { DeclaredInputs } from '../../src/check/values/inputs.ts';
import type { SourceReport } from '../../src/check/examine.ts';
import type { Database } from '../../src/db/index.ts';
import type { Describer } from '../../src/db/describe/describer.ts';
import type { Finding } from '../../src/base/findings.ts';

/** Reads a program from a folder of its own. The entry is `app.ts`. */
export function sourcesOf(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  inputs?: DeclaredInputs,
): SourceReport {
  return examineSources(readProject([join(folder(t, files), 'app.ts')]), CORE_RULES, inputs);
}

/** Returns the texts that each call of a program may send, and `?` for a text that is not known. */
export function textsOf({ statements }: SourceReport): readonly string[] {
  return statements.calls.flatMap(({ statements: known, unknown }) => [
    ...known.keys(),
    ...(unknown === undefined ? [] : ['?']),
  ]);
}

/** Opens a database of SQLite in memory with a schema, for the length of a test. */
export async function describerOf(
  t: TestContext,
  schema: string,
  { snakeCase = false }: { readonly snakeCase?: boolean } = {},
): Promise<Describer> {
  const database = await openDatabase('sqlite::memory:');
  await database.script(schema);
  const describer = await describerOn(database, snakeCase);
  t.after(() => describer[Symbol.asyncDispose]());
  return describer;
}

/** Returns the describer of an open database. */
export function describerOn(database: Database, snakeCase: boolean = false): Promise<Describer> {
  return DatabaseDescriber.open(database, {
    snakeCase,
    hash: '0123456789abcdef',
    ownTypes: new Set(),
    timeoutMs: 10_000,
  });
}

/** Returns the findings about the statements of a program. */
export function judged({ statements, sources }: SourceReport, describer: Describer): Promise<Finding[]> {
  const describers = new Map([['database', describer]]);
  return findStatements({ finder: statements, sources, describers, databases: ['database'] }, CORE_RULES);
}

/** Returns `rule file:line` of findings, sorted. */
export function linesOf(findings: readonly Finding[]): string[] {
  return findings.map(({ rule, place }) => `${rule} ${basename(fileOfPlace(place!))}:${place!.line}`).sort();
}

/** Returns `rule file:line` of the marks in a program, sorted. */
export function marksOf(files: Readonly<Record<string, string>>): string[] {
  return Object.entries(files)
    .flatMap(([name, text]) =>
      text.split('\n').flatMap((line, index) => {
        const rules = /(?:\/\/|--) ((?:SVC\d+ ?)+)$/.exec(line)?.[1];
        return rules === undefined ? [] : rules.split(' ').map((rule) => `${rule} ${name}:${index + 1}`);
      }),
    )
    .sort();
}
