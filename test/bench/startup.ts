/**
 * Start-up of a program with three routes: CPU until its first answer, and resident memory 300 ms later,
 * beside node:http and Fastify. svc runs from its files, and as one file that esbuild has made.
 *
 *   npm run build && node test/bench/startup.ts [--rounds=11]
 *
 * Each sample is a fresh process without a compile cache, the sides take turns, and the median counts. The
 * programs are JavaScript: to strip types, Node loads a compiler that takes longer than the measured start.
 * Fastify and esbuild are installed into a scratch folder.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { alternate, argumentsOf, installed, median, printHead, printRow } from './harness.ts';

const rounds = Number(argumentsOf('rounds').rounds ?? 11);
const DIST = new URL('../../dist/index.js', import.meta.url).href;
const folder = installed('startup', { fastify: '^5', esbuild: '^0.25' });
const withSvc = (module: string): string => `
    const { Svc } = await import('${module}');
    const app = new Svc();
    app.get('/', () => ({ ok: true })).get('/a', () => ({ ok: true })).get('/u/{id}', ({ params }) => params);
    const { port } = await app.run({ port: 0 });`;

/** Returns the URL of one file with the whole package. */
function bundled(tools: string): string {
  const file = join(tools, 'svc.mjs');
  const options = ['--bundle', '--platform=node', '--format=esm', '--log-level=error', `--outfile=${file}`];
  const { status, stderr } = spawnSync(
    join(tools, 'node_modules/.bin/esbuild'),
    [fileURLToPath(DIST), ...options],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  return pathToFileURL(file).href;
}

/** Each program sets `port`. */
const PROGRAMS: Readonly<Record<string, string>> = {
  'node:http': `
    const server = http.createServer((req, res) => res.end('{"ok":true}')).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address();`,
  svc: withSvc(DIST),
  ...(folder !== undefined && {
    'svc, bundled': withSvc(bundled(folder)),
    Fastify: `
    const { default: fastify } = await import('fastify');
    const app = fastify();
    app.get('/', async () => ({ ok: true }));
    app.get('/a', async () => ({ ok: true }));
    app.get('/u/:id', async (req) => req.params);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address();`,
  }),
};
const MEASURE = `
    await new Promise((resolve) => http.get({ port, agent: false }, (res) => res.resume().on('end', resolve)));
    const { user, system } = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 300));
    console.log('RESULT ' + (user + system) / 1_000 + ' ' + process.memoryUsage.rss() / 1_048_576);
    process.exit(0);`;

const sides = Object.keys(PROGRAMS);
const memory = Object.fromEntries(sides.map((side): [string, number[]] => [side, []]));
const cpu = await alternate(sides, rounds, (side) => {
  const program = `import http from 'node:http';${PROGRAMS[side]}${MEASURE}`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: folder ?? join(import.meta.dirname),
    encoding: 'utf8',
  });
  const [, cpuMs, rssMiB] = /RESULT ([\d.]+) ([\d.]+)/.exec(stdout) ?? [];
  if (rssMiB === undefined) throw new Error(`${side}: ${stderr}`);
  memory[side]!.push(Number(rssMiB));
  return Number(cpuMs);
});
const peer = folder === undefined ? 'node:http' : 'Fastify';
const ratio = (samples: Readonly<Record<string, number[]>>, side: string): string =>
  median(samples[side]!.map((value, round) => value / samples[peer]![round]!)).toFixed(2);
printHead(`Start-up, median of ${rounds} processes each`, 'CPU ms', `× ${peer}`, 'MiB', `× ${peer}`);
for (const side of sides) {
  const [cpuMs, rssMiB] = [median(cpu[side]!).toFixed(0), median(memory[side]!).toFixed(1)];
  printRow(side, cpuMs, ratio(cpu, side), rssMiB, ratio(memory, side));
}
