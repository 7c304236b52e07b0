/**
 * Validation of a flat object of 8 fields and of a nested one, against ajv: ns per operation, medians of alternating fresh
 * processes, because what one implementation teaches the inline caches is not another's to suffer from.
 *
 *   node --conditions=svc-source test/bench/validate.ts [--rounds=5]
 *
 * `accepts` is the verdict alone, as ajv gives it, of any value: whether objects have a class and strings a lone surrogate is
 * asked, too; `parse` makes the instance, of what JSON.parse() has made of a text without escapes, as routes have it. Ours runs with --disallow-code-generation-from-strings. ajv and ajv-formats come from a scratch folder,
 * `$TMPDIR/svc-scratch/ajv` (npm install ajv ajv-formats); without it only our own figures are printed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  compileSerializer,
  Field,
  float,
  int,
  list,
  literal,
  planOf,
  Schema,
  str,
} from '../../src/schema/schema.ts';

const SCRATCH = join(tmpdir(), 'svc-scratch', 'ajv');
const MEASURE_MS = 150;

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
class Address extends Schema {
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
  address = Field(Address);
  lines = Field(list(Line), { maxLength: 50 });
}

const user8 = {
  type: 'object',
  required: ['name', 'email', 'age', 'score', 'active', 'role', 'tags'],
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 50 },
    email: { type: 'string', format: 'email' },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    score: { type: 'number', minimum: 0, maximum: 1 },
    active: { type: 'boolean' },
    role: { enum: ['admin', 'user', 'guest'] },
    tags: { type: 'array', maxItems: 10, items: { type: 'string', maxLength: 20 } },
    bio: { type: 'string', maxLength: 200 },
  },
};
const text = (bounds: object): object => ({ type: 'string', ...bounds });
const order = {
  type: 'object',
  required: ['user', 'address', 'lines'],
  properties: {
    user: user8,
    address: {
      type: 'object',
      required: ['street', 'city', 'zip'],
      properties: {
        street: text({ minLength: 1 }),
        city: text({ minLength: 1 }),
        zip: text({ minLength: 3, maxLength: 10 }),
      },
    },
    lines: {
      type: 'array',
      maxItems: 50,
      items: {
        type: 'object',
        required: ['sku', 'qty', 'price'],
        properties: {
          sku: text({ minLength: 1, maxLength: 20 }),
          qty: { type: 'integer', minimum: 1, maximum: 1_000 },
          price: { type: 'number', minimum: 0 },
        },
      },
    },
  },
};

const good = JSON.parse(
  JSON.stringify(
    Array.from({ length: 16 }, (_, i) => ({
      name: 'Ada Lovelace',
      email: `ada${i}@example.com`,
      age: 36,
      score: 0.5,
      active: true,
      role: 'admin',
      tags: ['math', 'engine'],
      bio: 'Analyst',
    })),
  ),
) as Record<string, unknown>[];
const bad = good.map((user) => ({ ...user, bio: 'x'.repeat(201) }));
const missing = good.map((user) =>
  Object.fromEntries(Object.entries(user).filter(([name]) => name !== 'email')),
);
const nested = good.map((user) => ({
  user,
  address: { street: '1 Main', city: 'Paris', zip: '75001' },
  lines: Array.from({ length: 5 }, (_, i) => ({ sku: `S${i}`, qty: i + 1, price: 9.5 })),
}));

type Judge = (value: unknown) => boolean;
type Operations = Record<string, (i: number) => boolean>;

function operations(flat: Judge, deep: Judge): Operations {
  if (!flat(good[0]) || flat(bad[0]) || flat(missing[0]) || !deep(nested[0]))
    throw new Error('wrong verdict');
  return {
    'valid, 8 fields': (i) => flat(good[i & 15]),
    'invalid, last': (i) => flat(bad[i & 15]),
    'missing field': (i) => flat(missing[i & 15]),
    'nested + 5 lines': (i) => deep(nested[i & 15]),
  };
}

const IMPLEMENTATIONS: Record<string, () => Operations> = {
  ajv: () => ajvOperations({}),
  'ajv, allErrors': () => ajvOperations({ allErrors: true }),
  'svc, accepts': () =>
    operations(
      (value) => User8.accepts(value),
      (value) => Order.accepts(value),
    ),
  'svc, parse': () => {
    const flat = planOf(User8),
      deep = planOf(Order);
    return operations(
      (value) => flat.parseJson(value, 'body', true).ok,
      (value) => deep.parseJson(value, 'body', true).ok,
    );
  },
  'svc, new': () => ({
    'valid, 8 fields': (i) => new User8(good[i & 15]) !== undefined,
    'nested + 5 lines': (i) => new Order(nested[i & 15]) !== undefined,
  }),
  'svc, reply to JSON': () => {
    const flat = compileSerializer(User8),
      deep = compileSerializer(Order);
    return {
      'valid, 8 fields': (i) => flat.toJson(good[i & 15]).ok,
      'nested + 5 lines': (i) => deep.toJson(nested[i & 15]).ok,
    };
  },
  'JSON.stringify': () => ({
    'valid, 8 fields': (i) => JSON.stringify(good[i & 15]) !== '',
    'nested + 5 lines': (i) => JSON.stringify(nested[i & 15]) !== '',
  }),
};

function ajvOperations(options: object): Operations {
  const require = createRequire(join(SCRATCH, 'package.json'));
  const { default: Ajv } = require('ajv') as {
    default: new (options: object) => { compile(schema: object): Judge };
  };
  const ajv = new Ajv(options);
  (require('ajv-formats') as { default: (ajv: object) => void }).default(ajv);
  return operations(ajv.compile(user8), ajv.compile(order));
}

/** Best ns of several slices; the loop is this operation's own, so that its call stays monomorphic. */
function timed(operation: (i: number) => boolean): number {
  const slice = (count: number): number => {
    const startedNs = process.hrtime.bigint();
    let hits = 0;
    for (let i = 0; i < count; i++) if (operation(i)) hits++;
    return Number(process.hrtime.bigint() - startedNs) / count + (hits < 0 ? 1 : 0);
  };
  const untilMs = performance.now() + MEASURE_MS;
  let best = Infinity;
  while (performance.now() < untilMs) slice(2_000);
  for (let i = 0; i < 30; i++) best = Math.min(best, slice(5_000));
  return best;
}

const child = process.argv.find((argument) => argument.startsWith('--child='))?.slice(8);
if (child !== undefined) {
  const [name, operation] = child.split('|') as [string, string];
  const run = IMPLEMENTATIONS[name]!()[operation];
  console.log(run === undefined ? '-' : timed(run));
} else {
  const hasAjv = existsSync(join(SCRATCH, 'node_modules', 'ajv-formats'));
  if (!hasAjv)
    console.log(`ajv: skipped, there is no ${SCRATCH}: npm install --prefix ${SCRATCH} ajv ajv-formats`);
  const names = Object.keys(IMPLEMENTATIONS).filter((name) => hasAjv || !name.startsWith('ajv'));
  const columns = ['valid, 8 fields', 'invalid, last', 'missing field', 'nested + 5 lines'];
  const rounds = Number(process.argv.find((argument) => argument.startsWith('--rounds='))?.slice(9) ?? 3);
  const found = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      for (const column of columns) {
        const flags = name.startsWith('ajv') ? [] : ['--disallow-code-generation-from-strings'];
        const { stdout, stderr, status } = spawnSync(
          process.execPath,
          [...flags, '--conditions=svc-source', fileURLToPath(import.meta.url), `--child=${name}|${column}`],
          { encoding: 'utf8' },
        );
        if (status !== 0) throw new Error(`${name}: ${stderr}`);
        if (stdout.trim() !== '-')
          found.set(`${name}|${column}`, [...(found.get(`${name}|${column}`) ?? []), Number(stdout)]);
      }
    }
  }
  const median = (name: string, column: string): number =>
    (found.get(`${name}|${column}`) ?? []).sort((a, b) => a - b)[Math.floor(rounds / 2)] ?? NaN;
  console.table(
    Object.fromEntries(
      names.map((name) => [
        name,
        Object.fromEntries(
          columns.map((column) => {
            const value = median(name, column),
              base = median('ajv', column);
            return [
              column,
              Number.isNaN(value)
                ? ''
                : `${value.toFixed(0)} ns${Number.isNaN(base) ? '' : ` (${(value / base).toFixed(2)} × ajv)`}`,
            ];
          }),
        ),
      ]),
    ),
  );
}
