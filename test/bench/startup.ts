/**
 * Start-up of a program: CPU until its first answer, and resident memory 300 ms later. svc runs from its
 * files, and as one file that esbuild has made.
 *
 * Each sample is a fresh process without a compile cache. The programs are JavaScript: to strip types, Node
 * loads a compiler that takes longer than the measured start.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from './harness.ts';
import type { Bench, Row } from './harness.ts';

const mainOf = (root: string): string => join(root, 'dist/index.js');

/** Makes one file of the whole package. Returns its path. */
function bundled(tools: string, root: string): string {
  const file = join(tools, root === ROOT ? 'svc.mjs' : 'svc-before.mjs');
  const options = ['--bundle', '--platform=node', '--format=esm', '--log-level=error', `--outfile=${file}`];
  const { status, stderr } = spawnSync(join(tools, 'node_modules/.bin/esbuild'), [mainOf(root), ...options], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  return file;
}

/** Each program sets `port`. `routes`: number of routes besides three. */
const PROGRAMS = {
  'node:http': () => `
    const server = http.createServer((req, res) => res.end('{"ok":true}')).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address();`,
  svc: (routes: number, file: string) => `
    const { Svc } = await import('${pathToFileURL(file).href}');
    const app = new Svc();
    app.get('/', () => ({ ok: true })).get('/a', () => ({ ok: true })).get('/u/{id}', ({ params }) => params);
    for (let index = 0; index < ${routes}; index++) app.get('/api/r' + index + '/{id}', ({ params }) => params);
    const { port } = await app.run({ port: 0 });`,
  fastify: (routes: number) => `
    const { default: fastify } = await import('fastify');
    const app = fastify();
    app.get('/', async () => ({ ok: true }));
    app.get('/a', async () => ({ ok: true }));
    app.get('/u/:id', async (req) => req.params);
    for (let index = 0; index < ${routes}; index++) app.get('/api/r' + index + '/:id', async (req) => req.params);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address();`,
};
const MEASURE = `
    await new Promise((resolve) => http.get({ port, agent: false }, (res) => res.resume().on('end', resolve)));
    const { user, system } = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 300));
    console.log('RESULT ' + (user + system) / 1_000 + ' ' + process.memoryUsage.rss() / 1_048_576);
    process.exit(0);`;

/** Runs a program. Returns its CPU time in milliseconds, or its resident memory in MiB. */
function measured(program: string, cwd: string, unit: 'ms' | 'MiB'): number {
  const source = `import http from 'node:http';${program}${MEASURE}`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', source], {
    cwd,
    encoding: 'utf8',
  });
  const [, cpuMs, rssMiB] = /RESULT ([\d.]+) ([\d.]+)/.exec(stdout) ?? [];
  if (rssMiB === undefined) throw new Error(stderr);
  return Number(unit === 'ms' ? cpuMs : rssMiB);
}

function rows(peers: string | undefined): readonly Row[] {
  const row = (
    name: string,
    unit: 'ms' | 'MiB',
    bound: number,
    { routes = 0, isBundled = false } = {},
  ): Row => ({
    name: `start-up ${name}: ${unit === 'ms' ? 'CPU' : 'memory'}`,
    ...{ unit, bound, base: peers ? 'fastify' : 'node:http', others: peers ? ['node:http'] : [] },
    ...{ processes: routes > 0 ? 1 : 4, slices: 1 },
    start: async (side, root) => {
      const file = isBundled && side === 'svc' ? bundled(peers!, root) : mainOf(root);
      const program = PROGRAMS[side as keyof typeof PROGRAMS](routes, file);
      return { slice: () => measured(program, peers ?? ROOT, unit), stop: () => undefined };
    },
  });
  return [
    row('of three routes', 'ms', 1.15),
    row('of three routes', 'MiB', 1.1),
    ...(peers
      ? [
          row('as one file', 'ms', 0.85, { isBundled: true }),
          row('as one file', 'MiB', 1, { isBundled: true }),
          row('of 10,000 routes', 'ms', 0.3, { routes: 10_000 }),
          row('of 10,000 routes', 'MiB', 0.7, { routes: 10_000 }),
        ]
      : []),
  ];
}

export const bench: Bench = { packages: { fastify: '^5', esbuild: '^0.25' }, rows };
