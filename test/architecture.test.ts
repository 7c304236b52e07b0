/**
 * The picture of the sources: who may import whom, who may read the time, and what a file must and must not hold.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';

/** Each row imports from rows above it in this list, or from its own folder in its own row. The first pattern that fits counts. */
const ROWS: readonly (readonly [row: number, pattern: RegExp, what: string])[] = [
  [0, /^(?:closest|errors|faults|options|bytes|clock|uuid|manual-clock|log|log-human|log-sink|redact(?:-[a-z]+)?|findings|place|terminal|thenable|traced)\.ts$/, 'import nothing but node:* and each other'],
  [1, /^(?:arrivals|schema(?:-[a-z]+)*|json-schema|hmac|jwt(?:-json|-refusal)?|keys|password|stores|cache|cache-key|cached|clone|event-loop|flights|lru|config|metrics(?:-text)?|cookie-jar|node-range)\.ts$/, 'values and algorithms'],
  [3, /^db\/(?:redis-)?plugin\.ts$/, 'a database as a part of an application'],
  [6, /^(?:db\/|oauth\/)?index\.ts$/, 'what programs import'],
  [2, /^(?:http|db)\/[a-z-]+\.ts$/, 'protocols; neither knows an app, nor the other'],
  [3, /^(?:route(?:-[a-z]+)?|request-context|reply-plan|compiled-route|compile(?:-[a-z]+)?|di(?:-[a-z]+)*|auth(?:-[a-z]+)*|ws-route|plugin|background)\.ts$/, 'what a route is; where its arguments come from'],
  [4, /^(?:(?:openapi|docs-page|mcp|ops|check)(?:-[a-z]+)*\.ts|oauth\/[a-z-]+\.ts)$/, 'read compiled routes'],
  [5, /^(?:app|apology|door|reload|supervis[a-z]+(?:-preload)?|signals|watch|workers|worker-[a-z]+)\.ts$/, 'assembles the rows below, in one process or several'],
  [6, /^(?:cli|command(?:-[a-z]+)*|load|starter(?:-[a-z]+)*|testing(?:-[a-z]+)*)\.ts$/, 'what operators and tests touch'],
];

/** They read the time and set timers for all the others. */
const CLOCKS: ReadonlySet<string> = new Set(['clock.ts', 'manual-clock.ts']);
/** They import the application: a name that nobody knows before. */
const LOADERS: ReadonlySet<string> = new Set(['cli.ts', 'command-run.ts', 'load.ts']);

/** They hold programs as text, between backticks: what is in there is not theirs. */
const TEXTS: ReadonlySet<string> = new Set(['starter-files.ts', 'starter-sources.ts', 'starter-tests.ts', ...['answer', 'auth', 'browse', 'form', 'request', 'sample', 'script', 'style', 'try'].map((part) => `docs-page-${part}.ts`)]);

interface Import {
  readonly from: string;
  /** As written; undefined when it is worked out at run time. */
  readonly specifier: string | undefined;
}

function rowOf(file: string): number | undefined {
  return ROWS.find(([, pattern]) => pattern.test(file))?.[0];
}

/** The text with its comments blanked out; strings stay. */
function withoutComments(text: string): string {
  return text.replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[\s\S]*?\*\/|\/\/.*$/gm, (part) => /^\/[/*]/.test(part) ? part.replace(/\S/g, ' ') : part);
}

/** The text without what the file does not do itself. */
function codeOf(file: string, text: string): string {
  const code = withoutComments(text);
  return TEXTS.has(file) ? code.replace(/`(?:\\.|[^`\\])*`/g, "''") : code;
}

/** Static imports and re-exports, of values and of types, and dynamic ones. */
function importsOf(file: string, text: string): Import[] {
  const code = codeOf(file, text);
  const statics = [...code.matchAll(/^(?:import|export)\b(?:[^'";(]*?\bfrom)?\s*['"]([^'"]+)['"]/gm)].map((match) => ({ from: file, specifier: match[1]! }));
  const dynamics = [...code.matchAll(/\bimport\(\s*(?:['"]([^'"]+)['"]\s*[,)])?/g)].map((match) => ({ from: file, specifier: match[1] }));
  return [...statics, ...dynamics];
}

/** Where a relative import leads. */
function targetOf({ from, specifier }: Import): string | undefined {
  return specifier?.startsWith('.') === true ? posix.normalize(posix.join(dirname(from), specifier)) : undefined;
}

/** Everything that does not fit the picture, a sentence each. */
function violations(files: Readonly<Record<string, string>>): string[] {
  const found: string[] = [];
  for (const [file, text] of Object.entries(files)) {
    const row = rowOf(file);
    if (row === undefined) found.push(`src/${file} is in no row: give it one in test/architecture.test.ts and in STYLE.md §1`);
    const code = codeOf(file, text);
    if (!text.startsWith('/**')) found.push(`src/${file} does not open with a doc comment`);
    if (/\b(?:TODO|FIXME)\b/.test(text)) found.push(`src/${file} has a TODO or FIXME`);
    if (/\bnew Function\b|(?<![.\w#])eval\(|\bfrom 'node:vm'/.test(code)) found.push(`src/${file} makes code out of text`);
    if (/(?<![.\w])require\(|\bcreateRequire\b|\bgetBuiltinModule\b|\bprocess\.binding\b/.test(code)) found.push(`src/${file} imports in a way that this test does not see`);
    const time = CLOCKS.has(file) ? null : /\bDate\.now\b|\bnew Date\(\s*\)|(?<![.\w]|\bnew )Date\(|\bperformance\.(?:now|timeOrigin)\b|(?<![.\w])set(?:Timeout|Interval)\b|\bglobalThis\.set|\bAbortSignal\.timeout\b|\bprocess\.(?:hrtime|uptime)\b|'node:timers/.exec(code);
    if (time !== null) found.push(`src/${file} reads the time or sets a timer itself (${time[0]}): take a Clock`);
    for (const each of importsOf(file, text)) {
      const target = targetOf(each);
      if (each.specifier === undefined) {
        if (!LOADERS.has(file)) found.push(`src/${file} imports something that is known at run time only`);
      } else if (target === undefined) {
        if (!each.specifier.startsWith('node:')) found.push(`src/${file} imports "${each.specifier}": only node:* and relative files`);
      } else if (files[target] === undefined) found.push(`src/${file} imports "${each.specifier}", which is not there by that name`);
      else if (/(?:^|\/)index\.ts$/.test(target)) found.push(`src/${file} imports the index file src/${target}: name the file itself`);
      else if (row !== undefined) {
        const theirs = rowOf(target);
        if (theirs !== undefined && (theirs > row || theirs === row && dirname(target) !== dirname(file))) {
          found.push(`src/${file} (row ${row}) imports src/${target} (row ${theirs}): imports go down, or sideways inside one folder`);
        }
      }
    }
  }
  return [...found, ...circles(files)];
}

/** Circles of imports, each once, by the first file in the alphabet. */
function circles(files: Readonly<Record<string, string>>): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      const circle = path.slice(path.indexOf(file));
      const first = circle.indexOf(circle.toSorted()[0]!);
      found.add(`imports go in a circle: ${[...circle.slice(first), ...circle.slice(0, first), circle[first]!].join(' → ')}`);
      return;
    }
    if (done.has(file)) return;
    for (const each of importsOf(file, files[file] ?? '')) {
      const target = targetOf(each);
      if (target !== undefined && files[target] !== undefined) visit(target, [...path, file]);
    }
    done.add(file);
  };
  for (const file of Object.keys(files)) visit(file, []);
  return [...found];
}

/** Every source by its path below src. */
function sources(): Record<string, string> {
  const folder = join(ROOT, 'src');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'));
  return Object.fromEntries(names.filter((name) => name.endsWith('.ts')).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

test('every source is in a row, imports only downwards or beside itself, and holds nothing it must not', () => {
  assert.deepEqual(violations(sources()), []);
});

test('the only other files in src are tsconfig.json and the README files of svc/db and svc/oauth', () => {
  const others = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith('.ts'));
  assert.deepEqual(others.map((entry) => join(entry.parentPath, entry.name).slice(join(ROOT, 'src').length + 1)).toSorted(), ['db/README.md', 'oauth/README.md', 'tsconfig.json']);
});

test('index files are those that package.json exports', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { exports: Record<string, { 'svc-source'?: string }> };
  const exported = Object.values(exports).flatMap((entry) => entry['svc-source']?.endsWith('/index.ts') === true ? [entry['svc-source'].replace('./src/', '')] : []);
  assert.deepEqual(Object.keys(sources()).filter((file) => /(?:^|\/)index\.ts$/.test(file)).sort(), exported.sort());
});

const DOC = '/** A file. */\n';

for (const [what, files, expected] of [
  ['nothing in sources that fit', { 'app.ts': `${DOC}import { x } from './log.ts';\nimport { readFileSync } from 'node:fs';\n// setTimeout(TO DO)\nconst d = new Date(0);`, 'log.ts': DOC }, []],
  ['a file in no row', { 'utils.ts': DOC }, [/src\/utils\.ts is in no row/]],
  ['an import upwards', { 'log.ts': `${DOC}import { app } from './app.ts';`, 'app.ts': DOC }, [/log\.ts \(row 0\) imports src\/app\.ts \(row 5\)/]],
  ['a type import upwards', { 'log.ts': `${DOC}import type { App } from './app.ts';`, 'app.ts': DOC }, [/row 0/]],
  ['a type import over several lines', { 'log.ts': `${DOC}import type {\n  App,\n  B,\n} from './app.ts';`, 'app.ts': DOC }, [/row 0/]],
  ['a re-export upwards', { 'log.ts': `${DOC}export { app } from './app.ts';\nexport * from './app.ts';`, 'app.ts': DOC }, [/row 0/, /row 0/]],
  ['a dynamic import upwards, of a type too', { 'log.ts': `${DOC}await import('./app.ts'); let x: import('./app.ts').App;`, 'app.ts': DOC }, [/row 0/, /row 0/]],
  ['an import sideways into another folder', { 'http/a.ts': `${DOC}import '../db/b.ts';`, 'db/b.ts': DOC }, [/http\/a\.ts \(row 2\) imports src\/db\/b\.ts \(row 2\)/]],
  ['an import of an index file', { 'app.ts': `${DOC}import './index.ts';`, 'index.ts': DOC }, [/imports the index file/]],
  ['an import of a package', { 'app.ts': `${DOC}import 'express';\nimport fs from 'fs';` }, [/"express": only node/, /"fs": only node/]],
  ['an import by another name than the file has', { 'app.ts': `${DOC}import './log.js';`, 'log.ts': DOC }, [/"\.\/log\.js", which is not there/]],
  ['an import that is known at run time only', { 'app.ts': `${DOC}await import(name);` }, [/known at run time only/]],
  ['a hidden import', { 'app.ts': `${DOC}const fs = process.getBuiltinModule('fs');` }, [/does not see/]],
  ['a circle, through types too', { 'log.ts': `${DOC}import './clock.ts';`, 'clock.ts': `${DOC}import type { X } from './errors.ts';`, 'errors.ts': `${DOC}import './log.ts';` }, [/^imports go in a circle: clock\.ts → errors\.ts → log\.ts → clock\.ts$/]],
  ['a file that imports itself', { 'log.ts': `${DOC}import './log.ts';` }, [/circle: log\.ts → log\.ts/]],
  ['time that is read outside the clock', { 'app.ts': `${DOC}Date.now();`, 'log.ts': `${DOC}x = new Date();`, 'clock.ts': `${DOC}Date.now();` }, [/app\.ts reads the time .*\(Date\.now\)/, /log\.ts reads/]],
  ['a timer that is set outside the clock', { 'app.ts': `${DOC}setTimeout(f, 1);`, 'log.ts': `${DOC}AbortSignal.timeout(1);` }, [/app\.ts/, /log\.ts/]],
  ['code made out of text', { 'app.ts': `${DOC}new Function('x');`, 'log.ts': `${DOC}eval('x');` }, [/code out of text/, /code out of text/]],
  ['work left undone, in a comment too', { 'app.ts': `${DOC}// ${'TO'}${'DO'}: later` }, [/src\/app\.ts has a/]],
  ['a file without a doc comment', { 'app.ts': 'export {};' }, [/does not open with a doc comment/]],
] as const) {
  test(`the architecture test finds ${what}`, () => {
    const found = violations(files);
    assert.equal(found.length, expected.length, found.join('\n'));
    expected.forEach((pattern, index) => assert.match(found[index]!, pattern));
  });
}
