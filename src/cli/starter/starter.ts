/**
 * The files of a new project: those of `template/`, with values in the place of `{{name}}`. Nothing is written here.
 *
 * npm leaves files out of a package whose names begin with a dot, so the template has these names without it.
 */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Source of the package `svc`: the registry, a copy inside the project, or a link to the copy that runs `svc new`. */
export type PackageSource = 'registry' | 'vendor' | 'link';

/** Values that a new project contains. */
export interface StarterDeps {
  /** Folder of this package, which has the template. */
  readonly root: string;
  /** Name in package.json. `isPackageName()` accepts it, so no text needs to escape it. */
  readonly name: string;
  readonly source: PackageSource;
  /** Version or address of `svc` under `dependencies`. */
  readonly dependency: string;
  /** Range of Node versions that the package needs. */
  readonly engine: string;
  /** Secret that signs sessions and tokens; only `.env` has it. */
  readonly secret: string;
  /** Password of the database that compose.yaml starts; only `.env` has it. */
  readonly password: string;
}

/** A file of the project. */
interface StarterFile {
  /** Relative, with slashes. */
  readonly path: string;
  readonly text: string;
  /** Only its owner may read it. */
  readonly isPrivate: boolean;
}

const DOTTED = /^(?:dockerignore|env|github|gitignore)(?=\/|$)/;

const INSTALL: Readonly<Record<PackageSource, string>> = {
  vendor: 'npm install --offline\n',
  registry: 'npm install\n',
  link: '',
};
const NOTES: Readonly<Record<PackageSource, string>> = {
  vendor: 'The package `svc` lies in `vendor/svc`: commit it, and nothing needs a network.',
  registry: 'The package `svc` comes from your registry.',
  link: 'It uses the copy of `svc` that made it, through a link. Before it goes elsewhere, name the package instead:\n`npm install svc@<version>`. The image needs that, too.',
};

/** Every file of a new project, package.json last. */
export function starterFiles({ root, ...deps }: StarterDeps): readonly StarterFile[] {
  const values: Readonly<Record<string, string>> = {
    ...deps,
    image: deps.name.replace(/^@.*\//, ''), // Docker refuses a scope
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
 * Relative paths of all files below a folder, with slashes; of a file, its own empty path. Works in archives, where Yarn leaves packages.
 */
export function filesBelow(path: string, prefix = ''): string[] {
  if (!statSync(path).isDirectory()) return [prefix];
  return readdirSync(path).flatMap((name) =>
    filesBelow(join(path, name), prefix === '' ? name : `${prefix}/${name}`),
  );
}

/** Whether npm takes it as the name of a package, and nothing resolves to another one by it. */
export function isPackageName(name: string): boolean {
  return (
    name.length <= 214 &&
    /^(?:@[a-z0-9-][a-z0-9._-]*\/)?[a-z0-9-][a-z0-9._-]*$/.test(name) &&
    !TAKEN.has(name)
  );
}

/** `svc` is a dependency of the project; npm refuses the others. */
const TAKEN: ReadonlySet<string> = new Set(['svc', 'node_modules', 'favicon.ico']);
