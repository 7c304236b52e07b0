/**
 * Keeps compiled sources, for this process and for those that it starts: a test that imports the package starts in half the time. It
 * is JavaScript, because a TypeScript file loads the compiler before the cache is on.
 */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../../node_modules/.cache/compile', import.meta.url),
);
enableCompileCache(process.env['NODE_COMPILE_CACHE']);
