/**
 * Installs packages from the registry that tests need and the repository does not have: once per machine,
 * kept between runs.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { exclusively } from './build.ts';
import type { TestContext } from 'node:test';

/**
 * Returns the environment in which `npm` and `npx` use this Node.js, whatever PATH contains. Settings of an
 * outer npm are removed.
 */
export function npmEnvironment(): Record<string, string | undefined> {
  return {
    PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
    NODE_V8_COVERAGE: undefined,
    npm_config_loglevel: 'error',
    npm_config_update_notifier: 'false',
  };
}

/**
 * Returns a folder whose node_modules has these packages, such as `{ typescript: '~5.9.0' }`. Without a
 * registry it returns undefined and skips the test, or fails with REQUIRE_SCRATCH=1.
 */
export function scratch(
  t: Pick<TestContext, 'skip'>,
  name: string,
  packages: Readonly<Record<string, string>>,
): string | undefined {
  const folder = join(tmpdir(), 'svc-scratch', name);
  const wanted = JSON.stringify({ private: true, type: 'module', dependencies: packages });
  const done = join(folder, 'installed.json');
  let problem = '';
  exclusively(`svc-scratch-${name}`, () => {
    if (existsSync(done) && readFileSync(done, 'utf8') === wanted) return;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), wanted);
    const { status, stderr } = spawnSync(
      'npm',
      ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--no-package-lock', '--prefer-offline'],
      {
        cwd: folder,
        env: { ...process.env, ...npmEnvironment() },
        encoding: 'utf8',
        timeout: 180_000,
      },
    );
    if (status === 0) writeFileSync(done, wanted);
    else
      problem = `npm cannot install ${Object.entries(packages)
        .map((pair) => pair.join('@'))
        .join(' ')}: ${stderr.split('\n').find((line) => line.includes('code')) ?? `status ${status}`}`;
  });
  if (problem === '') return folder;
  if (process.env['REQUIRE_SCRATCH'] === '1') throw new Error(problem);
  t.skip(`no registry: ${problem}`);
  return undefined;
}
