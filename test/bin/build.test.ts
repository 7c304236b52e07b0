/**
 * What is joined is what was compiled: every entry point offers the same, and the scanner finds no statement in texts.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { bare, compiledAtOnce, masked } from '../../bin/build.ts';
import { FAULTS } from '../../src/faults.ts';
import { ROOT, build } from '../support/build.ts';
import { folder } from '../support/run.ts';

/** What programs of tests import it from. */
const DIST = pathToFileURL(join(ROOT, 'dist')).href;

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
  ['comments, and lines that are empty without them', 'a; // b\n/* c */\n\n        d /* e */ + f', 'a;\n  d + f'],
  ['nothing of strings, templates and regular expressions that look like comments', 'f("//", `/* */`, /[/]*/)', 'f("//", `/* */`, /[/]*/)'],
  ['the end of a line behind which a statement may end', 'return /* a\n */\n b', 'return\n b'],
] as const) {
  test(`bare() takes out ${what}`, () => assert.equal(bare(text), expected));
}

test('bare() writes texts in ASCII, and what a tag sees as it was', () => {
  assert.equal(bare("f('…', `€${`é`}→`, /[–—]/u, tag`…${1}…`)"), "f('\\u2026', `\\u20ac${`\\u00e9`}\\u2192`, /[\\u2013\\u2014]/u, tag`…${1}…`)");
});

test('compiledAtOnce() puts the functions of a module that are called in brackets, before the rest of it', () => {
  const module = (body: string): string => `const $a = (() => {\n${body}return { f };\n})();\n`;
  const f = 'function f(x) {\n const g = function () {};\n return g;\n}';
  const rest = 'const table = [f];\n|class C {\n m() {}\n}\nasync function h() {}\n';
  const text = module('') + module(rest.replace('|', `${f}\n`));
  const called = [f, 'function () {}', 'm() {}'].map((part) => ({ start: text.indexOf(part), end: text.indexOf(part) + part.length }));
  assert.equal(compiledAtOnce(text, called), module('') + module(`const f = (${f});\n${rest.replace('|', '')}`));
});

test('the package logs errors, redacted, when its files cannot be read any more', (t) => {
  const own = folder(t, { 'package.json': '{"type":"module"}' });
  cpSync(join(ROOT, 'dist'), join(own, 'dist'), { recursive: true });
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', `
    import { rmSync } from 'node:fs';
    import { Svc, createLogger } from '${pathToFileURL(join(own, 'dist/index.js')).href}';
    const app = new Svc({ env: 'test' });
    app.get('/', () => { throw new Error('handler failed'); });
    const { url } = await app.run({ port: 0, handleSignals: false });
    rmSync('${join(own, 'dist')}', { recursive: true });
    createLogger().error('job_failed', new Error('at postgres://ada:s3cret@db/x'), { list: [1, { password: 's3cret' }] });
    process.on('unhandledRejection', () => process.exit(3));
    await fetch(url).catch(() => undefined);
    process.exit(3);
  `], { encoding: 'utf8', env: { PATH: process.env['PATH'] } });
  assert.ok(status !== null, stderr);
  assert.match(stderr, /"event":"job_failed","list":\[1,\{"password":"\[redacted\]"\}\],"error":\{[^\n]*postgres:\/\//);
  assert.match(stderr, /"event":"unhandled_error"[^\n]*handler failed/);
  assert.doesNotMatch(stderr, /s3cret/);
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
    const thing = part === undefined ? behind(value) : $later(part)[module!]![original!];
    return [name, typeof thing === 'function' ? bare(String(thing)).replace(/\n +/g, '\n') : typeof thing];
  });
}

/** The class that another one stands for until one is made; anything else as it is. */
function behind(value: unknown): unknown {
  if (typeof value !== 'function' || !/^class \{\nconstructor\(\.\.\.given\)/.test(String(value))) return value;
  try {
    Reflect.construct(value, []);
  } catch { // it needs arguments
  }
  return Object.getPrototypeOf(value);
}

test('every entry point that is joined offers what the module of it does, by the same text but for comments and indentation', async () => {
  for (const entry of ['index.js', 'db/index.js', 'oauth/index.js', 'testing.js', 'cli.js', 'db/postgres.js', 'db/mysql.js', 'http/tls.js', 'workers.js']) {
    assert.deepEqual(await exportsOf('dist', entry), (await exportsOf('.build', entry)).sort(), entry);
  }
});

test('what people are told is joined as it was written, also where it names what the joined file has other words for', async () => {
  const { SvcError } = await import(pathToFileURL(join(ROOT, 'dist/index.js')).href) as typeof import('svc');
  assert.equal(new SvcError('E_STATIC_DIRECTORY', ['public', 'it is a file']).remedy, FAULTS.E_STATIC_DIRECTORY.remedy);
  assert.match(FAULTS.E_STATIC_DIRECTORY.remedy, /\bimport\.meta\.url\b/);
});

/** What a class of the package must do before one is made of it, and after: a program that prints nothing. */
const CLASSES = `
  import assert from 'node:assert/strict';
  const { CORSMiddleware, HTTPException, IdempotencyMiddleware, MemoryRecordStore, RateLimiter, SessionMiddleware, Svc, TooManyRequests, createLogger } = await import('DIST/index.js');
  const early = [CORSMiddleware, MemoryRecordStore, TooManyRequests].map((it) => Object.create(null) instanceof it || {} instanceof it || it.prototype instanceof it);
  assert.deepEqual(early, [false, false, false]);
  class Kept extends MemoryRecordStore {
    static made = 0;
    constructor(options) { super(options); Kept.made++; }
    async get(key) { return ['kept', await super.get(key)]; }
  }
  assert.ok(Kept.prototype instanceof MemoryRecordStore);
  assert.match(String(CORSMiddleware), /^class/); // a dependency of that class is made, not called
  assert.throws(() => CORSMiddleware(), TypeError);
  const kept = new Kept();
  assert.deepEqual([kept instanceof Kept, kept instanceof MemoryRecordStore, kept instanceof SessionMiddleware, kept.constructor, Kept.made], [true, true, false, Kept, 1]);
  assert.deepEqual(await kept.get('x'), ['kept', undefined]);
  const store = new MemoryRecordStore();
  assert.deepEqual([store instanceof MemoryRecordStore, store instanceof Kept, store.constructor, store.constructor.name], [true, false, MemoryRecordStore, 'MemoryRecordStore']);
  const late = new TooManyRequests('slowly');
  assert.deepEqual([late instanceof TooManyRequests, late instanceof HTTPException, late instanceof Error, late.name, late.status], [true, true, true, 'TooManyRequests', 429]);
  const limiter = new RateLimiter({ name: 'x', perMinute: 1, burst: 1 }); // what it throws is made where the class itself is known
  const caught = [];
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  app.get('/', async ({ req }) => { try { return (await limiter.take(req, 'a')).remaining; } catch (error) { caught.push(error); return 'over'; } });
  for (let count = 0; count < 2; count++) await (await app.fetch(new Request('http://localhost/'))).text();
  assert.deepEqual(caught.map((error) => [error instanceof TooManyRequests, error instanceof HTTPException, error.name]), [[true, true, 'TooManyRequests']]);
`;

/** What an application does with errors that files make which are loaded later. */
const ERRORS = `
  import assert from 'node:assert/strict';
  const { MemoryRecordStore, RateLimiter, RequestTimeout, StoreFull, Svc, TimeoutMiddleware, TooManyRequests, createLogger } = await import('DIST/index.js');
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  for (const errorClass of [RequestTimeout, StoreFull, TooManyRequests]) app.exceptionHandler(errorClass, () => errorClass.name);
  const limiter = new RateLimiter({ name: 'x', perMinute: 1, burst: 1 });
  const store = new MemoryRecordStore({ maxRecords: 1 });
  app.get('/often', async ({ req }) => { for (;;) await limiter.take(req, 'a'); });
  app.get('/full', async () => { for (const key of ['a', 'b']) await store.set(key, '1', 60_000); });
  app.get('/slow', { use: [new TimeoutMiddleware({ seconds: 0.001 })] }, () => new Promise((resolve) => setTimeout(resolve, 60_000)));
  for (const [path, name] of [['/often', 'TooManyRequests'], ['/full', 'StoreFull'], ['/slow', 'RequestTimeout']]) {
    assert.equal(await (await app.fetch(new Request('http://localhost' + path))).text(), name);
  }
  process.exit(0); // one handler still waits
`;

test('an exception handler gets errors of its class that are made in files which are loaded later', () => { loadedBy(ERRORS); });

test('a class that is loaded when one is made can be extended and asked for before, and what is of it is so inside and outside', () => {
  assert.deepEqual(loadedBy(CLASSES).filter((file) => !/^later-\d+\.cjs$/.test(file)), ['index.js', ...CORE]);
});

test('a class is asked for that was made where it itself is known: a WebSocket opens', () => {
  const loaded = loadedBy(`
    import assert from 'node:assert/strict';
    import { once } from 'node:events';
    const { Svc, createLogger } = await import('DIST/index.js');
    const app = new Svc({ logger: createLogger({ level: 'silent' }) });
    app.websocket('/', { allowMissingOrigin: true }).onMessage((socket, message) => socket.send(message));
    const server = await app.run({ port: 0, handleSignals: false });
    const client = new WebSocket(server.url.replace('http', 'ws'));
    await once(client, 'open');
    client.send('back');
    assert.equal((await once(client, 'message'))[0].data, 'back');
    client.close();
    await server.close();
  `);
  assert.ok(loaded.length > 1 + CORE.length);
});

/** The files of the core, in the order in which Node reads them: as the last one imports them. */
const CORE: string[] = [];
before(() => { CORE.push(...loadedBy("await import('DIST/index.js'); process.exit(0);").slice(1)); });

/** What a new process loads of dist, in order, while it runs a program. */
function loadedBy(program: string): string[] {
  const watch = `import { registerHooks } from 'node:module'; const dist = ${JSON.stringify(pathToFileURL(join(ROOT, 'dist/')).href)};
    registerHooks({ load(url, context, next) { if (url.startsWith(dist)) console.log(url.slice(dist.length)); return next(url, context); } });`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', `${watch}\n${program.replaceAll('DIST', DIST)}`], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout.split('\n').slice(0, -1);
}

test('a server of a few routes loads the core, and what comes later when it is called first', () => {
  const serve = `const { Svc, hashPassword, verifyToken } = await import('DIST/index.js');
    const app = new Svc(); app.get('/u/{id:int}', ({ params }) => params.id);
    const { port, close } = await app.run({ port: 0, handleSignals: false, host: '127.0.0.1' });
    const socket = process.getBuiltinModule('node:net').connect(port, '127.0.0.1').end('GET /u/1 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n');
    await new Promise((resolve) => socket.on('close', resolve).resume());`;
  for (const file of CORE) assert.match(file, /^core(?:-\d)?\.js$/);
  assert.deepEqual(loadedBy(`${serve} process.exit(0);`), ['index.js', ...CORE]);
  const more = loadedBy(`${serve} await hashPassword('a secret that is long'); process.exit(0);`);
  const others = more.slice(1 + CORE.length);
  assert.ok(others.length > 0);
  for (const file of others) assert.match(file, /^later-\d+\.cjs$/);
});

test('a file that comes later is loaded though no other descriptor is left, as often as there is a file', { skip: process.platform === 'win32' }, () => {
  const program = `
    import { closeSync, openSync } from 'node:fs';
    const { RateLimiter, Svc, createLogger, hashPassword } = await import('DIST/index.js');
    const app = new Svc({ logger: createLogger({ level: 'silent' }) }).get('/', () => 'hello');
    const { port, close } = await app.run({ port: 0, handleSignals: false, host: '127.0.0.1' });
    const socket = process.getBuiltinModule('node:net').connect(port, '127.0.0.1');
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write('GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n');
    await new Promise((resolve) => socket.once('data', resolve)); // it is accepted
    const open = [];
    try { for (;;) open.push(openSync('/dev/null')); } catch (error) { if (error.code !== 'EMFILE') throw error; }
    let answer = '';
    socket.on('data', (data) => { answer += data; });
    socket.write('this is no request\\r\\n\\r\\n');
    await new Promise((resolve) => socket.once('close', resolve));
    const hash = await hashPassword('a secret that is long', { iterations: 1_000 }).catch((error) => error.code);
    new RateLimiter({ name: 'x', perMinute: 1 });
    for (const file of open) closeSync(file);
    await close();
    console.log(answer.split('\\r\\n')[0], typeof hash);`;
  const limited = spawnSync('sh', ['-c', 'ulimit -n 60 && exec "$@"', 'sh', process.execPath, '--input-type=module', '--eval', program.replaceAll('DIST', DIST)], { encoding: 'utf8' });
  assert.deepEqual([limited.stderr, limited.stdout, limited.status], ['', 'HTTP/1.1 400 Bad Request string\n', 0]);
});

test('a program whose bundler or copy has left out what comes later says so, and what to do', (t) => {
  const copy = folder(t, { 'package.json': '{"type":"module"}', 'app.js': `import { Svc } from './dist/index.js'; new Svc().openapi();` });
  cpSync(join(ROOT, 'dist'), join(copy, 'dist'), { recursive: true, filter: (path) => !/later-\d+\.cjs$/.test(path) });
  const { status, stderr } = spawnSync(process.execPath, ['app.js'], { cwd: copy, encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /^Error: Cannot load "\.\/later-\d+\.cjs" of the package "svc": it does not lie beside file:\S+\/dist\/core\.js\. Let the bundler take entry points by the condition "module"/m);
  assert.match(stderr, /\[cause\]: Error: Cannot find module/);
});

test('what loads the package has not loaded fetch with it', () => {
  const program = `await import('DIST/index.js'); console.log(process.moduleLoadList.some((name) => name.endsWith('undici/undici')) ? 'fetch' : 'none');`;
  assert.equal(loadedBy(program).at(-1), 'none');
});

test('every file that comes later can be loaded on its own, by the name that others have for it', async () => {
  await import(pathToFileURL(join(ROOT, 'dist/index.js')).href); // all of the core
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
  for (const file of ['index.js', ...CORE]) assert.doesNotMatch(readFileSync(join(ROOT, 'dist', file), 'utf8'), /[^\0-\x7f]/, file);
});

test('the texts of a new project are the same when they are joined', async () => {
  const { starterFiles } = await import(pathToFileURL(join(ROOT, '.build/starter.js')).href) as typeof import('../../src/starter.ts');
  const joined = readdirSync(join(ROOT, 'dist')).filter((file) => file.startsWith('part-')).map((file) => readFileSync(join(ROOT, 'dist', file), 'utf8')).join('');
  const { text } = starterFiles({ name: 'x', source: 'registry', dependency: '', engine: '', secret: '', password: '' }).find(({ path }) => path === 'src/people.ts')!;
  assert.ok(joined.includes(bare(`\`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\``).slice(1, -1)));
});

test('the declarations that are published are those that somebody can name: the entry points, or a declaration that they lead to', () => {
  const entries = ['index.d.ts', 'testing.d.ts', 'db/index.d.ts', 'oauth/index.d.ts'].map((file) => readFileSync(join(ROOT, 'dist', file), 'utf8')).join('\n');
  const text = `${readFileSync(join(ROOT, 'dist/types.d.ts'), 'utf8')}\n${entries}`;
  const counts = new Map<string, number>();
  for (const [word] of masked(text).matchAll(/[\w$]+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const declared = new Map<string, number>(); // a function may be declared several times
  for (const [, name] of text.matchAll(/^(?:export )?(?:abstract )?(?:class|interface|type|function|const) ([\w$]+)/gm)) declared.set(name!, (declared.get(name!) ?? 0) + 1);
  assert.ok(declared.size > 500);
  assert.deepEqual([...declared].filter(([name, times]) => counts.get(name) === times).map(([name]) => name), []);
});
