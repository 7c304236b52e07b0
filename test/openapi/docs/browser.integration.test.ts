/**
 * The page at `/docs` in Chromium: reading, searching, and calling the application with every kind of
 * credential. SCREENSHOTS names a folder for screenshots. If a package registry is available, axe-core checks
 * the page.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import {
  APIKeyAuth,
  BearerAuth,
  CSRFMiddleware,
  Depends,
  EventStreamResponse,
  Field,
  HttpResponse,
  RedirectResponse,
  Schema,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  createToken,
  file,
  int,
  list,
  requireScopes,
  requireSession,
  sessionKey,
  str,
} from 'svc';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { DevProvider } from 'svc/testing';
import { DocsPage } from '../../../src/openapi/docs/page.ts';
import { assertAccessible, axeSource } from '../../support/axe.ts';
import { Chromium, chromiumProgram, needsChromium } from '../../support/chromium.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { HOSTILE, LIBRARY, largeDocument } from '../../support/openapi-documents.ts';
import type { Page } from '../../support/chromium.ts';

const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';
const KEY = 'a key that is long enough';
/** An image of one pixel. */
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);
const user = sessionKey<string>('user');

class NewBook extends Schema {
  static extra = 'forbid';
  title = Field(str, {
    minLength: 1,
    maxLength: 200,
    description: 'As it stands on the <b>cover</b>',
    example: 'Dune',
  });
  pages = Field(int, { ge: 1, default: 100 });
}

class Book extends Schema {
  id = Field(int);
  title = Field(str);
  pages = Field(int);
}

/**
 * A document with features that documents of this package do not have. Its operation returns the request that
 * it received.
 */
const FOREIGN = {
  openapi: '3.1.0',
  info: {
    title: 'Foreign',
    version: '1',
    license: { name: 'MIT', identifier: 'MIT' },
    contact: { email: 'ada@example.com' },
  },
  servers: [
    { url: 'https://elsewhere.example/v1', description: 'for trials' },
    { url: '/{prefix}', variables: { prefix: { default: 'echo' } } },
  ],
  paths: {
    '/payments': {
      post: {
        operationId: 'pay',
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                oneOf: [{ $ref: '#/components/schemas/Card' }, { $ref: '#/components/schemas/Transfer' }],
                discriminator: {
                  propertyName: 'kind',
                  mapping: { card: '#/components/schemas/Card', transfer: '#/components/schemas/Transfer' },
                },
              },
            },
          },
        },
        responses: {
          201: {
            description: 'Paid',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Card' } } },
          },
          ...Object.fromEntries(
            [402, '4XX'].map((status) => [
              status,
              {
                description: 'Refused',
                content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
              },
            ]),
          ),
        },
      },
    },
    '/refunds': {
      post: {
        operationId: 'refund',
        requestBody: {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                properties: {
                  by: {
                    oneOf: [{ $ref: '#/components/schemas/Card' }, { $ref: '#/components/schemas/Transfer' }],
                  },
                },
              },
            },
          },
        },
        responses: { 204: { description: 'Refunded' } },
      },
    },
    '/{name}': {
      get: {
        operationId: 'basic',
        security: [{ basic: [] }],
        parameters: [
          { name: 'name', in: 'path', required: true, schema: { type: 'string' } },
          {
            name: 'filter',
            in: 'query',
            style: 'deepObject',
            schema: { type: 'object' },
            example: { a: 1, 'b c': 'd&e' },
          },
          {
            name: 'ids',
            in: 'query',
            explode: false,
            schema: { type: 'array', items: { type: 'integer' } },
            example: [1, 2],
          },
          { name: 'taste', in: 'cookie', schema: { type: 'string' }, example: 'sweet; sour' },
        ],
        responses: { 200: { description: 'The received request' } },
      },
    },
  },
  components: {
    schemas: {
      Card: {
        type: 'object',
        required: ['kind', 'number'],
        properties: { kind: { const: 'card' }, number: { type: 'string', example: '4242' } },
      },
      Transfer: {
        type: 'object',
        required: ['kind', 'iban'],
        properties: { kind: { const: 'transfer' }, iban: { type: 'string', example: 'DE00' } },
      },
      Problem: { type: 'object', properties: { title: { type: 'string', example: 'No money' } } },
    },
    securitySchemes: {
      basic: { type: 'http', scheme: 'basic', description: 'Ask **Ada** for a `password`' },
      login: {
        type: 'oauth2',
        flows: {
          authorizationCode: {
            authorizationUrl: 'https://login.example/authorize',
            tokenUrl: 'https://login.example/token',
            scopes: { 'books:read': 'Read books', admin: '' },
          },
        },
      },
      openId: {
        type: 'openIdConnect',
        openIdConnectUrl: 'https://login.example/.well-known/openid-configuration',
      },
    },
  },
};

/** Returns an application with an operation of each kind. */
function library(): Svc {
  const app = new Svc({
    title: 'Library',
    version: '4.5.6',
    env: 'development',
    authSecret: SECRET,
    logger: collectedLog().logger,
  });
  app.use(new SecurityHeadersMiddleware()).use(new SessionMiddleware()).use(new CSRFMiddleware());
  app.get(
    '/books',
    {
      query: { size: Field(20, { ge: 1, le: 100 }), genre: Field(list(str), { default: () => [] }) },
      response: list(Book),
      tags: ['books'],
      summary: 'List books',
      public: true,
    },
    ({ query: { size, genre } }) => [
      { id: 9007199254740991, title: `${size} of ${genre.join('+')}`, pages: 1 },
    ],
  );
  app.post(
    '/books',
    {
      token: Depends(requireScopes('write')),
      body: NewBook,
      response: Book,
      status: 201,
      tags: ['books'],
      summary: 'Add a book',
    },
    ({ body }) => ({ id: 1, ...body }),
  );
  app.get(
    '/books/{id:int}',
    { response: Book, tags: ['books'], summary: 'Read a book', public: true },
    ({ params }) => ({ id: params.id, title: 'Dune', pages: 600 }),
  );
  app.get(
    '/me',
    { token: Depends(BearerAuth()), tags: ['people'], summary: 'Current user' },
    ({ token }) => ({
      sub: token.sub,
    }),
  );
  app.get(
    '/till',
    {
      client: Depends(APIKeyAuth({ keys: { till: KEY } })),
      tags: ['people'],
      summary: 'Content of the till',
    },
    ({ client }) => ({ client }),
  );
  app.post(
    '/login',
    { form: { name: Field(str, { example: 'ada' }) }, tags: ['people'], summary: 'Log in', public: true },
    ({ form, req }) => {
      req.session.set(user, form.name);
      return { welcome: form.name };
    },
  );
  app.post(
    '/fine',
    {
      who: Depends(requireSession(user)),
      form: { cents: Field(int, { ge: 1, example: 250 }) },
      tags: ['people'],
      summary: 'Pay a fine',
    },
    ({ who, form }) => ({ who, paid: form.cents }),
  );
  app.put(
    '/cover',
    {
      form: {
        cover: Field(file),
        caption: Field('', { maxLength: 80 }),
        lines: Field(file, { contentTypes: ['text/csv'], optional: true }),
      },
      tags: ['files'],
      summary: 'Give a cover',
      public: true,
    },
    async ({ form }) => ({
      filename: form.cover.filename,
      text: Buffer.from(await form.cover.bytes()).toString(),
      caption: form.caption,
      lines: form.lines && Buffer.from(await form.lines.bytes()).toString(),
    }),
  );
  app.get(
    '/logo',
    { tags: ['files'], summary: 'A picture', public: true },
    () => new HttpResponse(PIXEL, { mediaType: 'image/png' }),
  );
  app.get(
    '/report',
    { tags: ['files'], summary: 'A report', public: true },
    () =>
      new HttpResponse(Buffer.from('%PDF-1.7\0'), {
        mediaType: 'application/pdf',
        headers: {
          'Content-Disposition': `attachment; filename="report.pdf"; filename*=UTF-8''Bericht%20%C3%A4.pdf`,
        },
      }),
  );
  app.get(
    '/events',
    { tags: ['files'], summary: 'One after another', public: true },
    () =>
      new EventStreamResponse(
        (async function* () {
          yield { data: 'first' };
          yield { data: 'second' };
        })(),
      ),
  );
  app.get(
    '/ticks',
    { tags: ['files'], summary: 'Without end', public: true },
    ({ signal }) =>
      new EventStreamResponse(
        (async function* () {
          yield { data: 'tick' };
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        })(),
      ),
  );
  app.get(
    '/log',
    { tags: ['files'], summary: 'Many lines', public: true },
    ({ signal }) =>
      new EventStreamResponse(
        (async function* () {
          for (let line = 1; line <= 60; line++) yield { data: `line ${line}` };
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        })(),
      ),
  );
  app.get(
    '/away',
    { tags: ['files'], summary: 'Leads away', public: true },
    () => new RedirectResponse('http://127.0.0.2:9/'),
  );
  app.get('/echo/{name}', { public: true, meta: { docs: false } }, ({ req, params }) => ({
    name: params.name,
    target: req.target,
    authorization: req.headers['authorization'] ?? '',
    cookies: req.cookies,
  }));
  for (const [name, document] of [
    ['everything', LIBRARY],
    ['foreign', FOREIGN],
    ['hostile', HOSTILE],
    ['large', largeDocument(500)],
  ] as const) {
    const page = new DocsPage(() => document);
    app.get(`/${name}/docs`, { public: true, meta: { docs: false } }, ({ req }) => page.respond(req));
    app.get(`/${name}/openapi.json`, { public: true, meta: { docs: false } }, () => document);
  }
  return app;
}

const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });
afterEach(() => chromium?.endVisitors());
const server = chromium === undefined ? undefined : await library().run({ port: 0, handleSignals: false });
after(() => server?.close());
const url = server?.url ?? '';

interface Sight {
  readonly width?: number;
  readonly height?: number;
  readonly isDark?: boolean;
  readonly hasScript?: boolean;
}

/** Opens the page in a new browser profile. */
async function opened(
  path: string,
  { width = 1280, height = 900, isDark = false, hasScript = true }: Sight = {},
): Promise<Page> {
  const page = await chromium!.visitor();
  await page.send('Emulation.setDeviceMetricsOverride', {
    width,
    height,
    deviceScaleFactor: 1,
    mobile: false,
  });
  await page.send('Emulation.setEmulatedMedia', {
    features: [{ name: 'prefers-color-scheme', value: isDark ? 'dark' : 'light' }],
  });
  if (!hasScript) await page.send('Emulation.setScriptExecutionDisabled', { value: true });
  await page.open(url + path);
  return page;
}

/** Waits until an expression has a value, and returns it. */
function until<T>(page: Page, expression: string): Promise<T> {
  return page.run(
    `new Promise((resolve, reject) => { let tries = 0; const look = () => { const value = (${expression}); if (value) resolve(value); else if (++tries > 500) reject(new Error('It does not come: ' + ${JSON.stringify(expression)} + ' in ' + document.body.innerText.slice(0, 3000))); else setTimeout(look, 20); }; look(); })`,
  );
}

/** Opens an operation by its id, and waits for its form. */
async function unfold(page: Page, id: string): Promise<void> {
  await page.run(`location.hash = ${JSON.stringify(id)}`);
  await until(page, `document.getElementById(${JSON.stringify(id)})?.querySelector('.y form .main')`);
}

/** Presses "Send" of an operation, and returns the shown response. */
async function sent(page: Page, id: string): Promise<{ readonly status: string; readonly body: string }> {
  const out = `document.getElementById(${JSON.stringify(id)}).querySelector('.out')`;
  await page.run(
    `(${out}.replaceChildren(), document.getElementById(${JSON.stringify(id)}).querySelector('.y form').requestSubmit())`,
  );
  return until(
    page,
    `(() => { const out = ${out}; const form = out.parentNode.querySelector('form'); return form.querySelector('.main').textContent === 'Send' && out.firstChild && { status: out.querySelector('.st').textContent, body: out.querySelector('pre')?.textContent ?? '' }; })()`,
  );
}

/** Sets a field of an operation's form. */
function fill(page: Page, id: string, name: string, value: string): Promise<void> {
  return page.run(
    `(() => { const label = [...document.getElementById(${JSON.stringify(id)}).querySelectorAll('.y label')].find((one) => (one.querySelector('code') ?? one).textContent.trim().startsWith(${JSON.stringify(name)})); const field = document.getElementById(label.htmlFor); field.value = ${JSON.stringify(value)}; field.dispatchEvent(new Event('input', { bubbles: true })); })()`,
  );
}

/** Fills in the credentials dialog. */
async function authorize(page: Page, proofs: Readonly<Record<string, string>>): Promise<void> {
  await page.run('document.getElementById("authorize").click()');
  await until(page, 'document.querySelector("dialog[open]")');
  await page.run(
    `(() => { for (const [name, value] of Object.entries(${JSON.stringify(proofs)})) document.getElementById(':proof-' + name).value = value; document.querySelector('dialog .main').click(); })()`,
  );
  await until(page, '!document.querySelector("dialog[open]")');
}

/** Asserts that no request left the origin, and that no content policy was violated. */
function assertPeaceful(
  page: Page,
  expected: readonly RegExp[] = [],
  elsewhere: readonly string[] = [],
): void {
  assert.deepEqual(
    page.requests
      .filter(
        ({ url: address }) =>
          !elsewhere.includes(address) && !address.startsWith(`${url}/`) && !/^(?:data|blob):/.test(address),
      )
      .map(({ url: address }) => address),
    [],
  );
  assert.deepEqual(
    page.complaints.filter((complaint) => !expected.some((pattern) => pattern.test(complaint))),
    [],
  );
}

async function pictured(page: Page, name: string): Promise<void> {
  const path = process.env['SCREENSHOTS'];
  if (path !== undefined) writeFileSync(join(path, `docs-${name}.png`), await page.screenshot());
}

/** Chromium logs this for every response with status 400 or above. */
const REFUSED = /the server responded with a status of 4\d\d/;

test('the page /docs shows operations, parameters, schemas and responses in Chromium without JavaScript', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs', { hasScript: false });
  assert.deepEqual(
    await page.run(
      '[...document.querySelectorAll(".op h3, nav a")].filter((one) => !one.checkVisibility({ contentVisibilityAuto: false })).length',
    ),
    0,
    'every operation is to be seen',
  );
  assert.deepEqual(
    await page.run(
      '[...document.querySelectorAll("button, input")].filter((one) => one.checkVisibility()).length',
    ),
    0,
    'nothing is offered that does not work',
  );
  // not innerText: content far below the viewport has no layout yet
  const hidden = await page.run<string>('document.body.textContent');
  for (const word of [
    'Library',
    '4.5.6',
    'GET',
    '/books/{id}',
    'List books',
    'Schemas',
    '1 … 100',
    '1–200 characters',
    'As it stands on the <b>cover</b>',
    'Cover'.toLowerCase(),
    'application/problem+json',
    'multipart/form-data',
    'bearer',
    'write',
  ])
    assert.ok(hidden.includes(word), word);
  await page.run('void (location.hash = "postBooks")');
  assert.equal(
    await until(page, 'document.getElementById("postBooks").closest("details").open'),
    true,
    'a link unfolds what it leads to',
  );
  await pictured(page, 'plain');
  assertPeaceful(page);
});

test('the page /docs calls an operation in Chromium and shows status, time, headers, and the body with all digits of its numbers', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'getBooks');
  await fill(page, 'getBooks', 'size', '7');
  await fill(page, 'getBooks', 'genre', 'a&b\nc d');
  const { status, body } = await sent(page, 'getBooks');
  assert.match(status, /^200 OK · [\d.]+ ms · \d+ B$/);
  assert.equal(
    body,
    '[\n  {\n    "id": 9007199254740991,\n    "title": "7 of a&b+c d",\n    "pages": 1\n  }\n]',
  );
  assert.match(
    await page.run('document.querySelector("#getBooks .heads").textContent'),
    /content-typeapplication\/json/,
  );
  assert.equal(
    await until(page, 'document.getElementById("say").textContent'),
    status,
    'those who do not see it are told',
  );
  assert.equal(
    await page.run('document.querySelector("#getBooks .curl pre").textContent'),
    `curl '${url}/books?size=7&genre=a%26b&genre=c%20d'`,
  );
  await pictured(page, 'result');
  assertPeaceful(page);
});

test('the page /docs calls operations with a bearer token in Chromium, and keeps the token after a reload only if the user selects this', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs#getMe');
  await until(page, 'document.querySelector("#getMe .need:not([hidden])")?.textContent.includes("bearer")');
  assert.match((await sent(page, 'getMe')).status, /^401 /);
  const token = createToken('ada', SECRET, { claims: { scopes: ['write'] } });
  await authorize(page, { bearer: `Bearer ${token}` });
  assert.equal(await page.run('document.querySelector("#getMe .need").hidden'), true);
  assert.deepEqual([(await sent(page, 'getMe')).body], ['{\n  "sub": "ada"\n}']);
  assert.equal(
    await page.run('document.querySelector("#getMe .curl pre").textContent'),
    `curl '${url}/me' \\\n  -H 'Authorization: Bearer ${token}'`,
  );
  assert.deepEqual(await page.run('[localStorage.length, sessionStorage.length]'), [0, 0]);
  await unfold(page, 'postBooks');
  assert.deepEqual(JSON.parse(await page.run('document.querySelector("#postBooks textarea").value')), {
    title: 'Dune',
    pages: 100,
  });
  assert.match((await sent(page, 'postBooks')).status, /^201 Created/);
  await fill(page, 'postBooks', 'Body', '{"title": ""}');
  assert.match((await sent(page, 'postBooks')).status, /^400 /);
  await page.run('document.getElementById("authorize").click()');
  await page.run(
    '(document.getElementById(":kept").checked = true, document.querySelector("dialog .main").click())',
  );
  await page.reload();
  await unfold(page, 'getMe');
  assert.match((await sent(page, 'getMe')).status, /^200 /);
  assertPeaceful(page, [REFUSED]);
});

test('the page /docs in Chromium sends API keys, and sends session cookies together with a CSRF token', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'getTill');
  assert.match((await sent(page, 'getTill')).status, /^401 /);
  await authorize(page, { apiKey: KEY });
  assert.equal((await sent(page, 'getTill')).body, '{\n  "client": "till"\n}');
  await unfold(page, 'postFine');
  assert.match(
    (await sent(page, 'postFine')).status,
    /^401 /,
    'the CSRF token is right, but nobody has logged in',
  );
  await unfold(page, 'postLogin');
  assert.deepEqual((await sent(page, 'postLogin')).body, '{\n  "welcome": "ada"\n}');
  assert.deepEqual((await sent(page, 'postFine')).body, '{\n  "who": "ada",\n  "paid": 250\n}');
  assert.match(
    await page.run('document.querySelector("#postFine .curl pre").textContent'),
    /-X POST .*\n.*X-CSRF-Token: <token of your session>.*\n.*-b 'svc_session=<your svc_session>'.*\n.*--data-urlencode 'cents=250'/,
  );
  assertPeaceful(page, [REFUSED]);
});

test('for an OpenAPI document that svc did not generate, /docs in Chromium sends Basic credentials, cookies, and parameters in their declared style', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/foreign/docs');
  await unfold(page, 'basic');
  await authorize(page, { basic: 'pässword' });
  await page.run('document.getElementById("authorize").click()');
  await until(page, 'document.querySelector("dialog[open]")');
  assert.deepEqual(
    await page.run(
      'Array.from(document.querySelectorAll("dialog fieldset p, dialog li"), (line) => line.textContent)',
    ),
    [
      'HTTP basic',
      'Ask Ada for a password',
      'OAuth 2.0: paste an access token',
      'Flow authorization code: log in at https://login.example/authorize, tokens at https://login.example/token',
      'books:read Read books',
      'admin',
      'OpenID Connect: paste an access token. Described at https://login.example/.well-known/openid-configuration',
    ],
  );
  assert.match(
    String(await page.run('document.querySelector(".facts").textContent')),
    /at https:\/\/elsewhere\.example\/v1 for trials at \/\{prefix\}/,
  );
  await page.run(
    '(document.getElementById(":name-basic").value = "Ada", document.querySelector("dialog .main").click(), document.cookie = "kept=yes; path=/")',
  );
  await page.run('document.querySelector("#basic .y form input").value = ""');
  await page.run('document.querySelector("#basic .y form").requestSubmit()');
  assert.deepEqual(
    await page.run(
      '[document.activeElement.getAttribute("aria-invalid"), document.querySelector("#basic .wrongs:not([hidden])").textContent]',
    ),
    ['true', 'Required'],
  );
  await fill(page, 'basic', 'name', 'a/b ?#%');
  assert.deepEqual(JSON.parse((await sent(page, 'basic')).body), {
    name: 'a/b ?#%',
    target: '/echo/a%2Fb%20%3F%23%25?filter%5Ba%5D=1&filter%5Bb%20c%5D=d%26e&ids=1,2',
    authorization: `Basic ${Buffer.from('Ada:pässword').toString('base64')}`,
    cookies: { kept: 'yes', taste: 'sweet; sour' },
  });
  assert.equal(await page.run('document.cookie'), 'kept=yes');
  assertPeaceful(page);
});

test('/docs in Chromium can call a route that has its own SessionMiddleware and CSRFMiddleware', async (t) => {
  if (!needsChromium(t)) return;
  const own = new Svc({ authSecret: SECRET, env: 'development', logger: collectedLog().logger });
  const use = [new SessionMiddleware(), new CSRFMiddleware()];
  own.post('/pay', { use, public: true, form: { cents: Field(int, { example: 5 }) } }, ({ form }) => ({
    paid: form.cents,
  }));
  const ownServer = await own.run({ port: 0, handleSignals: false });
  t.after(() => ownServer.close());
  const page = await chromium!.visitor();
  await page.open(`${ownServer.url}/docs`);
  await unfold(page, 'postPay');
  const { status, body } = await sent(page, 'postPay');
  assert.deepEqual([status.slice(0, 6), body], ['200 OK', '{\n  "paid": 5\n}']);
  assert.deepEqual(page.complaints, []);
});

test('/docs in Chromium removes the previous response from the page if the next request cannot be sent', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'getBooksById');
  assert.match((await sent(page, 'getBooksById')).status, /^200 /);
  await fill(page, 'getBooksById', 'id', '');
  const left = await page.run(
    '(document.querySelector("#getBooksById .y form").requestSubmit(), [document.querySelector("#getBooksById .out").childElementCount, document.querySelector("#getBooksById .wrongs:not([hidden])").textContent])',
  );
  assert.deepEqual(left, [0, 'Required']);
  assertPeaceful(page);
});

test('/docs in Chromium shows a request as code in several languages, and remembers the selected language after a reload', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'postBooks');
  await fill(page, 'postBooks', 'Body', '{"title": "It"}');
  const choose = (language: string): Promise<string> =>
    page.run(
      `(() => { const select = document.querySelector('#postBooks .curl select'); select.value = '${language}'; select.dispatchEvent(new Event('change')); return document.querySelector('#postBooks .curl pre').textContent; })()`,
    );
  assert.match(await choose('Python'), /requests\.request\(\n {4}"POST",\n[^]*json=\{\n {8}"title": "It",/);
  assert.match(await choose('fetch'), /body: JSON\.stringify\(\{ title: 'It' \}\)/);
  assert.match(await choose('Generated client'), /api\.postBooks\(\{ body: \{ title: 'It' \} \}\)/);
  await page.reload();
  await unfold(page, 'getBooksById');
  assert.match(
    await page.run('document.querySelector("#getBooksById .curl pre").textContent'),
    /api\.getBooksById\(\{ params: \{ id: 1 \} \}\)/,
  );
  assertPeaceful(page);
});

test('/docs in Chromium shows an example of a response body, including its read-only fields', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/everything/docs');
  const example = async (id: string): Promise<unknown> => {
    await unfold(page, id);
    return page.run(
      `[...document.querySelectorAll('#${id} .eg')].map((one) => [one.querySelector('summary').textContent, JSON.parse(one.querySelector('pre').textContent)])`,
    );
  };
  assert.deepEqual(await example('me'), [
    ['Example response 200', { name: 'text', email: 'ada@example.com', since: '2026-01-31' }],
  ]);
  assert.match(JSON.stringify(await example('addBook')), /Example response 201",\{"id":1,/);
  assert.deepEqual(await example('readCover'), [], 'a picture has none');
  assertPeaceful(page);
});

test('/docs in Chromium shows a union as a choice, code and example at once, errors by status, and jumps between an operation and its form', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/foreign/docs');
  assert.deepEqual(
    await page.run('[...document.querySelectorAll(".facts > :is(span, a)")].map((one) => one.textContent)'),
    [
      '3 operations',
      'OpenAPI document',
      'at https://elsewhere.example/v1 for trials',
      'at /{prefix}',
      'ada@example.com',
      'Licence: MIT',
    ],
  );
  assert.deepEqual(
    await page.run('[...document.querySelectorAll("nav ul")[0].children].map((one) => one.textContent)'),
    ['POST/payments', 'POST/refunds', 'GET/{name}'],
  );
  await unfold(page, 'pay');
  const of = (selector: string, what: string): Promise<unknown> =>
    page.run(`[...document.querySelectorAll('#pay ${selector}')].map((one) => ${what})`);
  assert.deepEqual(await of('.one > details', '[one.querySelector("summary").textContent, one.open]'), [
    ['Card kind card', true],
    ['Transfer kind transfer', false],
  ]);
  await page.run('document.querySelectorAll("#pay .one summary")[1].click()');
  assert.deepEqual(await of('.one > details', 'one.open'), [false, true], 'one at a time');
  assert.deepEqual(await of('.d a', 'one.textContent'), ['Card', 'Transfer', 'Card', 'Problem']);
  const body = (): Promise<unknown> => page.run('JSON.parse(document.querySelector("#pay textarea").value)');
  assert.deepEqual(await body(), { kind: 'card', number: '4242' });
  await page.run(
    '(() => { const choice = [...document.querySelectorAll("#pay form label")].find((one) => one.textContent === "One of").nextElementSibling; choice.value = "1"; choice.dispatchEvent(new Event("change", { bubbles: true })); })()',
  );
  assert.deepEqual(await body(), { kind: 'transfer', iban: 'DE00' });
  assert.deepEqual(await of('.curl pre', 'one.checkVisibility()'), [true, true, false]);
  assert.match(String(await of('.curl pre', 'one.textContent')), /"iban": ?"DE00"/);
  assert.deepEqual(await of('.curl option', 'one.textContent'), [
    'curl',
    'JavaScript: fetch',
    'JavaScript: generated client',
    'Python',
  ]);
  assert.deepEqual(
    await of(
      ':is(.eg, .er)',
      '[one.querySelector("summary").textContent, one.open, JSON.parse(one.querySelector("pre").textContent)]',
    ),
    [
      ['Example response 201', true, { kind: 'card', number: '4242' }],
      ['Example response 402, 4XX', false, { title: 'No money' }],
    ],
  );
  await page.run('document.querySelector("#pay").closest(".op").querySelector("summary").focus()');
  await page.press(['Tab', 'Enter']);
  assert.equal(
    await page.run('document.activeElement.closest("form") !== null'),
    true,
    'two keys to the form',
  );
  await page.run('document.querySelector("#pay form .skip").focus()');
  await page.press(['Enter']);
  assert.equal(await page.run('document.activeElement.matches(".op > summary")'), true, 'and back');
  await pictured(page, 'union');
  assertPeaceful(page);
});

test('the Authorize dialog of /docs in Chromium renders descriptions, and hides secrets', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/foreign/docs');
  await page.run('document.getElementById("authorize").click()');
  await until(page, 'document.querySelector("dialog[open] fieldset")');
  const part = 'document.querySelector("dialog fieldset")';
  assert.deepEqual(
    await page.run(`[...${part}.querySelectorAll('b, strong, code')].map((one) => one.textContent)`),
    ['Ada', 'password'],
  );
  assert.deepEqual(
    await page.run(
      '[...new Set([...document.querySelectorAll("dialog fieldset input")].map((one) => [one.id.split("-")[0], one.type].join(" ")))]',
    ),
    [':name text', ':proof password'],
  );
  await pictured(page, 'authorize');
  assertPeaceful(page);
});

test('the search of /docs in Chromium finds operations and schemas by their field names, and shows the matching names', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/everything/docs');
  const found = (words: string): Promise<unknown> =>
    page.run(
      `(() => { const input = document.getElementById('search'); input.value = '${words}'; input.dispatchEvent(new Event('input')); return [...document.querySelectorAll('main :is(.op, .sc):not([hidden]) summary')].filter((one) => one.parentElement.matches('.op, .sc')).map((one) => [one.querySelector('h3').textContent, one.querySelector('.hit')?.textContent ?? '']); })()`,
    );
  assert.deepEqual(await found('multiPART caption'), [
    ['PUT /books/{id}/cover', 'multipart/form-data, caption'],
  ]);
  assert.deepEqual(await found('isbn patch'), [['PATCH /books/{id}', 'isbn']]);
  assert.deepEqual(await found('cents borrowed'), [
    ['POST /desk/till', 'cents, borrowed, "borrowed"'],
    ['GET /desk/events', 'cents, borrowed, "borrowed"'],
    ['Event', 'Borrowed, cents, borrowed'],
  ]);
  await found('');
  assert.equal(await page.run('document.querySelectorAll(".hit").length'), 0);
  assertPeaceful(page);
});

test('/docs in Chromium shows name, type, size and first bytes of a file response, with a link for saving the file', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'getReport');
  const { body } = await sent(page, 'getReport');
  assert.equal(body, '0000  25 50 44 46 2d 31 2e 37  %PDF-1.7\n0008  00                       .');
  assert.deepEqual(
    await page.run(
      '[document.querySelector("#getReport .out .k").textContent, document.querySelector("#getReport .out a").download]',
    ),
    ['Bericht ä.pdf · application/pdf · 9 B', 'Bericht ä.pdf'],
  );
  await unfold(page, 'getLogo');
  await sent(page, 'getLogo');
  assert.equal(await page.run('document.querySelector("#getLogo .out img").alt'), 'Preview of response');
  assertPeaceful(page);
});

test('when Chromium prints /docs, all sections are open and no forms are visible', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/everything/docs');
  await page.send('Emulation.setEmulatedMedia', { media: 'print' });
  assert.deepEqual(
    await page.run(
      '[[...document.querySelectorAll("main .f > li > code")].filter((one) => one.getBoundingClientRect().height === 0).length, [...document.querySelectorAll("nav, .top, .y")].filter((one) => one.checkVisibility()).length]',
    ),
    [0, 0],
  );
  assertPeaceful(page);
});

test('if the OpenAPI document cannot be loaded, /docs in Chromium shows an error and a button for another attempt', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await page.send('Network.setBlockedURLs', { urls: ['*openapi.json*'] });
  await page.run('void (location.hash = "getBooks")');
  assert.match(
    await until(page, 'document.querySelector("#getBooks .y .need")?.textContent'),
    /cannot be loaded/,
  );
  await page.send('Network.setBlockedURLs', { urls: [] });
  await page.run('document.querySelector("#getBooks .y button").click()');
  await until(page, 'document.querySelector("#getBooks .y form .main")');
  assert.match((await sent(page, 'getBooks')).status, /^200 /);
  assertPeaceful(page, [/ERR_BLOCKED_BY_CLIENT/]);
});

test('/docs in Chromium can send files, and shows responses that are images, streams or redirects', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'putCover');
  await page.run(
    '(() => { const data = new DataTransfer(); data.items.add(new File(["the cover"], "cover.txt")); document.querySelector("#putCover input[type=file]").files = data.files; })()',
  );
  await fill(page, 'putCover', 'caption', 'Ünï "q"');
  assert.deepEqual(JSON.parse((await sent(page, 'putCover')).body), {
    filename: 'cover.txt',
    text: 'the cover',
    caption: 'Ünï "q"',
  });
  await unfold(page, 'getLogo');
  assert.match((await sent(page, 'getLogo')).status, /^200 /);
  assert.deepEqual(
    await until(
      page,
      '(() => { const picture = document.querySelector("#getLogo .out img"); return picture?.complete && [picture.naturalWidth, picture.src.slice(0, 5)]; })()',
    ),
    [1, 'blob:'],
  );
  await unfold(page, 'getEvents');
  assert.match((await sent(page, 'getEvents')).body, /data: first\n\n[^]*data: second/);
  await unfold(page, 'getTicks');
  await page.run('document.querySelector("#getTicks .y form").requestSubmit()');
  await until(
    page,
    'document.querySelector("#getTicks .out pre")?.textContent.includes("data: tick") && document.querySelector("#getTicks .main").textContent === "Stop"',
  );
  await page.run('document.querySelector("#getTicks .y form").requestSubmit()');
  assert.match(
    await until(
      page,
      '(() => { const { textContent } = document.querySelector("#getTicks .st"); return textContent.endsWith(", cut") && textContent; })()',
    ),
    /^200 OK/,
    'what had come is still there',
  );
  await unfold(page, 'getLog');
  await page.run('document.querySelector("#getLog .y form").requestSubmit()');
  await until(page, 'document.querySelector("#getLog .out pre")?.textContent.includes("line 60")');
  assert.equal(
    await page.run(
      '(({ scrollTop, clientHeight, scrollHeight }) => scrollTop > 0 && scrollTop + clientHeight >= scrollHeight - 1)(document.querySelector("#getLog .out pre"))',
    ),
    true,
    'the last events are in view',
  );
  await pictured(page, 'stream');
  await page.run('document.querySelector("#getLog .y form").requestSubmit()');
  await unfold(page, 'getAway');
  assert.match((await sent(page, 'getAway')).status, /^No response/);
  // the redirect starts this request, and the policy blocks it
  assertPeaceful(page, [/Content Security Policy|Fetch API cannot load/], ['http://127.0.0.2:9/']);
});

test('/docs in Chromium has a file field for a form field whose file contains text, such as text/csv', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await unfold(page, 'putCover');
  assert.match(await page.run('document.querySelector("#putCover .d").textContent'), /lines file/);
  await page.run(
    '(() => { const [cover, lines] = document.querySelectorAll("#putCover input[type=file]"); for (const [field, name, type] of [[cover, "cover.txt", ""], [lines, "lines.csv", "text/csv"]]) { const data = new DataTransfer(); data.items.add(new File([name], name, { type })); field.files = data.files; } })()',
  );
  assert.deepEqual(JSON.parse((await sent(page, 'putCover')).body), {
    filename: 'cover.txt',
    text: 'cover.txt',
    caption: '',
    lines: 'lines.csv',
  });
  assertPeaceful(page);
});

test('/docs in Chromium opens the operation that the fragment of its URL names, and can be searched by keyboard', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs#getBooksById');
  assert.equal(
    await until(
      page,
      'document.querySelector("#getBooksById .y form") && document.getElementById("getBooksById").closest("details").open',
    ),
    true,
  );
  assert.equal(
    await page.run(
      '(() => { const { top } = document.getElementById("getBooksById").closest("details").getBoundingClientRect(); return top >= 0 && top < innerHeight; })()',
    ),
    true,
  );
  await page.run('document.activeElement.blur()');
  for (const type of ['keyDown', 'keyUp'])
    await page.send('Input.dispatchKeyEvent', {
      type,
      key: '/',
      code: 'Slash',
      ...(type === 'keyDown' ? { text: '/' } : {}),
    });
  assert.deepEqual(await page.run('[document.activeElement.id, document.activeElement.value]'), [
    'search',
    '',
  ]);
  await page.send('Input.insertText', { text: 'COVER put' });
  assert.deepEqual(
    await page.run(
      '[[...document.querySelectorAll("main .op:not([hidden]) h3")].map((one) => one.textContent), document.getElementById("count").textContent, [...document.querySelectorAll("main section:not([hidden]) h2")].map((one) => one.textContent)]',
    ),
    [['PUT /cover'], '1 found', ['files']],
  );
  await pictured(page, 'search');
  await page.press(['Enter']);
  await until(
    page,
    'document.activeElement.closest(".op")?.querySelector("#putCover") && location.hash === "#putCover"',
  );
  await page.run(
    '(document.getElementById("search").value = "nothing at all", document.getElementById("search").dispatchEvent(new Event("input")))',
  );
  assert.equal(await page.run('document.getElementById("none").hidden'), false);
  await page.run('void (location.hash = "getMe")');
  await until(page, '!document.getElementById("getMe").closest(".op").hidden');
  assertPeaceful(page);
});

test('with the keyboard alone, a user of /docs in Chromium can open an operation, fill in its form and reach the response', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  await page.press(['Tab']);
  assert.equal(await page.run('document.activeElement.textContent'), 'Skip to the operations');
  await page.press(['Enter', 'Tab', 'Tab']);
  assert.equal(
    await page.run('document.activeElement.closest("summary")?.textContent'),
    'GET /booksList books',
  );
  await page.press(['Enter']);
  await until(page, 'document.querySelector("#getBooks .y form")');
  await page.run('document.querySelector("#getBooks .y input").focus()');
  await page.send('Input.insertText', { text: '3' });
  await page.press(['Enter']);
  assert.match(await until(page, 'document.querySelector("#getBooks .out pre")?.textContent'), /3 of /);
  assert.deepEqual(
    await page.run('[document.activeElement.tagName, location.hash]'),
    ['INPUT', '#getBooks'],
    'the focus stays where it was',
  );
  assertPeaceful(page);
});

test('/docs in Chromium follows the colour scheme of the system until the user selects a colour scheme, which it remembers', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  const background = (): Promise<string> => page.run('getComputedStyle(document.body).backgroundColor');
  assert.equal(await background(), 'rgb(255, 255, 255)');
  await page.run('document.getElementById("theme").click()');
  assert.deepEqual(
    [await background(), await page.run('document.getElementById("theme").getAttribute("aria-pressed")')],
    ['rgb(13, 17, 23)', 'true'],
  );
  await page.reload();
  assert.equal(await background(), 'rgb(13, 17, 23)');
  await page.run('document.getElementById("theme").click()');
  assert.equal(await page.run('localStorage.length'), 0, 'what the system says is not remembered');
  await page.send('Emulation.setEmulatedMedia', {
    features: [{ name: 'prefers-color-scheme', value: 'dark' }],
  });
  assert.equal(await background(), 'rgb(13, 17, 23)');
  assertPeaceful(page);
});

test('/docs in Chromium has buttons that expand the members of a referenced schema, even of a recursive schema', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/everything/docs#readBook');
  await until(page, 'document.querySelector("#readBook .y form")');
  const press = (within: string): Promise<string> =>
    page.run(
      `(() => { const button = document.querySelector('#readBook ${within} .x[aria-label="Members of Part"]'); button.click(); return document.querySelector('#readBook ${within} .peek').innerText; })()`,
    );
  assert.match(await press('.r'), /A part may have parts\.[^]*title string required[^]*parts array of Part/);
  assert.equal(
    await page.run('document.querySelector("#readBook .peek .x")'),
    null,
    'it holds itself: there is nothing new to show',
  );
  assertPeaceful(page);
});

test('/docs in Chromium shows the members of one schema at a time for a member that is a union', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/foreign/docs#refund');
  await until(page, 'document.querySelector("#refund .y form")');
  const folds = (): Promise<unknown> =>
    page.run(
      'Array.from(document.querySelectorAll("#refund .f .one > details"), (one) => [one.querySelector("summary").textContent, one.open, one.querySelector(".peek").textContent])',
    );
  assert.deepEqual(
    await page.run(
      'Array.from(document.querySelectorAll("#refund .f .x"), (one) => (one.click(), one.getAttribute("aria-label")))',
    ),
    ['Members of Card, Transfer'],
  );
  assert.deepEqual(await folds(), [
    ['Card', true, 'kind "card" requirednumber string requiredexample "4242"'],
    ['Transfer', false, 'kind "transfer" requirediban string requiredexample "DE00"'],
  ]);
  await page.run('document.querySelectorAll("#refund .f .one summary")[1].click()');
  assert.deepEqual(
    ((await folds()) as unknown[][]).map(([name, isOpen]) => [name, isOpen]),
    [
      ['Card', false],
      ['Transfer', true],
    ],
  );
  await pictured(page, 'member-union');
  assertPeaceful(page);
});

test('/docs in Chromium shows the operation of the address in the contents, even if it is far down', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/large/docs');
  const ids = await page.run<string[]>(
    "['.op', '.sc'].map((kind) => [...document.querySelectorAll(`${kind} > .b`)].at(-1).id)",
  );
  for (const id of ids) {
    await page.run(`location.hash = ${JSON.stringify(id)}`);
    await until(
      page,
      `(() => { const here = document.querySelector('nav [aria-current][href$="${id}"]'); if (!here) return false; const { top, bottom } = here.getBoundingClientRect(); return here.checkVisibility() && top >= 56 && bottom <= innerHeight; })()`,
    );
  }
  assertPeaceful(page);
});

test('/docs in Chromium shows the response directly below the button that sends the request, on a phone too', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs#getBooks', { width: 390, height: 844 });
  await until(page, 'document.querySelector("#getBooks .y form .main")');
  await page.run('document.querySelector("#getBooks > .skip").click()');
  assert.equal(
    await page.run(
      '(() => { const { top, bottom } = document.activeElement.getBoundingClientRect(); return document.activeElement.closest("#getBooks form") !== null && top > 0 && bottom < innerHeight; })()',
    ),
    true,
    'a button leads to the form',
  );
  await sent(page, 'getBooks');
  assert.deepEqual(
    await page.run(
      '(() => { const out = document.querySelector("#getBooks .out"); const { top } = out.getBoundingClientRect(); return [out.previousElementSibling.tagName, top > 0 && top < innerHeight]; })()',
    ),
    ['FORM', true],
  );
  await pictured(page, 'phone');
  assertPeaceful(page);
});

test('/docs in Chromium marks an operation as protected only if it needs credentials, not if it only needs a CSRF token', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/docs');
  assert.deepEqual(
    await page.run(
      "['postLogin', 'putCover', 'postFine', 'postBooks'].map((id) => document.getElementById(id).closest('.op').querySelector('summary .l') !== null)",
    ),
    [false, false, true, true],
  );
});

test('a user of /docs in Chromium logs in at an OAuth provider in a new tab, and then calls an operation that needs the session', async (t) => {
  if (!needsChromium(t)) return;
  const app = new Svc({
    title: 'Shop',
    authSecret: SECRET,
    env: 'development',
    logger: collectedLog().logger,
  });
  const provider = new DevProvider({ env: 'development', redirectUris: ['/oauth/callback'] }).mount(app);
  app.use(new SessionMiddleware());
  app.register(new OAuthPlugin({ provider, mode: 'cookie', onUser: (_provider, { subject }) => subject }));
  app.get('/me', { who: Depends(requireSession(currentUser)) }, ({ who }) => ({ who }));
  const shop = await app.run({ port: 0, handleSignals: false });
  t.after(() => shop.close());
  const page = await chromium!.visitor();
  await page.open(`${shop.url}/docs#getMe`);
  await until(page, 'document.querySelector("#getMe .y form .main")');
  assert.match((await sent(page, 'getMe')).status, /^401 /);
  await page.run('document.querySelector("#getMe .need button").click()');
  await until(page, 'document.querySelector("dialog[open]")');
  assert.deepEqual(
    await page.run(
      '[...document.querySelectorAll("dialog fieldset a")].map(({ href, target }) => [href, target])',
    ),
    [[`${shop.url}/oauth/login`, '_blank']],
    'the dialog says where to log in',
  );
  await pictured(page, 'login');
  await page.run('document.getElementById(":cancel").click()');
  await unfold(page, 'getOauthLogin');
  await fill(page, 'getOauthLogin', 'return_to', '/docs');
  const link = await page.run<{ href: string; target: string; rel: string }>(
    '(({ href, target, rel }) => ({ href, target, rel }))(document.querySelector("#getOauthLogin form a"))',
  );
  assert.deepEqual(link, {
    href: `${shop.url}/oauth/login?return_to=%2Fdocs`,
    target: '_blank',
    rel: 'noopener',
  });
  const tab = await chromium!.page(page.browserContextId);
  await tab.open(link.href, `${shop.url}/_dev/provider/authorize`);
  await pictured(tab, 'provider');
  await tab.click('button[value="ada"]', `${shop.url}/docs`);
  assert.deepEqual(JSON.parse((await sent(page, 'getMe')).body), { who: 'ada' });
  await pictured(page, 'logged-in');
  assert.deepEqual(
    page.complaints.filter((complaint) => !REFUSED.test(complaint)),
    [],
  );
});

test('/docs in Chromium shows hostile HTML in an OpenAPI document as plain text, and runs no script from it', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/hostile/docs');
  await page.run('(() => { for (const fold of document.querySelectorAll("details")) fold.open = true; })()');
  await until(page, 'document.querySelector(".y form .main")');
  await page.run(
    '(() => { for (const button of document.querySelectorAll(".x")) button.click(); document.getElementById("authorize").click(); })()',
  );
  await until(page, 'document.querySelector("dialog[open]")');
  assert.deepEqual(
    await page.run(
      '[document.querySelectorAll("main img, nav img, dialog img, main script, dialog script").length, document.scripts.length, [...document.links].filter((link) => !/^https?:/.test(link.href)).length]',
    ),
    [0, 1, 0],
  );
  await pictured(page, 'hostile');
  assertPeaceful(page);
});

test('/docs in Chromium shows 500 operations from at most 60 kB, and fits a screen width of 360 pixels', async (t) => {
  if (!needsChromium(t)) return;
  const page = await opened('/large/docs');
  const [bytes, operations] = await page.run<[number, number]>(
    '[performance.getEntriesByType("navigation")[0].encodedBodySize, document.querySelectorAll(".op").length]',
  );
  assert.equal(operations, 500);
  assert.ok(bytes > 0 && bytes <= 60_000, `${bytes} bytes`);
  await pictured(page, 'large');
  for (const path of ['/everything/docs#putCover', '/hostile/docs']) {
    const narrow = await opened(path, { width: 360, height: 740 });
    await narrow.run(
      '(() => { for (const fold of document.querySelectorAll("main details")) fold.open = true; })()',
    );
    await until(narrow, 'document.querySelector(".y form .main")');
    assert.deepEqual(
      await narrow.run(
        'document.scrollingElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest("pre,.v,.skip")).map((one) => one.outerHTML.slice(0, 100))',
      ),
      [],
      `${path} has to be scrolled sideways`,
    );
    await pictured(narrow, `narrow${path.length}`);
  }
});

test('/docs in Chromium passes the accessibility checks of axe-core in light and dark mode, on wide and narrow screens', async (t) => {
  if (!needsChromium(t)) return;
  const source = axeSource(t);
  if (source === undefined) return;
  for (const isDark of [false, true]) {
    for (const width of isDark ? [1280] : [1280, 360]) {
      const page = await opened('/everything/docs', { isDark, width, height: 1_000 });
      await page.send('Page.setBypassCSP', { enabled: true });
      await page.reload(); // without the policy, which would block axe-core
      await page.run(`void ${source}`);
      const look = (when: string): Promise<void> =>
        assertAccessible(page, t, `${when}, ${isDark ? 'dark' : 'light'}, ${width}`);
      if (!isDark) await look('folded');
      for (const id of ['addBook', 'listBooks', 'putCover', 'payFine', 'followEvents', 'listLoans'])
        await unfold(page, id);
      await page.run(
        '(() => { for (const button of document.querySelectorAll(".x")) button.click(); for (const fold of document.querySelectorAll("main section details details")) fold.open = true; })()',
      );
      await sent(page, 'listBooks');
      await pictured(page, `unfolded-${isDark ? 'dark' : 'light'}-${width}`);
      await look('unfolded and called');
      if (width === 360) await page.run('document.getElementById("menu").click()');
      if (width === 360) await look('menu');
      await page.run('document.getElementById("authorize").click()');
      await until(page, 'document.querySelector("dialog[open]")');
      await look('dialog');
    }
  }
});
