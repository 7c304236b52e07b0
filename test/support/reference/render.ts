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
  const names = new Map(exportsOf(file).map((exported) => [exported.name, exported] as const));
  const rows = [...names].map(([name, exported]) => {
    const declared = declarationsFor(file, exported);
    assert.ok(declared.length > 0, `${entry}: no declaration of ${name}`);
    const subject = subjectOf(declarationOf(file, exported).file);
    return { name, subject, row: rowOf(name, declared, sectionOf(entry, name, subject)) };
  });
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

const READ = new Map<string, readonly Declaration[]>();

function declarationsFor(file: string, exported: Exported): readonly Declaration[] {
  const source = declarationOf(file, exported);
  const path = relative(join(ROOT, 'src'), source.file).split(sep).join('/').replace(/\.ts$/, '.d.ts');
  const known = READ.get(path) ?? declarationsOf(readFileSync(join(ROOT, 'dist', path), 'utf8'));
  READ.set(path, known);
  return known.filter((each) => each.name === source.name);
}

/** Manuals that describe what folders without a manual declare. */
const HOMES: Readonly<Record<string, string>> = { base: 'app', crypto: 'auth', observability: 'operations' };

function subjectOf(file: string): string {
  const [folder = ''] = relative(join(ROOT, 'src'), file).split(sep);
  return `src/${HOMES[folder] ?? folder}/README.md`;
}

function rowOf(name: string, declared: readonly Declaration[], section: string): string {
  const doc = oneLine(linked(declared.find((each) => each.doc !== '')?.doc ?? ''));
  const [sentence = doc] = /^.*?[^.\s][.!?](?=\s+[A-Z`(]|$)/.exec(doc) ?? [];
  return `| [\`${name}\`](${section}) | ${cell(sentence)} |`;
}

/**
 * Returns a link to the section with the first example that imports the name, in the manual of its subject or
 * else in another; without an example, to the first section that mentions it; else to the manual.
 */
function sectionOf(entry: string, name: string, subject: string): string {
  const word = new RegExp(`\\b${name}\\b`);
  const examples = manuals().filter(({ path }) => path !== 'src/REFERENCE.md' && !path.startsWith('test/'));
  const ofSubject = examples.filter(({ path }) => path === subject);
  for (const { path, text } of [...ofSubject, ...examples]) {
    for (const { index, 1: program } of text.matchAll(/^ *```ts\n([^]*?)^ *```/gm)) {
      const imports = [...program!.matchAll(/^import (?:type )?\{([^}]*)\} from '([^']+)'/gm)];
      if (imports.some(([, names, from]) => from === entry && word.test(names!)))
        return linkTo(path, text.slice(0, index));
    }
  }
  const mention = word.exec(manual(subject))?.index;
  return mention === undefined
    ? posix.relative('src', subject)
    : linkTo(subject, manual(subject).slice(0, mention));
}

/** Returns a link to the section that the last heading of `before` begins. */
function linkTo(path: string, before: string): string {
  const title = [...before.replace(/^```[^]*?^```/gm, '').matchAll(/^#{1,3} (.+)$/gm)].at(-1)?.[1];
  return `${posix.relative('src', path)}${title === undefined ? '' : `#${anchorOf(title)}`}`;
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
