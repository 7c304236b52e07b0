/**
 * Creates tables of the manuals from the sources: commands and their options, metrics, log events, error
 * codes, findings and variables. Each function returns the lines of a Markdown table.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS } from '../../../src/base/faults.ts';
import { variableOf } from '../../../src/base/config.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { rulesOf } from '../../../src/oauth/plugin-rules.ts';
import { ROOT } from '../build.ts';
import { anchorOf, blocksOf } from '../markdown.ts';
import { manuals } from '../manuals.ts';
import { unwrapped } from '../unwrapped.ts';
import type { Command } from '../../../src/cli/command.ts';
import type { ReadOptions } from '../../../src/oauth/plugin-options.ts';

const SOURCES: readonly (readonly [file: string, text: string])[] = readdirSync(join(ROOT, 'src'), {
  recursive: true,
  encoding: 'utf8',
})
  .map((file) => file.replaceAll('\\', '/'))
  .filter(
    // without files of new projects, and the examples of rules
    (file) => file.endsWith('.ts') && !file.startsWith('cli/starter/') && !file.startsWith('check/'),
  )
  .sort()
  .map((file) => [file, unwrapped(readFileSync(join(ROOT, 'src', file), 'utf8'))]);

/** Returns every match of a pattern in all sources. */
function found(pattern: RegExp): { readonly file: string; readonly match: RegExpExecArray }[] {
  return SOURCES.flatMap(([file, text]) => [...text.matchAll(pattern)].map((match) => ({ file, match })));
}

/** Returns text for a cell of a table. */
export function cell(text: string): string {
  return text.replaceAll("\\'", "'").replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

/**
 * Returns the commands that modules of `src/cli` export. The command `completion` is created from the others.
 */
export async function commands(): Promise<readonly Command[]> {
  const files = SOURCES.map(([file]) => file).filter((file) => /^cli\/\w+\.ts$/.test(file));
  const exported = await Promise.all(
    files.map(async (file) =>
      Object.entries((await import(join(ROOT, 'src', file))) as Record<string, unknown>),
    ),
  );
  return exported
    .flat()
    .flatMap(([name, value]) =>
      /^\w+Command$/.test(name) ? [(typeof value === 'function' ? value(() => ({})) : value) as Command] : [],
    );
}

/** Returns usage and summary of each command. */
export async function commandTable(): Promise<string[]> {
  return [
    '| command | what |',
    '|---|---|',
    ...(await commands()).map(
      ({ usage, summary }) =>
        `| ${usage
          .split('\n')
          .map((line) => `\`${line.trim().replaceAll('|', '\\|')}\``)
          .join('<br>')} | ${cell(summary)} |`,
    ),
  ];
}

/** Returns the options of each command, as its help describes them. */
export async function commandOptions(): Promise<string[]> {
  const rows = (await commands()).flatMap(({ usage, details, options }) => {
    const command = usage.trim().split(' ').slice(0, 2).join(' ');
    return Object.keys(options).map((option) => {
      const help = new RegExp(
        `^ +(--${option}(?![\\w-])(?:\\[=\\S*| <[^>]*>(?:=<[^>]*>)?| [a-z]+(?=  ))?) +(.*(?:\\n {12,}.*)*)$`,
        'm',
      ).exec(details);
      assert.ok(help !== null, `${command}: its help does not describe --${option}`);
      return `| \`${command}\` | \`${help[1]!}\` | ${cell(help[2]!.replace(/\s+/g, ' '))} |`;
    });
  });
  return ['| command | option | meaning |', '|---|---|---|', ...rows];
}

/** Returns metrics with their help texts. */
export function metrics(): string[] {
  const rows = found(
    /(?<=\.|shared)([cC]ounter|gauge|histogram)\(\s*(?:[\w.]+,\s*)?'(svc_\w+)',\s*'((?:[^'\\]|\\.)*)'(?:[^;]*?\[('[^\]]*)\])?/g,
  ).map(
    ({ match: [, kind, name, help, labels] }) =>
      `| \`${name!}${labels === undefined || !/^'[a-z_]+'(?:, '[a-z_]+')*$/.test(labels) ? '' : `{${labels.replaceAll("'", '')}}`}\` | ${kind!.toLowerCase()} | ${cell(help!)} |`,
  );
  return ['| metric | kind | what |', '|---|---|---|', ...new Set(rows.sort())];
}

/**
 * Returns log events with their levels and the sections that explain them. Without such a section, the link
 * leads to the manuals of the folders that write the event.
 */
export function events(): string[] {
  const said = new Map<string, { levels: Set<string>; files: Set<string> }>();
  const add = (event: string, level: string, file: string): void => {
    const one = said.get(event) ?? { levels: new Set(), files: new Set() };
    said.set(event, one);
    one.levels.add(level);
    one.files.add(file);
  };
  for (const {
    file,
    match: [, level, event],
  } of found(/\.(debug|info|warn|error)\(\s*'([a-z]+(?:_[a-z]+)*)'/g))
    add(event!, level!, file);
  for (const {
    file,
    match: [, level, choice],
  } of found(/[lL]og\.(debug|info|warn|error)\(([^'][^,\n]* \? '[^,\n]*),/g))
    // the event is one of several in a conditional expression
    for (const [, event] of choice!.matchAll(/[?:] '([a-z_]+)'/g)) add(event!, level!, file);
  for (const {
    file,
    match: [, event],
  } of found(/(?:audit|[lL]og)\??\.refused\('([a-z_]+)'/g))
    add(event!, 'warn', file); // an event of SecurityLog
  for (const {
    file,
    match: [, event],
  } of found(/#report\('([a-z_]+)'/g))
    if (file === 'cache/cached.ts') add(event!, 'error', file);
  for (const {
    file,
    match: [, event],
  } of found(/#onFailure\([^()']*'([a-z_]+)'/g))
    add(event!, 'error', file);
  for (const {
    file,
    match: [, level, event],
  } of found(/level: '([a-z]+)',\s*logger: [^,\n]*,\s*event: '([a-z_]+)'/g))
    add(event!, level!, file); // written without a method
  return [
    '| event | level | manual |',
    '|---|---|---|',
    ...[...said]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(
        ([event, { levels, files }]) =>
          `| \`${event}\` | ${[...levels].sort().join(', ')} | ${explanationsOf(event, [...new Set([...files].map(folderOf))]).join(', ')} |`,
      ),
  ];
}

/** Returns calls of a log whose event events() cannot read, because it is neither a text nor a choice of texts. */
export function unreadEvents(): string[] {
  return found(/[lL]og\??\.(?:debug|info|warn|error)\(\s*([^'\s][^,)\n]*)/g)
    .filter(({ match: [, event] }) => event !== 'event' && !event!.includes("? '"))
    .map(({ file, match: [call] }) => `${file}: ${call}`);
}

/** Returns the folder of the nearest manual, else that of operations. */
function folderOf(file: string): string {
  const folders = file.split('/').slice(0, -1);
  while (folders.length > 0 && !existsSync(join(ROOT, 'src', ...folders, 'README.md'))) folders.pop();
  return folders.join('/') || 'operations';
}

/** Returns links to the first section of each manual that names an event; the manuals alone if none does. */
function explanationsOf(event: string, folders: readonly string[]): string[] {
  const own = folders.map((folder) => explanationOf(event, folder));
  const other = own.every((section) => section === undefined)
    ? [...BLOCKS.keys()]
        .map((folder) => explanationOf(event, folder))
        .find((section) => section !== undefined)
    : undefined;
  return other === undefined
    ? folders.map((folder, index) => own[index] ?? `[${folder}](${folder}/README.md)`)
    : [other];
}

function explanationOf(event: string, folder: string): string | undefined {
  if (!event.includes('_')) return undefined; // one word also has other meanings in a manual
  let title = '';
  for (const { kind, text } of BLOCKS.get(folder)!) {
    if (kind === 'heading') title = text.replace(/^#+ /, '');
    else if (kind !== 'code' && !UNRELATED.includes(title) && text.includes(`\`${event}\``))
      return `[${folder}#${anchorOf(title)}](${folder}/README.md#${anchorOf(title)})`;
  }
  return undefined;
}

/** Blocks of the manual of each folder. */
const BLOCKS = new Map(
  manuals().flatMap(({ path, text }) => {
    const [, folder] = /^src\/(.+)\/README\.md$/.exec(path) ?? [];
    return folder === undefined ? [] : [[folder, blocksOf(text)] as const];
  }),
);

/** Sections without explanations of events: a list of them, and error codes of the same names. */
const UNRELATED = ['Lines that are left out', 'Errors'];

/** Returns the message of an error code, its arguments in ‹angle quotes›. */
export function messageOf(code: string): string {
  const { describe } = FAULTS[code as keyof typeof FAULTS];
  const template = /`(Cannot [^`]*)`|'(Cannot [^']*)'/.exec(String(describe));
  assert.ok(template !== null, `${code}: its description does not begin with "Cannot "`);
  return (template[1] ?? template[2]!)
    .replace(/\$\{(?:JSON\.stringify\()?(\w+)\)?\}/g, '‹$1›')
    .replace(/\$\{[^{}]*(?:\{[^}]*\}[^{}]*)*\}/g, '‹…›')
    .replace(/(?:‹…›)?\$\{.*$/, '‹…›');
}

/** Returns error codes with message and remedy. */
export function errorCodes(): string[] {
  const rows = Object.entries(FAULTS).map(
    ([code, { remedy }]) => `| \`${code}\` | ${cell(messageOf(code))} | ${cell(remedy)} |`,
  );
  return ['| code | what | remedy |', '|---|---|---|', ...rows];
}

/**
 * Returns the rules of `svc check` with severity, reason and remedy. For an id that a plugin uses, too, only
 * the general rule.
 */
export function findings(): string[] {
  // empty options are enough, because a rule reads them only when it runs
  const ofPlugin = rulesOf({} as ReadOptions, [], 'production', undefined);
  const rules = new Map([...ofPlugin, ...CORE_RULES].map((rule) => [rule.id, rule]));
  const rows = [...rules.values()]
    .map(({ id, severity, why, remedy }) => `| ${id} | ${severity} | ${cell(why)} | ${cell(remedy)} |`)
    .sort();
  return ['| rule | severity | reason | remedy |', '|---|---|---|---|', ...rows];
}

/** Returns variables: the rows of the manuals, and the limits of the server. */
export function variables(): string[] {
  const rows = manuals()
    .filter(({ path }) => path !== 'src/REFERENCE.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/^\| (`SVC_[^|]*) \| ([^|]*) \| (.*) \|$/gm)]
        .map(([, names, value, meaning]) => [names!, value!, meaning!] as const)
        .concat(
          path === 'src/http/README.md'
            ? [...sectionOf(text, 'Limits').matchAll(/^\| `(\w+)` \| ([^|]*) \| (.*) \|$/gm)].map(
                ([, setting, value, meaning]) => [`\`${variableOf(setting!)}\``, value!, meaning!] as const,
              )
            : [],
        ),
    )
    .map(
      ([names, value, meaning]) =>
        `| ${names} | ${value} | ${meaning.replace(/: see \[[^\]]*\]\([^)]*\)/g, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')} |`,
    )
    .sort();
  return ['| variable | default | meaning |', '|---|---|---|', ...rows];
}

function sectionOf(text: string, title: string): string {
  const [section] = new RegExp(`^## ${title}\\n[^]*?(?=^## |$(?![^]))`, 'm').exec(text) ?? [];
  return section ?? assert.fail(`no section "${title}"`);
}
