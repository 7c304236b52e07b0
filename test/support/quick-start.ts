/**
 * Keeps compiled sources for the processes of the tests, of which there are hundreds: each takes a third of its time to start.
 * Given to `node --test` with --import; what it starts finds the folder in its environment. Not for coverage, which is less
 * exact with it.
 */
import { fileURLToPath } from 'node:url';

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('../../node_modules/.cache/compile', import.meta.url));
