/**
 * The built package for a harness that measures frameworks and parts side by side: each export is one contract of it, filled
 * as a user of the package would, without a setting that only a measurement makes.
 *
 *   CANDIDATE=$PWD/test/bench/candidate.ts sh run.sh http-inject          in the folder of the harness; see its README
 *
 * Applications are made from public names alone. Parts that have no public name (routing table, codecs, metrics) are imported
 * from `.build`.
 */
import { fileURLToPath } from 'node:url';
import { EventBroadcast, Field, MemoryCache, Schema, Svc, createLogger, createToken, float, int, list, literal, stateKey, str, verifyToken } from 'svc';
import type { HttpRequest, Next } from 'svc';
import type { Connection } from '../../src/db/driver.ts';
import type { Parameter } from '../../src/db/values.ts';
import type { ParamsReader } from '../../src/http/path-params.ts';

export const name = 'svc';
/** Whose files are counted. */
export const packageDir: string = fileURLToPath(new URL('../..', import.meta.url));

/** A module of the build, typed as its source. */
async function built<T>(file: string): Promise<T> {
  return await import(new URL(`../../.build/${file}.js`, import.meta.url).href) as T; // the compiler made it of that source
}

interface Listening { readonly port: number }
/** What the applications of the harness are to have. */
interface Spec {
  readonly depth: number;
  readonly routes: readonly { readonly path: string; readonly params: readonly string[] }[];
  payload(): object;
}
/** How many layers a request has come through. */
const layers = stateKey<{ count: number }>('layers');
const braced = (path: string): '/' => path.replace(/:(\w+)/g, '{$1}') as '/'; // any text: the templates are made at run time
const run = async (app: Svc): Promise<Listening> => app.run({ port: 0, handleSignals: false });

class Address extends Schema {
  static extra = 'forbid' as const;
  street = Field(str, { minLength: 1 });
  city = Field(str, { minLength: 1 });
  zip = Field(str, { minLength: 3, maxLength: 10 });
}
class Account extends Schema {
  static extra = 'forbid' as const;
  name = Field(str, { minLength: 1, maxLength: 50 });
  email = Field(str, { email: true });
  age = Field(int, { ge: 0, le: 150 });
  tags = Field(list(str), { maxLength: 10 });
  address = Field(Address);
}

/** The application of `http`, `http-inject`, `growth` and `profile`. */
export async function http(spec: Spec): Promise<Listening> {
  const app = new Svc();
  app.get('/json', () => spec.payload());
  app.get('/text', () => 'Hello, World!');
  const use = Array.from({ length: spec.depth }, (_, index) => async ({ state }: HttpRequest, next: Next) => {
    if (index === 0) state.set(layers, { count: 0 });
    state.get(layers).count++;
    return await next();
  });
  app.get('/mw', { use }, ({ req }) => ({ n: spec.depth === 0 ? 0 : req.state.get(layers).count }));
  for (const { path } of spec.routes) app.get(braced(path), ({ params }) => params);
  app.post('/users', { body: Account, status: 201 }, ({ body }) => ({ ok: true, name: body.name }));
  return run(app);
}

/** Three routes: start-up and idle memory. */
export async function small(): Promise<Listening> {
  const app = new Svc();
  app.get('/', () => ({ ok: true }));
  app.get('/a', () => ({ ok: true }));
  app.get('/u/{id}', ({ params }) => params);
  return run(app);
}

interface Found { readonly status: 200 | 404 | 405; readonly h?: unknown; readonly p?: object }

/** The routing table, with parameters read as routes read them. */
export async function router(routes: readonly (readonly [method: string, path: string])[]): Promise<{ find(method: string, path: string): Found }> {
  const [{ RoutingTable }, { parseTemplate }, { paramsReader }] = await Promise.all([
    built<typeof import('../../src/http/router.ts')>('http/router'),
    built<typeof import('../../src/http/path.ts')>('http/path'),
    built<typeof import('../../src/http/path-params.ts')>('http/path-params'),
  ]);
  const table = new RoutingTable<ParamsReader>();
  for (const [method, path] of routes) {
    const template = parseTemplate(braced(path));
    table.add(method, template, paramsReader(template.parameters));
  }
  table.freeze();
  return {
    find(method, path) {
      const match = table.match(method, path);
      if (match.kind === 'found') return { status: 200, h: match.endpoint, p: match.endpoint(match.captures) };
      return { status: match.kind === 'wrong-method' ? 405 : 404 };
    },
  };
}

class User8 extends Schema {
  name = Field(str, { minLength: 1, maxLength: 50 });
  email = Field(str, { email: true });
  age = Field(int, { ge: 0, le: 150 });
  score = Field(float, { ge: 0, le: 1 });
  active = Field(Boolean);
  role = Field(literal('admin', 'user', 'guest'));
  tags = Field(list(str, { maxLength: 20 }), { maxLength: 10 });
  bio = Field(str, { maxLength: 200, optional: true });
}
class Place extends Schema {
  street = Field(str, { minLength: 1 });
  city = Field(str, { minLength: 1 });
  zip = Field(str, { minLength: 3, maxLength: 10 });
}
class Line extends Schema {
  sku = Field(str, { minLength: 1, maxLength: 20 });
  qty = Field(int, { ge: 1, le: 1_000 });
  price = Field(float, { ge: 0 });
}
class Order extends Schema {
  user = Field(User8);
  address = Field(Place);
  lines = Field(list(Line), { maxLength: 50 });
}

/** `user8` and `nested` by classes with the rules of the harness, which wants a verdict: `parse()` would make instances as well. */
export function validator(): { ok(name: string, value: unknown): boolean } {
  return { ok: (type, value) => (type === 'user8' ? User8.accepts(value) : Order.accepts(value)) };
}

/** HS256 tokens. The harness brings every claim itself; what the package sets on its own, it sets here too. */
export function jwt({ secret }: { readonly secret: string }): { sign(claims: Record<string, unknown>): string; verify(token: string): unknown } {
  return {
    sign: ({ sub, jti, scopes, roles }) => createToken(sub as string, secret, { claims: { scopes, roles }, id: jti as string }),
    verify: (token) => verifyToken(token, secret),
  };
}

interface HarnessCookie { readonly path: string; readonly httpOnly: boolean; readonly secure: boolean; readonly sameSite: 'lax' | 'strict' | 'none'; readonly maxAge: number }

export async function cookies(): Promise<object> {
  const { parseCookies, serializeCookie } = await built<typeof import('../../src/http/cookies.ts')>('http/cookies');
  return {
    parse: parseCookies,
    serialize: (cookie: string, value: string, { path, httpOnly, secure, sameSite, maxAge }: HarnessCookie) => serializeCookie(cookie, value, { path, httpOnly, secure, sameSite, maxAgeSeconds: maxAge }),
  };
}

export function cache({ max, ttlMs }: { readonly max: number; readonly ttlMs: number }): object {
  const entries = new MemoryCache({ maxEntries: max });
  return { get: (key: string) => entries.get(key), set: (key: string, value: unknown) => entries.set(key, value, ttlMs) };
}

export async function metrics(): Promise<object> {
  const { createMetrics } = await built<typeof import('../../src/metrics.ts')>('metrics');
  const registry = createMetrics({ log: createLogger({ level: 'silent' }) });
  const requests = registry.counter('svc_requests_total', 'h', ['method', 'status']);
  const seconds = registry.histogram('svc_d', 'h', [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]);
  const texts = new Map([200, 201, 404, 500].map((status) => [status, String(status)]));
  return { inc: (method: string, status: number) => requests.add(1, method, texts.get(status)!), observe: (value: number) => seconds.observe(value), text: () => registry.render() };
}

let multipartParts: ReturnType<typeof loadMultipart> | undefined;

/** What an application has from its start: importing is no part of reading a body. */
async function loadMultipart() { // what it answers is what the modules export
  const { MultipartParser, boundaryOf } = await built<typeof import('../../src/http/multipart.ts')>('http/multipart');
  const { readFormOptions } = await built<typeof import('../../src/http/form.ts')>('http/form');
  return { MultipartParser, boundaryOf, limits: readFormOptions('bench', {}, '') };
}

/** The codec: every field as text, every byte of a file handed on. */
export async function multipart(contentType: string): Promise<object> {
  const { MultipartParser, boundaryOf, limits } = await (multipartParts ??= loadMultipart());
  const counts = { fields: 0, files: 0, bytes: 0 };
  let isFile = false;
  const parser = new MultipartParser(boundaryOf(contentType)!, {
    onPart: ({ filename }) => {
      isFile = filename !== undefined;
      counts[isFile ? 'files' : 'fields']++;
    },
    onData: (bytes, start, end) => { if (isFile) counts.bytes += bytes.subarray(start, end).length; else bytes.toString('utf8', start, end); },
    onPartEnd: () => undefined,
  }, limits);
  return {
    write: (chunk: Buffer) => parser.push(chunk),
    end() {
      if (parser.end() !== undefined) throw new Error('The body was refused');
      return counts;
    },
  };
}

/** An echo of every message; its clients are programs, which send no `Origin`. */
export async function websocket(): Promise<Listening & { broadcast(data: Uint8Array): void }> {
  const app = new Svc();
  app.websocket('/', { allowMissingOrigin: true })
    .onOpen((socket) => socket.join('all'))
    .onMessage((socket, message) => socket.send(message));
  const { port } = await run(app);
  return { port, broadcast: (data) => void app.rooms.broadcast('all', data) };
}

/** `GET /events`, and each text of the harness to all who listen. */
export async function sse(): Promise<Listening & { broadcast(data: string): void }> {
  const app = new Svc();
  const events = new EventBroadcast();
  app.get('/events', () => events.stream());
  const { port } = await run(app);
  return { port, broadcast: (data) => void events.send(data) };
}

export async function staticFiles(folder: string): Promise<Listening> {
  return run(new Svc().mountStatic('/', folder));
}

/**
 * The driver's synchronous part, which is all that can be compared: acquire, statement, release, with every check of values and
 * text; each statement is timed for the log and counted, as the plugin has it.
 */
export async function sqlite(): Promise<object> {
  const { prepareDatabase } = await built<typeof import('../../src/db/open.ts')>('db/open');
  const { createMetrics } = await built<typeof import('../../src/metrics.ts')>('metrics');
  const { DatabaseMetrics } = await built<typeof import('../../src/db/database-metrics.ts')>('db/database-metrics');
  const log = createLogger({ level: 'warn' });
  const { statements } = DatabaseMetrics.of(createMetrics({ log }));
  const { driver } = prepareDatabase('sqlite::memory:', { log }, { name: 'database', onStatement: (seconds) => statements.observe(seconds, 'database') });
  await driver.open();
  let held: Connection | undefined;
  const lent = (): Connection => held ?? driver.acquire('statement', undefined) as Connection; // at once: nobody else has it
  const done = <T>(connection: Connection, result: T): T => {
    if (connection !== held) driver.release(connection);
    return result;
  };
  const execute = (sql: string, row: readonly Parameter[]): unknown => {
    const connection = lent();
    return done(connection, connection.execute(sql, row, undefined));
  };
  return {
    exec(sql: string) {
      if (sql === 'begin') {
        held = driver.acquire('transaction', undefined) as Connection;
        held.begin({ isolation: undefined, isReadOnly: false }, undefined);
      } else if (sql === 'commit' || sql === 'rollback') {
        held![sql]();
        driver.release(held!);
        held = undefined;
      } else execute(sql, []);
    },
    prepare: (sql: string) => ({
      get(...row: Parameter[]) {
        const connection = lent();
        return done(connection, connection.fetchOne(sql, row, undefined));
      },
      all(...row: Parameter[]) {
        const connection = lent();
        return done(connection, connection.fetchAll(sql, row, undefined));
      },
      run: (...row: Parameter[]) => execute(sql, row),
    }),
  };
}
