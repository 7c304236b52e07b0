/**
 * Files of a new project: the files of `template/`, with values in place of placeholders such as `{{name}}`.
 * This module only returns texts.
 *
 * npm does not publish files whose names begin with a dot, so the template has them without the dot.
 */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Source of the package `svc`: the registry, a copy inside the project, or a link to the copy that runs `svc
 * new`.
 */
export type PackageSource = 'registry' | 'vendor' | 'link';

interface StarterDeps {
  /** Folder of this package, which contains the template. */
  readonly root: string;
  /** Name in package.json. It needs no escaping in files, because isPackageName() accepts it. */
  readonly name: string;
  readonly source: PackageSource;
  /** Version or address of `svc` under `dependencies`. */
  readonly dependency: string;
  /** Range of Node.js versions that the package supports. */
  readonly engine: string;
  /** Secret that signs sessions and tokens. Only `.env` contains it. */
  readonly secret: string;
  /** Password of the database that compose.yaml starts. Only `.env` contains it. */
  readonly password: string;
}

interface StarterFile {
  /** Path in the project, with slashes. */
  readonly path: string;
  readonly text: string;
  /** Whether only the owner may read the file. */
  readonly isPrivate: boolean;
}

const DOTTED = /^(?:dockerignore|env|github|gitignore)(?=\/|$)/;

const INSTALL: Readonly<Record<PackageSource, string>> = {
  vendor: 'npm install --offline\n',
  registry: 'npm install\n',
  link: '',
};
const NOTES: Readonly<Record<PackageSource, string>> = {
  vendor:
    'The package `svc` is in `vendor/svc`: commit that folder, so that an installation needs no network.',
  registry: 'The package `svc` comes from your registry.',
  link: 'This project uses the copy of `svc` that created it, through a link. Before you move or publish the project, or build its image, install the package:\n`npm install svc@<version>`.',
};

/** Returns every file of a new project, package.json last. */
export function starterFiles({ root, ...deps }: StarterDeps): readonly StarterFile[] {
  const values: Readonly<Record<string, string>> = {
    ...deps,
    image: deps.name.replace(/^@.*\//, ''), // the name of a container image must not contain an npm scope
    install: INSTALL[deps.source],
    packageNote: NOTES[deps.source],
    copyVendor: deps.source === 'vendor' ? 'COPY vendor ./vendor\n' : '',
  };
  const folder = join(root, 'src/cli/starter/template');
  return filesBelow(folder)
    .sort((left, right) => Number(left === 'package.json') - Number(right === 'package.json'))
    .map((name) => {
      const path = name.replace(DOTTED, '.$&');
      const text = readFileSync(join(folder, name), 'utf8').replace(
        /\{\{(\w+)\}\}/g,
        (slot, key: string) => values[key] ?? slot,
      );
      return { path, text, isPrivate: path === '.env' };
    });
}

/**
 * Returns the relative paths of all files below a folder, with slashes. For a file, returns one empty path.
 * Also works in archives, where Yarn keeps packages.
 */
export function filesBelow(path: string, prefix = ''): string[] {
  if (!statSync(path).isDirectory()) return [prefix];
  return readdirSync(path).flatMap((name) =>
    filesBelow(join(path, name), prefix === '' ? name : `${prefix}/${name}`),
  );
}

/** Whether npm accepts a package name, and a project with this name can depend on `svc`. */
export function isPackageName(name: string): boolean {
  return (
    name.length <= 214 &&
    /^(?:@[a-z0-9-][a-z0-9._-]*\/)?[a-z0-9-][a-z0-9._-]*$/.test(name) &&
    !TAKEN.has(name)
  );
}

/** Names that a project must not have: `svc` is its dependency, and npm refuses the others. */
const TAKEN: ReadonlySet<string> = new Set(['svc', 'node_modules', 'favicon.ico']);
