/**
 * CPU per request of svc, Fastify, Hono and NestJS, as a multiple of a hand-written node:http handler
 * ("bare").
 *
 * Requests go through in-memory streams into a real http.Server, so that only JavaScript and the parser are
 * measured: no kernel and no client. Each sample is a fresh process, the sides take turns, and the median
 * counts. Only ratios of one run can be compared. The peers are installed into a scratch folder; without the
 * registry their columns are skipped.
 *
 * A second table compares requests that are refused early with successful requests of the same route.
 *
 *   npm run build && node test/bench/http.ts [--rounds=5 --only=json,param --headers=browser]     exits 1 above a bound
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { tracingChannel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { inject, serverOf } from '../support/inject.ts';
import { scratch } from '../support/scratch.ts';
import { alternate, childResult, median, printHead, printRow } from './harness.ts';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    only: { type: 'string' },
    headers: { type: 'string' },
    child: { type: 'string' },
    scenario: { type: 'string' },
    dist: { type: 'string' },
    peers: { type: 'string' },
  },
});

const payload = (): object => ({
  id: 1,
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  active: true,
  tags: ['a', 'b'],
});
const ROUTES = 200;
const templateOf = (index: number): string =>
  index % 2 === 0 ? `/api/v1/r${index}/{id}` : `/api/v1/r${index}/{id}/items/{item}`;

interface Scenario {
  readonly request: string;
  readonly status: number;
  /** The most that svc may cost, as a multiple of the bare handler. */
  readonly bound: number;
}

const more =
  values.headers === 'browser'
    ? 'User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\nAccept: */*\r\nAccept-Language: en-GB\r\nAccept-Encoding: gzip, br\r\n' +
      'Cookie: sid=0123456789abcdef; theme=dark\r\nReferer: http://localhost/x\r\nSec-Fetch-Mode: cors\r\nAuthorization: Bearer 01234567890123456789\r\n'
    : '';
const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}\r\n`;
/** Eight members, one of them an object of three. */
const account = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  age: 36,
  active: true,
  role: 'admin',
  score: 0.5,
  tags: ['a', 'b', 'c'],
  home: { street: 'Main Street 5', city: 'London', zip: 'N1 9GU' },
};
const post = (path: string, value: unknown): string => {
  const body = JSON.stringify(value);
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
};
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  json: { request: get('/json'), status: 200, bound: 1 },
  text: { request: get('/text'), status: 200, bound: 1 },
  /**
   * Variants with a subscriber to each event of svc:request and svc:handler, each bound to a store; and with
   * the access log.
   */
  watched: { request: get('/json'), status: 200, bound: 1.6 },
  logged: { request: get('/json'), status: 200, bound: 1.8 },
  param: { request: get('/api/v1/r100/12345'), status: 200, bound: 1 },
  param2: { request: get('/api/v1/r151/12345/items/77?x=1'), status: 200, bound: 1 },
  notFound: { request: get('/nothing/here'), status: 404, bound: 1 },
  wrongMethod: { request: `DELETE /json HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}\r\n`, status: 405, bound: 1 },
  mw5: { request: get('/mw'), status: 200, bound: 1 },
  /**
   * Request id, security headers, CORS, rate limit, metrics, JSON; the bare side writes the same fields, all
   * of them constant.
   */
  stack: {
    request: get('/json').replace('\r\n\r\n', '\r\nOrigin: https://app.example\r\n\r\n'),
    status: 200,
    bound: 1.3,
  },
  post: {
    request: post('/users', { name: 'Ada Lovelace', email: 'ada@example.com', age: 36 }),
    status: 201,
    bound: 1.05,
  },
  validated: { request: post('/accounts', account), status: 201, bound: 1.05 },
  invalid: {
    request: post('/accounts', { ...account, age: -1, home: { ...account.home, city: '' } }),
    status: 400,
    bound: 1.1,
  },
};

const PEERS = ['fastify', 'hono', 'nest'] as const;
type Peer = (typeof PEERS)[number];
type Side = 'bare' | 'svc' | Peer;
const PEER_PACKAGES = {
  '@hono/node-server': '^2',
  '@hono/zod-validator': '^0.9',
  '@nestjs/common': '^12',
  '@nestjs/core': '^12',
  '@nestjs/platform-fastify': '^12',
  fastify: '^5',
  hono: '^4',
  'reflect-metadata': '^0.2',
  rxjs: '^7',
  zod: '^4',
};
/** Scenarios of which the peers answer the same request with the same body. */
const SHARED: Readonly<Record<string, readonly Peer[]>> = {
  json: PEERS,
  text: PEERS,
  param: PEERS,
  param2: PEERS,
  post: ['fastify', 'hono'],
  validated: ['fastify', 'hono'],
  invalid: ['fastify', 'hono'],
};

/**
 * Maximum cost of a request that is refused before its handler, as a multiple of an accepted one to the same
 * route.
 */
const MOST_OF_REFUSAL = 1.1;
const SECRET = 'of this benchmark, and of nothing that is served';
/**
 * Requests that are refused: without a token, or with a length that exceeds the route's limit, whose body is
 * not sent. The second kind ends its connection, and so does the successful request that it is compared with.
 */
const REFUSALS: Readonly<Record<string, Readonly<Record<Outcome, Pick<Scenario, 'request' | 'status'>>>>> = {
  unauthorized: {
    success: {
      request: get('/secured').replace('\r\n\r\n', `\r\nAuthorization: Bearer TOKEN\r\n\r\n`),
      status: 200,
    },
    refusal: { request: get('/secured'), status: 401 },
  },
  tooLarge: {
    success: {
      request: post('/small', { name: 'Ada Lovelace' }).replace('\r\n', '\r\nConnection: close\r\n'),
      status: 201,
    },
    refusal: {
      request:
        'POST /small HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n',
      status: 413,
    },
  },
};
const OUTCOMES = ['success', 'refusal'] as const;
type Outcome = (typeof OUTCOMES)[number];

/** Runs everything and prints the tables. Returns the exit status. */
async function parent(): Promise<number> {
  const rounds = Number(values.rounds ?? 5);
  const names = values.only?.split(',') ?? [...Object.keys(SCENARIOS), ...Object.keys(REFUSALS)];
  const answers = names.filter((name) => name in SCENARIOS);
  const refused = names.filter((name) => name in REFUSALS);
  const slow = [
    answers.length > 0 && (await compare(answers, rounds)),
    refused.length > 0 && (await compareRefusals(refused, rounds * 3)),
  ];
  return slow.includes(true) ? 1 : 0;
}

/**
 * Compares refused requests with successful ones. Returns whether a ratio is above the bound.
 *
 * The lowest counts, not the median: with a connection for each request, a major collection may come when no
 * request is alive, and V8 then throws away what it has compiled for their shapes (--trace-deopt: embedded
 * weak objects cleared). A process that meets one takes two to four times as long from there on, with bare
 * node:http as well, and which do is chance: every second, so there are more of them. A server under load
 * meets none.
 */
async function compareRefusals(names: readonly string[], processes: number): Promise<boolean> {
  let isSlow = false;
  const title = `Early refusals, ${process.version}, lowest of ${processes} fresh processes each`;
  printHead(title, 'success ns', 'refusal ns', 'ratio', 'bound');
  for (const name of names) {
    const samples = await alternate(OUTCOMES, processes, (outcome) => measure(outcome, name));
    const [success, refusal] = [Math.min(...samples.success), Math.min(...samples.refusal)];
    isSlow ||= refusal / success > MOST_OF_REFUSAL;
    const ratio = (refusal / success).toFixed(3);
    printRow(name, success.toFixed(0), refusal.toFixed(0), ratio, MOST_OF_REFUSAL.toFixed(2));
  }
  return isSlow;
}

/** Measures the sides in turn. Returns whether svc is above a bound. */
async function compare(names: readonly string[], rounds: number): Promise<boolean> {
  let isSlow = false;
  const folder = scratch(
    { skip: (reason?: string) => console.log(`SKIPPED: the peers: ${reason}`) },
    'bench-http',
    PEER_PACKAGES,
  );
  if (folder !== undefined) copyFileSync(join(import.meta.dirname, 'peers.mjs'), peersIn(folder));
  const title = `CPU per request, ${process.version}, × bare, median of ${rounds} fresh processes each`;
  printHead(title, 'bare ns', 'svc', 'bound', ...(folder === undefined ? [] : PEERS));
  for (const name of names) {
    const peers = folder === undefined ? [] : (SHARED[name] ?? []);
    const sides: readonly Side[] = ['bare', 'svc', ...peers];
    const samples = await alternate(sides, rounds, (side) => measure(side, name, folder));
    const bare = median(samples.bare);
    const ratios = PEERS.map((peer) =>
      peers.includes(peer) ? (median(samples[peer]) / bare).toFixed(2) : '',
    );
    const { bound } = SCENARIOS[name]!;
    const ratio = median(samples.svc) / bare;
    isSlow ||= ratio > bound;
    printRow(
      name,
      bare.toFixed(0),
      ratio.toFixed(2),
      bound.toFixed(2),
      ...(folder === undefined ? [] : ratios),
    );
  }
  return isSlow;
}

const peersIn = (folder: string): string => join(folder, 'peers.mjs');

function measure(side: Side | Outcome, scenario: string, peers?: string): number {
  const args = [`--child=${side}`, `--scenario=${scenario}`];
  if (peers !== undefined) args.push(`--peers=${peers}`);
  if (values.headers !== undefined) args.push(`--headers=${values.headers}`);
  if (values.dist !== undefined) args.push(`--dist=${values.dist}`);
  return childResult(import.meta.filename, args, scenario === 'logged');
}

async function child(side: Side | Outcome, name: string): Promise<void> {
  if (side === 'success' || side === 'refusal') {
    const { request, status } = REFUSALS[name]![side];
    // imported only here, because the process of the bare handler must not load it
    const { createToken } = await import('svc');
    const token = createToken('ada', SECRET, { expiresInSeconds: 86_400 });
    console.log(
      `RESULT ${await inject(await svc(), Buffer.from(request.replace('TOKEN', token)), status, { isFresh: name === 'tooLarge' })}`,
    );
    process.exit(0);
  }
  const { request, status } = SCENARIOS[name]!;
  const server = side === 'svc' ? await svc() : side === 'bare' ? await bare() : await peer(side);
  console.log(`RESULT ${await inject(server, Buffer.from(request), status)}`);
  process.exit(0);
}

/** Serves the routes by another framework. */
async function peer(name: Peer): Promise<Server> {
  const makers = (await import(pathToFileURL(peersIn(values.peers!)).href)) as Record<
    Peer,
    (application: { routes: readonly string[] }) => Promise<Server>
  >;
  const routes = Array.from({ length: ROUTES }, (_, index) => templateOf(index).replace(/\{(\w+)\}/g, ':$1'));
  return makers[name]({ routes });
}

/** The product as a user would write it, from the built package. */
async function svc(): Promise<Server> {
  const dist = new URL(values.dist ?? '../../dist/', import.meta.url);
  const {
    BearerAuth,
    CORSMiddleware,
    Depends,
    Field,
    RateLimitMiddleware,
    Schema,
    SecurityHeadersMiddleware,
    Svc,
    float,
    int,
    list,
    literal,
    reply,
    str,
  } = (await import(new URL('index.js', dist).href)) as typeof import('svc');
  const app = new Svc({
    accessLog: name() === 'logged',
    ...(name() in REFUSALS ? { authSecret: SECRET } : {}),
  });
  if (name() === 'watched') watch();
  const counts = new WeakMap<object, number>();
  app.get('/json', payload);
  app.get('/text', () => 'Hello, World!');
  for (let index = 0; index < ROUTES; index++) app.get(templateOf(index) as '/{id}', ({ params }) => params);
  app.post('/users', async ({ req }) => {
    const body = (await req.json()) as { name: string };
    return reply({ ok: true, name: body.name }, 201);
  });
  class Address extends Schema {
    street = Field(str, { minLength: 1 });
    city = Field(str, { minLength: 1 });
    zip = Field(str, { minLength: 3, maxLength: 10 });
  }
  class Account extends Schema {
    name = Field(str, { minLength: 1, maxLength: 50 });
    email = Field(str, { email: true });
    age = Field(int, { ge: 0, le: 150 });
    active = Field(Boolean);
    role = Field(literal('admin', 'user', 'guest'));
    score = Field(float, { ge: 0, le: 1 });
    tags = Field(list(str, { maxLength: 20 }), { maxLength: 10 });
    home = Field(Address);
  }
  app.post('/accounts', { body: Account, status: 201 }, ({ body }) => ({
    ok: true,
    name: body.name,
    city: body.home.city,
  }));
  if (name() in REFUSALS) {
    app.get('/secured', { me: Depends(BearerAuth()) }, ({ me }) => ({ id: me.sub }));
    app.post('/small', { maxBodyBytes: 1_000 }, async ({ req }) =>
      reply({ name: ((await req.json()) as { name: string }).name }, 201),
    );
  }
  if (name() === 'mw5') {
    for (let layer = 0; layer < 5; layer++) {
      app.use(async (req, next) => {
        counts.set(req, (counts.get(req) ?? 0) + 1);
        return await next();
      });
    }
    app.get('/mw', ({ req }) => ({ n: counts.get(req) }));
  }
  if (name() === 'stack') {
    app
      .use(new SecurityHeadersMiddleware())
      .use(new CORSMiddleware({ origins: ['https://app.example'] }))
      .use(new RateLimitMiddleware({ perMinute: 1_000_000 }));
  }
  return serverOf(() => app.run({ port: 0, handleSignals: false }));
}

/** The least that an instrumentation does: an object for each event, with its parent from a store. */
function watch(): void {
  const store = new AsyncLocalStorage<object>();
  for (const channel of ['svc:request', 'svc:handler']) {
    const tracing = tracingChannel<unknown, object>(channel);
    tracing.start.bindStore(store, (event) => ({ event, parent: store.getStore() }));
    tracing.end.subscribe(() => undefined);
    tracing.asyncEnd.subscribe((event) => void (event as { status?: number }).status);
  }
}

/** Enables the middleware of the measured scenario. */
function name(): string {
  return values.scenario!;
}

/**
 * Hand-written server without a framework, with the same bytes. It listens, like every server: otherwise
 * node:http keeps no list of its connections.
 */
async function bare(): Promise<Server> {
  const send = (
    res: ServerResponse,
    status: number,
    type: string,
    body: string,
    extra: Record<string, string> = {},
    id: string = randomUUID(),
  ): void => {
    const length = Buffer.byteLength(body);
    res.writeHead(status, { 'Content-Type': type, ...extra, 'X-Request-Id': id, 'Content-Length': length });
    res.end(body);
  };
  const json = (res: ServerResponse, status: number, value: unknown): void =>
    send(res, status, 'application/json', JSON.stringify(value));
  const problem = (
    res: ServerResponse,
    status: number,
    title: string,
    detail: string | undefined,
    extra?: Record<string, string>,
  ): void => {
    const id = randomUUID();
    send(
      res,
      status,
      'application/problem+json',
      JSON.stringify({ type: 'about:blank', title, status, detail, request_id: id }),
      extra,
      id,
    );
  };
  type Received = typeof account;
  /** Returns every problem of an account, as a careful developer would check it. */
  const problemsOf = (body: Received): { loc: string[]; code: string; message: string }[] => {
    const problems: { loc: string[]; code: string; message: string }[] = [];
    const need = (isGood: boolean, code: string, message: string, ...loc: string[]): void => {
      if (!isGood) problems.push({ loc: ['body', ...loc], code, message });
    };
    const isText = (value: unknown, least: number, most: number): boolean =>
      typeof value === 'string' && value.length >= least && value.length <= most;
    need(isText(body.name, 1, 50), 'length', 'must have 1 to 50 characters', 'name');
    need(
      typeof body.email === 'string' &&
        /^[\w.!#$%&'*+/=?^`{|}~-]+@[a-zA-Z\d-]+(?:\.[a-zA-Z\d-]+)+$/.test(body.email),
      'email',
      'must be an e-mail address',
      'email',
    );
    need(
      Number.isSafeInteger(body.age) && body.age >= 0 && body.age <= 150,
      'range',
      'must be 0 to 150',
      'age',
    );
    need(typeof body.active === 'boolean', 'type', 'must be true or false', 'active');
    need(
      body.role === 'admin' || body.role === 'user' || body.role === 'guest',
      'enum',
      'must be one of admin, user, guest',
      'role',
    );
    need(
      typeof body.score === 'number' && body.score >= 0 && body.score <= 1,
      'range',
      'must be 0 to 1',
      'score',
    );
    need(
      Array.isArray(body.tags) && body.tags.length <= 10 && body.tags.every((tag) => isText(tag, 0, 20)),
      'tags',
      'must be at most 10 short texts',
      'tags',
    );
    const { home } = body;
    if (typeof home !== 'object' || home === null) need(false, 'type', 'must be an object', 'home');
    else {
      need(isText(home.street, 1, Infinity), 'length', 'must have at least 1 character', 'home', 'street');
      need(isText(home.city, 1, Infinity), 'length', 'must have at least 1 character', 'home', 'city');
      need(isText(home.zip, 3, 10), 'length', 'must have 3 to 10 characters', 'home', 'zip');
    }
    return problems;
  };
  const received = (req: IncomingMessage, res: ServerResponse, answer: (body: unknown) => void): void => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      try {
        answer(JSON.parse(Buffer.concat(chunks).toString()));
      } catch {
        problem(res, 400, 'Bad Request', 'The request body is not valid JSON');
      }
    });
  };
  const byName = new Map(
    Array.from({ length: ROUTES }, (_, index) => [`r${index}`, index % 2 === 0 ? 1 : 2]),
  );
  const counts = new WeakMap<object, number>();
  const layers = Array.from({ length: 5 }, () => async (req: IncomingMessage, next: () => Promise<void>) => {
    counts.set(req, (counts.get(req) ?? 0) + 1);
    await next();
  });
  const run = (req: IncomingMessage, at: number, last: () => Promise<void>): Promise<void> =>
    at === layers.length ? last() : layers[at]!(req, () => run(req, at + 1, last));
  const server = createServer((req, res) => {
    const url = req.url!;
    const question = url.indexOf('?');
    const path = question < 0 ? url : url.slice(0, question);
    if (req.method === 'GET') {
      if (path === '/json' && name() === 'stack') {
        const body = JSON.stringify(payload());
        res.writeHead(200, [
          'Content-Type',
          'application/json',
          ...STACK_FIELDS,
          'X-Request-Id',
          randomUUID(),
          'Content-Length',
          String(body.length),
        ]);
        return void res.end(body);
      }
      if (path === '/json') return json(res, 200, payload());
      if (path === '/text') return send(res, 200, 'text/plain; charset=utf-8', 'Hello, World!');
      if (path === '/mw') return void run(req, 0, async () => json(res, 200, { n: counts.get(req) }));
      const parts = path.split('/');
      const params = parts[1] === 'api' ? byName.get(parts[3]!) : undefined;
      if (params !== undefined && parts.length === (params === 1 ? 5 : 7)) {
        const found: Record<string, string> = { id: decodeURIComponent(parts[4]!) };
        if (params === 2) found['item'] = decodeURIComponent(parts[6]!);
        return json(res, 200, found);
      }
    } else if (req.method === 'POST' && path === '/users') {
      return received(req, res, (body) =>
        json(res, 201, { ok: true, name: (body as { name: string }).name }),
      );
    } else if (req.method === 'POST' && path === '/accounts') {
      return received(req, res, (body) => {
        if (typeof body !== 'object' || body === null)
          return problem(res, 400, 'Bad Request', 'The body must be an object');
        const errors = problemsOf(body as Received); // a check that the plain parser does not make
        if (errors.length === 0)
          return json(res, 201, {
            ok: true,
            name: (body as Received).name,
            city: (body as Received).home.city,
          });
        const id = randomUUID();
        send(
          res,
          400,
          'application/problem+json',
          JSON.stringify({
            type: 'about:blank',
            title: 'Bad Request',
            status: 400,
            detail: `The input has ${errors.length} problems`,
            errors,
            request_id: id,
          }),
          {},
          id,
        );
      });
    }
    if (path === '/json')
      return problem(res, 405, 'Method Not Allowed', 'This path allows only GET, HEAD, OPTIONS', {
        Allow: 'GET, HEAD, OPTIONS',
      });
    problem(res, 404, 'Not Found', undefined);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** Layers of the scenario `stack`. */
const STACK_FIELDS = [
  'RateLimit-Policy',
  '"default";q=1000000;w=60',
  'RateLimit',
  '"default";r=999999;t=1',
  'Access-Control-Allow-Origin',
  'https://app.example',
  'Vary',
  'Origin',
  'Content-Security-Policy',
  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  'X-Content-Type-Options',
  'nosniff',
  'Referrer-Policy',
  'strict-origin-when-cross-origin',
  'Cross-Origin-Resource-Policy',
  'same-origin',
];

if (values.child !== undefined) await child(values.child as Side | Outcome, values.scenario!);
else process.exitCode = await parent();
