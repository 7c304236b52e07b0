/**
 * Enables the compile cache for this process and its children, which halves the start of a test that imports
 * the package. It is JavaScript, because for a TypeScript file Node.js loads the compiler before the cache is
 * enabled.
 */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../../node_modules/.cache/compile', import.meta.url),
);
enableCompileCache(process.env['NODE_COMPILE_CACHE']);
