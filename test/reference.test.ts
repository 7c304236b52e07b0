/** Everything that `npm run docs` writes is up to date, and every public option is documented. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { USUAL_LIMITS } from '../src/http/server/options.ts';
import { build } from './support/build.ts';
import { manual, manuals } from './support/manuals.ts';
import { declarationsOf } from './support/reference/declarations.ts';
import { entryPoints, exportsOf } from './support/reference/exports.ts';
import { optionInterfaces, optionsOf } from './support/reference/options.ts';
import { reference, withOptionTables } from './support/reference/render.ts';
import { unreadEvents } from './support/reference/tables.ts';

build();

test('src/REFERENCE.md is exactly the text that is generated from the source code', async () => {
  const expected = (await reference()).split('\n');
  const actual = manual('src/REFERENCE.md').split('\n');
  const at = expected.findIndex((line, index) => line !== actual[index]);
  assert.equal(at, -1, `write it with "npm run docs"; line ${at + 1} is to be: ${expected[at] ?? 'the end'}`);
  assert.equal(actual.length, expected.length, 'write it with "npm run docs"');
});

test('src/REFERENCE.md has a row with a sentence for every exported name', () => {
  const rows = new Map(
    [...manual('src/REFERENCE.md').matchAll(/^\| \[`([\w$]+)`\]\([^)]+\) \| (.+) \|$/gm)].map(
      ([, name, sentence]) => [name!, sentence!],
    ),
  );
  const names = entryPoints().flatMap(([, file]) => exportsOf(file).map(({ name }) => name));
  assert.deepEqual(
    names.filter((name) => !/\w/.test(rows.get(name) ?? '')),
    [],
  );
});

test('the table of log events in src/REFERENCE.md has every event that the sources log', () => {
  assert.deepEqual(unreadEvents(), []);
  for (const event of ['response_refused', 'log_lines_dropped', 'migration_changed', 'client_disconnected'])
    assert.match(manual('src/REFERENCE.md'), new RegExp(`^\\| \`${event}\` \\|`, 'm'));
});

for (const [name, section, reason] of [
  ['requireSession', 'auth/README.md#choose-a-dependency', 'a row of a table is about it'],
  ['currentUser', 'oauth/README.md#sessions', 'a row of a table is about it'],
  ['HTTPException', 'http/README.md#errors', 'a row of a table is about it'],
  ['IssuerAuth', 'auth/README.md#accept-tokens-of-keycloak-entra-auth0-okta-cognito', 'its row refers to it'],
  ['TrustedHostMiddleware', 'http/README.md#trusted-hosts-and-request-ids', 'its title begins with the name'],
  ['RedisOptions', 'db/README.md#redis-and-valkey', 'the section has the class that takes it'],
  ['csrfToken', 'auth/README.md#csrf-protection', 'the manual of its folder mentions it only in passing'],
  ['Session', 'auth/README.md#sessions', 'it has the SessionOptions of its entry point'],
  ['Session', 'db/README.md#query', 'the SessionOptions are those of another entry point'],
  ['Database', 'db/README.md#query', 'a row of a table is about it'],
  ['StateKey', 'http/README.md#middleware', 'the section has the function that makes it'],
  [
    'RouteRateLimit',
    'http/README.md#security-headers-cors-rate-limits',
    'the section has its table of options',
  ],
  [
    'Host',
    'app/README.md#write-a-plugin',
    'its program takes the interface, and the header field of that name is another thing',
  ],
] as const) {
  test(`src/REFERENCE.md links ${name} to ${section}, because ${reason}`, () => {
    assert.ok(manual('src/REFERENCE.md').includes(`\n| [\`${name}\`](${section}) |`));
  });
}

test('the tables of options in the manuals are those of the doc comments', () => {
  const tables = manuals().flatMap(({ text }) => text.match(/^<!-- options of /gm) ?? []);
  assert.ok(tables.length >= 20, `${tables.length} tables`);
  for (const { path, text } of manuals())
    assert.equal(withOptionTables(text), text, `${path}: write it with "npm run docs"`);
});

test('every option of an exported interface has a doc comment', () => {
  const names = optionInterfaces();
  assert.ok(names.length > 100, `${names.length} interfaces`);
  assert.deepEqual(
    names.flatMap((name) =>
      optionsOf(name)
        .filter(({ meaning }) => meaning === '')
        .map((option) => `${name}.${option.name}`),
    ),
    [],
  );
});

/** Numbers of a default, without separators: `1_000` and `1,000` are 1000; MiB and KiB are bytes. */
function numbersIn(text: string): number[] {
  return [...text.replace(/(?<=\d)[,_](?=\d{3})/g, '').matchAll(/\d+(?:\.\d+)?( [MK]iB)?/g)].map(
    ([number, unit]) =>
      Number.parseFloat(number) * (unit === ' MiB' ? 1_048_576 : unit === ' KiB' ? 1_024 : 1),
  );
}

test('each default value in a table of a manual that is written by hand is that of an option of this name', () => {
  const known = new Map<string, Set<number>>();
  for (const { name, default: value } of optionInterfaces().flatMap(optionsOf))
    for (const number of numbersIn(value ?? '')) known.set(name, (known.get(name) ?? new Set()).add(number));
  for (const [limit, value] of Object.entries(USUAL_LIMITS)) known.set(limit, new Set([value]));
  const compared: string[] = [];
  const wrong: string[] = [];
  for (const { path, text } of manuals().filter((each) => each.path !== 'src/REFERENCE.md')) {
    for (const [, names, value] of text.matchAll(/^\| ((?:`\w+`(?:, )?)+)[^|]* \| ([^|]*) \| .* \|$/gm)) {
      const options = [...names!.matchAll(/\w+/g)].map(([name]) => name);
      const values = value!.split(', ');
      for (const [index, option] of options.entries()) {
        const [number] = numbersIn((values.length === options.length ? values[index] : values[0]) ?? '');
        const expected = known.get(option);
        if (number === undefined || expected === undefined) continue;
        compared.push(option);
        if (!expected.has(number))
          wrong.push(`${path}: ${option} ${number}, not ${[...expected].join(' or ')}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(compared.length >= 5, `${compared.length}`);
});

test('declarationsOf() returns the declarations, members, overloads and doc comments of a .d.ts file', () => {
  const text = [
    "import type { X } from './x.ts';",
    '/** A. */',
    'export interface A<T extends { readonly a: string } = { readonly a: "}" }> {',
    '    /** Takes "}". Default 5. */',
    '    readonly size?: number | undefined;',
    '    load(name: string): { readonly ok: true; };',
    '    /** Hidden. @internal */',
    '    readonly hidden: X;',
    '}',
    '/** One. */',
    'export declare function f(a: string): void;',
    'export declare function f(a: number): void;',
    'export declare class C {',
    '    #private;',
    '    private x;',
    '    constructor(a: string);',
    '    get b(): string;',
    '}',
    'type Own = { a: 1; };',
    'export {};',
  ].join('\n');
  assert.deepEqual(
    declarationsOf(text).map(({ kind, name, doc, members }) => [
      kind,
      name,
      doc,
      members.map((each) => each.text),
    ]),
    [
      [
        'interface',
        'A',
        'A.',
        ['readonly size?: number | undefined', 'load(name: string): { readonly ok: true; }'],
      ],
      ['function', 'f', 'One.', []],
      ['function', 'f', '', []],
      ['class', 'C', '', ['constructor(a: string)', 'get b(): string']],
      ['type', 'Own', '', []],
    ],
  );
});
