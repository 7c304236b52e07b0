/** Editors offer the options and members that a program can write at a place, and nothing else. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';
import { openEditor } from './support/editor.ts';

const OPENING = `
import * as svc from ${JSON.stringify(join(ROOT, 'src/index.ts'))};
import * as db from ${JSON.stringify(join(ROOT, 'src/db/index.ts'))};
import * as oauth from ${JSON.stringify(join(ROOT, 'src/oauth/index.ts'))};
import * as testing from ${JSON.stringify(join(ROOT, 'src/testing/index.ts'))};
const { Depends, Field, Router, Schema, Svc, int, list, provide, reply, str } = svc;
class Note extends Schema { title = Field(str); text = Field(str); }
declare const Foreign: svc.StandardSchema<{ count: string }, { count: number }>;
function connection() { return { fetchAll: () => [1], execute: () => 1 }; }
const app = new Svc();
const router = new Router({ prefix: '/shops/{shop:int}', deps: { me: Depends(() => ({ sub: 'x' })) } });
`;

/** Places in programs, at `|`, and the names that completion must offer: a list, or the members of a type. */
const PLACES: readonly (readonly [code: string, names: string | readonly string[]])[] = [
  ["app.get('/a', { | });", 'svc.GetSpec'],
  ["app.get('/a', { | }, () => 1);", 'svc.GetSpec'],
  ["app.post('/a', { | }, () => 1);", 'svc.RouteSpec'],
  ["app.post('/a', { re| }, () => 1);", 'svc.RouteSpec'],
  ["app.post('/a', { body: Note, | });", 'svc.RouteSpec body'],
  ["app.post('/a', { body: Note, | }, ({ body }) => body);", 'svc.RouteSpec body'],
  [
    "app.post('/a', { body: Note, query: { page: Field(1) }, db: Depends(connection), | }, ({ body }) => body.text);",
    'svc.RouteSpec body query',
  ],
  [
    "app.put('/a', { response: { 200: Note }, | }, () => reply({ title: 'a', text: 'b' }, 200));",
    'svc.RouteSpec response',
  ],
  ["app.patch('/a', { | }, () => 1);", 'svc.RouteSpec'],
  ["app.patch('/a', { body: Foreign, query: Foreign, | }, ({ body }) => 1);", 'svc.RouteSpec body query'],
  ["app.patch('/a/{count}', { params: Foreign, | }, () => 1);", 'svc.RouteSpec params'],
  [
    "app.post('/a/{id}', { params: { id: Field(int) }, response: Foreign, | }, () => ({ count: 'x' }));",
    'svc.RouteSpec params response',
  ],
  ["app.delete('/a', { | }, () => 1);", 'svc.RouteSpec'],
  ["app.route('/a', ['GET'], { | }, () => 1);", 'svc.RouteSpec'],
  ["router.get('/a', { | }, ({ me }) => me);", 'svc.GetSpec'],
  ["router.post('/a', { body: list(Note), | }, ({ me }) => me);", 'svc.RouteSpec body'],
  ["app.websocket('/a', { | });", 'svc.WebSocketSpec'],
  ["app.websocket('/a', { | }, () => undefined);", 'svc.WebSocketSpec'],
  ["app.tool('a', { | }, () => 1);", 'svc.ToolSpec'],
  ["app.prompt('a', { | }, () => '');", 'svc.PromptSpec'],
  ["app.resource('a://b', { | }, () => '');", 'svc.ResourceSpec'],
  ['provide({ | }, () => 1);', 'svc.ProviderSpec'],
  ['app.exceptionHandler(Error, { | }, () => 1);', 'svc.ExceptionSpec'],
  // nested options
  ["app.post('/a', { rateLimit: { | } }, () => 1);", ['perMinute', 'burst', 'key']],
  ["app.get('/a', { mcp: { | } }, () => 1);", ['name', 'title', 'description', 'annotations']],
  ["app.get('/a', { mcp: { annotations: { | } } }, () => 1);", ['readOnlyHint', 'idempotentHint']],
  ["app.get('/a', { deprecated: { | } }, () => 1);", 'svc.Deprecation'],
  ["app.get('/a', { allow: [{ | }] }, () => 1);", 'svc.Allowance'],
  ["app.post('/a', { callbacks: { done: { | } } }, () => 1);", 'svc.Callback'],
  ["app.websocket('/a', { compression: { | } });", ['contextTakeover']],
  [
    "app.get('/a', { query: { page: Field(str, { | }) } }, () => 1);",
    ['minLength', 'pattern', 'default', 'optional'],
  ],
  ["app.get('/a', { query: { page: Field(int, { | }) } }, () => 1);", ['ge', 'le', 'default', 'optional']],
  ['Field(str, { | });', ['minLength', 'maxLength', 'format', 'alias', 'secret']],
  ['Field(list(str), { minLength: 1, | });', ['maxLength', 'unique', 'separator']],
  ['class A extends Schema { a = Field(1, { | }); }', ['ge', 'le', 'multipleOf', 'readOnly']],
  // objects of options
  ['new Svc({ | });', 'svc.SvcOptions'],
  ['new Router({ | });', 'svc.RouterOptions'],
  ['Depends(connection, { | });', 'svc.DependsOptions'],
  ["app.mountMcp('/a', { | });", 'svc.McpMountOptions'],
  ["app.mountStatic('/a', 'b', { | });", 'svc.MountOptions'],
  ['app.run({ | });', 'svc.RunOptions'],
  ['new svc.SessionMiddleware({ | });', 'svc.SessionOptions'],
  ['new svc.CSRFMiddleware({ | });', 'svc.CSRFOptions'],
  ['new svc.CORSMiddleware({ | });', 'svc.CORSOptions'],
  ['new svc.RateLimitMiddleware({ | });', 'svc.RateLimitOptions'],
  ['new svc.CompressionMiddleware({ | });', 'svc.CompressionOptions'],
  ['svc.BearerAuth(undefined, { | });', 'svc.BearerAuthOptions'],
  ['svc.createLogger({ | });', 'svc.LoggerOptions'],
  ["new db.DatabasePlugin('sqlite::memory:', { | });", 'db.DatabasePluginOptions'],
  ["new db.RedisPlugin('redis://a', { | });", 'db.RedisPluginOptions'],
  ['new oauth.OAuthPlugin({ | });', 'oauth.OAuthPluginOptions'],
  ['new testing.TestClient(app, { | });', 'testing.TestClientOptions'],
  // the argument of a handler
  [
    "app.post('/a/{id:int}', { body: Note, query: { page: Field(1) }, db: Depends(connection) }, ({ | }) => 1);",
    ['body', 'query', 'db', 'params', 'req', 'signal', 'state'],
  ],
  ["app.post('/a', { body: Note }, ({ body }) => body.|);", ['title', 'text']],
  [
    "app.post('/a', { body: Note, response: Note }, ({ body }) => { void body.|; return body; });",
    ['title', 'text'],
  ],
  ["app.get('/a', { query: { page: Field(1), size: Field(2) } }, ({ query }) => query.|);", ['page', 'size']],
  ["app.get('/a/{id:int}/{name}', ({ params }) => params.|);", ['id', 'name']],
  ["app.get('/a/{count}', { params: Foreign }, ({ params }) => params.|);", ['count']],
  ["app.get('/a/{id}', { params: { id: Field(int) } }, ({ params }) => params.|);", ['id']],
  ["app.get('/a', { query: Foreign }, ({ query }) => query.|);", ['count']],
  ["app.post('/a', { body: Foreign }, ({ body }) => body.|);", ['count']],
  ["router.get('/a/{id:int}', { summary: 'a' }, ({ params }) => params.|);", ['shop', 'id']],
  ["app.get('/a', { db: Depends(connection) }, ({ db }) => db.|);", ['fetchAll', 'execute']],
  ["router.get('/a', ({ me }) => me.|);", ['sub']],
  [
    "app.websocket('/a', { db: Depends(connection) }, (_socket, { db }) => { db.|; });",
    ['fetchAll', 'execute'],
  ],
];

/** Options in the places above, and a part of the documentation that completion must show. */
const DOCUMENTED: readonly (readonly [code: string, option: string, documentation: RegExp])[] = [
  ["app.post('/a', { | }, () => 1);", 'response', /Type of the responses/],
  [
    "app.post('/a', { body: Note, | }, ({ body }) => body);",
    'maxBodyBytes',
    /Maximum size of a request body/,
  ],
  ["app.get('/a', { | }, () => 1);", 'headers', /Header fields/],
  ["app.get('/a', { mcp: { | } }, () => 1);", 'title', /MCP clients show to users/],
  ["app.websocket('/a', { | });", 'public', /needs no authentication/],
  ['provide({ | }, () => 1);', 'secrets', /Names of settings/],
  ['Field(str, { | });', 'alias', /./],
];

/** Global names, which completion must not offer at any of the places. */
const GLOBALS = ['AbortController', 'setTimeout', 'app', 'svc'];

for (const version of ['5.9', '6.0', '7.0'] as const) {
  test(`editors with TypeScript ${version} offer the options and members at ${PLACES.length} places, and no global names`, async (t) => {
    let program = OPENING;
    const offsets = PLACES.map(([code, names]) => {
      program += '{ ';
      const at = program.length + code.indexOf('|');
      program += `${code.replace('|', '')} }\n`;
      if (typeof names !== 'string') return { at, reference: undefined };
      program += `{ const reference: ${names.split(' ')[0]} = { `;
      const reference = program.length;
      program += ' }; }\n';
      return { at, reference };
    });
    const editor = await openEditor(t, version, program);
    if (editor === undefined) return;
    for (const [index, [code, names]] of PLACES.entries()) {
      const { at, reference } = offsets[index]!;
      const offered = await editor.completions(at);
      const [, ...taken] = typeof names === 'string' ? names.split(' ') : [];
      const wanted: readonly string[] =
        typeof names === 'string' ? await editor.completions(reference!) : names;
      assert.ok(wanted.length > 0, String(names));
      assert.deepEqual(
        wanted.filter((name) => !taken.includes(name) && !offered.includes(name)),
        [],
        `${code} lacks options: ${offered.join(' ')}`,
      );
      assert.deepEqual(
        GLOBALS.filter((name) => offered.includes(name)),
        [],
        `${code} offers global names`,
      );
    }
    for (const [code, option, documentation] of DOCUMENTED) {
      const { at } = offsets[PLACES.findIndex(([place]) => place === code)]!;
      assert.match(await editor.documentation(at, option), documentation, `${code} ${option}`);
    }
    for (const name of ['post(', 'Field(', 'Depends(']) {
      const text = await editor.hover(program.indexOf(name));
      assert.match(
        text,
        /Adds a route for POST|Declares one field|Declares a dependency|const (Field|Depends)/,
      );
      assert.doesNotMatch(text, /requestTimeoutMs/, 'the text lists options of routes');
    }
  });
}
