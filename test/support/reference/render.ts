/**
 * Creates src/REFERENCE.md: tables from the sources, and the exported names by subject.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';
import { ROOT } from '../build.ts';
import { MANUAL_PATHS, manual, manuals } from '../manuals.ts';
import { declarationsOf } from './declarations.ts';
import { declarationOf, entryPoints, exportsOf } from './exports.ts';
import { linked, oneLine, optionTable } from './options.ts';
import { cell, commandOptions, errorCodes, events, findings, metrics, variables } from './tables.ts';
import type { Exported } from './exports.ts';
import type { Declaration } from './declarations.ts';

const TITLES: Readonly<Record<string, string>> = {
  svc: 'the framework',
  'svc/oauth': 'login through identity providers',
  'svc/db': 'databases',
  'svc/testing': 'tests of applications',
};

/** Returns the text of src/REFERENCE.md, from the declarations in `dist`. */
export async function reference(): Promise<string> {
  const tables = [
    ['Command-line options', 'command options', await commandOptions()],
    ['Variables', 'variables', variables()],
    ['Findings', 'findings', findings()],
    ['Error codes', 'error codes', errorCodes()],
    ['Log events', 'events', events()],
    ['Metrics', 'metrics', metrics()],
  ] as const;
  const entries = entryPoints();
  return [
    '# Reference',
    '',
    '[All manuals](../README.md)',
    '',
    `Tables: ${tables.map(([title]) => `[${title.toLowerCase()}](#${anchorOf(title)})`).join(', ')}.`,
    'Exported names, by subject:',
    entries.map(([entry]) => `[\`${entry}\`](#${anchorOf(entry)}) (${TITLES[entry] ?? ''})`).join(', ') + '.',
    'Signatures and options stand in the declarations of the package, which an editor shows at each name.',
    '`npm run docs` writes this page, and the tables of options in the manuals, from the sources.',
    '',
    ...tables.flatMap(([title, mark, lines]) => [
      `## ${title}`,
      '',
      `<!-- ${mark} -->`,
      ...lines,
      `<!-- end of ${mark} -->`,
      '',
    ]),
    ...entries.flatMap(([entry, file]) => [`## ${entry}`, '', ...namesOf(entry, file)]),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}

const OPTION_TABLE = /(<!-- options of ([\w, ]+) -->\n)[^]*?(<!-- end of options -->)/g;

/** Returns a manual with its tables of options, from the declarations in `dist`. */
export function withOptionTables(text: string): string {
  return text.replace(
    OPTION_TABLE,
    (_all, before: string, names: string, after: string) =>
      `${before}${optionTable(names.split(', ')).join('\n')}\n${after}`,
  );
}

/** Writes src/REFERENCE.md and the tables of options in the manuals. */
export async function writeReference(): Promise<void> {
  for (const { path, text } of manuals())
    if (path !== 'src/REFERENCE.md') writeFileSync(join(ROOT, path), withOptionTables(text));
  writeFileSync(join(ROOT, 'src/REFERENCE.md'), await reference());
}

/** Returns a table of the names of an entry point for each manual. */
function namesOf(entry: string, file: string): string[] {
  const names = [
    ...new Map(exportsOf(file).map((exported) => [exported.name, exported] as const)).values(),
  ].map((exported) => {
    const declared = declarationsFor(file, exported);
    assert.ok(declared.length > 0, `${entry}: no declaration of ${exported.name}`);
    const home = homeOf(declarationOf(file, exported).file);
    const section = sectionOf({ entry, file, name: exported.name, declared, home });
    return { name: exported.name, declared, home, section };
  });
  // a type that no section names is documented with the name that uses it, perhaps by way of other types
  for (let isChanged = true; isChanged;) {
    const known = names.filter(({ section }) => section !== undefined);
    for (const each of names) each.section ??= sectionOfUser(each, known);
    isChanged = names.filter(({ section }) => section !== undefined).length > known.length;
  }
  const rows = names.map(({ name, declared, home, section }) => ({
    name,
    subject: section?.path.endsWith('/README.md') === true ? section.path : home,
    row: rowOf(name, declared, section?.link ?? posix.relative('src', home)),
  }));
  return MANUAL_PATHS.flatMap((path) => {
    const own = rows.filter(({ subject }) => subject === path);
    if (own.length === 0) return [];
    const title = manual(path).replace(/^# (.+)\n[^]*$/, '$1');
    return [
      `### ${title} (\`${entry}\`)`,
      '',
      '| name | what |',
      '|---|---|',
      ...own.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ row }) => row),
      '',
    ];
  });
}

interface Named {
  readonly name: string;
  readonly declared: readonly Declaration[];
  /** Path of the manual of the folder that declares the name. */
  readonly home: string;
  section: Section | undefined;
}

/**
 * Returns the section, in the same manual, that documents a name whose declaration mentions another one. A function
 * that makes the type, such as stateKey() for StateKey, comes first.
 */
function sectionOfUser({ name, home }: Named, known: readonly Named[]): Section | undefined {
  const word = new RegExp(`\\b${name}\\b`);
  const users = known.filter(
    ({ section, declared }) =>
      section?.path === home &&
      declared.some(({ head, members }) => word.test(head) || members.some(({ text }) => word.test(text))),
  );
  const maker = users.find((user) => user.name.toLowerCase() === name.toLowerCase());
  return (maker ?? users[0])?.section;
}

const READ = new Map<string, readonly Declaration[]>();

function declarationsFor(file: string, exported: Exported): readonly Declaration[] {
  const source = declarationOf(file, exported);
  const path = relative(join(ROOT, 'src'), source.file).split(sep).join('/').replace(/\.ts$/, '.d.ts');
  const known = READ.get(path) ?? declarationsOf(readFileSync(join(ROOT, 'dist', path), 'utf8'));
  READ.set(path, known);
  return known.filter((each) => each.name === source.name);
}

/** Manuals that describe what folders and files without a manual declare. */
const HOMES: Readonly<Record<string, string>> = {
  'base/errors.ts': 'http',
  'base/findings.ts': 'check',
  base: 'app',
  crypto: 'auth',
  observability: 'operations',
};

function homeOf(file: string): string {
  const [folder = '', ...rest] = relative(join(ROOT, 'src'), file).split(sep);
  return `src/${HOMES[[folder, ...rest].join('/')] ?? HOMES[folder] ?? folder}/README.md`;
}

function rowOf(name: string, declared: readonly Declaration[], section: string): string {
  const doc = oneLine(linked(declared.find((each) => each.doc !== '')?.doc ?? ''));
  const [sentence = doc] = /^.*?[^.\s][.!?](?=\s+[A-Z`(]|$)/.exec(doc) ?? [];
  return `| [\`${name}\`](${section}) | ${cell(sentence)} |`;
}

interface Section {
  /** Path of the manual. */
  readonly path: string;
  readonly link: string;
  readonly title: string;
  /** Whether the section is the beginning of the manual. */
  readonly isOpening: boolean;
  readonly text: string;
}

let parsed: readonly Section[] | undefined;

/** Returns the sections of all manuals. Introductions, such as the tutorial, come last. */
function sections(): readonly Section[] {
  const isIntroduction = (path: string): boolean => !path.endsWith('/README.md');
  parsed ??= manuals()
    .filter(({ path }) => path !== 'src/REFERENCE.md' && !path.startsWith('test/'))
    .sort((left, right) => Number(isIntroduction(left.path)) - Number(isIntroduction(right.path)))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/^(#{1,3}) (.+)\n((?:^ *```[^]*?^ *```\n|(?!#{1,3} ).*\n)*)/gm)].map(
        ([, level, title = '', body = '']) => ({
          path,
          title,
          isOpening: level === '#',
          link: `${posix.relative('src', path)}#${anchorOf(title)}`,
          text: body,
        }),
      ),
    );
  return parsed;
}

/** A name whose section is searched, and the entry point that exports it from `file`. */
interface Searched extends Pick<Named, 'name' | 'declared' | 'home'> {
  readonly entry: string;
  readonly file: string;
}

/**
 * Returns the section that documents a name: one with the name in its heading or with a table of its options, else
 * the one that says the most about it, in the manual `home` or else in another.
 */
function sectionOf({ entry, file, name, declared, home }: Searched): Section | undefined {
  const word = new RegExp(`(?<![\\w/-])${name}(?![\\w/-])`);
  const isCompound = /[a-z][A-Z]|[A-Z]{2}/.test(name); // one word, such as Session, may stand for something else
  const isHeaded = ({ title }: Section): boolean =>
    title === name || ((isCompound || title.includes('`')) && word.test(title));
  const ownOptions = `${name.replace(/Middleware$/, '')}Options`;
  // svc/db has a Session too, which does not have the SessionOptions of svc
  const tables = exportsOf(file).some((each) => each.name === ownOptions) ? `${name}|${ownOptions}` : name;
  const options = new RegExp(`^(?:<!-- options of .*\\b(?:${tables})\\b|Options of \`${name}\`)`, 'm');
  const row = new RegExp(`^(?:\\| |- |\\d+\\. )(?:\\*\\*)?(?:\`[^\`]+\`, )*\`(?:new )?${name}[\`(<].*`, 'm');
  /** Whether a row of a table or list is about the name, and does not refer to another section. */
  const isDefined = (words: string): boolean => row.exec(words)?.[0].includes('](') === false;
  const alone = new RegExp(`\`(?:new )?${name}(?:\\([^\`]*\\))?\``, 'g');
  const isImportedIn = ({ text }: Section): boolean =>
    [...text.matchAll(/^import (?:type )?\{([^}]*)\} from '([^']+)'/gm)].some(
      ([, names, from]) => from === entry && word.test(names!),
    );
  const isCode = isCompound || /^[a-z]/.test(name);
  const isInterface = declared.some(({ kind }) => kind === 'interface');
  const [subject = name] = name.split(/(?=[A-Z][a-z])/); // as Trusted of TrustedHostMiddleware
  const titled = new RegExp(`^${subject}s?\\b`, 'i');
  /** Points for what a section says about the name, and for a program that imports it. */
  const weightOf = (section: Section): number => {
    const { text, title, isOpening } = section;
    const words = prose(text);
    const spans = isCode ? [...words.matchAll(/`[^`\n]+`/g)].filter(([span]) => word.test(span)) : [];
    const isImported = isImportedIn(section);
    // the name of an interface, such as `Host`, may be that of a header field, unless a program imports it
    const named = isCode || !isInterface || isImported ? [...words.matchAll(alone)].length : 0;
    const said =
      6 * Number(isDefined(words)) + 2 * Math.min(3, named + spans.length) + 3 * Number(isImported);
    if (said === 0 || isOpening) return said / 2;
    return said + 8 * Number(isCode && titled.test(title));
  };
  const heaviest = (all: readonly Section[]): { section: Section; weight: number } | undefined => {
    const [first] = all
      .map((section) => ({ section, weight: weightOf(section) }))
      .sort((left, right) => right.weight - left.weight);
    return first === undefined || first.weight === 0 ? undefined : first;
  };
  const all = sections();
  const own = heaviest(all.filter(({ path }) => path === home));
  const other = heaviest(isCode ? all : all.filter(isImportedIn));
  const isPassing =
    own === undefined ||
    (!own.section.isOpening && other !== undefined && other.weight >= PASSING * own.weight);
  return (
    all.find(isHeaded) ?? all.find(({ text }) => options.test(text)) ?? (isPassing ? other : own)?.section
  );
}

/** A manual mentions a name only in passing if another one says this many times as much about it. */
const PASSING = 4;

/** Returns a section without its programs and without its tables of options. */
function prose(text: string): string {
  return text.replace(/^ *```[^]*?^ *```/gm, '').replace(OPTION_TABLE, '');
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
