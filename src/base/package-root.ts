/**
 * Location of this package on disk: distinguishes its stack frames from those of applications, and finds package.json.
 *
 *   <root>/package.json
 *   <root>/src/base/package-root.ts     in this repository
 *   <root>/dist/base/package-root.js    in an installed package
 *
 * A bundler merges this file with others, elsewhere. Then no root is known, and the bundle's folder counts as the package.
 */
import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const OWN_FILE = /\/(?:src|dist)\/base\/package-root\.[jt]s$/;

/** Address of the package's folder, which holds package.json; undefined in a bundle. */
export function packageRoot(own: string | undefined = import.meta.url): URL | undefined {
  return own !== undefined && OWN_FILE.test(own) ? new URL('../../', own) : undefined;
}

/**
 * Address of a program in the folder of `module`, with the same extension. Undefined in a bundle, also in one that keeps folders and
 * files: a bundler leaves a program out when no module imports it.
 */
export function programBeside(module: string | undefined, name: string): URL | undefined {
  if (module === undefined || packageRoot() === undefined) return undefined;
  const program = new URL(`./${name}${extname(module)}`, module);
  return existsSync(program) ? program : undefined;
}

/**
 * Folders of the package's own code, or of one part of it (`db/`), as prefixes of file names in stack frames: as addresses, and as
 * paths, which frames of files other than ES modules have. `windows` is for tests.
 */
export function ownFolders(
  part = '',
  own: string | undefined = import.meta.url,
  windows?: boolean,
): readonly string[] {
  if (own === undefined) return ['']; // a bundle of CommonJS: every frame may be ours
  const root = packageRoot(own);
  const folders =
    root === undefined ? [new URL('.', own)] : [new URL(`dist/${part}`, root), new URL(`src/${part}`, root)];
  return folders.flatMap((folder) => [folder.href, fileURLToPath(folder, { windows })]);
}
