/**
 * Start-up of a program with three routes: CPU until its first answer, and resident memory 300 ms later,
 * beside node:http and Fastify.
 *
 *   npm run build && node test/bench/startup.ts [--rounds=11]
 *
 * Each sample is a fresh process without a compile cache, the sides take turns, and the median counts. The
 * programs are JavaScript: to strip types, Node loads a compiler that takes longer than the measured start.
 * Fastify is installed into a scratch folder.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { alternate, argumentsOf, installed, median, printHead, printRow } from './harness.ts';

const rounds = Number(argumentsOf('rounds').rounds ?? 11);
const DIST = new URL('../../dist/index.js', import.meta.url).href;
const folder = installed('startup', { fastify: '^5' });

/** Each program sets `port`. */
const PROGRAMS: Readonly<Record<string, string>> = {
  'node:http': `
    const server = http.createServer((req, res) => res.end('{"ok":true}')).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address();`,
  svc: `
    const { Svc } = await import('${DIST}');
    const app = new Svc();
    app.get('/', () => ({ ok: true })).get('/a', () => ({ ok: true })).get('/u/{id}', ({ params }) => params);
    const { port } = await app.run({ port: 0 });`,
  ...(folder !== undefined && {
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
printHead(`Start-up, median of ${rounds} processes each`, 'CPU ms', 'MiB');
for (const side of sides) printRow(side, median(cpu[side]!).toFixed(0), median(memory[side]!).toFixed(1));
