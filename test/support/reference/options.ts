/**
 * Finds the options of the public interface in the declarations of `dist`, and creates their tables.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../build.ts';
import { declarationsOf } from './declarations.ts';
import { entryPoints, exportsOf } from './exports.ts';
import { cell } from './tables.ts';
import type { Declaration, Member } from './declarations.ts';

export interface Option {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  /** The default that the doc comment states as a value; undefined for other defaults. */
  readonly default: string | undefined;
  /** The doc comment in one line, without a sentence that only states the default. */
  readonly meaning: string;
}

let known: ReadonlyMap<string, Declaration> | undefined;

/** Returns every interface of `dist` by name. */
function interfaces(): ReadonlyMap<string, Declaration> {
  known ??= new Map(
    readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.d.ts'))
      .sort()
      .flatMap((file) => declarationsOf(readFileSync(join(ROOT, 'dist', file), 'utf8')))
      .filter(({ kind }) => kind === 'interface')
      .map((declaration) => [declaration.name, declaration] as const),
  );
  return known;
}

/**
 * Names of the exported interfaces with optional members, without those whose members a standard defines, as
 * their doc comment says.
 */
export function optionInterfaces(): readonly string[] {
  const exported = entryPoints().flatMap(([, file]) => exportsOf(file).map(({ name }) => name));
  return [...new Set(exported)]
    .filter((name) => {
      const { doc, members } = interfaces().get(name) ?? { doc: '', members: [] };
      return !doc.includes('§') && members.some(({ text }) => /^readonly \w+\?:/.test(text));
    })
    .sort();
}

/** Returns the options of an interface, those of the interfaces that it extends first. */
export function optionsOf(name: string): readonly Option[] {
  const { head, members } = interfaces().get(name) ?? assert.fail(`no interface ${name} in dist`);
  const [, bases = ''] = /\bextends ([^]*)$/.exec(head) ?? [];
  const own = members.flatMap((member) => optionOf(member) ?? []);
  const inherited = [
    ...bases.matchAll(/(?:(Pick|Omit)<(\w+)(?:<[^>]*>)?, ([^>]*)>|(\w+)(?:<[^>]*>)?)(?:, |$)/g),
  ].flatMap(([, utility, limited, names = '', whole]) =>
    (interfaces().has((whole ?? limited)!) ? optionsOf((whole ?? limited)!) : []).filter(
      (option) => utility === undefined || names.includes(`'${option.name}'`) === (utility === 'Pick'),
    ),
  );
  return [...inherited.filter((option) => own.every((each) => each.name !== option.name)), ...own];
}

/** Pattern of a default that is a value: a number, a word in code or quotes, true, false or none. */
const DEFAULT =
  /\bDefault:?\s+((?:-?\d[\d_.]*\d|-?\d)(?: [KM]iB)?|`[^`]*`|'[^']*'|true|false|none)(?=[.,;:)]|$)/;

function optionOf({ doc, text }: Member): Option | undefined {
  const [, name, optional, type] = /^(?:readonly )?([\w$]+)(\??):\s*([^]*)$/.exec(text) ?? [];
  if (name === undefined) return undefined;
  const value = DEFAULT.exec(doc);
  return {
    name,
    type: oneLine(type!)
      .replace(/ \| undefined$/, '')
      .replace(/^\| /, ''),
    isRequired: optional === '',
    default: value?.[1],
    meaning: oneLine(linked(value === null ? doc : doc.replace(`${value[0]}.`, ''))),
  };
}

/** Returns the table of the options of interfaces, each option once, with all meanings that it has there. */
export function optionTable(names: readonly string[]): string[] {
  const options = new Map<string, Option>();
  for (const option of names.flatMap(optionsOf)) {
    const earlier = options.get(option.name)?.meaning ?? '';
    const meaning = earlier.includes(option.meaning) ? earlier : `${earlier} ${option.meaning}`.trim();
    options.set(option.name, { ...option, meaning });
  }
  return [
    '| option | type | default | meaning |',
    '|---|---|---|---|',
    ...[...options.values()].map(
      (option) =>
        `| \`${option.name}\` | ${code(option.type)} | ${option.isRequired ? 'required' : cell(option.default ?? '')} | ${cell(option.meaning)} |`,
    ),
  ];
}

function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``.replace(/^`(.*`.*)`$/, '`` $1 ``');
}

/** Returns text without comments and line breaks. */
export function oneLine(text: string): string {
  return text
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Replaces `{@link X}` by code, and tags by words. */
export function linked(doc: string): string {
  return doc
    .replace(/\{@link ([^}|]+)(?:\|[^}]*)?\}/g, '`$1`')
    .replace(/@throws\b/g, 'Throws')
    .replace(/@returns?\b/g, 'Returns')
    .replace(/@see\b/g, 'See');
}
