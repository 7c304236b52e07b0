/**
 * Finds this package on disk, to distinguish its stack frames from those of applications and to find
 * package.json.
 *
 * Where this file is:
 *   <root>/package.json
 *   <root>/src/base/package-root.ts     in this repository
 *   <root>/dist/base/package-root.js    in an installed package
 *
 * A bundler merges this file with others, so a bundle cannot find the root. Inside a bundle, the folder of
 * the bundle counts as the package.
 */
import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const OWN_FILE = /\/(?:src|dist)\/base\/package-root\.[jt]s$/;

/** URL of the package's folder, which contains package.json; undefined in a bundle. */
export function packageRoot(own: string | undefined = import.meta.url): URL | undefined {
  return own !== undefined && OWN_FILE.test(own) ? new URL('../../', own) : undefined;
}

/**
 * Returns the URL of the program `name` in the folder of `module`, with the extension of `module`. Undefined
 * in a bundle, because bundlers leave out a program that no module imports.
 */
export function programBeside(module: string | undefined, name: string): URL | undefined {
  if (module === undefined || packageRoot() === undefined) return undefined;
  const program = new URL(`./${name}${extname(module)}`, module);
  return existsSync(program) ? program : undefined;
}

/**
 * Returns the folders of this package's code, or of a part such as `db/`, as prefixes of file names in stack
 * frames. ES modules appear there as URLs, other files as paths. Only tests set `windows`.
 */
export function ownFolders(
  part = '',
  own: string | undefined = import.meta.url,
  windows?: boolean,
): readonly string[] {
  // in a CommonJS bundle, `import.meta.url` is undefined, and this empty prefix matches every stack frame
  if (own === undefined) return [''];
  const root = packageRoot(own);
  const folders =
    root === undefined ? [new URL('.', own)] : [new URL(`dist/${part}`, root), new URL(`src/${part}`, root)];
  return folders.flatMap((folder) => [folder.href, fileURLToPath(folder, { windows })]);
}
