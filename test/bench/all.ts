/**
 * Measures the tables of test/README.md about performance, and prints them as Markdown.
 *
 *   npm run bench                              20 to 30 minutes; nothing else should run on the machine
 *   npm run bench -- http startup              these alone: http, startup, parts, tokens, dependencies, rows, streams, websocket, realistic
 *
 * Exits 1 when a ratio is above its bound. A bench skips what needs a missing server, program or registry.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const BENCHES = [
  'http',
  'startup',
  'parts',
  'tokens',
  'dependencies',
  'rows',
  'streams',
  'websocket',
  'realistic',
];
/** Benches that run the sources. The others need the built package. */
const OF_SOURCES = new Set(['dependencies', 'rows']);

for (const name of process.argv.length > 2 ? process.argv.slice(2) : BENCHES) {
  if (!BENCHES.includes(name)) throw new Error(`"${name}" is not a bench: ${BENCHES.join(', ')}`);
  const options = OF_SOURCES.has(name) ? ['--conditions=svc-source'] : [];
  const files = ['.ts', '.mjs'].map((end) => join(import.meta.dirname, `${name}${end}`));
  const { status } = spawnSync(process.execPath, [...options, files.find(existsSync)!], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
