/**
 * The layout of the sources: which folder may import which, which files may read the time, and the rules for a file.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';

/**
 * Every first folder below src, from the bottom up, and the subject of each. An import goes to a lower row, or stays inside of
 * its own first folder; it never goes up, and never to another folder of its row.
 */
const ROWS: readonly Readonly<Record<string, string>>[] = [
  { base: 'errors, faults, options, configuration, clock, bytes' },
  {
    observability: 'logs, redaction, metrics, tracing',
    schema: 'schemas and their fields',
    crypto: 'tokens, keys, passwords',
  },
  { cache: 'caches and the interfaces of stores' },
  { http: 'requests, responses, middleware, the server' },
  {
    db: 'databases',
    routing: 'routes, dependencies, compilation',
    operations: 'probes, signals, workers, reload',
  },
  { auth: 'authentication as dependencies', openapi: 'the document of the routes, and its page' },
  { mcp: 'the Model Context Protocol', oauth: 'the login plugin' },
  { check: 'reading of sources, rules, reports' },
  { app: 'the application' },
  { testing: 'the test client', cli: 'the commands' },
];
/** This folder of `check` reads sources and knows no rule: it imports no other folder of `check`. */
const READER = 'check/reader/';
/** The only file directly in src: it may import every folder. */
const INDEX = 'index.ts';
const MAX_FILES_IN_FOLDER = 40;
const MAX_FILES = 481;
const MAX_LINES = 600;
/** Modules that a program loads when it imports the package. Each adds at least 0.2 ms to the start. */
const MAX_LOADED = 162;

/** Words that repeat a folder's name in another form. */
const FORMS: Readonly<Record<string, readonly string[]>> = {
  testing: ['test'],
  routing: ['route'],
  db: ['database'],
  operations: ['ops'],
  websocket: ['ws'],
};
/** Names that keep the word of their folder for a reason. */
const NAMES_KEPT: Readonly<Record<string, string>> = {
  'schema/json-schema.ts': 'JSON Schema is the name of a standard',
};

/** These files read the time and set timers for all others. */
const CLOCKS: ReadonlySet<string> = new Set([
  'base/clock.ts',
  'base/manual-clock.ts',
  'openapi/client/runtime.ts', // becomes a part of programs that have no Clock
]);
/** These files import the application, whose name is known at run time only. */
const LOADERS: ReadonlySet<string> = new Set(['cli/main.ts', 'cli/run.ts', 'cli/load.ts']);
/** This file gives `node:http` to all others, without loading what they do not use. */
const NODE_HTTP = 'base/node-http.ts';
/** The docs page is text between backticks, which is not code of the module itself. */
const TEXTS: ReadonlySet<string> = new Set(['openapi/docs/page.generated.ts']);
/** Files of new projects, which are data of the package. */
const TEMPLATE = 'cli/starter/template/';

interface Import {
  readonly from: string;
  /** As written; undefined when it is worked out at run time. */
  readonly specifier: string | undefined;
  /** Whether the module is loaded together with the file: not for types, and not for `import()`. */
  readonly isEager: boolean;
}

const folderOf = (file: string): string => file.split('/', 1)[0]!;

function rowOf(file: string): number | undefined {
  if (file === INDEX) return ROWS.length - 1;
  const row = ROWS.findIndex((folders) => file.includes('/') && Object.hasOwn(folders, folderOf(file)));
  return row === -1 ? undefined : row;
}

/** The text with its comments blanked out; strings stay. */
function withoutComments(text: string): string {
  return text.replace(
    /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[\s\S]*?\*\/|\/\/.*$/gm,
    (part) => (/^\/[/*]/.test(part) ? part.replace(/\S/g, ' ') : part),
  );
}

/** The file's own code: no comments, and no programs that it holds as text. */
function codeOf(file: string, text: string): string {
  const code = withoutComments(text);
  return TEXTS.has(file) ? code.replace(/`(?:\\.|[^`\\])*`/g, "''") : code;
}

/** Static imports and re-exports, of values and of types, and dynamic ones. */
function importsOf(file: string, text: string): Import[] {
  const code = codeOf(file, text);
  const statics = [...code.matchAll(/^(?:import|export)\b(?:[^'";(]*?\bfrom)?\s*['"]([^'"]+)['"]/gm)].map(
    (match) => ({ from: file, specifier: match[1]!, isEager: !/^(?:import|export) type\b/.test(match[0]) }),
  );
  const dynamics = [...code.matchAll(/\bimport\(\s*(?:['"]([^'"]+)['"]\s*[,)])?/g)].map((match) => ({
    from: file,
    specifier: match[1],
    isEager: false,
  }));
  return [...statics, ...dynamics];
}

/** The file that a relative import leads to. */
function targetOf({ from, specifier }: Import): string | undefined {
  return specifier?.startsWith('.') === true
    ? posix.normalize(posix.join(dirname(from), specifier))
    : undefined;
}

/** The folder whose name begins or ends this file's name. One word may be the folder's own name: that is its main file. */
function repeatedFolder(file: string): string | undefined {
  const name = posix.basename(file, '.ts');
  const isRepeat = (form: string): boolean => name.startsWith(`${form}-`) || name.endsWith(`-${form}`);
  return file
    .split('/')
    .slice(0, -1)
    .find((folder) => name !== folder && formsOf(folder).some(isRepeat));
}

/** A folder's name in singular, in plural, and in its other forms. */
function formsOf(folder: string): string[] {
  const singulars = [folder.replace(/s$/, ''), ...(FORMS[folder] ?? [])];
  return [folder, ...singulars, ...singulars.map((form) => `${form}s`)];
}

/** Violations of one file's name and place. */
function misplaced(file: string): string[] {
  const found: string[] = [];
  if (!file.includes('/')) {
    if (file !== INDEX)
      found.push(`src/${file} is directly in src: only ${INDEX} is, every other file has a folder`);
  } else if (rowOf(file) === undefined)
    found.push(
      `src/${file} is in no row: give the folder ${folderOf(file)} one in test/architecture.test.ts`,
    );
  const repeated = repeatedFolder(file);
  if (repeated !== undefined && !Object.hasOwn(NAMES_KEPT, file))
    found.push(`src/${file} repeats the name of its folder "${repeated}"`);
  return found;
}

/** Violations of one file's code, apart from its imports. */
function forbidden(file: string, text: string): string[] {
  const found: string[] = [];
  const code = codeOf(file, text);
  const lines = text.split('\n').length;
  if (lines > MAX_LINES && !file.endsWith('.generated.ts'))
    found.push(`src/${file} has ${lines} lines: at most ${MAX_LINES}`);
  if (!text.startsWith('/**')) found.push(`src/${file} does not open with a doc comment`);
  if (/\b(?:TODO|FIXME)\b/.test(text)) found.push(`src/${file} has a TODO or FIXME`);
  if (/\bnew Function\b|(?<![.\w#])eval\(|\bfrom 'node:vm'/.test(code))
    found.push(`src/${file} generates code from strings`);
  if (/^import (?!type\b)[^'";]*'node:http'/m.test(code))
    found.push(`src/${file} imports node:http, which loads Node's fetch client: import src/${NODE_HTTP}`);
  if (
    file !== NODE_HTTP &&
    /(?<![.\w])require\(|\bcreateRequire\b|\bgetBuiltinModule\b|\bprocess\.binding\b/.test(code)
  )
    found.push(`src/${file} imports in a way that this test does not see`);
  const time = CLOCKS.has(file)
    ? null
    : /\bDate\.now\b|\bnew Date\(\s*\)|(?<![.\w]|\bnew )Date\(|\bperformance\.(?:now|timeOrigin)\b|(?<![.\w])set(?:Timeout|Interval)\b|\bglobalThis\.set|\bAbortSignal\.timeout\b|\bprocess\.(?:hrtime|uptime)\b|'node:timers/.exec(
        code,
      );
  if (time !== null)
    found.push(`src/${file} reads the time or sets a timer itself (${time[0]}): take a Clock`);
  return found;
}

/** The violation of an import, undefined for an allowed import. */
function refused(each: Import, files: Readonly<Record<string, string>>): string | undefined {
  const { from: file, specifier } = each;
  const target = targetOf(each);
  if (specifier === undefined)
    return LOADERS.has(file) ? undefined : `src/${file} imports something that is known at run time only`;
  if (target === undefined)
    return specifier.startsWith('node:')
      ? undefined
      : `src/${file} imports "${specifier}": only node:* and relative files`;
  if (files[target] === undefined) return `src/${file} imports "${specifier}", which does not exist`;
  if (/(?:^|\/)index\.ts$/.test(target))
    return `src/${file} imports the index file src/${target}: name the file itself`;
  if (file.startsWith(READER) && target.startsWith('check/') && !target.startsWith(READER))
    return `src/${file} imports src/${target}: the reader of sources knows no rule`;
  const [row, theirs] = [rowOf(file), rowOf(target)];
  if (row === undefined || theirs === undefined || folderOf(file) === folderOf(target)) return undefined;
  if (theirs > row) return `src/${file} (row ${row}) imports src/${target} (row ${theirs}): imports go down`;
  if (theirs === row && file !== INDEX)
    return `src/${file} imports src/${target}, sideways: two folders of row ${row} must not import each other`;
  return undefined;
}

/** Every violation, a sentence each. */
function violations(files: Readonly<Record<string, string>>): string[] {
  const found: string[] = [];
  for (const [file, text] of Object.entries(files)) {
    found.push(...misplaced(file), ...forbidden(file, text));
    for (const each of importsOf(file, text)) {
      const violation = refused(each, files);
      if (violation !== undefined) found.push(violation);
    }
  }
  return [...found, ...crowded(Object.keys(files)), ...circles(files)];
}

/** Folders with too many files, sub-folders not counted; and sources altogether. */
function crowded(files: readonly string[]): string[] {
  const counts = Object.entries(Object.groupBy(files, (file) => dirname(file))).map(
    ([folder, inside]) => [folder, inside!.length] as const,
  );
  const found = counts
    .filter(([, count]) => count > MAX_FILES_IN_FOLDER)
    .map(([folder, count]) => `src/${folder} has ${count} files: at most ${MAX_FILES_IN_FOLDER}`);
  return files.length > MAX_FILES ? [...found, `src has ${files.length} files: at most ${MAX_FILES}`] : found;
}

/** Circles of imports, each once, by the first file in the alphabet. */
function circles(files: Readonly<Record<string, string>>): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      const circle = path.slice(path.indexOf(file));
      const first = circle.indexOf(circle.toSorted()[0]!);
      found.add(
        `imports go in a circle: ${[...circle.slice(first), ...circle.slice(0, first), circle[first]!].join(' → ')}`,
      );
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

/** The files that are loaded with a file, itself included. */
function loadedWith(first: string, files: Readonly<Record<string, string>>): string[] {
  const loaded = new Set([first]);
  for (const file of loaded)
    for (const each of importsOf(file, files[file]!))
      if (each.isEager && files[targetOf(each)!] !== undefined) loaded.add(targetOf(each)!);
  return [...loaded];
}

/** Clocks of the process. On a busy machine a duration says nothing about the tested code. */
const MEASURES =
  /\bperformance\.(?:now|mark|measure)\b|\bprocess\.(?:hrtime|cpuUsage|threadCpuUsage)\b|\bmonitorEventLoopDelay\(/;

/** Modules that measure time, by the tests that load them. */
function measuring(files: Readonly<Record<string, string>>): string[] {
  return Object.keys(files)
    .filter((file) => file.endsWith('.test.ts'))
    .flatMap((test) =>
      loadedWith(test, files).flatMap((file) => {
        const [measure] = MEASURES.exec(withoutComments(files[file]!)) ?? [];
        return measure === undefined
          ? []
          : [`${test} loads test/${file}, which has ${measure}: measure in test/soak`];
      }),
    );
}

/** Every file of test by its path below test. */
function testFiles(): Record<string, string> {
  const folder = join(ROOT, 'test');
  return Object.fromEntries(
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => [name.replaceAll('\\', '/'), readFileSync(join(folder, name), 'utf8')]),
  );
}

/** Every source by its path below src. */
function sources(): Record<string, string> {
  const folder = join(ROOT, 'src');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    name.replaceAll('\\', '/'),
  );
  return Object.fromEntries(
    names
      .filter((name) => name.endsWith('.ts') && !name.startsWith(TEMPLATE))
      .map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  );
}

test('every source file is in a folder of the architecture table, and imports only what this table allows for the folder', () => {
  assert.deepEqual(violations(sources()), []);
});

test('a program that imports the package loads no database, login plugin, command, test client or parser of sources', () => {
  const loaded = loadedWith(INDEX, sources());
  assert.deepEqual(
    loaded.filter((file) =>
      /^(?:db|oauth|cli|testing|openapi\/docs|check\/(?:reader\/(?!functions|tokens)|source\/|values\/|sources))/.test(
        file,
      ),
    ),
    [],
  );
  assert.ok(loaded.includes('app/svc.ts'));
  assert.ok(loaded.length <= MAX_LOADED, `${loaded.length} modules`);
});

test('no test measures time, and none imports a module of test/support that does', () => {
  assert.deepEqual(measuring(testFiles()), []);
});

test('the tables in test/architecture.test.ts name only files and folders that exist', () => {
  const files = Object.keys(sources());
  const named = [...CLOCKS, ...LOADERS, ...TEXTS, ...Object.keys(NAMES_KEPT)];
  assert.deepEqual(
    named.filter((file) => !files.includes(file)),
    [],
  );
  assert.deepEqual(
    ROWS.flatMap((row) => Object.keys(row)).filter(
      (folder) => !files.some((file) => folderOf(file) === folder),
    ),
    [],
  );
});

test('src contains only sources, manuals, the files of the docs page, and the template for new projects', () => {
  const folder = join(ROOT, 'src');
  const others = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.ts'))
    .map(({ parentPath, name }) => posix.join(...relative(folder, join(parentPath, name)).split(sep)))
    .filter((file) => !file.startsWith(TEMPLATE) && !/^openapi\/docs\/\w+\.(?:html|css|js)$/.test(file));
  assert.deepEqual(others.toSorted(), [
    'MIGRATING.md',
    'REFERENCE.md',
    'TUTORIAL.md',
    'app/README.md',
    'auth/README.md',
    'cache/README.md',
    'check/README.md',
    'cli/README.md',
    'db/README.md',
    'http/README.md',
    'mcp/README.md',
    'oauth/README.md',
    'openapi/README.md',
    'operations/README.md',
    'routing/README.md',
    'schema/README.md',
    'testing/README.md',
  ]);
});

test('the source files named index.ts are exactly the files that package.json exports', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, { 'svc-source'?: string }>;
  };
  const exported = Object.values(exports).flatMap((entry) =>
    entry['svc-source']?.endsWith('/index.ts') === true ? [entry['svc-source'].replace('./src/', '')] : [],
  );
  assert.deepEqual(
    Object.keys(sources())
      .filter((file) => /(?:^|\/)index\.ts$/.test(file))
      .sort(),
    exported.sort(),
  );
});

const DOC = '/** A file. */\n';
const SVC = 'app/svc.ts';
const LOG = 'observability/log.ts';

function many(count: number, nameOf: (index: number) => string): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [nameOf(index), DOC]));
}

for (const [what, files, expected] of [
  [
    'nothing in sources that fit',
    {
      [SVC]: `${DOC}import { x } from '../observability/log.ts';\nimport { readFileSync } from 'node:fs';\n// setTimeout(TO DO)\nconst d = new Date(0);`,
      [LOG]: DOC,
      'index.ts': `${DOC}export { app } from './app/svc.ts';\nexport { t } from './cli/x.ts';`,
      'cli/x.ts': DOC,
    },
    [],
  ],
  [
    'nothing in imports between a folder and the folders below it',
    {
      'http/a.ts': `${DOC}import './server/b.ts';`,
      'http/server/b.ts': `${DOC}import '../files/c.ts';`,
      'http/files/c.ts': DOC,
      'http/files/d.ts': `${DOC}import '../a.ts';`,
    },
    [],
  ],
  ['a folder in no row', { 'utils/a.ts': DOC }, [/src\/utils\/a\.ts is in no row/]],
  ['a file directly in src', { 'log.ts': DOC }, [/src\/log\.ts is directly in src/]],
  [
    'an import upwards',
    { [LOG]: `${DOC}import { app } from '../app/svc.ts';`, [SVC]: DOC },
    [/log\.ts \(row 1\) imports src\/app\/svc\.ts \(row 8\)/],
  ],
  [
    'a type import upwards',
    { [LOG]: `${DOC}import type { App } from '../app/svc.ts';`, [SVC]: DOC },
    [/row 1/],
  ],
  [
    'a type import over several lines',
    { [LOG]: `${DOC}import type {\n  App,\n  B,\n} from '../app/svc.ts';`, [SVC]: DOC },
    [/row 1/],
  ],
  [
    'a re-export upwards',
    { [LOG]: `${DOC}export { app } from '../app/svc.ts';\nexport * from '../app/svc.ts';`, [SVC]: DOC },
    [/row 1/, /row 1/],
  ],
  [
    'a dynamic import upwards, of a type too',
    { [LOG]: `${DOC}await import('../app/svc.ts'); let x: import('../app/svc.ts').App;`, [SVC]: DOC },
    [/row 1/, /row 1/],
  ],
  [
    'an import sideways into another folder of the row',
    { 'routing/a.ts': `${DOC}import '../db/b.ts';`, 'db/b.ts': DOC },
    [/routing\/a\.ts imports src\/db\/b\.ts, sideways/],
  ],
  [
    'an import of a rule by the reader of sources, of a type too',
    {
      'check/reader/a.ts': `${DOC}import type { R } from '../rules/b.ts';`,
      'check/rules/b.ts': `${DOC}import '../reader/c.ts';`,
      'check/reader/c.ts': DOC,
    },
    [/src\/check\/reader\/a\.ts imports src\/check\/rules\/b\.ts: the reader/],
  ],
  [
    'an import of an index file',
    { [SVC]: `${DOC}import '../index.ts';`, 'index.ts': DOC },
    [/imports the index file/],
  ],
  [
    'an import of a package',
    { [SVC]: `${DOC}import 'express';\nimport fs from 'fs';` },
    [/"express": only node/, /"fs": only node/],
  ],
  [
    'an import by another name than the file has',
    { [SVC]: `${DOC}import '../observability/log.js';`, [LOG]: DOC },
    [/"\.\.\/observability\/log\.js", which does not exist/],
  ],
  [
    'an import that is known at run time only',
    { [SVC]: `${DOC}await import(name);` },
    [/known at run time only/],
  ],
  [
    'an import of node:http, but for types',
    {
      [SVC]: `${DOC}import type { Server } from 'node:http';\nimport { createServer } from 'node:http';`,
      'base/node-http.ts': `${DOC}export const http = process.getBuiltinModule('node:http');`,
    },
    [/app\/svc\.ts imports node:http, which loads/],
  ],
  ['a hidden import', { [SVC]: `${DOC}const fs = process.getBuiltinModule('fs');` }, [/does not see/]],
  [
    'a circle, through types too',
    {
      'base/a.ts': `${DOC}import './b.ts';`,
      'base/b.ts': `${DOC}import type { X } from './c.ts';`,
      'base/c.ts': `${DOC}import './a.ts';`,
    },
    [/^imports go in a circle: base\/a\.ts → base\/b\.ts → base\/c\.ts → base\/a\.ts$/],
  ],
  [
    'a file that imports itself',
    { [LOG]: `${DOC}import './log.ts';` },
    [/circle: observability\/log\.ts → observability\/log\.ts/],
  ],
  [
    'a name that repeats its folder at its beginning',
    {
      'http/session/session-cookie.ts': DOC,
      'db/migrations/migration-lock.ts': DOC,
      'oauth/dev-provider/dev-provider-keys.ts': DOC,
      'http/websocket/ws-frames.ts': DOC,
    },
    [/session-cookie\.ts repeats .* "session"/, /"migrations"/, /"dev-provider"/, /"websocket"/],
  ],
  [
    'a name that repeats its folder at its end',
    { 'oauth/tokens/access-tokens.ts': DOC, 'http/files/static-file.ts': DOC },
    [/"tokens"/, /"files"/],
  ],
  [
    'nothing in a main file that is named like its folder',
    {
      'db/postgres/postgres.ts': DOC,
      'oauth/dev-provider/dev-provider.ts': DOC,
      'http/request/body.ts': DOC,
    },
    [],
  ],
  [
    'a folder with too many files',
    many(MAX_FILES_IN_FOLDER + 1, (index) => `http/server/f${index}.ts`),
    [/src\/http\/server has 41 files/],
  ],
  [
    'nothing in a folder whose sub-folders have files',
    {
      ...many(MAX_FILES_IN_FOLDER, (index) => `http/f${index}.ts`),
      ...many(MAX_FILES_IN_FOLDER, (index) => `http/server/f${index}.ts`),
    },
    [],
  ],
  [
    'a file with too many lines',
    { [SVC]: `${DOC}${'\n'.repeat(MAX_LINES)}` },
    [/src\/app\/svc\.ts has 60\d lines: at most 600/],
  ],
  [
    'too many sources',
    many(MAX_FILES + 1, (index) => `http/f${index % 15}/g${index}.ts`),
    [new RegExp(`^src has ${MAX_FILES + 1} files`)],
  ],
  [
    'time that is read outside the clock',
    { [SVC]: `${DOC}Date.now();`, [LOG]: `${DOC}x = new Date();`, 'base/clock.ts': `${DOC}Date.now();` },
    [/svc\.ts reads the time .*\(Date\.now\)/, /log\.ts reads/],
  ],
  [
    'a timer that is set outside the clock',
    { [SVC]: `${DOC}setTimeout(f, 1);`, [LOG]: `${DOC}AbortSignal.timeout(1);` },
    [/svc\.ts/, /log\.ts/],
  ],
  [
    'code from strings',
    { [SVC]: `${DOC}new Function('x');`, [LOG]: `${DOC}eval('x');` },
    [/generates code from strings/, /generates code from strings/],
  ],
  [
    'work left undone, in a comment too',
    { [SVC]: `${DOC}// ${'TO'}${'DO'}: later` },
    [/src\/app\/svc\.ts has a/],
  ],
  ['a file without a doc comment', { [SVC]: 'export {};' }, [/does not open with a doc comment/]],
] as readonly (readonly [
  what: string,
  files: Readonly<Record<string, string>>,
  expected: readonly RegExp[],
])[]) {
  test(`the check of the architecture rules reports ${what}`, () => {
    const found = violations(files);
    assert.equal(found.length, expected.length, found.join('\n'));
    expected.forEach((pattern, index) => assert.match(found[index]!, pattern));
  });
}

for (const [what, files, count] of [
  ['a test that reads a clock', { 'a.test.ts': `${'performance'}.now();` }, 1],
  ['a test with a script that reads a clock', { 'a.test.ts': `run('${'process'}.hrtime.bigint()');` }, 1],
  [
    'a test that loads a module that measures',
    {
      'x/a.test.ts': "import { b } from '../support/b.ts';",
      'support/b.ts': "import { c } from './c.ts';",
      'support/c.ts': `${'process'}.cpuUsage();`,
    },
    1,
  ],
  [
    'no soak, and no comment',
    {
      'soak/a.ts': "import { b } from '../support/b.ts';",
      'support/b.ts': `${'process'}.cpuUsage();`,
      'a.test.ts': `// ${'performance'}.now()`,
    },
    0,
  ],
] as const)
  test(`the check for tests that measure time reports ${what}`, () =>
    assert.equal(measuring(files).length, count));
