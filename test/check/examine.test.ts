/**
 * The source phase over applications in text: what is marked is found at its line, and nothing else is.
 */
import assert from 'node:assert/strict';
import { cpSync, readdirSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { examineSources } from '../../src/check/examine.ts';
import { readProject } from '../../src/check/reader/modules.ts';
import { fileOfPlace } from '../../src/base/findings.ts';
import { ROOT } from '../support/build.ts';
import { enginesIn } from '../support/engines.ts';
import { manuals } from '../support/manuals.ts';
import { folder } from '../support/run.ts';
import { CASES, filesOf } from './rules/cases/all.ts';
import type { TestContext } from 'node:test';

/** Rules that examineSources() judges. The check of the whole application judges SVC219, SVC406, SVC41x and SVC42x. */
const RULES_OF_SOURCES = CORE_RULES.filter(
  ({ id, phase }) => phase === 'source' && !/^SVC(?:219|406|4[12]\d)$/.test(id),
);

function marksOf(files: Readonly<Record<string, string>>): string[] {
  return Object.entries(files).flatMap(([name, text]) =>
    text.split('\n').flatMap((line, index) => {
      const rules = /\/\/ ((?:SVC\d+ ?)+)$/.exec(line)?.[1];
      return rules === undefined ? [] : rules.split(' ').map((rule) => `${rule} ${name}:${index + 1}`);
    }),
  );
}

function foundIn(t: TestContext, files: Readonly<Record<string, string>>, entry: string): string[] {
  const cwd = folder(t, files);
  const migrations = Object.keys(files).filter((name) => name.endsWith('.sql'));
  const { findings, project } = examineSources(
    readProject([join(cwd, entry)]),
    CORE_RULES,
    undefined,
    migrations.map((name) => files[name]!),
    enginesIn(Object.values(files).join('\n')),
  );
  assert.deepEqual(project.unread, []);
  return [
    ...new Set(
      findings.map(({ rule, place }) => {
        const file = fileOfPlace(place!);
        return `${rule} ${relative(cwd, join(dirname(file), file.slice(dirname(file).length + 1)))}:${place!.line}`;
      }),
    ),
  ];
}

for (const [name, text] of Object.entries(CASES)) {
  test(`examineSources() reports exactly the marked lines of the example program "${name}"`, (t) => {
    const files = filesOf(text, 'app.ts', 'app.js');
    const entries = Object.keys(files).filter((file) => /^app\./.test(file));
    for (const entry of entries) {
      const own = entries.length === 1 ? files : { [entry]: files[entry]! };
      assert.deepEqual(foundIn(t, own, entry).sort(), marksOf(own).sort(), entry);
    }
  });
}

test('every check rule for source code is violated by at least one example', () => {
  const text = Object.values(CASES).join('\n');
  for (const { id } of RULES_OF_SOURCES) assert.match(text, new RegExp(`// ${id}$`, 'm'), id);
});

test('a response counts as named if its members are texts, numbers or entries of a session, but not claims, rows, or documents of columns and other services', (t) => {
  const cwd = folder(t, {
    'app.ts': `import { BearerAuth, Depends, Field, Schema, Svc, createToken, csrfToken, int, requireSession, sessionKey, str } from 'svc';
import { db } from 'svc/db';
import { createDecipheriv, createHash } from 'node:crypto';
export const app = new Svc();
const who = sessionKey('who');
app.get('/1', { who: Depends(requireSession(who)) }, ({ who }) => ({ who }));
app.get('/2', ({ req }) => ({ who: req.session.get(who), token: csrfToken(req) }));
app.get('/3', ({ params }) => ({ hash: createHash('sha256').update(params.text).digest('hex'), at: Date.now() }));
app.get('/4', ({ params }) => ({ text: createDecipheriv('aes-128-ecb', key, null).update(params.text).toString('utf8') }));
app.get('/5', () => ({ token: createToken('a', 'b') }));
app.get('/6', { me: Depends(BearerAuth()) }, ({ me }) => ({ me }));
app.get('/7', { base: Depends(db) }, async ({ base }) => ({ first: await base.fetchOne('select * from note limit 1') }));
app.get('/8', async () => ({ data: await (await fetch('https://other.example')).json() }));
class Album extends Schema { id = Field(int); name = Field(str); }
class Name extends Album.pick('name') {}
const named = 'select name from album limit 9';
app.get('/9', { base: Depends(db) }, async ({ base }) => ({ all: (await base.fetchAll(named, [], { as: Name })).map(({ name }) => ({ name })) }));
app.get('/10', { base: Depends(db) }, async ({ base }) => ({ all: (await base.fetchAll(named, [], { as: Album.omit('id') })).map(({ name }) => ({ name })) }));
app.post('/11', { base: Depends(db) }, async ({ base }) => ({ id: (await base.execute("insert into album (name) values ('a')")).lastInsertId }));
app.get('/12', { base: Depends(db) }, async ({ base }) => ({ all: (await base.fetchAll(named)).map(({ name }) => ({ name })) }));
app.get('/13', { base: Depends(db) }, async ({ base }) => ({ total: await base.scalar('select count(*) from album') }));
app.get('/14', { base: Depends(db) }, async ({ base }) => { const row = await base.fetchOne('select id, name from album limit 1'); return { id: row?.id, name: row?.name }; });
app.get('/15', { base: Depends(db) }, async ({ base }) => { const row = await base.fetchOne('select id, extra from album limit 1'); return { id: row?.id, extra: row?.extra }; });
app.get('/16', { base: Depends(db) }, async ({ base }) => (await base.fetchAll(named)).map((row) => ({ ...row })));
const tables = 'create table album (id integer primary key, name text, extra jsonb not null)';
`,
  });
  const { replies } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
  const named = [...replies].filter(([, openness]) => openness === 'named');
  assert.deepEqual(
    named.map(([place]) => Number(place.split(':').at(-1))).sort((a, b) => a - b),
    [6, 7, 8, 9, 10, 17, 18, 19, 20, 21, 22],
  );
});

test('a response counts as constant if the sources write it as it is, on each way to it', (t) => {
  const cwd = folder(t, {
    'app.ts': `import { Svc, reply } from 'svc';
export const app = new Svc();
const up = { status: 'up', parts: { queue: 3 } };
app.get('/1', () => ({ status: 'up' }));
app.get('/2', async () => { await 1; return {}; });
app.get('/3', () => up);
app.post('/4', () => reply({ ok: true }, { status: 201 }));
app.get('/5', ({ query }) => ({ text: query.text }));
app.get('/6', ({ query }) => { if (query.a) return { ok: true }; return { ...query }; });
app.get('/7', () => ({ at: Date.now() }));
`,
  });
  const { replies } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
  assert.deepEqual(
    [...replies]
      .filter(([, openness]) => openness === 'constant')
      .map(([place]) => Number(place.split(':').at(-1)))
      .sort((a, b) => a - b),
    [4, 5, 7],
  );
});

test('a response counts as an object if a function of the project gives rows or members, but not if it is a text, a response or a refusal', (t) => {
  const cwd = folder(t, {
    'app.ts': `import { Depends, HTMLResponse, Svc, reply } from 'svc';
import { db } from 'svc/db';
const rows = (base) => base.fetchAll('select * from person order by id');
const first = async (base) => ({ first: await base.fetchOne('select * from person limit 1') });
export const app = new Svc();
app.get('/1', { base: Depends(db) }, ({ base }) => rows(base));
app.get('/2', { base: Depends(db) }, async ({ base }) => { const result = await first(base); return result; });
app.get('/3', { base: Depends(db) }, async ({ base }) => reply(await first(base), 201));
app.get('/4', { base: Depends(db) }, async ({ base }) => [await first(base)]);
app.get('/5', { base: Depends(db) }, async ({ base }) => String(await base.scalar('select count(*) from person')));
app.get('/6', { base: Depends(db) }, async ({ base }) => [await first(base), 404]);
app.get('/7', { base: Depends(db) }, async ({ base }) => reply(await first(base), 404));
app.get('/8', () => new HTMLResponse('<p>a</p>'));
app.get('/9', () => ['a', 'b']);
`,
  });
  const { objects } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
  assert.deepEqual(
    [...objects].map((place) => Number(place.split(':').at(-1))).sort((a, b) => a - b),
    [6, 7, 8, 9],
  );
});

test('a member of a response is a token if the program makes it, and kept if a row or a variable has it', (t) => {
  const cwd = folder(t, {
    'app.ts': `import { Depends, Svc, createToken } from 'svc';
import { db } from 'svc/db';
import { randomUUID } from 'node:crypto';
export const app = new Svc();
app.post('/a', () => ({ token: createToken('a', 'b') }));
app.post('/b', () => ({ token: randomUUID() }));
app.post('/c', () => ({ token: process.env['API_TOKEN'] }));
app.get('/d', { db: Depends(db) }, async ({ db }) => { const row = await db.fetchOne('select token from a'); return { token: row.token }; });
app.post('/e', ({ query }) => ({ token: query.token }));
app.post('/f', () => ({ token: Math.random() > 0.5 ? createToken('a', 'b') : process.env['API_TOKEN'] }));
`,
  });
  const { members } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
  assert.deepEqual(
    [...members].map(([key, origin]) => [Number(/:(\d+) token$/.exec(key)?.[1]), origin]).sort(),
    [
      [10, 'kept'],
      [5, 'token'],
      [6, 'token'],
      [7, 'kept'],
      [8, 'kept'],
      [9, 'other'],
    ],
  );
});

/** Findings of files, in words. */
function wordsOf(entries: readonly string[]): string[] {
  return examineSources(readProject(entries), CORE_RULES).findings.map(
    ({ rule, severity, place, message }) =>
      `${severity} ${rule} ${basename(fileOfPlace(place!))}:${place!.line}: ${message}`,
  );
}

test('examineSources() reports nothing for the applications in test/check/clean and test/check/near', () => {
  const files = ['clean', 'near'].flatMap((kind) => {
    const path = join(ROOT, 'test/check', kind);
    return readdirSync(path)
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(path, name));
  });
  assert.ok(files.length > 50);
  assert.deepEqual(wordsOf(files), []);
});

test('examineSources() reports no error for the template of new projects and for the examples in the manuals', (t) => {
  const starter = folder(t);
  cpSync(join(ROOT, 'src/cli/starter/template'), starter, { recursive: true });
  assert.deepEqual(wordsOf([join(starter, 'src/app.ts')]), []);
  const examples = manuals().flatMap(({ text }) =>
    [...text.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!),
  );
  assert.ok(examples.length > 30);
  const files = Object.fromEntries(examples.map((code, index) => [`example-${index}.ts`, code]));
  const cwd = folder(t, files);
  const found = wordsOf(Object.keys(files).map((name) => join(cwd, name)));
  assert.deepEqual(
    found.filter((words) => words.startsWith('error')),
    [],
  );
});

test('statements for each row of a list are a warning, and a note where a limit keeps the list short', (t) => {
  const severityWith = (end: string): string[] => {
    const cwd = folder(t, {
      'app.ts': `import { Depends, Svc } from 'svc'; import { db } from 'svc/db'; const app = new Svc();
app.get('/', { store: Depends(db) }, async ({ store }) => {
  const all = [];
  for (const { id } of await store.fetchAll('select id from sale order by id${end}')) all.push(await store.fetchAll('select name from part where sale = ?', [id]));
  return all;
});`,
    });
    return wordsOf([join(cwd, 'app.ts')]).map((words) => words.slice(0, words.indexOf(' app')));
  };
  assert.deepEqual(severityWith(' limit 20'), ['info SVC662']);
  assert.deepEqual(severityWith(' limit 500'), ['warning SVC662']);
  assert.deepEqual(severityWith(''), ['warning SVC662']);
});

test('findings of examineSources() have the line of the TypeScript file, even after types are removed or an enum is compiled', (t) => {
  for (const head of ['interface A { a: string }\n', 'enum A { a = 1 }\n']) {
    const cwd = folder(t, {
      'app.ts': `${head}import { Svc } from 'svc'; const app = new Svc();\napp.get('/', ({ query }: Context<string>) => eval(query.q));\n`,
    });
    const [finding] = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES).findings;
    assert.deepEqual([finding!.rule, finding!.place!.line], ['SVC603', 3]);
    if (head.startsWith('interface')) assert.equal(finding!.place!.column, 51);
  }
});

test('findings of examineSources() name the function that contains the mistake: a method, or the function around a callback', (t) => {
  const cwd = folder(t, {
    'app.ts': [
      "import { readFileSync } from 'node:fs';",
      "import { Svc } from 'svc';",
      'const app = new Svc();',
      'class Pages { read(names) { return names.map((name) => readFileSync(name)); } }',
      'const tools = { load(name) { return readFileSync(name); } };',
      'const pages = new Pages();',
      "app.get('/a', () => pages.read(['a']));",
      "app.get('/b', () => tools.load('b'));",
    ].join('\n'),
  });
  const found = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES).findings;
  const words = found.map(({ rule, subject, message }) => `${rule} ${subject}: ${message}`);
  assert.deepEqual(words, [
    'SVC501 function read: readFileSync() blocks all other requests until the call returns, and requests reach "read", the function that contains the call',
    'SVC501 function load: readFileSync() blocks all other requests until the call returns, and requests reach "load", the function that contains the call',
  ]);
});

test('SVC609 names the column of the media type as the statement does', (t) => {
  const cwd = folder(t, filesOf(CASES['type of an upload sent inline']!, 'app.ts', 'app.js'));
  assert.match(
    wordsOf([join(cwd, 'app.ts')]).join('\n'),
    /SVC609 .*the column "media_type" has the media type/,
  );
});

test('readProject() names the first file beyond its limit of files, and how many there are', (t) => {
  const cwd = folder(t, {
    'app.ts': "import './a.ts'; import './b.ts'; import './c.ts';",
    'a.ts': '',
    'b.ts': '',
    'c.ts': '',
  });
  const { modules, unread } = readProject([join(cwd, 'app.ts')], 2);
  assert.deepEqual(
    modules.map(({ file }) => basename(file)),
    ['app.ts', 'a.ts'],
  );
  assert.deepEqual(unread, [
    { file: join(cwd, 'b.ts'), why: 'the limit of svc check is 2 files (files beyond it: 2)' },
  ]);
});

test('examineSources() accepts blocking calls of helpers whose results are kept, or that only development calls (SVC501)', (t) => {
  const cwd = folder(t, {
    'app.ts': [
      "import { readFileSync } from 'node:fs';",
      "import { Svc } from 'svc';",
      'const app = new Svc();',
      'const pages = new Map();',
      'const once = (fn) => { let made; return () => (made ??= { of: fn() }).of; };',
      "const start = once(() => readFileSync('a'));",
      'function page(name) { const hit = pages.get(name); if (hit) return hit; const text = readFileSync(name); pages.set(name, text); return text; }',
      'function watched(name) { return readFileSync(name); }',
      'function template(name) { if (app.env === "production") return pages.get(name); return readFileSync(name); }',
      'function each(name) { return readFileSync(name); }',
      "app.get('/a', () => [start(), page('a'), template('a'), app.env === 'development' ? watched('a') : 1, each('a')]);",
    ].join('\n'),
  });
  const found = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES).findings;
  assert.deepEqual(
    found.map(({ rule, subject }) => `${rule} ${subject}`),
    ['SVC501 function each'],
  );
});
