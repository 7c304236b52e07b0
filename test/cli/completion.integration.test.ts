/** Completion scripts: they have all commands and options, and the installed shells accept them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { folder, run } from '../support/run.ts';

before(build);

const complete = (shell: string): ReturnType<typeof run> => run(process.execPath, [BIN, 'completion', shell]);
const has = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;

for (const shell of ['bash', 'zsh', 'fish']) {
  test(`the script that svc completion ${shell} prints completes every command that svc --help lists`, async () => {
    const { status, stdout, stderr } = await complete(shell);
    const help = await run(process.execPath, [BIN, '--help']);
    const commands = [...help.stdout.matchAll(/^ {2}([a-z]+) {2,}/gm)].map(([, name]) => name!);
    assert.deepEqual([status, stderr], [0, '']);
    assert.ok(
      commands.length >= 6 && commands.every((name) => new RegExp(`\\b${name}\\b`).test(stdout)),
      commands.join(' '),
    );
  });

  test(
    `svc completion ${shell} prints a script that ${shell} parses without errors`,
    { skip: !has(shell) && `no ${shell} here` },
    async (t) => {
      const file = join(folder(t), 'svc');
      writeFileSync(file, (await complete(shell)).stdout);
      const { status, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' });
      assert.deepEqual([status, stderr], [0, '']);
    },
  );
}

for (const [line, expected] of [
  ['svc ch', ['check']],
  ['svc check --fail', ['--fail-level']],
  ['svc check --fail-level w', ['warning']],
  ['svc check --explain SVC404', ['SVC404']],
  ['svc migrate ', ['up', 'down', 'status', 'repair', 'seed', 'types', 'new']],
  ['svc routes ap', ['app.ts']],
  ['svc run app.ts --p', ['--port']],
  ['svc run app.ts --env-file ap', ['app.ts']],
  ['svc help ro', ['routes']],
  ['svc completion z', ['zsh']],
  ['svc mcp app.ts --format ', ['human', 'json']],
  ['svc run app.ts --port ', ['']],
  ['svc run app.ts --workers a', ['auto']],
  ['svc check --max-warnings ', ['']],
] as const) {
  test(
    `bash completion of the command line "${line}" offers exactly the words that can complete it`,
    { skip: !has('bash') && 'no bash here' },
    async (t) => {
      const cwd = folder(t, { 'app.ts': '' });
      const script = `${(await complete('bash')).stdout}\nCOMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout, stderr } = spawnSync('bash', ['-c', script, 'bash', ...line.split(' ')], {
        cwd,
        encoding: 'utf8',
      });
      assert.deepEqual([stdout.trim().split('\n'), stderr], [expected, '']);
    },
  );
}

for (const [args, message] of [
  [[], 'svc completion needs the name of a shell: bash, zsh or fish'],
  [['zhs'], 'svc completion needs the name of a shell: bash, zsh or fish, found "zhs": did you mean "zsh"?'],
  [['bash', 'zsh'], 'svc completion needs the name of a shell: bash, zsh or fish, found "bash zsh"'],
] as const) {
  test(`svc completion refuses the argument list ${JSON.stringify(args)}, and its message lists bash, zsh and fish`, async () => {
    const { status, stdout, stderr } = await run(process.execPath, [BIN, 'completion', ...args]);
    assert.deepEqual(
      [status, stdout, stderr.split('\n')[0]],
      [2, '', `svc: Cannot understand the command line: ${message}`],
    );
  });
}
