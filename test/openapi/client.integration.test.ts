/**
 * A client that a public generator makes from a document: it compiles, wrong calls do not compile, and it
 * calls the server of the document.
 */
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createToken } from '../../src/index.ts';
import { SCOPE, SECRET, generatedApp, shop } from '../support/openapi-app.ts';
import { folder as temporary, run } from '../support/run.ts';
import { scratch } from '../support/scratch.ts';
import type { TestContext } from 'node:test';
import type { OpenApiDocument } from '../../src/index.ts';

const PACKAGES = { 'openapi-typescript': '7.13.0', 'openapi-fetch': '0.17.0', typescript: '5.9.3' };
const TSCONFIG = JSON.stringify({
  compilerOptions: {
    target: 'es2023',
    lib: ['es2024', 'dom', 'dom.iterable'],
    module: 'nodenext',
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    types: [],
  },
  include: ['*.ts'],
});

/**
 * Compiles `files` together with the types of a document in `api.ts`. Returns undefined if no package
 * registry is available.
 */
async function client(
  t: TestContext,
  document: OpenApiDocument,
  files: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const tools = scratch(t, 'openapi-client', PACKAGES);
  if (tools === undefined) return undefined;
  const cwd = temporary(t, {
    'package.json': '{"type":"module"}',
    'tsconfig.json': TSCONFIG,
    'openapi.json': JSON.stringify(document),
    ...files,
  });
  symlinkSync(join(tools, 'node_modules'), join(cwd, 'node_modules'));
  for (const args of [
    ['openapi-typescript/bin/cli.js', 'openapi.json', '--output', 'api.ts'],
    ['typescript/bin/tsc', '-p', '.'],
  ].map(([bin, ...rest]) => [join(tools, 'node_modules', bin!), ...rest])) {
    const { status, stdout, stderr } = await run(process.execPath, args, {
      cwd,
      env: { NODE_V8_COVERAGE: '' },
    });
    assert.equal(status, 0, stdout + stderr);
  }
  return cwd;
}

const CALLS = `
import createClient from 'openapi-fetch';
import type { components, paths } from './api.ts';
declare const process: { readonly argv: readonly string[] };

const [, , baseUrl, token] = process.argv;
const client = createClient<paths>({ baseUrl: baseUrl! });
const authorization = { Authorization: \`Bearer \${token}\` };

function same(actual: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(\`\${left} is not \${right}\`);
}

const page = await client.GET('/items', { params: { query: { page: 3, tag: ['a', 'b'] } } });
if (page.data === undefined) throw new Error('no page');
const first: components['schemas']['Item'] | undefined = page.data.items[0];
same([first, page.data.next], [{ id: 3, title: 'a+b' }, 4]);

const refused = await client.GET('/items', { params: { query: { page: 0 } } });
same([refused.response.status, refused.error?.errors?.map(({ loc, code }) => [loc, code])], [400, [[['query', 'page'], 'ge']]]);

const added = await client.POST('/items', { headers: authorization, body: { title: 'Lamp', sold: null } });
same([added.response.status, added.data?.title, added.data?.sold], [201, 'Lamp by ada', null]);
const forbidden = await client.POST('/items', { body: { title: 'Lamp' } });
same([forbidden.response.status, forbidden.error?.status], [401, 401]);

const read = await client.GET('/items/{id}', { params: { path: { id: 5 }, header: { 'x-trace': 'me' } } });
same(read.data?.title, 'me');
const gone = await client.GET('/items/{id}', { params: { path: { id: 101 } } });
same([gone.response.status, gone.error !== undefined && 'id' in gone.error ? gone.error.id : 0], [410, 101]);

const uploaded = await client.POST('/upload', {
  body: { note: 'hello', file: '' },
  bodySerializer() {
    const form = new FormData();
    form.set('note', 'hello');
    form.set('file', new Blob(['12345']), 'five.bin');
    return form;
  },
});
same(uploaded.data?.items, [{ id: 5, title: 'hello' }]);

export async function mistakes(): Promise<void> {
  // @ts-expect-error no such path
  await client.GET('/things');
  // @ts-expect-error a page is a number
  await client.GET('/items', { params: { query: { page: 'one' } } });
  // @ts-expect-error a title is needed
  await client.POST('/items', { body: { tags: [] } });
  // @ts-expect-error the id is missing
  await client.GET('/items/{id}', {});
  // @ts-expect-error no such member
  page.data?.items[0]?.price;
}
console.log('all calls are answered');
`;

test('a client made with openapi-typescript and openapi-fetch refuses wrong calls at compile time, and its correct calls reach the server', async (t) => {
  const app = shop();
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApiDocument;
  const cwd = await client(t, document, { 'client.ts': CALLS });
  if (cwd === undefined) return;
  const token = createToken('ada', SECRET, { claims: { scopes: [SCOPE] } });
  const { status, stdout, stderr } = await run(process.execPath, ['client.ts', server.url, token], {
    cwd,
    env: { NODE_V8_COVERAGE: '' },
  });
  assert.deepEqual([status, stdout, stderr], [0, 'all calls are answered\n', '']);
});

test('types generated from an OpenAPI document with 300 routes compile, and have an operation for each route', async (t) => {
  const document = generatedApp(7, 300).openapi();
  const ids = Object.values(document.paths).flatMap((item) =>
    Object.values(item).map(({ operationId }) => operationId),
  );
  assert.equal(new Set(ids).size, 300);
  const names = `import type { operations } from './api.ts';\nexport type Names = keyof operations;\n${ids.map((id) => `export const ${id}: Names = '${id}';`).join('\n')}\n`;
  await client(t, document, { 'names.ts': names });
});
