/**
 * From the start of a process to its first answer: a program of three routes beside bare node:http.
 *
 *   npm run build && node test/bench/start.ts [--rounds=15] [--other=DIR]     DIR: another checkout, built; all alternate
 *
 * `import http from 'node:http'` reads every property of the module, by one of which it loads all of `fetch`; the package asks for
 * it in another way. So a program is measured alone, as those of users are, and with such an import.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = resolve(import.meta.dirname, '../..');
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, other: { type: 'string' } },
});

// ── programs ──

const IMPORT = `import http from 'node:http';\n`;
const RAW = `
const server = http.createServer((_request, response) => {
  const text = '{"ok":true}';
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': text.length });
  response.end(text);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;
const ours = (root: string): string => `
import { Svc } from '${pathToFileURL(join(root, 'dist/index.js')).href}';
const app = new Svc();
app.get('/', () => ({ ok: true }));
app.get('/a', () => ({ ok: true }));
app.get('/u/{id}', ({ params }) => params);
app.run({ port: 0, handleSignals: false }).then(({ port }) => console.log(port));`;
/** Tells what it has taken, when it is asked. */
const ASKED = `
process.stdin.once('data', () => {
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ cpuMs: (user + system) / 1_000, rssMiB: process.memoryUsage.rss() / 1_048_576 }));
});`;
const PROGRAMS: Readonly<Record<string, string>> = {
  'node:http, imported': IMPORT + RAW,
  'node:http, required': `const http = process.getBuiltinModule('node:http');${RAW}`,
  svc: ours(ROOT),
  'svc, and node:http imported': IMPORT + ours(ROOT),
  ...(values.other === undefined
    ? {}
    : {
        'the other svc': ours(values.other),
        'the other, and node:http imported': IMPORT + ours(values.other),
      }),
};

// ── figures ──

interface Sample {
  readonly firstMs: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
}

async function sample(file: string): Promise<Sample> {
  const startedMs = performance.now();
  const program = spawn(process.execPath, [file], {
    env: { ...process.env, NODE_ENV: 'production' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const lines = createInterface(program.stdout)[Symbol.asyncIterator]();
  const { value: port } = (await lines.next()) as { value: string };
  const [response] = (await once(http.get({ port, agent: false }), 'response')) as [http.IncomingMessage];
  await once(response.resume(), 'end');
  const firstMs = performance.now() - startedMs;
  program.stdin.write('now\n');
  const { value: taken } = (await lines.next()) as { value: string };
  program.kill('SIGKILL');
  return { firstMs, ...(JSON.parse(taken) as Omit<Sample, 'firstMs'>) }; // as ASKED writes it
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-start-'));
  const samples = new Map<string, Sample[]>(Object.keys(PROGRAMS).map((name) => [name, []]));
  const files = Object.entries(PROGRAMS).map(([name, text], index) => {
    const file = join(folder, `${index}.mjs`);
    writeFileSync(file, text + ASKED);
    return [name, file] as const;
  });
  try {
    for (let round = 0; round < Number(values.rounds); round++)
      for (const [name, file] of files) samples.get(name)!.push(await sample(file));
  } finally {
    rmSync(folder, { recursive: true });
  }
  const [base] = samples.values();
  console.table(
    Object.fromEntries(
      [...samples].map(([name, all]) => [
        name,
        Object.fromEntries(
          (['firstMs', 'cpuMs', 'rssMiB'] as const).map((what) => {
            const [figure, bare] = [median(all, what), median(base!, what)];
            return [
              what,
              `${figure.toFixed(1)} (${(figure / bare).toFixed(2)} ×, ${(figure - bare).toFixed(1)})`,
            ];
          }),
        ),
      ]),
    ),
  );
}
function median(samples: readonly Sample[], what: keyof Sample): number {
  return samples.map((one) => one[what]).sort((a, b) => a - b)[samples.length >> 1]!;
}

await measure();
process.exit();
