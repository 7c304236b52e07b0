/** Files that were changed since the last commit are formatted, so that it shows before `.ci/run`, which checks all. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';
import { scratch } from './support/scratch.ts';

/** Version of prettier and the arguments, as in the script `format` of package.json. */
const [, version = '', paths = ''] = /prettier@(\S+) --write (.+)$/.exec(
  (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: { format: string } }).scripts
    .format,
)!;

function changedFiles(): string[] {
  const git = (...args: string[]): string[] =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).split('\n');
  const formatted = paths.split(' ');
  return [...git('diff', '--name-only', 'HEAD'), ...git('ls-files', '--others', '--exclude-standard')].filter(
    (file) =>
      formatted.some((path) => file === path || file.startsWith(`${path}/`)) && existsSync(join(ROOT, file)),
  );
}

test('changed files are formatted', (t) => {
  if (!existsSync(join(ROOT, '.git'))) return t.skip('this is no git repository');
  const files = changedFiles();
  if (files.length === 0) return; // as in a clean clone, where .ci/run checks all files
  const folder = scratch(t, 'prettier', { prettier: version });
  if (folder === undefined) return;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(folder, 'node_modules/prettier/bin/prettier.cjs'), '--check', '--ignore-unknown', ...files],
    { cwd: ROOT, encoding: 'utf8' },
  );
  assert.equal(status, 0, `write them with "npm run format": ${stdout}${stderr}`);
});
