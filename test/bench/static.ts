/**
 * What a static file costs the server: CPU per request for 1 KiB, 1 MiB and a 304, beside bare node:http, and beside sirv
 * where a registry has it.
 *
 *   bare    node:http with the bytes in memory (1 KiB, 304), and a stream of the file (1 MiB): as little as can be done
 *   sirv    production settings: everything looked at once, at the start, so that its 304 is bare node:http but for a Map
 *
 * Clients and server are processes of their own, over loopback; every sample is a fresh server, the sides alternate, the
 * median counts. The client is a raw socket that counts bytes, so that it never holds the server up.
 *
 *   node --conditions=svc-source test/bench/static.ts [--rounds=5] [--only='1 MiB']     exits 1 when svc costs more than its bound
 */
import { spawn, spawnSync } from 'node:child_process';
import { createReadStream, mkdirSync, mkdtempSync, rmSync, writeFileSync, utimesSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Svc, createLogger } from 'svc';
import { npmEnvironment } from '../support/scratch.ts';
import type { ChildProcess } from 'node:child_process';
import type { IncomingMessage, ServerResponse } from 'node:http';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    child: { type: 'string' },
    folder: { type: 'string' },
    package: { type: 'string' },
    only: { type: 'string' },
  },
});

type Side = 'bare' | 'svc' | 'sirv';
interface Scenario {
  readonly path: string;
  readonly fields: string;
  readonly requests: number;
  /** Bytes of each answer at least; what is less is wrong. */
  readonly least: number;
  /** × the CPU of bare node:http that svc may cost, and × that of sirv. */
  readonly bounds: { readonly bare: number; readonly sirv: number };
}
/** Long ago, so that the tag is strong. */
const MODIFIED = 784_111_777;
const THEN = 'Sun, 06 Nov 1994 08:49:37 GMT';
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  '1 KiB': {
    path: '/small.txt',
    fields: '',
    requests: 40_000,
    least: 1_100,
    bounds: { bare: 1.5, sirv: 1 / 3.3 },
  },
  '1 MiB': {
    path: '/large.bin',
    fields: '',
    requests: 1_500,
    least: 1_048_576,
    bounds: { bare: 0.9, sirv: 1 / 1.1 },
  },
  304: {
    path: '/small.txt',
    fields: `If-Modified-Since: ${THEN}\r\n`,
    requests: 40_000,
    least: 100,
    bounds: { bare: 1.5, sirv: 1 / 0.75 },
  },
};
const CLIENTS = 16;
const WARM_UP = 0.25;

// ── the servers ──

async function serve(side: Side, folder: string): Promise<void> {
  let port: number;
  if (side === 'svc') {
    const app = new Svc({ logger: createLogger({ level: 'error' }) }).mountStatic('/', folder);
    port = (await app.run({ port: 0, handleSignals: false })).port;
  } else {
    const handle = side === 'bare' ? bare(folder) : await sirv(folder);
    const server = createServer(handle);
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    port = (server.address() as { port: number }).port;
  }
  console.log(`PORT ${port}`);
  for await (const line of createInterface({ input: process.stdin }))
    if (line === 'cpu') {
      const { user, system } = process.cpuUsage();
      console.log(`CPU ${user + system}`);
    }
}

function bare(folder: string): (req: IncomingMessage, res: ServerResponse) => void {
  const small = Buffer.alloc(1_024, 'x');
  const fields = [
    'Content-Type',
    'text/plain; charset=utf-8',
    'ETag',
    '"a"',
    'Last-Modified',
    THEN,
    'Cache-Control',
    'max-age=0',
  ];
  return (req, res) => {
    if (req.url === '/large.bin') {
      res.writeHead(200, [...fields, 'Content-Length', '1048576']);
      createReadStream(join(folder, 'large.bin')).pipe(res);
    } else if (req.headers['if-modified-since'] !== undefined) res.writeHead(304, fields).end();
    else res.writeHead(200, [...fields, 'Content-Length', '1024']).end(small);
  };
}

async function sirv(folder: string): Promise<(req: IncomingMessage, res: ServerResponse) => void> {
  const { default: make } = (await import(
    pathToFileURL(join(values.package!, 'node_modules/sirv/build.mjs')).href
  )) as { default: (folder: string, options: object) => (req: IncomingMessage, res: ServerResponse) => void };
  const handle = make(folder, { etag: true });
  // sirv knows tags only: the condition is said with its own
  const tag = `W/"1024-${MODIFIED * 1_000}"`;
  return (req, res) => {
    if (req.headers['if-modified-since'] !== undefined) req.headers['if-none-match'] = tag;
    handle(req, res);
  };
}

// ── the client ──

/** Asks again as soon as it is answered. Answers are told apart by the length of the first, which all must have. */
function ask(port: number, { path, fields, least }: Scenario, requests: number): Promise<void> {
  const request = `GET ${path} HTTP/1.1\r\nHost: a.example\r\n${fields}\r\n`;
  const one = (count: number): Promise<void> =>
    new Promise((resolve, reject) => {
      let left = count;
      let length = 0;
      let received = 0;
      let head = '';
      const socket = connect(port, '127.0.0.1', () => socket.write(request));
      socket.on('error', reject).on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (length === 0) {
          head += chunk.toString('latin1');
          const end = head.indexOf('\r\n\r\n');
          if (end === -1) return;
          length = end + 4 + Number(/content-length: (\d+)/i.exec(head.slice(0, end))?.[1] ?? 0);
          if (length < least) return void reject(new Error(`a wrong answer: ${head.slice(0, end)}`));
        }
        if (received < length) return;
        received -= length;
        if (--left > 0) socket.write(request);
        else {
          socket.destroy();
          resolve();
        }
      });
    });
  return Promise.all(Array.from({ length: CLIENTS }, () => one(Math.ceil(requests / CLIENTS)))).then(
    () => undefined,
  );
}

/** CPU microseconds of the server per request. */
async function measure(side: Side, scenario: Scenario, folder: string, packages: string): Promise<number> {
  const child = spawn(
    process.execPath,
    [
      '--conditions=svc-source',
      fileURLToPath(import.meta.url),
      `--child=${side}`,
      `--folder=${folder}`,
      `--package=${packages}`,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const next = async (): Promise<number> => Number(((await lines.next()).value as string).split(' ')[1]);
  try {
    const port = await next();
    await ask(port, scenario, scenario.requests * WARM_UP);
    const before = await cpu(child, next);
    await ask(port, scenario, scenario.requests);
    return ((await cpu(child, next)) - before) / scenario.requests;
  } finally {
    child.kill('SIGKILL');
  }
}

function cpu(child: ChildProcess, next: () => Promise<number>): Promise<number> {
  child.stdin!.write('cpu\n');
  return next();
}

async function parent(): Promise<number> {
  const rounds = Number(values.rounds ?? 5);
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-static-'));
  for (const [name, size] of [
    ['small.txt', 1_024],
    ['large.bin', 1_048_576],
  ] as const) {
    writeFileSync(join(folder, name), Buffer.alloc(size, 'x'));
    utimesSync(join(folder, name), MODIFIED, MODIFIED);
  }
  const packages = install();
  const sides: readonly Side[] = packages === '' ? ['bare', 'svc'] : ['bare', 'svc', 'sirv'];
  let isSlow = false;
  console.log(
    `### Static files: server CPU in µs per request, ${process.version}, median of ${rounds} fresh servers each\n\n| | bare | svc | sirv | svc / bare | bound | sirv / svc | bound |\n|---|---:|---:|---:|---:|---:|---:|---:|`,
  );
  for (const [name, scenario] of Object.entries(SCENARIOS)) {
    if (values.only !== undefined && values.only !== name) continue;
    const samples: Record<Side, number[]> = { bare: [], svc: [], sirv: [] };
    for (let round = 0; round < rounds; round++)
      for (const side of round % 2 === 0 ? sides : sides.toReversed())
        samples[side].push(await measure(side, scenario, folder, packages));
    const [bareUs, svcUs, sirvUs] = [median(samples.bare)!, median(samples.svc)!, median(samples.sirv)];
    isSlow ||=
      svcUs > bareUs * scenario.bounds.bare ||
      (sirvUs !== undefined && svcUs > sirvUs * scenario.bounds.sirv);
    console.log(
      `| ${name} | ${bareUs.toFixed(1)} | ${svcUs.toFixed(1)} | ${sirvUs?.toFixed(1) ?? '–'} | ${(svcUs / bareUs).toFixed(2)} | ${scenario.bounds.bare} | ${sirvUs === undefined ? '–' : (sirvUs / svcUs).toFixed(2)} | ${(1 / scenario.bounds.sirv).toFixed(2)} |`,
    );
  }
  rmSync(folder, { recursive: true });
  return isSlow ? 1 : 0;
}

/** Where sirv is; empty without a registry. */
function install(): string {
  const folder = join(tmpdir(), 'svc-scratch', 'bench-static');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const { status } = spawnSync(
    'npm',
    [
      'install',
      '--no-audit',
      '--no-fund',
      '--ignore-scripts',
      '--no-package-lock',
      '--prefer-offline',
      'sirv@3',
    ],
    { cwd: folder, env: { ...process.env, ...npmEnvironment() }, timeout: 120_000 },
  );
  return status === 0 ? folder : '';
}

function median(samples: readonly number[]): number | undefined {
  return samples.toSorted((left, right) => left - right)[samples.length >> 1];
}

if (values.child === undefined) process.exitCode = await parent();
else await serve(values.child as Side, values.folder!);
