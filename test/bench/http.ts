/**
 * CPU per request of svc, Fastify, Hono and NestJS, as a multiple of a hand-written node:http handler
 * ("bare"). Requests go through in-memory streams into a real http.Server, so that only JavaScript and the
 * parser are measured: no kernel and no client.
 *
 * Rows of refused requests compare them with successful requests of the same route.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { injector } from './inject.ts';
import { serverOf } from '../support/listening.ts';
import { argumentsOf, worker, working } from './harness.ts';
import type { AddressInfo } from 'node:net';
import type { Tracer } from 'svc';
import type { Bench, Row } from './harness.ts';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

const values = argumentsOf('side', 'scenario', 'peers', 'listen', 'folder');
/** Name of the measured scenario, in a child process. */
const NAME = values.scenario!;
const TAGS = ['a', 'b'];
const payload = (): object => ({
  id: 1,
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  active: true,
  tags: TAGS,
});
const ROUTES = 200;
const PATHS: readonly string[] = Array.from({ length: ROUTES }, (_, index) =>
  index % 2 === 0 ? `/api/v1/r${index}/{id}` : `/api/v1/r${index}/{id}/items/{item}`,
);

/** A request, with the status of its response. */
interface Scenario {
  readonly request: string;
  readonly status: number;
  /** The most that svc may cost, as a multiple of `base`. */
  readonly bound: number;
  /** Default: `bare`. */
  readonly base?: 'bare' | 'fastify';
  /** Other frameworks that send the same body. */
  readonly others?: readonly Peer[];
  /** Whether svc uses only documented parts of Node.js. */
  readonly isDocumented?: boolean;
}

const HOST = 'HTTP/1.1\r\nHost: 127.0.0.1\r\n';
const get = (path: string, fields = ''): string => `GET ${path} ${HOST}${fields}\r\n`;
const JSON_TYPE = 'Content-Type: application/json\r\n';
const post = (path: string, value: object, fields = ''): string => {
  const body = JSON.stringify(value);
  return `POST ${path} ${HOST}${fields}${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`;
};
const USER = { name: 'Ada Lovelace', email: 'ada@example.com', age: 36 };
/** Eight members, one of them an object of three. */
const ACCOUNT = {
  ...USER,
  active: true,
  role: 'admin',
  score: 0.5,
  tags: ['a', 'b', 'c'],
  home: { street: 'Main Street 5', city: 'London', zip: 'N1 9GU' },
};
const INVALID = { ...ACCOUNT, age: -1, home: { ...ACCOUNT.home, city: '' } };
/** Fields of a browser. */
const BROWSER = Object.entries({
  'User-Agent':
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36',
  Accept: 'application/json, text/plain, */*',
  'Accept-Language': 'en-GB,en;q=0.9,de;q=0.8',
  'Accept-Encoding': 'gzip, deflate, br, zstd',
  'Sec-Fetch-Site': 'same-origin',
  'Sec-Fetch-Mode': 'cors',
  'Sec-Fetch-Dest': 'empty',
  Referer: 'http://127.0.0.1/app',
  DNT: '1',
  'Cache-Control': 'no-cache',
  Pragma: 'no-cache',
  Cookie: 'theme=dark; consent=yes',
})
  .map((field) => `${field.join(': ')}\r\n`)
  .join('');
const PEERS = ['fastify', 'hono', 'nest'] as const;
type Peer = (typeof PEERS)[number] | 'koa' | 'sirv';
const GETS = { status: 200, bound: 0.95, others: PEERS } as const;
const POSTS = { status: 201, bound: 1.05, others: ['fastify', 'hono'] } as const;
const ORIGIN = 'Origin: https://app.example\r\n';
const MIDDLEWARE = 'five middleware functions';
const STACK = 'request id, security headers, CORS, rate limit';
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  JSON: { request: get('/json'), ...GETS },
  text: { request: get('/text'), ...GETS },
  'one parameter among 200 routes': { request: get('/api/v1/r100/12345'), ...GETS },
  'two parameters and a query': { request: get('/api/v1/r151/12345/items/77?x=1'), ...GETS },
  'JSON, 13 request fields': { request: get('/json', BROWSER), status: 200, bound: 0.85 },
  'JSON, documented parts of Node.js only': { ...GETS, request: get('/json'), base: 'fastify', bound: 1.1, others: [], isDocumented: true }, // prettier-ignore
  404: { request: get('/nothing/here'), status: 404, bound: 0.95 },
  405: { request: get('/json').replace('GET', 'DELETE'), status: 405, bound: 0.95 },
  [MIDDLEWARE]: { request: get('/mw'), status: 200, bound: 1 },
  [STACK]: { request: get('/json', ORIGIN), status: 200, bound: 1.3 }, // prettier-ignore
  'with a tracer': { request: get('/json'), status: 200, bound: 1.6 },
  'with the access log': { request: get('/json'), status: 200, bound: 1.8 },
  'POST of JSON': { request: post('/users', USER), ...POSTS },
  'POST, validated': { request: post('/accounts', ACCOUNT), ...POSTS },
  'POST, validated, documented parts of Node.js only': { request: post('/accounts', ACCOUNT), ...POSTS, bound: 1.2, isDocumented: true }, // prettier-ignore
  'POST, invalid': { request: post('/accounts', INVALID), ...POSTS, status: 400, bound: 1.1 },
};
const PACKAGES = {
  '@hono/node-server': '^2',
  '@hono/zod-validator': '^0.9',
  '@koa/router': '^15',
  '@nestjs/common': '^12',
  '@nestjs/core': '^12',
  '@nestjs/platform-fastify': '^12',
  fastify: '^5',
  hono: '^4',
  koa: '^3',
  'reflect-metadata': '^0.2',
  rxjs: '^7',
  zod: '^4',
};

/** Maximum cost of a refused request, as a multiple of a successful one. */
const MOST_OF_REFUSAL = 1.1;
const SECRET = 'of this benchmark, and of nothing that is served';
const CLOSE = 'Connection: close\r\n';
type Answered = readonly [request: string, status: number];
/**
 * Requests that are refused. A body that exceeds the limit of the route is not sent: the request ends its
 * connection, and so does the successful request that it is compared with.
 */
const REFUSALS: Readonly<Record<string, Readonly<Record<'success' | 'svc', Answered>>>> = {
  '401 × 200': {
    success: [get('/secured', 'Authorization: Bearer TOKEN\r\n'), 200],
    svc: [get('/secured'), 401],
  },
  '404 × 200': { success: [get('/json'), 200], svc: [get('/nothing/here'), 404] },
  '405 × 200': { success: [get('/json'), 200], svc: [get('/json').replace('GET', 'DELETE'), 405] },
  '400 × 201': { success: [post('/accounts', ACCOUNT), 201], svc: [post('/accounts', INVALID), 400] },
  '413 × 201, a connection each': {
    success: [post('/small', { name: 'Ada Lovelace' }, CLOSE), 201],
    svc: [`POST /small ${HOST}${CLOSE}${JSON_TYPE}Content-Length: 2000\r\n\r\n`, 413],
  },
};
const isFresh = (name: string): boolean => name.startsWith('413');

/** Puts the applications of other frameworks where their packages are. Returns the file. */
export function peersIn(folder: string): string {
  const file = join(folder, 'peers.mjs');
  copyFileSync(join(import.meta.dirname, 'peers.mjs'), file);
  return file;
}

function rows(folder: string | undefined): readonly Row[] {
  const peers = folder && peersIn(folder);
  const row = (name: string, isDocumented?: boolean): Pick<Row, 'name' | 'unit' | 'start'> => ({
    name,
    unit: 'ns',
    start: (side, root) =>
      worker(root, 'http.ts', { scenario: name, side, peers }, { env: isDocumented && side === 'svc' ? { SVC_NODE_INTERNALS: 'off' } : {} }), // prettier-ignore
  });
  return [
    ...Object.entries(SCENARIOS)
      .filter(([, { base }]) => base !== 'fastify' || peers)
      .map(([name, { base = 'bare', bound, others = [], isDocumented }]): Row => ({
        ...row(name, isDocumented),
        ...{ base, bound, others: peers ? others : [] },
      })),
    // With a connection for each request, a major collection may come when no request is alive, and V8 then
    // throws away what it has compiled for their shapes. A process that meets one takes two to four times as
    // long from there on, with bare node:http as well. A server under load meets none.
    ...Object.keys(REFUSALS).map((name): Row => ({
      ...row(name),
      ...{ base: 'success', bound: MOST_OF_REFUSAL },
      ...(isFresh(name) && { isCheapest: true, processes: 2 }),
    })),
  ];
}

export const bench: Bench = { packages: PACKAGES, rows };

async function child(side: string): Promise<void> {
  const server = side === 'bare' ? await bare() : side === 'svc' || side === 'success' ? await svc() : await peer(side as Peer); // prettier-ignore
  if (values.listen !== undefined) return console.log(`READY ${(server.address() as AddressInfo).port}`);
  const refusal = REFUSALS[NAME]?.[side as 'success' | 'svc'];
  const { request, status } = SCENARIOS[NAME] ?? { request: refusal![0], status: refusal![1] };
  return working(
    await injector(server, Buffer.from(await withToken(request)), status, { isFresh: isFresh(NAME) }),
  );
}

async function withToken(request: string): Promise<string> {
  if (!request.includes('TOKEN')) return request;
  // imported only here, because the process of the bare handler must not load it
  const { createToken } = await import('svc');
  return request.replace('TOKEN', createToken('ada', SECRET, { expiresInSeconds: 86_400 }));
}

/** Serves the routes by another framework. */
async function peer(name: Peer): Promise<Server> {
  const makers = (await import(pathToFileURL(values.peers!).href)) as Record<
    Peer,
    (application: { routes: readonly string[]; folder: string | undefined }) => Promise<Server>
  >;
  return makers[name]({
    routes: PATHS.map((path) => path.replace(/\{(\w+)\}/g, ':$1')),
    folder: values.folder,
  });
}

/** The product as a user would write it, from the built package. */
async function svc(): Promise<Server> {
  const all = await import('svc');
  const { Depends, Field, Schema, Svc, float, int, list, literal, reply, str } = all;
  const isRefusal = NAME in REFUSALS;
  const app = new Svc({
    accessLog: NAME === 'with the access log',
    ...(NAME === 'with a tracer' && { tracer: leastTracer() }),
    ...(isRefusal && { authSecret: SECRET }),
  });
  app.get('/json', payload);
  app.get('/text', () => 'Hello, World!');
  if (values.folder !== undefined) app.mountStatic('/', values.folder);
  for (const path of PATHS) app.get(path as '/{id}', ({ params }) => params);
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
  app.post('/accounts', { body: Account, status: 201 }, ({ body: { name, home } }) => ({
    ok: true,
    name,
    city: home.city,
  }));
  if (isRefusal) {
    app.get('/secured', { me: Depends(all.BearerAuth()) }, ({ me }) => ({ id: me.sub }));
    app.post('/small', { maxBodyBytes: 1_000 }, async ({ req }) =>
      reply({ name: ((await req.json()) as { name: string }).name }, 201),
    );
  }
  if (NAME === MIDDLEWARE) {
    const counts = new WeakMap<object, number>();
    for (let layer = 0; layer < 5; layer++)
      app.use(async (req, next) => {
        counts.set(req, (counts.get(req) ?? 0) + 1);
        return await next();
      });
    app.get('/mw', ({ req }) => ({ n: counts.get(req) }));
  }
  if (NAME === STACK)
    app
      .use(new all.SecurityHeadersMiddleware())
      .use(new all.CORSMiddleware({ origins: ['https://app.example'] }))
      .use(new all.RateLimitMiddleware({ perMinute: 1_000_000 }));
  return serverOf(() => app.run({ port: 0, handleSignals: false }));
}

/** The least that a tracer does: an object for each span, which is the active one. */
function leastTracer(): Tracer {
  const store = new AsyncLocalStorage<object>();
  return {
    start: () => ({
      traceId: '1'.repeat(32),
      spanId: '1'.repeat(16),
      isSampled: true,
      state: '',
      run(fn) {
        return store.run(this, fn);
      },
      set: () => undefined,
      fail: () => undefined,
      end: () => undefined,
    }),
    inject: () => ({}),
  };
}

// ── the bare handler ──

type Fields = Readonly<Record<string, string>>;

function send(
  res: ServerResponse,
  status: number,
  type: string,
  body: string,
  extra: Fields = {},
  id: string = randomUUID(),
): void {
  const length = Buffer.byteLength(body);
  res.writeHead(status, { 'Content-Type': type, ...extra, 'X-Request-Id': id, 'Content-Length': length });
  res.end(body);
}

function json(res: ServerResponse, status: number, value: unknown): void {
  send(res, status, 'application/json', JSON.stringify(value));
}

function problem(res: ServerResponse, status: number, title: string, more: object, extra?: Fields): void {
  const id = randomUUID();
  const body = JSON.stringify({ type: 'about:blank', title, status, ...more, request_id: id });
  send(res, status, 'application/problem+json', body, extra, id);
}

type Received = typeof ACCOUNT;

/** Returns every problem of an account, as a careful developer would check it. */
function problemsOf(body: Received): { loc: string[]; code: string; message: string }[] {
  const problems: { loc: string[]; code: string; message: string }[] = [];
  const need = (isGood: boolean, code: string, message: string, ...loc: string[]): void => {
    if (!isGood) problems.push({ loc: ['body', ...loc], code, message });
  };
  const isText = (value: unknown, least: number, most: number): boolean =>
    typeof value === 'string' && value.length >= least && value.length <= most;
  const { name, email, age, active, role, score, tags, home } = body;
  const isEmail = typeof email === 'string' && /^[\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+$/.test(email);
  const isAge = Number.isSafeInteger(age) && age >= 0 && age <= 150;
  const isScore = typeof score === 'number' && score >= 0 && score <= 1;
  const isTags = Array.isArray(tags) && tags.length <= 10 && tags.every((tag) => isText(tag, 0, 20));
  need(isText(name, 1, 50), 'length', 'must have 1 to 50 characters', 'name');
  need(isEmail, 'email', 'must be an e-mail address', 'email');
  need(isAge, 'range', 'must be 0 to 150', 'age');
  need(typeof active === 'boolean', 'type', 'must be true or false', 'active');
  const isRole = role === 'admin' || role === 'user' || role === 'guest';
  need(isRole, 'enum', 'must be one of admin, user, guest', 'role');
  need(isScore, 'range', 'must be 0 to 1', 'score');
  need(isTags, 'tags', 'must be at most 10 short texts', 'tags');
  if (typeof home !== 'object' || home === null) need(false, 'type', 'must be an object', 'home');
  else {
    need(isText(home.street, 1, Infinity), 'length', 'must have at least 1 character', 'home', 'street');
    need(isText(home.city, 1, Infinity), 'length', 'must have at least 1 character', 'home', 'city');
    need(isText(home.zip, 3, 10), 'length', 'must have 3 to 10 characters', 'home', 'zip');
  }
  return problems;
}

function received(req: IncomingMessage, res: ServerResponse, answer: (body: unknown) => void): void {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    try {
      answer(JSON.parse(Buffer.concat(chunks).toString()));
    } catch {
      problem(res, 400, 'Bad Request', { detail: 'The request body is not valid JSON' });
    }
  });
}

/** Fields of the layers of the scenario {@link STACK}. */
const STACK_FIELDS = {
  'RateLimit-Policy': '"default";q=1000000;w=60',
  RateLimit: '"default";r=999999;t=1',
  'Access-Control-Allow-Origin': 'https://app.example',
  Vary: 'Origin',
  'Content-Security-Policy':
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'strict-origin-when-cross-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};
const STACK_LIST: readonly string[] = Object.entries(STACK_FIELDS).flat();

/**
 * Hand-written server without a framework, with the same bytes. It listens, like every server: otherwise
 * node:http keeps no list of its connections.
 */
async function bare(): Promise<Server> {
  const byName = new Map(PATHS.map((_, index) => [`r${index}`, index % 2 === 0 ? 1 : 2]));
  const counts = new WeakMap<object, number>();
  const layers = Array.from({ length: 5 }, () => async (req: IncomingMessage, next: () => Promise<void>) => {
    counts.set(req, (counts.get(req) ?? 0) + 1);
    await next();
  });
  const run = (req: IncomingMessage, at: number, last: () => Promise<void>): Promise<void> =>
    at === layers.length ? last() : layers[at]!(req, () => run(req, at + 1, last));
  const isStack = NAME === STACK;
  const server = createServer((req, res) => {
    const url = req.url!;
    const question = url.indexOf('?');
    const path = question < 0 ? url : url.slice(0, question);
    if (req.method === 'GET') {
      if (path === '/json' && isStack) {
        const body = JSON.stringify(payload());
        const own = ['X-Request-Id', randomUUID(), 'Content-Length', String(body.length)];
        res.writeHead(200, ['Content-Type', 'application/json', ...STACK_LIST, ...own]);
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
    } else if (req.method === 'POST' && path === '/users')
      return received(req, res, (body) => json(res, 201, { ok: true, name: (body as Received).name }));
    else if (req.method === 'POST' && path === '/accounts')
      return received(req, res, (body) => {
        if (typeof body !== 'object' || body === null)
          return problem(res, 400, 'Bad Request', { detail: 'The body must be an object' });
        const errors = problemsOf(body as Received); // a check that the plain parser does not make
        if (errors.length > 0)
          return problem(res, 400, 'Bad Request', {
            detail: `The input has ${errors.length} problems`,
            errors,
          });
        const { name, home } = body as Received;
        json(res, 201, { ok: true, name, city: home.city });
      });
    const allow = 'GET, HEAD, OPTIONS';
    if (path !== '/json') problem(res, 404, 'Not Found', {});
    else
      problem(
        res,
        405,
        'Method Not Allowed',
        { detail: `This path only allows the methods ${allow}` },
        { Allow: allow },
      );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

if (import.meta.main) await child(values.side!);
