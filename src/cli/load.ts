/**
 * Imports the application that a target such as `src/app.ts:app` names. The export is an application, or a
 * function that returns one. If the import fails, the error names the cause.
 *
 * Node.js runs TypeScript by stripping the types. An import of `./x.js` finds `x.ts`. Errors of Node.js about
 * syntax and modules are translated into messages with a remedy.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { findPackageJSON, registerHooks } from 'node:module';
import { basename, dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { SvcError, errorCode } from '../base/errors.ts';
import { packageRoot } from '../base/package-root.ts';
import { fileOfPlace, placeOf } from '../base/findings.ts';
import { closest } from '../base/options.ts';
import { APP_BRAND } from '../app/svc.ts';
import type { Svc } from '../app/svc.ts';

/** A module, and the name of its export that is the application, or a function that returns the application. */
export interface Target {
  readonly module: string;
  readonly exportName: string;
}

/** Splits a target: `C:\app.ts:shop` has the export name `shop`, by default `app`. */
export function parseTarget(target: string): Target {
  const [, module = target, exportName = 'app'] = /^(.+):([A-Za-z_$][\w$]*)$/.exec(target) ?? [];
  return /^[A-Za-z]$/.test(module) ? { module: target, exportName: 'app' } : { module, exportName };
}

/** Returns the URL of the file or package that a target names, relative to `cwd`. */
export function locate(target: Target, cwd: string): URL {
  const path = resolve(cwd, target.module);
  const extensions = namesFolder(target.module) ? [''] : EXTENSIONS;
  const found = extensions.map((extension) => path + extension).find(isFile);
  if (found !== undefined) return pathToFileURL(realpathSync(found));
  const inPackage = /^[./\\]/.test(target.module) ? undefined : resolvedFrom(cwd, target.module);
  if (inPackage?.protocol !== 'file:')
    throw new SvcError('E_LOAD', [
      target.module,
      `the folder ${cwd} contains no such file, and no such package is installed${hint(path, target.module)}`,
    ]);
  return inPackage;
}

/** Extensions that a file name may lack, in the order in which they are tried. */
const EXTENSIONS = ['', '.ts', '.mts', '.js', '.mjs'];

/** Whether a name can only be a folder: "src/" must not find a file "src.ts". */
function namesFolder(module: string): boolean {
  return /(?:^|[/\\])\.{0,2}$/.test(module);
}

function isFile(path: string): boolean {
  try {
    return !statSync(path).isDirectory();
  } catch {
    return false; // the file is absent or not accessible
  }
}

/** Returns a suggestion for the error message: a file in the same folder with a similar name. */
function hint(path: string, module: string): string {
  if (existsSync(path)) return '; the path names a folder';
  const folder = dirname(path);
  const near = existsSync(folder)
    ? closest(
        basename(path),
        readdirSync(folder).filter((name) => /\.[mc]?[jt]s$/.test(name)),
      )
    : undefined;
  return near === undefined
    ? ''
    : `: did you mean "${module.slice(0, module.length - basename(path).length)}${near}"?`;
}

/**
 * Resolves a specifier as if a module in the folder imported it, so that `exports` and `imports` of
 * package.json apply.
 */
function resolvedFrom(folder: string, specifier: string): URL | undefined {
  const parentURL = pathToFileURL(resolve(folder, 'package.json')).href;
  const hooks = registerHooks({ resolve: (asked, context, next) => next(asked, { ...context, parentURL }) });
  try {
    return new URL(import.meta.resolve(specifier));
  } catch {
    return undefined; // the package does not exist, which the caller reports
  } finally {
    hooks.deregister();
  }
}

/** Returns the path of the package.json of the package `svc` that a module would import, or undefined. */
export function packageSeenBy(module: URL): string | undefined {
  try {
    const found = findPackageJSON('svc', module);
    return found === undefined ? undefined : realpathSync(found);
  } catch {
    return undefined;
  }
}

/** Returns the path of the package.json of the running copy of this package. */
export function ownPackage(): string {
  return realpathSync(new URL('package.json', packageRoot()));
}

/** Returns the version of the running copy of this package. */
export function ownVersion(): string {
  return (JSON.parse(readFileSync(ownPackage(), 'utf8')) as { version: string }).version;
}

/** Returns the code of an error of Node.js, or the error as text. */
export function codeOf(error: unknown): string {
  return errorCode(error) ?? String(error);
}

/**
 * Creates a folder and its missing parents. A folder that exists is left as it is.
 *
 * Does not use the option `recursive` of mkdirSync(), which never returns for a path below /proc: that folder
 * exists, but creating an entry in it fails with ENOENT.
 */
export function makeFolder(path: string): void {
  if (existsSync(path)) return;
  if (dirname(path) !== path) makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error; // another process has created the folder
  }
}

/**
 * Imports the module and returns the application that it exports. If the export is a function, calls it without
 * arguments and awaits its result. Calls `onCall` with the name of the function before that.
 */
export async function loadApplication(
  target: Target,
  module: URL,
  onCall: (name: string) => void = () => undefined,
): Promise<Svc> {
  findTypeScriptToo();
  const name = `${target.module}:${target.exportName}`;
  const exports = (await attempt(target.module, () => import(module.href))) as Record<string, unknown>;
  const found = exports[target.exportName];
  if (found === undefined)
    throw new SvcError('E_LOAD', [
      name,
      `there is no such export: the module exports ${Object.keys(exports).join(', ') || 'nothing'}${similar(target.exportName, exports)}`,
    ]);
  if (isApplication(found)) return found;
  if (typeof found !== 'function')
    throw new SvcError('E_LOAD', [
      name,
      `the export has the type ${typeOf(found)}, but must be an application made with new Svc(), or a function that returns one`,
    ]);
  onCall(target.exportName);
  const made = await attempt(name, () => (found as () => unknown)());
  if (isApplication(made)) return made;
  throw new SvcError('E_LOAD', [
    name,
    `the function returns a value of the type ${typeOf(made)}, but must return an application made with new Svc()`,
  ]);
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : typeof value;
}

/** Runs code of the application. E_COMPILE is not replaced, because its findings name their places. */
async function attempt(name: string, work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code === 'E_COMPILE') throw error;
    throw new SvcError('E_LOAD', [name, translate(error)], { cause: error });
  }
}

/** Returns a suggestion for a missing export: a similar name, an application, or a function that may return one. */
function similar(exportName: string, exports: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(exports);
  const near =
    closest(exportName, names) ??
    names.find((candidate) => isApplication(exports[candidate])) ??
    names.find((candidate) => typeof exports[candidate] === 'function' && /app$/i.test(candidate));
  return near === undefined ? '' : `; did you mean ":${near}"?`;
}

/** Whether a value is an application, even if another copy of this package created it. */
export function isApplication(value: unknown): value is Svc {
  return typeof value === 'object' && value !== null && APP_BRAND in value;
}

let isHooked = false;
/** URL of the last resolved module. A syntax error that Node.js reports without a place is in this module. */
let lastResolved = '';

/** Lets TypeScript sources import `./x.js`: if it is absent, `x.ts` is loaded. */
function findTypeScriptToo(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      try {
        const resolved = next(specifier, context);
        lastResolved = resolved.url;
        return resolved;
      } catch (error) {
        const isRelative =
          /^\.{1,2}\//.test(specifier) &&
          context.parentURL !== undefined &&
          !context.parentURL.includes('/node_modules/');
        if (!isRelative || !NOT_FOUND.has(errorCode(error))) throw error;
        for (const candidate of alternatives(specifier)) {
          if (!existsSync(new URL(candidate, context.parentURL))) continue;
          const resolved = next(candidate, context);
          lastResolved = resolved.url;
          return resolved;
        }
        throw error;
      }
    },
  });
}

const NOT_FOUND: ReadonlySet<string | undefined> = new Set([
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
]);

function alternatives(specifier: string): string[] {
  if (/\.[mc]?js$/.test(specifier)) return [specifier.replace(/js$/, 'ts')];
  return [`${specifier}.ts`, `${specifier}/index.ts`];
}

/** Errors of V8 for an ES module without `"type": "module"` in package.json. */
const NO_MODULE =
  /^(?:Cannot use import statement outside a module|Cannot use 'import\.meta' outside a module|Unexpected token 'export'|await is only valid in async functions and the top level bodies of modules)$/;

/** Translates an error of the import into a message with a remedy. */
function translate(error: unknown): string {
  if (!(error instanceof Error))
    return `the module threw ${error === null ? 'null' : `a value of type ${typeof error}`}`;
  const code = errorCode(error);
  const where = placeIn(error);
  const said = error.message.split('\n')[0]!;
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return `${where}${error.message.replace(/\s+/g, ' ')}: use erasable syntax only, or start with NODE_OPTIONS='--import tsx'`;
  }
  if (code === 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING') return `${said}: packages must ship JavaScript`;
  if (/does not provide an export named/.test(said))
    return `${where}${said}: if the export is a type, write "import type"`;
  if (code === 'ERR_MODULE_NOT_FOUND') {
    const isAlias = /Cannot find package '[@~]\/?/.test(said);
    return said + (isAlias ? ': tsconfig "paths" are not read; use "imports" in package.json' : '');
  }
  if (error instanceof SyntaxError && where !== '' && NO_MODULE.test(said)) {
    const [, letter] = /\.c([jt])s:\d+: $/.exec(where) ?? [];
    return `${where}${said}: ${letter === undefined ? 'the nearest package.json makes the file a CommonJS module; set "type": "module" there' : `the file name means CommonJS; rename the file to .m${letter}s`}`;
  }
  if (error instanceof SyntaxError) return where === '' ? syntaxError(said) : `${where}${said}`;
  return isFault(error) ? `${where}${said}` : `${where}${error.name}: ${said}`;
}

/** Whether an error is an SvcError with a remedy, even if another copy of this package created it. */
export function isFault(error: unknown): error is SvcError {
  const { code, remedy } = (error ?? {}) as Partial<SvcError>;
  return (
    error instanceof Error && typeof code === 'string' && code.startsWith('E_') && typeof remedy === 'string'
  );
}

/** Names the missing permission of `node --permission`. Returns other errors unchanged. */
export function permissionFault(error: unknown): unknown {
  if (!(error instanceof Error) || errorCode(error) !== 'ERR_ACCESS_DENIED') return error;
  const flag = /--allow-[\w-]+/.exec(error.message)?.[0] ?? error.message;
  // errors about some permissions have no `resource`
  const { resource = '' } = error as { readonly resource?: string };
  return new SvcError('E_PERMISSION', [flag, flag.startsWith('--allow-fs') ? resource : ''], {
    cause: error,
  });
}

/**
 * Returns the place of an error as `file:line: `, from the first line of the stack or from the first frame
 * outside of Node.js and this package.
 */
function placeIn(error: Error): string {
  const stack = error.stack ?? '';
  const head = /^((?:file:\/\/|\/|[A-Za-z]:\\).*):(\d+)\n/.exec(stack);
  const [file, line] = head === null ? [placeOf(stack).file, placeOf(stack).line] : [head[1]!, head[2]!];
  if (line === 0) return '';
  return `${fileOfPlace({ file })}:${line}: `;
}

/**
 * Adds the place of a syntax error to its message, because V8 reports none for a module. For JavaScript,
 * `node --check` finds the line. For TypeScript, the message names the usual cause: decorators or `accessor`.
 */
function syntaxError(said: string): string {
  if (!lastResolved.startsWith('file:')) return said;
  const path = fileURLToPath(lastResolved);
  if (/\.[mc]?ts$/.test(path))
    return `${path}: ${said}: decorators and "accessor" need NODE_OPTIONS='--import tsx'`;
  const { stderr } = spawnSync(process.execPath, ['--check', '--input-type=module', '-'], {
    input: readFileSync(path),
    encoding: 'utf8',
  });
  const line = /^\[stdin\]:(\d+)$/m.exec(stderr)?.[1];
  return `${path}:${line === undefined ? '' : `${line}:`} ${said}`;
}
