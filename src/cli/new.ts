/**
 * `svc new`: writes a runnable project.
 *
 * An option determines where the project finds the package `svc`:
 *   --vendor    in a copy in vendor/svc (the default): npm install --offline is enough
 *   --registry  in the registry, at the running version: npm install fetches it
 *   --link      in the running copy, through links in node_modules: nothing to install
 *
 * The public npm registry has another package named `svc`. So a project depends on a registry only with
 * --registry.
 *
 * The project is written to a temporary folder and then moved, so that it is either complete or absent.
 */
import { randomBytes } from 'node:crypto';
import {
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { SvcError, errorCode } from '../base/errors.ts';
import { codeOf, makeFolder, ownPackage } from './load.ts';
import { filesBelow, isPackageName, starterFiles } from './starter/starter.ts';
import { textOf, type Command, type Invocation } from './command.ts';
import type { PackageSource } from './starter/starter.ts';

export const newCommand: Command = {
  usage: 'svc new <dir> [--name <name>] [--vendor | --registry | --link] [--if-absent]',
  summary: 'creates a production starter project',
  details: [
    '  --name <name>   name in package.json; default the name of the folder',
    '  --vendor        puts a copy of svc into the project, so that npm install needs no network; the default',
    '  --registry      installs svc from your own registry; in the public registry, "svc" is another package',
    '  --link          uses the running copy of svc through a link, to try things out',
    '  --if-absent     changes nothing if the folder already has a project; prints no next steps, for use in scripts',
    '',
    'The folder must be absent or empty. The new .env contains generated secrets; only its owner can read it.',
  ].join('\n'),
  options: {
    name: { type: 'string' },
    vendor: { type: 'boolean' },
    registry: { type: 'boolean' },
    link: { type: 'boolean' },
    'if-absent': { type: 'boolean' },
  },
  choices: { name: [] },
  takesModule: false,
  check: sourceOf,
  run,
};

/** The parts of package.json that this command reads. */
interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly files: readonly string[];
}

async function run({ positionals, values }: Invocation): Promise<number> {
  const [given, ...surplus] = positionals;
  if (given === undefined || given === '' || surplus.length > 0) {
    throw new SvcError('E_CLI_USAGE', [
      surplus.length > 0
        ? `svc new takes one folder, but found a second argument "${surplus[0]!}"`
        : 'svc new needs a folder',
    ]);
  }
  const source = sourceOf(values);
  const target = resolve(given);
  const name = nameFor(target, textOf(values, 'name'));
  if (values['if-absent'] === true && existsSync(join(target, 'package.json'))) {
    // package.json is moved into the folder last, so its existence shows that the project is complete
    process.stdout.write(`${given} already exists: nothing changed\n`);
    return 0;
  }
  const count = create(given, target, name, source);
  const created = `Created "${name}" in ${given}: ${count} files`;
  const steps = stepsAfter(given, source).map((step) => `  ${step}\n`);
  process.stdout.write(
    values['if-absent'] === true ? `${created}\n` : `${created}. Next:\n\n${steps.join('')}`,
  );
  return 0;
}

function sourceOf(values: Invocation['values']): PackageSource {
  const [source = 'vendor', other] = SOURCES.filter((each) => values[each] === true);
  if (other !== undefined)
    throw new SvcError('E_CLI_USAGE', [
      `--${source} and --${other} cannot be combined: choose one of the two options`,
    ]);
  return source;
}

const SOURCES: readonly PackageSource[] = ['vendor', 'registry', 'link'];

/** Returns the requested package name, or one made of the folder's name. */
function nameFor(target: string, asked: string | undefined): string {
  const name =
    asked ??
    basename(target)
      .normalize('NFKD')
      .replace(/\p{M}+/gu, '')
      .toLowerCase()
      .replace(/[^a-z0-9.-]+/g, '-')
      .replace(/^[.-]+|[.-]+$/g, '');
  if (isPackageName(name)) return name;
  const needs = 'small letters, digits, "-", "." and "_", beginning with a letter or digit, and not "svc"';
  throw new SvcError('E_CLI_USAGE', [
    asked === undefined
      ? `the folder's name is not a valid package name: add --name with ${needs}`
      : `--name needs ${needs}; found "${asked}"`,
  ]);
}

/** Returns the next steps for the user, one command a line. */
function stepsAfter(given: string, source: PackageSource): string[] {
  const enter =
    resolve(given) === process.cwd() ? [] : [`cd ${/^[\w./\\:-]+$/.test(given) ? given : `"${given}"`}`];
  const install =
    source === 'link' ? ['npm test'] : [source === 'vendor' ? 'npm install --offline' : 'npm install'];
  return [...enter, ...install, 'npm run dev        # http://127.0.0.1:8000'];
}

/** Creates the project and returns the number of its files. */
function create(given: string, target: string, name: string, source: PackageSource): number {
  const isThere = assertFree(given, target);
  const staging = join(
    isThere ? target : dirname(target),
    `.${basename(target)}.new-${randomBytes(4).toString('hex')}`,
  );
  const moved: string[] = [];
  try {
    makeFolder(staging);
    const count = write(
      staging,
      isThere ? realpathSync(target) : join(realpathSync(dirname(target)), basename(target)),
      name,
      source,
    );
    if (isThere) moveEntries(staging, target, moved);
    else renameSync(staging, target);
    return count;
  } catch (error) {
    for (const path of [staging, ...moved]) rmSync(path, { recursive: true, force: true });
    throw new SvcError('E_NEW_FOLDER', [given, issueOf(error)], { cause: error });
  }
}

function issueOf(error: unknown): string {
  const isTaken = /^(?:EEXIST|ENOTEMPTY)$/.test(errorCode(error) ?? '');
  const what = isTaken
    ? 'another process has filled the folder meanwhile'
    : 'the files of the project cannot be written';
  return `${what} (${codeOf(error)}); no file of the project is left behind`;
}

/** Returns true if the folder exists and is empty, and false if it does not exist. */
function assertFree(given: string, target: string): boolean {
  let entries: string[];
  try {
    entries = readdirSync(target).sort();
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT') return false;
    throw new SvcError(
      'E_NEW_FOLDER',
      [
        given,
        code === 'ENOTDIR'
          ? 'the path, or a part of the path, is a file and not a folder'
          : `the folder cannot be read (${codeOf(error)})`,
      ],
      { cause: error },
    );
  }
  if (entries.length === 0) return true;
  const rest = entries.length - MOST_NAMED;
  throw new SvcError('E_NEW_FOLDER', [
    given,
    `the folder is not empty: it holds ${entries.slice(0, MOST_NAMED).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`,
  ]);
}

const MOST_NAMED = 5;

/** Writes the files into `folder`. Relative paths are valid in `place`, its later place. */
function write(folder: string, place: string, name: string, source: PackageSource): number {
  const own = dirname(ownPackage());
  const manifest = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as Manifest;
  const { version, engines, files } = manifest;
  const toOwn = relative(place, own);
  const dependency: Readonly<Record<PackageSource, string>> = {
    registry: manifest.name === 'svc' ? version : `npm:${manifest.name}@${version}`, // published under another name
    vendor: 'file:vendor/svc',
    link: `file:${toOwn.split(sep).join('/')}`,
  };
  const texts = starterFiles({
    root: own,
    name,
    source,
    dependency: dependency[source],
    engine: engines.node,
    secret: randomBytes(32).toString('hex'),
    password: randomBytes(16).toString('hex'),
  });
  for (const { path, text, isPrivate } of texts) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text, { flag: 'wx', ...(isPrivate ? { mode: 0o600 } : {}) });
  }
  if (source === 'vendor') copyPackage(own, files, join(folder, 'vendor/svc'));
  if (source === 'link') linkPackage(own, place, join(folder, 'node_modules'));
  return texts.length;
}

/**
 * Copies the files that npm would publish. Removes development dependencies from package.json, because npm
 * would install them for a package inside the project.
 */
function copyPackage(own: string, files: readonly string[], to: string): void {
  mkdirSync(to, { recursive: true });
  for (const file of [...files, 'LICENSE', 'README.md']) {
    if (existsSync(join(own, file))) copyTree(join(own, file), join(to, file));
  }
  const {
    devDependencies: _devDependencies,
    scripts: _scripts,
    allowScripts: _allowScripts,
    ...manifest
  } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as Record<string, unknown>;
  writeFileSync(join(to, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
}

/** Copies a folder file by file. fs.cpSync() finds nothing in archives, where Yarn keeps packages. */
function copyTree(from: string, to: string): void {
  for (const file of filesBelow(from)) {
    const [source, copied] = [join(from, file), join(to, file)];
    mkdirSync(dirname(copied), { recursive: true });
    // make the copy writable: installed files may be read-only
    writeFileSync(copied, readFileSync(source), { mode: statSync(source).mode | 0o200 });
  }
}

/** Creates the links of npm: on Windows, a junction and a command script. */
function linkPackage(own: string, place: string, modules: string): void {
  const bin = join(modules, '.bin');
  mkdirSync(bin, { recursive: true });
  if (process.platform === 'win32') {
    symlinkSync(own, join(modules, 'svc'), 'junction');
    writeFileSync(join(bin, 'svc.cmd'), '@node "%~dp0\\..\\svc\\bin\\svc.js" %*\r\n');
  } else {
    symlinkSync(relative(join(place, 'node_modules'), own), join(modules, 'svc'), 'dir');
    symlinkSync('../svc/bin/svc.js', join(bin, 'svc'), 'file');
  }
}

/**
 * Moves every entry of the staging folder to the target, package.json last. Appends the moved paths to
 * `moved`. After a failure, the caller removes these paths.
 *
 * Never replaces an existing entry, but throws. If two processes fill one folder, the first one continues.
 * The second one throws before it has changed anything.
 */
export function moveEntries(staging: string, target: string, moved: string[]): void {
  // sorted, so that two processes begin with the same entry. One of them then fails before it changes
  // anything
  const names = readdirSync(staging).sort();
  for (const name of [
    ...names.filter((entry) => entry !== 'package.json'),
    ...names.filter((entry) => entry === 'package.json'),
  ]) {
    const [from, to] = [join(staging, name), join(target, name)];
    const isFolder = statSync(from).isDirectory();
    if (isFolder) mkdirSync(to);
    // like link(), copyFileSync() fails if the file exists, but it also works on file systems without hard
    // links
    else copyFileSync(from, to, constants.COPYFILE_EXCL);
    moved.push(to);
    if (isFolder) for (const entry of readdirSync(from)) renameSync(join(from, entry), join(to, entry));
  }
  rmSync(staging, { recursive: true });
}
