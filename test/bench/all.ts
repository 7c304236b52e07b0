/**
 * Measures everything that README.md and test/README.md state about performance, and prints it as Markdown
 * tables.
 *
 *   npm run bench                              20 to 30 minutes; nothing else should run on the machine
 *   npm run bench -- http startup              these alone: http, startup, parts, dependencies, rows, streams, websocket, realistic
 *
 * Exits 1 when a measured ratio is above its bound. A bench that needs a missing server, program or registry
 * says so and is skipped.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const BENCHES: Readonly<Record<string, string>> = {
  http: 'http.ts',
  startup: 'startup.ts',
  parts: 'parts.mjs',
  dependencies: 'dependencies.ts',
  rows: 'rows.ts',
  streams: 'streams.ts',
  websocket: 'websocket.ts',
  realistic: 'realistic.ts',
};
/** Benches that run the sources. The others need the built package. */
const OF_SOURCES = new Set(['dependencies', 'rows']);

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(BENCHES);
for (const name of names) {
  const file = BENCHES[name];
  if (file === undefined) throw new Error(`"${name}" is not a bench: ${Object.keys(BENCHES).join(', ')}`);
  const options = OF_SOURCES.has(name) ? ['--conditions=svc-source'] : [];
  const { status } = spawnSync(process.execPath, [...options, join(import.meta.dirname, file)], {
    stdio: 'inherit',
  });
  if (status !== 0) process.exitCode = 1;
}
