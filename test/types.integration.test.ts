/**
 * test/types holds enough: that it compiles with the sources is a matter of `tsc`, that it does with the package of package.test.ts.
 * The types of a route stay cheap to compile.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ROOT } from './support/build.ts';
import { folder, run, type Ended } from './support/run.ts';
import { TYPE_ASSERTIONS } from './support/type-assertions.ts';

test('test/types contains at least 60 type assertions and at least 20 expected type errors', () => {
  const count = (pattern: RegExp): number =>
    Object.values(TYPE_ASSERTIONS).reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);
  assert.ok(count(/^\s*(?:is|same)<.*>\(.*\);|\{ is<.*>\(\); \}/gm) >= 60);
  assert.ok(count(/\/\/ @ts-expect-error \S/g) >= 20);
});

const SCHEMAS = (n: number): string =>
  `class Made${n} extends Schema { a${n} = Field(str); b = Field(int); }\nclass Missing${n} extends Schema { id${n} = Field(int); }\n`;
/** Routes of each kind, and the most type instantiations that one of them may cost. Measured: 58, 280 and 555. */
const ROUTES: Readonly<Record<string, readonly [most: number, route: (n: number) => string]>> = {
  'without a spec': [62, (n) => `app.get('/p${n}/{id:int}', ({ params }) => ({ id: params.id }));\n`],
  'with a body and a response': [
    285,
    (n) => `${SCHEMAS(n)}app.post('/q${n}', { body: Made${n}, response: Made${n} }, ({ body }) => body);\n`,
  ],
  'with a body and a response for each status': [
    570,
    (n) =>
      `${SCHEMAS(n)}app.post('/k${n}/{id:int}', { body: Made${n}, response: { 201: Made${n}, 404: Missing${n} } }, ({ body, params }) => params.id > 0 ? reply(body, 201) : reply({ id${n}: params.id }, 404));\n`,
  ],
};
const FLAGS =
  '--ignoreConfig --noEmit --extendedDiagnostics --strict --exactOptionalPropertyTypes --target es2023 --lib esnext --module nodenext --types node --allowImportingTsExtensions --skipLibCheck';

/** Compiles a program. */
function compiled(t: TestContext, program: string): Promise<Ended> {
  const cwd = folder(t, { 'app.ts': program });
  return run(
    process.execPath,
    [
      join(ROOT, 'node_modules/typescript/bin/tsc'),
      ...FLAGS.split(' '),
      '--typeRoots',
      join(ROOT, 'node_modules/@types'),
      'app.ts',
    ],
    { cwd, env: { NODE_V8_COVERAGE: '' } },
  );
}

/** Returns the number of type instantiations with which a program compiles. */
async function instantiations(t: TestContext, program: string): Promise<number> {
  const { status, stdout, stderr } = await compiled(
    t,
    `import { Field, Schema, Svc, int, reply, str } from ${JSON.stringify(join(ROOT, 'src/index.ts'))};\nconst app = new Svc();\n${program}`,
  );
  assert.equal(status, 0, stdout + stderr);
  return Number(/^Instantiations: +(\d+)$/m.exec(stdout)?.[1]);
}

for (const [kind, [most, route]] of Object.entries(ROUTES)) {
  test(`the TypeScript compiler creates at most ${most} type instantiations for each route ${kind}`, async (t) => {
    const [few, many] = [20, 70];
    const costs = [few, many].map((count) =>
      instantiations(t, Array.from({ length: count }, (_, n) => route(n)).join('')),
    );
    const [before, after] = (await Promise.all(costs)) as [number, number];
    const each = (after - before) / (many - few);
    assert.ok(each > 0 && each <= most, `${each} instantiations`);
  });
}

test('the TypeScript compiler creates at most 90,000 type instantiations for 300 routes of five methods', async (t) => {
  const methods = [
    ['post', 'body'],
    ['put', 'body'],
    ['patch', 'body'],
    ['get', 'query'],
    ['delete', 'query'],
  ] as const;
  const route = (n: number): string => {
    const [method, input] = methods[n % methods.length]!;
    return `${SCHEMAS(n)}app.${method}('/q${n}', { ${input}: Made${n}, response: Made${n} }, ({ ${input} }) => ${input});\n`;
  };
  const program = Array.from({ length: 300 }, (_, n) => route(n)).join('');
  const [without, all] = (await Promise.all([instantiations(t, ''), instantiations(t, program)])) as [
    number,
    number,
  ];
  assert.ok(all - without <= 90_000, `${all - without} instantiations`);
});

test('the error of the TypeScript compiler for a statement names the value that is wrong', async (t) => {
  const methods = ['execute', 'fetchOne', 'fetchAll', 'fetchSets', 'fetchArrays', 'scalar', 'stream'];
  const values = methods.flatMap((method) => [
    `export const ${method}1 = session.${method}('select ?', [undefined]);`,
    `export const ${method}2 = session.${method}('select ?', [undefined], { timeoutMs: 5 });`,
  ]);
  const { stdout } = await compiled(
    t,
    `import type { Session } from ${JSON.stringify(join(ROOT, 'src/db/index.ts'))};\ndeclare const session: Session;\n${values.join('\n')}\n`,
  );
  const found = stdout.match(/Type 'undefined' is not assignable to type 'Parameter'/g) ?? [];
  assert.equal(found.length, values.length, stdout);
  assert.doesNotMatch(stdout, /'Sql'/);
});

const DECLARATIONS = `import { Depends, Field, Schema, Svc, int, list, literal, reply, str } from ${JSON.stringify(join(ROOT, 'src/index.ts'))};
class Note extends Schema { id = Field(int); text = Field(str); }
class Home extends Schema { city = Field(str); zip = Field(str, { optional: true }); }
class User extends Schema { name = Field(str); home = Field(Home); }
class Shape extends Schema { kind = Field(literal('a', 'b')); x = Field(int); }
class Missing extends Schema { reason = Field(str); }
class Unrelated { id = 1; }
const connection = () => ({ query: (sql: string) => sql.length });
const app = new Svc();
app.get('/right', { db: Depends(connection), response: Shape }, () => reply({ kind: 'a', x: 1 }));
`;
/** Common mistakes, and the last line of the error: before version 1.4 (commit 5868be7e), and now. */
const MISTAKES: readonly (readonly [mistake: string, code: string, before: string, now: string])[] = [
  [
    'a member of a reply has another type',
    "app.post('/a', { response: { 201: Note, 404: Missing } }, () => reply({ id: 'x', text: 'y' }, 201));",
    "Type '201' is not assignable to type 'UndeclaredError<{ readonly 201: typeof Note; readonly 404: typeof Missing; }>'.",
    "Type 'string' is not assignable to type 'Declared<\"response.201.id\", number>'.",
  ],
  [
    'a reply lacks a member',
    "app.post('/a', { response: { 201: Note, 404: Missing } }, () => reply({ id: 1 }, 201));",
    "Type '201' is not assignable to type 'UndeclaredError<{ readonly 201: typeof Note; readonly 404: typeof Missing; }>'.",
    "Property 'text' is missing in type '{ readonly id: 1; }' but required in type '{ id: number; text: string; }'.",
  ],
  [
    'a member of the returned object has another type',
    "app.get('/a', { response: Note }, () => ({ id: 'x', text: 'y' }));",
    "Type 'string' is not assignable to type 'number'.",
    "Type 'string' is not assignable to type 'Declared<\"response.id\", number>'.",
  ],
  [
    'the promised object lacks a member',
    "app.get('/a', { response: Note }, async () => ({ id: 1 }));",
    "Property 'text' is missing in type '{ readonly id: 1; }' but required in type '{ id: number; text: string; }'.",
    "Property 'text' is missing in type '{ readonly id: 1; }' but required in type '{ id: number; text: string; }'.",
  ],
  [
    'a nested member has another type',
    "app.get('/a', { response: User }, () => ({ name: 'a', home: { city: 1 } }));",
    "Type 'number' is not assignable to type 'string'.",
    "Type 'number' is not assignable to type 'Declared<\"response.home.city\", string>'.",
  ],
  [
    'a member of a list item has another type',
    "app.get('/a', { response: list(Note) }, () => [{ id: 'x', text: 'y' }]);",
    "Type 'string' is not assignable to type 'number'.",
    "Type 'string' is not assignable to type 'Declared<\"response[].id\", number>'.",
  ],
  [
    'a list is declared, and one object is returned',
    "app.get('/a', { response: list(Note) }, () => ({ id: 1, text: 'y' }));",
    "Type 'string' is not assignable to type '() => Promise<string>'.",
    'Type \'{ readonly id: 1; readonly text: "y"; }\' is not assignable to type \'"response is declared as a list, and this is one value"\'.',
  ],
  [
    'one object is declared, and a list is returned',
    "app.get('/a', { response: Note }, () => [{ id: 1, text: 'y' }]);",
    "Property '1' is missing in type 'readonly [{ readonly id: 1; readonly text: \"y\"; }]' but required in type 'StatusTuple<{ id: number; text: string; }, number>'.",
    'Type \'readonly [{ readonly id: 1; readonly text: "y"; }]\' is not assignable to type \'"response is declared as one value, and this is a list"\'.',
  ],
  [
    'the body is that of another status',
    "app.get('/a', { response: { 200: Note, 404: Missing } }, () => reply({ id: 1, text: 'x' }, 404));",
    "Type '404' is not assignable to type 'UndeclaredError<{ readonly 200: typeof Note; readonly 404: typeof Missing; }>'.",
    "Property 'reason' is missing in type '{ readonly id: 1; readonly text: \"x\"; }' but required in type '{ reason: string; }'.",
  ],
  [
    'the body of [body, status] has a wrong member',
    "app.get('/a', { response: { 200: Note, 404: Missing } }, () => [{ reason: 1 }, 404]);",
    "Type '404' is not assignable to type 'UndeclaredError<{ readonly 200: typeof Note; readonly 404: typeof Missing; }>'.",
    "Type 'number' is not assignable to type 'Declared<\"response.404.reason\", string>'.",
  ],
  [
    'the status is not declared',
    "app.get('/a', { response: { 200: Note, 404: Missing } }, () => reply({ id: 1, text: 'x' }, 201));",
    "Type '201' is not assignable to type 'UndeclaredError<{ readonly 200: typeof Note; readonly 404: typeof Missing; }>'.",
    'Type \'{ readonly id: 1; readonly text: "x"; }\' is not assignable to type \'"response declares no status 201: declare it, or return a declared status"\'.',
  ],
  [
    'the status is missing',
    "app.get('/a', { response: { 200: Note, 404: Missing } }, () => reply({ id: 1, text: 'x' }));",
    "Type 'number' is not assignable to type 'UndeclaredError<{ readonly 200: typeof Note; readonly 404: typeof Missing; }>'.",
    'Type \'{ readonly id: 1; readonly text: "x"; }\' is not assignable to type \'"response declares types by status: add the status, such as reply(body, 201)"\'.',
  ],
  [
    'a literal is not one of the declared',
    "app.get('/a', { response: Shape }, () => reply({ kind: 'c', x: 1 }));",
    "Type 'number' is not assignable to type '400 | 401 | 402 | 403 | 404 | 405 | 406 | 409 | 410 | 411 | 412 | 413 | 415 | 416 | 417 | 421 | 422 | 423 | 424 | 425 | 426 | 428 | 429 | 431 | 451 | 500 | 501 | 502 | 503 | 504 | 507'.",
    'Type \'string\' is not assignable to type \'Declared<"response.kind", "a" | "b">\'.',
  ],
  [
    'an await is missing',
    "app.get('/a', { response: Note }, () => ({ id: Promise.resolve(1), text: 'y' }));",
    "Type 'Promise<number>' is not assignable to type 'number'.",
    "Type 'Promise<number>' is not assignable to type '\"response.id is a promise: write await before it\"'.",
  ],
  [
    'the handler returns nothing',
    "app.get('/a', { response: Note }, () => undefined);",
    "Type 'undefined' is not assignable to type 'Note | Promise<Note | { id: number; text: string; } | Answer<...> | Answer<...> | OtherReply> | { ...; } | Answer<...> | Answer<...> | OtherReply'.",
    "Type 'undefined' is not assignable to type 'Declared<\"response\", { id: number; text: string; }>'.",
  ],
  [
    'a function is not a dependency',
    "app.get('/a', { db: connection }, () => 1);",
    'Type \'() => { query: (sql: string) => number; }\' is not assignable to type \'"\\"db\\" is neither a route option nor Depends(…): put your own data into meta"\'.',
    'Type \'() => { query: (sql: string) => number; }\' is not assignable to type \'"\\"db\\" is neither an option of a GET route nor Depends(…): use query, app.post(), or meta for your own data"\'.',
  ],
  [
    'an option is misspelt',
    "app.post('/a', { sumary: 'x' }, () => 1);",
    "Type 'string' is not assignable to type 'never'.",
    'Type \'"x"\' is not assignable to type \'"\\"sumary\\" is neither a route option nor Depends(…): put your own data into meta"\'.',
  ],
  [
    'a nested option is misspelt',
    "app.get('/a', { rateLimit: { perMinit: 5 } }, () => 1);",
    "Property 'perMinute' is missing in type '{ perMinit: 5; }' but required in type 'RouteRateLimit'.",
    "Object literal may only specify known properties, but 'perMinit' does not exist in type 'RouteRateLimit'. Did you mean to write 'perMinute'?",
  ],
  [
    'an option has another type',
    "app.get('/a', { status: 'created' }, () => 1);",
    "Type 'string' is not assignable to type 'never'.",
    "Type 'string' is not assignable to type 'number'.",
  ],
  [
    'the converter does not exist',
    "app.get('/a/{id:integer}', () => 1);",
    'Argument of type \'"/a/{id:integer}"\' is not assignable to parameter of type \'"Unknown path converter \\"integer\\": use str, int, float, uuid or path"\'.',
    'Argument of type \'"/a/{id:integer}"\' is not assignable to parameter of type \'"Unknown path converter \\"integer\\": use str, int, float, uuid, path or path?"\'.',
  ],
  [
    'a GET route has a body',
    "app.get('/a', { body: Note }, () => 1);",
    'no error',
    'Type \'typeof Note\' is not assignable to type \'"\\"body\\" is neither an option of a GET route nor Depends(…): use query, app.post(), or meta for your own data"\'.',
  ],
  [
    'an object is not a type',
    "app.post('/a', { body: { id: Field(int) } }, () => 1);",
    "Type '{ id: number; }' is missing the following properties from type 'SchemaClass<object>': name, '~schema'",
    'Type \'{ id: number; }\' is not assignable to type \'"\\"body\\" takes a type, not an object: write class … extends Schema with these members"\'.',
  ],
  [
    'the class does not extend Schema',
    "app.post('/a', { body: Unrelated }, () => 1);",
    "Type 'typeof Unrelated' is not assignable to type '\"a class that does not extend Schema has no fields to read: write class … extends Schema\"'.",
    "Type 'typeof Unrelated' is not assignable to type '\"a class that does not extend Schema has no fields to read: write class … extends Schema\"'.",
  ],
  [
    'a field lacks its Field()',
    "app.get('/a', { query: { page: int } }, () => 1);",
    'no error',
    'Type \'FieldType<number, NumberOptions>\' is not assignable to type \'"\\"page\\" is a type, not a field: write Field(type)"\'.',
  ],
  [
    'a response has a key that is not a status',
    "app.post('/a', { response: { ok: Note } }, () => 1);",
    "Type 'number' is not assignable to type 'Promise<Answer<unknown, UndeclaredError<{ readonly ok: typeof Note; }>> | OtherReply> | Answer<unknown, UndeclaredError<{ readonly ok: typeof Note; }>> | OtherReply'.",
    "Object literal may only specify known properties, and 'ok' does not exist in type 'Readonly<Record<number, TypeSource>> | TypeSource'.",
  ],
  [
    'an option of a field is misspelt',
    'Field(str, { minLenght: 1 });',
    "Object literal may only specify known properties, but 'minLenght' does not exist in type 'TextOptions & FieldOptions<string> & { readonly optional?: false | undefined; readonly readOnly?: false | undefined; }'. Did you mean to write 'minLength'?",
    "Object literal may only specify known properties, but 'minLenght' does not exist in type 'TextOptions & FieldOptions<string> & { readonly optional?: false | undefined; readonly readOnly?: false | undefined; }'. Did you mean to write 'minLength'?",
  ],
  [
    'a default has another type',
    "Field(int, { default: 'x' });",
    "Type 'string' is not assignable to type 'number | (() => number) | undefined'.",
    "Type 'string' is not assignable to type 'number | (() => number) | undefined'.",
  ],
];

test(`the last line of the compiler's error names the member and both types, for ${MISTAKES.length} common mistakes`, async (t) => {
  const { stdout } = await compiled(t, DECLARATIONS + MISTAKES.map(([, code]) => code).join('\n'));
  const first = DECLARATIONS.split('\n').length;
  const found = new Map<string, string>();
  let mistake = '';
  for (const line of stdout.split('\n')) {
    const [, at, text = line.trim()] = /^app\.ts\((\d+),\d+\): error TS\d+: (.*)$/.exec(line) ?? [];
    if (at !== undefined) mistake = MISTAKES[Number(at) - first]?.[0] ?? line;
    else if (!line.startsWith(' ')) continue; // statistics follow the errors
    found.set(mistake, text);
  }
  for (const [name, , before, now] of MISTAKES)
    assert.deepEqual({ name, before, now: found.get(name) }, { name, before, now });
  assert.equal(found.size, MISTAKES.length, [...found.keys()].join('\n'));
});
