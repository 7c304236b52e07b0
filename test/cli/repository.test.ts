/** Root of the repository for the paths of annotations: GITHUB_WORKSPACE, or the next .git. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../../src/cli/check.ts';
import { folder } from '../support/run.ts';

test('repositoryRoot() returns the next folder above that has a .git, a folder or the file of a worktree', (t) => {
  const root = folder(t, {
    '.git/HEAD': '',
    'apps/shop/src/app.ts': '',
    'modules/lib/.git': 'gitdir: x',
    'modules/lib/src/a.ts': '',
  });
  assert.equal(repositoryRoot(join(root, 'apps/shop'), {}), root);
  assert.equal(repositoryRoot(root, {}), root);
  assert.equal(repositoryRoot(join(root, 'modules/lib/src'), {}), join(root, 'modules/lib'));
});

test('repositoryRoot() returns GITHUB_WORKSPACE for a folder below it, also if it is a symbolic link', (t) => {
  const root = folder(t, { 'checkout/.git/HEAD': '', 'checkout/apps/a.ts': '', 'check/a.ts': '' });
  const below = join(root, 'checkout/apps');
  assert.equal(repositoryRoot(below, { GITHUB_WORKSPACE: root }), root);
  symlinkSync(root, `${root}/link`);
  assert.equal(repositoryRoot(below, { GITHUB_WORKSPACE: join(root, 'link') }), root);
  mkdirSync(join(root, 'checkout/app'));
  for (const GITHUB_WORKSPACE of [join(root, 'check'), join(root, 'checkout/app'), '/no/such/folder', ''])
    assert.equal(repositoryRoot(below, { GITHUB_WORKSPACE }), join(root, 'checkout'), GITHUB_WORKSPACE);
});
