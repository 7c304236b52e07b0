/**
 * Lets the processes of the tests start sooner, of which there are hundreds, each with some 400 modules. Given to `node --test`
 * with --import, which hands it on to them; not for coverage, which is less exact with kept code.
 *
 * Compiled sources are kept: what the tests start finds the folder in its environment. And `./x.ts` between two files of this
 * repository is that file: Node would look for links and package.json beside it each time.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../../node_modules/.cache/compile', import.meta.url),
);

const PARTS: readonly string[] = ['src/', 'test/', 'bin/'].map(
  (part) => new URL(`../../${part}`, import.meta.url).href,
);
const isOurs = (url: string | undefined): boolean =>
  url !== undefined && PARTS.some((part) => url.startsWith(part));

registerHooks({
  resolve(specifier, context, next) {
    if (/^\.\.?\/.*\.ts$/.test(specifier) && isOurs(context.parentURL)) {
      const url = new URL(specifier, context.parentURL).href;
      if (isOurs(url)) return { url, format: 'module-typescript', shortCircuit: true };
    }
    return next(specifier, context);
  },
});
