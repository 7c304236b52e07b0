/**
 * Follows src/TUTORIAL.md in an empty folder:
 *
 *   - a block below a line that names a file, such as "Write `src/app.ts`:", becomes that file
 *   - a block of shell commands runs; a server keeps running until the next one, and starts anew for new files
 *   - each line of a text block below it is part of what the commands print
 *   - a command ends with status 0, unless a comment behind it says `# ends with status 1`
 *
 * Commands of Docker are not run.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT, build } from './support/build.ts';
import { manual } from './support/manuals.ts';
import { folder, run, start, write } from './support/run.ts';
import { npmEnvironment } from './support/scratch.ts';
import { Visitor } from './support/visitor.ts';
import type { TestContext } from 'node:test';
import type { Running } from './support/run.ts';

const TUTORIAL = 'src/TUTORIAL.md';
const SERVES = /^npx --no svc run /;

interface Step {
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** The file that the line above names. */
  readonly file: string | undefined;
}

const TEXT = manual(TUTORIAL);
const STEPS: readonly Step[] = [...TEXT.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(
  ({ index, 1: language, 2: text }) => {
    const above = TEXT.slice(0, index).trimEnd().split('\n').at(-1)!;
    return {
      line: TEXT.slice(0, index).split('\n').length,
      language: language!,
      text: text!,
      file: language === 'sh' || language === 'text' ? undefined : /`([\w./]+)`/.exec(above)?.[1],
    };
  },
);

test('the tutorial has twelve numbered steps', () => {
  assert.equal(TEXT.match(/^## \d+\. /gm)?.length, 12);
  assert.ok(STEPS.length > 30);
});

const hasCurl = spawnSync('curl', ['--version']).status === 0;

test(
  'the commands and programs in each step of the tutorial produce the described results',
  { skip: !hasCurl && 'curl is missing' },
  async (t) => {
    build();
    const parent = folder(t);
    const packed = await run('npm', ['pack', '--ignore-scripts', '--pack-destination', parent], {
      cwd: ROOT,
      env: npmEnvironment(),
    });
    assert.equal(packed.status, 0, packed.stderr);
    const learner = new Learner(t, parent, join(parent, 'notes'));
    const ninth = TEXT.slice(0, TEXT.indexOf('\n## 9. ')).split('\n').length;
    for (const step of STEPS.filter(({ line }) => line < ninth)) await learner.follow(step);
    await learner.logInAndWrite('Buy bread');
    for (const step of STEPS.filter(({ line }) => line > ninth)) await learner.follow(step);
    await learner.stop();
    assertTypes(join(parent, 'notes'));
  },
);

/** A person who types what the tutorial shows. */
class Learner {
  readonly #t: TestContext;
  readonly #project: string;
  #folder: string;
  #output = '';
  #server: Running | undefined;
  #serving = '';
  #url = '';
  #hasNewFiles = false;

  constructor(t: TestContext, parent: string, project: string) {
    this.#t = t;
    this.#folder = parent;
    this.#project = project;
  }

  async follow({ line, language, text, file }: Step): Promise<void> {
    if (file !== undefined) {
      write(this.#folder, { [file]: `${text}\n` });
      this.#hasNewFiles = true;
    } else if (language === 'sh') {
      await this.#type(line, text.split('\n'));
    } else if (language === 'text') {
      for (const expected of text.split('\n'))
        assert.ok(
          this.#output.toLowerCase().includes(expected.toLowerCase()),
          `line ${line} of ${TUTORIAL}: no "${expected}" in:\n${this.#output}`,
        );
    } else assert.fail(`line ${line} of ${TUTORIAL}: a block without a file`);
  }

  async #type(line: number, lines: readonly string[]): Promise<void> {
    const commands = lines
      .filter((each) => !each.startsWith('docker ') && !SERVES.test(each))
      .map((each) => each.replace(/\s+# ends with status (\d+)$/, ' && exit 1 || [ $? -eq $1 ]'));
    const serving = lines.find((each) => SERVES.test(each));
    if (lines.some((each) => each.startsWith('curl ')) && this.#hasNewFiles) await this.#serve();
    const script = ['set -eu', ...commands].join('\n').replaceAll('http://127.0.0.1:8000', this.#url);
    const { status, stdout, stderr } = await run('bash', ['-c', script], {
      cwd: this.#folder,
      env: { ...npmEnvironment(), NO_COLOR: '1' },
    });
    this.#output = stdout + stderr;
    assert.equal(status, 0, `line ${line} of ${TUTORIAL}: ${this.#output}`);
    this.#folder = this.#project; // the first block enters it
    if (serving === undefined) return;
    const exported = commands.filter((each) => each.startsWith('export '));
    this.#serving = [
      ...exported,
      serving.replace('npx --no svc', 'exec node node_modules/svc/bin/svc.js'),
    ].join('\n');
    await this.#serve();
  }

  async #serve(): Promise<void> {
    await this.stop();
    this.#hasNewFiles = false;
    this.#server = start(this.#t, 'bash', ['-c', this.#serving], {
      cwd: this.#folder,
      env: { SVC_PORT: '0' },
    });
    [, this.#url = ''] = await this.#server.printed(/"event":"listening","url":"([^"]+)"/);
  }

  /** In a browser, as the eighth step asks for. */
  async logInAndWrite(text: string): Promise<void> {
    const visitor = new Visitor(this.#url);
    await visitor.logIn();
    const page = await visitor.submit('/add', { text });
    assert.deepEqual(page.match(/(?<=<li>)[^<]+/g), [text]);
  }

  async stop(): Promise<void> {
    this.#server?.child.kill('SIGTERM');
    await this.#server?.ended;
    this.#server = undefined;
  }
}

/** The files of the finished project have no error of types. */
function assertTypes(path: string): void {
  write(path, {
    'tsconfig.json': JSON.stringify({
      extends: join(ROOT, 'tsconfig.json'),
      compilerOptions: {
        noEmit: true,
        isolatedDeclarations: false,
        declaration: false,
        rootDir: '.',
        types: ['node'],
        typeRoots: [join(ROOT, 'node_modules/@types')],
      },
      include: ['src', 'test'],
    }),
  });
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.'],
    {
      cwd: path,
      encoding: 'utf8',
    },
  );
  assert.equal(status, 0, stdout);
}
