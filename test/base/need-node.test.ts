import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { isSupportedNode } from '../../src/base/need-node.ts';

const { isSupported } = createRequire(import.meta.url)('../../bin/need-node.cjs') as {
  isSupported(version: string): boolean;
};
const ENTRIES = ['index.ts', 'db/index.ts', 'oauth/index.ts', 'testing/index.ts'];

test('isSupportedNode() and bin/need-node.cjs accept the same versions', () => {
  for (let major = 18; major < 30; major++) {
    for (let minor = 0; minor < 30; minor++) {
      const version = `${major}.${minor}.1`;
      assert.equal(isSupportedNode(version), isSupported(version), version);
    }
  }
});

for (const entry of ENTRIES) {
  test(`on a Node.js version that is too old, importing ${entry} prints one line and ends the process with status 2`, () => {
    const older = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '22.23.2' })`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--conditions=svc-source', '--import', older, join(import.meta.dirname, '../../src', entry)],
      { encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: undefined } },
    );
    assert.equal(status, 2, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /^svc needs Node\.js 24\.18\.1 [^\n]+ found 22\.23\.2 at [^\n]+\n$/);
  });
}
