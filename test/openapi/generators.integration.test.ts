/**
 * Clients that public generators make of documents: they compile with all strict options of TypeScript, wrong
 * calls do not, and they call the server of the document.
 */
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';
import {
  EventStreamResponse,
  Field,
  Schema,
  Svc,
  any,
  bytes,
  date,
  datetime,
  file,
  float,
  int,
  lazy,
  list,
  literal,
  nullable,
  record,
  str,
  tuple,
  union,
  uuid,
} from '../../src/index.ts';
import { generatedApp, shop } from '../support/openapi-app.ts';
import { folder as temporary, run } from '../support/run.ts';
import { scratch } from '../support/scratch.ts';
import type { OpenApiDocument } from '../../src/index.ts';

const PACKAGES = {
  '@hey-api/openapi-ts': '0.99.0',
  '@kubb/cli': '4.39.3',
  '@kubb/core': '4.39.3',
  '@kubb/plugin-client': '4.39.3',
  '@kubb/plugin-oas': '4.39.3',
  '@kubb/plugin-ts': '4.39.3',
  'openapi-fetch': '0.17.0',
  'openapi-typescript': '7.13.0',
  orval: '8.38.0',
  prettier: '3.6.2',
  typescript: '5.9.3',
};
const COMPILER = {
  target: 'es2023',
  lib: ['es2024', 'dom', 'dom.iterable'],
  module: 'esnext',
  moduleResolution: 'bundler',
  strict: true,
  noUncheckedIndexedAccess: true,
  // without exactOptionalPropertyTypes: the request code that hey-api adds to each client does not compile with it
  noImplicitOverride: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
};

class Circle extends Schema {
  kind = Field(literal('circle'));
  radius = Field(float, { gt: 0 });
}
class Square extends Schema {
  kind = Field(literal('square'));
  side = Field(int, { ge: 1, le: 9 });
}
class Tree extends Schema {
  name = Field(str);
  children = Field(list(lazy((): typeof Tree => Tree)));
}
class Every extends Schema {
  id = Field(int, { readOnly: true });
  text = Field(str, { minLength: 1, maxLength: 9, pattern: '^[a-z]+$' });
  email = Field(str, { email: true });
  ipv6 = Field(str, { format: 'ipv6', optional: true });
  number = Field(float, { multipleOf: 0.5 });
  flag = Field(true);
  at = Field(datetime);
  day = Field(date);
  key = Field(uuid);
  raw = Field(bytes, { optional: true });
  color = Field(literal('red', 'green', 3, false));
  tags = Field(list(str, { minLength: 1 }), { maxLength: 5, unique: true });
  scores = Field(record(int));
  pair = Field(tuple(str, nullable(int)));
  shape = Field(union(Circle, Square));
  either = Field(union(str, int));
  tree = Field(nullable(Tree));
  anything = Field(any);
  odd = Field(str, { alias: 'odd name/1', default: 'x' });
  old = Field(str, { optional: true, deprecated: true, description: 'ends */ here ${x}' });
}
class Missing extends Schema {
  id = Field(int);
}

/** An application whose document has a field of every type, and every kind of body and reply. */
function every(): Svc {
  const app = new Svc({ env: 'test' });
  const none = (): never => assert.fail('no route is called');
  const query = { tag: Field(list(str), { default: () => [] }), day: Field(date, { optional: true }) };
  const headers = { 'x-trace': Field(str, { optional: true }) };
  app.get('/every/{id:int}', { query, headers, response: { 200: Every, 404: Missing } }, none);
  app.post('/every', { body: Every, response: { 201: Every, 409: Missing }, public: true }, none);
  app.put('/list', { body: list(nullable(Every)), response: record(Every), public: true }, none);
  const form = { note: Field(str), photo: Field(file), more: Field(list(file), { optional: true }) };
  app.post('/upload', { form, response: str, public: true }, none);
  app.delete('/every/{id:uuid}/x', { status: 204, public: true }, none);
  assert.deepEqual(
    app.check().findings.filter(({ severity }) => severity === 'error'),
    [],
  );
  return app;
}

/** An application of 40 routes of all kinds. The clients call a union, an event stream and a file. */
function calledApp(): Svc {
  const app = generatedApp(7, 37);
  const shape = union('kind', Circle, Square);
  app.post('/shapes', { body: shape, response: shape, public: true, name: 'addShape' }, ({ body }) => body);
  const stream = { description: 'Ticks', content: { 'text/event-stream': { schema: { type: 'string' } } } };
  app.get('/ticks', { name: 'ticks', meta: { openapi: { responses: { 200: stream, 204: null } } } }, () => {
    const ticks = [{ data: 'one' }, { data: 'two' }];
    return new EventStreamResponse(ticks);
  });
  const form = { note: Field(str), photo: Field(file) };
  app.post(
    '/upload',
    { form, response: str, public: true, name: 'upload' },
    ({ form }) => `${form.note} ${form.photo.size}`,
  );
  return app;
}

const DOCUMENTS: Readonly<Record<string, () => Svc>> = {
  every,
  shop,
  called: calledApp,
  generated: () => generatedApp(7, 100),
};
/** Returns a document as JSON for kubb, whose clients only send header fields that are strings. */
function forKubb(document: OpenApiDocument): string {
  const isSent = (value: unknown): boolean => {
    const { in: place, schema } = (value ?? {}) as {
      readonly in?: string;
      readonly schema?: { readonly type?: unknown };
    };
    return place !== 'header' || schema?.type === 'string';
  };
  return JSON.stringify(document, (key, value: unknown) =>
    key === 'parameters' && Array.isArray(value) ? value.filter(isSent) : value,
  );
}

/** Calls of both clients for the document of {@link every}. */
const CALLS = `
import { getEveryById, postEvery } from './hey-every/index.ts';
import type { Every } from './hey-every/index.ts';
import { getEveryById as getByOrval } from './orval-every.ts';

const read = await getEveryById({ path: { id: 1 }, query: { tag: ['a'] } });
export const shape: 'circle' | 'square' | undefined = read.data?.shape.kind;
export const color: 'red' | 'green' | 3 | false | undefined = read.data?.color;
export const children: string[] | undefined = read.data?.tree?.children.map((tree) => tree.name);
// @ts-expect-error a reply has no such member
read.data?.price;
// @ts-expect-error an id is a number
await getEveryById({ path: { id: 'one' } });
// @ts-expect-error a body has more members
await postEvery({ body: { text: 'a' } });
// @ts-expect-error a client does not send what it may only read
export const id = (every: Every): number => every.id;

const other = await getByOrval(1, { tag: ['a'] });
if (other.status === 200) other.data.scores['a']?.toFixed();
// @ts-expect-error the member belongs to the reply 200
other.data.scores;
// @ts-expect-error an id is a number
await getByOrval('one');
`;

/** Calls of all clients for the document of {@link calledApp}. The address of the server is the argument. */
const ROUND_TRIP = `
import { client as hey } from './hey-called/client.gen.ts';
import * as byHey from './hey-called/index.ts';
import * as byKubb from './kubb-called/index.ts';
import * as byOrval from './orval-called.ts';
import createClient from 'openapi-fetch';
import type { paths } from './typed-called.ts';
declare const process: { readonly argv: readonly string[] };

const base = process.argv[2] ?? '';
const own = globalThis.fetch;
// the clients of orval and kubb ask for paths
globalThis.fetch = (url, init) => own(typeof url === 'string' ? new URL(url, base) : url, init);
hey.setConfig({ baseUrl: base });
const photo = new File(['abc'], 'a.txt');
const square = { kind: 'square', side: 2 } as const;

const first = await byHey.addShape({ body: square });
const side: number | undefined = first.data?.kind === 'square' ? first.data.side : undefined;
const events: unknown[] = [];
for await (const event of (await byHey.ticks()).stream) events.push(event);
const sent = await byHey.upload({ body: { note: 'a', photo } });

const second = await byOrval.addShape(square);
const third = await byOrval.upload({ note: 'b', photo });
const stream = await byOrval.ticks();

// kubb sends no media type itself
const fourth = await byKubb.addShape(square, { headers: { 'Content-Type': 'application/json' } });
const fifth = await byKubb.upload({ note: 'c', photo });

const typed = createClient<paths>({ baseUrl: base });
const sixth = await typed.POST('/shapes', { body: square });
const edge: number | undefined = sixth.data?.kind === 'square' ? sixth.data.side : undefined;
// @ts-expect-error a circle has no side
await typed.POST('/shapes', { body: { kind: 'circle', side: 2 } });
const form = new FormData();
form.set('note', 'd');
form.set('photo', photo);
const seventh = await typed.POST('/upload', { body: { note: 'd', photo: '' }, bodySerializer: () => form });
const eighth = await typed.GET('/ticks', { parseAs: 'stream' });
const lines = await new Response(eighth.data).text();

console.log(
  JSON.stringify({
    typed: [edge, seventh.data, lines],
    hey: [side, events, sent.data],
    orval: [second.data, third.data, stream.data],
    kubb: [fourth, fifth],
  }),
);
`;

test('API clients from openapi-typescript, hey-api, orval and kubb compile in strict mode, for fields of every type and for 100 generated routes, and call the server', async (t) => {
  const tools = scratch(t, 'openapi-generators', PACKAGES);
  if (tools === undefined) return;
  const names = Object.keys(DOCUMENTS);
  const cwd = temporary(t, {
    'package.json': '{"type":"module"}',
    'tsconfig.json': JSON.stringify({
      compilerOptions: { ...COMPILER, allowImportingTsExtensions: true },
      include: ['**/*.ts'],
    }),
    'calls.ts': CALLS,
    'round-trip.ts': ROUND_TRIP,
    'orval.config.mjs': `export default ${JSON.stringify(
      Object.fromEntries(
        names.map((name) => [
          name,
          { input: { target: `./${name}.json` }, output: { target: `./orval-${name}.ts`, client: 'fetch' } },
        ]),
      ),
    )};`,
    ...Object.fromEntries(names.map((name) => [`kubb-${name}.config.mjs`, kubbConfig(name)])),
    ...Object.fromEntries(
      Object.entries(DOCUMENTS).flatMap(([name, make]) => {
        const document = make().openapi();
        return [
          [`${name}.json`, JSON.stringify(document)],
          [`kubb-${name}.json`, forKubb(document)],
        ];
      }),
    ),
  });
  symlinkSync(join(tools, 'node_modules'), join(cwd, 'node_modules'));
  for (const [bin, ...args] of [
    ...names.map((name) => [
      '@hey-api/openapi-ts/bin/run.js',
      ...['-i', `${name}.json`, '-o', `hey-${name}`, '--no-log-file'],
    ]),
    ...names.map((name) => ['openapi-typescript/bin/cli.js', `${name}.json`, '--output', `typed-${name}.ts`]),
    ...names.map((name) => ['@kubb/cli/bin/kubb.cjs', 'generate', '--config', `kubb-${name}.config.mjs`]),
    ['orval/dist/bin/orval.mjs', '--config', 'orval.config.mjs'],
    ['typescript/bin/tsc', '-p', '.'],
  ]) {
    const { status, stdout, stderr } = await run(
      process.execPath,
      [join(tools, 'node_modules', bin!), ...args],
      { cwd, env: { NODE_V8_COVERAGE: '' } },
    );
    assert.equal(status, 0, `${bin}: ${stdout}${stderr}`);
  }
  const bundled = join(cwd, 'round-trip.mjs');
  const entry = join(cwd, 'round-trip.ts');
  await build({ entryPoints: [entry], bundle: true, format: 'esm', platform: 'node', outfile: bundled });
  const server = await calledApp().run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const called = await run(process.execPath, [bundled, server.url], { env: { NODE_V8_COVERAGE: '' } });
  const square = { kind: 'square', side: 2 };
  const { orval, typed, ...others } = JSON.parse(called.stdout || called.stderr) as Record<string, unknown[]>;
  assert.deepEqual(others, { hey: [2, ['one', 'two'], 'a 3'], kubb: [square, 'c 3'] });
  assert.deepEqual(orval?.slice(0, 2), [square, 'b 3']);
  assert.deepEqual(typed?.slice(0, 2), [2, 'd 3']);
  for (const stream of [orval?.[2], typed?.[2]]) assert.match(String(stream), /data: one\n\ndata: two/);
});

function kubbConfig(name: string): string {
  const client = "pluginClient({ output: { path: 'clients' }, client: 'fetch' })";
  return `
import { pluginClient } from '@kubb/plugin-client';
import { pluginOas } from '@kubb/plugin-oas';
import { pluginTs } from '@kubb/plugin-ts';
export default {
  root: '.',
  input: { path: './kubb-${name}.json' },
  output: { path: './kubb-${name}', clean: true, format: false, lint: false },
  plugins: [
    pluginOas(),
    pluginTs({ output: { path: 'types' }, enumType: 'literal' }),
    ${client},
  ],
};
`;
}
