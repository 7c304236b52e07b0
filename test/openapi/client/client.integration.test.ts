/**
 * A generated client: it compiles strictly, wrong calls do not compile, and it calls the application of its
 * document.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  APIKeyAuth,
  CSRFMiddleware,
  Depends,
  EventStreamResponse,
  Field,
  HttpResponse,
  RedirectResponse,
  SessionMiddleware,
  bytes,
  createToken,
  csrfToken,
  file,
  int,
  list,
  requireSession,
  sessionKey,
  str,
} from '../../../src/index.ts';
import { clientText } from '../../../src/openapi/client/client.ts';
import { ROOT } from '../../support/build.ts';
import { SCOPE, SECRET, generatedApp, shop } from '../../support/openapi-app.ts';
import { LIBRARY } from '../../support/openapi-documents.ts';
import { folder as temporary, run } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { Svc } from '../../../src/index.ts';

const KEY = 'a key that is long enough';
const TSCONFIG = {
  target: 'es2023',
  module: 'nodenext',
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  noImplicitReturns: true,
  noUnusedLocals: true,
  noUnusedParameters: true,
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
  isolatedDeclarations: true,
  declaration: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  types: [],
};
/** Type definitions of browsers and of Node. */
const LIBRARIES = {
  browser: { lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'] },
  node: { lib: ['es2024'], types: ['node'], typeRoots: [join(ROOT, 'node_modules/@types')] },
};

/** Compiles files with the types of browsers and of Node. Returns their folder. */
async function compiled(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const configs = Object.entries(LIBRARIES).map(([name, library]) => [
    `tsconfig.${name}.json`,
    JSON.stringify({ compilerOptions: { ...TSCONFIG, ...library }, include: ['*.ts'] }),
  ]);
  const cwd = temporary(t, { 'package.json': '{"type":"module"}', ...files, ...Object.fromEntries(configs) });
  for (const [config] of configs) {
    const args = [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', config!];
    const { status, stdout } = await run(process.execPath, args, { cwd, env: { NODE_V8_COVERAGE: '' } });
    assert.equal(status, 0, `${config}: ${stdout}`);
  }
  return cwd;
}

/** Returns `meta` that documents a response of this media type without a schema. */
function only(type: string): Readonly<Record<string, unknown>> {
  return { openapi: { responses: { 200: { description: type, content: { [type]: {} } }, 204: null } } };
}

/** Returns the example shop with an additional route for each kind of body and response. */
function served(): Svc {
  const app = shop().use(new SessionMiddleware());
  const user = sessionKey<string>('user');
  const csrf = new CSRFMiddleware();
  app.get(
    '/csrf',
    { use: [csrf], who: Depends(requireSession(user)), response: str, name: 'csrf_token' },
    ({ req }) => csrfToken(req),
  );
  app.get('/till', { client: Depends(APIKeyAuth({ keys: { till: KEY } })), name: 'till' }, ({ client }) => ({
    client,
  }));
  app.get('/anything', { name: 'anything' }, () => ({ any: 'thing' }));
  app.get('/gone', { name: 'away' }, () => new RedirectResponse('http://127.0.0.2:9/'));
  app.get(
    '/search',
    { query: { ids: Field(list(int), { separator: ',' }) }, response: list(int), name: 'search' },
    ({ query }) => query.ids,
  );
  const ticks = only('text/event-stream');
  app.get(
    '/ticks',
    { name: 'ticks', meta: ticks },
    ({ signal }) =>
      new EventStreamResponse(
        (async function* () {
          yield { data: 'first', event: 'tick', id: '1' };
          yield { data: 'second' };
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        })(),
      ),
  );
  const image = only('image/png');
  app.get(
    '/logo',
    { name: 'logo', meta: image },
    () => new HttpResponse(Buffer.from('12345'), { mediaType: 'image/png' }),
  );
  app.post(
    '/files',
    {
      form: {
        notes: Field(list(str)),
        raw: Field(bytes),
        files: Field(list(file)),
        size: Field(int, { optional: true }),
      },
      response: list(str),
      name: 'store.files',
    },
    ({ form }) => [
      ...form.notes,
      Buffer.from(form.raw).toString(),
      ...form.files.map(({ filename }) => filename ?? ''),
      String(form.size),
    ],
  );
  app.post('/login', { form: { name: Field(str) }, name: 'login', status: 204 }, ({ form, req }) => {
    req.session.set(user, form.name);
  });
  app.delete(
    '/items/{id:int}',
    { name: 'remove_item', use: [csrf], who: Depends(requireSession(user)), status: 204 },
    () => undefined,
  );
  return app;
}

const CALLS = `
import { HttpError, createClient, events, unwrap } from './api.ts';
import type { InputOf, Item, ResultOf } from './api.ts';
declare const process: { readonly argv: readonly string[] };

const [, , baseUrl = '', token = '', key = ''] = process.argv;
const api = createClient({ baseUrl, auth: { bearer: () => Promise.resolve(token), apiKey: key } });
const stranger = createClient({ baseUrl });

function same(actual: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(\`\${left} is not \${right}\`);
}

const page = await unwrap(api.list_items({ query: { page: 3, tag: ['a', 'b'] } }));
same([page.items[0]?.title, page.next], ['a+b', 4]);
const input: InputOf<'add_item'> = { body: { title: 'Lamp', sold: null, tags: undefined } satisfies Item };
const added = await api.add_item(input);
same(added.ok && [added.status, added.data.title, added.data.sold], [201, 'Lamp by ada', null]);
const refused = await stranger.add_item(input);
same(!refused.ok && [refused.status, refused.error.title], [401, 'Unauthorized']);
const invalid = await api.list_items({ query: { page: 0 } });
same(!invalid.ok && invalid.error.errors?.map(({ loc, code }) => [loc, code]), [[['query', 'page'], 'ge']]);
const thrown: unknown = await unwrap(stranger.add_item(input)).catch((error: unknown) => error);
same(thrown instanceof HttpError && thrown.status, 401);

const gone: ResultOf<'read_item'> = await api.read_item({ params: { id: 101 } });
if (gone.ok) throw new Error('it is gone');
if (gone.status === 410) same('id' in gone.error && gone.error.id, 101);
else same(gone.error.title, '');
const traced = await api.read_item({ params: { id: 5 }, headers: { 'x-trace': 'me' } });
same(traced.ok && traced.data.title, 'me');

same(await unwrap(api.search({ query: { ids: [3, 1, 2] } })), [3, 1, 2]);
const stored = await api['store.files']({
  form: { notes: ['a', 'b'], raw: btoa('raw'), files: [new File(['1'], 'ä.txt'), new Blob(['2'])] },
});
same(stored.ok && stored.data, ['a', 'b', 'raw', 'ä.txt', 'blob', 'undefined']);
same(await unwrap(api.upload({ form: { note: 'hello', file: new Blob(['12345']) } })), { items: [{ id: 5, title: 'hello' }] });

same((await unwrap(api.logo())).size, 5);
const raw = await unwrap(api.anything());
same(raw === undefined ? raw : await raw.json(), { any: 'thing' });
const till = await unwrap(api.till());
same(till === undefined ? till : await till.json(), { client: 'till' });
same((await stranger.till()).status, 401);

const seen: string[] = [];
for await (const { event, data, id } of await unwrap(api.ticks())) {
  seen.push(\`\${event} \${data} \${id}\`);
  if (data === 'second') break;
}
same(seen, ['tick first 1', 'message second 1']);
const abort = new AbortController();
const endless = await api.ticks({}, { signal: abort.signal });
let reason: unknown;
try {
  for await (const _ of events(endless.response)) abort.abort(new Error('enough'));
} catch (error) {
  reason = error;
}
same(reason instanceof Error && reason.message, 'enough');

const redirected: unknown = await api.away().catch((error: unknown) => error);
same(redirected instanceof Error && redirected.name, 'UnexpectedResponse');

const login = await api.login({ form: { name: 'ada' } });
const [session = ''] = (login.response.headers.getSetCookie()[0] ?? '').replace(/^[^=]*=/, '').split(';');
const headers = { Origin: new URL(baseUrl).origin }; // browsers send this field themselves
const own = createClient({ baseUrl, auth: { session } });
const member = createClient({ baseUrl, auth: { session, csrf: async () => unwrap(own.csrf_token()) }, headers });
same((await member.remove_item({ params: { id: 1 } })).status, 204);
same((await own.remove_item({ params: { id: 1 } })).status, 403);

export async function mistakes(): Promise<void> {
  // @ts-expect-error no such operation
  await api.nothing();
  // @ts-expect-error a page is a number
  await api.list_items({ query: { page: 'one' } });
  // @ts-expect-error a title is needed
  await api.add_item({ body: { tags: [] } });
  // @ts-expect-error the id is missing
  await api.read_item({});
  // @ts-expect-error no such member
  page.items[0]?.price;
  // @ts-expect-error the result may be a failure
  added.data;
  // @ts-expect-error no such scheme
  createClient({ baseUrl: '', auth: { nothing: '' } });
  // @ts-expect-error a file is a Blob
  await api.upload({ form: { note: '', file: 'text' } });
}
console.log('all calls are answered');
`;

test('a client from clientText() accepts correct calls and refuses wrong calls at compile time, and reaches the running server', async (t) => {
  const app = served();
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const cwd = await compiled(t, {
    'api.ts': clientText(app.openapi()),
    'calls.ts': CALLS.replace(
      'declare const process',
      '// @ts-ignore Node declares it\ndeclare const process',
    ),
  });
  const token = createToken('ada', SECRET, { claims: { scopes: [SCOPE] } });
  const { status, stdout, stderr } = await run(process.execPath, ['calls.ts', server.url, token, KEY], {
    cwd,
    env: { NODE_V8_COVERAGE: '' },
  });
  assert.deepEqual([status, stdout, stderr], [0, 'all calls are answered\n', '']);
});

test('API clients for 300 generated routes and for a document that uses every OpenAPI feature compile in strict mode', async (t) => {
  const document = generatedApp(7, 300).openapi();
  const client = clientText(document);
  for (const item of Object.values(document.paths))
    for (const { operationId } of Object.values(item))
      assert.match(client, new RegExp(`^  ${operationId}\\(`, 'm'));
  await compiled(t, { 'large.ts': client, 'library.ts': clientText(LIBRARY) });
});
