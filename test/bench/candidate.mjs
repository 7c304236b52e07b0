/**
 * The built package as a candidate for a harness that compares frameworks and their parts. Each export
 * implements one contract of the harness, as a user of the package would, without settings made only for a
 * measurement.
 *
 *   CANDIDATE=$PWD/test/bench/candidate.mjs sh run.sh http-inject          in the folder of the harness; see its README
 *
 * Applications use only public names. Parts without a public name (routing table, codecs, metrics) are
 * imported from `dist`.
 *
 * The harness requires JavaScript: to strip the types of TypeScript, Node.js loads a compiler. That takes 26
 * MiB, and more time than the program whose start is measured.
 */
import { fileURLToPath } from 'node:url';
import {
  EventBroadcast,
  Field,
  MemoryCache,
  Schema,
  Svc,
  createLogger,
  createToken,
  float,
  int,
  list,
  literal,
  stateKey,
  str,
  verifyToken,
} from 'svc';

export const name = 'svc';
/** Folder whose files the harness counts. */
export const packageDir = fileURLToPath(new URL('../..', import.meta.url));

/** Imports a module of the build. */
async function built(file) {
  return await import(new URL(`../../dist/${file}.js`, import.meta.url).href);
}

/** Number of middleware layers that a request has passed. */
const layers = stateKey('layers');
// `:name` becomes `{name}`
const braced = (path) => path.replace(/:(\w+)/g, '{$1}');
const run = async (app) => app.run({ port: 0, handleSignals: false });

class Address extends Schema {
  static extra = 'forbid';
  street = Field(str, { minLength: 1 });
  city = Field(str, { minLength: 1 });
  zip = Field(str, { minLength: 3, maxLength: 10 });
}
class Account extends Schema {
  static extra = 'forbid';
  name = Field(str, { minLength: 1, maxLength: 50 });
  email = Field(str, { email: true });
  age = Field(int, { ge: 0, le: 150 });
  tags = Field(list(str), { maxLength: 10 });
  address = Field(Address);
}

/** Returns the application of `http`, `http-inject`, `growth` and `profile`. */
export async function http(spec) {
  const app = new Svc();
  app.get('/json', () => spec.payload());
  app.get('/text', () => 'Hello, World!');
  const use = Array.from({ length: spec.depth }, (_, index) => async ({ state }, next) => {
    if (index === 0) state.set(layers, { count: 0 });
    state.get(layers).count++;
    return await next();
  });
  app.get('/mw', { use }, ({ req }) => ({ n: spec.depth === 0 ? 0 : req.state.get(layers).count }));
  for (const { path } of spec.routes) app.get(braced(path), ({ params }) => params);
  app.post('/users', { body: Account, status: 201 }, ({ body }) => ({ ok: true, name: body.name }));
  return run(app);
}

/** Returns an application with three routes, to measure start-up and idle memory. */
export async function small() {
  const app = new Svc();
  app.get('/', () => ({ ok: true }));
  app.get('/a', () => ({ ok: true }));
  app.get('/u/{id}', ({ params }) => params);
  return run(app);
}

/** Returns the routing table. Parameters are read as routes read them. */
export async function router(routes) {
  const [{ RoutingTable }, { parseTemplate }, { paramsReader }] = await Promise.all([
    built('http/router'),
    built('http/path'),
    built('http/path'),
  ]);
  const table = new RoutingTable();
  for (const [method, path] of routes) {
    const template = parseTemplate(braced(path));
    table.add(method, template, paramsReader(template.parameters));
  }
  table.freeze();
  return {
    find(method, path) {
      const match = table.match(method, path);
      if (match.kind === 'found')
        return { status: 200, h: match.endpoint, p: match.endpoint(match.captures) };
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

/**
 * Returns validators for `user8` and `nested`, by classes with the rules of the harness. The harness needs
 * only a verdict, whereas `parse()` would also create instances.
 */
export function validator() {
  return { ok: (type, value) => (type === 'user8' ? User8.accepts(value) : Order.accepts(value)) };
}

/**
 * Signs and verifies HS256 tokens. The harness gives the claims, and the package adds those that it always
 * sets.
 */
export function jwt({ secret }) {
  return {
    sign: ({ sub, jti, scopes, roles }) => createToken(sub, secret, { claims: { scopes, roles }, id: jti }),
    verify: (token) => verifyToken(token, secret),
  };
}

export async function cookies() {
  const { parseCookies, serializeCookie } = await built('http/cookies');
  return {
    parse: parseCookies,
    serialize: (cookie, value, { path, httpOnly, secure, sameSite, maxAge }) =>
      serializeCookie(cookie, value, { path, httpOnly, secure, sameSite, maxAgeSeconds: maxAge }),
  };
}

export function cache({ max, ttlMs }) {
  const entries = new MemoryCache({ maxEntries: max });
  return { get: (key) => entries.get(key), set: (key, value) => entries.set(key, value, ttlMs) };
}

export async function metrics() {
  const { createMetrics } = await built('observability/metrics');
  const registry = createMetrics({ log: createLogger({ level: 'silent' }) });
  const requests = registry.counter('svc_requests_total', 'h', ['method', 'status']);
  const seconds = registry.histogram('svc_d', 'h', [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]);
  const texts = Array.from({ length: 600 }, (_, status) => String(status));
  return {
    inc: (method, status) => requests.add(1, method, texts[status]),
    observe: (value) => seconds.observe(value),
    text: () => registry.render(),
  };
}

let multipartParts;

/** Loads the parser at start-up, because the import is not part of reading a body. */
async function loadMultipart() {
  const { MultipartParser } = await built('http/request/multipart');
  const { boundaryOf, readFormOptions } = await built('http/request/form');
  return { MultipartParser, boundaryOf, limits: readFormOptions('bench', {}, '') };
}

/** Returns the multipart codec: every field as text, and every byte of a file. */
export async function multipart(contentType) {
  const { MultipartParser, boundaryOf, limits } = await (multipartParts ??= loadMultipart());
  const counts = { fields: 0, files: 0, bytes: 0 };
  let isFile = false;
  const parser = new MultipartParser(
    boundaryOf(contentType),
    {
      onPart: ({ filename }) => {
        isFile = filename !== undefined;
        counts[isFile ? 'files' : 'fields']++;
      },
      onData: (bytes, start, end) => {
        if (isFile) counts.bytes += bytes.subarray(start, end).length;
        else bytes.toString('utf8', start, end);
      },
      onPartEnd: () => undefined,
    },
    limits,
  );
  return {
    write: (chunk) => parser.push(chunk),
    end() {
      if (parser.end() !== undefined) throw new Error('The body was refused');
      return counts;
    },
  };
}

/** Serves a WebSocket that echoes every message. Its clients are programs, which send no `Origin`. */
export async function websocket() {
  const app = new Svc();
  app
    .websocket('/', { allowMissingOrigin: true })
    .onOpen((socket) => socket.join('all'))
    .onMessage((socket, message) => socket.send(message));
  const { port } = await run(app);
  return { port, broadcast: (data) => void app.rooms.broadcast('all', data) };
}

/** Serves `GET /events`, and sends each text of the harness to all clients. */
export async function sse() {
  const app = new Svc();
  const events = new EventBroadcast();
  app.get('/events', () => events.stream());
  const { port } = await run(app);
  return { port, broadcast: (data) => void events.send(data) };
}

export async function staticFiles(folder) {
  return run(new Svc().mountStatic('/', folder));
}

/**
 * Returns the synchronous part of the driver, because only that can be compared: acquire, statement, release,
 * with every check of values and text. Each statement is timed for the log and counted, as in the plugin.
 */
export async function sqlite() {
  const { prepareDatabase } = await built('db/open');
  const { createMetrics } = await built('observability/metrics');
  const { DatabaseMetrics } = await built('db/plugin');
  const log = createLogger({ level: 'warn' });
  const { statements } = DatabaseMetrics.of(createMetrics({ log }));
  const { driver } = await prepareDatabase(
    'sqlite::memory:',
    { log },
    { name: 'database', onStatement: (seconds) => statements.observe(seconds, 'database') },
  ).open();
  let held;
  // acquire() is synchronous here, because there is no other user
  const lent = () => held ?? driver.acquire('statement', undefined);
  const done = (connection, result) => {
    if (connection !== held) driver.release(connection);
    return result;
  };
  const execute = (sql, row) => {
    const connection = lent();
    return done(connection, connection.execute(sql, row, undefined));
  };
  return {
    exec(sql) {
      if (sql === 'begin') {
        held = driver.acquire('transaction', undefined);
        held.begin({ isolation: undefined, isReadOnly: false }, undefined);
      } else if (sql === 'commit' || sql === 'rollback') {
        held[sql]();
        driver.release(held);
        held = undefined;
      } else execute(sql, []);
    },
    prepare: (sql) => ({
      get(...row) {
        const connection = lent();
        return done(connection, connection.fetchOne(sql, row, undefined));
      },
      all(...row) {
        const connection = lent();
        return done(connection, connection.fetchAll(sql, row, undefined));
      },
      run: (...row) => execute(sql, row),
    }),
  };
}
