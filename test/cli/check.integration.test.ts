/**
 * `svc check`, run as its users run it: bin/svc.js and the built package, in a folder of their own.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, ROOT, build } from '../support/build.ts';
import { project, run, svc } from '../support/run.ts';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Ended, RunOptions } from '../support/run.ts';

before(build);

const APP = "import { Svc } from 'svc';\nexport const app = new Svc();\n";
/**
 * Rules that the tests skip: SVC404 depends on the Node.js that runs the tests, and the applications here are
 * too small for SVC211 and SVC302.
 */
const SKIP = ['--skip', 'SVC404,SVC211,SVC302'];

interface Document {
  readonly ok: boolean;
  readonly counts: Readonly<Record<string, number>>;
  readonly findings: readonly {
    rule: string;
    severity: string;
    subject: string;
    message: string;
    remedy: string;
    place: { file: string; line: number; column: number } | null;
  }[];
  readonly suppressed: readonly unknown[];
}

/** Runs `svc check` in a folder with these files; app.ts exports the application. */
async function check(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  options: RunOptions = {},
): Promise<Ended & { document: Document }> {
  const ended = await svc(['check', 'app.ts', '--format', 'json', ...SKIP, ...args], {
    cwd: project(t, files),
    ...options,
  });
  let document: Document;
  try {
    document = JSON.parse(ended.stdout) as Document;
  } catch {
    throw new Error(`no JSON, status ${ended.status}:\n${ended.stdout}${ended.stderr}`);
  }
  return { ...ended, document };
}

const brief = ({ findings }: Document): unknown[] =>
  findings.map(({ rule, place }) => [rule, place === null ? null : `${place.file}:${place.line}`]);

test('svc check ends with status 0 if the application has no mistakes', async (t) => {
  const { status, document, stderr } = await check(t, { 'app.ts': `${APP}app.get('/', () => 1);\n` }, [
    '--max-warnings',
    '0',
    '--fail-level',
    'info',
  ]);
  assert.deepEqual(
    [status, document.ok, document.findings, document.counts, stderr],
    [0, true, [], { error: 0, warning: 0, info: 0, suppressed: 0 }, ''],
  );
});

test('svc check and svc run name source files by their paths, not by "file:" URLs, when an application does not compile', async (t) => {
  const twice =
    "import { Svc } from 'svc';\nexport const app = new Svc();\napp.get('/a', () => 1);\napp.get('/a', () => 1);\n";
  const cwd = project(t, { 'all routes é.ts': twice });
  const { findings } = JSON.parse(
    (await svc(['check', 'all routes é.ts', '--format', 'json', '--only', 'SVC101'], { cwd })).stdout,
  ) as Document;
  assert.deepEqual(
    findings.map(({ message }) => message),
    ['this path and method are also registered as /a at all routes é.ts:3'],
  );
  const { status, stderr } = await svc(['run', 'all routes é.ts', '--port', '0'], { cwd });
  assert.deepEqual(
    [
      status,
      stderr.includes(`as /a at ${join(cwd, 'all routes é.ts')}:3 (${join(cwd, 'all routes é.ts')}:4:5)`),
    ],
    [3, true],
    stderr,
  );
});

const MISTAKEN = `${APP}app.get('/a', () => 1);
app.get('/A', () => 1);
app.get('/a', () => 1);
app.get('/b', { allow: [{ rule: 'shop/b', reason: 'known' }] }, () => 1);
app.addCheck({ id: 'shop/b', severity: 'error', why: 'b is bad', remedy: 'leave it out', phase: 'contract', run: (view, report) => { for (const r of view.routes) if (r.template === '/b') report('GET /b', 'is b'); } });
app.addCheck({ id: 'shop/note', severity: 'info', why: 'to know', remedy: 'know it', phase: 'contract', run: (_view, report) => report('all', 'noted') });
console.log('printed by the application');
app.log.info('logged');
`;

test('svc check prints findings by severity with their source position, and sends the output of the application to standard error', async (t) => {
  const { status, stdout, stderr } = await svc(['check', 'app.ts', ...SKIP], {
    cwd: project(t, { 'app.ts': MISTAKEN }),
  });
  assert.equal(status, 1);
  assert.match(
    stdout,
    /^Errors\n {2}SVC101 {2}GET \/a {2}app\.ts:5:5\n {6}[^\n]+ at app\.ts:3\n {6}why: [^\n]+\n {6}fix: [^\n]+\n\nWarnings\n {2}SVC103 {2}GET \/A {2}app\.ts:4:5\n[^]*\nNotes\n {2}shop\/note {2}all\n {6}noted\n {6}why: to know\n {6}fix: know it\n\nChecked 4 routes, [^\n]+\napp\.ts: 1 error, 1 warning, 1 note, 1 allowed\n$/,
  );
  assert.doesNotMatch(stdout, /printed|logged|\u001b/);
  assert.match(stderr, /^printed by the application$/m);
  assert.match(stderr, /"event":"logged"/);
});

for (const [args, expected] of [
  [[], 1],
  [['--skip', 'SVC101'], 0],
  [['--skip', 'svc101', '--fail-level', 'warning'], 1],
  [['--skip', 'SVC1*', '--fail-level', 'warning'], 0],
  [['--skip', 'SVC1*', '--fail-level', 'info'], 1],
  [['--skip', 'SVC101', '--max-warnings', '0'], 1],
  [['--skip', 'SVC101', '--max-warnings', '1'], 0],
  [['--only', 'SVC103'], 0],
  [['--only', 'SVC101,SVC103'], 1],
  [['--only', 'shop/*'], 0],
  [['--only', 'SVC2*', '--fail-level', 'info'], 0],
] as const) {
  test(`with one error, one warning and one info finding, svc ${['check', ...args].join(' ')} ends with status ${expected}`, async (t) => {
    assert.equal((await check(t, { 'app.ts': MISTAKEN }, args)).status, expected);
  });
}

test('svc check --output writes reports to files, creates missing folders, and does not change standard output', async (t) => {
  const cwd = project(t, { 'app.ts': MISTAKEN });
  const { status, stdout } = await svc(
    [
      'check',
      'app.ts',
      ...SKIP,
      '--output',
      'sarif=out/check.sarif',
      '--output',
      'junit=out/check.xml',
      '--output',
      'gitlab=quality.json',
      '--output',
      'human=check.txt',
    ],
    { cwd },
  );
  assert.equal(status, 1);
  const { results } = JSON.parse(readFileSync(join(cwd, 'out/check.sarif'), 'utf8')).runs[0] as {
    results: {
      ruleId: string;
      locations: { physicalLocation: { artifactLocation: object; region: object } }[];
    }[];
  };
  assert.deepEqual(
    results.map(({ ruleId }) => ruleId),
    ['SVC101', 'SVC103', 'shop/note'],
  );
  assert.deepEqual(results[0]!.locations[0]!.physicalLocation, {
    artifactLocation: { uri: 'app.ts', uriBaseId: '%SRCROOT%' },
    region: { startLine: 5, startColumn: 5 },
  });
  assert.match(readFileSync(join(cwd, 'out/check.xml'), 'utf8'), /<failure type="error"/);
  assert.equal((JSON.parse(readFileSync(join(cwd, 'quality.json'), 'utf8')) as unknown[]).length, 3);
  assert.equal(readFileSync(join(cwd, 'check.txt'), 'utf8'), stdout);
});

test('svc check --format junit writes a failed test case for each finding at or above --fail-level', async (t) => {
  const { stdout } = await svc(['check', 'app.ts', ...SKIP, '--format', 'junit', '--fail-level', 'warning'], {
    cwd: project(t, { 'app.ts': MISTAKEN }),
  });
  assert.match(stdout, /^<\?xml [^]*<testsuites name="svc check app\.ts" tests="\d+" failures="2">/);
});

test('when GITHUB_ACTIONS is set, svc check prints workflow commands and appends to the step summary, unless --format is given', async (t) => {
  const cwd = project(t, { 'app.ts': MISTAKEN });
  const env = { GITHUB_ACTIONS: 'true', GITHUB_STEP_SUMMARY: join(cwd, 'summary.md') };
  const annotated = await svc(['check', 'app.ts', ...SKIP], { cwd, env });
  assert.match(
    annotated.stdout,
    /^::error file=app\.ts,line=5,col=5,title=SVC101 GET \/a::[^]*\n::warning file=app\.ts,line=4,[^]*\n::notice /,
  );
  assert.match(
    readFileSync(join(cwd, 'summary.md'), 'utf8'),
    /\| error \| SVC101 \| GET \/a \| app\.ts:5 \|/,
  );
  assert.match(
    (await svc(['check', 'app.ts', ...SKIP, '--format', 'human'], { cwd, env })).stdout,
    /^Errors\n/,
  );
  const unwritable = await svc(['check', 'app.ts', ...SKIP], {
    cwd,
    env: { ...env, GITHUB_STEP_SUMMARY: join(cwd, 'no/such/folder.md') },
  });
  assert.deepEqual(
    [
      unwritable.status,
      unwritable.stderr.includes('the job summary (GITHUB_STEP_SUMMARY) cannot be written: ENOENT'),
    ],
    [1, true],
  );
});

for (const [output, expected] of [
  ['sarif', 'needs a format and a file'],
  ['sarif=', 'needs a format and a file'],
  ['pdf=a', 'needs human, json, sarif, github, gitlab or junit, found "pdf"'],
  ['json=app.ts/x', 'the file "app.ts/x" of --output cannot be written: E'],
] as const) {
  test(`svc check --output ${output} ends with status 2, because the value of --output is invalid`, async (t) => {
    const { status, stderr } = await svc(['check', 'app.ts', '--output', output], {
      cwd: project(t, { 'app.ts': APP }),
    });
    assert.deepEqual([status, stderr.includes(expected)], [2, true], stderr);
  });
}

test('svc check --format json prints one JSON document, in which paths are relative to the working folder', async (t) => {
  const { document } = await check(t, { 'app.ts': MISTAKEN });
  assert.deepEqual(brief(document), [
    ['SVC101', 'app.ts:5'],
    ['SVC103', 'app.ts:4'],
    ['shop/note', null],
  ]);
  assert.match(document.findings[0]!.message, / at app\.ts:3$/);
  assert.equal(document.suppressed.length, 1);
});

test('svc check --env sets the environment that is checked, and --env-file adds the variables of a file', async (t) => {
  const files = {
    'app.ts': `${APP}app.config.get('pageSize', 20);\napp.addCheck({ id: 'a/env', severity: 'error', why: 'w', remedy: 'r', phase: 'environment', run: (view, report) => report(view.env, 'here') });`,
    'my.env': 'SVC_ENV=test\nSVC_PAGE_SZIE=5\n',
  };
  assert.deepEqual(
    (await check(t, files)).document.findings.map(({ subject }) => subject),
    ['production'],
  );
  assert.deepEqual(
    (await check(t, files, ['--env', 'development'])).document.findings.map(({ subject }) => subject),
    ['development'],
  );
  const { document } = await check(t, files, ['--env-file', 'my.env']);
  assert.deepEqual(
    document.findings.map(({ rule, subject }) => `${rule} ${subject}`),
    ['a/env test', 'SVC401 variable SVC_PAGE_SZIE'],
  );
});

// ── SVC001 ──

for (const [what, files, message, place, options] of [
  [
    'an import that throws',
    { 'app.ts': `${APP}\nthrow new RangeError('too much');` },
    /^RangeError: too much$/,
    'app.ts:4',
  ],
  [
    'an import that needs a variable which is not set, with the option that reads a file of variables',
    { 'app.ts': `${APP}export const url = new URL(process.env.TEST_SHOP_URL!);` },
    /^TypeError: Invalid URL; the environment variable TEST_SHOP_URL is not set$/,
    'app.ts:3',
    { remedy: /^Set TEST_SHOP_URL, or name the file that sets it: --env-file \.env\. Otherwise: / },
  ],
  ['a thrown null', { 'app.ts': 'throw null;' }, /^the module threw null$/, null],
  ['a syntax error', { 'app.ts': '\n\nexport const app = (;' }, /^Expression expected$/, 'app.ts:3'],
  [
    'a missing export',
    { 'app.ts': 'export const server = 1;' },
    /^there is no such export: the module exports server$/,
    null,
  ],
  ['a missing module', {}, /^the folder .* contains no such file/, null],
  [
    'a top-level await that never settles',
    { 'app.ts': 'await new Promise(() => {});' },
    /^a top-level await waits forever$/,
    null,
  ],
  [
    'a module that ends the process',
    { 'app.ts': 'process.exit(0);' },
    /^it ended the process with status 0 while it was imported$/,
    null,
  ],
  [
    'a module that starts its application',
    { 'app.ts': `${APP}app.onStartup(() => console.log('HOOK'));\nawait app.run({ port: 0 });` },
    /^Cannot start the application while a command such as svc check inspects it/,
    'app.ts:4',
  ],
  [
    'a module that waits for a connection',
    { 'app.ts': "import { connect } from 'node:net';\nconst socket = connect(80, 'example.com');\n" },
    /^the import connects to example\.com:80$/,
    'app.ts:2',
  ],
  [
    'a module that waits for an HTTP response',
    { 'app.ts': "\nawait fetch('http://example.com/');\n" },
    /^the import connects to example\.com:80$/,
    'app.ts:2',
  ],
  [
    'a module that waits for a DNS look-up',
    { 'app.ts': "import { lookup } from 'node:dns/promises';\nawait lookup('example.com');\n" },
    /^the import looks up the name example\.com$/,
    'app.ts:2',
  ],
  [
    'a module that listens on a port',
    { 'app.ts': "import { createServer } from 'node:http';\n\ncreateServer().listen(0);\n" },
    /^the import listens$/,
    'app.ts:3',
  ],
  [
    'a module that binds a datagram socket',
    { 'app.ts': "import { createSocket } from 'node:dgram';\ncreateSocket('udp4').bind(0);\n" },
    /^the import uses a datagram socket$/,
    'app.ts:2',
  ],
  [
    'a module that calls process.disconnect()',
    { 'app.ts': 'process.disconnect();' },
    /^it ended the process with status 1/,
    null,
  ],
  [
    'a setting that cannot be converted',
    { 'app.ts': `${APP}app.config.get('pageSize', 20);` },
    /^Cannot read SVC_PAGE_SIZE: a finite decimal number is needed/,
    'app.ts:3',
    { env: { SVC_PAGE_SIZE: 'x' } },
  ],
] as const) {
  test(`svc check ends with status 3 and reports ${what}`, async (t) => {
    const { remedy = /^/, ...runOptions } = (options ?? {}) as RunOptions & { readonly remedy?: RegExp };
    const { status, document, stderr } = await check(t, files, [], runOptions);
    assert.equal(status, 3, stderr);
    assert.match(document.findings[0]!.remedy, remedy);
    assert.deepEqual(brief(document), [
      [what === 'a setting that cannot be converted' ? 'SVC401' : 'SVC001', place],
    ]);
    assert.match(document.findings[0]!.message, message);
    assert.equal(document.ok, false);
    assert.doesNotMatch(stderr, /HOOK/);
  });
}

test('if the given module does not exist, svc check shows how to name a module and its export', async (t) => {
  const { document } = await check(t, {});
  assert.equal(
    document.findings[0]!.remedy,
    'Name a module and its export, for example: svc run src/app.ts:app',
  );
});

test('svc check ends with status 3 for an application that calls app.startup() during its import, and recommends import.meta.main', async (t) => {
  const { status, document, stderr } = await check(t, {
    'app.ts': `${APP}try { await app.startup(); } catch (error) { console.error(error.code); throw error; }`,
  });
  assert.equal(status, 3);
  assert.match(stderr, /^E_START_DENIED$/m);
  assert.match(document.findings[0]!.remedy, /import\.meta\.main/);
});

test('if the imported module calls compileAll() and this call throws, svc check reports the mistakes as findings', async (t) => {
  const { status, document } = await check(t, {
    'app.ts': `${APP}app.get('/', () => 1);\napp.get('/', () => 2);\napp.compileAll();`,
  });
  assert.equal(status, 3);
  assert.deepEqual(
    document.findings
      .filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, place }) => [rule, place!.line]),
    [['SVC101', 4]],
  );
});

/** `others`: rules that also report the line, because they read the source. */
for (const [what, code, message, ...others] of [
  ['a timer', 'setInterval(() => {}, 1_000);', /^the import leaves a timer open \(timeout\)$/],
  [
    'a file watcher',
    "(await import('node:fs')).watch('.');",
    /^the import leaves a file watcher open \(fseventwrap\)$/,
  ],
  [
    'a worker thread',
    "new (await import('node:worker_threads')).Worker('setInterval(() => {}, 1e3)', { eval: true });",
    /^the import leaves a worker thread open \(worker\)$/,
  ],
  [
    'a child process',
    "(await import('node:child_process')).spawn('sleep', ['5'], { stdio: 'ignore' });",
    /^the import leaves a child process open \(processwrap\)$/,
  ],
  [
    'a refused connection',
    "try { (await import('node:net')).connect('/tmp/x.sock'); } catch { /* later */ }",
    /^the import connects to a local socket$/,
  ],
  [
    'a refused request',
    "fetch('https://example.com:8443/').catch(() => {});",
    /^the import connects to example\.com:8443$/,
  ],
  [
    'a request that is not awaited',
    "void fetch('http://example.com/');",
    /^the import connects to example\.com:80$/,
    'SVC611',
  ],
  ['a DNS look-up', "(await import('node:dns')).resolve4('example.com', () => {});", /./],
  ['an error that is thrown later', "queueMicrotask(() => { throw new TypeError('later'); });", /^later$/],
  ['a rejected promise without a handler', "void Promise.reject(new TypeError('later'));", /^later$/],
] as const) {
  test(`svc check fails if the import of a module starts or causes ${what}`, async (t) => {
    if (what === 'a DNS look-up')
      return void assert.equal((await check(t, { 'app.ts': `${APP}\n${code}\n` })).status, 3); // thrown at once
    const { status, document, stderr } = await check(t, { 'app.ts': `${APP}\n${code}\n` });
    assert.deepEqual(
      brief(document),
      ['SVC001', ...others].map((rule) => [rule, 'app.ts:4']),
      stderr,
    );
    assert.match(document.findings[0]!.message, message);
    assert.equal(status, 1);
  });
}

test('svc check ignores timers of the imported module that end soon, and handles that do not keep the process alive', async (t) => {
  const { status, document } = await check(t, {
    'app.ts': `${APP}setTimeout(() => {}, 20);\nsetInterval(() => {}, 1e3).unref();\nprocess.on('SIGTERM', () => {});\nimport('node:fs').then((fs) => fs.promises.readFile('app.ts')).catch(() => undefined);\nprocess.send?.('ready');\n`,
  });
  assert.deepEqual([status, document.findings], [0, []]);
});

test('a module that svc check imports cannot send HTTP, TLS or WebSocket requests', async (t) => {
  let requests = 0;
  const server = createServer(() => {
    requests++;
  })
    .on('connection', () => {
      requests++;
    })
    .listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await check(t, {
    'app.ts': `${APP}fetch('http://127.0.0.1:${port}/').catch(() => {});\nimport http from 'node:http';\ntry { http.get('http://127.0.0.1:${port}/').on('error', () => {}); } catch {}\nimport tls from 'node:tls';\ntry { tls.connect(${port}, '127.0.0.1'); } catch {}\nnew WebSocket('ws://127.0.0.1:${port}/').onerror = () => {};\n`,
  });
  assert.equal(requests, 0);
});

for (const [what, code] of [
  ['awaits a promise that never settles', 'setInterval(() => {}, 100);\nawait new Promise(() => {});'],
  [
    'never returns',
    'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); // as an endless loop does, but that it leaves the processor to others',
  ],
] as const) {
  test(`if a module ${what}, svc check ends with status 124 after the time limit of --timeout`, async (t) => {
    const { status, document } = await check(t, { 'app.ts': code }, ['--timeout', '1']);
    assert.equal(status, 124);
    assert.deepEqual(brief(document), [['SVC001', null]]);
    assert.match(
      document.findings[0]!.message,
      what === 'never returns'
        ? /^it did not finish within 1 s$/
        : /^the import of the module has not ended after 1 s: unfinished work of the module \(Timeout\) keeps the process alive$/,
    );
  });
}

test('svc check ends with status 0 for an application in a read-only folder, and writes no file', async (t) => {
  const cwd = project(t, { 'app.ts': `${APP}app.get('/', () => 1);\n`, 'tmp/.keep': '' });
  const seen = (): unknown[] =>
    ['', 'tmp', 'node_modules'].map((folder) => [
      readdirSync(join(cwd, folder)),
      statSync(join(cwd, folder)).mtimeMs,
    ]);
  for (const folder of ['tmp', '']) chmodSync(join(cwd, folder), 0o555);
  const before = seen();
  const { status } = await svc(['check', 'app.ts'], { cwd, env: { TMPDIR: join(cwd, 'tmp') } });
  const after = seen();
  for (const folder of ['', 'tmp']) chmodSync(join(cwd, folder), 0o755); // makes the folder writable, so that it can be removed
  assert.deepEqual([status, after], [0, before]);
});

test('svc check runs no startup hook and resolves no dependency of scope "app"', async (t) => {
  const { status, stderr } = await check(t, {
    'app.ts':
      "import { Svc, Depends } from 'svc';\nexport const app = new Svc();\napp.onStartup(() => console.log('HOOK'));\napp.get('/', { it: Depends(() => console.log('HOOK'), { scope: 'app' }) }, () => 1);\napp.register({ name: 'p', register() {}, startup() { console.log('HOOK'); } });",
  });
  assert.equal(status, 0);
  assert.equal(stderr, '');
});

test('if svc check itself fails with an unexpected error, it prints the stack and ends with status 4', async (t) => {
  const { status, stdout, stderr } = await svc(['check', 'app.ts'], {
    cwd: project(t, { 'app.ts': `${APP}app.check = () => { throw new Error('our fault'); };` }),
  });
  assert.deepEqual([status, stdout], [4, '']);
  assert.match(stderr, /^svc: Error: our fault\n +at /);
});

// ── sources ──

const SEARCH =
  "export const find = (db, text) => db.fetchAll(`select * from notes where text = '${text}'`);\n";

test('svc check reports line and column of mistakes in TypeScript and JavaScript modules that the application imports', async (t) => {
  for (const [name, extension] of [
    ['types', 'ts'],
    ['none', 'js'],
  ] as const) {
    const { status, document } = await check(t, {
      'app.ts': `${APP}import { Depends } from 'svc';\nimport { DatabasePlugin, db } from 'svc/db';\nimport { find } from './lib/find.${extension}';\napp.register(new DatabasePlugin('sqlite:./data.db'));\napp.get('/notes', { db: Depends(db) }, ({ db, req }) => find(db, req.query.get('text') ?? ''));\n`,
      [`lib/find.${extension}`]:
        extension === 'ts'
          ? SEARCH.replace('(db, text)', '(db: { fetchAll(x: string): unknown }, text: string)')
          : SEARCH,
    });
    const [finding, ...others] = document.findings;
    assert.deepEqual([status, others], [1, []], name);
    assert.deepEqual(
      [finding!.rule, finding!.severity, finding!.subject, finding!.place],
      [
        'SVC601',
        'error',
        'function find',
        { file: `lib/find.${extension}`, line: 1, column: extension === 'ts' ? 89 : 47 },
      ],
    );
  }
});

test('a comment "svc-allow RULE until DATE: reason" suppresses findings of svc check until the end of the given date', async (t) => {
  const app = (comment: string): string =>
    `import { HTMLResponse, Svc } from 'svc';\n// svc-allow SVC208: read by our own team only\nexport const app = new Svc({ config: { debug: true } });\napp.get('/', {}, ({ query }) => new HTMLResponse('<p>' + query.name)); ${comment}\n`;
  const allowed = await check(t, {
    'app.ts': app('// svc-allow SVC608 until 2999-12-31: behind our own gateway'),
  });
  assert.deepEqual(
    [allowed.status, allowed.document.findings, allowed.document.suppressed.length],
    [0, [], 2],
  );
  for (const [comment, message] of [
    ['// svc-allow SVC608 until 2020-01-31: it was for a while', /the finding was allowed until 2020-01-31/],
    ['// svc-allow SVC608', /the allowance gives no reason/],
    ['// svc-allow SVC608 until tomorrow: later', /is not of the form 2027-01-31/],
  ] as const) {
    const { status, document } = await check(t, { 'app.ts': app(comment) });
    assert.equal(status, 1);
    assert.match(document.findings[0]!.message, message);
  }
  const other = await check(t, { 'app.ts': app('// svc-allow SVC601: another rule') });
  assert.deepEqual(brief(other.document), [['SVC608', 'app.ts:4']]);
});

test('if a module opens a database during its import, svc check reports the line of the openDatabase() call', async (t) => {
  const { status, document } = await check(t, {
    'app.ts': `${APP}import { db } from './store.ts';\napp.get('/', () => db.scalar('select 1'));\n`,
    'store.ts': `import { openDatabase } from 'svc/db';\n\nexport const db = await openDatabase('postgres://app@127.0.0.1:1/shop');\n`,
  });
  assert.equal(status, 3);
  assert.ok(
    brief(document).some((each) => String(each) === 'SVC001,store.ts:3'),
    JSON.stringify(brief(document)),
  );
});

test('svc check skips an imported file that is not valid JavaScript, and still reads the other files', async (t) => {
  const { status, document } = await check(t, {
    'app.ts': `${APP}import('./later.js').catch(() => undefined);\n`,
    'later.js': 'this is not JavaScript',
  });
  assert.deepEqual([status, document.findings], [0, []]);
});

// ── known findings, and the extent of a check ──

test('svc check --known FILE writes the findings to a new file, and later runs report only findings that the file does not contain', async (t) => {
  const page = (path: string, name: string): string =>
    `app.get('${path}', {}, ({ query }) => new HTMLResponse('<p>' + query.${name}));\n`;
  const head = `import { HTMLResponse, Svc } from 'svc';\nexport const app = new Svc();\n`;
  const cwd = project(t, { 'app.ts': head + page('/a', 'a') + page('/b', 'b') });
  const args = ['check', 'app.ts', ...SKIP, '--known', 'known.json'];
  const env = { CI: '' };
  const known = async (): Promise<Document> =>
    JSON.parse((await svc([...args, '--format', 'json'], { cwd, env })).stdout) as Document;
  const listed = (): number =>
    (JSON.parse(readFileSync(join(cwd, 'known.json'), 'utf8')) as { known: string[] }).known.length;
  const inCi = await svc(args, { cwd, env: { CI: 'true' } });
  assert.equal(inCi.status, 2);
  assert.match(inCi.stderr, /the file "known\.json" of --known does not exist: write it on your machine/);
  assert.deepEqual(brief(await known()), []);
  assert.equal(listed(), 2);
  assert.match((await svc(args, { cwd, env: { CI: 'true' } })).stdout, /^app\.ts: nothing found, 2 known$/m);
  const annotated = await svc([...args, '--format', 'github'], { cwd, env });
  assert.match(annotated.stdout, /errors 0, warnings 0, notes 0, allowed 0, known 2$/m);
  writeFileSync(join(cwd, 'app.ts'), head + '\n\n' + page('/c', 'c') + page('/b', 'b'));
  const more = await known();
  assert.deepEqual([brief(more), more.suppressed.length], [[['SVC608', 'app.ts:5']], 1]);
  assert.equal(listed(), 1);
  await svc(['check', 'app.ts', '--only', 'SVC1*', '--known', 'known.json'], { cwd });
  assert.equal(listed(), 1); // a run of other rules keeps the known findings
  writeFileSync(join(cwd, 'app.ts'), head + page('/a', 'a'));
  assert.deepEqual(brief(await known()), [['SVC608', 'app.ts:3']]);
  assert.equal(listed(), 0);
  writeFileSync(join(cwd, 'known.json'), '[]');
  const refused = await svc(['check', 'app.ts', '--known', 'known.json'], { cwd });
  assert.equal(refused.status, 2);
  assert.match(
    refused.stderr,
    /--known needs a file that svc check --known has written, but known\.json has another content/,
  );
  const unwritable = await svc(['check', 'app.ts', '--known', 'app.ts/known.json'], { cwd, env });
  assert.equal(unwritable.status, 2);
  assert.match(unwritable.stderr, /the file "app\.ts\/known\.json" of --known cannot be written: ENOTDIR/);
});

test('svc check reports a mistake of several routes that one line declares once, and --known keeps each of them', async (t) => {
  const declared = (paths: string): string =>
    `for (const path of [${paths}]) app.post(path, { public: 'open', timeoutMs: 5_000 }, ({ req }) => req.json());\n`;
  const head = `import { Router, Svc } from 'svc';\nexport const app = new Svc();\nconst api = new Router();\n`;
  const twice = `api.post('/x', { public: 'open' }, ({ req }) => req.json());\napp.includeRouter(api, '/v1');\napp.includeRouter(api, '/v2');\n`;
  const cwd = project(t, { 'app.ts': head + declared(`'/a', '/b', '/c'`) + twice });
  const args = ['check', 'app.ts', '--only', 'SVC301', '--format', 'json'];
  const found = async (more: readonly string[] = []): Promise<readonly string[]> => {
    const { stdout } = await svc([...args, ...more], { cwd, env: { CI: '' } });
    return (JSON.parse(stdout) as Document).findings.map(({ subject, message }) => `${subject}: ${message}`);
  };
  const what = 'the handler reads the request body, but the route declares no schema for the body';
  assert.deepEqual(await found(), [
    `POST /a: ${what}; also POST /b, POST /c`,
    `POST /v1/x: ${what}; also POST /v2/x`,
  ]);
  assert.deepEqual(await found(['--known', 'known.json']), []);
  writeFileSync(join(cwd, 'app.ts'), head + declared(`'/0', '/a', '/b', '/c'`) + twice);
  assert.deepEqual(await found(['--known', 'known.json']), [`POST /0: ${what}`]);
  writeFileSync(join(cwd, 'app.ts'), head + declared(`'/0', '/a', '/b', '/c', '/d', '/e'`));
  assert.deepEqual(await found(), [`POST /0: ${what}; also POST /a, POST /b, POST /c, 2 more routes`]);
});

test('svc check prints the environment, and the numbers of routes, WebSocket routes, MCP tools and files that it checked', async (t) => {
  const files = {
    'app.ts': `${APP}import { a } from './a.ts';\napp.get('/a', a);\napp.websocket('/b', () => undefined);\n`,
    'a.ts': 'export const a = () => 1;\n',
  };
  const { stdout } = await svc(['check', 'app.ts', ...SKIP], { cwd: project(t, files) });
  assert.match(
    stdout,
    /^Checked 1 route, 1 socket, 1 tool, 2 files, as production; packages and external services were not checked$/m,
  );
  const { document } = await check(t, files, ['--env', 'development']);
  assert.deepEqual((document as Document & { scope: unknown }).scope, {
    env: 'development',
    routes: 1,
    sockets: 1,
    tools: 1,
    files: 2,
    unread: [],
    statements: { described: 0, other: 0, unknown: [] },
  });
});

// ── rules, help, colours ──

test('svc check --list prints every rule, including the rules that the application adds', async (t) => {
  const { status, stdout } = await svc(['check', '--list']);
  assert.equal(status, 0);
  assert.match(stdout, /^SVC001 {2}error {4}load {9}At import, only declare the application/);
  assert.match(stdout, /^SVC103 {2}warning /m);
  const own = await svc(['check', 'app.ts', '--list'], { cwd: project(t, { 'app.ts': MISTAKEN }) });
  assert.match(own.stdout, /^shop\/note {2}info {5}contract {5}know it$/m);
});

test('svc check --explain prints why a rule exists and how to fix a finding', async (t) => {
  const { status, stdout } = await svc(['check', '--explain', 'SVC102']);
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^SVC102: error unless a finding says otherwise, found in the phase graph\n\nWhy: .+\.\n\nFix: .+\.\n\nWrong:\n {2}.+\n\nRight:\n {2}.+\n$/,
  );
  const sql = await svc(['check', '--explain', 'SVC601']);
  assert.match(sql.stdout, /\n\nSee: CWE-89, OWASP Cheat Sheet: SQL Injection Prevention\.\n$/);
  const own = await svc(['check', 'app.ts', '--explain', 'shop/b'], {
    cwd: project(t, { 'app.ts': MISTAKEN }),
  });
  assert.match(
    own.stdout,
    /^shop\/b: error unless a finding says otherwise, found in the phase contract\n\nWhy: b is bad\.\n/,
  );
});

test('svc check --list and --explain print JSON with --format json', async (t) => {
  type Reported = {
    readonly schemaVersion: number;
    readonly rules: readonly Readonly<Record<string, string>>[];
  };
  const list = JSON.parse(
    (
      await svc(['check', 'app.ts', '--list', '--format', 'json'], {
        cwd: project(t, { 'app.ts': MISTAKEN }),
      })
    ).stdout,
  ) as Reported;
  assert.deepEqual(
    list.rules.map(({ id }) => id).filter((id) => id === 'SVC001' || id === 'shop/note'),
    ['SVC001', 'shop/note'],
  );
  const {
    schemaVersion,
    rules: [explained, ...others],
  } = JSON.parse((await svc(['check', '--explain', 'SVC102', '--format', 'json'])).stdout) as Reported;
  assert.deepEqual(
    [schemaVersion, Object.keys(explained!), others],
    [1, ['id', 'severity', 'phase', 'why', 'remedy'], []],
  );
  assert.deepEqual(
    [explained!['id'], explained!['severity'], explained!['phase']],
    ['SVC102', 'error', 'graph'],
  );
});

for (const [what, args, message] of [
  ['no module', [], /check needs a module/],
  [
    'an unknown format',
    ['app.ts', '--format', 'xml'],
    /--format needs human, json, sarif, github, gitlab or junit, found "xml"/,
  ],
  [
    'an unknown level',
    ['app.ts', '--fail-level', 'fatal'],
    /--fail-level needs error, warning or info, found "fatal"/,
  ],
  ['an unknown environment', ['app.ts', '--env', 'staging'], /--env needs production, development or test/],
  ['a text instead of a number', ['app.ts', '--max-warnings', 'few'], /--max-warnings needs a number/],
  ['a time limit of 0', ['app.ts', '--timeout', '0'], /--timeout needs a number from 1 to 86400/],
  ['an unknown rule', ['app.ts', '--skip', 'SVC110'], /unknown rule "SVC110": did you mean "SVC101"\?/],
  [
    'a pattern that fits no rule',
    ['app.ts', '--only', 'SVC9*'],
    /unknown rule "SVC9\*": svc check --list shows all rules$/m,
  ],
  [
    'an unknown rule that is similar to no other',
    ['app.ts', '--only', 'SVC999'],
    /unknown rule "SVC999": svc check --list shows all rules$/m,
  ],
  ['an invalid pattern', ['app.ts', '--only', 'a b'], /--only needs the ids of rules, or patterns/],
  [
    'an unknown rule to explain that is similar to no other',
    ['--explain', 'SVC999'],
    /unknown rule "SVC999": svc check --list shows all rules$/m,
  ],
  [
    'the incomplete id of a rule to explain',
    ['--explain', 'SVC'],
    /unknown rule "SVC": svc check --list shows all rules$/m,
  ],
  ['an unknown rule to explain', ['--explain', 'SVC1011'], /unknown rule "SVC1011": did you mean "SVC101"\?/],
  [
    'an unknown option',
    ['app.ts', '--fromat', 'json'],
    /unknown option "--fromat": did you mean "--format"\?/,
  ],
] as const) {
  test(`svc check refuses ${what} with status 2`, async () => {
    const { status, stdout, stderr } = await svc(['check', ...args]);
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr, message);
  });
}

test('svc check --help lists every option and exit status', async () => {
  const { status, stdout } = await svc(['check', '--help']);
  assert.equal(status, 0);
  for (const option of [
    'format',
    'fail-level',
    'max-warnings',
    'only',
    'skip',
    'env',
    'env-file',
    'timeout',
    'no-color',
    'list',
    'explain',
  ])
    assert.match(stdout, new RegExp(`^ {2}--${option} `, 'm'));
  for (const code of ['0', '1', '2', '3', '4', '124']) assert.match(stdout, new RegExp(`\\b${code} `));
});

/** Runs the command on a pseudo-terminal. */
function onTerminal(cwd: string, args: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return run('script', ['-qec', `"${process.execPath}" "${BIN}" ${args}`, '/dev/null'], {
    cwd,
    env: { TERM: 'xterm', ...env },
  });
}

test('svc check prints colours on a terminal, unless NO_COLOR or --no-color is set or TERM is "dumb"', async (t) => {
  const cwd = project(t, { 'app.ts': `${APP}app.get('/a', () => 1);\napp.get('/a', () => 1);\n` });
  const coloured = await onTerminal(cwd, 'check app.ts').catch(() => undefined);
  if (coloured === undefined) return t.skip('there is no command "script"');
  assert.equal(coloured.status, 1);
  assert.match(coloured.stdout, /\u001b\[31mSVC101\u001b\[0m/);
  for (const [args, env] of [
    ['check app.ts --no-color', {}],
    ['check app.ts', { NO_COLOR: '1' }],
    ['check app.ts', { TERM: 'dumb' }],
  ] as const) {
    assert.doesNotMatch((await onTerminal(cwd, args, env)).stdout, /\u001b\[/);
  }
});

test('svc run starts an application despite errors of svc check outside production, but not in production', async (t) => {
  const cwd = project(t, {
    'app.ts': `${APP}app.addCheck({ id: 'a/b', severity: 'error', why: 'w', remedy: 'r', phase: 'security', run: (_view, report) => report('all', 'open') });\napp.onStartup(() => process.exit(9));`,
  });
  const refused = await svc(['run', 'app.ts', '--port', '0'], { cwd });
  assert.equal(refused.status, 3);
  assert.match(
    refused.stderr,
    /^svc: Cannot start the application in production: 1 mistake\n {2}a\/b all: open\n/,
  );
  assert.equal(
    (await svc(['run', 'app.ts', '--port', '0'], { cwd, env: { SVC_ENV: 'development' } })).status,
    9,
  );
});

const TYPED = `import { Svc } from 'svc';

interface Thing {
  readonly a: string;
}

const thing = (): Thing => ({
  a: 'x',
});

export const app: Svc = new Svc();

app.get('/a', () => thing().a);
app.get(
  '/a',
  () => thing(),
);
`;
for (const [how, args, env] of [
  ['by type stripping', ['src/app.ts'], {}],
  ['compiled, with source maps', ['out/app.js'], {}],
  ['through tsx', ['src/app.ts'], { NODE_OPTIONS: '--import tsx' }],
] as const) {
  test(`svc check reports lines of the TypeScript source for a module that runs ${how}`, async (t) => {
    const cwd = project(t, { 'src/app.ts': TYPED });
    const modules = join(ROOT, 'node_modules');
    if (how === 'compiled, with source maps') {
      const { status, stdout } = await run(
        process.execPath,
        [
          join(modules, 'typescript/bin/tsc'),
          '--module',
          'nodenext',
          '--target',
          'es2024',
          '--sourceMap',
          '--skipLibCheck',
          '--outDir',
          'out',
          'src/app.ts',
          '--ignoreConfig',
          '--types',
          '',
        ],
        { cwd },
      );
      assert.match(readFileSync(join(cwd, 'out/app.js'), 'utf8'), /sourceMappingURL/, `${status} ${stdout}`);
    }
    if (how === 'through tsx') symlinkSync(join(modules, 'tsx'), join(cwd, 'node_modules/tsx'));
    const { stdout, stderr } = await svc(['check', ...args, '--format', 'json', ...SKIP], { cwd, env });
    assert.deepEqual(brief(JSON.parse(stdout) as Document), [['SVC101', 'src/app.ts:14']], stderr);
  });
}
