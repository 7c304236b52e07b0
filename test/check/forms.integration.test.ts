/**
 * `svc check` finds mistakes that are split over files, classes, settings files and helpers, at the line that causes them.
 * Each application has one mistake, or resembles one.
 */
import assert from 'node:assert/strict';
import { symlinkSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { BIN, ROOT, build } from '../support/build.ts';
import { folder, run } from '../support/run.ts';
import type { TestContext } from 'node:test';

before(build);

interface Form {
  /** Files by name; `app.js` or `app.ts` exports the application. */
  readonly files: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** `SVC205 config.ts:2 message` of each error and warning. */
  readonly found: readonly string[];
}

const SECRET = 'q7Jx0vZt-5Rb2-Lk9w-Hn4c-Yp8d-Gs3f-Ma6e'; // stands in the sources of an application
const STRONG = '4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d';

/** Returns an application that registers security headers, and the given lines. */
const app = (imports: string, lines: string, options = ''): string =>
  `import { SecurityHeadersMiddleware, Svc, ${imports} } from 'svc';\nexport const app = new Svc(${options}).use(new SecurityHeadersMiddleware());\n${lines}\n`;
const guarded = (from: string, secret: string): string =>
  `import { secrets } from './${from}';\n${app('BearerAuth, Depends', `app.get('/me', { me: Depends(BearerAuth(${secret})) }, ({ me }) => me.sub);`)}`;
const cors = (lines: string): string =>
  app(
    'CORSMiddleware',
    `${lines}\napp.use(new CORSMiddleware({ origins: isOurs, credentials: true }));\napp.get('/', () => 'x');`,
  );
const login = (limits: string): string =>
  app(
    'Field, RateLimitMiddleware, Schema, str',
    `class Login extends Schema { name = Field(str, { maxLength: 80 }); }\n${limits}\napp.post('/login', { body: Login, public: 'the login', status: 204 }, () => undefined);`,
  );
const WRITTEN = 'is written in the source code';

const FORMS: Readonly<Record<string, Form>> = {
  'a secret in a static member of a class': {
    files: {
      'app.ts': guarded('config.ts', 'secrets.jwt'),
      'config.ts': `export class secrets {\n  static readonly jwt = '${SECRET}';\n}`,
    },
    found: [`SVC205 config.ts:2 the secret of BearerAuth ${WRITTEN}`],
  },
  'a secret in an imported JSON file': {
    files: {
      'app.js': app(
        'BearerAuth, Depends',
        `app.get('/me', { me: Depends(BearerAuth(secrets.jwt)) }, ({ me }) => me.sub);`,
      ).replace(/^/, "import secrets from './secrets.json' with { type: 'json' };\n"),
      'secrets.json': `{\n  "jwt": "${SECRET}"\n}`,
    },
    found: [`SVC205 secrets.json:2 the secret of BearerAuth ${WRITTEN}`],
  },
  'a secret that a helper returns in place of a variable': {
    files: {
      'app.ts': guarded('config.ts', `secrets('JWT', '${SECRET}')`),
      'config.ts':
        'export const secrets = (name: string, other: string): string => process.env[name] ?? other;',
    },
    found: [`SVC205 app.ts:4 the secret of BearerAuth ${WRITTEN}`],
  },
  'a secret of a constant that production does not use': {
    files: {
      'app.js': guarded('config.js', 'secrets'),
      'config.js': `const LOCAL = '${SECRET}';\nexport const secrets = process.env.NODE_ENV === 'production' ? process.env.JWT : LOCAL;`,
    },
    found: [],
  },
  'a secret that repeats few characters': {
    files: {
      'app.js': guarded('config.js', 'secrets'),
      'config.js': "export const secrets = '0123456789abcdef'.repeat(4);",
    },
    found: ['SVC205 app.js:4 the secret of BearerAuth is weak: the secret repeats the same 16 characters'],
  },
  'API keys that a module exports': {
    files: {
      'app.js': `import keys from './keys.js';\n${app('APIKeyAuth, Depends', `app.get('/x', { client: Depends(APIKeyAuth({ keys })) }, ({ client }) => client);`)}`,
      'keys.js': `export default {\n  billing: '${SECRET}',\n};`,
    },
    found: [`SVC205 keys.js:2 the secret of APIKeyAuth ${WRITTEN}`],
  },
  'a password of a database in a settings object, reported once': {
    files: {
      'app.ts': `import { DatabasePlugin } from 'svc/db';\nimport { settings } from './settings.ts';\n${app('str', 'app.register(new DatabasePlugin(settings.database.url));')}`,
      'settings.ts': `export const settings = {\n  database: {\n    url: 'postgres://shop:Kettle-9-Zu7@db.internal.example/shop',\n  },\n};`,
    },
    found: [`SVC205 settings.ts:3 the password of the database ${WRITTEN}`],
  },
  'the secret of the application in a settings file': {
    files: {
      'app.js': `import { readFileSync } from 'node:fs';\n${app('BearerAuth, Depends', `app.config.loadDict(JSON.parse(readFileSync('settings.json', 'utf8')));\napp.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);`)}`,
      'settings.json': `{\n  "authSecret": "${SECRET}"\n}`,
    },
    env: { SVC_AUTH_SECRET: undefined },
    found: [`SVC205 settings.json:2 the secret of the application (SVC_AUTH_SECRET) ${WRITTEN}`],
  },
  'debug in a settings module': {
    files: {
      'app.js': `import { settings } from './settings.js';\n${app('str', "app.config.loadDict(settings);\napp.get('/', () => 'x');")}`,
      'settings.js': 'export const settings = {\n  pageSize: 20,\n  debug: true,\n};',
    },
    found: ['SVC208 settings.js:3 error responses show stack traces to every client'],
  },
  'an environment in an object of options': {
    files: {
      'app.ts': `import { options } from './options.ts';\n${app('str', "app.get('/', () => 'x');", 'options')}`,
      'options.ts': "export const options = {\n  title: 'Shop',\n  env: 'development',\n} as const;",
    },
    found: [
      'SVC208 options.ts:3 the source code sets env to "development" even in production, where every client can then read stack traces and API documents',
    ],
  },
  'an environment in the constructor, reported once': {
    files: { 'app.js': app('str', "app.get('/', () => 'x');", "{\n  env: 'development',\n}") },
    found: [
      'SVC208 app.js:3 the source code sets env to "development" even in production, where every client can then read stack traces and API documents',
    ],
  },
  'a rate limit of a login in a constant': {
    files: {
      'app.js': `import { LIMITS } from './limits.js';\n${login('app.use(new RateLimitMiddleware(LIMITS));')}`,
      'limits.js': 'export const LIMITS = {\n  perMinute: 100_000,\n};',
    },
    found: [
      'SVC204 limits.js:2 the rate limit allows 100000 attempts a minute for POST /login, too many to prevent guessing of passwords or codes',
    ],
  },
  'a rule of a rate limit for a login': {
    files: {
      'app.ts': login(
        "app.use(\n  new RateLimitMiddleware({\n    perMinute: 60,\n    rules: [{ path: '/login', perMinute: 50_000 }],\n  }),\n);",
      ),
    },
    found: [
      'SVC204 app.ts:7 the rate limit allows 50000 attempts a minute for POST /login, too many to prevent guessing of passwords or codes',
    ],
  },
  'trusted networks in a variable': {
    files: { 'app.js': app('str', "app.get('/', () => 'x');") },
    env: { SVC_TRUST_PROXY: '0.0.0.0/1,128.0.0.0/1' },
    found: [
      'SVC210 app.js:2 the network "0.0.0.0/1" of trusted proxies is too large: clients in this network can claim any IP address',
    ],
  },
  'a key of a limit that a helper reads from a header': {
    files: {
      'app.js': `import { clientOf } from './client.js';\n${app('RateLimitMiddleware', "app.use(new RateLimitMiddleware({ perMinute: 9, key: (req) => clientOf(req) }));\napp.get('/', () => 'x');")}`,
      'client.js': "export const clientOf = (req) => req.headers['x-client'] ?? req.ip;",
    },
    found: [
      'SVC210 app.js:4 the rate limit counts requests by the header "x-client", so a client can avoid the limit by sending a new value each time',
    ],
  },
  'a function for origins in another module': {
    files: {
      'app.js': `import { isOurs } from './origins.js';\n${cors('')}`,
      'origins.js':
        "const SITE = 'shop.example';\nexport const isOurs = (origin) => new URL(origin).hostname.endsWith(SITE);",
    },
    found: [
      'SVC206 app.js:5 the CORS origin function accepts https://svc-checkshop.example: an attacker could register this site and send requests with the cookies of visitors',
    ],
  },
  'origins of a variable, compared at their start': {
    files: {
      'app.ts': cors(
        "const sites = process.env['SITES']!.split(',');\nconst isOurs = (origin: string) => sites.some((site) => origin.startsWith(site));",
      ),
    },
    env: { SITES: 'https://one.example,https://two.example' },
    found: [
      'SVC206 app.ts:5 the CORS origin function accepts https://one.example.svc-check.invalid: an attacker could register this site and send requests with the cookies of visitors',
    ],
  },
  'a function for origins that accepts hosts of one site': {
    files: {
      'app.js': cors(
        "const isOurs = (origin) => origin === 'https://admin.eu.shop.example' || origin.endsWith('.shop.example');",
      ),
    },
    found: [],
  },
  'a policy that joins its directives': {
    files: {
      'app.js': `import { SecurityHeadersMiddleware, Svc } from 'svc';\nconst policy = ["default-src 'self'", "script-src 'self' 'unsafe-eval'"].join('; ');\nexport const app = new Svc();\napp.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: policy }));\napp.get('/', () => 'x');`,
    },
    found: [
      "SVC211 app.js:4 the content security policy allows 'unsafe-eval' for scripts, so a script that is injected into a page runs",
    ],
  },
  'a tool that changes a store of a class': {
    files: {
      'app.ts': app(
        'Field, int',
        "class Stock { readonly #items = new Map<number, number>(); put(id: number) { this.#items.set(id, 1); } }\nconst stock = new Stock();\napp.tool('set_stock', { description: 'Sets the stock', args: { id: Field(int) } }, ({ args }) => { stock.put(args.id); return 'done'; });\napp.mountMcp('/mcp', { hosts: ['shop.example'] });",
      ),
    },
    found: [
      'SVC201 app.ts:5 the MCP tool "set_stock" changes data, and every client of the MCP endpoint may call it',
    ],
  },
  'a handler of a WebSocket that writes rows': {
    files: {
      'app.js': `import { DatabasePlugin, db } from 'svc/db';\n${app('Depends', "app.register(new DatabasePlugin('sqlite:./votes.db'));\napp.websocket('/votes', { db: Depends(db) }, async (socket, { db }) => {\n  for await (const vote of socket) await db.execute('insert into vote values (?)', [String(vote)]);\n});")}`,
    },
    found: ['SVC201 app.js:5 messages of this WebSocket change data, and every client may send them'],
  },
  'a named condition that is always true': {
    files: {
      'app.ts': app(
        'Depends, requireIf',
        "function isStaff(_claims: object): boolean {\n  return true; // ask the service\n}\nconst staff = requireIf(isStaff);\napp.get('/staff', { me: Depends(staff) }, ({ me }) => me.sub);",
      ),
    },
    found: ['SVC201 app.ts:6 the condition is always true, so the guard accepts every authenticated client'],
  },
  'a function for API keys that accepts each': {
    files: {
      'app.js': app(
        'APIKeyAuth, Depends',
        "const partner = APIKeyAuth({ verify: async (key) => ({ name: 'partner', key }) });\napp.get('/x', { client: Depends(partner) }, ({ client }) => client.name);",
      ),
    },
    found: [
      'SVC201 app.js:3 the guard accepts even an invented API key, because its function verify() accepts every key',
    ],
  },
  'a login of another name without a limit': {
    files: {
      'app.js': app(
        'Field, Schema, checkPassword, str',
        "class Entry extends Schema { word = Field(str, { maxLength: 80 }); }\napp.post('/enter', { body: Entry, public: 'the login', status: 204 }, async ({ body }) => { await checkPassword(body.word, undefined); });",
      ),
    },
    found: [
      'SVC204 app.js:4 clients can try passwords, codes or tokens without limit, because no rate limit applies to the route',
    ],
  },
  'a static folder with the application and keys': {
    files: {
      'app.js': app('str', "app.mountStatic('/', import.meta.dirname);"),
      'server.key': '-----',
      'package.json': '{"type":"module"}',
    },
    found: [
      'SVC213 app.js:3 the static directory {cwd} contains files that are not public: package.json, node_modules, server.key',
    ],
  },
  'workers in a script of package.json': {
    files: {
      'app.js': app(
        'RateLimitMiddleware',
        "app.use(new RateLimitMiddleware({ perMinute: 60 }));\napp.get('/', () => 'x');",
      ),
      'package.json': '{"type":"module","scripts":{"start":"svc run app.js --workers 4"}}',
    },
    found: [
      'SVC403 app.js:3 each process counts requests separately: with n processes, a client may send n times as many requests as the limit allows',
    ],
  },
  'TLS without verification': {
    files: {
      'app.js': app('str', "process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';\napp.get('/', () => 'x');"),
    },
    found: [
      'SVC218 app.js:3 TLS certificates are not verified: attackers on the network can pretend to be a database, a login provider or a service',
    ],
  },
};

/** Returns the errors and warnings of an application. */
async function check(t: TestContext, { files, env = {} }: Form): Promise<string[]> {
  const cwd = folder(t, { 'package.json': '{"type":"module"}', ...files });
  mkdirSync(join(cwd, 'node_modules'), { recursive: true });
  symlinkSync(ROOT, join(cwd, 'node_modules/svc'));
  const [entry] = Object.keys(files).filter((name) => name.startsWith('app.'));
  const { stdout, stderr } = await run(process.execPath, [BIN, 'check', entry!, '--format', 'json'], {
    cwd,
    env: { SVC_AUTH_SECRET: STRONG, ...env },
  });
  assert.match(stdout, /^\{/, stderr);
  const { findings } = JSON.parse(stdout) as {
    findings: {
      rule: string;
      severity: string;
      message: string;
      place: { file: string; line: number } | null;
    }[];
  };
  return findings
    .filter(({ rule, severity }) => severity !== 'info' && rule !== 'SVC404') // SVC404 depends on the machine
    .map(
      ({ rule, message, place }) =>
        `${rule} ${place?.file}:${place?.line} ${message.replace(`${cwd} `, '{cwd} ')}`,
    );
}

for (const [name, form] of Object.entries(FORMS))
  test(`svc check reports exactly the expected findings for the example "${name}"`, async (t) => {
    assert.deepEqual(await check(t, form), form.found);
  });
