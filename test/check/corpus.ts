/**
 * A corpus for `svc check`: small applications, each in a file of its own that exports `app`, written before the rules.
 *
 *   corpus/SVC101-name.ts   one planted mistake: the line that must be named ends with `// SVC101`
 *   near/SVC101-name.ts     close to that mistake, and none: SVC101 must not be found, nor anything else
 *   clean/name.ts           realistic and without mistake: nothing must be found
 *
 * What a case expects is said by its comments alone. Of severity error and warning a check of it finds exactly what is marked, and
 * anything beyond that is a failure; several findings of the marked rule on the marked line count as one. What is of severity info
 * is a failure nowhere, and in corpus/ it must be found where it is marked. SVC404 depends on the machine as well (open files,
 * zone): it counts only where it is marked. A finding about what is absent (no security headers) is named where the application is
 * made: `new Svc(`; one about order, at the layer that stands in the wrong place; of two declarations that contradict each other, at the later one.
 *
 * The conditions of a case stand above its code, a line for each kind:
 *
 *   // env: SVC_ENV=development SVC_X={secret}   the environment; no other variable SVC_* is set, so that `env` is production.
 *                                                {secret}, {secret2} and {secret3} are good secrets, others in every run
 *   // args: --live --baseline SVC306-x.json     arguments of `svc check`; a file is one beside the application
 *   // files: migrations/a.sql=a.sql x.db=       what the working directory holds, in which there is nothing else: copies of files
 *                                                beside the application; without one, an empty file
 *   // imports: throws                           its import does not end well: `throws`, `listens`, `stays-open`, `slowly`. A fault
 *                                                of the package that a constructor throws is a finding of its rule, at that line
 *   // export: app                               says what is wrong with the export, for a mark
 *   // awaits: websocket                         needs a method of the application that may not be there yet
 *
 * A mark behind such a line is a mistake that no line of the code makes: its rule is looked for, its place is not.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { basename, join } from 'node:path';

/** How a case is checked, and what must be found. */
export interface Case {
  readonly kind: 'corpus' | 'near' | 'clean';
  /** `SVC101-name`. */
  readonly name: string;
  /** Absolute. */
  readonly file: string;
  /** In corpus/ the planted one, in near/ the one that is almost broken, in clean/ none. */
  readonly rule: `SVC${number}` | undefined;
  /** Of the mark, from 1; undefined where there is none, or no line of the code has it. */
  readonly line: number | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  /** By name in the working directory, the path of what is copied; `''` is an empty file. */
  readonly files: Readonly<Record<string, string>>;
  readonly imports: 'well' | 'throws' | 'listens' | 'stays-open' | 'slowly';
  /** Whether it exports an application as `app`, if it can be imported. */
  readonly hasApp: boolean;
  /** Methods of the application that it needs. */
  readonly awaits: readonly string[];
  /** Every mark of the file: one in corpus/, none elsewhere. */
  readonly marks: readonly Mark[];
}

/** One comment that names a rule at the end of a line. */
export interface Mark {
  readonly rule: `SVC${number}`;
  readonly line: number;
  readonly isInHeader: boolean;
}

const MARK = /\/\/ (SVC\d{3})\s*$/;
const HEADER = /^\/\/ (env|args|files|imports|export|awaits): (.*?)(?:\s*\/\/ SVC\d{3})?$/;

/** The cases of a folder, by name. */
export function casesOf(kind: Case['kind']): readonly Case[] {
  const folder = join(import.meta.dirname, kind);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .map((name) => readCase(kind, join(folder, name)));
}

/** All of them. */
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

/** `a=b` in two. */
function pair(word: string): [string, string] {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}
