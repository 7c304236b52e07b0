/**
 * Loading an application: `src/app.ts:app` → the object, or one clear sentence about why not.
 *
 * TypeScript is run by type stripping; `./x.js` that is `x.ts` on disk is found; what Node says about syntax and modules is
 * translated into what to do.
 */
import { existsSync, realpathSync } from 'node:fs';
import { createRequire, findPackageJSON, registerHooks } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { APP_BRAND } from './app.ts';
import { SvcError } from './errors.ts';
import { closest } from './options.ts';
import type { Svc } from './app.ts';

/** A module and the name of its export. */
export interface Target {
  readonly module: string;
  readonly exportName: string;
}

/** Splits at the last colon that an identifier follows: drive letters stay whole. The export is `app` unless named. */
export function parseTarget(target: string): Target {
  const match = /^(.+):([A-Za-z_$][\w$]*)$/.exec(target);
  return match === null || /^[A-Za-z]$/.test(match[1]!) ? { module: target, exportName: 'app' } : { module: match[1]!, exportName: match[2]! };
}

/** The file or package that a module name means, seen from `cwd`. @throws SvcError `E_LOAD` */
export function locate(target: Target, cwd: string): URL {
  const path = resolve(cwd, target.module);
  const found = [path, `${path}.ts`, `${path}.mts`, `${path}.js`, `${path}.mjs`].find((candidate) => existsSync(candidate) && !existsSync(`${candidate}/.`));
  if (found !== undefined) return pathToFileURL(realpathSync(found));
  try {
    if (!/^[./\\]/.test(target.module)) return pathToFileURL(createRequire(resolve(cwd, 'package.json')).resolve(target.module));
  } catch { /* neither file nor package: said below */ }
  throw new SvcError('E_LOAD', [target.module, `there is no such file in ${cwd}, and no such package`]);
}

/** The package.json of the copy of this package that a module would import; undefined when it has none. */
export function packageSeenBy(module: URL): string | undefined {
  try {
    const found = findPackageJSON('svc', module);
    return found === undefined ? undefined : realpathSync(found);
  } catch {
    return undefined;
  }
}

/** The package.json of this copy. */
export function ownPackage(): string {
  return realpathSync(resolve(dirname(fileURLToPath(import.meta.url)), '../package.json'));
}

/** Imports the module and takes its export. @throws SvcError `E_LOAD`, with what Node said translated */
export async function loadApplication(target: Target, module: URL): Promise<Svc> {
  findTypeScriptToo();
  const name = `${target.module}:${target.exportName}`;
  let exports: Record<string, unknown>;
  try {
    exports = await import(module.href) as Record<string, unknown>;
  } catch (error) {
    if (error instanceof SvcError || (error as { code?: unknown } | null)?.code === 'E_COMPILE') throw error;
    throw new SvcError('E_LOAD', [target.module, translate(error, module)], { cause: error });
  }
  const app = exports[target.exportName];
  if (app === undefined) {
    const names = Object.keys(exports);
    const near = closest(target.exportName, names) ?? names.find((candidate) => isApplication(exports[candidate]));
    throw new SvcError('E_LOAD', [name, `the module exports ${names.length === 0 ? 'nothing' : names.join(', ')}` + (near === undefined ? '' : `; did you mean ":${near}"?`)]);
  }
  if (!isApplication(app)) throw new SvcError('E_LOAD', [name, `the export is ${app === null ? 'null' : `a value of type ${typeof app}`}, not an application made with new Svc()`]);
  return app;
}

/** Whether a value is an application, of whichever copy of the package. */
export function isApplication(value: unknown): value is Svc {
  return typeof value === 'object' && value !== null && APP_BRAND in value;
}

let isHooked = false;

/** TypeScript sources may import `./x.js`, as TypeScript itself asks for: where that file is absent, `x.ts` is meant. */
function findTypeScriptToo(): void {
  if (isHooked) return;
  isHooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        const isRelative = /^\.{1,2}\//.test(specifier) && context.parentURL !== undefined && !context.parentURL.includes('/node_modules/');
        if (!isRelative || (error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
        for (const candidate of alternatives(specifier)) {
          if (existsSync(new URL(candidate, context.parentURL))) return next(candidate, context);
        }
        throw error;
      }
    },
  });
}

function alternatives(specifier: string): string[] {
  if (/\.[mc]?js$/.test(specifier)) return [specifier.replace(/js$/, 'ts')];
  return [`${specifier}.ts`, `${specifier}/index.ts`];
}

/** What Node said, and what to do about it. */
function translate(error: unknown, module: URL): string {
  if (!(error instanceof Error)) return `it threw ${typeof error}`;
  const { code } = error as NodeJS.ErrnoException;
  const where = placeIn(error);
  const said = error.message.split('\n')[0]!;
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return `${where}${error.message.replace(/\s+/g, ' ')}: use erasable syntax only, or start with NODE_OPTIONS='--import tsx'`;
  }
  if (code === 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING') return `${said}: packages must ship JavaScript`;
  if (/does not provide an export named/.test(said)) return `${where}${said}: if it is a type, write "import type"`;
  if (code === 'ERR_MODULE_NOT_FOUND') {
    const isAlias = /Cannot find package '[@~]\/?/.test(said);
    return said + (isAlias ? ': tsconfig "paths" are not read; use "imports" in package.json' : '');
  }
  return error instanceof SyntaxError ? `${where || `${fileURLToPath(module)}: `}${said}` : `${where}${error.name}: ${said}`;
}

/** `file:line: `, where an error tells it in the first line of its stack or in its first frame. */
function placeIn(error: Error): string {
  const match = /(file:\/\/\S+?|\/\S+?):(\d+)(?::\d+)?\)?$/m.exec(error.stack ?? '');
  if (match === null) return '';
  const file = match[1]!.startsWith('file:') ? fileURLToPath(match[1]!) : match[1]!;
  return `${file}:${match[2]!}: `;
}
