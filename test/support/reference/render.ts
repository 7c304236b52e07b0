/**
 * Creates src/REFERENCE.md: every exported name, and tables from the sources.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';
import { ROOT } from '../build.ts';
import { manuals } from '../manuals.ts';
import { declarationsOf } from './declarations.ts';
import { declarationOf, entryPoints, exportsOf } from './exports.ts';
import { cell, commandOptions, errorCodes, events, findings, metrics, variables } from './tables.ts';
import type { Declaration, Member } from './declarations.ts';

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
    '`npm run docs` writes this page from the sources. Exported names:',
    entries.map(([entry]) => `[\`${entry}\`](#${anchorOf(entry)}) (${TITLES[entry] ?? ''})`).join(', ') + '.',
    `Tables: ${tables.map(([title]) => `[${title.toLowerCase()}](#${anchorOf(title)})`).join(', ')}.`,
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

/**
 * Returns sections for the names of an entry point, sorted. A name that is a type and a value has one
 * section.
 */
function namesOf(entry: string, file: string): string[] {
  const names = new Map(exportsOf(file).map((exported) => [exported.name, exported] as const));
  return [...names]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, exported]) => {
      const source = declarationOf(file, exported);
      const declared = declarationsIn(source.file).filter(
        // leave out overloads that only explain a mistake
        (each) => each.name === source.name && !/\bWrong\w+</.test(each.head),
      );
      assert.ok(declared.length > 0, `${entry}: no declaration of ${name} in ${source.file}`);
      return [`### ${name}`, '', ...describe(name, declared), ...exampleOf(entry, name)];
    });
}

const READ = new Map<string, readonly Declaration[]>();

function declarationsIn(source: string): readonly Declaration[] {
  const path = relative(join(ROOT, 'src'), source).split(sep).join('/').replace(/\.ts$/, '.d.ts');
  const known = READ.get(path) ?? declarationsOf(readFileSync(join(ROOT, 'dist', path), 'utf8'));
  READ.set(path, known);
  return known;
}

function describe(name: string, declared: readonly Declaration[]): string[] {
  const [first] = declared as [Declaration];
  const docs = [...new Set(declared.map(({ doc }) => doc).filter((doc) => doc !== ''))];
  const heads = declared.map(({ head, name: own }) =>
    head.replace(new RegExp(`\\b${own.replace('$', '\\$')}\\b`), name),
  );
  const constructors = first.members.filter(({ text }) => /^constructor\(/.test(text));
  const signatures =
    first.kind === 'class'
      ? constructors.map(({ text }) => text.replace(/^constructor/, `new ${name}`)).concat(heads)
      : heads;
  return [
    ...docs.flatMap((doc) => [...prose(doc), '']),
    ...(first.kind === 'interface' && first.members.length > 0 && !/ extends /.test(first.head)
      ? []
      : ['```typescript', ...signatures, '```', '']),
    ...membersTable({ ...first, members: first.members.map((member, at) => explained(member, at, first)) }),
  ];
}

/** Returns a member with the comment of an earlier overload, or of the type that it implements, if it has none. */
function explained(member: Member, at: number, { members, head }: Declaration): Member {
  const name = nameOf(member);
  if (member.doc !== '' || name === undefined) return member;
  const overload = members.slice(0, at).findLast((each) => nameOf(each) === name && each.doc !== '');
  const [, bases = ''] = /\b(?:extends|implements) ([^]*)$/.exec(head) ?? [];
  const inherited = [...bases.matchAll(/[\w$]+/g)]
    .flatMap(([base]) => exportedTypes().get(base)?.members ?? [])
    .find((each) => nameOf(each) === name && each.doc !== '');
  return { ...member, doc: (overload ?? inherited)?.doc ?? '' };
}

/** Returns the name of a method; undefined for other members. */
export function nameOf({ text }: Member): string | undefined {
  return /^(?:static |abstract )*([\w$]+)\??[<(]/.exec(text)?.[1];
}

let types: ReadonlyMap<string, Declaration> | undefined;

/** Returns the exported classes and interfaces by name. */
function exportedTypes(): ReadonlyMap<string, Declaration> {
  types ??= new Map(
    entryPoints()
      .flatMap(([, file]) => exportsOf(file).map((exported) => declarationOf(file, exported)))
      .flatMap((source) => declarationsIn(source.file).filter(({ name }) => name === source.name))
      .filter(({ members }) => members.length > 0)
      .map((declaration) => [declaration.name, declaration] as const),
  );
  return types;
}

/**
 * Returns a table of the members of an interface or class, with the defaults that their doc comments name.
 */
function membersTable({ kind, members }: Declaration): string[] {
  const shown = members.filter(({ text }) => !/^(?:constructor\(|\[|static \[|readonly \[)/.test(text));
  if (shown.length === 0) return [];
  const isOptions = kind === 'interface' && shown.some(({ text }) => /^(?:readonly )?[\w$]+\?:/.test(text));
  if (!isOptions)
    return [
      '| member | meaning |',
      '|---|---|',
      ...shown.map((member) => `| ${code(oneLine(member.text))} | ${inCell(member.doc)} |`),
      '',
    ];
  return ['| member | type | default | meaning |', '|---|---|---|---|', ...shown.map(optionRow), ''];
}

/**
 * Pattern of a default that is a value: a number, a word in code or quotes, true, false or none. Other
 * defaults stay in the text.
 */
const DEFAULT =
  /\bDefault:?\s+((?:-?\d[\d_.]*\d|-?\d)(?: [KM]iB)?|`[^`]*`|'[^']*'|true|false|none)(?=[.,;:)]|$)/;

function optionRow({ doc, text }: Member): string {
  const [, name, optional, type] = /^(?:readonly )?([\w$'~]+)(\??):\s*([^]*)$/.exec(text) ?? [];
  if (name === undefined) return `| ${code(oneLine(text))} | | | ${inCell(doc)} |`;
  const shownType = oneLine(type!)
    .replace(/ \| undefined$/, '')
    .replace(/^\| /, '');
  const value = optional === '' ? 'required' : (DEFAULT.exec(doc)?.[1] ?? '');
  return `| \`${name}\` | ${code(shownType)} | ${inCell(value)} | ${inCell(doc)} |`;
}

function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``.replace(/^`(.*`.*)`$/, '`` $1 ``');
}

function oneLine(text: string): string {
  return text
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Returns a doc comment as paragraphs. Indented lines become code. */
function prose(doc: string): string[] {
  return linked(doc)
    .split(/\n\s*\n/)
    .flatMap((paragraph) =>
      /^ {2,}/.test(paragraph)
        ? ['```typescript', ...paragraph.split('\n').map((line) => line.replace(/^ {2}/, '')), '```', '']
        : [paragraph.replace(/\n\s*/g, ' ').replaceAll('<', '&lt;'), ''],
    )
    .slice(0, -1);
}

function inCell(doc: string): string {
  return cell(oneLine(linked(doc)));
}

/** Replaces `{@link X}` by code, and tags by words. */
function linked(doc: string): string {
  return doc
    .replace(/\{@link ([^}|]+)(?:\|[^}]*)?\}/g, '`$1`')
    .replace(/@throws\b/g, 'Throws')
    .replace(/@returns?\b/g, 'Returns')
    .replace(/@see\b/g, 'See');
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** Returns a link to the first example in a manual that imports the name. */
function exampleOf(entry: string, name: string): string[] {
  for (const { path, text } of manuals()) {
    if (path === 'src/REFERENCE.md' || path.startsWith('test/')) continue;
    for (const { index, 1: program } of text.matchAll(/^ *```ts\n([^]*?)^ *```/gm)) {
      const imports = [...program!.matchAll(/^import (?:type )?\{([^}]*)\} from '([^']+)'/gm)];
      if (!imports.some(([, names, from]) => from === entry && new RegExp(`\\b${name}\\b`).test(names!)))
        continue;
      const title = /^#{1,3} (.+)$/gm;
      const section = [...withoutCode(text.slice(0, index)).matchAll(title)].at(-1)?.[1] ?? path;
      const target = posix.relative('src', path);
      return [`Example: [${section.replaceAll('`', '')}](${target}#${anchorOf(section)})`, ''];
    }
  }
  return [];
}

function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```/gm, '');
}
