/**
 * CPU time by the length of the input. Each work runs with an input, and with one of a quarter of its length.
 *
 *   node --conditions=svc-source test/soak/growth.ts
 *
 *   linear      at most 8 times as long for the longer input; quadratic work takes 16 times as long
 *   constant    at most twice as long
 *   bounded     at most LIMIT_MS, where the input has a maximum length
 *
 * The least of several runs counts, because garbage collections and compilations only add time. A control must
 * be found: quadratic work that is declared as linear. SOAK_SECONDS has no effect.
 */
import assert from 'node:assert/strict';
import { ByteQueue } from '../../src/base/bytes.ts';
import { readToken, tokenChecks } from '../../src/crypto/jwt.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { scanned } from '../../src/db/placeholders.ts';
import { mysqlError } from '../../src/db/mysql/errors.ts';
import { arrayFromText } from '../../src/db/postgres/arrays.ts';
import { postgresError } from '../../src/db/postgres/errors.ts';
import { readErrorFields } from '../../src/db/postgres/messages.ts';
import { parseCookies } from '../../src/http/cookies.ts';
import { clientHas } from '../../src/http/files/preconditions.ts';
import { readIdempotencyKey } from '../../src/http/middleware/idempotency.ts';
import { parseParameters } from '../../src/http/headers.ts';
import { canonicalPath } from '../../src/http/path.ts';
import { readTraceContext } from '../../src/http/request-id.ts';
import { MultipartParser } from '../../src/http/request/multipart.ts';
import { readTrustProxy } from '../../src/http/request/proxy.ts';
import { parsePairs } from '../../src/http/request/query.ts';
import { RoutingTable } from '../../src/http/router.ts';
import { ProtectedValues } from '../../src/crypto/protected-values.ts';
import { parseExtensions } from '../../src/http/websocket/handshake.ts';
import { Depends, Svc, requireScopes } from '../../src/index.ts';
import { createLogger } from '../../src/observability/log.ts';
import { prose } from '../../src/openapi/docs/markdown.ts';
import { openapiDocument } from '../../src/openapi/openapi.ts';
import { analysePattern } from '../../src/schema/pattern.ts';
import {
  Field,
  Schema,
  any,
  bytes,
  compileType,
  fieldsOf,
  int,
  list,
  record,
  str,
} from '../../src/schema/schema.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { fileOf, written } from '../support/multipart-reference.ts';
import { failure } from '../support/postgres-bytes.ts';

const FACTOR = { linear: 8, constant: 2 } as const;
/** Milliseconds that a garbage collection may add to every run. */
const SLACK_MS = 10;
const LIMIT_MS = 500;
const RUNS = 5;
/** A busy machine can spoil all runs of one try; work that grows too fast fails every try. */
const TRIES = 5;

const SECRET = 'a secret of this soak, with more than 32 bytes';
const TRACEPARENT = '00-12345678901234567890123456789012-1234567890123456-01';
const BOUNDARY = '----WebKitFormBoundary0123456789abcdef';

type Growth = keyof typeof FACTOR;
/** Makes the input of a length, and returns the work on it. */
type Make = (length: number) => () => unknown;
type Row = readonly [growth: Growth, what: string, length: number, make: Make];

const filled = (part: string, length: number): string => part.repeat(Math.ceil(length / part.length));

/** One row for each part, whose repetition is the input. */
const repeated = (
  growth: Growth,
  what: string,
  length: number,
  parts: readonly string[],
  work: (text: string) => unknown,
): Row[] =>
  parts.map((part) => [
    growth,
    `${what} of ${JSON.stringify(part)}`,
    length,
    (most) => {
      const text = filled(part, most);
      return () => work(text);
    },
  ]);

const HEADERS: readonly Row[] = [
  ...repeated('linear', 'parseParameters()', 50_000, [' ', '\\a', ';', ';a="'], (text) => [
    parseParameters(`a;x="${text}`),
    parseParameters(`a;${text}`),
  ]),
  ...repeated('linear', 'parsePairs()', 10_000_000, ['a'], (text) => [
    parsePairs('a&'.repeat(999) + text),
    parsePairs(`${'a&'.repeat(999)}${text}=b`),
  ]),
  ...repeated('linear', 'parseCookies()', 10_000_000, ['a'], (text) => parseCookies('a;'.repeat(999) + text)),
  ...repeated('linear', 'parseCookies()', 256_000, ['a=1;', 's1.a.1.1.', '=', ';'], parseCookies),
  ...repeated('linear', 'readTraceContext()', 64_000, [' ', ',', 'a', '-'], (text) => [
    readTraceContext(text, text),
    readTraceContext(`${TRACEPARENT}-${text}`, `foo=${text}x\x01`),
    readTraceContext(TRACEPARENT, `foo=1${text}\x01`),
  ]),
  ...repeated('linear', 'clientHas()', 120_000, ['"a", ', ' ,\t'], (text) =>
    clientHas(
      { method: 'GET', headers: { 'if-none-match': `${text}x` } },
      { etag: '"x"', lastModified: undefined },
    ),
  ),
  ...repeated('linear', 'parseExtensions()', 64_000, ['a;', 'a ', 'a; b="\\', '; ;'], parseExtensions),
  ...(['x-forwarded', 'forwarded'] as const).flatMap((header) => {
    const trust = readTrustProxy(['10.0.0.0/8'], { header, saysHost: true })!;
    return repeated(
      'linear',
      `ProxyTrust.resolve(), ${header},`,
      64_000,
      ['10.0.0.2,', 'for="\\', ',', 'a'],
      (text) => trust.resolve('10.0.0.1', () => text),
    );
  }),
  ...(['signed', 'sealed'] as const).flatMap((protection) => {
    const reader = new ProtectedValues(Keyring.of(SECRET), 'test', protection);
    const head = protection === 'signed' ? 's1.' : 'e1.';
    return repeated('constant', `ProtectedValues.read(), ${protection},`, 20_000_000, ['a.'], (text) =>
      reader.read('a', head + text, 1_500),
    );
  }),
  ...repeated('constant', 'readToken(), a thousand times,', 1_000_000, ['a'], (text) => {
    const [keys, checks] = [Keyring.of(SECRET), tokenChecks('test', {})];
    for (let index = 0; index < 1_000; index++) assert.equal(readToken(keys, text, checks, 1_500), 'length');
  }),
];

function multipart(body: Buffer): void {
  const ignored = (): void => undefined;
  const most = 1e9;
  const parser = new MultipartParser(
    BOUNDARY,
    { onPart: ignored, onData: ignored, onPartEnd: ignored },
    {
      maxHeaderBytes: 1_000,
      maxFields: 100,
      maxFiles: 100,
      maxFieldBytes: most,
      maxTextBytes: most,
      maxFileBytes: most,
    },
  );
  for (let at = 0; at < body.length; at += 65_536) parser.push(body.subarray(at, at + 65_536));
  assert.equal(parser.end(), undefined);
}

/** A part that the queue keeps without a copy. All parts are one object: a new one each would measure collections. */
const PART = new Uint8Array(513);

/** A message that arrives byte by byte, and one that arrives in parts. */
function queued(bytes: number): void {
  const queue = new ByteQueue();
  const one = new Uint8Array(1);
  for (let count = 1; count <= bytes; count++) {
    queue.push(one);
    queue.peek(count);
    queue.indexOf(10, count - 1);
  }
  assert.equal(queue.take(bytes)!.length, bytes);
  for (let count = 0; count < bytes; count++) queue.push(PART);
  for (let count = 1; count <= bytes; count++) queue.skip(PART.length);
  for (let count = 1; count <= bytes / 50; count++) {
    queue.push(PART);
    queue.peek(PART.length * count);
  }
}

const NEAR = `\r\n--${BOUNDARY.slice(0, -1)}`;
const BODIES: readonly Row[] = [
  ['linear', 'ByteQueue', 200_000, (length) => () => queued(length)],
  ...['\r\n-', '\r\n--', '\r', NEAR, `${NEAR}X`, '-'.repeat(64)].map((unit): Row => [
    'linear',
    `MultipartParser, a file of ${JSON.stringify(unit)}`,
    12_500_000,
    (length) => {
      const body = written([fileOf('f', 'f', filled(unit, length))], BOUNDARY);
      return () => multipart(body);
    },
  ]),
];

const log = createLogger({ format: 'json', level: 'debug', sink: () => undefined });
const UNSAFE = [
  'a.',
  'a-',
  'a://',
  'a://x:',
  'Bearer ',
  'Bearer\t',
  '?code=',
  '-eyJ',
  'eyJaaaaaaaa.',
  ':@',
  'a:b@',
];
const MARKDOWN = [
  '[',
  '*',
  '**',
  '`',
  '_a',
  '[a](',
  '<',
  '|',
  '> ',
  '- ',
  '\\',
  'https://',
  '1. ',
  '[](',
  '|\n|-|\n',
];
const SQL = [
  ...[
    "'",
    '/*',
    '$a$',
    '$a',
    "E'\\",
    '--',
    '? ',
    '??',
    "E'a'\n",
    "' --\n",
    '[',
    '`',
    '/*!',
    ';',
    'a;',
    '(;\n',
  ],
  'create trigger t begin ;',
];
const MARKS = [':„', '「', '"', '«f» ', "value '", "entry '", "record '", '`', '('];
let statements = 0;
const TEXTS: readonly Row[] = [
  ...repeated('linear', 'a logged text', 400_000, UNSAFE, (text) => log.info('event', { text })),
  ...repeated('linear', 'a logged body of 990 texts', 7_168, UNSAFE, (text) =>
    log.info('event', { body: Array.from({ length: 10 }, () => new Array<string>(99).fill(text)) }),
  ),
  ...repeated('linear', 'prose()', 100_000, MARKDOWN, prose),
  ...(['postgres', 'mysql', 'mariadb', 'sqlite'] as const).flatMap((dialect) =>
    // known statements are not scanned again
    repeated('linear', `scanned() for ${dialect}`, 300_000, SQL, (text) =>
      scanned(`${++statements} ${text}`, dialect),
    ),
  ),
  ...repeated('linear', 'arrayFromText()', 1_000_000, ['{', '{a,', '{"a\\', '}'], (text) =>
    arrayFromText(text, (element) => element, ','),
  ),
  ...['22023', '42704', '23503'].flatMap((sqlstate) =>
    repeated('linear', `postgresError() of ${sqlstate}`, 200_000, MARKS, (text) => {
      const bytes = failure({ S: 'ERROR', C: sqlstate, M: text, D: text });
      return postgresError(readErrorFields(bytes, 5, bytes.length), 'select f($1)');
    }),
  ),
  ...[1062, 1231, 1366, 1452, 1761].flatMap((errno) =>
    repeated('linear', `mysqlError() of ${errno}`, 200_000, MARKS, (message) =>
      mysqlError({ errno, sqlstate: '23000', message }, 'select f(?)'),
    ),
  ),
];

const parse = (type: { parseJson(value: unknown): unknown }, make: (length: number) => unknown): Make => {
  return (length) => {
    const value = make(length);
    return () => type.parseJson(value);
  };
};
const numbers = (length: number): number[] => Array.from({ length }, (_, index) => index);
const wrong = (length: number): number[] => new Array<number>(length).fill(NaN);
const members = (length: number): object =>
  Object.fromEntries(wrong(length).map((value, at) => [`k${at}`, value]));
class Forbidding extends Schema {
  static extra = 'forbid';
}
const FORMATS = ['email', 'uri', 'uuid', 'date', 'date-time', 'hostname', 'ipv6', 'time'] as const;
const VALUES: readonly Row[] = [
  ['linear', 'a list of numbers', 400_000, parse(compileType(list(int)), numbers)],
  ['linear', 'a list of wrong numbers', 400_000, parse(compileType(list(int)), wrong)],
  ['linear', 'any list of wrong numbers', 400_000, parse(compileType(any), wrong)],
  ['linear', 'a record of wrong numbers', 100_000, parse(compileType(record(int)), members)],
  ['linear', 'any object of wrong numbers', 100_000, parse(compileType(any), members)],
  ['linear', 'forbidden members', 100_000, parse(compileType(Forbidding), members)],
  ['linear', 'bytes in base64', 4_000_000, parse(compileType(bytes), (length) => filled('QUJD', length))],
  ...FORMATS.map((format): Row => {
    const type = fieldsOf({ x: Field(str, { format }) });
    return [
      'linear',
      `a text of the format ${format}`,
      1_000_000,
      parse(type, (length) => ({ x: 'x'.repeat(length) })),
    ];
  }),
];

const never = (): never => {
  throw new Error('not called');
};
function application(routes: number): Svc {
  const app = new Svc({ env: 'test', authSecret: SECRET, logger: createLogger({ sink: () => undefined }) });
  for (let index = 0; index < routes; index++) {
    class Item extends Schema {
      id = Field(int);
      names = Field(list(str));
    }
    app.post(
      `/items${index}/{id:int}`,
      { body: Item, response: Item, query: { page: Field(1) }, me: Depends(requireScopes('read')) },
      never,
    );
  }
  return app;
}

const TEMPLATES = [
  '/s#/list',
  '/r#/{id:int}',
  '/r#/{id:int}/part/{part}',
  '/x/#/{rest:path}',
  '/{a}/y#',
] as const;
function table(templates: readonly string[]): RoutingTable<string> {
  const routes = new RoutingTable<string>();
  for (const template of templates) routes.add('GET', template, template);
  routes.freeze();
  return routes;
}
const templatesOf = (count: number): string[] =>
  numbers(count).map((index) => TEMPLATES[index % TEMPLATES.length]!.replace('#', String(index)));

const ROUTES: readonly Row[] = [
  [
    'linear',
    'a document of OpenAPI, by routes',
    400,
    (routes) => {
      const view = application(routes).inspect();
      return () => openapiDocument(view);
    },
  ],
  [
    'linear',
    'app.check(), by routes',
    400,
    (routes) => {
      const app = application(routes);
      return () => app.check();
    },
  ],
  [
    'linear',
    'RoutingTable.add(), by routes',
    10_000,
    (count) => {
      const templates = templatesOf(count);
      return () => table(templates);
    },
  ],
  [
    'constant',
    'RoutingTable.match() of a static path, by routes',
    20_000,
    (count) => {
      const routes = table([...templatesOf(count), '/last']);
      return () => {
        for (let round = 0; round < 50_000; round++) routes.match('GET', '/last');
      };
    },
  ],
];

function branching(): RoutingTable<string> {
  const kinds = ['{a:int}', '{a:float}', '{a}', '1'];
  const segment = (code: number, at: number): string =>
    kinds[Math.floor(code / 4 ** at) % 4]!.replace('a', `a${at}`);
  return table(
    numbers(4 ** 5).map(
      (code) =>
        `/${numbers(5)
          .map((at) => segment(code, at))
          .join('/')}/end`,
    ),
  );
}
const branches = branching();
const PATHS = [
  '/1/1/1/1/1/never',
  `/${'1'.repeat(16_000)}`,
  '/1'.repeat(8_000),
  '/'.repeat(16_000),
  '/%2F'.repeat(4_000),
  `/1/1/1/1/${'1'.repeat(15_000)}/no`,
];
const PATTERNS = [
  ...[/^(a+){2}$/, /^(a+){3}$/, /^(a+){4}$/, /^(a+){6}$/, /^(a*?){9}$/, /^(a+){11}$/, /^a*a*a*a*a*a*$/],
  ...[/(a+)+$/, /^(?=(a+)+$)/, /^(a{1,11}){1,11}$/],
];
const KEYS = [
  `"a"${' ;a'.repeat(340)}!`,
  `"a"${';a="'.repeat(250)}!`,
  `"${'\\\\'.repeat(511)}`,
  `"a";${' '.repeat(1_000)}!`,
];
const ADDRESSES = [
  `a@${'a.'.repeat(125)}`,
  `a@${'a-'.repeat(125)}`,
  `${'a.'.repeat(126)}@`,
  `${'a.'.repeat(125)}-`,
];
const addressTypes = (['email', 'uri', 'hostname'] as const).map((format) =>
  fieldsOf({ x: Field(str, { format }) }),
);

const BOUNDED: readonly (readonly [what: string, work: () => unknown])[] = [
  [
    'RoutingTable.match() of the worst paths',
    () => PATHS.map((path) => branches.match('GET', canonicalPath(path))),
  ],
  ...PATTERNS.map((pattern) => {
    const text = `${'a'.repeat(analysePattern(pattern)!.maxTestedLength - 1)}!`;
    return [`the longest text that ${pattern} tests`, () => assert.equal(pattern.test(text), false)] as const;
  }),
  ['readIdempotencyKey()', () => KEYS.map(readIdempotencyKey)],
  ['addresses', () => addressTypes.map((type) => ADDRESSES.map((x) => type.parseJson({ x })))],
];

function timeOf(work: () => unknown): number {
  const startedMs = cpuMs();
  work();
  return cpuMs() - startedMs;
}

/** Returns the least CPU time for a quarter of the length, and for the whole length. */
function timesOf([, , length, make]: Row): readonly [shortMs: number, longMs: number] {
  const [short, long] = [make(length / 4), make(length)];
  short();
  let [shortMs, longMs] = [Infinity, Infinity];
  for (let run = 0; run < RUNS; run++) {
    shortMs = Math.min(shortMs, timeOf(short));
    longMs = Math.min(longMs, timeOf(long));
  }
  return [shortMs, longMs];
}

/** Returns the work that takes too long in every try, undefined if the row holds. */
function problemOf(row: Row, tries: number = TRIES): string | undefined {
  const [shortMs, longMs] = timesOf(row);
  const [growth, what, length] = row;
  if (longMs <= FACTOR[growth] * shortMs + SLACK_MS) return undefined;
  if (tries > 1) return problemOf(row, tries - 1);
  return `${what}: ${shortMs.toFixed(1)} ms for ${length / 4}, ${longMs.toFixed(1)} ms for ${length}: not ${growth}`;
}

const control: Row = [
  'linear',
  'a control',
  16_000,
  (length) => {
    const text = `${' '.repeat(length)}x`;
    return () => assert.equal(/\s+$/.test(text), false);
  },
];
assert.notEqual(problemOf(control), undefined, 'quadratic work was not found: this measures nothing');
const rows = [...HEADERS, ...BODIES, ...TEXTS, ...VALUES, ...ROUTES];
const problems = rows.map((row) => problemOf(row)).filter((problem) => problem !== undefined);
for (const [what, work] of BOUNDED) {
  const ms = Math.min(...numbers(RUNS).map(() => timeOf(work)));
  if (ms > LIMIT_MS) problems.push(`${what}: ${ms.toFixed(1)} ms`);
}
assert.deepEqual(problems, []);
console.log(`ok: ${rows.length} works grow as they should, ${BOUNDED.length} are bounded`);
