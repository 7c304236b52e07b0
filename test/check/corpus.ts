/**
 * Test cases for `svc check`: small applications, each in its own file that exports `app`.
 *
 *   corpus/SVC101-name.ts   one deliberate mistake, on the line that ends with the mark `// SVC101`
 *   near/SVC101-name.ts     correct code that resembles the mistake: the check must report nothing
 *   clean/name.ts           a realistic application without a mistake: the check must report nothing
 *
 * The comments of a case state the expected findings. The check must report each mark and no other error or warning.
 * Several findings of the marked rule on the marked line count as one. Notes (severity info) are required where a mark
 * names them and allowed everywhere. SVC404 depends on the machine, so it counts only where a mark names it.
 *
 * Place of a finding: a missing part is reported at `new Svc(`, a wrong order at the misplaced middleware, and a
 * contradiction at the later of two declarations.
 *
 * Header comments above the code state the conditions of a case, one line for each kind:
 *
 *   // env: SVC_ENV=development SVC_X={secret}   environment variables. No other SVC_* variable is set, so `env` is production.
 *                                                {secret}, {secret2} and {secret3} are strong secrets, new in each run
 *   // args: --live --baseline SVC306-x.json     arguments of `svc check`; a file name is relative to the folder of the case
 *   // files: migrations/a.sql=a.sql x.db=       all files of the working directory: copies from the folder of the case, or
 *                                                empty files where no source is named
 *   // imports: throws                           problem of the import: `throws`, `listens`, `stays-open` or `slowly`. A fault
 *                                                that a constructor of this package throws is a finding at its line
 *   // export: app                               the export is wrong; the line carries a mark
 *   // awaits: websocket                         method of the application that must exist, or the case is skipped
 *
 * A mark on a header line stands for a mistake without a line of code: the test compares the rule and ignores the place.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { basename, join } from 'node:path';

/** Conditions of a case and its expected finding. */
export interface Case {
  readonly kind: 'corpus' | 'near' | 'clean';
  /** File name without extension, such as `SVC101-name`. */
  readonly name: string;
  /** Absolute path of the application. */
  readonly file: string;
  /** Rule of the file name: the broken rule in corpus/, the resembled rule in near/, undefined in clean/. */
  readonly rule: `SVC${number}` | undefined;
  /** Line of the mark, from 1. Undefined without a mark, or when the mark is in the header. */
  readonly line: number | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  /** Source path of each file in the working directory, by name. `''` stands for an empty file. */
  readonly files: Readonly<Record<string, string>>;
  readonly imports: 'well' | 'throws' | 'listens' | 'stays-open' | 'slowly';
  /** Whether the module exports an application as `app`. */
  readonly hasApp: boolean;
  /** Methods of `Svc` that the case needs. */
  readonly awaits: readonly string[];
  /** Marks of the file: one in corpus/, none in near/ and clean/. */
  readonly marks: readonly Mark[];
}

/** A comment at the end of a line that names a rule. */
export interface Mark {
  readonly rule: `SVC${number}`;
  readonly line: number;
  readonly isInHeader: boolean;
}

const MARK = /\/\/ (SVC\d{3})\s*$/;
const HEADER = /^\/\/ (env|args|files|imports|export|awaits): (.*?)(?:\s*\/\/ SVC\d{3})?$/;

/** Returns the cases of a folder, sorted by name. */
export function casesOf(kind: Case['kind']): readonly Case[] {
  const folder = join(import.meta.dirname, kind);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .map((name) => readCase(kind, join(folder, name)));
}

/** Returns the cases of all three folders. */
export function allCases(): readonly Case[] {
  return [...casesOf('corpus'), ...casesOf('near'), ...casesOf('clean')];
}

function readCase(kind: Case['kind'], file: string): Case {
  const lines = readFileSync(file, 'utf8').split('\n');
  const headers = new Map(
    lines
      .map((line) => HEADER.exec(line))
      .filter((match) => match !== null)
      .map(([, key, value]) => [key!, value!]),
  );
  const words = (key: string): string[] => (headers.get(key) ?? '').split(' ').filter((word) => word !== '');
  const marks = marksOf(lines);
  const name = basename(file, '.ts');
  return {
    kind,
    name,
    file,
    marks,
    rule: /^SVC\d{3}/.exec(name)?.[0] as Case['rule'],
    line: marks[0]?.isInHeader === false ? marks[0].line : undefined,
    env: environmentOf(words('env')),
    args: words('args').map((word) => (word.endsWith('.json') ? join(file, '..', word) : word)),
    files: Object.fromEntries(
      words('files')
        .map(pair)
        .map(([target, source]) => [target, source === '' ? '' : join(file, '..', source)]),
    ),
    imports: (headers.get('imports') ?? 'well') as Case['imports'],
    hasApp: !headers.has('export'),
    awaits: words('awaits'),
  };
}

function marksOf(lines: readonly string[]): Mark[] {
  return lines.flatMap((line, index) => {
    const rule = MARK.exec(line)?.[1] as Mark['rule'] | undefined;
    return rule === undefined ? [] : [{ rule, line: index + 1, isInHeader: HEADER.test(line) }];
  });
}

function environmentOf(words: readonly string[]): Record<string, string> {
  const secrets = Object.fromEntries(
    ['{secret}', '{secret2}', '{secret3}'].map((word) => [word, randomBytes(32).toString('base64url')]),
  );
  return Object.fromEntries(words.map(pair).map(([name, value]) => [name, secrets[value] ?? value]));
}

/** Splits `a=b` at its first equals sign. */
function pair(word: string): [string, string] {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}
