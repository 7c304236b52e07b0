/**
 * First module of a supervised process, loaded by Node's option `--import`. It determines the role of the
 * process. With the role `reload`, it also reports all imported files to the parent.
 *
 * This module has few imports, because modules that load before enableCompileCache() are compiled at each
 * start.
 */
import { enableCompileCache, registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { ownFolders, packageRoot } from '../base/package-root.ts';
import { takeRole, sendToParent } from './supervision.ts';

if (takeRole() === 'reload') {
  if (process.env['NODE_DISABLE_COMPILE_CACHE'] === undefined) enableCompileCache();
  process.on(
    'uncaughtExceptionMonitor',
    (error: unknown) => void sendToParent({ svc: 'failed', text: failureText(error) }),
  );
  reportFiles();
}

/**
 * Reports each imported file to the parent, except files of packages. Files that do not exist are reported
 * too, because they may be created later.
 */
function reportFiles(): void {
  const own = [...ownFolders(), new URL('bin/', packageRoot()).href];
  const known = new Set<string>();
  const report = (url: string): void => {
    if (
      !url.startsWith('file:') ||
      url.includes('/node_modules/') ||
      own.some((folder) => url.startsWith(folder))
    )
      return;
    const path = fileURLToPath(url.split(/[?#]/, 1)[0]!);
    if (known.has(path)) return;
    known.add(path);
    void sendToParent({ svc: 'file', path });
  };
  registerHooks({
    resolve(specifier, context, next) {
      try {
        const resolved = next(specifier, context);
        report(resolved.url);
        return resolved;
      } catch (error) {
        if (
          /^\.{0,2}\//.test(specifier) &&
          context.parentURL?.startsWith('file:') === true &&
          !context.parentURL.includes('/node_modules/')
        )
          report(new URL(specifier, context.parentURL).href);
        throw error;
      }
    },
  });
}

function failureText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // `remedy` identifies an SvcError, even if another copy of this package created it
  const { remedy } = error as { readonly remedy?: unknown };
  return typeof remedy === 'string' ? `${error.message}\n${remedy}` : (error.stack ?? error.message);
}
