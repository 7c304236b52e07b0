/**
 * zod 4, valibot and arktype as schemas of routes. The programs are text, because the repository has none of the
 * libraries: they are compiled against the types of the libraries, and run.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';
import { TestClient } from '../../src/testing/index.ts';
import { ROOT } from '../support/build.ts';
import { scratch } from '../support/scratch.ts';
import type { Issue, Svc } from '../../src/index.ts';

const PACKAGES = {
  zod: '~4.6.0',
  valibot: '~1.5.0',
  arktype: '~2.2.0',
  '@valibot/to-json-schema': '~1.8.0',
};
const SVC = JSON.stringify(join(ROOT, 'src/index.ts'));

/** The schema and the answer of the example in the manual of `@hono/zod-validator`. */
const HONO = `
import { z } from 'zod';
import { Svc } from ${SVC};

const schema = z.object({
  name: z.string(),
  age: z.number(),
});

export const app = new Svc();
app.post('/author', { public: true, body: schema }, ({ body: data }) => ({
  success: true,
  message: \`\${data.name} is \${data.age}\`,
}));
`;

/** The schemas of the example in the manual of \`fastify-type-provider-zod\`. */
const FASTIFY = `
import { z } from 'zod';
import { Svc } from ${SVC};

export const app = new Svc();
app.get(
  '/',
  {
    query: z.object({
      name: z.string().min(4),
    }),
    response: {
      200: z.string(),
    },
  },
  ({ query }) => query.name,
);
`;

const LIBRARIES = `
import { type } from 'arktype';
import * as v from 'valibot';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { z } from 'zod';
import { Field, Svc, list, Schema, type StandardSchema } from ${SVC};

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

const Page = z.object({ page: z.coerce.number().int().min(1).default(1), tag: z.array(z.string()).optional() });
const Free = z.object({ email: z.email() }).refine(async ({ email }) => !email.startsWith('taken'), {
  error: 'is taken',
  path: ['email'],
});
const Tree = z.object({
  name: z.string(),
  get kids() {
    return z.array(Tree).max(5);
  },
});
const Cat = v.object({ kind: v.literal('cat'), lives: v.pipe(v.number(), v.maxValue(9)) });
const Dog = type({ kind: "'dog'", 'age?': '0 <= number <= 30' });
const Stay = z.object({ at: z.iso.datetime().transform((text) => new Date(text)) });
class Mixed extends Schema {
  cat = Field(Cat);
  dogs = Field(list(Dog), { maxLength: 3 });
}

export const app = new Svc();
app.get('/page/{id}', { query: Page, params: z.object({ id: z.coerce.number() }) }, ({ query, params }) => {
  const typed: Equal<typeof query, { page: number; tag?: string[] | undefined }> = true;
  const id: Equal<typeof params, { id: number }> = true;
  return { query, params, typed, id };
});
app.post('/free', { public: true, body: Free }, ({ body }) => body.email);
app.post('/tree', { public: true, body: Tree, response: Tree }, ({ body }) => body);
app.post('/cat', { public: true, body: toStandardJsonSchema(Cat), response: Cat }, ({ body }) => {
  const typed: Equal<typeof body, { kind: 'cat'; lives: number }> = true;
  return { ...body, lives: typed ? body.lives : 0 };
});
app.post('/dog', { public: true, body: Dog, response: { 201: Dog } }, ({ body }) => body);
app.post('/stay', { public: true, body: Stay }, ({ body }) => ({ year: body.at.getUTCFullYear() }));
app.post('/mixed', { public: true, body: Mixed, response: Mixed }, ({ body }) => body);
app.get('/bare', { query: v.object({ q: v.string() }) }, ({ query }) => query.q);
app.get('/reply', { response: Stay }, () => ({ at: '2000-01-01T00:00:00Z' }));
// @ts-expect-error the reply is the input of the schema, which is a text
app.get('/wrong', { response: Stay }, () => ({ at: new Date() }));
export const person: StandardSchema<unknown, Mixed> = Mixed.standard();
`;

const PROGRAMS = { 'hono.ts': HONO, 'fastify.ts': FASTIFY, 'libraries.ts': LIBRARIES };
const COMPILER = [
  '--noEmit --strict --target esnext --lib es2025,esnext.disposable,esnext.error --module nodenext',
  '--allowImportingTsExtensions --skipLibCheck --exactOptionalPropertyTypes --customConditions svc-source',
  `--typeRoots ${join(ROOT, 'node_modules/@types')} --types node`,
]
  .join(' ')
  .split(' ');

let isWritten = false;

/** Compiles the programs once, and returns a client of one of them; undefined without the libraries. */
async function program(
  t: Parameters<typeof scratch>[0],
  name: keyof typeof PROGRAMS,
): Promise<{ app: Svc; client: TestClient } | undefined> {
  const folder = scratch(t, 'standard-schema', PACKAGES);
  if (folder === undefined) return undefined;
  const files = Object.keys(PROGRAMS).map((file) => join(folder, file));
  if (!isWritten) {
    for (const [file, text] of Object.entries(PROGRAMS)) writeFileSync(join(folder, file), text);
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(
      process.execPath,
      [compiler, ...COMPILER, '--ignoreConfig', ...files],
      {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, NODE_V8_COVERAGE: undefined },
      },
    );
    assert.equal(status, 0, stdout);
    isWritten = true;
  }
  const { app } = (await import(pathToFileURL(join(folder, name)).href)) as { app: Svc };
  return { app, client: new TestClient(app, { raiseErrors: false }) };
}

const issuesOf = async (response: Response): Promise<string[]> => {
  assert.equal(response.status, 400);
  const { errors } = (await response.json()) as { errors: Issue[] };
  return errors.map(({ loc, code }) => `${loc.join('.')} ${code}`);
};

test('an example of the manual of Hono runs with its zod schema unchanged', async (t) => {
  const it = await program(t, 'hono.ts');
  if (it === undefined) return;
  const good = await it.client.post('/author', { json: { name: 'Ada', age: 36 } });
  assert.deepEqual(await good.json(), { success: true, message: 'Ada is 36' });
  assert.deepEqual(await issuesOf(await it.client.post('/author', { json: { name: 5 } })), [
    'body.name invalid_type',
    'body.age invalid_type',
  ]);
  await it.client.close();
});

test('an example of the manual of a Fastify type provider runs with its zod schemas unchanged', async (t) => {
  const it = await program(t, 'fastify.ts');
  if (it === undefined) return;
  assert.equal(await (await it.client.get('/?name=Grace')).json(), 'Grace');
  assert.deepEqual(await issuesOf(await it.client.get('/?name=Ada')), ['query.name too_small']);
  const { paths } = (await (await it.client.get('/openapi.json')).json()) as {
    paths: Record<string, { get: { parameters: unknown[]; responses: Record<string, object> } }>;
  };
  assert.deepEqual(paths['/']!.get.parameters, [
    { name: 'name', in: 'query', required: true, schema: { type: 'string', minLength: 4 } },
  ]);
  assert.deepEqual(paths['/']!.get.responses['200'], {
    description: 'OK',
    content: { 'application/json': { schema: { type: 'string' } } },
  });
  await it.client.close();
});

test('zod, valibot and arktype validate inputs and replies, also asynchronously, recursively and within our schemas', async (t) => {
  const it = await program(t, 'libraries.ts');
  if (it === undefined) return;
  const { client } = it;
  assert.deepEqual(await (await client.get('/page/7?tag=a')).json(), {
    query: { page: 1, tag: ['a'] },
    params: { id: 7 },
    typed: true,
    id: true,
  });
  assert.deepEqual(await issuesOf(await client.get('/page/x?page=0')), [
    'path.id invalid_type',
    'query.page too_small',
  ]);
  const post = (path: string, json: unknown): Promise<Response> => client.post(path, { json });
  assert.equal(await (await post('/free', { email: 'a@example.com' })).text(), 'a@example.com');
  assert.deepEqual(await issuesOf(await post('/free', { email: 'taken@example.com' })), [
    'body.email custom',
  ]);
  const tree = { name: 'a', kids: [{ name: 'b', kids: [] }] };
  assert.deepEqual(await (await post('/tree', { ...tree, more: 1 })).json(), tree);
  assert.deepEqual(await issuesOf(await post('/tree', { name: 'a', kids: [{ name: 'b', kids: 1 }] })), [
    'body.kids.0.kids invalid_type',
  ]);
  assert.deepEqual(await (await post('/cat', { kind: 'cat', lives: 9 })).json(), { kind: 'cat', lives: 9 });
  assert.deepEqual(await issuesOf(await post('/cat', { kind: 'cat', lives: 10 })), ['body.lives invalid']);
  const dog = await post('/dog', { kind: 'dog' });
  assert.deepEqual([dog.status, await dog.json()], [201, { kind: 'dog' }]);
  assert.deepEqual(await issuesOf(await post('/dog', { kind: 'dog', age: 31 })), ['body.age max']);
  assert.deepEqual(await (await post('/stay', { at: '2000-01-01T00:00:00Z' })).json(), { year: 2000 });
  const mixed = { cat: { kind: 'cat', lives: 1 }, dogs: [{ kind: 'dog' }] };
  assert.deepEqual(await (await post('/mixed', mixed)).json(), mixed);
  assert.deepEqual(await issuesOf(await post('/mixed', { ...mixed, dogs: [{ kind: 'cat' }] })), [
    'body.dogs.0.kind unit',
  ]);
  assert.equal(await (await client.get('/bare?q=x')).text(), 'x');
  assert.deepEqual(await (await client.get('/reply')).json(), { at: '2000-01-01T00:00:00.000Z' });
  await client.close();
});

test('the document has the JSON Schema of zod, valibot and arktype, and names the schemas without one', async (t) => {
  const it = await program(t, 'libraries.ts');
  if (it === undefined) return;
  const document = (await (await it.client.get('/openapi.json')).json()) as {
    paths: Record<
      string,
      Record<string, { description: string; parameters?: unknown[]; requestBody?: unknown }>
    >;
    components: { schemas: Record<string, unknown> };
  };
  const { paths } = document;
  assert.deepEqual(paths['/page/{id}']!['get']!.parameters, [
    { name: 'id', in: 'path', required: true, schema: { type: 'number' } },
    { name: 'page', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 2 ** 53 - 1, default: 1 } },
    { name: 'tag', in: 'query', schema: { type: 'array', items: { type: 'string' } } },
  ]);
  assert.match(JSON.stringify(paths['/tree']!['post']!.requestBody), /"\$ref":"#\/components\/schemas\/Type/);
  assert.match(JSON.stringify(paths['/dog']!['post']!.requestBody), /"maximum":30/);
  assert.match(JSON.stringify(paths['/cat']!['post']!.requestBody), /"maximum":9/);
  assert.match(paths['/bare']!['get']!.description, /This document does not describe the query/);
  assert.match(paths['/cat']!['post']!.description, /does not describe the response/);
  assert.match(paths['/reply']!['get']!.description, /does not describe the response/);
  assert.doesNotMatch(paths['/tree']!['post']!.description, /does not describe/);
  await it.client.close();
});
