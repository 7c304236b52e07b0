/**
 * The package as users have it: packed with `npm pack`, and installed offline.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, build } from './build.ts';
import { run, write } from './run.ts';
import { npmEnvironment } from './scratch.ts';

/**
 * Builds the package, packs it, and installs it in an empty folder as the only dependency of a project.
 * Returns the path of the tarball.
 */
export async function installPackage(path: string): Promise<string> {
  write(path, { 'package.json': '{"private":true,"type":"module"}' });
  build();
  // without scripts: prepack would build again while other tests use dist
  const { status, stderr } = spawnSync('npm', ['pack', '--ignore-scripts', '--pack-destination', path], {
    cwd: ROOT,
    env: { ...process.env, ...npmEnvironment() },
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  const { name, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    name: string;
    version: string;
  };
  const tarball = join(path, `${name}-${version}.tgz`);
  const install = await run('npm', ['install', '--offline', '--no-audit', '--no-fund', `file:${tarball}`], {
    cwd: path,
    env: { ...npmEnvironment(), npm_config_loglevel: 'warn' },
  });
  assert.equal(install.status, 0, install.stderr);
  // EBADENGINE is allowed: the package works with an older Node.js than "engines" names
  assert.doesNotMatch(install.stderr, /script|peer/i);
  return tarball;
}
