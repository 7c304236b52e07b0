/**
 * Two processes behind nginx, and behind HAProxy, restarted in turn by SIGTERM under load: no request is lost,
 * although the proxy repeats none.
 *
 *   node --conditions=svc-source test/soak/rolling-restart.ts
 *
 *   SOAK_SECONDS    begins no further restart after so long, for both proxies together; default 60. Each
 *                   process is restarted at least once
 *   SOAK_DELAY      `shutdownDelaySeconds` of the processes; default 3. With 0, requests are lost
 *
 * Clients keep their connections, and send GET and POST at once after each response. HAProxy probes /readyz
 * itself. nginx cannot, so this script does: it writes a file for a process that is not ready, and nginx sends
 * requests to the other one while the file exists. All connections are Unix sockets.
 *
 * Skips a proxy that is not installed, or fails with REQUIRE_PROXIES=1.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Svc } from 'svc';
import { folder } from '../support/run.ts';
import { SECONDS, SoakServer, scoped, serving, soak, together } from '../support/soak.ts';
import type { Scope } from '../support/run.ts';

const DELAY_SECONDS = Number(process.env['SOAK_DELAY'] ?? 3);
const CLIENTS = 24;
const NAMES = ['a', 'b'] as const;
type Name = (typeof NAMES)[number];
const PROBE_PAUSE_MS = 25;
/** Longest time for a proxy to begin, or for a process to get requests again. */
const PATIENCE_MS = 60_000;
/** Number of requests that a restarted process handles before the other one is restarted. */
const STEADY_REQUESTS = 50;

// ── a process ──

async function serve(name: string, socket: string): Promise<void> {
  const app = new Svc({ trustProxy: 1 });
  app.get('/', () => ({ name }));
  app.get('/slow', async () => {
    await sleep(20);
    return { name };
  });
  app.post('/', { public: true }, async ({ req }) => ({ name, body: await req.text() }));
  await app.run({ socket, shutdownDelaySeconds: DELAY_SECONDS });
  serving(0, () => ({}));
}

// ── the proxies ──

/** Starts a proxy whose front is the socket `front.sock` of a folder. */
type Proxy = (folder: string) => { readonly file: string; readonly config: string; readonly args: string[] };

const nginx: Proxy = (path) => {
  const server = (name: Name): string => `server unix:${path}/${name}.sock max_fails=0;`;
  const upstream = (title: string, names: readonly Name[]): string =>
    `upstream ${title} { ${names.map(server).join(' ')} keepalive 64; keepalive_requests 1000000; }`;
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${path}/${kind};`,
  );
  return {
    file: 'nginx.conf',
    args: ['-p', path, '-e', 'stderr', '-c', `${path}/nginx.conf`],
    config: `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off; worker_processes 2; pid ${path}/nginx.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; ${temporary.join(' ')}
  ${upstream('both', NAMES)}
  ${upstream('only_a', ['a'])}
  ${upstream('only_b', ['b'])}
  server {
    listen unix:${path}/front.sock;
    keepalive_requests 1000000;
    location / {
      set $to both;
      if (-f ${path}/a.away) { set $to only_b; }
      if (-f ${path}/b.away) { set $to only_a; }
      proxy_pass http://$to;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host app.example;
      proxy_next_upstream off;
    }
  }
}
`,
  };
};

const haproxy: Proxy = (path) => ({
  file: 'haproxy.cfg',
  args: ['-db', '-f', `${path}/haproxy.cfg`],
  config: `global
  maxconn 1024
defaults
  mode http
  retries 0
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout check 5s
  timeout client 75s
  timeout server 30s
  timeout http-keep-alive 75s
frontend front
  bind unix@${path}/front.sock
  default_backend processes
backend processes
  balance roundrobin
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host app.example
  http-check expect status 200
  default-server check inter 100ms fall 1 rise 1
  server a unix@${path}/a.sock
  server b unix@${path}/b.sock
`,
});

/** Returns the path of a program; undefined if it is not installed. */
function installed(program: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return folders.map((path) => join(path, program)).find((path) => existsSync(path));
}

function startProxy(scope: Scope, program: string, proxy: Proxy, path: string): void {
  const { file, config, args } = proxy(path);
  writeFileSync(join(path, file), config);
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  const ended = once(child, 'exit');
  child.on('exit', () => {
    if (!child.killed) console.error(`The proxy has ended:\n${printed}`);
  });
  scope.after(async () => {
    child.kill('SIGTERM'); // both proxies end at once
    await ended;
  });
}

// ── the clients ──

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Sends one request over a socket. Rejects when the connection ends before the whole response. */
function ask(socketPath: string, path: string, body: string | undefined, agent?: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const sent = request({
      socketPath,
      path,
      method,
      agent: agent ?? false,
      headers: { Host: 'app.example' },
    });
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode!, text })).on('error', reject);
    });
    sent.on('error', reject).end(body);
  });
}

/** Clients that send the next request as soon as they have a response. */
class Clients {
  readonly lost: string[] = [];
  readonly counts: Record<'GET' | 'POST', number> = { GET: 0, POST: 0 };
  /** Number of responses of each process since its restart. */
  readonly served: Record<Name, number> = { a: 0, b: 0 };
  readonly #front: string;
  readonly #clients: Promise<unknown>;
  #isOver = false;

  constructor(front: string) {
    this.#front = front;
    this.#clients = together(CLIENTS, (index) => this.#send(index));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#clients;
  }

  async #send(index: number): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let count = index; !this.#isOver; count++) {
      const body = count % 2 === 0 ? undefined : `${index}-${count} `.repeat(count % 400);
      const method = body === undefined ? 'GET' : 'POST';
      const path = count % 16 === 0 ? '/slow' : '/';
      const problem = await ask(this.#front, path, body, agent).then(
        (answer) => this.#judge(answer, body),
        (error: NodeJS.ErrnoException) => error.code ?? error.message,
      );
      this.counts[method]++;
      if (problem !== undefined) this.lost.push(`${method} ${path}: ${problem}`);
    }
    agent.destroy();
  }

  #judge({ status, text }: Answer, body: string | undefined): string | undefined {
    if (status !== 200) return `status ${status}`;
    const answer = JSON.parse(text) as { readonly name: Name; readonly body?: string };
    this.served[answer.name]++;
    return answer.body === body ? undefined : 'another body came back';
  }
}

// ── a run ──

/** Writes a file for each process that is not ready, for nginx. Ends with the scope. */
function probe(scope: Scope, path: string): void {
  const abort = new AbortController();
  const probing = together(NAMES.length, async (index) => {
    const name = NAMES[index]!;
    while (!abort.signal.aborted) {
      const isReady = await ask(join(path, `${name}.sock`), '/readyz', undefined).then(
        ({ status }) => status === 200,
        () => false,
      );
      const away = join(path, `${name}.away`);
      if (isReady) rmSync(away, { force: true });
      else writeFileSync(away, '');
      await sleep(PROBE_PAUSE_MS);
    }
  });
  scope.after(async () => {
    abort.abort();
    await probing;
  });
}

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const endMs = performance.now() + PATIENCE_MS; !(await isSo()); await sleep(PROBE_PAUSE_MS))
    if (performance.now() > endMs) throw new Error(`${what} takes longer than ${PATIENCE_MS / 1_000} s`);
}

/** Restarts the processes behind one proxy in turn. Returns what was lost. */
async function behind(
  title: string,
  program: string,
  proxy: Proxy,
  seconds: number,
): Promise<readonly string[]> {
  const failures: string[] = [];
  await scoped(async (scope) => {
    const path = folder(scope);
    const start = (name: Name): Promise<SoakServer<object>> =>
      SoakServer.start(import.meta.filename, [name, join(path, `${name}.sock`)], (child) =>
        child.stderr!.resume(),
      );
    const servers = { a: await start('a'), b: await start('b') };
    scope.after(() => Promise.all(NAMES.map((name) => servers[name].kill())).then(() => undefined));
    probe(scope, path);
    startProxy(scope, program, proxy, path);
    const front = join(path, 'front.sock');
    await until(`The start of ${title}`, () =>
      ask(front, '/', undefined).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
    const beganMs = performance.now();
    const clients = new Clients(front);
    let restarts = 0;
    for (; restarts < NAMES.length || performance.now() - beganMs < seconds * 1_000; restarts++) {
      const name = NAMES[restarts % NAMES.length]!;
      await until(`The use of both processes by ${title}`, () =>
        NAMES.every((each) => clients.served[each] >= STEADY_REQUESTS),
      );
      failures.push(...(await servers[name].terminated()));
      clients.served[name] = 0;
      servers[name] = await start(name);
    }
    await clients.stop();
    const { GET, POST } = clients.counts;
    console.log(
      `${title}: ${GET + POST} requests (${POST} POST) during ${restarts} restarts in ${((performance.now() - beganMs) / 1_000).toFixed(1)} s: ${clients.lost.length} lost`,
    );
    failures.push(...clients.lost.map((lost) => `${title}: ${lost}`));
  });
  return failures;
}

async function main(): Promise<readonly string[]> {
  const failures: string[] = [];
  const proxies = Object.entries({ nginx, haproxy });
  for (const [title, proxy] of proxies) {
    const program = installed(title);
    if (program === undefined && process.env['REQUIRE_PROXIES'] === '1')
      failures.push(`${title} is not installed: apt-get install ${title}`);
    else if (program === undefined) console.log(`SKIPPED: ${title} is not installed`);
    else failures.push(...(await behind(title, program, proxy, SECONDS / proxies.length)));
  }
  return failures;
}

await soak(main, serve);
