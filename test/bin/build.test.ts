/**
 * What is joined is what was compiled: every entry point offers the same, and the scanner finds no statement in texts.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bare, masked } from '../../bin/build.ts';
import { ROOT, build } from '../support/build.ts';

before(build);

for (const [what, text, expected] of [
  ['a comment to the end of a line', 'a // `b\nc', 'a      \nc'],
  ['a comment of several lines', 'a /* `\n" */ b', 'a     \n     b'],
  ['strings', `f('a\\'b', "c'd")`, `f('    ', "   ")`],
  ['a template', '`a\nexport const b`;', '`                '.replace(/^(.{2}).*/, '`$1').slice(0, 1) + ' \n              `;'],
  ['a template in a template', '`a${f(`b${c}`)}d`', '` ${f(` ${c}`)} `'],
  ['braces in a template', '`${{ a: 1 }.a}}`', '`${{ a: 1 }.a} `'],
  ['a regular expression with quotes', `x = /["'\`/]/g.test(y)`, `x = /        g.test(y)`],
  ['a division', 'a / b / c', 'a / b / c'],
  ['a division behind brackets', 'f(a) / 2 / "x"', 'f(a) / 2 / " "'],
] as const) {
  test(`masked() blanks ${what}`, () => {
    const mask = masked(text);
    assert.equal(mask.length, text.length);
    if (what === 'a regular expression with quotes') assert.match(mask, /^x = \/ +\S?\.test\(y\)$/);
    else assert.equal(mask, expected);
  });
}

for (const [what, text, expected] of [
  ['comments, and lines that are empty without them', 'a; // b\n/* c */\n\n  d /* e */ + f', 'a;\n  d + f'],
  ['nothing of strings, templates and regular expressions that look like comments', 'f("//", `/* */`, /[/]*/)', 'f("//", `/* */`, /[/]*/)'],
  ['the end of a line behind which a statement may end', 'return /* a\n */\n b', 'return\n b'],
] as const) {
  test(`bare() takes out ${what}`, () => assert.equal(bare(text), expected));
}

test('bare() writes texts in ASCII, and what a tag sees as it was', () => {
  assert.equal(bare("f('…', `€${`é`}→`, /[–—]/u, tag`…${1}…`)"), "f('\\u2026', `\\u20ac${`\\u00e9`}\\u2192`, /[\\u2013\\u2014]/u, tag`…${1}…`)");
});

test('masked() leaves as many lines as there were, and no quotation mark open, in every compiled module', () => {
  for (const file of readdirSync(join(ROOT, '.build'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(join(ROOT, '.build', file), 'utf8');
    const mask = masked(text);
    assert.equal(mask.length, text.length, file);
    assert.equal(mask.split('\n').length, text.split('\n').length, file);
    for (const [open, close] of ['{}', '()', '[]'] as const) assert.equal(mask.split(open!).length, mask.split(close!).length, `${file}: ${open!}${close!}`);
  }
});

/** What of a function that was compiled must be the same when it is joined; of one that comes later, that of the function that comes. */
async function exportsOf(folder: string, entry: string): Promise<[string, string][]> {
  const { $later } = folder === 'dist' ? await import(pathToFileURL(join(ROOT, 'dist/core.js')).href) as { $later(part: string): Record<string, Record<string, unknown>> } : { $later: (): Record<string, Record<string, unknown>> => ({}) };
  return Object.entries(await import(pathToFileURL(join(ROOT, folder, entry)).href) as object).map(([name, value]) => {
    const [, part, module, original] = /^\(\.\.\.given\) => \$later\('([^']+)'\)\.(\S+?)\.(\w+)\(\.\.\.given\)$/.exec(String(value)) ?? [];
    const thing = part === undefined ? value as unknown : $later(part)[module!]![original!];
    return [name, typeof thing === 'function' ? bare(String(thing)) : typeof thing];
  });
}

test('every entry point that is joined offers what the module of it does, by the same text but for comments', async () => {
  for (const entry of ['index.js', 'db/index.js', 'oauth/index.js', 'testing.js', 'cli.js', 'db/postgres.js', 'db/mysql.js', 'http/tls.js', 'workers.js']) {
    assert.deepEqual(await exportsOf('dist', entry), (await exportsOf('.build', entry)).sort(), entry);
  }
});

/** What a new process loads of dist, in order, while it runs a program. */
function loadedBy(program: string): string[] {
  const watch = `import { registerHooks } from 'node:module'; const dist = ${JSON.stringify(pathToFileURL(join(ROOT, 'dist/')).href)};
    registerHooks({ load(url, context, next) { if (url.startsWith(dist)) console.log(url.slice(dist.length)); return next(url, context); } });`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', `${watch}\n${program.replaceAll('DIST', join(ROOT, 'dist'))}`], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout.split('\n').slice(0, -1);
}

test('a server of a few routes loads two files, and what comes later when it is called first', () => {
  const serve = `const { Svc, hashPassword, verifyToken } = await import('DIST/index.js');
    const app = new Svc(); app.get('/u/{id:int}', ({ params }) => params.id);
    const { port, close } = await app.run({ port: 0, handleSignals: false, host: '127.0.0.1' });
    const socket = process.getBuiltinModule('node:net').connect(port, '127.0.0.1').end('GET /u/1 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n');
    await new Promise((resolve) => socket.on('close', resolve).resume());`;
  assert.deepEqual(loadedBy(`${serve} process.exit(0);`), ['index.js', 'core.js']);
  const more = loadedBy(`${serve} await hashPassword('a secret that is long'); process.exit(0);`);
  assert.ok(more.length > 2);
  for (const file of more.slice(2)) assert.match(file, /^later-\d+\.cjs$/);
});

test('what loads the package has not loaded fetch with it', () => {
  const program = `await import('DIST/index.js'); console.log(process.moduleLoadList.some((name) => name.endsWith('undici/undici')) ? 'fetch' : 'none');`;
  assert.equal(loadedBy(program).at(-1), 'none');
});

test('every file that comes later can be loaded on its own, by the name that others have for it', async () => {
  const { $later } = await import(pathToFileURL(join(ROOT, 'dist/core.js')).href) as { $later(part: string): Record<string, object> };
  const files = readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' }).map((file) => file.replaceAll('\\', '/'));
  const later = files.filter((file) => file.endsWith('.cjs')).map((file) => file.slice(0, -4));
  assert.ok(later.length >= 10);
  for (const part of later) {
    const modules = $later(part);
    assert.ok(Object.keys(modules).length > 0, part);
    assert.equal($later(part), modules);
  }
  const asked = files.filter((file) => /\.c?js$/.test(file)).flatMap((file) => [...readFileSync(join(ROOT, 'dist', file), 'utf8').matchAll(/\$later\('([^']+)'\)(?:\.(\$\w+)\.(\w+))?/g)]);
  assert.ok(asked.length > 50);
  for (const [all, part, module, name] of asked) if (module !== undefined) assert.equal(typeof ($later(part!)[module] as Record<string, unknown>)[name!], 'function', all);
});

test('what every program loads is one byte a character', () => {
  for (const file of ['index.js', 'core.js']) assert.doesNotMatch(readFileSync(join(ROOT, 'dist', file), 'utf8'), /[^\0-\x7f]/, file);
});

test('the texts of a new project are the same when they are joined', async () => {
  const { starterFiles } = await import(pathToFileURL(join(ROOT, '.build/starter.js')).href) as typeof import('../../src/starter.ts');
  const joined = readdirSync(join(ROOT, 'dist')).filter((file) => file.startsWith('part-')).map((file) => readFileSync(join(ROOT, 'dist', file), 'utf8')).join('');
  const { text } = starterFiles({ name: 'x', source: 'registry', dependency: '', engine: '', secret: '', password: '' }).find(({ path }) => path === 'src/people.ts')!;
  assert.ok(joined.includes(bare(`\`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\``).slice(1, -1)));
});
