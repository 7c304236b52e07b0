/**
 * Parts of the framework beside the package that people use for the same purpose: time of one call, as a
 * multiple of the package's. The svc side is candidate.mjs.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import * as candidate from './candidate.mjs';
import { argumentsOf, worker, working } from './harness.ts';

const values = argumentsOf('part', 'side', 'operation', 'peers');

const text = (minLength, maxLength) => ({ type: 'string', minLength, maxLength });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const USER_FIELDS = {
  name: text(1, 50),
  email: { type: 'string', format: 'email' },
  age: { type: 'integer', minimum: 0, maximum: 150 },
  score: { type: 'number', minimum: 0, maximum: 1 },
  active: { type: 'boolean' },
  role: { enum: ['admin', 'user', 'guest'] },
  tags: { type: 'array', maxItems: 10, items: { type: 'string', maxLength: 20 } },
  bio: { type: 'string', maxLength: 200 },
};
const USER = object(
  USER_FIELDS,
  Object.keys(USER_FIELDS).filter((name) => name !== 'bio'),
);
const LINE = object({
  sku: text(1, 20),
  qty: { type: 'integer', minimum: 1, maximum: 1_000 },
  price: { type: 'number', minimum: 0 },
});
const ORDER = object({
  user: USER,
  address: object({ street: text(1), city: text(1), zip: text(3, 10) }),
  lines: { type: 'array', maxItems: 50, items: LINE },
});
/** Returns sixteen inputs, as JSON.parse() makes them. */
const inputs = (make) => JSON.parse(JSON.stringify(Array.from({ length: 16 }, (_, index) => make(index))));
const user = (index) => ({
  name: 'Ada Lovelace',
  email: `ada${index}@example.com`,
  age: 36,
  score: 0.5,
  active: true,
  role: 'admin',
  tags: ['math', 'engine'],
  bio: 'Analyst',
});
const users = inputs(user);
const invalid = inputs((index) => ({ ...user(index), bio: 'x'.repeat(201) }));
const orders = inputs((index) => ({
  user: user(index),
  address: { street: '1 Main', city: 'Paris', zip: '75001' },
  lines: Array.from({ length: 5 }, (_, line) => ({ sku: `S${line}`, qty: line + 1, price: 9.5 })),
}));

const BOUNDARY = 'b0123456789';
function multipartBody(parts) {
  const chunks = parts.flatMap(({ name, filename, content }) => [
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${filename ? `; filename="${filename}"\r\nContent-Type: application/octet-stream` : ''}\r\n\r\n`,
    content,
    '\r\n',
  ]);
  const whole = Buffer.concat([...chunks, `--${BOUNDARY}--\r\n`].map((chunk) => Buffer.from(chunk)));
  return Array.from({ length: Math.ceil(whole.length / 65_536) }, (_, index) =>
    whole.subarray(index * 65_536, (index + 1) * 65_536),
  );
}

/** Methods that find-my-way must search to tell a wrong method from an unknown path. */
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Returns the part of a routing table with four times `count` routes. */
function router(count, bounds) {
  const routes = Array.from({ length: count }, (_, index) => [
    ['GET', `/api/v1/s${index}/list`],
    ['GET', `/api/v1/u${index}/:id`],
    ['POST', `/api/v1/u${index}/:id`],
    ['GET', `/api/v1/d${index}/:a/x/:b/y/:c`],
  ]).flat();
  const build = () => candidate.router(routes);
  return {
    packages: { 'find-my-way': '^9' },
    bounds,
    svc: async () => ({ ...(await build()), build }),
    peer: (load) => {
      const make = () => {
        const table = load('find-my-way')();
        for (const [method, path] of routes) table.on(method, path, () => undefined);
        const hasOther = (method, path) =>
          METHODS.some((other) => other !== method && table.find(other, path));
        return { find: (method, path) => table.find(method, path) ?? hasOther(method, path) };
      };
      return { ...make(), build: make };
    },
    operations({ find, build }) {
      const lookUp = (make, method = 'GET') => {
        const targets = inputs(make);
        return (index) => find(method, targets[index % 16]);
      };
      return {
        static: lookUp((index) => `/api/v1/s${index}/list`),
        'one parameter': lookUp((index) => `/api/v1/u${index}/${index}0`),
        'three parameters': lookUp((index) => `/api/v1/d${index}/${index}/x/7/y/9`),
        'wrong method': lookUp((index) => `/api/v1/u${index}/${index}0`, 'PUT'),
        'no such route': lookUp((index) => `/api/v1/none${index}`),
        build,
      };
    },
  };
}

/**
 * Each part: the packages, their adapter with the contract of candidate.mjs, and the operations of either
 * side. An operation takes the number of the call, so that inputs differ. `bounds`: highest costs of svc.
 */
const PARTS = {
  router: router(50, [0.3, 1, 1, 0.7, 0.3, 0.3]),
  'router of 5,000 routes': router(1_250, [0.3, 1, 1, 0.7, 0.3, 0.3]),
  validation: {
    packages: { ajv: '^8', 'ajv-formats': '^3' },
    bounds: [1.5, 2.7, 0.55],
    svc: () => candidate.validator(),
    peer: (load) => {
      const Ajv = load('ajv').default;
      const ajv = new Ajv();
      load('ajv-formats')(ajv);
      const [user8, nested] = [ajv.compile(USER), ajv.compile(ORDER)];
      return { ok: (type, value) => (type === 'user8' ? user8(value) : nested(value)) };
    },
    operations: ({ ok }) => ({
      '8 fields': (index) => assert.ok(ok('user8', users[index % 16])),
      nested: (index) => assert.ok(ok('nested', orders[index % 16])),
      'one invalid field': (index) => assert.ok(!ok('user8', invalid[index % 16])),
    }),
  },
  'validation without generated code': {
    node: ['--disallow-code-generation-from-strings'],
    packages: { zod: '^4' },
    bounds: [0.15, 0.15],
    svc: () => candidate.validator(),
    peer: (load) => {
      const { z } = load('zod');
      z.config({ jitless: true });
      const User = z.object({
        name: z.string().min(1).max(50),
        email: z.email(),
        age: z.int().min(0).max(150),
        score: z.number().min(0).max(1),
        active: z.boolean(),
        role: z.enum(['admin', 'user', 'guest']),
        tags: z.array(z.string().max(20)).max(10),
        bio: z.string().max(200).optional(),
      });
      const Address = z.object({
        street: z.string().min(1),
        city: z.string().min(1),
        zip: z.string().min(3).max(10),
      });
      const Line = z.object({
        sku: z.string().min(1).max(20),
        qty: z.int().min(1).max(1_000),
        price: z.number().min(0),
      });
      const Order = z.object({ user: User, address: Address, lines: z.array(Line).max(50) });
      return { ok: (type, value) => (type === 'user8' ? User : Order).safeParse(value).success };
    },
    operations: ({ ok }) => ({
      '8 fields': (index) => assert.ok(ok('user8', users[index % 16])),
      nested: (index) => assert.ok(ok('nested', orders[index % 16])),
    }),
  },
  'HS256 tokens': {
    packages: { 'fast-jwt': '^6' },
    bounds: [0.75, 0.8, 0.35],
    svc: () => candidate.jwt({ secret: SECRET }),
    peer: (load) => {
      const { createSigner, createVerifier } = load('fast-jwt');
      const sign = createSigner({ key: SECRET, expiresIn: 900_000 });
      return { sign, verify: createVerifier({ key: SECRET, algorithms: ['HS256'] }) };
    },
    operations: ({ sign, verify }) => {
      const lists = { scopes: ['read', 'write'], roles: ['user'] };
      const claims = (index) => ({ sub: `u${index}`, jti: `j${index}`, ...lists });
      const tokens = inputs((index) => sign(claims(index)));
      const forged = tokens.map((token) => `${token.slice(0, -4)}AAAA`);
      return {
        sign: (index) => sign(claims(index)),
        verify: (index) => verify(tokens[index % 16]),
        'refuse a forged one': (index) => assert.throws(() => verify(forged[index % 16])),
      };
    },
  },
  SQLite: {
    packages: {},
    bounds: [1.1, 1.6],
    svc: () => candidate.sqlite(),
    peer: () => new DatabaseSync(':memory:'),
    operations: (db) => {
      db.exec('create table item (id integer primary key, name text, score real)');
      const insert = db.prepare('insert into item (name, score) values (?, ?)');
      for (let index = 0; index < 1_000; index++) insert.run(`name ${index}`, index / 7);
      const one = db.prepare('select * from item where id = ?');
      return {
        'a row by its id': (index) => one.get((index % 1_000) + 1),
        'begin, ten inserts, rollback': () => {
          db.exec('begin');
          for (let index = 0; index < 10; index++) insert.run('name', index);
          db.exec('rollback');
        },
      };
    },
  },
  cookies: {
    packages: { cookie: '^1' },
    bounds: [1.1, 1.1, 0.6],
    svc: () => candidate.cookies(),
    peer: (load) => {
      const { parseCookie, stringifySetCookie } = load('cookie');
      return {
        parse: parseCookie,
        serialize: (name, value, options) => stringifySetCookie({ name, value, ...options }),
      };
    },
    operations: ({ parse, serialize }) => {
      const header = (count, index) =>
        Array.from({ length: count }, (_, at) => `name${at}=value-${index}-${at}`).join('; ');
      const [one, many] = [1, 13].map((count) => inputs((index) => header(count, index)));
      const options = { path: '/', httpOnly: true, secure: true, sameSite: 'lax', maxAge: 3_600 };
      return {
        'read one': (index) => parse(one[index % 16]),
        'read 13': (index) => parse(many[index % 16]),
        write: (index) => serialize('sid', `v${index}`, options),
      };
    },
  },
  'memory cache': {
    packages: { 'lru-cache': '^11' },
    bounds: [0.8, 0.5, 1, 1.5],
    svc: () => candidate.cache({ max: 10_000, ttlMs: 60_000 }),
    peer: (load) => new (load('lru-cache').LRUCache)({ max: 10_000, ttl: 60_000 }),
    operations: (cache) => {
      const keys = Array.from({ length: 40_000 }, (_, index) => `key:${index}`);
      for (let index = 0; index < 10_000; index++) cache.set(keys[index], `value ${index}`);
      return {
        get: (index) => cache.get(keys[index % 10_000]),
        set: (index) => cache.set(keys[index % 10_000], index),
        'get, three of four missing': (index) => cache.get(keys[(index * 7) % 40_000]),
        'set with eviction': (index) => cache.set(keys[index % 40_000], index),
      };
    },
  },
  metrics: {
    packages: { 'prom-client': '^15' },
    bounds: [0.15, 0.15],
    svc: () => candidate.metrics(),
    peer: (load) => {
      const { Counter, Histogram } = load('prom-client');
      const counter = new Counter({ name: 'r', help: 'h', labelNames: ['method', 'status'] });
      const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
      const histogram = new Histogram({ name: 'd', help: 'h', buckets });
      return {
        inc: (method, status) => counter.inc({ method, status }),
        observe: (value) => histogram.observe(value),
      };
    },
    operations: ({ inc, observe }) => ({
      count: (index) => inc('GET', index % 8 === 0 ? 404 : 200),
      observe: (index) => observe((index % 100) / 100),
    }),
  },
  multipart: {
    packages: { busboy: '^1' },
    bounds: [0.55, 0.6, 0.3, 1],
    svc: () => ({ multipart: candidate.multipart }),
    peer: (load) => {
      const busboy = load('busboy');
      return {
        multipart: (contentType) => {
          const counts = { fields: 0, files: 0, bytes: 0 };
          const parser = busboy({ headers: { 'content-type': contentType } });
          parser.on('field', () => counts.fields++);
          parser.on('file', (_name, stream) => {
            counts.files++;
            stream.on('data', (chunk) => (counts.bytes += chunk.length));
          });
          return {
            write: (chunk) => parser.write(chunk),
            end: () => new Promise((resolve) => parser.on('close', () => resolve(counts)).end()),
          };
        },
      };
    },
    operations: ({ multipart }) => {
      const field = (index) => ({ name: `field${index}`, content: `value ${index}` });
      const file = (bytes) => (index) => ({
        name: `f${index}`,
        filename: `f${index}.bin`,
        content: Buffer.alloc(bytes, 'x'),
      });
      const parse = async (body, expected) => {
        const parser = await multipart(`multipart/form-data; boundary=${BOUNDARY}`);
        for (const chunk of body) parser.write(chunk);
        assert.deepEqual(await parser.end(), expected);
      };
      const operation = (count, make, expected) => {
        const body = multipartBody(Array.from({ length: count }, (_, index) => make(index)));
        return () => parse(body, expected);
      };
      return {
        'a file of 8 MiB': operation(1, file(8_388_608), { fields: 0, files: 1, bytes: 8_388_608 }),
        '200 fields': operation(200, field, { fields: 200, files: 0, bytes: 0 }),
        '20 files of 1 KiB': operation(20, file(1_024), { fields: 0, files: 20, bytes: 20_480 }),
        'a file of line breaks': operation(1, () => ({ ...file(0)(0), content: Buffer.alloc(3_145_728, '\r\n-') }), { fields: 0, files: 1, bytes: 3_145_728 }), // prettier-ignore
      };
    },
  },
};
const SECRET = 'a secret of this benchmark alone, of 32 bytes and more';

/** Calls an operation for some milliseconds. Resolves to the nanoseconds per call. */
const calling = (operation) => {
  let calls = 0;
  return async (ms) => {
    const first = calls;
    const startedMs = performance.now();
    do {
      for (let index = 0; index < 16; index++) {
        const result = operation(calls++);
        if (result instanceof Promise) await result;
      }
    } while (performance.now() - startedMs < ms);
    return ((performance.now() - startedMs) * 1e6) / (calls - first);
  };
};

async function child({ part, side, operation, peers }) {
  const { svc, peer, operations } = PARTS[part];
  const adapter = side === 'svc' ? await svc() : peer(peers && createRequire(join(peers, 'package.json')));
  await working(calling(operations(adapter)[operation]));
}

async function rows(peers) {
  const all = [];
  for (const [part, { packages, svc, operations, node: execArgv = [], bounds }] of Object.entries(PARTS)) {
    const [base = 'node:sqlite'] = Object.keys(packages);
    if (base !== 'node:sqlite' && peers === undefined) continue;
    for (const [index, operation] of Object.keys(operations(await svc())).entries())
      all.push({
        name: `${part}: ${operation}`,
        ...{ unit: 'ns', base, bound: bounds[index] },
        start: (side, root) => worker(root, 'parts.mjs', { part, operation, side, peers }, { execArgv }),
      });
  }
  return all;
}

const packages = Object.assign({}, ...Object.values(PARTS).map((part) => part.packages));
export const bench = { packages, rows };

if (import.meta.main) await child(values);
