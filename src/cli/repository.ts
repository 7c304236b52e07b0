/** Root of the repository from which CI systems resolve the paths of annotations. */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

/**
 * Returns the root of the repository that contains a folder: `GITHUB_WORKSPACE` if the folder is below it, else
 * the next folder above with a `.git`, else the folder itself. `.git` is a file in worktrees and submodules.
 */
export function repositoryRoot(folder: string, env: NodeJS.ProcessEnv = process.env): string {
  const workspace = env['GITHUB_WORKSPACE'];
  if (workspace && existsSync(workspace)) {
    const root = realpathSync(workspace);
    if (`${folder}${sep}`.startsWith(root.endsWith(sep) ? root : root + sep)) return root;
  }
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at;
    if (at === dirname(at)) return folder;
  }
}
